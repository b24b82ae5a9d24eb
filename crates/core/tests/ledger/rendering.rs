//! What a successor reads.

use baton_core::handoff::render::{goal_and_now, render};

use serde_json::json;

use crate::claude::{Transcript, working_session};

#[test]
fn a_session_becomes_a_short_document_of_facts() {
    insta::assert_snapshot!(render(&working_session().ledger(), None), @r#"
    ## Goal
    First request:
    ```
    Fix the login bug. Never touch the vendored code!
    Keep the old API.
    ```

    ## Now
    Latest request (answered): Now add a test for the expired token, but only in tests/.
    Last message of the agent: Clippy complains about `token`. Shall I remove it? See #17.

    ## The user's words
    - refusing a call: no force pushes, open a new branch

    ## Next
    - plan file: `docs/plans/login.md`
    - [in progress] #2 Write the fix
    - running background process `b7f3`: `npm run dev`

    ## Blockers
    - failed (exit 1) · `cargo clippy -- -D warnings` →
    ```
    Exit code 1
    error: unused variable: `token`
    ```

    ## Git
    - branch: `fix/login`
    - folder: `/home/dev/app`
    - commit `1a2b3c4` Fix login
    - link: https://github.com/acme/app/pull/17

    ## Working set: files, and the names in play there
    - edited · `src/token.rs`
    - created · `docs/plans/login.md`
    - edited ×2 · `src/login.rs`

    ## Names used last, without a file
    - 1a2b3c4 https://github.com/acme/app/pull/17

    ## Commands
    - lint · failed (exit 1) · `cargo clippy -- -D warnings` → `` error: unused variable: `token` ``
    - run · exit status not seen · `npm run dev`
    - test · ok (exit 0) · `cargo test login -- --nocapture` → `test result: ok. 1 passed; 0 failed`
    - test · failed (exit 101), replaced since · `cargo test login` → `test login ... FAILED` · replaced by `cargo test login -- --nocapture`

    ## Tried and replaced
    - refused by the user: `git push --force`

    ## Done
    - [done] #1 Reproduce the bug

    ## Subagents
    - `Review the fix` The fix is sound.

    ## Earlier errors
    - failed (exit 101), resolved since · `cargo test login` →
    ```
    Exit code 101
    test login ... FAILED
    assertion failed: token is empty
    ```

    ## Recent activity, the last message first
    - assistant: I will look at `login.rs` first.

    ## Commands used last
    - `gh pr create --fill`
    - `git commit -am 'Fix login'`
    "#);
}

/// A long command that failed and was replaced stands whole in one line; beside its output its beginning is enough.
#[test]
fn a_failed_command_stands_whole_only_once() {
    let flags: Vec<String> = (0..30).map(|n| format!("--only module_{n:02}")).collect();
    let tried = format!("npm run build {}", flags.join(" "));
    let session = Transcript::default()
        .user("Build it.")
        .call("t1", "Bash", &json!({ "command": tried }))
        .result("t1", "Exit code 1\nUnknown option: --only", true)
        .call("t2", "Bash", &json!({ "command": "npm run build -- --all" }))
        .result("t2", "built in 3 s", false)
        .call("t3", "Bash", &json!({ "command": "npm run lint" }))
        .result("t3", "Exit code 1\n2 problems", true);
    let body = render(&session.ledger(), None);
    assert_eq!(body.matches("--only module_29").count(), 1, "{body}");
    assert_eq!(body.matches("npm run build --only module_00").count(), 2, "{body}");
    assert!(body.contains("Unknown option: --only"), "{body}");
}

#[test]
fn the_agents_own_words_come_first_and_then_the_facts() {
    let body = render(&working_session().ledger(), Some("# Handoff\nFixed in `src/login.rs`.\n"));
    assert!(
        body.starts_with("# Handoff\nFixed in `src/login.rs`.\n\n# What the transcript shows\n\n## Goal\n"),
        "{body}"
    );
}

#[test]
fn a_checkpoint_gets_the_users_goal_and_what_is_being_done() {
    let (goal, now) = goal_and_now(&working_session().ledger()).unwrap();
    assert_eq!((goal.as_str(), now.as_str()), ("Fix the login bug.", "Write the fix"));
}

#[test]
fn what_the_ledger_could_not_keep_is_counted_in_the_heading() {
    let mut session = Transcript::default().user("Go.");
    for i in 0..200 {
        session = session.shell(&format!("cargo test case_{i}"), "ok");
    }
    let body = render(&session.ledger(), None);
    assert!(body.contains("## Commands (150 of 200)\n"), "{body}");
}
