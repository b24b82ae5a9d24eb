//! A conversation for people who follow it: prompts, answers, tool calls with their outcomes. Texts are bounded and
//! free of secrets and control characters.

use std::collections::{HashMap, VecDeque};
use std::io::{self, BufRead};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::lines::{self, Line, MAX_LINE};
use super::{Action, Author, CallOutcome, Item, Parser, Record, ScriptCall, Touch};
use crate::plain::plain;
use crate::redact::redact;
use crate::speaker::{self, Speaker};

/// Characters that are kept of a prompt or an answer.
const SPOKEN: usize = 20_000;
/// How many characters of a call and of its result are kept.
const CALLED: usize = 2_000;

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConversationEntry {
    /// Where its record begins in the transcript.
    pub offset: u64,
    /// When, as the provider wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    #[serde(flatten)]
    pub act: EntryKind,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum EntryKind {
    /// Words in the place of a prompt. `from` is `user`, `baton`, `client`, `tool`, `unknown` or an agent's name.
    Prompt { from: String, text: String },
    /// Words of the agent.
    Reply { text: String },
    /// A tool call; it runs while it has no result.
    Tool {
        text: String,
        /// Its changes to a file, one per line, with `+`, `-` or a space in front.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        diff: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<ToolResult>,
    },
    /// The turn was interrupted, the context compacted, a handoff loaded.
    Note { text: String },
}

/// How a tool call ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    pub failed: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// The beginning of its result.
    pub text: String,
}

impl ConversationEntry {
    /// When it happened.
    pub fn time(&self) -> Option<Timestamp> {
        self.at.as_deref()?.parse().ok()
    }

    /// How many seconds a tool call took.
    pub fn seconds(&self) -> Option<u64> {
        let EntryKind::Tool { result: Some(result), .. } = &self.act else { return None };
        let ended: Timestamp = result.at.as_deref()?.parse().ok()?;
        u64::try_from(ended.duration_since(self.time()?).as_secs()).ok()
    }
}

/// The newest entries of a conversation, read on as its transcript grows.
#[derive(Debug, Default)]
pub struct Conversation {
    parser: Parser,
    entries: VecDeque<ConversationEntry>,
    /// How many entries have left at the front.
    gone: usize,
    most: usize,
    /// Calls without a result, by id, and which entry each is.
    open: HashMap<String, usize>,
    /// Entries that were added or changed since the last [`Conversation::news`].
    news: Vec<usize>,
    read_to: u64,
}

impl Conversation {
    /// Keeps the newest `most` entries from byte `from` on.
    pub fn new(most: usize, from: u64) -> Self {
        Self { most: most.max(1), read_to: from, ..Self::default() }
    }

    /// Passes the first line of the transcript when reading starts later: a rollout needs it to understand the others.
    #[must_use]
    pub fn knowing(mut self, first_line: &[u8]) -> Self {
        if self.read_to > 0 {
            self.parser.feed(first_line, 0);
        }
        self
    }

    /// Where to continue reading: the byte after the last whole line.
    pub fn read_to(&self) -> u64 {
        self.read_to
    }

    /// Reads the content of `reader`, which starts at [`Conversation::read_to`].
    pub fn read(&mut self, reader: impl BufRead) -> io::Result<()> {
        let end = lines::for_each(reader, self.read_to, MAX_LINE, |line, offset| match line {
            Line::Whole(bytes) => self.feed(bytes, offset),
            // A line that is still being written will be complete next time.
            Line::Torn(_) => {}
            Line::TooLong(bytes) => {
                self.push(
                    offset,
                    None,
                    EntryKind::Note { text: format!("a line of {bytes} bytes was skipped") },
                );
            }
        })?;
        self.read_to = end;
        Ok(())
    }

