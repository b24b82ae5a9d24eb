//! Builds transcripts in the form that the clients write.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use baton_testkit::Home;
use serde_json::{Value, json};

/// An id of the form that the clients use.
pub fn id(n: u32) -> String {
    format!("{n:08x}-0000-4000-8000-000000000000")
}

/// A conversation of Claude Code in `cwd`, where the client would keep it.
pub struct Claude {
    path: PathBuf,
    id: String,
    cwd: String,
    text: String,
    count: u32,
}

impl Claude {
    pub fn new(home: &Home, n: u32, cwd: &Path) -> Self {
        std::fs::create_dir_all(cwd).unwrap();
        let cwd = std::fs::canonicalize(cwd).unwrap().display().to_string();
        let slug: String = cwd.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let path = home.path().join(format!(".claude/projects/{slug}/{}.jsonl", id(n)));
        Self { path, id: id(n), cwd, text: String::new(), count: 0 }
    }

    /// Adds a record with the fields that all records have, a minute after the last one.
    #[must_use]
    pub fn record(mut self, kind: &str, fields: Value) -> Self {
        self.count += 1;
        let mut record = json!({
            "type": kind, "uuid": format!("{}-{}", self.id, self.count), "isSidechain": false, "cwd": self.cwd,
            "sessionId": self.id, "gitBranch": "main",
            "timestamp": format!("2026-11-{:02}T10:{:02}:00.000Z", 1 + u32::from_str_radix(&self.id[..8], 16).unwrap() % 28, self.count),
        });
        if let (Value::Object(record), Value::Object(fields)) = (&mut record, fields) {
            record.extend(fields);
        }
        let _ = writeln!(self.text, "{record}");
        self
    }

    #[must_use]
    pub fn user(self, text: &str) -> Self {
        self.record("user", json!({ "message": { "role": "user", "content": text } }))
    }

    #[must_use]
    pub fn says(self, text: &str) -> Self {
        let content = json!([{ "type": "text", "text": text }]);
        self.assistant(&content)
    }

    #[must_use]
    pub fn calls(self, call: &str, tool: &str, input: &Value) -> Self {
        let content = json!([{ "type": "tool_use", "id": call, "name": tool, "input": input }]);
        self.assistant(&content)
    }

    #[must_use]
    pub fn gives(self, call: &str, text: &str) -> Self {
        let result = json!([{ "type": "tool_result", "tool_use_id": call, "content": text }]);
        self.record("user", json!({ "message": { "role": "user", "content": result } }))
    }

    fn assistant(self, content: &Value) -> Self {
        let message = json!({ "id": format!("m{}", self.count), "role": "assistant", "model": "claude-opus-5-5",
            "content": content, "usage": { "input_tokens": 41_000, "output_tokens": 1_000 } });
        self.record("assistant", json!({ "message": message }))
    }

    pub fn write(self) -> PathBuf {
        std::fs::create_dir_all(self.path.parent().unwrap()).unwrap();
        std::fs::write(&self.path, self.text).unwrap();
        self.path
    }
}

/// Writes a conversation of Codex below `codex`, its folder.
pub fn codex(codex: &Path, n: u32, cwd: &Path, asked: &str, answered: &str) -> PathBuf {
    let line = |second: u32, kind: &str, payload: Value| {
        json!({ "timestamp": format!("2026-11-10T00:00:{second:02}.000Z"), "type": kind, "payload": payload })
            .to_string()
            + "\n"
    };
    let said = |role: &str, text: &str| json!({ "type": "message", "id": format!("{role}{n}"), "role": role, "content": [{ "type": "text", "text": text }] });
    let text =
        line(0, "session_meta", json!({ "id": id(n), "cwd": cwd, "base_instructions": "x".repeat(20_000) }))
            + &line(1, "response_item", said("user", asked))
            + &line(2, "response_item", said("assistant", answered))
            + &line(
                3,
                "event_msg",
                json!({ "type": "token_count", "info": { "last_token_usage": { "total_tokens": 5050 } } }),
            )
            + &line(4, "event_msg", json!({ "type": "task_complete" }));
    let path = codex.join(format!("sessions/2026/11/10/rollout-2026-11-10T00-00-00-{}.jsonl", id(n)));
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, text).unwrap();
    path
}
