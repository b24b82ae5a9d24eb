//! What an attendant that was killed has left in the journal of an agent's rotations, and how it goes on from there.

use jiff::Timestamp;

use super::State;
use crate::handoff::HandoffId;
use crate::rotation::{Event, Facts, Rotation, Step};

/// Where the last rotation stands.
#[derive(Debug, Clone, PartialEq)]
pub enum Left {
    /// `/clear` may have been typed.
    Open(Rotation),
    /// The handoff is loaded, and the agent may have been told to go on.
    Loaded(Rotation),
}

impl Left {
    /// Whoever takes over begins with this.
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

/// The rotations of dead attendants, oldest first: what is to be recorded of those that nobody goes on with, and the one
/// to go on with. `claim` is the handoff that the agent's session was shown without having said a word since.
pub fn take_up(mut left: Vec<Rotation>, claim: Option<&HandoffId>) -> (Vec<Rotation>, Option<Left>) {
    let Some(last) = left.pop() else { return (Vec::new(), None) };
    let over: Vec<Rotation> = left.into_iter().filter(|r| r.step.is_open()).map(abandon).collect();
    let last = if last.step.is_open() {
        Some(Left::Open(last))
    } else {
        (last.step == Step::Done && claim == Some(&last.handoff)).then_some(Left::Loaded(last))
    };
    (over, last)
}

/// A rotation that is begun again, or that a later one has followed: what was journaled of it is over.
pub fn abandon(rotation: Rotation) -> Rotation {
    rotation.next(Event::Found(Facts { old_alive: true, new_alive: false, loaded: false }), true).0
}
