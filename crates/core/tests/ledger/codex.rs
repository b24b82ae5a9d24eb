//! A Codex rollout yields the same facts.

use baton_core::ledger::{AnswerState, CommandOutcome, Ledger};
use baton_core::transcript::{Dialect, TodoStatus};
use serde_json::{Value, json};

pub(crate) fn line(kind: &str, payload: &Value) -> String {
    format!(
        "{}\n",
        json!({"timestamp": "2026-11-16T10:00:00.000Z", "ordinal": 1, "type": kind, "payload": payload})
    )
}

pub(crate) fn message(id: &str, role: &str, text: &str) -> String {
    line(
        "response_item",
        &json!({"type": "message", "id": id, "role": role, "content": [{"type": "input_text", "text": text}]}),
    )
}

pub(crate) fn call(id: &str, name: &str, arguments: &Value) -> String {
    let payload = json!({"type": "function_call", "id": format!("fc{id}"), "name": name, "arguments": arguments.to_string(), "call_id": id});
    line("response_item", &payload)
}

pub(crate) fn output(id: &str, text: &str) -> String {
    let payload =
        json!({"type": "function_call_output", "id": format!("fo{id}"), "call_id": id, "output": text});
    line("response_item", &payload)
}

#[test]
fn a_rollout_tells_the_same_facts_as_a_claude_transcript() {
    let patch =
        "*** Begin Patch\n*** Update File: src/a.rs\n@@\n-x\n+y\n*** Add File: src/b.rs\n+z\n*** End Patch";
    let text = [
        line("session_meta", &json!({"id": "th-1", "cwd": "/home/dev/app", "git": {"branch": "main"}})),
        message("m1", "developer", "<permissions instructions>never</permissions instructions>"),
        message("m2", "user", "<environment_context>\n<cwd>/home/dev/app</cwd>\n</environment_context>"),
        message("m3", "user", "Make it fast. Don't change the format."),
        call("c1", "update_plan", &json!({"plan": [{"step": "Measure", "status": "completed"}, {"step": "Cut", "status": "in_progress"}]})),
        output("c1", "Plan updated"),
        call("c2", "exec_command", &json!({"cmd": "cargo test"})),
        output("c2", "Chunk ID: 1\nWall time: 0.1 seconds\nProcess exited with code 101\nOutput:\ntest a ... FAILED\n"),
        line("response_item", &json!({"type": "custom_tool_call", "id": "x", "name": "apply_patch", "input": patch, "call_id": "c3"})),
        line("response_item", &json!({"type": "custom_tool_call_output", "call_id": "c3", "output": "{\"output\":\"Success\",\"metadata\":{\"exit_code\":0}}"})),
        call("c4", "shell", &json!({"command": ["bash", "-lc", "cargo test -q"]})),
        output("c4", "Chunk ID: 2\nWall time: 0.1 seconds\nProcess exited with code 0\nOutput:\ntest result: ok. 9 passed; 0 failed\n"),
        message("m4", "assistant", "All 9 tests pass."),
        line("event_msg", &json!({"type": "task_complete", "last_agent_message": "All 9 tests pass."})),
        line("compacted", &json!({"message": "summary", "replacement_history": []})),
        message("m5", "user", "Next: the docs."),
        line("event_msg", &json!({"type": "turn_aborted", "reason": "interrupted"})),
    ]
    .concat();
    let ledger = Ledger::of(text.as_bytes()).unwrap();
    assert_eq!(ledger.provider(), Some(Dialect::Codex));
    assert_eq!(ledger.counts().unreadable, 0);
    assert_eq!(ledger.session.as_deref(), Some("th-1"));
    assert_eq!(ledger.git.branch.as_ref().unwrap().text, "main");
    assert_eq!(ledger.words.first.as_ref().unwrap().text, "Make it fast. Don't change the format.");
    assert_eq!(ledger.words.rules.last().unwrap().text, "Don't change the format.");
    assert_eq!(ledger.words.latest().unwrap().text, "Next: the docs.");
    assert_eq!(ledger.words.answered, AnswerState::Interrupted);
    assert_eq!(ledger.cycle, 1);
    let todos: Vec<_> = ledger.todos.tasks.iter().map(|t| (t.text.as_str(), t.status)).collect();
    assert_eq!(todos, [("Measure", TodoStatus::Completed), ("Cut", TodoStatus::InProgress)]);
    let files: Vec<_> = ledger.files.changed().map(|f| (f.path.as_str(), f.created, f.edits)).collect();
    assert_eq!(files, [("src/b.rs", true, 0), ("src/a.rs", false, 1)]);
    let commands: Vec<_> = ledger.commands.commands.iter().map(|c| (c.text.as_str(), c.outcome)).collect();
    assert_eq!(
        commands,
        [("cargo test", CommandOutcome::Exit(101)), ("cargo test -q", CommandOutcome::Exit(0))]
    );
    assert!(ledger.commands.errors.last().unwrap().resolved.is_some());
    assert_eq!(ledger.last_reply().unwrap().text, "All 9 tests pass.");
}

