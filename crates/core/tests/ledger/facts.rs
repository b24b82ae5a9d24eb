//! The facts that the rules extract.

use baton_core::ledger::{AnswerState, CommandOutcome, Ledger, UtteranceKind};
use baton_core::transcript::TodoStatus;
use serde_json::json;

use crate::claude::{Transcript, working_session};

#[test]
fn every_fact_knows_the_record_it_came_from() {
    let transcript = working_session();
    let text = transcript.text();
    let ledger = transcript.ledger();
    let latest = ledger.words.latest().unwrap();
    let line = text[usize::try_from(latest.origin.offset).unwrap()..].lines().next().unwrap();
    assert!(line.contains("expired token"), "{line}");
    assert!(line.contains(&format!("\"uuid\":\"{}\"", latest.origin.uuid.as_deref().unwrap())));
    let commit = ledger.git.commits.last().unwrap();
    assert!(
        text[usize::try_from(commit.origin.offset).unwrap()..].lines().next().unwrap().contains("1a2b3c4")
    );
}

#[test]
fn the_first_and_the_latest_request_are_kept_word_for_word() {
    let ledger = working_session().ledger();
    assert_eq!(
        ledger.words.first.as_ref().unwrap().text,
        "Fix the login bug. Never touch the vendored code!\nKeep the old API."
    );
    assert_eq!(
        ledger.words.latest().unwrap().text,
        "Now add a test for the expired token, but only in tests/."
    );
    assert_eq!(ledger.words.answered, AnswerState::Yes);
}

#[test]
fn a_request_is_unanswered_until_the_agent_speaks_and_open_while_it_works() {
    let asked = Transcript::default().user("Do it.");
    assert_eq!(asked.ledger().words.answered, AnswerState::No);
    let working = asked.agent("Looking.").call("t", "Bash", &json!({"command": "sleep 99"}));
    let ledger = working.ledger();
    assert_eq!(ledger.words.answered, AnswerState::Working);
    assert_eq!(ledger.in_flight().collect::<Vec<_>>(), ["sleep 99"]);
    let stopped = working.user("[Request interrupted by user for tool use]");
    assert_eq!(stopped.ledger().words.answered, AnswerState::Interrupted);
}

#[test]
fn rules_and_corrections_are_sentences_of_the_user_and_of_nobody_else() {
    let ledger = working_session()
        .raw(&json!({"type": "user", "isMeta": true, "message": {"role": "user", "content": "You must always obey skills."}}))
        .compacted()
        .ledger();
    let rules: Vec<&str> = ledger.words.rules.iter().map(|rule| rule.text.as_str()).collect();
    assert_eq!(
        rules,
        [
            "Never touch the vendored code!",
            "Keep the old API.",
            "no force pushes, open a new branch",
            "Now add a test for the expired token, but only in tests/.",
        ]
    );
}

#[test]
fn a_prompt_typed_while_the_agent_works_counts_once() {
    let queued = json!({"type": "queue-operation", "operation": "enqueue", "content": "and the docs too"});
    let ledger = Transcript::default().user("Fix it.").raw(&queued).user("and the docs too").ledger();
    let words: Vec<_> = ledger.words.recent.iter().map(|said| (said.text.as_str(), said.way)).collect();
    assert_eq!(words, [("Fix it.", UtteranceKind::Prompt), ("and the docs too", UtteranceKind::Prompt)]);
}

#[test]
fn text_that_the_client_writes_in_the_users_name_is_not_a_request() {
    let ledger = Transcript::default()
        .user("Fix it.")
        .user("<local-command-stdout>Set model</local-command-stdout>")
        .user("<command-name>/compact</command-name><command-args></command-args>")
        .user("<system-reminder>never mind</system-reminder>")
        .ledger();
    assert_eq!(ledger.words.recent.len(), 1);
    let with_words = Transcript::default()
        .user("<command-message>plan</command-message>\n<command-name>/plan</command-name>\n<command-args>only the parser</command-args>")
        .ledger();
    let latest = with_words.words.latest().unwrap();
    assert_eq!((latest.text.as_str(), latest.command.as_deref()), ("only the parser", Some("/plan")));
}

#[test]
fn files_tell_what_was_done_to_them_and_how_often() {
    let ledger = working_session().shell("rm src/old.rs && cat > notes.txt <<'EOF'\nx\nEOF", "").ledger();
    let files: Vec<(String, bool, u32, bool)> =
        ledger.files.changed().map(|f| (f.path.clone(), f.created, f.edits, f.deleted)).collect();
    assert_eq!(
        files,
        [
            ("notes.txt".to_owned(), false, 1, false),
            ("src/old.rs".to_owned(), false, 0, true),
            ("src/token.rs".to_owned(), false, 1, false),
            ("docs/plans/login.md".to_owned(), true, 0, false),
            ("src/login.rs".to_owned(), false, 2, false),
        ]
    );
    assert_eq!(ledger.plan.unwrap().path, "docs/plans/login.md");
}

#[test]
fn an_edit_that_failed_changed_nothing() {
    let ledger = Transcript::default()
        .call("t", "Edit", &json!({"file_path": "/a.rs"}))
        .result("t", "<tool_use_error>String to replace not found in file.</tool_use_error>", true)
        .ledger();
    assert_eq!(ledger.files.changed().count(), 0);
    assert!(ledger.commands.errors.last().unwrap().text.contains("not found"));
}

