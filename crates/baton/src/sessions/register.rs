//! Finds the agent of a session, and finds or makes the records of both.

use baton_core::agent::{Agent, AgentOwner, Arrival, whose};
use baton_core::event::HookEvent;
use baton_core::ids::{AgentId, ChannelName, SessionId};
use baton_core::latch::Rearm;
use baton_core::process::Process;
use baton_core::session::Session;

use crate::mail::maildir::Mail;
use crate::project;
use crate::providers::HookCaller;
use crate::sessions::SEAL_PATIENCE;
use crate::sessions::context::Context;
use crate::sessions::{caller, rights};
use crate::store::Store;
use crate::sys::process;

/// Finds or makes the records of the session and its agent. `source` is how the session began, if known.
#[cold]
pub(crate) fn register(
    ctx: &Context,
    event: &HookEvent<'_>,
    source: &str,
    model: Option<&str>,
) -> Option<Session> {
    match try_register(ctx, event, source, model) {
        Ok(session) => Some(session),
        Err(e) => {
            ctx.fault("register the session", &e);
            None
        }
    }
}

pub(crate) fn try_register(
    ctx: &Context,
    event: &HookEvent<'_>,
    source: &str,
    model: Option<&str>,
) -> anyhow::Result<Session> {
    let (sessions, agents) = (ctx.store.sessions(), ctx.store.agents());
    let caller = (ctx.provider.hooks.caller)();
    let client = caller.process.clone().filter(|_| !caller.shared);
    // Several hooks of a new session may run at once: one makes the record, the others find it.
    let seen = source == "seen";
    let patience = if seen { ctx.patience() } else { SEAL_PATIENCE };
    let _lock = sessions.lock(&event.session, patience)?;
    let known = sessions.get(&event.session)?;
    if let Some(known) = known.as_ref().filter(|_| seen) {
        return Ok(known.clone());
    }
    let channel = match ctx.channel() {
        Some(channel) => channel.name,
        None => ChannelName::new(baton_core::handoff::manifest::GLOBAL)?,
    };
    let agent = find_agent(ctx, &event.session, &caller, known.as_ref(), &channel)?;
    let previous = agent.session.clone();
    agents.update(&agent.id, patience, |a| {
        a.enter(&event.session, client.clone());
        a.channel = channel.clone();
    })?;
    if let Some(client) = &client {
        agents.note_process(client, &agent.id)?;
    } else if let Some(shared) = &caller.process {
        agents.note_client(shared)?;
    }

    let transcript = event.transcript.as_deref().map(str::to_owned);
    let mut session = known.unwrap_or_else(|| {
        let (id, agent) = (event.session.clone(), agent.id.clone());
        Session::new(id, caller.row.unwrap_or(ctx.provider.name), agent, channel.clone(), ctx.now, source)
    });
    session.agent = agent.id.clone();
    session.channel = channel;
    session.cwd = ctx.cwd.display().to_string();
    session.transcript = transcript.or(session.transcript);
    session.model = model.map(str::to_owned).or(session.model);
    session.process = client;
    session.ended = None;
    // Somebody takes it up again, so it is wanted after all.
    session.taken_back = false;
    session.remind_at = ctx.store.reminders().next_of(&agent.id);
    // No hook of its start came through, and its agent waits for a fresh context: the first prompt loads the handoff.
    session.unloaded |= seen && agent.rotation.as_ref().is_some_and(|r| r.session != session.id);
    session.headless = caller.headless;
    session.shared = caller.shared;
    session.opens_window =
        ctx.provider.hooks.window.is_some_and(|window| (window.is_on)(&ctx.paths, &ctx.cwd, &caller));
    let compaction = (ctx.provider.hooks.compaction)(&ctx.paths, &ctx.cwd, &caller);
    if session.compaction != compaction {
        session.compacts_at = None;
    }
    session.compaction = compaction;
    if source == "clear" {
        session.latches = session.latches.rearm(Rearm::Clear, None);
    }
    sessions.put(&session)?;
    publish(ctx, &session, previous.as_ref());
    Ok(session)
}

