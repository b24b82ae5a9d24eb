//! A fresh thread that follows another: started with the same setup, known as the same agent, told to go on.

use std::time::Duration;

use anyhow::Context as _;
use baton_core::agent::{Agent, RotationRequest};
use baton_core::ids::SessionId;
use baton_core::process::Process;
use baton_core::rotation::{Event, Facts, Rotation, Step};
use baton_core::session::Session;
use baton_core::wire::codex::app::{self, Setup};
use jiff::Timestamp;

use super::ACTUATOR;
use super::link::Link;
use crate::rotate;
use crate::store::Store;
use crate::store::rotations;

const PATIENCE: Duration = Duration::from_secs(1);
const THREAD: &str = "thread";

/// Starts the successor of `session` and its first turn. Each step is journaled before it is taken.
pub fn carry_out(
    store: &Store,
    link: &mut Link,
    agent: &Agent,
    session: &Session,
    request: &RotationRequest,
    me: &Process,
) -> anyhow::Result<Rotation> {
    let now = Timestamp::now();
    // Nothing is stopped: the old thread stays, for whoever looks at it.
    let (mut rotation, _) = Rotation {
        id: format!("R-{}-{}", now.strftime("%Y%m%d-%H%M%S%3f"), agent.id),
        agent: agent.id.clone(),
        handoff: request.handoff.clone(),
        from: request.session.clone(),
        by: request.by.clone(),
        actuator: ACTUATOR.to_owned(),
        step: Step::Starting,
        at: now,
        supervisor: me.clone(),
        old: None,
        new: None,
        note: None,
        unknown: serde_json::Map::new(),
    }
    .begin_stopped();
    rotations::put(&store.state, &rotation)?;
    match start(store, link, agent, session, request, &mut rotation) {
        Ok(()) => Ok(rotation),
        Err(e) => {
            rotation.step = Step::Failed;
            rotation.note = Some(format!("{e:#}"));
            rotations::put(&store.state, &rotation)?;
            Err(e)
        }
    }
}

fn start(
    store: &Store,
    link: &mut Link,
    agent: &Agent,
    session: &Session,
    request: &RotationRequest,
    rotation: &mut Rotation,
) -> anyhow::Result<()> {
    let old = link.ask(&app::resume(session.id.as_str()))?;
    let setup = Setup::read(&old);
    link.ask(&app::unsubscribe(session.id.as_str()))?;
    let answer = link.ask(&setup.start(&session.cwd))?;
    let fresh = app::started(&answer).context("thread/start named no thread")?;
    let id = SessionId::new(fresh.id).context("thread/start named an id that is none")?;
    rotation.unknown.insert(THREAD.to_owned(), id.as_str().into());
    rotations::put(&store.state, rotation)?;
    // Before its first hook speaks: by its own record it is known as this agent.
    let mut record = Session::new(
        id.clone(),
        &session.provider,
        agent.id.clone(),
        session.channel.clone(),
        Timestamp::now(),
        "clear",
    );
    record.cwd.clone_from(&session.cwd);
    record.transcript = fresh.path;
    record.shared = true;
    store.sessions().put(&record)?;
    // In the client's own list it is found by the agent's name.
    let _ = link.ask(&app::name(id.as_str(), agent.id.as_str()));
    let prompt = match &request.path {
        Some(file) => rotate::read_and_continue(file),
        None => rotate::continuation(&request.handoff),
    };
    link.ask(&app::turn(id.as_str(), &prompt, setup.reasoning_effort.as_deref()))?;
    Ok(())
}

/// The thread that was started.
pub fn thread(rotation: &Rotation) -> Option<SessionId> {
    SessionId::new(rotation.unknown.get(THREAD)?.as_str()?).ok()
}

/// The fresh thread has its handoff.
pub fn loaded(store: &Store, rotation: Rotation) -> anyhow::Result<()> {
    let (handoff, agent) = (rotation.handoff.clone(), rotation.agent.clone());
    let (rotation, _) = rotation.next(Event::Loaded(handoff), false);
    rotations::put(&store.state, &rotation)?;
    rotate::count(store, &agent, PATIENCE)?;
    Ok(())
}

/// It came to nothing: the handoff waits, and nothing asks for it again by itself.
pub fn give_up(store: &Store, agent: &Agent, open: Option<Rotation>, why: &str) -> anyhow::Result<()> {
    crate::panes::give_up(store, agent, open.filter(|r| r.step.is_open()), why)?;
    Ok(())
}

/// What an attendant that was killed has left open: done if the handoff was loaded; a request that still stands is
/// carried out anew.
pub fn close_left(store: &Store) -> anyhow::Result<()> {
    for rotation in rotations::which(&store.state, |r| r.actuator == ACTUATOR && r.step.is_open()) {
        let agent = store.agents().get(&rotation.agent)?;
        let waits = agent.is_some_and(|a| a.rotation.as_ref().is_some_and(|r| r.handoff == rotation.handoff));
        let facts = Facts { old_alive: true, new_alive: false, loaded: !waits };
        let (rotation, _) = rotation.next(Event::Found(facts), false);
        rotations::put(&store.state, &rotation)?;
    }
    Ok(())
}