#[test]
fn a_command_that_continues_in_the_background_is_running() {
    let text = [
        line("session_meta", &json!({"id": "th-1", "cwd": "/app"})),
        call("c1", "exec_command", &json!({"cmd": "npm run dev"})),
        output(
            "c1",
            "Chunk ID: 1\nWall time: 10.0 seconds\nProcess running with session ID 4711\nOutput:\nready\n",
        ),
    ]
    .concat();
    let ledger = Ledger::of(text.as_bytes()).unwrap();
    let running: Vec<_> = ledger.jobs.running().map(|j| (j.id.as_str(), j.what.as_str())).collect();
    assert_eq!(running, [("4711", "npm run dev")]);
}

fn fixture(name: &str) -> Ledger {
    let path = format!("{}/tests/fixtures/codex/rollouts/{name}.jsonl", env!("CARGO_MANIFEST_DIR"));
    // The recorded commands are too trivial for a handoff, so put real ones in their place.
    let commands = [
        ("echo hello-shell; pwd", "cargo test --lib"),
        ("echo bg-start; sleep 6; echo bg-end", "cargo build"),
        ("echo bg2-start; sleep 4; echo bg2-end", "npm test"),
        ("echo from-sub", "cargo test sub"),
    ];
    let text = std::fs::read_to_string(path).expect("the fixture is there");
    let text = commands.iter().fold(text, |text, (recorded, real)| text.replace(recorded, real));
    Ledger::of(text.as_bytes()).expect("memory can be read")
}

/// Recorded from 0.166: shell, patch, two background processes, MCP and a subagent, all by scripts.
#[test]
fn in_code_mode_the_events_show_what_was_run_and_changed() {
    let ledger = fixture("0.166-code-mode");
    assert_eq!(ledger.counts().unreadable, 0);
    let commands: Vec<_> = ledger.commands.commands.iter().map(|c| (c.text.as_str(), c.outcome)).collect();
    assert_eq!(
        commands,
        [
            ("cargo test --lib", CommandOutcome::Exit(0)),
            ("cargo build", CommandOutcome::Exit(0)),
            ("npm test", CommandOutcome::Exit(0)),
        ]
    );
    let files: Vec<&str> = ledger.files.changed().map(|file| file.path.as_str()).collect();
    assert_eq!(files, ["note.txt"]);
    assert_eq!(ledger.jobs.running().count(), 0, "both processes have ended, looked at or not");
    let helper = ledger.jobs.jobs.iter().find(|job| job.agent && job.what == "SUBTASK do it").unwrap();
    assert_eq!(helper.result.as_deref(), Some("sub is done"), "{:?}", ledger.jobs);
    assert_eq!(ledger.words.first.as_ref().unwrap().text, "ROLLOUT task");
    assert_eq!(ledger.last_reply().unwrap().text, "all done");
}

#[test]
fn a_subagents_rollout_does_not_repeat_its_parents_words_and_commands() {
    let ledger = fixture("0.166-code-mode-subagent");
    assert_eq!(ledger.session.as_deref(), Some("01a1e7c8-d3c2-7cd2-a569-46571379d5f1"));
    let commands: Vec<&str> = ledger.commands.commands.iter().map(|c| c.text.as_str()).collect();
    assert_eq!(commands, ["cargo test sub"]);
    assert!(ledger.words.first.is_none(), "nobody typed here: {:?}", ledger.words.first);
    assert!(ledger.files.changed().next().is_none());
    assert_eq!(ledger.last_reply().unwrap().text, "sub is done");
}

fn completed(item: &Value) -> String {
    line("event_msg", &json!({"type": "item_completed", "item": item}))
}

