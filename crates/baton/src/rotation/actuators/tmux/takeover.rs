//! Takes over the rotations that a killed attendant left.

use baton_core::agent::Agent;
use baton_core::pane::{self, Unfinished};
use baton_core::process::Process;
use baton_core::rotation::{Actuator, Rotation};
use baton_core::session::Session;

use crate::rotation::journal;
use crate::store::Store;
use crate::sys::fs::FileError;
use crate::sys::process;

/// Takes over the newest rotation that was left, and closes older open ones in the journal.
pub(super) fn take_up(
    store: &Store,
    agent: &Agent,
    session: Option<&Session>,
    me: &Process,
) -> Result<Option<Unfinished>, FileError> {
    let dead = store
        .rotations()
        .which(|r| r.agent == agent.id && r.actuator == Actuator::Tmux && !process::is_alive(&r.supervisor));
    let (over, last) = pane::take_up(dead, session.and_then(|s| s.claim.as_ref()));
    for rotation in over {
        journal::record(store, &rotation)?;
    }
    Ok(match last {
        Some(Unfinished::Open(mut open)) => {
            open.supervisor = me.clone();
            journal::record(store, &open)?;
            Some(Unfinished::Open(open))
        }
        other => other,
    })
}

/// Closes the journal entry of a rotation that begins again.
pub(super) fn abandon(store: &Store, rotation: Rotation) -> Result<(), FileError> {
    if rotation.step.is_open() {
        journal::record(store, &pane::abandon(rotation))?;
    }
    Ok(())
}
