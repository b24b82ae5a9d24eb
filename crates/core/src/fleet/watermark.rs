//! A machine's memory of the database's counters. If they go back, the database was restored from a backup, and mail
//! acknowledged since may be lost.

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

/// How long outboxes keep acknowledged mail, to send it again after a restore.
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
    /// The incarnation of this machine.
    #[serde(default)]
    pub epoch: u64,
}

/// The same counters in the database, when a machine connects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counters {
    pub beats: u64,
    pub last: u64,
    pub epoch: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Continuity {
    Same,
    /// The database is older than this machine's memory of it.
    Restored,
}

impl Watermark {
    pub fn compare(&self, found: &Counters) -> Continuity {
        let is_older = found.beats < self.beats || found.last < self.last || found.epoch < self.epoch;
        if is_older { Continuity::Restored } else { Continuity::Same }
    }

    /// Notes the answer to a heartbeat. The database may have been restored while the connection held: what it answers
    /// then is no later than what it has acknowledged before. The next connection finds that out from what is noted here.
    pub fn hear(&mut self, beats: u64, last: u64) -> Continuity {
        if beats <= self.beats || last < self.last {
            self.beats += 1;
            return Continuity::Restored;
        }
        (self.beats, self.last) = (beats, last);
        Continuity::Same
    }

    /// From here on after a restore. The epoch stays, so that the next incarnation is later than all earlier ones.
    #[must_use]
    pub fn after_restore(&self, found: &Counters) -> Self {
        Self { beats: found.beats, last: found.last, epoch: self.epoch }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_that_knows_less_than_was_seen_was_restored() {
        let seen = Watermark { beats: 9, last: 40, epoch: 3 };
        let found = Counters { beats: 9, last: 41, epoch: 3 };
        assert_eq!(seen.compare(&found), Continuity::Same);
        for older in
            [Counters { beats: 8, ..found }, Counters { last: 39, ..found }, Counters { epoch: 2, ..found }]
        {
            assert_eq!(seen.compare(&older), Continuity::Restored, "{older:?}");
            let after = seen.after_restore(&older);
            assert_eq!(after.epoch, 3);
            assert_eq!(after.compare(&Counters { epoch: 4, ..older }), Continuity::Same);
        }
        assert_eq!(Watermark::default().compare(&Counters { beats: 0, last: 0, epoch: 0 }), Continuity::Same);
    }

    #[test]
    fn a_database_that_is_restored_while_the_connection_holds_is_noticed_at_the_next_beat() {
        let seen = Watermark { beats: 9, last: 40, epoch: 3 };
        for (beats, last) in [(9, 41), (4, 41), (10, 39)] {
            let mut now = seen;
            assert_eq!(now.hear(beats, last), Continuity::Restored);
            // Killed here: the next connection knows it all the same.
            assert_eq!(now.compare(&Counters { beats, last, epoch: 3 }), Continuity::Restored);
        }
        let mut now = seen;
        assert_eq!(now.hear(11, 40), Continuity::Same, "an answer was lost");
        assert_eq!(now, Watermark { beats: 11, last: 40, epoch: 3 });
    }
}
