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

/// What a machine's own file says about a handoff. Without a file it was sealed here and never left: epoch 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum Local {
    Here {
        epoch: u64,
    },
    /// Given up, and not yet known to be given to `to`.
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
    /// It is said again after a restore, and will never be taken back: it also replaces a row that says at this epoch
    /// that it was taken back.
    pub is_settled: bool,
}

impl Default for Local {
    fn default() -> Self {
        Self::Here { epoch: 1 }
    }
}

impl Local {
    /// Whether hooks of this machine may claim the handoff.
    pub fn may_claim(&self) -> bool {
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
                let is_settled = matches!(self, Self::Away { .. });
                Some(Move { from: me.clone(), to: to.clone(), epoch: *epoch, is_settled })
            }
            Self::Here { .. } => None,
        }
    }

    /// What the file says once the database has answered with the row as it is now.
    #[must_use]
    pub fn settled(&self, row: &Row) -> Self {
        match self {
            // Taken back: only its home can have done that.
            Self::Leaving { to, epoch } if row.epoch == *epoch && row.home != *to => {
                Self::Here { epoch: *epoch }
            }
            // As wished, or already given on by its new home.
            Self::Leaving { to, epoch } if row.epoch >= *epoch => {
                Self::Away { to: to.clone(), epoch: *epoch }
            }
            other => other.clone(),
        }
    }

    /// Takes back what is leaving. The database must carry the change out first: it moves the row to a later epoch, so
    /// that a transfer that is still on its way finds nothing to change.
    pub fn take_back(&self, me: &MachineName) -> Option<Move> {
        match self {
            Self::Leaving { epoch, .. } => {
                Some(Move { from: me.clone(), to: me.clone(), epoch: *epoch, is_settled: false })
            }
            _ => None,
        }
    }

    /// The database came back from a backup. What is leaving may have left, and the backup cannot tell: it is not taken
    /// back any more, and goes where it was sent.
    #[must_use]
    pub fn after_restore(&self) -> Self {
        match self {
            Self::Leaving { to, epoch } => Self::Away { to: to.clone(), epoch: *epoch },
            other => other.clone(),
        }
    }

    /// The handoff has come to this machine at `epoch`. `None` for one that is known already: it came twice.
    pub fn arrive(known: Option<&Self>, epoch: u64) -> Option<Self> {
        if known.is_some_and(|known| known.epoch() >= epoch) { None } else { Some(Self::Here { epoch }) }
    }
}

impl Move {
    /// What the database does; the row afterwards. `None`: it was changed by somebody else, and stays.
    pub fn apply(&self, row: Option<&Row>) -> Option<Row> {
        let is_expected = row.is_none_or(|row| {
            row.home == self.from && (row.epoch < self.epoch || (self.is_settled && row.epoch == self.epoch))
        });
        is_expected.then(|| Row { home: self.to.clone(), epoch: self.epoch })
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
    fn a_transfer_that_is_still_on_its_way_finds_nothing_once_it_was_taken_back() {
        let (laptop, desk) = (machine("laptop"), machine("desk"));
        let leaving = Local::default().leave(desk).unwrap();
        let late = leaving.wanted_move(&laptop).unwrap();
        let row = leaving.take_back(&laptop).unwrap().apply(None).unwrap();
        assert_eq!(late.apply(Some(&row)), None);
        assert_eq!(leaving.settled(&row), Local::Here { epoch: 2 }, "also if its home died before it knew");
        assert_eq!(Local::arrive(None, row.epoch), Some(Local::Here { epoch: 2 }));
    }

    #[test]
    fn after_a_restore_nothing_is_taken_back() {
        let leaving = Local::default().leave(machine("desk")).unwrap();
        let after = leaving.after_restore();
        assert!(!after.may_claim() && after.take_back(&machine("laptop")).is_none());
        let moves = after.wanted_move(&machine("laptop")).unwrap();
        assert_eq!((&moves.to, moves.epoch), (&machine("desk"), 2));
        let taken_back = Row { home: machine("laptop"), epoch: 2 };
        assert!(moves.apply(Some(&taken_back)).is_some(), "a backup may say that it was taken back");
    }

    #[test]
    fn a_file_says_where_a_handoff_is_for_anybody_to_read() {
        let away = Local::Away { to: machine("desk"), epoch: 2 };
        let text = serde_json::to_string(&away).unwrap();
        assert_eq!(text, r#"{"state":"away","to":"desk","epoch":2}"#);
        assert_eq!(serde_json::from_str::<Local>(&text).unwrap(), away);
    }
}
