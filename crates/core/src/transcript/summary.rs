//! A listing's facts about one conversation, from the two ends of its transcript: a gigabyte costs as much as a
//! megabyte.
//!
//! The caller reads some kilobytes of the beginning and of the end, and more of either where [`Summary::head`] or
//! [`Summary::tail`] says that it was not enough.

use std::borrow::Cow;
use std::sync::LazyLock;

use jiff::Timestamp;
use memchr::{memmem, memrchr};
use serde::{Deserialize, Serialize};

use super::glance::{Glance, glance};
use super::parser::{Dialect, Parsed};
use super::record::Item;
use super::tail::{Tail, last_usage_in};
use super::{claude, codex};
use crate::scan::Needle;
use crate::wire::lax;

/// How much of a first prompt is kept: a title, not the prompt.
const MAX_TITLE: usize = 400;

/// The state of the conversation at its last record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ending {
    /// The end of the file does not show it.
    #[default]
    Unknown,
    /// The agent had answered.
    Answered,
    /// The user stopped the turn.
    Interrupted,
    /// In the middle of a turn: a prompt or a tool's result that nobody answered.
    Unfinished,
    /// The last request failed.
    Failed,
}

impl Ending {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Answered => "answered",
            Self::Interrupted => "interrupted",
            Self::Unfinished => "unfinished",
            Self::Failed => "failed",
        }
    }
}

/// One conversation in a few words. Text is as the transcript has it: nothing is redacted or made plain here.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Summary {
    pub provider: Option<Dialect>,
    pub session: Option<String>,
    pub cwd: Option<String>,
    pub branch: Option<String>,
    /// A name that the user or the client gave it.
    pub name: Option<String>,
    /// The first thing the user asked for.
    pub asked: Option<String>,
    pub begun: Option<Timestamp>,
    pub last: Option<Timestamp>,
    /// The size of the context at the last answer.
    pub tokens: Option<u64>,
    pub model: Option<String>,
    pub ending: Ending,
    /// The work of a subagent, not a separate conversation.
    pub sidechain: bool,
}

impl Summary {
    /// Reads the first bytes of a transcript. Returns `false` if more of them would add something.
    pub fn head(&mut self, bytes: &[u8]) -> bool {
        let mut command = None;
        for line in lines(bytes) {
            // The last line of a piece is cut; only a whole file may lack its last newline, and then it parses.
            let Some(parsed) = self.parse(line) else {
                self.title(line);
                continue;
            };
            self.title(line);
            let record = parsed.record;
            self.sidechain |= record.sidechain;
            fill(&mut self.session, record.session);
            fill(&mut self.cwd, record.cwd);
            fill(&mut self.branch, record.branch);
            if self.begun.is_none() {
                self.begun = record.time.as_deref().and_then(|t| t.parse().ok());
            }
            for item in record.items {
                match item {
                    Item::Prompt(text) | Item::Queued(text) if self.asked.is_none() => {
                        self.asked = Some(beginning(&text));
                    }
                    Item::Command { name, args } if command.is_none() => {
                        command = Some(beginning(format!("{name} {args}").trim_end()));
                    }
                    _ => {}
                }
            }
            if self.asked.is_some() && self.cwd.is_some() && self.begun.is_some() {
                return true;
            }
        }
        if self.name.is_none() {
            self.name = command;
        }
        false
    }

