//! A client as its hooks see it: a process, a session, a transcript, and payloads in the client's own format.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::home::{CommandOutput, Home};

/// Every event that baton uses.
pub const EVENTS: [&str; 13] = [
    "SessionStart",
    "UserPromptSubmit",
    "PostToolUse",
    "PostToolUseFailure",
    "Stop",
    "StopFailure",
    "PreCompact",
    "PostCompact",
    "SessionEnd",
    "Notification",
    "PermissionRequest",
    "SubagentStart",
    "SubagentStop",
];

/// A transcript's stamps are truncated to milliseconds. If an answer came within the same millisecond as what it
/// answers, truncation would make it look older; no real model answers that fast.
fn next_millisecond() -> jiff::Timestamp {
    let before = jiff::Timestamp::now().as_millisecond();
    loop {
        let now = jiff::Timestamp::now();
        if now.as_millisecond() > before {
            return now;
        }
        std::hint::spin_loop();
    }
}

/// Entries for all hooks and the status line, as an install writes them to settings.
pub fn settings(home: &Home) -> Value {
    let baton = home.binary().display().to_string();
    let hooks: serde_json::Map<String, Value> = EVENTS
        .iter()
        .map(|event| {
            let mut entry = json!({ "type": "command", "command": baton, "args": ["hook", event] });
            if matches!(*event, "SessionEnd" | "PreCompact") {
                entry["timeout"] = json!(30);
            }
            ((*event).to_owned(), json!([{ "hooks": [entry] }]))
        })
        .collect();
    json!({ "hooks": hooks, "statusLine": { "type": "command", "command": format!("{baton} statusline") } })
}

/// Registers baton with every client that starts in this home.
pub fn register(home: &Home) {
    home.write(".claude/settings.json", settings(home).to_string());
}

/// A client: a process that lives as long as this value, with one session at a time.
pub struct Client<'a> {
    home: &'a Home,
    process: Child,
    pub session: String,
    pub headless: bool,
    /// Added to its hooks' environment.
    pub env: Vec<(String, String)>,
}

static COUNT: AtomicU32 = AtomicU32::new(1);

/// A session id that no other test uses: its percentage is published in a folder that all tests share.
pub fn session_id() -> String {
    let n = COUNT.fetch_add(1, Ordering::Relaxed);
    let nanos = jiff::Timestamp::now().subsec_nanosecond();
    // Two ids of one test differ in their displayed part, like a client's.
    let (pid, short) = (std::process::id() & 0xf_ffff, n & 0xfff);
    format!("{pid:05x}{short:03x}-{n:04x}-4000-8000-{nanos:012x}")
}

impl<'a> Client<'a> {
    pub fn new(home: &'a Home) -> Self {
        std::fs::create_dir_all(home.path().join(".claude")).expect("a home takes a new folder");
        let process = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("cat stands in for the client's process");
        Self { home, process, session: session_id(), headless: false, env: Vec::new() }
    }

    /// The same, started with these options.
    pub fn started_with(home: &'a Home, options: &[&str]) -> Self {
        let mut client = Self::new(home);
        let process = Command::new("sh")
            .args(["-c", "read _", "claude"])
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("sh stands in for the client's process");
        let mut replaced = std::mem::replace(&mut client.process, process);
        let _ = replaced.kill();
        let _ = replaced.wait();
        client
    }

    #[must_use]
    pub fn headless(mut self) -> Self {
        self.headless = true;
        self
    }

    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    pub fn transcript(&self) -> PathBuf {
        self.home.path().join(format!(".claude/projects/-app/{}.jsonl", self.session))
    }

    pub fn percentage_file(&self) -> PathBuf {
        PathBuf::from(format!("/tmp/claude-context-pct-{}.txt", self.session))
    }

    /// Records an answer that reports `tokens` of input.
    pub fn answers(&self, tokens: u64) {
        self.record(&json!({
            "type": "assistant", "isSidechain": false, "uuid": session_id(),
            "timestamp": format!("{:.3}", next_millisecond()),
            "message": { "role": "assistant", "model": "claude-opus-4-6", "id": session_id(),
                "content": [{ "type": "text", "text": "…" }],
                "usage": { "input_tokens": tokens, "output_tokens": 200 } },
        }));
    }

    /// The user says something: only a transcript record, no hook.
    pub fn says(&self, text: &str) {
        self.record(&json!({
            "type": "user", "uuid": session_id(), "timestamp": next_millisecond().to_string(),
            "sessionId": self.session, "message": { "role": "user", "content": text },
        }));
    }

