//! The rotation that a companion carries out, journaled step by step like every other.

use std::path::Path;

use baton_core::agent::{Agent, RotationRequest};
use baton_core::handoff::HandoffId;
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

/// Ends what earlier companions of this agent left open.
pub fn settle(store: &Store, agent: &Agent) -> Result<(), FileError> {
    let left = rotations::which(&store.state, |r| {
        r.agent == agent.id && r.actuator == ACTUATOR && r.step.is_open() && !process::is_alive(&r.supervisor)
    });
    for rotation in left {
        close(store, agent, rotation)?;
    }
    Ok(())
}

/// Ends a rotation of a companion that is gone or going: loaded in place, or given up in words.
pub fn close(store: &Store, agent: &Agent, rotation: Rotation) -> Result<(), FileError> {
    let waits = agent.rotation.as_ref().is_some_and(|r| r.handoff == rotation.handoff);
    // A supervisor that lost patience has given this handoff to a new process.
    let elsewhere = |r: &Rotation| {
        r.handoff == rotation.handoff && r.id != rotation.id && r.at >= rotation.at && r.step != Step::Failed
    };
    let loaded = !waits && !rotations::any(&store.state, elsewhere);
    let facts = Facts { old_alive: true, new_alive: false, loaded };
    advance(&store.state, rotation, Event::Found(facts)).map(drop)
}

/// Was this handoff's rotation one of the mod? One that was given up may have come about after all.
pub fn rotated(store: &Store, agent: &Agent, handoff: &HandoffId) -> bool {
    let ours = |r: &Rotation| {
        r.agent == agent.id && r.actuator == ACTUATOR && r.handoff == *handoff && !r.step.is_open()
    };
    rotations::any(&store.state, ours)
}