    /// Reads the last bytes of a transcript; `bytes` may begin in the middle of a line. Returns `false` if more of them
    /// would add something.
    pub fn tail(&mut self, bytes: &[u8]) -> bool {
        let mut rest = bytes;
        (self.last, self.ending) = (None, Ending::Unknown);
        // How full the context was, by the last record that says so.
        let mut told = None;
        let mut is_last = true;
        while !rest.is_empty() && (self.last.is_none() || self.ending == Ending::Unknown) {
            let newline = memrchr(b'\n', &rest[..rest.len() - 1]);
            let line = &rest[newline.map_or(0, |n| n + 1)..];
            rest = &rest[..newline.map_or(0, |n| n + 1)];
            let (last, ending) = if let Some(seen) = self.answer(line) {
                if let Some((tokens, model)) = seen.full
                    && is_last
                {
                    told = Some((Some(tokens), model.map(Cow::into_owned)));
                    is_last = false;
                }
                let ending = if seen.sidechain { Ending::Unknown } else { seen.ending };
                (seen.time.and_then(|t| t.parse().ok()), ending)
            } else {
                // A compaction, or a record that `glance` did not understand, may be the last one that says how full it
                // was.
                is_last &= !BOUNDARY.is_in(line) && !USAGE.is_in(line);
                self.last_of(line)
            };
            self.last = self.last.or(last);
            if self.ending == Ending::Unknown {
                self.ending = ending;
            }
        }
        self.last_title(bytes);
        let full = match self.provider {
            _ if told.is_some() => told,
            Some(Dialect::Codex) => codex_tokens(bytes).map(|tokens| (Some(tokens), None)),
            _ => match last_usage_in(bytes) {
                Tail::Usage(usage) => Some((Some(usage.tokens + usage.output), usage.model)),
                Tail::Compacted(compacted) => Some((compacted.post_tokens, None)),
                Tail::Nothing | Tail::OutOfReach => None,
            },
        };
        if let Some((tokens, model)) = &full {
            self.tokens = *tokens;
            self.model.clone_from(model);
        }
        self.last.is_some() && self.ending != Ending::Unknown && full.is_some()
    }

    /// What the conversation was about.
    pub fn about(&self) -> Option<&str> {
        self.name
            .as_deref()
            .filter(|n| !n.starts_with('/'))
            .or(self.asked.as_deref())
            .or(self.name.as_deref())
    }

    /// When a record was written, and the state of the conversation if it is the last one.
    pub(super) fn last_of(&mut self, line: &[u8]) -> (Option<Timestamp>, Ending) {
        let Some(Parsed { record, .. }) = self.parse(line) else { return (None, Ending::Unknown) };
        let ending = if record.sidechain {
            Ending::Unknown
        } else if memmem::find(line, b"\"isApiErrorMessage\":true").is_some() {
            Ending::Failed
        } else {
            ending(&record.items)
        };
        (record.time.as_deref().and_then(|t| t.parse().ok()), ending)
    }

    /// The record, if it is an answer of Claude Code.
    fn answer<'l>(&mut self, line: &'l [u8]) -> Option<Glance<'l>> {
        let may_be = self.provider != Some(Dialect::Codex) && USAGE.is_in(line);
        let seen = may_be.then(|| glance(line.trim_ascii())).flatten()?;
        self.provider = Some(Dialect::Claude);
        Some(seen)
    }

    fn parse<'l>(&mut self, line: &'l [u8]) -> Option<Parsed<'l>> {
        let line = line.trim_ascii();
        let parsed = match self.provider {
            Some(Dialect::Codex) => codex::parse(line, &mut codex::Thread::default()),
            // Every record of Codex is wrapped in a payload.
            None if PAYLOAD.is_in(line) => {
                codex::parse(line, &mut codex::Thread::default()).or_else(|| claude::parse(line))
            }
            Some(Dialect::Claude) | None => claude::parse(line),
        }?;
        self.provider = Some(parsed.provider);
        Some(parsed)
    }

    /// A name in `line`, if it gives one. The last one wins.
    fn title(&mut self, line: &[u8]) {
        if NAMES.iter().any(|key| key.is_in(&line[..line.len().min(64)]))
            && let Ok(named) = serde_json::from_slice::<Named<'_>>(line)
            && let Some(name) = named.custom.or(named.ai).or(named.summary)
            && !name.trim().is_empty()
        {
            self.name = Some(beginning(&name));
        }
    }

    /// The newest name near the end of the file: each renaming adds another record.
    fn last_title(&mut self, bytes: &[u8]) {
        if let Some(at) = TITLE.last(bytes) {
            let start = memrchr(b'\n', &bytes[..at]).map_or(0, |n| n + 1);
            let end = memchr::memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |n| at + n);
            self.title(&bytes[start..end]);
        }
    }
}

/// Searched in the end of each transcript.
static TITLE: LazyLock<Piece> = LazyLock::new(|| Piece(memmem::Finder::new(b"\"type\":\"custom-title\"")));
static COUNT: LazyLock<Piece> = LazyLock::new(|| Piece(memmem::Finder::new(b"\"type\":\"token_count\"")));

