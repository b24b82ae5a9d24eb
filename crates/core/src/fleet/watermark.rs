//! What a machine remembers of the database, to notice that it was restored from a backup: then counters are below what
//! was seen before, and what was acknowledged since may be gone.

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

/// Outboxes keep what the database has acknowledged for so long, to send it again after a restore.
pub const KEPT: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Counters of one machine in the database. They only grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Watermark {
    /// Heartbeats of this machine that the database has acknowledged. Whatever it sends is one.
    #[serde(default)]
    pub beats: u64,
    /// The last place in this machine's mailbox that was given to a message.
    #[serde(default)]
    pub last: u64,
    /// Messages up to here are on this machine's disk.
    #[serde(default)]
    pub cursor: u64,
    /// The incarnation of this machine.
    #[serde(default)]
    pub epoch: u64,
}

/// What the database says of the same counters when a machine connects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    pub beats: u64,
    pub last: u64,
    pub epoch: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Continuity {
    Same,
    /// The database is older than what this machine has seen of it.
    Restored,
}

impl Watermark {
    pub fn compare(&self, found: &Found) -> Continuity {
        let is_older = found.beats < self.beats
            || found.last < self.last
            || found.last < self.cursor
            || found.epoch < self.epoch;
        if is_older { Continuity::Restored } else { Continuity::Same }
    }

    /// From here on after a restore: everything in the mailbox is read again, and known messages are recognised by their
    /// ids. The epoch stays, so that the next incarnation is later than all earlier ones.
    #[must_use]
    pub fn after_restore(&self, found: &Found) -> Self {
        Self { beats: found.beats, last: found.last, cursor: 0, epoch: self.epoch }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_that_knows_less_than_was_seen_was_restored() {
        let seen = Watermark { beats: 9, last: 40, cursor: 38, epoch: 3 };
        let found = Found { beats: 9, last: 41, epoch: 3 };
        assert_eq!(seen.compare(&found), Continuity::Same);
        for older in [Found { beats: 8, ..found }, Found { last: 39, ..found }, Found { epoch: 2, ..found }] {
            assert_eq!(seen.compare(&older), Continuity::Restored, "{older:?}");
            let after = seen.after_restore(&older);
            assert_eq!((after.cursor, after.epoch), (0, 3));
            assert_eq!(after.compare(&Found { epoch: 4, ..older }), Continuity::Same);
        }
        assert_eq!(Watermark::default().compare(&Found { beats: 0, last: 0, epoch: 0 }), Continuity::Same);
    }
}