#[test]
fn a_command_that_the_client_reports_as_failed_failed_in_any_language() {
    let item = json!({"type": "CommandExecution", "id": "e1", "command": ["/bin/bash", "-lc", "npm test"],
        "aggregated_output": "Fehler: drei Prüfungen sind gescheitert", "exit_code": 3, "status": "failed"});
    let declined = json!({"type": "FileChange", "id": "e2", "status": "declined",
        "changes": {"/home/dev/app/no.rs": {"type": "add", "content": "x"}}});
    let moved = json!({"type": "FileChange", "id": "e3", "status": "completed", "changes": {
        "/home/dev/app/old.rs": {"type": "update", "unified_diff": "@@ -1 +1 @@\n-a\n+b\n", "move_path": "/home/dev/app/new.rs"}}});
    let text = [
        line("session_meta", &json!({"id": "t", "cwd": "/home/dev/app"})),
        message("m", "user", "Prüfe es."),
        completed(&item),
        completed(&declined),
        completed(&moved),
    ];
    let ledger = Ledger::of(text.concat().as_bytes()).unwrap();
    let ran = ledger.commands.commands.iter().next().unwrap();
    assert_eq!((ran.text.as_str(), ran.outcome), ("npm test", CommandOutcome::Exit(3)));
    let changed: Vec<&str> = ledger.files.changed().map(|file| file.path.as_str()).collect();
    assert!(changed.contains(&"new.rs") && !changed.contains(&"no.rs"), "{changed:?}");
}

#[test]
fn directives_of_the_desktop_client_give_branch_and_link_and_are_not_words() {
    let reply = "Pushed it.\n::git-push{cwd=\"/home/dev/app\" branch=\"topic/parser\"}\n\
        ::git-create-pr{cwd=\"/home/dev/app\" branch=\"topic/parser\" url=\"https://github.com/acme/app/pull/17\"}";
    let text = [
        line("session_meta", &json!({"id": "t", "cwd": "/home/dev/app"})),
        message("m", "user", "Push it."),
        message("a", "assistant", reply),
    ];
    let ledger = Ledger::of(text.concat().as_bytes()).unwrap();
    assert_eq!(ledger.last_reply().unwrap().text, "Pushed it.");
    assert_eq!(ledger.git.branch.as_ref().unwrap().text, "topic/parser");
    assert!(ledger.git.links.iter().any(|link| link.text.ends_with("/pull/17")), "{:?}", ledger.git.links);
}

#[test]
fn output_of_a_multi_command_script_from_a_secret_file_is_not_carried() {
    let source = "const a = await tools.exec_command({cmd: \"cat .env\"}); \
        const b = await tools.exec_command({cmd: \"ls src\"}); text(a.output + b.output);";
    let shown = "Script completed\nWall time 0.1 seconds\nOutput:\nBuildServerHost xK93LongLookingName_ofThing src/parser_token.rs";
    let text = [
        line("session_meta", &json!({"id": "t", "cwd": "/home/dev/app"})),
        message("m", "user", "Look around."),
        line(
            "response_item",
            &json!({"type": "custom_tool_call", "name": "exec", "input": source, "call_id": "c"}),
        ),
        line("response_item", &json!({"type": "custom_tool_call_output", "call_id": "c", "output": shown})),
    ];
    let ledger = Ledger::of(text.concat().as_bytes()).unwrap();
    let kept = serde_json::to_string(&ledger.working).unwrap();
    assert!(!kept.contains("ofThing") && !kept.contains("BuildServerHost"), "{kept}");
    let without = text.concat().replace("cat .env", "cat a.rs");
    let kept = serde_json::to_string(&Ledger::of(without.as_bytes()).unwrap().working).unwrap();
    assert!(kept.contains("ofThing"), "the test proves nothing: {kept}");
}

/// A script in code mode, and what it gave: its head, then each text that it printed.
fn exec(id: &str, source: &str, head: &str, texts: &[&str]) -> String {
    let item = |text: &str| json!({"type": "input_text", "text": text});
    let head = item(&format!("{head}\nWall time 1.0 seconds\nOutput:\n"));
    let output: Vec<Value> = std::iter::once(head).chain(texts.iter().map(|text| item(text))).collect();
    let call = json!({"type": "custom_tool_call", "name": "exec", "input": source, "call_id": id});
    let result = json!({"type": "custom_tool_call_output", "call_id": id, "output": output});
    [line("response_item", &call), line("response_item", &result)].concat()
}

const COMPLETED: &str = "Script completed";

fn run(id: &str, cmd: &str, result: &str) -> String {
    let source = format!("const r = await tools.exec_command({{cmd: \"{cmd}\"}}); text(JSON.stringify(r))");
    exec(id, &source, COMPLETED, &[result])
}

