//! The facts that a transcript proves, extracted by rule, no model involved.
//!
//! A [`Ledger`] is fed line after line and stays small whatever the transcript's size: every list is capped and
//! counts what it let go. It can be stored and fed on from [`Ledger::read_to`].

mod capped;
mod commands;
mod feed;
mod files;
mod git;
mod jobs;
mod mentions;
pub mod seen;
pub mod shell;
pub mod text;
mod todos;
mod words;

pub use capped::Capped;
pub use commands::{Command, Commands, Failure, Outcome, Replaced};
pub use files::{File, Files};
pub use git::{Commit, Git, Seen};
pub use jobs::{Job, Jobs};
pub use mentions::Mentions;
pub use todos::{Task, Todos};
pub use words::{Answered, Rule, Said, Way, Words, rule_strength};

use std::io::{self, BufRead};

use serde::{Deserialize, Serialize};

use crate::transcript::lines::{self, Line, MAX_LINE};
use crate::transcript::{Counts, Origin, Parser, Provider};

/// Facts of one transcript.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Ledger {
    pub session: Option<String>,
    /// The folder in which the session began, and the one it was in last.
    pub root: Option<String>,
    pub cwd: Option<String>,
    /// Stamps of the first and the last record that has one, as the provider wrote them.
    pub started: Option<String>,
    pub ended: Option<String>,
    /// Compactions seen so far; facts carry the number at their time.
    pub stretch: u32,
    pub words: Words,
    pub todos: Todos,
    pub plan: Option<Plan>,
    pub files: Files,
    pub commands: Commands,
    pub git: Git,
    pub jobs: Jobs,
    /// Questions to the user that nobody answered.
    pub questions: Vec<Question>,
    pub last_reply: Option<Said>,
    pub mentions: Mentions,
    pub seen: seen::Filter,
    parser: Parser,
    open: feed::OpenCalls,
    read_to: u64,
}

/// The file (and the text, when there is no file) of the plan that is being followed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub path: String,
    pub stretch: u32,
    pub origin: Origin,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    pub text: String,
    pub stretch: u32,
    pub origin: Origin,
}

impl Ledger {
    /// The ledger of a whole transcript.
    pub fn of(reader: impl BufRead) -> io::Result<Self> {
        let mut ledger = Self::default();
        ledger.read(reader)?;
        Ok(ledger)
    }

    /// Feeds what `reader` holds, whose first byte is the one at [`Ledger::read_to`]. A last line without its
    /// newline is read only if it is whole; otherwise it is left for the next time.
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
        // The parser lends out records of its own memory, so it steps aside while the ledger takes them in.
        let mut parser = std::mem::take(&mut self.parser);
        if let Some(record) = parser.feed(line, offset) {
            self.take(record);
        }
        self.parser = parser;
    }

    /// Where to read on: the byte behind the last line that was taken.
    pub fn read_to(&self) -> u64 {
        self.read_to
    }

    pub fn counts(&self) -> &Counts {
        &self.parser.counts
    }

    pub fn provider(&self) -> Option<Provider> {
        self.parser.provider
    }

    /// Whether there is anything a successor could use.
    pub fn is_empty(&self) -> bool {
        self.words.recent.is_empty()
            && self.last_reply.is_none()
            && self.files.files.is_empty()
            && self.commands.commands.is_empty()
            && self.todos.tasks.is_empty()
    }

    /// What a tool was doing when the transcript ended.
    pub fn in_flight(&self) -> impl Iterator<Item = &str> {
        self.open.labels()
    }

    /// What could not be read, in sentences for people.
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
