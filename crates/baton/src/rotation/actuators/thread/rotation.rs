//! Starts a fresh thread that follows another: with the same setup, as the same agent, and with a prompt to continue.

use anyhow::Context as _;
use baton_core::agent::{Agent, RotationRequest};
use baton_core::ids::SessionId;
use baton_core::process::Process;
use baton_core::rotation::{Actuator, Rotation};
use baton_core::session::Session;
use baton_core::wire::codex::app::{self, Setup};
use jiff::Timestamp;

use crate::config::Config;
use crate::handoffs::attach;
use crate::rotation::actuators::thread::link::ServerLink;
use crate::rotation::journal;
use crate::store::Store;

/// Starts the successor of `session` and its first turn. Each step is journaled before it is taken.
pub(super) fn carry_out(
    store: &Store,
    config: &Config,
    link: &mut ServerLink,
    agent: &Agent,
    session: &Session,
    request: &RotationRequest,
    me: &Process,
) -> anyhow::Result<Rotation> {
    let rotation = Rotation::new(agent, request, Actuator::Thread, me, Timestamp::now());
    let mut rotation = journal::begin_stopped(store, rotation)?;
    match start(store, config, link, agent, session, &mut rotation) {
        Ok(()) => Ok(rotation),
        Err(e) => {
            journal::fail(store, rotation, &format!("{e:#}"))?;
            Err(e)
        }
    }
}

fn start(
    store: &Store,
    config: &Config,
    link: &mut ServerLink,
    agent: &Agent,
    session: &Session,
    rotation: &mut Rotation,
) -> anyhow::Result<()> {
    let old = link.ask(&app::resume(session.id.as_str()))?;
    let setup = Setup::read(&old);
    if session.opens_window {
        return open_window(store, config, link, session, rotation, &setup);
    }
    link.ask(&app::unsubscribe(session.id.as_str()))?;
    let answer = link.ask(&setup.start(&session.cwd))?;
    let fresh = app::started(&answer).context("thread/start returned no thread")?;
    let id = SessionId::new(fresh.id).context("thread/start returned an invalid id")?;
    rotation.thread = Some(id.clone());
    journal::record(store, rotation)?;
    // Write the record before the thread's first hook runs, so that the hook recognises it as this agent.
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
    // Lets people find the thread by the agent's name in the client's own list.
    let _ = link.ask(&app::name(id.as_str(), agent.id.as_str()));
    link.ask(&app::turn(id.as_str(), &prompt(store, config, rotation), setup.reasoning_effort.as_deref()))?;
    Ok(())
}

/// A fresh window in the same thread: the work continues on the same screen. PreCompact finds its handoff, and the
/// turn's SessionStart loads it.
fn open_window(
    store: &Store,
    config: &Config,
    link: &mut ServerLink,
    session: &Session,
    rotation: &mut Rotation,
    setup: &Setup,
) -> anyhow::Result<()> {
    rotation.thread = Some(session.id.clone());
    journal::record(store, rotation)?;
    link.ask_for_turn(&app::fresh_window(session.id.as_str()), session.id.as_str())?;
    let words = prompt(store, config, rotation);
    link.ask(&app::turn(session.id.as_str(), &words, setup.reasoning_effort.as_deref()))?;
    Ok(())
}

/// The prompt that continues the work. It has no length limit, so it includes the files.
fn prompt(store: &Store, config: &Config, rotation: &Rotation) -> String {
    let files = attach::files(store, config, &rotation.handoff);
    let parts = [Some(rotation.continuation()), attach::shown(store, &rotation.handoff, &files)];
    parts.into_iter().flatten().collect::<Vec<_>>().join("\n\n")
}