    /// The entries that are kept, oldest first.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = &ConversationEntry> {
        self.entries.iter()
    }

    pub(super) fn into_entries(self) -> Vec<ConversationEntry> {
        self.entries.into()
    }

    /// The agent's last message.
    pub fn last_reply(&self) -> Option<&str> {
        self.entries.iter().rev().find_map(|entry| match &entry.act {
            EntryKind::Reply { text } => Some(text.as_str()),
            _ => None,
        })
    }

    /// Entries added since the last call of this function, and tool calls that have ended since.
    pub fn news(&mut self) -> Vec<ConversationEntry> {
        let news = std::mem::take(&mut self.news);
        news.into_iter().filter_map(|n| self.entries.get(n.checked_sub(self.gone)?).cloned()).collect()
    }

    /// Whether a call has no result yet.
    pub(super) fn has_open_calls(&self) -> bool {
        !self.open.is_empty()
    }

    /// Takes only the outcomes of the kept calls from later lines.
    pub(super) fn settle(&mut self, later: &[u8]) {
        for line in later.split_inclusive(|b| *b == b'\n') {
            if self.open.is_empty() {
                break;
            }
            let mut parser = std::mem::take(&mut self.parser);
            if let Some(record) = parser.feed(line, u64::MAX) {
                for item in &record.items {
                    if let Item::Outcome { id, outcome } | Item::Ran { id, outcome, .. } = item {
                        self.ended(id, outcome, record.time.as_deref());
                    }
                }
            }
            self.parser = parser;
        }
    }

    fn feed(&mut self, line: &[u8], offset: u64) {
        // Records borrow from the parser, so take it out while they are read.
        let mut parser = std::mem::take(&mut self.parser);
        if let Some(record) = parser.feed(line, offset).filter(|record| !record.sidechain) {
            self.take(&record);
        }
        self.parser = parser;
    }

    fn take(&mut self, record: &Record<'_>) {
        let at = record.time.as_deref().map(str::to_owned);
        for item in &record.items {
            let act = match item {
                Item::Prompt(text) | Item::Queued(text) => {
                    for act in spoken(text) {
                        self.push(record.offset, at.clone(), act);
                    }
                    continue;
                }
                Item::Command { name, args } => EntryKind::Prompt {
                    from: "user".to_owned(),
                    text: clean(&format!("{name} {args}"), SPOKEN),
                },
                Item::Told { author, text } if *author != Author::Client => {
                    EntryKind::Prompt { from: name_of(author), text: clean(text, SPOKEN) }
                }
                Item::Reply(text) => EntryKind::Reply { text: clean(text, SPOKEN) },
                Item::Call { id, action } => {
                    let act = EntryKind::Tool {
                        text: clean(&action_words(action), CALLED),
                        diff: diff_of(action),
                        result: None,
                    };
                    let n = self.push(record.offset, at.clone(), act);
                    self.open.insert(id.to_string(), n);
                    continue;
                }
                Item::Outcome { id, outcome } => {
                    self.ended(id, outcome, at.as_deref());
                    continue;
                }
                Item::Ran { id, command, outcome, .. } => {
                    if self.ended(id, outcome, at.as_deref()) {
                        continue;
                    }
                    let result = Some(result_of(outcome, at.as_deref()));
                    EntryKind::Tool { text: clean(&format!("$ {command}"), CALLED), diff: None, result }
                }
                Item::Interrupted => EntryKind::Note { text: "the turn was interrupted".to_owned() },
                Item::Boundary => {
                    EntryKind::Note { text: "the client compacted its context here".to_owned() }
                }
                Item::Loaded(head) => EntryKind::Note { text: clean(head, 200) },
                Item::Told { .. }
                | Item::Patched { .. }
                | Item::AgentStarted { .. }
                | Item::TaskEnded { .. }
                | Item::TurnEnded
                | Item::Link(_)
                | Item::Branch(_) => continue,
            };
            self.push(record.offset, at.clone(), act);
        }
    }

    fn push(&mut self, offset: u64, at: Option<String>, act: EntryKind) -> usize {
        self.entries.push_back(ConversationEntry { offset, at, act });
        if self.entries.len() > self.most {
            self.entries.pop_front();
            self.gone += 1;
            let gone = self.gone;
            self.open.retain(|_, n| *n >= gone);
        }
        let n = self.gone + self.entries.len() - 1;
        self.news.push(n);
        n
    }

    /// A call has ended; `false` if it is not among those that are kept.
    fn ended(&mut self, id: &str, outcome: &CallOutcome<'_>, at: Option<&str>) -> bool {
        let Some(n) = self.open.remove(id) else { return false };
        let entry = n.checked_sub(self.gone).and_then(|n| self.entries.get_mut(n));
        let Some(ConversationEntry { act: EntryKind::Tool { result, .. }, .. }) = entry else { return false };
        *result = Some(result_of(outcome, at));
        self.news.push(n);
        true
    }
}

/// Who wrote each part of a prompt: a message belongs to its sender. Empty for the client's own text.
fn spoken(text: &str) -> Vec<EntryKind> {
    let prompt =
        |from: &str, text: &str| EntryKind::Prompt { from: clean(from, 80), text: clean(text, SPOKEN) };
    match speaker::speaker(text) {
        Speaker::Person(text) => vec![prompt("user", text)],
        Speaker::Baton => {
            let mail: Vec<EntryKind> =
                speaker::unframed(text).map(|(from, text)| prompt(from, text)).collect();
            if mail.is_empty() { vec![prompt("baton", text)] } else { mail }
        }
        Speaker::Agent(text) => vec![prompt("agent", text)],
        Speaker::Client => Vec::new(),
    }
}

fn name_of(author: &Author) -> String {
    match author {
        Author::User => "user".to_owned(),
        Author::Agent(name) if name.is_empty() => "agent".to_owned(),
        Author::Agent(name) => name.clone(),
        Author::Client => "client".to_owned(),
        Author::Tool => "tool".to_owned(),
        Author::Unknown => "unknown".to_owned(),
    }
}

