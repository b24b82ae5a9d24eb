//! The rotation that is typed, journaled step by step like every other.

use std::time::Duration;

use baton_core::agent::{Agent, RotationRequest};
use baton_core::pane::{self, Left};
use baton_core::process::Process;
use baton_core::rotation::{Event, Rotation, Step};
use baton_core::session::Session;
use jiff::Timestamp;

use crate::store::{Store, record::RecordError, rotations};
use crate::sys::fs::FileError;
use crate::sys::process;

/// How it is named in the journal.
pub const ACTUATOR: &str = "tmux";
const PATIENCE: Duration = Duration::from_secs(1);
const PATH: &str = "path";

/// Records that `/clear` is about to be typed.
pub fn begin(
    store: &Store,
    agent: &Agent,
    request: &RotationRequest,
    me: &Process,
) -> Result<Rotation, FileError> {
    let now = Timestamp::now();
    let mut unknown = serde_json::Map::new();
    if let Some(path) = &request.path {
        unknown.insert(PATH.to_owned(), path.clone().into());
    }
    let rotation = Rotation {
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
        unknown,
    };
    let (rotation, _) = rotation.begin();
    rotations::put(&store.state, &rotation)?;
    Ok(rotation)
}

/// The file that the agent handed over.
pub fn file(rotation: &Rotation) -> Option<&str> {
    rotation.unknown.get(PATH)?.as_str()
}

/// Feeds `event` to the rotation and records the step before anything else happens.
pub fn advance(store: &Store, rotation: Rotation, event: Event) -> Result<Rotation, FileError> {
    let (next, effects) = rotation.next(event, true);
    if !effects.is_empty() {
        rotations::put(&store.state, &next)?;
    }
    Ok(next)
}

/// It is given up: the agent goes on as it was, the handoff waits, nothing asks for it again by itself.
pub fn give_up(store: &Store, agent: &Agent, open: Option<Rotation>, why: &str) -> Result<(), RecordError> {
    let wanted =
        open.as_ref().map(|r| r.handoff.clone()).or_else(|| Some(agent.rotation.as_ref()?.handoff.clone()));
    if let Some(mut rotation) = open {
        rotation.step = Step::Failed;
        rotation.note = Some(why.to_owned());
        rotations::put(&store.state, &rotation)?;
    }
    let old = store.agents().update(&agent.id, PATIENCE, |a| {
        a.rotation.take_if(|r| Some(&r.handoff) == wanted.as_ref()).map(|r| r.session)
    })?;
    if let Some(old) = old.flatten() {
        store.published().clear_restart(&old)?;
    }
    Ok(())
}

/// Takes over what an attendant that was killed left. Older ones that are still open are ended in the journal.
pub fn take_up(
    store: &Store,
    agent: &Agent,
    session: Option<&Session>,
    me: &Process,
) -> Result<Option<Left>, FileError> {
    let dead = rotations::which(&store.state, |r| {
        r.agent == agent.id && r.actuator == ACTUATOR && !process::is_alive(&r.supervisor)
    });
    let (over, last) = pane::take_up(dead, session.and_then(|s| s.claim.as_ref()));
    for rotation in over {
        rotations::put(&store.state, &rotation)?;
    }
    Ok(match last {
        Some(Left::Open(mut open)) => {
            open.supervisor = me.clone();
            rotations::put(&store.state, &open)?;
            Some(Left::Open(open))
        }
        other => other,
    })
}

/// A rotation that is begun again: what was journaled before is over.
pub fn abandon(store: &Store, rotation: Rotation) -> Result<(), FileError> {
    if rotation.step.is_open() {
        rotations::put(&store.state, &pane::abandon(rotation))?;
    }
    Ok(())
}