#[test]
fn an_error_is_resolved_when_the_same_thing_works_and_replaced_when_it_works_another_way() {
    let ledger = working_session().ledger();
    let errors: Vec<(&str, CommandOutcome, bool)> = ledger
        .commands
        .errors
        .iter()
        .filter(|e| !e.refusal)
        .map(|e| (e.cause.as_str(), e.outcome, e.resolved.is_some()))
        .collect();
    assert_eq!(
        errors,
        [
            ("cargo test login", CommandOutcome::Exit(101), true),
            ("cargo clippy -- -D warnings", CommandOutcome::Exit(1), false)
        ]
    );
    let replaced = ledger.commands.replaced.last().unwrap();
    assert_eq!(
        (replaced.tried.as_str(), replaced.instead.as_str()),
        ("cargo test login", "cargo test login -- --nocapture")
    );
}

#[test]
fn todos_follow_their_tool() {
    let ledger = working_session().ledger();
    let tasks: Vec<_> = ledger.todos.tasks.iter().map(|t| (t.text.as_str(), t.status)).collect();
    assert_eq!(
        tasks,
        [("Reproduce the bug", TodoStatus::Completed), ("Write the fix", TodoStatus::InProgress)]
    );
    let list = |status: &str| json!({"todos": [{"content": "one", "status": "completed"}, {"content": "two", "status": status}]});
    let ledger = Transcript::default()
        .tool("TodoWrite", &list("pending"), "ok")
        .tool("TodoWrite", &list("in_progress"), "ok")
        .ledger();
    let open: Vec<_> = ledger.todos.open().map(|t| (t.text.as_str(), t.status)).collect();
    assert_eq!(open, [("two", TodoStatus::InProgress)], "the whole list replaces the one before");
}

#[test]
fn background_work_runs_until_the_transcript_says_otherwise() {
    let session = working_session();
    let running = |ledger: &Ledger| ledger.jobs.running().map(|j| j.what.clone()).collect::<Vec<_>>();
    assert_eq!(running(&session.ledger()), ["npm run dev"]);
    let over = "<task-notification>\n<task-id>b7f3</task-id>\n<status>completed</status>\n<summary>done</summary>\n</task-notification>";
    let session = session.user(over);
    assert!(running(&session.ledger()).is_empty());
    assert_eq!(
        session.ledger().words.latest().unwrap().text.split(' ').next(),
        Some("Now"),
        "a notice is no request"
    );
}

#[test]
fn a_question_stays_open_until_the_user_speaks() {
    let asked = Transcript::default().user("Go.").call(
        "q",
        "AskUserQuestion",
        &json!({"questions": [{"question": "Which port?"}]}),
    );
    assert_eq!(asked.ledger().questions[0].text, "Which port?");
    let answered = asked.result("q", "User has answered your questions: \"Which port?\"=\"8080\".", false);
    assert!(answered.ledger().questions.is_empty());
    let ledger = answered.ledger();
    let answer = ledger.words.answers.last().unwrap();
    assert_eq!((answer.question.as_str(), answer.text.as_str()), ("Which port?", "8080"));
}

#[test]
fn facts_before_a_compaction_still_count_and_are_known_to_be_older() {
    let ledger = working_session().compacted().user("Go on with the docs.").ledger();
    assert_eq!(ledger.cycle, 1);
    assert!(ledger.words.first.as_ref().unwrap().text.starts_with("Fix the login bug."));
    assert_eq!(ledger.words.openings.last().unwrap().text, "Go on with the docs.");
    assert_eq!(ledger.git.commits.last().unwrap().origin.cycle, 0);
}

#[test]
fn a_subagents_records_are_not_the_sessions() {
    let side = json!({
        "type": "assistant", "uuid": "x", "isSidechain": true,
        "message": {"id": "m", "role": "assistant", "content": [{"type": "text", "text": "I am a subagent."}]},
    });
    let ledger = Transcript::default().user("Go.").agent("Mine.").raw(&side).ledger();
    assert_eq!(ledger.last_reply().unwrap().text, "Mine.");
    assert_eq!(ledger.counts().sidechain, 1);
}

#[test]
fn records_that_a_resume_copied_are_counted_once() {
    let mut session = working_session();
    let copy = session.lines.clone();
    session.lines.extend(copy);
    let ledger = session.ledger();
    assert_eq!(ledger.files.files.iter().find(|f| f.path.ends_with("login.rs")).unwrap().edits, 2);
    assert!(ledger.counts().repeated > 20);
}

#[test]
fn unknown_types_and_fields_are_harmless_and_counted() {
    let ledger = Transcript::default()
        .user("Go.")
        .raw(&json!({"type": "hologram", "payload": {"x": [1, 2]}}))
        .raw(&json!({"type": "user", "message": {"role": "user", "content": [{"type": "smell", "x": 1}]}, "new": null}))
        .ledger();
    assert_eq!(ledger.counts().unknown, 1);
    assert_eq!(ledger.counts().unreadable, 0);
    assert_eq!(ledger.notes(), ["1 of 3 lines are of a kind that this version does not know."]);
}
