//! The facts that a transcript proves, extracted by rule, no model involved.
//!
//! A [`Ledger`] is fed line after line and stays small whatever the transcript's size: every list is capped and counts
//! what it dropped. It can be stored and fed on from [`Ledger::read_to`]. A session that continues a task begins with
//! the ledger of the session before (`Ledger::continued`), so it is the ledger of the task: each fact knows in which
//! cycle it was read.

mod capped;
mod commands;
mod feed;
mod files;
mod git;
mod items;
mod jobs;
mod names;
mod paste;
pub mod seen;
pub mod shell;
mod task;
pub mod text;
mod todos;
mod words;
mod working;

pub use capped::Capped;
pub use commands::{Command, CommandOutcome, Commands, Failure, ReplacedApproach};
pub(crate) use files::slashed;
pub use files::{ChangedPlace, Definition, File, Files};
pub use git::{Commit, Git, GitOutput};
pub use items::{ItemKind, TaskItem};
pub use jobs::{Job, Jobs};
pub(crate) use names::holds_secrets;
pub use task::{Hop, MAX_CARRIED, Narrative, TaskEnd};
pub use todos::{Task, Todos};
pub use words::{
    AnswerState, AnsweredQuestion, StandingRule, Utterance, UtteranceKind, Words, rule_strength,
};
pub(crate) use working::names_of;
pub use working::{Name, SearchedLine, Working};

use std::collections::VecDeque;
use std::io::{self, BufRead};

use serde::{Deserialize, Serialize};

use crate::transcript::lines::{self, Line, MAX_LINE};
use crate::transcript::{Author, Counts, Dialect, Origin, Parser};

/// Facts of one transcript, and of the task before it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Ledger {
    /// The version of the form in which it is stored. A ledger of another form is rebuilt from the transcript.
    #[serde(default)]
    pub version: u32,
    pub session: Option<String>,
    /// The folder in which the session began, and the one it was in last.
    pub root: Option<String>,
    pub cwd: Option<String>,
    /// The first and the last timestamp among the records, as the provider wrote them.
    pub started: Option<String>,
    pub ended: Option<String>,
    /// The number of the fresh context that the task is in; facts carry the one of their time.
    pub cycle: u32,
    pub words: Words,
    pub todos: Todos,
    pub plan: Option<Plan>,
    pub files: Files,
    pub commands: Commands,
    pub git: Git,
    pub jobs: Jobs,
    /// Questions to the user that nobody answered.
    pub questions: Vec<OpenQuestion>,
    /// The last words of both sides, the newest at the end.
    pub exchange: VecDeque<Utterance>,
    pub working: Working,
    /// The handoffs that led here, the oldest first.
    #[serde(default)]
    pub hops: Vec<Hop>,
    /// Hops before those.
    #[serde(default)]
    pub earlier_hops: u64,
    /// The last words that an agent of this task wrote for its successor.
    #[serde(default)]
    pub narrative: Option<Narrative>,
    #[serde(default)]
    pub done: Option<TaskEnd>,
    /// Items that a person has struck from the task.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub struck: Vec<String>,
    /// Frames of ours in the transcript: handoffs that this session was given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loaded: Vec<String>,
    #[serde(default, skip_serializing_if = "seen::Filter::is_empty")]
    pub seen: seen::Filter,
    #[serde(default)]
    parser: Parser,
    #[serde(default)]
    open: feed::OpenCalls,
    #[serde(default)]
    read_to: u64,
    /// Where in the transcript the task begins; records before it belong to a finished task.
    #[serde(default, skip_serializing_if = "is_zero")]
    begins_at: u64,
    /// Records before this byte are too old for the working set.
    #[serde(skip)]
    recent_from: u64,
    /// The author of the first prompt, if that is not the user: the agent that started this one.
    #[serde(default)]
    started_by: Option<String>,
    /// A first prompt was seen.
    #[serde(default)]
    prompted: bool,
    /// Where the sessions before worked; paths in their facts are below it.
    #[serde(default)]
    former_root: Option<String>,
}

/// The form in which ledgers are stored.
pub const VERSION: u32 = 2;

