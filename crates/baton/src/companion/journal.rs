//! The rotation that a companion carries out, journaled step by step like every other.

use std::path::Path;

use baton_core::agent::{Agent, RotationRequest};
use baton_core::process::Process;
use baton_core::rotation::{Event, Facts, Rotation, Step};
use jiff::Timestamp;

use crate::store::{Store, rotations};
use crate::sys::fs::FileError;
use crate::sys::process;

/// How it is named in the journal.
pub const ACTUATOR: &str = "mod";

/// The record of a rotation by the mod, not yet begun.
pub fn rotation(agent: &Agent, request: &RotationRequest, me: &Process, now: Timestamp) -> Rotation {
    Rotation {
        id: format!("R-{}-{}", now.strftime("%Y%m%d-%H%M%S%3f"), agent.id),
        agent: agent.id.clone(),
        handoff: request.handoff.clone(),
        from: request.session.clone(),
        by: request.by.clone(),
        actuator: ACTUATOR.to_owned(),
        step: Step::Stopping,
        at: now,
        supervisor: me.clone(),
        old: agent.process.clone(),
        new: None,
        note: None,
        unknown: serde_json::Map::default(),
    }
}

/// Feeds `event` to the rotation and records the step before anything else happens.
pub fn advance(state: &Path, rotation: Rotation, event: Event) -> Result<Rotation, FileError> {
    let (next, effects) = rotation.next(event, true);
    if !effects.is_empty() {
        rotations::put(state, &next)?;
    }
    Ok(next)
}

/// Ends what an earlier companion of this agent left open.
pub fn settle(store: &Store, agent: &Agent) -> Result<(), FileError> {
    let left = rotations::all(&store.state).into_iter().filter(|r| {
        r.agent == agent.id && r.actuator == ACTUATOR && r.step.is_open() && !process::is_alive(&r.supervisor)
    });
    for rotation in left {
        let loaded = agent.rotation.as_ref().is_none_or(|r| r.handoff != rotation.handoff);
        advance(&store.state, rotation, Event::Found(Facts { old_alive: true, new_alive: false, loaded }))?;
    }
    Ok(())
}