    /// Adds one record to the transcript.
    pub fn record(&self, record: &Value) {
        let path = self.transcript();
        std::fs::create_dir_all(path.parent().expect("it lies in a folder"))
            .expect("a home takes a new folder");
        let mut file =
            std::fs::OpenOptions::new().create(true).append(true).open(path).expect("a transcript can grow");
        file.write_all(format!("{record}\n").as_bytes()).expect("a transcript can grow");
    }

    /// A payload of this session: the common head plus `fields`.
    pub fn payload(&self, event: &str, fields: Value) -> Value {
        let mut payload = json!({
            "session_id": self.session, "transcript_path": self.transcript(), "cwd": self.home.project(),
            "hook_event_name": event,
        });
        if let (Value::Object(payload), Value::Object(fields)) = (&mut payload, fields) {
            payload.extend(fields);
        }
        payload
    }

    /// The client's usual payload for `event`.
    pub fn usual(&self, event: &str) -> Value {
        let fields = match event {
            "SessionStart" => json!({ "source": "startup", "model": "claude-opus-4-6" }),
            "UserPromptSubmit" => json!({ "prompt": "go on" }),
            "PostToolUse" => json!({ "tool_name": "Bash", "tool_input": { "command": "true" },
                "tool_response": { "stdout": "" }, "tool_use_id": "toolu_1", "duration_ms": 3 }),
            "PostToolUseFailure" => json!({ "tool_name": "Bash", "tool_input": { "command": "false" },
                "tool_use_id": "toolu_1", "error": "Exit code 1", "is_interrupt": false }),
            "Stop" => json!({ "stop_hook_active": false, "last_assistant_message": "Done.",
                "background_tasks": [], "session_crons": [] }),
            "StopFailure" => json!({ "error": "rate_limit", "last_assistant_message": "API Error: limit" }),
            "PreCompact" => json!({ "trigger": "auto", "custom_instructions": null }),
            "PostCompact" => json!({ "trigger": "auto", "compact_summary": "…" }),
            "SessionEnd" => json!({ "reason": "other" }),
            "Notification" => json!({ "notification_type": "idle_prompt", "message": "…" }),
            "PermissionRequest" => json!({ "tool_name": "Bash", "tool_input": { "command": "rm x" } }),
            "SubagentStart" => json!({ "agent_id": "a1", "agent_type": "general-purpose" }),
            "SubagentStop" => json!({ "agent_id": "a1", "agent_type": "general-purpose",
                "stop_hook_active": false, "last_assistant_message": "…" }),
            _ => json!({}),
        };
        self.payload(event, fields)
    }

    /// `baton hook EVENT` as this client starts it.
    pub fn command(&self, event: &str) -> Command {
        let mut command = self.home.baton(["hook", event]);
        self.dress(&mut command);
        command
    }

    pub fn dress(&self, command: &mut Command) {
        command
            .env("CLAUDECODE", "1")
            .env("CLAUDE_PID", self.pid().to_string())
            .env("CLAUDE_CODE_SESSION_ID", &self.session)
            .env("CLAUDE_CODE_ENTRYPOINT", if self.headless { "sdk-cli" } else { "cli" })
            .env("CLAUDE_CODE_SESSION_ATTENDED", if self.headless { "0" } else { "1" })
            .envs(self.env.iter().map(|(name, value)| (name, value)));
    }

    /// Sends the usual payload of `event`.
    #[track_caller]
    pub fn hook(&self, event: &str) -> HookOutput {
        self.hook_with(event, json!({}))
    }

    /// Sends the usual payload with some fields changed. Like the client, notes in the transcript which messages or handoff
    /// a prompt or its hook has shown to the model.
    #[track_caller]
    pub fn hook_with(&self, event: &str, fields: Value) -> HookOutput {
        let prompt =
            fields["prompt"].as_str().filter(|prompt| prompt.contains("[baton message ")).map(str::to_owned);
        let answer = self.taken_back(event, fields);
        // A test may have put something else in its place.
        let has_transcript = std::fs::metadata(self.transcript()).map_or(true, |found| found.is_file());
        if event == "UserPromptSubmit" && has_transcript {
            if let Some(prompt) = prompt {
                self.says(&prompt);
            }
            let shows = |context: &String| {
                ["[baton message ", "=== HANDOFF LOADED"].iter().any(|head| context.contains(head))
            };
            if let Some(context) = answer.context().filter(shows) {
                let content = json!({ "type": "hook_additional_context", "content": [context] });
                self.record(&json!({ "type": "attachment", "attachment": content }));
            }
        }
        answer
    }

