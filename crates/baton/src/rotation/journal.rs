//! The journal of rotations, the same for every actuator: each step is recorded before it is taken.

use std::time::Duration;

use baton_core::agent::{Agent, RotationRequest};
use baton_core::handoff::HandoffId;
use baton_core::process::Process;
use baton_core::rotation::{Actuator, Event, RecoveryFacts, Rotation, Step};
use jiff::Timestamp;

use crate::rotation::request;
use crate::store::{Store, record::RecordError};
use crate::sys::fs::FileError;
use crate::sys::process;

const PATIENCE: Duration = Duration::from_secs(1);

/// Records the rotation as it is, before anything else happens.
pub(crate) fn record(store: &Store, rotation: &Rotation) -> Result<(), FileError> {
    store.rotations().put(rotation)
}

/// Records a rotation that began after the old context had ended.
pub(crate) fn begin_stopped(store: &Store, rotation: Rotation) -> Result<Rotation, FileError> {
    let (rotation, _) = rotation.begin_stopped();
    record(store, &rotation)?;
    Ok(rotation)
}

/// Records that `me` is about to end the old context.
pub(crate) fn begin(
    store: &Store,
    agent: &Agent,
    request: &RotationRequest,
    actuator: Actuator,
    me: &Process,
) -> Result<Rotation, FileError> {
    let (rotation, _) = Rotation::new(agent, request, actuator, me, Timestamp::now()).begin();
    record(store, &rotation)?;
    Ok(rotation)
}

/// Feeds `event` to the rotation and records the step before anything else happens.
pub(crate) fn advance(store: &Store, rotation: Rotation, event: Event) -> Result<Rotation, FileError> {
    let (next, effects) = rotation.next(event, true);
    if !effects.is_empty() {
        record(store, &next)?;
    }
    Ok(next)
}

/// Records that an open rotation failed. Nothing else changes.
pub(crate) fn fail(store: &Store, rotation: Rotation, why: &str) -> Result<(), FileError> {
    let note = Some(why.to_owned());
    record(store, &Rotation { step: Step::Failed, note, ..rotation })
}

/// Gives a rotation up: the agent continues as it was, the handoff waits, and nothing requests it again by itself.
pub(crate) fn give_up(
    store: &Store,
    agent: &Agent,
    open: Option<Rotation>,
    why: &str,
) -> Result<(), RecordError> {
    let wanted =
        open.as_ref().map(|r| r.handoff.clone()).or_else(|| Some(agent.rotation.as_ref()?.handoff.clone()));
    if let Some(rotation) = open {
        fail(store, rotation, why)?;
    }
    match wanted {
        Some(handoff) => request::withdraw(store, &agent.id, &handoff, PATIENCE),
        None => Ok(()),
    }
}

/// Records that the fresh context has its handoff.
pub(crate) fn loaded(store: &Store, rotation: Rotation) -> Result<(), RecordError> {
    let (handoff, agent) = (rotation.handoff.clone(), rotation.agent.clone());
    advance(store, rotation, Event::Loaded(handoff))?;
    request::count(store, &agent, PATIENCE)
}

/// Closes open rotations of `actuator` whose process died, for `agent` or for all agents.
pub(crate) fn close_left(store: &Store, actuator: Actuator, agent: Option<&Agent>) -> Result<(), FileError> {
    let left = store.rotations().which(|r| {
        r.actuator == actuator
            && r.step.is_open()
            && agent.is_none_or(|agent| r.agent == agent.id)
            && !process::is_alive(&r.supervisor)
    });
    for rotation in left {
        match store.agents().get(&rotation.agent)? {
            Some(agent) => close(store, &agent, rotation)?,
            None => fail(store, rotation, "its agent is no longer on record")?,
        }
    }
    Ok(())
}

/// Closes a rotation whose process is gone or about to go: the handoff was loaded, or it waits.
pub(crate) fn close(store: &Store, agent: &Agent, rotation: Rotation) -> Result<(), FileError> {
    let waits = agent.rotation.as_ref().is_some_and(|r| r.handoff == rotation.handoff)
        || !was_loaded(store, agent, &rotation);
    // A supervisor that lost patience with the mod gave this handoff to a new process.
    let elsewhere = |r: &Rotation| {
        r.handoff == rotation.handoff && r.id != rotation.id && r.at >= rotation.at && r.step != Step::Failed
    };
    // A journal that cannot be read may be the one of that rotation.
    let loaded = !waits && !store.rotations().has(elsewhere).unwrap_or(true);
    let facts = RecoveryFacts { old_alive: true, new_alive: false, loaded };
    advance(store, rotation, Event::Found(facts)).map(drop)
}

/// Whether a conversation after the one that ended continues the handoff. A missing request proves nothing: it may have
/// been withdrawn.
fn was_loaded(store: &Store, agent: &Agent, rotation: &Rotation) -> bool {
    let since = agent.sessions.iter().rev().take_while(|id| **id != rotation.from);
    // A record that cannot be read may belong to the conversation that does.
    let continues = |id| match store.sessions().get(id) {
        Ok(Some(session)) => session.continues.as_ref() == Some(&rotation.handoff),
        Ok(None) => false,
        Err(_) => true,
    };
    since.into_iter().any(continues)
}

/// Whether an actuator gave the agent a context for this handoff, as far as can be read.
pub(crate) fn was_rotated(store: &Store, agent: &Agent, handoff: &HandoffId) -> bool {
    let is_this = |r: &Rotation| r.agent == agent.id && r.handoff == *handoff && r.step != Step::Failed;
    store.rotations().has(is_this).unwrap_or(true)
}

/// Whether `actuator` made the last attempt for this handoff; only that actuator sends the continuation. An attempt
/// that was given up counts too, because it may have succeeded after all.
pub(crate) fn was_carried_out(store: &Store, agent: &Agent, actuator: Actuator, handoff: &HandoffId) -> bool {
    let tried = store.rotations().which(|r| r.agent == agent.id && r.handoff == *handoff);
    let last = tried.into_iter().max_by_key(|r| r.at);
    last.is_some_and(|r| r.actuator == actuator && !r.step.is_open())
}