/// Patterns that tell the kinds of lines apart before any is parsed.
static USAGE: LazyLock<Needle> = LazyLock::new(|| Needle::new(b"\"usage\""));
static BOUNDARY: LazyLock<Needle> = LazyLock::new(|| Needle::new(b"\"compact_boundary\""));
static PAYLOAD: LazyLock<Needle> = LazyLock::new(|| Needle::new(b"\"payload\""));

/// A text whose last occurrence is searched for, from the front: a search from the end goes byte by byte, fifty times
/// slower.
struct Piece(memmem::Finder<'static>);

impl Piece {
    fn last(&self, bytes: &[u8]) -> Option<usize> {
        self.0.find_iter(bytes).last()
    }
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let len = memchr::memchr(b'\n', rest).map_or(rest.len(), |n| n + 1);
        let (line, after) = rest.split_at(len);
        rest = after;
        (!line.is_empty()).then_some(line)
    })
}

static NAMES: LazyLock<[Needle; 3]> = LazyLock::new(|| {
    [b"\"custom-title\"".as_slice(), b"\"ai-title\"", b"\"type\":\"summary\""].map(Needle::new)
});

#[derive(Deserialize)]
struct Named<'a> {
    #[serde(default, borrow, rename = "customTitle", deserialize_with = "lax::text")]
    custom: Option<Cow<'a, str>>,
    #[serde(default, borrow, rename = "aiTitle", deserialize_with = "lax::text")]
    ai: Option<Cow<'a, str>>,
    #[serde(default, borrow, deserialize_with = "lax::text")]
    summary: Option<Cow<'a, str>>,
}

fn fill(place: &mut Option<String>, value: Option<Cow<'_, str>>) {
    if place.is_none() {
        *place = value.map(Cow::into_owned);
    }
}

fn beginning(text: &str) -> String {
    let text = text.trim();
    text.char_indices().nth(MAX_TITLE).map_or(text, |(at, _)| &text[..at]).to_owned()
}

