//! The task behind the session: a ledger continues where the one before it ended, and is stored within bounds.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Ledger, VERSION, text};
use crate::transcript::{Author, Parser};

/// Bytes that a carried ledger may take on disk.
pub const MAX_CARRIED: usize = 256 << 10;
/// Hops that are named one by one.
const HOPS: usize = 64;
/// Names that are carried: as many as the largest document shows.
const CARRIED_NAMES: usize = 1_600;
/// Messages of the cycle before that are still shown as the recent exchange.
const RECALLED: usize = 6;

/// One handoff on the way: the context that ended with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hop {
    pub handoff: String,
    pub session: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    pub provider: String,
    pub at: Timestamp,
    /// Why it was sealed.
    pub kind: String,
    /// The agent wrote it itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wrote: bool,
    /// The cycle that it ended.
    pub cycle: u32,
}

/// An agent's own text for its successor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Narrative {
    pub text: String,
    pub agent: String,
    pub cycle: u32,
    pub at: Timestamp,
}

/// The task was declared done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskEnd {
    pub at: Timestamp,
    pub by: Author,
}

impl Ledger {
    /// The ledger with which a session begins that continues the task of `before`, handed over by `hop`. A finished
    /// task is not continued.
    #[must_use]
    pub(crate) fn continued(before: Self, hop: Hop) -> Self {
        if before.done.is_some() {
            return Self::new();
        }
        let mut ledger = before.own();
        ledger.cycle += 1;
        ledger.former_root = ledger.root.take();
        ledger.cwd = None;
        ledger.hop(hop);
        // A process outlives the context that started it, not a chain of them.
        let cycle = ledger.cycle;
        ledger.jobs.jobs.items.retain(|job| !job.running || job.origin.cycle + 1 >= cycle);
        let old = ledger.exchange.len().saturating_sub(RECALLED);
        ledger.exchange.drain(..old);
        let known: Vec<String> = ledger.items().into_iter().map(|item| item.text).collect();
        for text in known {
            ledger.seen.scan(&text);
        }
        ledger
    }

    /// Notes a handoff that this task went through.
    pub fn hop(&mut self, hop: Hop) {
        if self.hops.iter().any(|known| known.handoff == hop.handoff) {
            return;
        }
        self.hops.push(hop);
        if self.hops.len() > HOPS {
            self.hops.remove(0);
            self.earlier_hops += 1;
        }
    }

    /// Drops what is needed only while reading one transcript.
    fn own(mut self) -> Self {
        self.version = VERSION;
        self.parser = Parser::default();
        self.open = super::feed::OpenCalls::default();
        self.seen = super::seen::Filter::default();
        self.loaded.clear();
        (self.read_to, self.recent_from, self.begins_at) = (0, 0, 0);
        (self.session, self.started, self.ended) = (None, None, None);
        (self.started_by, self.prompted) = (None, false);
        self
    }

    /// The ledger to keep beside the handoff: at most `most` bytes as JSON; the oldest and longest items go first.
    #[must_use]
    pub fn carried(&self, most: usize) -> Self {
        let mut ledger = self.clone().own();
        ledger.session.clone_from(&self.session);
        (ledger.started, ledger.ended) = (self.started.clone(), self.ended.clone());
        // Keep the counts of unread lines, which are still to be reported.
        ledger.parser.counts = self.parser.counts.clone();
        ledger.working.forget(CARRIED_NAMES);
        ledger.working.hits.retain(|hit| hit.used);
        for step in 0..STEPS {
            if serde_json::to_vec(&ledger).is_ok_and(|bytes| bytes.len() <= most) {
                break;
            }
            ledger.shrink(step);
        }
        ledger
    }

    /// Drops the least valuable items, more with each step.
    fn shrink(&mut self, step: usize) {
        // Texts and lists grow smaller by half with every step.
        let text = 6_000_usize >> step;
        let list = |n: usize| (n >> step).max(4);
        self.working.forget(list(CARRIED_NAMES));
        self.working.hits.truncate(list(60));
        let old = self.working.lines.len().saturating_sub(list(300));
        self.working.lines.drain(..old);
        let keep = list(16).min(self.exchange.len());
        let old = self.exchange.len() - keep;
        self.exchange.drain(..old);
        for said in self.exchange.iter_mut().chain(self.words.recent.items.iter_mut()) {
            shorten(&mut said.text, &mut said.left_out, text.max(300));
        }
        for said in self.words.first.iter_mut().chain(self.words.openings.items.iter_mut()) {
            shorten(&mut said.text, &mut said.left_out, text.max(600));
        }
        self.words.recent.cut(list(100));
        self.words.answers.cut(list(60));
        self.words.openings.cut((60 >> (step / 2)).max(20));
        self.words.rules.cut((200 >> (step / 2)).max(60));
        self.commands.commands.cut(list(100));
        self.commands.errors.cut(list(16));
        self.commands.replaced.cut(list(30));
        for error in &mut self.commands.errors.items {
            shorten(&mut error.text, &mut error.left_out, text.clamp(300, 2_000));
        }
        self.git.commits.cut(list(80));
        self.jobs.jobs.cut(list(40));
        for job in &mut self.jobs.jobs.items {
            job.result.take_if(|result| !text::fits(result, text.max(300)));
        }
        let old = self.files.files.len().saturating_sub(list(300));
        self.files.dropped += old as u64;
        self.files.files.drain(..old);
        for file in &mut self.files.files {
            file.outline.truncate(list(24));
        }
        if let Some(narrative) = &mut self.narrative {
            let mut left = 0;
            shorten(&mut narrative.text, &mut left, (24_000 >> step).max(1_000));
        }
    }
}

/// At the last step a ledger of the fullest lists has some tens of kilobytes.
const STEPS: usize = 8;

fn shorten(text: &mut String, left_out: &mut usize, most: usize) {
    if text::fits(text, most) {
        return;
    }
    let whole = text.chars().count();
    let kept = text::clip(text, most).unwrap_or_else(|| text::clip_lines(text, most)).to_owned();
    *left_out += whole - kept.chars().count();
    *text = kept;
}