fn result_of(outcome: &CallOutcome<'_>, at: Option<&str>) -> ToolResult {
    let text = outcome.body.text();
    // Claude Code writes the exit code of a failed command into its output.
    let told = || text.strip_prefix("Exit code ")?.split_whitespace().next()?.parse().ok();
    ToolResult {
        failed: outcome.failed,
        exit: outcome.exit.or_else(|| told().filter(|_| outcome.failed)),
        at: at.map(str::to_owned),
        text: clean(&text, CALLED),
    }
}

/// The changes of an edit, as far as they are shown.
fn diff_of(action: &Action<'_>) -> Option<String> {
    let Action::Edit(changes) = action else { return None };
    let mut out = String::new();
    for change in changes {
        match (change.touch, change.texts.as_slice()) {
            (Touch::Created, [content]) => marked('+', content, &mut out),
            // A patch has its marks already.
            (_, [patch]) => out.push_str(patch),
            (_, texts) => {
                for pair in texts.chunks(2) {
                    if let [before, after] = pair {
                        replaced(before, after, &mut out);
                    }
                }
            }
        }
        // Nothing beyond this is shown.
        if out.len() > 8 * CALLED {
            break;
        }
    }
    let shown = clean_lines(&out, 2 * CALLED);
    (!shown.trim().is_empty()).then_some(shown)
}

/// Shared lines at the beginning or end appear once.
fn replaced(before: &str, after: &str, out: &mut String) {
    let (before, after): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let head = before.iter().zip(&after).take_while(|(a, b)| a == b).count();
    let ends = before[head..].iter().rev().zip(after[head..].iter().rev());
    let tail = ends.take_while(|(a, b)| a == b).count();
    marked(' ', &before[..head].join("\n"), out);
    marked('-', &before[head..before.len() - tail].join("\n"), out);
    marked('+', &after[head..after.len() - tail].join("\n"), out);
    marked(' ', &before[before.len() - tail..].join("\n"), out);
}

fn marked(mark: char, text: &str, out: &mut String) {
    for line in text.lines() {
        out.push(mark);
        out.push_str(line);
        out.push('\n');
    }
}

/// Redact before cutting: half a secret no longer matches a rule.
fn clean(text: &str, most: usize) -> String {
    clean_lines(text.trim(), most)
}

/// The same, but keeps leading white space, which matters in a diff.
fn clean_lines(text: &str, most: usize) -> String {
    let near: String = text.chars().take(4 * most).collect();
    let whole = redact(&plain(&near)).text.into_owned();
    match whole.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &whole[..end]),
        None => whole,
    }
}