fn running(ledger: &Ledger) -> Vec<&str> {
    ledger.jobs.running().map(|job| job.id.as_str()).collect()
}

const LEFT: &str = r#"{"chunk_id":"a","wall_time_seconds":1.0,"session_id":71,"output":"Compiling"}"#;

#[test]
fn a_process_of_code_mode_has_ended_when_a_look_does_not_show_it_running() {
    let start = [
        line("session_meta", &json!({"id": "t", "cwd": "/home/dev/app"})),
        message("m", "user", "Test it."),
        run("c1", "cargo test", LEFT),
    ]
    .concat();
    assert_eq!(running(&Ledger::of(start.as_bytes()).unwrap()), ["71"]);
    let poll = "const r = await tools.write_stdin({session_id: 71, chars: \"\"}); text(r.output)";
    let wait = |id, head: &str, text| {
        let result = json!({"type": "function_call_output", "call_id": id, "output": [
            {"type": "input_text", "text": format!("{head}\nWall time 9.0 seconds\nOutput:\n")},
            {"type": "input_text", "text": text},
        ]});
        [call(id, "wait", &json!({"cell_id": "5"})), line("response_item", &result)].concat()
    };
    let aborted =
        [call("c2", "write_stdin", &json!({"session_id": 71})), output("c2", "aborted by user after 9.7s")];
    for still in [exec("c2", poll, COMPLETED, &[LEFT]), aborted.concat()] {
        assert_eq!(running(&Ledger::of([&*start, &still].concat().as_bytes()).unwrap()), ["71"], "{still}");
    }
    let ended = r#"{"chunk_id":"b","wall_time_seconds":0.1,"exit_code":101,"output":"test a ... FAILED"}"#;
    for (what, lines, outcome) in [
        ("its output alone", exec("c2", poll, COMPLETED, &["running 3 tests"]), CommandOutcome::Unknown),
        ("a status", exec("c2", poll, COMPLETED, &[ended]), CommandOutcome::Exit(101)),
        (
            "a status in the cell of the look",
            [exec("c2", poll, "Script running with cell ID 5", &[]), wait("c3", COMPLETED, ended)].concat(),
            CommandOutcome::Exit(101),
        ),
        (
            "a look that waits twice",
            [
                exec("c2", poll, "Script running with cell ID 5", &[]),
                wait("c3", "Script running with cell ID 5", ""),
                wait("c4", COMPLETED, ended),
            ]
            .concat(),
            CommandOutcome::Exit(101),
        ),
    ] {
        let ledger = Ledger::of([start.as_str(), &lines].concat().as_bytes()).unwrap();
        assert!(running(&ledger).is_empty(), "{what}: {:?}", ledger.jobs);
        let tests = ledger.commands.commands.iter().next().unwrap();
        assert_eq!((tests.text.as_str(), tests.outcome, tests.runs), ("cargo test", outcome, 1), "{what}");
    }
}