/// The file of the current plan, or its text if there is no file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub path: String,
    pub origin: Origin,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenQuestion {
    pub text: String,
    pub origin: Origin,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// How many bytes at the end of a transcript the working set is taken from: some hundreds of acts. Names from earlier
/// ones would be dropped again, and searching for names is the most expensive step.
pub const RECENT: u64 = 4 << 20;

/// Messages of the recent exchange that are kept, and how much of each.
const EXCHANGE: usize = 40;
const REPLY_CHARS: usize = 6_000;

impl Ledger {
    /// An empty ledger of the current form.
    pub fn new() -> Self {
        Self { version: VERSION, ..Self::default() }
    }

    /// The ledger of a whole transcript.
    pub fn of(reader: impl BufRead) -> io::Result<Self> {
        let mut ledger = Self::new();
        ledger.read(reader)?;
        Ok(ledger)
    }

    /// The agent that started this session: its first prompt is that agent's, not the user's.
    #[must_use]
    pub fn started_by(mut self, agent: Option<&str>) -> Self {
        self.started_by = agent.map(str::to_owned);
        self
    }

    /// An empty ledger of the task that begins at this byte of the transcript.
    #[must_use]
    pub fn beginning_at(offset: u64) -> Self {
        Self { read_to: offset, begins_at: offset, ..Self::new() }
    }

    /// Where in the transcript the task begins.
    pub fn begins_at(&self) -> u64 {
        self.begins_at
    }

    /// Leaves records before `offset` out of the working set, because what is megabytes back is no longer in play.
    pub fn recent_from(&mut self, offset: u64) {
        self.recent_from = offset;
    }

    /// Feeds the content of `reader`, which starts at [`Ledger::read_to`]. A last line without a newline is read only
    /// if it is complete; otherwise it is left for the next call.
    pub fn read(&mut self, reader: impl BufRead) -> io::Result<()> {
        self.parser.counts.torn = false;
        let mut torn_end = None;
        let end = lines::for_each(reader, self.read_to, MAX_LINE, |line, offset| match line {
            Line::Whole(bytes) => self.feed(bytes, offset),
            Line::TooLong(_) => self.parser.too_long(),
            Line::Torn(bytes) => {
                if serde_json::from_slice::<serde::de::IgnoredAny>(bytes).is_ok() {
                    self.feed(bytes, offset);
                    torn_end = Some(offset + bytes.len() as u64);
                } else {
                    self.parser.counts.torn = true;
                }
            }
        })?;
        self.read_to = torn_end.unwrap_or(end);
        Ok(())
    }

    /// One line without its newline, which begins at `offset`.
    pub fn feed(&mut self, line: &[u8], offset: u64) {
        // Records borrow from the parser, so take it out while the ledger reads them.
        let mut parser = std::mem::take(&mut self.parser);
        // The ledger must know the provider meanwhile.
        self.parser.provider = parser.provider;
        if let Some(record) = parser.feed(line, offset) {
            self.take(record);
        }
        self.parser = parser;
    }

    /// Where to continue reading: the byte after the last line that was taken.
    pub fn read_to(&self) -> u64 {
        self.read_to
    }

    pub fn counts(&self) -> &Counts {
        &self.parser.counts
    }

    pub fn provider(&self) -> Option<Dialect> {
        self.parser.provider
    }

    /// Whether there is anything a successor could use.
    pub fn is_empty(&self) -> bool {
        self.words.recent.is_empty()
            && self.words.first.is_none()
            && self.exchange.is_empty()
            && self.files.files.is_empty()
            && self.commands.commands.is_empty()
            && self.todos.tasks.is_empty()
            && self.narrative.is_none()
    }

    /// The agent's last message.
    pub fn last_reply(&self) -> Option<&Utterance> {
        self.exchange.iter().rev().find(|said| said.way == UtteranceKind::Reply)
    }

    /// The last message as the client itself reports it: the transcript may lag behind.
    pub fn last_message(&mut self, text: &str) {
        let text = text.trim();
        let known =
            |said: &Utterance| said.text == text || (said.left_out > 0 && text.starts_with(&said.text));
        if text.is_empty() || self.last_reply().is_some_and(known) {
            return;
        }
        let origin = Origin { cycle: self.cycle, offset: self.read_to, ..Origin::default() };
        self.reply(text, &origin);
    }

    fn exchanged(&mut self, said: Utterance) {
        self.exchange.push_back(said);
        if self.exchange.len() > EXCHANGE {
            self.exchange.pop_front();
        }
    }

    fn reply(&mut self, text: &str, origin: &Origin) {
        let text = text.trim();
        let kept = text::clip(text, REPLY_CHARS).unwrap_or_else(|| text::clip_lines(text, REPLY_CHARS));
        self.words.answered = AnswerState::Yes;
        self.exchanged(Utterance {
            text: kept.to_owned(),
            way: UtteranceKind::Reply,
            author: Author::Agent(String::new()),
            asked: None,
            command: None,
            left_out: text.chars().count().saturating_sub(kept.chars().count()),
            origin: origin.clone(),
        });
    }

    /// The tool calls that were running when the transcript ended.
    pub fn in_flight(&self) -> impl Iterator<Item = &str> {
        self.open.labels()
    }

    /// The gaps in what was read, in sentences for people.
    pub fn notes(&self) -> Vec<String> {
        let c = self.counts();
        let mut notes = Vec::new();
        if c.lines == 0 && !c.torn {
            notes.push("The transcript has no lines.".to_owned());
        }
        let mut note = |n: u64, text: &str| {
            if n > 0 {
                notes.push(format!("{n} of {} lines {text}.", c.lines));
            }
        };
        note(c.unreadable, "could not be read as records");
        note(c.too_long, "are longer than 8 MiB and were passed over");
        note(c.mended, "held bytes that are not UTF-8");
        note(c.unknown, "are of a kind that this version does not know");
        if c.torn {
            notes.push("The last line is not complete.".to_owned());
        }
        notes
    }
}