fn find_agent(
    ctx: &Context,
    session: &SessionId,
    caller: &HookCaller,
    known: Option<&Session>,
    channel: &ChannelName,
) -> anyhow::Result<Agent> {
    let agents = ctx.store.agents();
    // A shared daemon's process identifies no single conversation.
    let client = caller.process.as_ref().filter(|_| !caller.shared);
    let named = std::env::var("CLAUDE_SESSION_MANAGER_ID").ok().filter(|_| !caller.shared);
    let named = named.and_then(|id| AgentId::new(id).ok());
    // If a record cannot be read, fail instead of giving the agent a second name.
    let by_process = client.map(|c| agents.of_process(c)).transpose()?.flatten();
    // The variable has the old name if the client was started before its agent was renamed.
    let by_env = named.map(|id| agents.named(&id)).transpose()?.flatten();
    let by_session = known.map(|s| agents.get(&s.agent)).transpose()?.flatten();
    let arrival = Arrival {
        session,
        client,
        client_parent: client.and_then(|c| process::parent_of(c.pid)),
        by_process: by_process.as_ref(),
        by_env: by_env.as_ref(),
        by_session: by_session.as_ref(),
        alive: &process::is_alive,
    };
    let (known, parent) = match whose(&arrival) {
        AgentOwner::Known(id) => (agents.get(&id)?, None),
        AgentOwner::ChildOf(parent) => (None, Some(parent)),
        AgentOwner::New => (None, None),
    };
    if let Some(agent) = known {
        return Ok(agent);
    }
    let cwd = ctx.cwd.display().to_string();
    let make = |id: AgentId| {
        let mut agent =
            Agent::new(id, caller.row.unwrap_or(ctx.provider.name), channel.clone(), cwd.clone(), ctx.now);
        agent.parent.clone_from(&parent);
        agent
    };
    // A client that an agent started must not gain the rights of a name by running in a folder of that name.
    let may_have = |name: &AgentId| {
        let starter = || match client.and_then(|c| process::parent_of(c.pid)) {
            Some(pid) if parent.is_none() => caller::of_process(&ctx.store, pid),
            _ => parent.clone().map_or(caller::Caller::User, caller::Caller::Agent),
        };
        let rules = &ctx.config.approvals.rules;
        rights::is_plain(&ctx.store, rules, name)
            || rights::refuse_name(&ctx.store, rules, &starter(), name).is_none()
    };
    let is_free = |known: &Agent| name_is_free(&ctx.store, known, channel);
    Ok(agents.create(&project::name(&ctx.cwd), make, may_have, is_free)?)
}

/// Whether another agent that begins in `channel` may have this one's name: nobody chose the name, the agent is gone,
/// and nothing waits for it but a handoff of that channel. The new agent gets that handoff and continues the work under
/// the old name.
pub(crate) fn name_is_free(store: &Store, agent: &Agent, channel: &ChannelName) -> bool {
    let dead = |process: &Option<Process>| process.as_ref().is_some_and(|p| !process::is_alive(p));
    let runs = |process: &Option<Process>| process.as_ref().is_some_and(process::is_alive);
    // An agent that was just registered has no process yet and has not ended.
    (agent.ended.is_some() || dead(&agent.process))
        && !runs(&agent.process)
        && !runs(&agent.supervisor)
        && !agent.keeps_to_itself()
        && agent.pane.is_none()
        && (agent.rotation.is_none() || &agent.channel == channel)
        && agent.parked.is_none()
        && !Mail::of(store).may_wait(&agent.id)
}

/// Publishes the current session for other people's scripts and removes the restart signal of a session that is over.
fn publish(ctx: &Context, session: &Session, previous: Option<&SessionId>) {
    let published = ctx.store.published();
    let transcript = session.transcript.as_deref().unwrap_or_default();
    let mut outcome = published.current_session(&session.id, transcript);
    if let Ok(Some((stale, _))) = published.read_restart() {
        let over = previous == Some(&stale) || {
            let is_over =
                |s: Session| s.ended.is_some() || !s.process.as_ref().is_some_and(process::is_alive);
            // A session whose record cannot be read may still run.
            ctx.store.sessions().get(&stale).is_ok_and(|record| record.is_none_or(is_over))
        };
        if over {
            outcome = outcome.and(published.clear_restart(&stale));
        }
    }
    if let Err(e) = outcome {
        ctx.fault("publish the session", &e);
    }
}
