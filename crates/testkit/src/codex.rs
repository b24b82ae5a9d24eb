//! Codex as its hooks see it: a process that starts them, a thread, a rollout, and payloads in the client's format.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use crate::home::Home;
use crate::hooks::{HookOutput, session_id};

/// The window that it reports.
pub const WINDOW: u64 = 95_000;

/// A client: a shell that starts hooks like the real one, so that it is their parent.
pub struct CodexClient<'a> {
    home: &'a Home,
    process: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    pub thread: String,
}

impl<'a> CodexClient<'a> {
    pub fn new(home: &'a Home) -> Self {
        Self::with_args(home, &[])
    }

    /// With these words on its command line: `exec`, `app-server`, `-c key=value`.
    pub fn with_args(home: &'a Home, args: &[&str]) -> Self {
        let mut process = home
            .command("bash")
            .arg("-s")
            .arg("codex")
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("bash stands in for the client's process");
        let to = process.stdin.take().expect("it was asked for");
        let from = BufReader::new(process.stdout.take().expect("it was asked for"));
        Self { home, process, to, from, thread: session_id() }
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    pub fn rollout(&self) -> PathBuf {
        let name = format!("rollout-2026-11-16T00-45-20-{}.jsonl", self.thread);
        self.home.path().join(".codex/sessions/2026/11/16").join(name)
    }

    /// Adds one line to the rollout.
    pub fn record(&self, kind: &str, payload: &Value) {
        let path = self.rollout();
        std::fs::create_dir_all(path.parent().expect("it lies in a folder"))
            .expect("a home takes a new folder");
        let line = json!({ "timestamp": format!("{:.3}", jiff::Timestamp::now()), "type": kind, "payload": payload });
        let mut file =
            std::fs::OpenOptions::new().create(true).append(true).open(path).expect("a rollout can grow");
        file.write_all(format!("{line}\n").as_bytes()).expect("a rollout can grow");
    }

    /// Records a token count: the last request had `last` tokens, all requests together far more.
    pub fn counts(&self, last: u64) {
        let usage = |n: u64| json!({ "input_tokens": n, "output_tokens": 0, "total_tokens": n });
        self.record(
            "event_msg",
            &json!({ "type": "token_count", "info": { "total_token_usage": usage(900_000 + last),
                "last_token_usage": usage(last), "model_context_window": WINDOW } }),
        );
    }

    pub fn says(&self, role: &str, text: &str) {
        let kind = if role == "user" { "input_text" } else { "output_text" };
        let content = json!([{ "type": kind, "text": text }]);
        self.record("response_item", &json!({ "type": "message", "role": role, "content": content }));
    }

    /// A payload of this thread: the common head plus `fields`.
    pub fn payload(&self, event: &str, fields: Value) -> Value {
        let mut payload = json!({
            "session_id": self.thread, "turn_id": "01a1e1ce-561d-71c3-afb7-953059f524ea",
            "transcript_path": self.rollout(), "cwd": self.home.project(), "hook_event_name": event,
            "model": "scripted-model", "permission_mode": "default",
        });
        if let (Value::Object(payload), Value::Object(fields)) = (&mut payload, fields) {
            payload.extend(fields);
        }
        payload
    }

    #[track_caller]
    pub fn hook(&mut self, event: &str, fields: Value) -> HookOutput {
        let payload = self.payload(event, fields);
        self.send(event, payload.to_string().as_bytes())
    }

    /// Starts the hook as the client does: through its shell, as a child of this process.
    #[track_caller]
    pub fn send(&mut self, event: &str, input: &[u8]) -> HookOutput {
        let dir = tempfile::tempdir().expect("a folder for one hook");
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("in"), input).expect("a file for the payload");
        let began = std::time::Instant::now();
        writeln!(
            self.to,
            "'{}' hook --provider codex {event} < '{}' > '{}' 2> '{}'; echo $?",
            self.home.binary().display(),
            at("in").display(),
            at("out").display(),
            at("err").display(),
        )
        .expect("the client lives");
        let mut code = String::new();
        self.from.read_line(&mut code).expect("the client lives");
        let read = |name: &str| std::fs::read_to_string(at(name)).unwrap_or_default();
        HookOutput {
            code: code.trim().parse().ok(),
            out: read("out"),
            err: read("err"),
            took: began.elapsed(),
        }
    }

    #[track_caller]
    pub fn starts(&mut self, source: &str) -> HookOutput {
        self.hook("SessionStart", json!({ "source": source }))
    }

    #[track_caller]
    pub fn prompt(&mut self, text: &str) -> HookOutput {
        self.hook("UserPromptSubmit", json!({ "prompt": text }))
    }

    #[track_caller]
    pub fn tool(&mut self) -> HookOutput {
        self.hook(
            "PostToolUse",
            json!({ "tool_name": "Bash", "tool_input": { "command": "true" },
            "tool_response": "", "tool_use_id": "call_1" }),
        )
    }

    #[track_caller]
    pub fn stops(&mut self, active: bool) -> HookOutput {
        self.hook("Stop", json!({ "stop_hook_active": active, "last_assistant_message": "Done." }))
    }

    /// baton's record of this thread.
    #[track_caller]
    pub fn kept(&self) -> Value {
        let path = self.home.state().join(format!("sessions/{}.json", self.thread));
        crate::home::record(&path)
    }

    /// baton's gauge of this thread.
    #[track_caller]
    pub fn gauge(&self) -> Value {
        let path = self.home.state().join(format!("sessions/{}.gauge", self.thread));
        crate::home::record(&path)
    }
}

impl Drop for CodexClient<'_> {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_file(format!("/tmp/claude-context-pct-{}.txt", self.thread));
    }
}
