//! A handoff has one home: the machine whose hooks may claim it, from that machine's files alone.
//!
//! It moves in this order, so that at no instant two machines may claim it:
//!
//! 1. the home writes [`Local::Leaving`] into its own file, and from then on its hooks refuse;
//! 2. the database moves the row, only if it still names this home at this epoch ([`Move`]), and takes the sealed
//!    document in the same transaction;
//! 3. the home writes [`Local::Away`]; the other machine fetches the document and writes [`Local::Here`].
//!
//! Each step may be repeated. A row that was restored from a backup cannot give the handoff to anybody: files decide,
//! and the giver moves the row again.

use serde::{Deserialize, Serialize};

use super::MachineName;

/// A machine's own file about a handoff. Without a file the handoff was sealed here and never left: epoch 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum Local {
    Here {
        epoch: u64,
    },
    /// Given up, but the database has not yet confirmed that `to` has it.
    Leaving {
        to: MachineName,
        epoch: u64,
    },
    Away {
        to: MachineName,
        epoch: u64,
    },
}

/// The row of a handoff in the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub home: MachineName,
    pub epoch: u64,
}

/// One conditional change of a row: `UPDATE … WHERE home = from AND epoch < epoch`, after inserting a row where there is
/// none. Epochs follow each other along the one chain of homes, so a change that comes late finds a later epoch. The
/// row may be older than one step: it may come from a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    pub from: MachineName,
    pub to: MachineName,
    /// The row's epoch afterwards.
    pub epoch: u64,
}

impl Default for Local {
    fn default() -> Self {
        Self::Here { epoch: 1 }
    }
}

impl Local {
    /// Whether hooks of this machine may claim the handoff.
    #[cfg(test)]
    pub(crate) fn may_claim(&self) -> bool {
        matches!(self, Self::Here { .. })
    }

    pub fn epoch(&self) -> u64 {
        match self {
            Self::Here { epoch } | Self::Leaving { epoch, .. } | Self::Away { epoch, .. } => *epoch,
        }
    }

    /// Gives the handoff up for `to`; `None` where it is not here to give.
    pub fn leave(&self, to: MachineName) -> Option<Self> {
        match self {
            Self::Here { epoch } => Some(Self::Leaving { to, epoch: epoch + 1 }),
            _ => None,
        }
    }

    /// The change that the database must make for this file to be true there. Also after a restore.
    pub fn wanted_move(&self, me: &MachineName) -> Option<Move> {
        match self {
            Self::Leaving { to, epoch } | Self::Away { to, epoch } => {
                Some(Move { from: me.clone(), to: to.clone(), epoch: *epoch })
            }
            Self::Here { .. } => None,
        }
    }

    /// The file after the database has answered with the current row.
    #[must_use]
    pub fn settled(&self, row: &Row) -> Self {
        match self {
            // Done, or already passed on by its new home.
            Self::Leaving { to, epoch } if row.epoch >= *epoch => {
                Self::Away { to: to.clone(), epoch: *epoch }
            }
            other => other.clone(),
        }
    }

    /// The database was restored from a backup. A leaving handoff may have left already, and the backup cannot tell, so
    /// it goes where it was sent, whatever comes.
    #[must_use]
    pub fn after_restore(&self) -> Self {
        match self {
            Self::Leaving { to, epoch } => Self::Away { to: to.clone(), epoch: *epoch },
            other => other.clone(),
        }
    }

    /// The handoff arrived on this machine at `epoch`. `None` if it arrived before.
    pub fn arrive(known: Option<&Self>, epoch: u64) -> Option<Self> {
        if known.is_some_and(|known| known.epoch() >= epoch) { None } else { Some(Self::Here { epoch }) }
    }
}

impl Move {
    /// The row after the database has applied the move, as `migrations/` does it. `None`: another machine changed it, and
    /// it stays.
    #[cfg(test)]
    pub(crate) fn apply(&self, row: Option<&Row>) -> Option<Row> {
        let is_expected = row.is_none_or(|row| row.home == self.from && row.epoch < self.epoch);
        is_expected.then(|| Row { home: self.to.clone(), epoch: self.epoch })
    }

    /// Whether the row knows of this move. A row from a backup may name a home before `from`, which has yet to move it
    /// there again: until then this move must be repeated.
    pub fn is_known_to(&self, row: &Row) -> bool {
        row.epoch >= self.epoch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(name: &str) -> MachineName {
        MachineName::new(name).unwrap()
    }

    #[test]
    fn it_is_given_up_before_it_moves_and_arrives_once() {
        let (laptop, desk) = (machine("laptop"), machine("desk"));
        let home = Local::default();
        assert!(home.may_claim() && home.wanted_move(&laptop).is_none());
        let leaving = home.leave(desk.clone()).unwrap();
        assert!(!leaving.may_claim() && leaving.leave(desk.clone()).is_none());
        let moves = leaving.wanted_move(&laptop).unwrap();
        let row = moves.apply(None).unwrap();
        assert_eq!(row, Row { home: desk.clone(), epoch: 2 });
        assert_eq!(moves.apply(Some(&row)), None, "a second time changes nothing");
        assert_eq!(leaving.settled(&row), Local::Away { to: desk, epoch: 2 });
        let arrived = Local::arrive(None, row.epoch).unwrap();
        assert!(arrived.may_claim());
        assert_eq!(Local::arrive(Some(&arrived), row.epoch), None);
    }

    #[test]
    fn what_was_given_on_is_said_again_until_the_home_before_has_said_its_own() {
        let [laptop, desk, rented] = ["laptop", "desk", "rented"].map(machine);
        let first = Local::default().leave(desk.clone()).unwrap().wanted_move(&laptop).unwrap();
        let second = Local::Here { epoch: 2 }.leave(rented.clone()).unwrap().after_restore();
        assert!(!second.may_claim());
        let second = second.wanted_move(&desk).unwrap();
        // The backup knows neither of the two moves.
        let row = Row { home: laptop, epoch: 1 };
        assert_eq!(second.apply(Some(&row)), None);
        assert!(!second.is_known_to(&row));
        let row = first.apply(Some(&row)).unwrap();
        let row = second.apply(Some(&row)).unwrap();
        assert_eq!(row, Row { home: rented, epoch: 3 });
        assert!(first.is_known_to(&row) && second.is_known_to(&row));
    }

    #[test]
    fn a_file_says_where_a_handoff_is_for_anybody_to_read() {
        let away = Local::Away { to: machine("desk"), epoch: 2 };
        let text = serde_json::to_string(&away).unwrap();
        assert_eq!(text, r#"{"state":"away","to":"desk","epoch":2}"#);
        assert_eq!(serde_json::from_str::<Local>(&text).unwrap(), away);
    }
}