/// The state of the conversation if these are its last acts.
fn ending(items: &[Item<'_>]) -> Ending {
    items
        .iter()
        .rev()
        .find_map(|item| match item {
            Item::TurnEnded | Item::Reply(_) | Item::Boundary => Some(Ending::Answered),
            Item::Interrupted => Some(Ending::Interrupted),
            Item::Call { .. }
            | Item::Outcome { .. }
            | Item::Ran { .. }
            | Item::Patched { .. }
            | Item::Told { .. }
            | Item::Prompt(_)
            | Item::Queued(_) => Some(Ending::Unfinished),
            // `/exit` and the like come after the last turn and are not part of it.
            Item::Command { .. }
            | Item::TaskEnded { .. }
            | Item::AgentStarted { .. }
            | Item::Loaded(_)
            | Item::Branch(_)
            | Item::Link(_) => None,
        })
        .unwrap_or_default()
}

/// The last `token_count` that counts something: right after a compaction comes one of zeros.
fn codex_tokens(bytes: &[u8]) -> Option<u64> {
    #[derive(Deserialize)]
    struct TokenRecord {
        payload: Payload,
    }
    #[derive(Deserialize)]
    struct Payload {
        info: Option<Info>,
    }
    #[derive(Deserialize)]
    struct Info {
        last_token_usage: Usage,
    }
    #[derive(Deserialize)]
    struct Usage {
        total_tokens: u64,
    }
    let mut end = bytes.len();
    while let Some(at) = COUNT.last(&bytes[..end]) {
        let start = memrchr(b'\n', &bytes[..at]).map_or(0, |n| n + 1);
        let stop = memchr::memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |n| at + n);
        let line: Option<TokenRecord> = serde_json::from_slice(&bytes[start..stop]).ok();
        let tokens = line.and_then(|l| l.payload.info).map(|i| i.last_token_usage.total_tokens);
        if let Some(tokens) = tokens.filter(|n| *n > 0) {
            return Some(tokens);
        }
        end = start;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLAUDE: &str = r#"{"type":"mode","mode":"normal","sessionId":"s"}
{"type":"user","uuid":"u1","timestamp":"2026-11-16T01:00:00Z","cwd":"/p","gitBranch":"main","sessionId":"s","message":{"role":"user","content":"Port the parser."}}
{"type":"assistant","uuid":"a1","timestamp":"2026-11-16T01:05:00Z","cwd":"/p","sessionId":"s","message":{"id":"m","role":"assistant","model":"opus","content":[{"type":"text","text":"Done."}],"usage":{"input_tokens":900,"output_tokens":100}}}
"#;

    fn of(text: &str) -> Summary {
        let mut summary = Summary::default();
        summary.head(text.as_bytes());
        summary.tail(text.as_bytes());
        summary
    }

    #[test]
    fn both_ends_tell_what_it_was_about_when_how_full_and_how_it_ended() {
        let it = of(CLAUDE);
        assert_eq!(it.about(), Some("Port the parser."));
        assert_eq!((it.session.as_deref(), it.cwd.as_deref()), (Some("s"), Some("/p")));
        assert_eq!((it.tokens, it.model.as_deref()), (Some(1000), Some("opus")));
        assert_eq!(it.ending, Ending::Answered);
        let minutes = it.last.unwrap().duration_since(it.begun.unwrap()).as_mins();
        assert_eq!(minutes, 5);
    }

    #[test]
    fn a_name_that_was_given_wins_over_the_first_prompt_and_the_last_one_counts() {
        let name =
            |n: &str| format!(r#"{{"type":"custom-title","customTitle":"{n}","sessionId":"s"}}"#) + "\n";
        let it = of(&format!("{}{CLAUDE}{}", name("early"), name("late")));
        assert_eq!(it.about(), Some("late"));
    }

    #[test]
    fn the_last_record_shows_how_the_conversation_ended() {
        let line = |l: &str| format!("{CLAUDE}{l}\n");
        let call = r#"{"type":"assistant","timestamp":"2026-11-16T01:06:00Z","message":{"id":"n","content":[{"type":"tool_use","id":"t","name":"Bash","input":{"command":"ls"}}]}}"#;
        assert_eq!(of(&line(call)).ending, Ending::Unfinished);
        let stopped = r#"{"type":"user","timestamp":"2026-11-16T01:06:00Z","message":{"content":[{"type":"text","text":"[Request interrupted by user]"}]}}"#;
        assert_eq!(of(&line(stopped)).ending, Ending::Interrupted);
        let failed = r#"{"type":"assistant","isApiErrorMessage":true,"timestamp":"2026-11-16T01:06:00Z","message":{"id":"n","content":[{"type":"text","text":"API Error"}]}}"#;
        assert_eq!(of(&line(failed)).ending, Ending::Failed);
        let exit = r#"{"type":"user","timestamp":"2026-11-16T01:06:00Z","message":{"content":"<command-name>/exit</command-name>"}}"#;
        assert_eq!(of(&line(exit)).ending, Ending::Answered);
        let torn = of(&format!("{CLAUDE}{}", &call[..80]));
        assert_eq!(torn.ending, Ending::Answered, "a torn line says nothing");
    }

    #[test]
    fn a_rollout_is_read_by_the_same_rules() {
        let it = of(
            r#"{"timestamp":"2026-11-16T00:41:53Z","type":"session_meta","payload":{"id":"c1","cwd":"/q","git":{"branch":"dev"}}}
{"timestamp":"2026-11-16T00:41:54Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"Say hello"}]}}
{"timestamp":"2026-11-16T00:41:55Z","type":"event_msg","payload":{"type":"token_count","info":{"last_token_usage":{"total_tokens":5050}}}}
{"timestamp":"2026-11-16T00:41:56Z","type":"event_msg","payload":{"type":"token_count","info":{"last_token_usage":{"total_tokens":0}}}}
{"timestamp":"2026-11-16T00:41:57Z","type":"event_msg","payload":{"type":"task_complete"}}
"#,
        );
        assert_eq!(it.provider, Some(Dialect::Codex));
        assert_eq!((it.about(), it.session.as_deref()), (Some("Say hello"), Some("c1")));
        assert_eq!((it.tokens, it.ending), (Some(5050), Ending::Answered));
        assert_eq!(it.branch.as_deref(), Some("dev"));
    }
}
