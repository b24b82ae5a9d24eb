//! How far a message to another machine has come. Receipts arrive late, twice and out of order, so a stage only moves
//! forward.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The stages of a message, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// In the outbox of the machine that sends it.
    Queued,
    /// The database has it.
    Stored,
    /// The other machine has it on its disk.
    Fetched,
    /// It expired before anybody could show it.
    Expired,
    /// It will not be delivered, and the evidence says why.
    Failed,
    /// Its reader was shown it.
    Seen,
}

impl Stage {
    /// Whether the other machine has it, so that there is no need to send it again.
    pub fn is_there(self) -> bool {
        self >= Self::Fetched
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Stored => "stored",
            Self::Fetched => "fetched",
            Self::Expired => "expired",
            Self::Failed => "failed",
            Self::Seen => "seen",
        }
    }
}

/// One step of a message, with its evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// The envelope's id.
    pub id: String,
    pub stage: Stage,
    pub at: Timestamp,
    /// `PostToolUse hook of session …` on the far machine, or why not.
    #[serde(default)]
    pub evidence: String,
}

impl Receipt {
    /// The later stage of the two; at the same stage, the one known first.
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        if other.stage > self.stage { other } else { self }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALL: [Stage; 6] =
        [Stage::Queued, Stage::Stored, Stage::Fetched, Stage::Expired, Stage::Failed, Stage::Seen];

    fn receipt(stage: Stage) -> Receipt {
        Receipt { id: "a.m1".into(), stage, at: Timestamp::UNIX_EPOCH, evidence: String::new() }
    }

    #[test]
    fn what_was_seen_is_never_sent_again_and_what_is_only_stored_is() {
        assert_eq!(ALL.map(Stage::is_there), [false, false, true, true, true, true]);
    }

    proptest! {
        #[test]
        fn receipts_say_the_same_in_every_order(mut stages in prop::collection::vec(0usize..6, 1..9), seed in any::<u64>()) {
            let last = |stages: &[usize]| {
                stages.iter().map(|n| receipt(ALL[*n])).reduce(Receipt::join).unwrap().stage
            };
            let before = last(&stages);
            let turn = usize::try_from(seed % stages.len() as u64).unwrap();
            stages.rotate_left(turn);
            stages.extend_from_within(..1);
            prop_assert_eq!(before, last(&stages));
        }
    }
}
