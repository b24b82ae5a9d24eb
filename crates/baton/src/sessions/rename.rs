//! `baton rename`: gives an agent another name. Its mail, handoffs, children, reminders and session records follow, and
//! the old name redirects to the new one for a while.
//!
//! The order makes a kill safe at any point: the redirect is written first, so that a second run continues, and the
//! agent's record moves last. Processes that hold the old name in memory (`baton run`, the pane attendant) find the
//! record gone and follow the redirect.

use std::time::{Duration, Instant};

use baton_core::agent::Agent;
use baton_core::ids::AgentId;
use jiff::Timestamp;

use crate::config::Config;
use crate::mail::announce;
use crate::mail::maildir::Mail;
use crate::sessions::caller::Caller;
use crate::sessions::rights;
use crate::store::Store;
use crate::store::agents::is_reserved;
use crate::store::log::LogLine;

/// How long to wait for messages that a hook is showing right now.
const HELD: Duration = Duration::from_secs(5);

/// Why the rename is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RenameRefusal {
    #[error("no agent may be called {0}; choose another name")]
    Reserved(AgentId),
    #[error("there is an agent {0} already; choose another name")]
    Taken(AgentId),
    #[error("{0} is being given a fresh context; run this again when it has one")]
    Rotating(AgentId),
    #[error("it is called {0} already")]
    Same(AgentId),
    /// One of the names carries rights, and the caller is an agent.
    #[error("{0}")]
    NotYours(String),
}

/// Renames the agent and returns its record.
pub(crate) fn rename(
    store: &Store,
    config: &Config,
    caller: &Caller,
    agent: &Agent,
    new: &AgentId,
    now: Timestamp,
) -> anyhow::Result<Agent> {
    let (agents, old) = (store.agents(), &agent.id);
    if old == new {
        return Err(RenameRefusal::Same(new.clone()).into());
    }
    if is_reserved(new) {
        return Err(RenameRefusal::Reserved(new.clone()).into());
    }
    for name in [old, new] {
        if let Some(why) = rights::refuse_name(store, &config.approvals.rules, caller, name) {
            return Err(RenameRefusal::NotYours(why).into());
        }
    }
    let open = store.rotations().has(|rotation| &rotation.agent == old && rotation.step.is_open())?;
    if agent.rotation.is_some() || open {
        return Err(RenameRefusal::Rotating(old.clone()).into());
    }
    // Resume a rename that was interrupted.
    let is_resumed = agents.renamed(old)?.as_ref() == Some(new);
    if !is_resumed && agents.get(new)?.is_some() {
        return Err(RenameRefusal::Taken(new.clone()).into());
    }
    let mail = Mail::of(store);
    // A hook knows the messages that it has claimed by their paths, so let it finish before they move.
    let until = Instant::now() + HELD;
    while mail.unseen(old) > mail.waiting(old) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    agents.lead_to(old, new, now)?;
    mail.rename(old, new)?;
    for id in &agent.sessions {
        store.sessions().update(id, super::SEAL_PATIENCE, |session| {
            if &session.agent == old {
                session.agent = new.clone();
            }
        })?;
    }
    let handoffs = store.handoffs(config);
    for channel in handoffs.channels()? {
        handoffs.readdress(&channel, old, new, now)?;
    }
    store.reminders().rename(old, new)?;
    for other in agents.every()? {
        if [&other.parent, &other.approver, &other.spawned_by].into_iter().flatten().any(|name| name == old) {
            agents.update(&other.id, super::SEAL_PATIENCE, |other| {
                let names = [&mut other.parent, &mut other.approver, &mut other.spawned_by];
                for name in names.into_iter().flatten() {
                    if name == old {
                        *name = new.clone();
                    }
                }
            })?;
        }
    }
    let record = agents.rename(old, new)?;
    if let Some(client) = &record.process {
        agents.note_process(client, new)?;
    }
    // Move mail that was sent to the old name before its record was gone.
    mail.rename(old, new)?;
    announce::wake_listeners(&store.state, old);
    announce::wake_listeners(&store.state, new);
    store.log().append(&LogLine {
        agent: Some(new.clone()),
        channel: Some(record.channel.clone()),
        detail: serde_json::json!({ "from": old }),
        ..LogLine::new(now, "renamed")
    });
    Ok(record)
}