    /// The same for a prompt that Esc takes back before its turn begins: the client drops what the hook answers.
    #[track_caller]
    pub fn taken_back(&self, event: &str, fields: Value) -> HookOutput {
        let mut payload = self.usual(event);
        if let (Value::Object(payload), Value::Object(fields)) = (&mut payload, fields) {
            payload.extend(fields);
        }
        send(self.command(event), payload.to_string().as_bytes())
    }

    /// SessionStart with `source`.
    #[track_caller]
    pub fn starts(&self, source: &str) -> HookOutput {
        self.hook_with("SessionStart", json!({ "source": source }))
    }

    /// `/clear`: the old session ends, a new one begins in the same process.
    #[track_caller]
    pub fn clears(&mut self) -> HookOutput {
        self.hook_with("SessionEnd", json!({ "reason": "clear" })).silent();
        let _ = std::fs::remove_file(self.percentage_file());
        self.session = session_id();
        self.starts("clear")
    }

    /// Runs the status line with a context of `tokens` of 200k.
    #[track_caller]
    pub fn status_line(&self, tokens: Option<u64>) -> String {
        let usage = tokens.map(|n| {
            json!({ "input_tokens": n, "output_tokens": 200,
            "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0 })
        });
        let payload = json!({
            "session_id": self.session, "transcript_path": self.transcript(), "cwd": self.home.project(),
            "model": { "id": "claude-opus-4-6", "display_name": "Opus" },
            "workspace": { "current_dir": self.home.project(), "project_dir": self.home.project() },
            "context_window": { "context_window_size": 200_000, "current_usage": usage },
        });
        let mut command = self.home.baton(["statusline"]);
        self.dress(&mut command);
        send(command, payload.to_string().as_bytes()).ok().out
    }

    /// The file of baton's record of this session.
    pub fn record_path(&self) -> PathBuf {
        self.home.state().join(format!("sessions/{}.json", self.session))
    }

    /// baton's record of this session.
    #[track_caller]
    pub fn kept(&self) -> Value {
        let path = self.record_path();
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let last = text.lines().next_back().expect("a record has a line");
        serde_json::from_str(last).expect("a record is JSON")
    }

    /// The agent that owns this session.
    #[track_caller]
    pub fn agent(&self) -> String {
        self.kept()["agent"].as_str().expect("a session has an agent").to_owned()
    }
}

impl Drop for Client<'_> {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_file(self.percentage_file());
    }
}

/// A hook's exit code and output.
#[derive(Debug)]
pub struct HookOutput {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
    pub took: Duration,
}

/// Runs a hook with `input` on its standard input, which is then closed.
#[track_caller]
pub fn send(mut command: Command, input: &[u8]) -> HookOutput {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let began = Instant::now();
    let mut child = command.spawn().expect("the hook starts");
    // A hook that has seen enough stops reading, so ignore a closed pipe.
    let _ = child.stdin.take().expect("it was asked for").write_all(input);
    let ran = CommandOutput::of(&child.wait_with_output().expect("a child can be waited for"));
    HookOutput { code: ran.code, out: ran.out, err: ran.err, took: began.elapsed() }
}

impl HookOutput {
    /// Asserts exit 0, no error output, and a JSON object or nothing as output.
    #[track_caller]
    #[expect(clippy::return_self_not_must_use, reason = "an assertion that is also read from")]
    pub fn ok(self) -> Self {
        assert_eq!((self.code, self.err.as_str()), (Some(0), ""), "a hook never hurts: {self:?}");
        self
    }

    /// The answer, checked to be one that the client accepts.
    #[track_caller]
    pub fn answer(&self) -> Option<Value> {
        assert_eq!((self.code, self.err.as_str()), (Some(0), ""), "a hook never hurts: {self:?}");
        let text = self.out.trim();
        if text.is_empty() {
            return None;
        }
        let answer: Value = serde_json::from_str(text).unwrap_or_else(|e| panic!("{e} in {text}"));
        assert!(answer.is_object(), "{text}");
        Some(answer)
    }

    #[track_caller]
    pub fn silent(&self) {
        assert_eq!(self.answer(), None);
    }

    /// The text for the model.
    #[track_caller]
    pub fn context(&self) -> Option<String> {
        Some(self.answer()?["hookSpecificOutput"]["additionalContext"].as_str()?.to_owned())
    }

    /// The text for the user.
    #[track_caller]
    pub fn message(&self) -> Option<String> {
        Some(self.answer()?["systemMessage"].as_str()?.to_owned())
    }

    /// Why the turn continues.
    #[track_caller]
    pub fn block(&self) -> Option<String> {
        let answer = self.answer()?;
        (answer["decision"] == "block").then(|| answer["reason"].as_str().unwrap_or_default().to_owned())
    }
}