#[test]
fn results_of_calls_at_once_belong_each_to_its_own_call() {
    let source = "const rs = await Promise.all([tools.exec_command({cmd: \"cargo test a\"}), \
        tools.exec_command({cmd: \"cargo test b\"})]); rs.forEach(text)";
    let text = [
        line("session_meta", &json!({"id": "t", "cwd": "/home/dev/app"})),
        message("m", "user", "Test it."),
        exec(
            "c1",
            source,
            COMPLETED,
            &[LEFT, r#"{"chunk_id":"b","exit_code":0,"output":"test result: ok. 1 passed; 0 failed"}"#],
        ),
    ]
    .concat();
    let ledger = Ledger::of(text.as_bytes()).unwrap();
    let jobs: Vec<_> = ledger.jobs.running().map(|job| (job.id.as_str(), job.what.as_str())).collect();
    assert_eq!(jobs, [("71", "cargo test a")]);
    let commands: Vec<_> = ledger.commands.commands.iter().map(|c| (c.text.as_str(), c.outcome)).collect();
    assert_eq!(
        commands,
        [("cargo test a", CommandOutcome::Unknown), ("cargo test b", CommandOutcome::Exit(0))]
    );
    let looks = "const rs = await Promise.all([tools.write_stdin({session_id: 71}), \
        tools.write_stdin({session_id: 72})]); rs.forEach(text)";
    let ended = exec("c2", looks, COMPLETED, &[r#"{"chunk_id":"c","exit_code":0,"output":"ok"}"#, LEFT]);
    let ledger = Ledger::of([text, ended].concat().as_bytes()).unwrap();
    assert!(running(&ledger).is_empty(), "{:?}", ledger.jobs);
}

#[test]
fn a_process_that_nobody_looked_at_since_the_last_request_is_not_said_to_run() {
    let text = [
        line("session_meta", &json!({"id": "t", "cwd": "/home/dev/app"})),
        message("m", "user", "Test it."),
        run("c1", "npm run dev", LEFT),
    ]
    .concat();
    let document = |text: &str| {
        let ledger = Ledger::of(text.as_bytes()).unwrap();
        baton_core::handoff::pack::pack(&ledger, None, 9_500, "archive/x.md").text
    };
    assert!(
        document(&text).contains("- running background process `71`: `npm run dev`"),
        "{}",
        document(&text)
    );
    let later = [text, message("a", "assistant", "It runs."), message("n", "user", "Now the docs.")].concat();
    let later = document(&later);
    assert!(later.contains("- its end was not seen: background process `71`: `npm run dev`"), "{later}");
    assert!(!later.contains("- running background"), "{later}");
}

#[test]
fn nothing_is_in_flight_when_the_turn_has_ended() {
    let text = [
        line("session_meta", &json!({"id": "t", "cwd": "/home/dev/app"})),
        message("m", "user", "Test it."),
        call("c1", "exec_command", &json!({"cmd": "cargo test --all"})),
        call("c2", "exec_command", &json!({"cmd": "cargo test --all"})),
    ]
    .concat();
    let document = |text: &str| {
        let ledger = Ledger::of(text.as_bytes()).unwrap();
        baton_core::handoff::pack::pack(&ledger, None, 9_500, "archive/x.md").text
    };
    assert_eq!(document(&text).matches("in flight at the end").count(), 1, "{}", document(&text));
    let ended =
        [text, message("a", "assistant", "Done."), line("event_msg", &json!({"type": "task_complete"}))];
    assert!(!document(&ended.concat()).contains("in flight"));
}

#[test]
fn the_branch_is_what_git_says_in_the_folder_of_the_session() {
    let ran = |id: &str, args: Value, output: &str| {
        let text = format!("Process exited with code 0\nOutput:\n{output}\n");
        [call(id, "exec_command", &args), self::output(id, &text)].concat()
    };
    let mut text = [
        line("session_meta", &json!({"id": "t", "cwd": "/home/dev/app", "git": {"branch": "main"}})),
        message("m", "user", "Fix it."),
    ]
    .concat();
    let mut then = |lines: String, branch: &str| {
        text.push_str(&lines);
        let ledger = Ledger::of(text.as_bytes()).unwrap();
        assert_eq!(ledger.git.branch.unwrap().text, branch, "{lines}");
    };
    then(ran("a", json!({"cmd": "git switch -c fix/a"}), "Switched to a new branch 'fix/a'"), "fix/a");
    then(ran("b", json!({"cmd": "git commit -m x"}), "[fix/b 1a2b3c4] x"), "fix/b");
    then(
        ran("c", json!({"cmd": "git status -sb", "workdir": "/home/dev/app/"}), "## fix/c...origin/fix/c"),
        "fix/c",
    );
    for elsewhere in [
        json!({"cmd": "git commit -m y", "workdir": "/home/dev/other"}),
        json!({"cmd": "cd ../other && git commit -m y"}),
        json!({"cmd": "git -C /home/dev/other commit -m y"}),
        json!({"cmd": "cd .worktrees/z && git commit -m y"}),
    ] {
        then(ran("d", elsewhere, "[other 5e6f7a8] y"), "fix/c");
    }
}

#[test]
fn the_json_around_an_output_in_code_mode_gives_neither_names_nor_errors() {
    let result = r#"{"chunk_id":"a","exit_code":1,"output":"\u001b[0;0H\u001b[JRefreshing loadTheThing\r\nno such file"}"#;
    let text = [
        line("session_meta", &json!({"id": "t", "cwd": "/home/dev/app"})),
        message("m", "user", "Watch it."),
        run("c1", "make watch", result),
    ]
    .concat();
    let ledger = Ledger::of(text.as_bytes()).unwrap();
    let error = ledger.commands.errors.last().unwrap();
    assert_eq!(
        (error.outcome, error.text.lines().next()),
        (CommandOutcome::Exit(1), Some("Refreshing loadTheThing"))
    );
    let kept = serde_json::to_string(&ledger.working).unwrap();
    assert!(
        kept.contains("loadTheThing") && !kept.contains("chunk_id") && !kept.contains("JRefreshing"),
        "{kept}"
    );
}
