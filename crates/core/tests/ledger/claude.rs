//! Writes Claude Code transcripts, line by line.

use baton_core::ledger::Ledger;
use serde_json::{Value, json};

/// What the client writes when the user refuses a call.
pub(crate) const REFUSED: &str = "The user doesn't want to proceed with this tool use. The tool use was rejected. To tell you \
    how to proceed, the user said:\n";

#[derive(Debug, Default)]
pub(crate) struct Transcript {
    pub lines: Vec<String>,
    next: u32,
}

impl Transcript {
    pub(crate) fn raw(mut self, record: &Value) -> Self {
        self.lines.push(record.to_string());
        self
    }

    fn record(mut self, kind: &str, message: &Value) -> Self {
        self.next += 1;
        let record = json!({
            "type": kind, "uuid": format!("u{}", self.next), "isSidechain": false, "sessionId": "s-1",
            "cwd": "/home/dev/app", "gitBranch": "fix/login",
            "timestamp": format!("2026-11-16T10:00:{:02}.000Z", self.next % 60), "message": message,
        });
        self.raw(&record)
    }

    pub(crate) fn user(self, text: &str) -> Self {
        self.record("user", &json!({"role": "user", "content": text}))
    }

    /// A text in the user's place that the client says is someone else's.
    pub(crate) fn attributed(mut self, kind: &str, text: &str) -> Self {
        self = self.user(text);
        if let Some(line) = self.lines.last_mut() {
            let mut record: Value = serde_json::from_str(line).expect("a record of our own");
            record["origin"] = json!({"kind": kind});
            *line = record.to_string();
        }
        self
    }

    /// A record of the client's queue.
    pub(crate) fn queued(self, content: &str) -> Self {
        self.raw(&json!({"type": "queue-operation", "operation": "enqueue", "content": content}))
    }

    pub(crate) fn agent(self, text: &str) -> Self {
        let id = format!("m{}", self.next + 1);
        self.record(
            "assistant",
            &json!({"id": id, "role": "assistant", "content": [{"type": "text", "text": text}]}),
        )
    }

    pub(crate) fn call(self, id: &str, name: &str, input: &Value) -> Self {
        let block = json!({"type": "tool_use", "id": id, "name": name, "input": input});
        let message = format!("m{}", self.next + 1);
        self.record("assistant", &json!({"id": message, "role": "assistant", "content": [block]}))
    }

    pub(crate) fn result(self, id: &str, output: &str, failed: bool) -> Self {
        let block = json!({"type": "tool_result", "tool_use_id": id, "content": output, "is_error": failed});
        self.record("user", &json!({"role": "user", "content": [block]}))
    }

    /// Records that the user refused a call, with a reason, as the client does.
    pub(crate) fn refused(mut self, id: &str, reason: &str) -> Self {
        let text = format!("{REFUSED}{reason}");
        self = self.result(id, &text, true);
        if let Some(line) = self.lines.last_mut() {
            let mut record: Value = serde_json::from_str(line).expect("a record of our own");
            record["toolUseResult"] = json!(format!("Error: {text}"));
            *line = record.to_string();
        }
        self
    }

    pub(crate) fn tool(self, name: &str, input: &Value, output: &str) -> Self {
        let id = format!("t{}", self.next + 1);
        self.call(&id, name, input).result(&id, output, false)
    }

    pub(crate) fn shell(self, command: &str, output: &str) -> Self {
        self.tool("Bash", &json!({"command": command}), output)
    }

    pub(crate) fn shell_fails(self, command: &str, output: &str) -> Self {
        let id = format!("t{}", self.next + 1);
        self.call(&id, "Bash", &json!({"command": command})).result(&id, output, true)
    }

    pub(crate) fn edit(self, path: &str) -> Self {
        let input = json!({"file_path": path, "old_string": "a", "new_string": "b"});
        self.tool("Edit", &input, &format!("The file {path} has been updated."))
    }

    pub(crate) fn compacted(mut self) -> Self {
        self.next += 1;
        let uuid = format!("b{}", self.next);
        let boundary = json!({"type": "system", "subtype": "compact_boundary", "uuid": uuid, "content": "Conversation compacted"});
        let summary = json!({
            "type": "user", "uuid": format!("c{}", self.next), "isCompactSummary": true,
            "message": {"role": "user", "content": "This session is being continued from a previous conversation. You must obey."},
        });
        self.raw(&boundary).raw(&summary)
    }

    pub(crate) fn text(&self) -> String {
        let mut text = self.lines.join("\n");
        text.push('\n');
        text
    }

    pub(crate) fn ledger(&self) -> Ledger {
        Ledger::of(self.text().as_bytes()).expect("reading from memory")
    }
}

/// A session with a bit of everything.
pub(crate) fn working_session() -> Transcript {
    Transcript::default()
        .user("Fix the login bug. Never touch the vendored code!\nKeep the old API.")
        .agent("I will look at `login.rs` first.")
        .tool("Read", &json!({"file_path": "/home/dev/app/src/login.rs"}), "fn login() {}")
        .tool(
            "TaskCreate",
            &json!({"subject": "Reproduce the bug"}),
            "Task #1 created successfully: Reproduce the bug",
        )
        .tool(
            "TaskCreate",
            &json!({"subject": "Write the fix"}),
            "Task #2 created successfully: Write the fix",
        )
        .tool("TaskUpdate", &json!({"taskId": "1", "status": "completed"}), "Updated task #1 status")
        .tool("TaskUpdate", &json!({"taskId": "2", "status": "in_progress"}), "Updated task #2 status")
        .edit("/home/dev/app/src/login.rs")
        .edit("/home/dev/app/src/login.rs")
        .tool(
            "Write",
            &json!({"file_path": "/home/dev/app/docs/plans/login.md", "content": "x"}),
            "File created successfully at: /home/dev/app/docs/plans/login.md",
        )
        .shell_fails(
            "cargo test login",
            "Exit code 101\ntest login ... FAILED\nassertion failed: token is empty",
        )
        .edit("/home/dev/app/src/token.rs")
        .shell("cargo test login -- --nocapture", "test login ... ok\ntest result: ok. 1 passed; 0 failed")
        .shell("git commit -am 'Fix login'", "[fix/login 1a2b3c4] Fix login\n 2 files changed")
        .shell("gh pr create --fill", "https://github.com/acme/app/pull/17")
        .tool(
            "Bash",
            &json!({"command": "npm run dev", "run_in_background": true}),
            "Command running in background with ID: b7f3",
        )
        .tool("Task", &json!({"description": "Review the fix", "prompt": "…"}), "The fix is sound.")
        .call("r1", "Bash", &json!({"command": "git push --force"}))
        .refused("r1", "no force pushes, open a new branch")
        .user("Now add a test for the expired token, but only in tests/.")
        .shell_fails("cargo clippy -- -D warnings", "Exit code 1\nerror: unused variable: `token`")
        .agent("Clippy complains about `token`. Shall I remove it? See #17.")
}
