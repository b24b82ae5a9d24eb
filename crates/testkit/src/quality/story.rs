//! A transcript as a plain sequence of acts, parsed from untyped JSON by the benchmark's own rules. It shares no code
//! with the product's readers, or the measurement would prove nothing.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::corpus::Transcript;

/// One act, in transcript order.
#[derive(Debug, Clone)]
pub struct Event {
    pub what: What,
    /// The offset of its line in bytes.
    pub offset: usize,
}

#[derive(Debug, Clone)]
pub enum What {
    /// Typed by the user.
    Said(String),
    Reply(String),
    Call(Call),
    Result(Outcome),
    /// A background task ended.
    Ended(String),
    /// The client compacted here; with its summary, if readable.
    Boundary(String),
}

#[derive(Debug, Clone)]
pub struct Call {
    pub id: String,
    pub tool: String,
    pub input: Value,
    /// Every string of the input, each on its own lines.
    pub text: String,
    /// Shell commands that it runs.
    pub commands: Vec<String>,
    /// Files that it changes, and how: `created`, `edited` or `deleted`.
    pub changes: Vec<(String, &'static str)>,
}

#[derive(Debug, Clone)]
pub struct Outcome {
    pub id: String,
    pub text: String,
    pub failed: bool,
    pub exit: Option<i64>,
    pub refused: bool,
}

/// A whole transcript.
pub struct Story {
    pub events: Vec<Event>,
    /// The folder where the session began.
    pub root: String,
    /// The branch, by the offset where it was first mentioned.
    pub branches: Vec<(usize, String)>,
    pub is_codex: bool,
    pub len: usize,
}

macro_rules! rule {
    ($name:ident, $pattern:literal) => {
        static $name: LazyLock<Regex> = LazyLock::new(|| Regex::new($pattern).expect("a fixed pattern"));
    };
}

rule!(EXITED, r"Process exited with code (\d+)");
rule!(ENDED, r"<task-notification>(?:\\n|\s)*<task-id>([\w-]+)</task-id>");
rule!(PATCHED, r"(?m)^\*\*\* (Add|Update|Delete) File: (.+)$");
// `cmd: "…"` and `cmd: `…`` in a script; escapes are undone below.
rule!(SCRIPTED, r#"\bcmd\s*:\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|`((?:[^`\\]|\\.)*)`)"#);

impl Story {
    pub fn of(transcript: &Transcript) -> Self {
        let mut story =
            Self { events: Vec::new(), root: String::new(), branches: Vec::new(), is_codex: false, len: 0 };
        let mut at = 0;
        for line in transcript.bytes.split_inclusive(|b| *b == b'\n') {
            if let Ok(record) = serde_json::from_slice::<Value>(line) {
                if record["payload"].is_object() {
                    story.is_codex = true;
                    story.codex(&record, at);
                } else {
                    story.claude(&record, at);
                    if record["isSidechain"] != true {
                        story.ended(line, at);
                    }
                }
            }
            at += line.len();
        }
        story.len = at;
        story
    }

    fn push(&mut self, what: What, offset: usize) {
        self.events.push(Event { what, offset });
    }

    fn branch(&mut self, name: Option<&str>, at: usize) {
        let Some(name) = name.filter(|b| !b.is_empty() && *b != "HEAD") else { return };
        if self.branches.last().is_none_or(|(_, last)| last != name) {
            self.branches.push((at, name.to_owned()));
        }
    }

    fn claude(&mut self, record: &Value, at: usize) {
        if record["isSidechain"] == true {
            return;
        }
        if self.root.is_empty() {
            record["cwd"].as_str().unwrap_or_default().clone_into(&mut self.root);
        }
        self.branch(record["gitBranch"].as_str(), at);
        if record["subtype"] == "compact_boundary" {
            self.push(What::Boundary(String::new()), at);
        }
        if record["isCompactSummary"] == true {
            if let Some(Event { what: What::Boundary(summary), .. }) = self.events.last_mut() {
                record["message"]["content"].as_str().unwrap_or_default().clone_into(summary);
            }
            return;
        }
        let user = record["type"] == "user";
        if !user && record["type"] != "assistant" {
            return;
        }
        let content = &record["message"]["content"];
        let meta = record["isMeta"] == true
            || record["isApiErrorMessage"] == true
            || record["origin"]["kind"].as_str().is_some_and(|kind| kind != "human");
        let blocks = match content {
            Value::String(text) => vec![serde_json::json!({ "type": "text", "text": text })],
            Value::Array(blocks) => blocks.clone(),
            _ => Vec::new(),
        };
        let mut said = Vec::new();
        for block in blocks {
            let text = |key: &str| block[key].as_str().unwrap_or_default().to_owned();
            match block["type"].as_str() {
                Some("text") if user && !meta => said.push(text("text")),
                Some("text") if !user && !meta && !text("text").trim().is_empty() => {
                    self.push(What::Reply(text("text")), at);
                }
                Some("tool_use") => {
                    let call = claude_call(text("id"), text("name"), &block["input"]);
                    self.push(What::Call(call), at);
                }
                Some("tool_result") => {
                    let text = flat(&block["content"]);
                    let failed = block["is_error"] == true;
                    let exit = if failed { claude_exit(&text) } else { Some(0) };
                    let refused = text.starts_with("The user doesn't want to proceed");
                    let id = block["tool_use_id"].as_str().unwrap_or_default().to_owned();
                    self.push(What::Result(Outcome { id, text, failed, exit, refused }), at);
                }
                _ => {}
            }
        }
        let said = said.join("\n");
        if typed(&said) {
            self.push(What::Said(said), at);
        }
    }

    /// Tasks that a line reports as ended, in any kind of record.
    fn ended(&mut self, line: &[u8], at: usize) {
        let text = String::from_utf8_lossy(line);
        for found in ENDED.captures_iter(&text) {
            self.push(What::Ended(found[1].to_owned()), at);
        }
    }

    fn codex(&mut self, record: &Value, at: usize) {
        let payload = &record["payload"];
        match record["type"].as_str() {
            Some("session_meta") => {
                if self.root.is_empty() {
                    payload["cwd"].as_str().unwrap_or_default().clone_into(&mut self.root);
                }
                self.branch(payload["git"]["branch"].as_str(), at);
            }
            Some("compacted") => self.push(What::Boundary(String::new()), at),
            Some("response_item") => self.codex_item(payload, at),
            _ => {}
        }
    }

    fn codex_item(&mut self, payload: &Value, at: usize) {
        let text = |key: &str| payload[key].as_str().unwrap_or_default().to_owned();
        match payload["type"].as_str() {
            Some("message") => {
                let said = flat(&payload["content"]);
                match payload["role"].as_str() {
                    Some("user") if typed(&said) => {
                        // The desktop client prepends a list of attachments.
                        let words = said.split("## My request for Codex:").last().unwrap_or_default();
                        if !words.trim().is_empty() {
                            self.push(What::Said(words.trim().to_owned()), at);
                        }
                    }
                    Some("assistant") if !said.trim().is_empty() => self.push(What::Reply(said), at),
                    _ => {}
                }
            }
            Some("function_call" | "custom_tool_call") => {
                let raw = if payload["arguments"].is_string() { text("arguments") } else { text("input") };
                let input = serde_json::from_str(&raw).unwrap_or(Value::String(raw));
                self.push(What::Call(codex_call(text("call_id"), text("name"), input)), at);
            }
            Some("function_call_output" | "custom_tool_call_output") => {
                let body = flat(&payload["output"]);
                let exit = EXITED.captures(&body).and_then(|c| c[1].parse().ok());
                let failed = exit.is_some_and(|code| code != 0);
                let id = text("call_id");
                self.push(What::Result(Outcome { id, text: body, failed, exit, refused: false }), at);
            }
            _ => {}
        }
    }

    /// Whether the last result before `at` about process `id` shows it running. A poll that keeps running in a cell
    /// shows nothing yet; the cell's result does.
    pub fn shows_running(&self, id: &str, at: usize) -> bool {
        let mut about: Vec<&str> = Vec::new();
        let mut cells: Vec<String> = Vec::new();
        let mut running = false;
        for event in &self.events[..at] {
            match &event.what {
                What::Call(call) => {
                    // One client reports when a process ends, unless it is stopped; the other's processes must be
                    // polled.
                    let tells = self.is_codex || matches!(call.tool.as_str(), "KillShell" | "TaskStop");
                    let waits =
                        call.tool == "wait" && cells.iter().any(|cell| call.text.contains(cell.as_str()));
                    if tells && (waits || call.text.contains(id)) {
                        about.push(&call.id);
                    }
                }
                What::Result(outcome) => {
                    let shows = ["session ID ", "\"session_id\":", "SESSION_ID=", "session_id=", "with ID: "]
                        .iter()
                        .any(|mark| outcome.text.contains(&format!("{mark}{id}")));
                    let cell = outcome.text.strip_prefix("Script running with cell ID ");
                    match cell.and_then(|rest| rest.lines().next()) {
                        Some(cell) if about.contains(&outcome.id.as_str()) => {
                            cells.push(cell.trim().to_owned());
                        }
                        _ if shows => running = true,
                        _ if about.contains(&outcome.id.as_str()) => running = false,
                        _ => {}
                    }
                }
                What::Ended(ended) if ended == id => running = false,
                _ => {}
            }
        }
        running
    }

    /// The paths of files as people write them: below the folder of the session, with slashes.
    pub fn relative(&self, path: &str) -> String {
        let path = path.replace('\\', "/");
        let root = self.root.replace('\\', "/");
        let below = path.strip_prefix(&root).and_then(|p| p.strip_prefix('/'));
        below.unwrap_or(&path).trim_start_matches("./").to_owned()
    }
}

/// Whether a person typed this text of a user record. The clients put their own texts there too.
fn typed(text: &str) -> bool {
    let start = text.trim_start();
    !(start.is_empty()
        || start.starts_with('<')
        || start.starts_with("[Request interrupted")
        || start.starts_with("Caveat:")
        || start.starts_with("# AGENTS.md instructions")
        || start.starts_with("This session is being continued"))
}

fn claude_exit(output: &str) -> Option<i64> {
    output.strip_prefix("Exit code ")?.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

fn claude_call(id: String, tool: String, input: &Value) -> Call {
    let path = input["file_path"].as_str().or(input["notebook_path"].as_str()).unwrap_or_default();
    let change = match tool.as_str() {
        "Edit" | "MultiEdit" | "NotebookEdit" => Some("edited"),
        "Write" => Some("created"),
        _ => None,
    };
    let changes = change.map(|how| (path.to_owned(), how)).into_iter().collect();
    let is_shell = matches!(tool.as_str(), "Bash" | "PowerShell");
    let commands = input["command"].as_str().filter(|_| is_shell).map(str::to_owned).into_iter().collect();
    Call { id, tool, text: strings(input), input: input.clone(), commands, changes }
}

fn codex_call(id: String, tool: String, input: Value) -> Call {
    let mut commands = Vec::new();
    let mut text = strings(&input);
    match tool.as_str() {
        "exec_command" | "shell" | "shell_command" => {
            let command = input["cmd"].as_str().or(input["command"].as_str());
            commands.extend(command.map(str::to_owned));
        }
        // A script in JavaScript; its literals show what it does.
        "exec" => {
            for found in SCRIPTED.captures_iter(&text) {
                let literal = found.iter().skip(1).flatten().next().map_or("", |m| m.as_str());
                commands.push(unescaped(literal));
            }
            text = unescaped(&text);
        }
        _ => {}
    }
    let mut changes = Vec::new();
    for found in PATCHED.captures_iter(&text) {
        let how = match &found[1] {
            "Add" => "created",
            "Update" => "edited",
            _ => "deleted",
        };
        changes.push((found[2].trim().to_owned(), how));
    }
    Call { id, tool, input, text, commands, changes }
}

pub fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, c == '\\') {
            (_, false) => out.push(c),
            _ => match chars.next() {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some('r') => out.push('\r'),
                Some(other) => out.push(other),
                None => {}
            },
        }
    }
    out
}

