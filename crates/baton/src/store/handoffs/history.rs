//! The audit trail: one line per transition, append-only.
//!
//! An end is written before the manifest that commits it, with the whole entry, so that a handoff that leaves the
//! manifest is never forgotten. If the commit then fails, the manifest still lists the handoff, and the manifest wins.

use baton_core::handoff::{Entry, Status};
use baton_core::ids::ChannelName;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::store::handoffs::{Handoffs, StoreError};
use crate::sys::fs::{self, PRIVATE};

/// A handoff's transitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transition {
    Sealed,
    Claimed,
    Released,
    Consumed,
    Expired,
    Cleared,
    Reactivated,
    #[serde(other)]
    Other,
}

/// One line of the history.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Event {
    pub at: Timestamp,
    pub what: Transition,
    pub entry: Entry,
}

impl Event {
    pub fn of(what: Transition, entry: Entry, at: Timestamp) -> Self {
        Self { at, what, entry }
    }
}

/// Enough for some hundred thousand transitions.
const MAX: u64 = 256 << 20;

impl Handoffs {
    /// All transitions, oldest first, and how many lines could not be read.
    pub fn history(&self, channel: &ChannelName) -> Result<(Vec<Event>, usize), StoreError> {
        let bytes = fs::read(&self.history_path(channel), MAX)?.unwrap_or_default();
        let (mut events, mut unread) = (Vec::new(), 0);
        for line in bytes.split(|b| *b == b'\n').filter(|line| !line.is_empty()) {
            match serde_json::from_slice(line) {
                Ok(event) => events.push(event),
                Err(_) => unread += 1,
            }
        }
        Ok((events, unread))
    }

    /// Records ends before the manifest forgets them.
    pub(super) fn record_ends(
        &self,
        channel: &ChannelName,
        ended: &[Entry],
        now: Timestamp,
    ) -> Result<(), StoreError> {
        for entry in ended {
            let what = match entry.status {
                Status::Active => continue,
                Status::Consumed => Transition::Consumed,
                Status::Expired => Transition::Expired,
                Status::Cleared => Transition::Cleared,
            };
            self.append(channel, &Event::of(what, entry.clone(), now))?;
        }
        Ok(())
    }

    /// Records a transition that the manifest itself still shows. Not worth failing for.
    pub(super) fn record(&self, channel: &ChannelName, event: &Event) {
        let _ = self.append(channel, event);
    }

    fn append(&self, channel: &ChannelName, event: &Event) -> Result<(), StoreError> {
        let path = self.history_path(channel);
        let line = crate::store::record::encode(event).map_err(|e| fs::FileError::new("encode", &path, e))?;
        Ok(fs::append_line(&path, &line, PRIVATE)?)
    }
}
