//! The rotation journal that a killed attendant left behind, and how to continue from it.

use jiff::Timestamp;

use super::State;
use crate::handoff::HandoffId;
use crate::rotation::{Event, RecoveryFacts, Rotation, Step};

/// The state of the last rotation.
#[derive(Debug, Clone, PartialEq)]
pub enum Unfinished {
    /// `/clear` may have been typed.
    Open(Rotation),
    /// The handoff is loaded, and the continuation may have been typed.
    Loaded(Rotation),
}

impl Unfinished {
    /// The state that the next attendant starts from.
    pub fn state(&self, now: Timestamp) -> State {
        match self {
            Self::Open(r) => State::resuming(r.handoff.clone(), r.from.clone(), now),
            Self::Loaded(r) => State::continuing(r.handoff.clone(), now),
        }
    }

    pub fn rotation(self) -> Rotation {
        match self {
            Self::Open(r) | Self::Loaded(r) => r,
        }
    }
}

/// Sorts the rotations of dead attendants, oldest first, into final records for those that nobody continues and the one
/// to continue. `claim` is the handoff that the agent's session was given and has not confirmed yet.
pub fn take_up(mut left: Vec<Rotation>, claim: Option<&HandoffId>) -> (Vec<Rotation>, Option<Unfinished>) {
    let Some(last) = left.pop() else { return (Vec::new(), None) };
    let over: Vec<Rotation> = left.into_iter().filter(|r| r.step.is_open()).map(abandon).collect();
    let last = if last.step.is_open() {
        Some(Unfinished::Open(last))
    } else {
        (last.step == Step::Done && claim == Some(&last.handoff)).then_some(Unfinished::Loaded(last))
    };
    (over, last)
}

/// Closes the journal of a rotation that starts over or was followed by a later one.
pub fn abandon(rotation: Rotation) -> Rotation {
    rotation.next(Event::Found(RecoveryFacts { old_alive: true, new_alive: false, loaded: false }), true).0
}