/// Every string in `value`.
pub fn strings(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(strings).collect::<Vec<_>>().join("\n"),
        Value::Object(fields) => fields.values().map(strings).collect::<Vec<_>>().join("\n"),
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    }
}

/// The text of a result: a string, or a list of blocks, some of them text.
fn flat(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            blocks.iter().filter_map(|b| b["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
        Value::Object(fields) => fields.get("output").map(flat).unwrap_or_default(),
        _ => String::new(),
    }
}

/// A place where a handoff is made.
pub struct Cut {
    pub name: String,
    /// The first event after it.
    pub at: usize,
    /// The first event of the stretch since the previous compaction.
    pub stretch: usize,
    /// Bytes of the transcript before it.
    pub end: usize,
    /// The client's summary at a compaction, if readable.
    pub summary: Option<String>,
}

/// A story's compactions; without any, three places in its second half, each before an act of the agent.
pub fn cuts(story: &Story, name: &str) -> Vec<Cut> {
    let mut cuts = Vec::new();
    let mut stretch = 0;
    for (at, event) in story.events.iter().enumerate() {
        if let What::Boundary(summary) = &event.what {
            let summary = (!summary.is_empty()).then(|| summary.clone());
            cuts.push(Cut { name: format!("{name}@{at}"), at, stretch, end: event.offset, summary });
            stretch = at;
        }
    }
    if !cuts.is_empty() {
        return cuts;
    }
    let is_act = |e: &Event| matches!(e.what, What::Call(_) | What::Reply(_));
    let acts: Vec<usize> = (0..story.events.len()).filter(|&i| is_act(&story.events[i])).collect();
    if acts.len() < 60 {
        return cuts;
    }
    for share in [50, 65, 80] {
        let mut at = acts[acts.len() * share / 100];
        // Keep acts of one line together.
        while at > 0 && story.events[at - 1].offset == story.events[at].offset {
            at -= 1;
        }
        let end = story.events[at].offset;
        cuts.push(Cut { name: format!("{name}@{share}%"), at, stretch: 0, end, summary: None });
    }
    cuts
}
