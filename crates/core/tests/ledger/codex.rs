//! A Codex rollout yields the same facts.

use baton_core::ledger::{Answered, Ledger, Outcome};
use baton_core::transcript::{Provider, TodoStatus};
use serde_json::{Value, json};

fn line(kind: &str, payload: &Value) -> String {
    format!(
        "{}\n",
        json!({"timestamp": "2026-11-16T10:00:00.000Z", "ordinal": 1, "type": kind, "payload": payload})
    )
}

fn message(id: &str, role: &str, text: &str) -> String {
    line(
        "response_item",
        &json!({"type": "message", "id": id, "role": role, "content": [{"type": "input_text", "text": text}]}),
    )
}

fn call(id: &str, name: &str, arguments: &Value) -> String {
    let payload = json!({"type": "function_call", "id": format!("fc{id}"), "name": name, "arguments": arguments.to_string(), "call_id": id});
    line("response_item", &payload)
}

fn output(id: &str, text: &str) -> String {
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
    assert_eq!(ledger.provider(), Some(Provider::Codex));
    assert_eq!(ledger.counts().unreadable, 0);
    assert_eq!(ledger.session.as_deref(), Some("th-1"));
    assert_eq!(ledger.git.branch.as_ref().unwrap().text, "main");
    assert_eq!(ledger.words.first.as_ref().unwrap().text, "Make it fast. Don't change the format.");
    assert_eq!(ledger.words.rules.last().unwrap().text, "Don't change the format.");
    assert_eq!(ledger.words.latest().unwrap().text, "Next: the docs.");
    assert_eq!(ledger.words.answered, Answered::Interrupted);
    assert_eq!(ledger.stretch, 1);
    let todos: Vec<_> = ledger.todos.tasks.iter().map(|t| (t.text.as_str(), t.status)).collect();
    assert_eq!(todos, [("Measure", TodoStatus::Completed), ("Cut", TodoStatus::InProgress)]);
    let files: Vec<_> = ledger.files.changed().map(|f| (f.path.as_str(), f.created, f.edits)).collect();
    assert_eq!(files, [("src/b.rs", true, 0), ("src/a.rs", false, 1)]);
    let commands: Vec<_> = ledger.commands.commands.iter().map(|c| (c.text.as_str(), c.outcome)).collect();
    assert_eq!(commands, [("cargo test", Outcome::Exit(101)), ("cargo test -q", Outcome::Exit(0))]);
    assert!(ledger.commands.errors.last().unwrap().resolved.is_some());
    assert_eq!(ledger.last_reply.as_ref().unwrap().text, "All 9 tests pass.");
}

#[test]
fn a_command_that_goes_on_in_the_background_is_running() {
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