/// The action of a call, in a few words.
pub fn action_words(action: &Action<'_>) -> String {
    match action {
        Action::Shell { command, .. } => format!("$ {command}"),
        Action::Script { calls, .. } => {
            let call = |call: &ScriptCall| match call {
                ScriptCall::Command(command) => command.clone(),
                ScriptCall::Poll(process) => format!("look at {process}"),
            };
            format!("$ {}", calls.iter().map(call).collect::<Vec<_>>().join("; "))
        }
        Action::Poll { process, .. } => format!("look at {process}"),
        Action::Read { path, .. } => format!("read {path}"),
        Action::Search { pattern, path: Some(path) } => format!("search {path} for {pattern}"),
        Action::Search { pattern, path: None } => format!("search for {pattern}"),
        Action::Edit(changes) => {
            let parts: Vec<String> = changes
                .iter()
                .map(|change| format!("{} {}", format!("{:?}", change.touch).to_lowercase(), change.path))
                .collect();
            parts.join(", ")
        }
        Action::Todos(todos) => format!("todo list of {}", todos.len()),
        Action::TaskCreated { subject } => format!("task: {subject}"),
        Action::TaskUpdated { id, .. } => format!("task {id} updated"),
        Action::Agent { description, .. } => format!("subagent: {description}"),
        Action::Stopped { id } => format!("stopped {id}"),
        Action::Asked(questions) => format!("asked: {}", questions.join(" / ")),
        Action::Plan(text) => format!("plan: {text}"),
        Action::Other { name, .. } => name.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "callers write json!(…)")]
    fn line(kind: &str, content: Value) -> String {
        let record = json!({
            "type": kind, "uuid": format!("{content}"), "timestamp": "2026-11-17T12:00:00Z", "sessionId": "s",
            "cwd": "/p", "message": { "id": format!("m{content}"), "role": kind, "content": content },
        });
        format!("{record}\n")
    }

    fn call(id: &str, command: &str) -> String {
        line(
            "assistant",
            json!([{ "type": "tool_use", "id": id, "name": "Bash", "input": { "command": command } }]),
        )
    }

    fn outcome(id: &str, text: &str, failed: bool) -> String {
        line(
            "user",
            json!([{ "type": "tool_result", "tool_use_id": id, "content": text, "is_error": failed }]),
        )
    }

    fn said(conversation: &Conversation) -> Vec<String> {
        let words = |entry: &ConversationEntry| match &entry.act {
            EntryKind::Prompt { from, text } => format!("{from}: {text}"),
            EntryKind::Reply { text } => format!("agent: {text}"),
            EntryKind::Tool { text, result, .. } => {
                let mark = result.as_ref().map_or('…', |r| if r.failed { '✗' } else { '✓' });
                format!("{mark} {text}")
            }
            EntryKind::Note { text } => format!("– {text}"),
        };
        conversation.entries().map(words).collect()
    }

    #[test]
    fn a_conversation_is_prompts_answers_and_calls_with_how_they_ended() {
        let text = [
            line("user", json!("Review PR 212.")),
            line("assistant", json!([{ "type": "text", "text": "Reading the diff." }])),
            call("t1", "cargo test"),
            outcome("t1", "1 failed", true),
            call("t2", "cargo publish"),
        ]
        .concat();
        let mut conversation = Conversation::new(100, 0);
        conversation.read(text.as_bytes()).unwrap();
        assert_eq!(
            said(&conversation),
            ["user: Review PR 212.", "agent: Reading the diff.", "✗ $ cargo test", "… $ cargo publish"]
        );
        assert_eq!(conversation.last_reply(), Some("Reading the diff."));
        assert_eq!(conversation.read_to(), text.len() as u64);
    }

    #[test]
    fn a_new_entry_is_reported_once_and_a_call_again_when_it_ends() {
        let mut conversation = Conversation::new(2, 0);
        conversation.read(call("t1", "make").as_bytes()).unwrap();
        assert_eq!(conversation.news().len(), 1);
        assert!(conversation.news().is_empty());
        conversation.read(outcome("t1", "ok", false).as_bytes()).unwrap();
        let news = conversation.news();
        assert!(
            matches!(&news[..], [ConversationEntry { act: EntryKind::Tool { result: Some(r), .. }, .. }] if !r.failed)
        );
        // A dropped entry is not news any more, and its result is ignored.
        let more: String = ["a", "b", "c"].map(|word| line("user", json!(word))).concat();
        conversation.read(more.as_bytes()).unwrap();
        assert_eq!(said(&conversation), ["user: b", "user: c"]);
        assert_eq!(conversation.news().len(), 2);
    }

    #[test]
    fn an_edit_shows_the_lines_that_it_changes_and_those_around_them() {
        let edit = |name: &str, input: Value| {
            let call = json!([{ "type": "tool_use", "id": name, "name": name, "input": input }]);
            let mut conversation = Conversation::new(9, 0);
            conversation.read(line("assistant", call).as_bytes()).unwrap();
            let EntryKind::Tool { diff, .. } = conversation.entries().next().unwrap().act.clone() else {
                panic!()
            };
            diff
        };
        let (old, new) = ("fn a() {\n    1\n}", "fn a() {\n    2\n    3\n}");
        let diff = edit("Edit", json!({ "file_path": "/p/a.rs", "old_string": old, "new_string": new }));
        assert_eq!(diff.as_deref(), Some(" fn a() {\n-    1\n+    2\n+    3\n }\n"));
        let diff = edit("Write", json!({ "file_path": "/p/b.rs", "content": "one\ntwo\n" }));
        assert_eq!(diff.as_deref(), Some("+one\n+two\n"));
        assert_eq!(edit("Read", json!({ "file_path": "/p/b.rs" })), None);
    }

    #[test]
    fn no_secret_is_shown_and_a_torn_line_waits_until_it_is_whole() {
        let key = format!("sk-ant-api03-{}", "aB3x".repeat(24));
        let whole = line("user", json!(format!("use {key}")));
        let mut conversation = Conversation::new(9, 0);
        conversation.read(&whole.as_bytes()[..whole.len() - 9]).unwrap();
        assert_eq!((said(&conversation).len(), conversation.read_to()), (0, 0));
        conversation.read(whole.as_bytes()).unwrap();
        assert!(!said(&conversation)[0].contains("aB3xaB3x"), "{:?}", said(&conversation));
    }

    #[test]
    fn a_message_is_its_senders_and_what_the_client_says_is_left_out() {
        let text = [
            line("user", json!("[baton message m1 from lead] x\nHurry.\n[end of message] x")),
            line("user", json!("<system-reminder>be kind</system-reminder>")),
        ]
        .concat();
        let mut conversation = Conversation::new(9, 0);
        conversation.read(text.as_bytes()).unwrap();
        assert_eq!(said(&conversation), ["lead: Hurry."]);
    }
}
