//! `baton clear`: an agent leaves its conversation for an empty one. No handoff is sealed or loaded, and the chain
//! ends. The order stays in the agent's record until an empty conversation has begun, however it began.

use std::time::Duration;

use baton_core::agent::{Agent, SupervisorOrder};
use baton_core::ids::SessionId;
use baton_core::message::Urgency;
use jiff::Timestamp;

use crate::mail;
use crate::mail::announce;
use crate::mail::maildir::Draft;
use crate::store::Store;
use crate::store::record::RecordError;

const PATIENCE: Duration = Duration::from_secs(2);

/// Who carries the order out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carrier {
    /// `baton run` starts the client again.
    Restart,
    /// A pane attendant types `/clear` when the agent is idle.
    Pane,
}

/// Who could carry it out now.
pub(crate) fn carrier(store: &Store, agent: &Agent) -> Option<Carrier> {
    let presence = store.presence(agent);
    if presence.is_supervised() {
        Some(Carrier::Restart)
    } else {
        presence.is_typed_to().then_some(Carrier::Pane)
    }
}

/// Records the order, drops earlier requests, and wakes the process that carries it out.
pub(crate) fn order(
    store: &Store,
    agent: &Agent,
    session: &SessionId,
    from: &str,
    prompt: Option<&str>,
) -> Result<(), RecordError> {
    let order = SupervisorOrder::Clear {
        session: session.clone(),
        from: from.to_owned(),
        prompt: prompt.map(str::to_owned),
    };
    store.agents().update(&agent.id, PATIENCE, |a| {
        a.order = Some(order);
        a.rotation = None;
    })?;
    store.sessions().update(session, PATIENCE, |s| s.request = None)?;
    announce::wake_listeners(&store.state, &agent.id);
    Ok(())
}

/// Completes the order after a new conversation has begun or the context was seen to be empty, and sends its prompt as
/// a message. Returns `false` if there was no such order.
pub(crate) fn carried_out(store: &Store, agent: &Agent, now: Timestamp) -> anyhow::Result<bool> {
    if !matches!(agent.order, Some(SupervisorOrder::Clear { .. })) {
        return Ok(false);
    }
    let taken = store.agents().update(&agent.id, PATIENCE, |a| {
        a.order.take_if(|order| matches!(order, SupervisorOrder::Clear { .. }))
    })?;
    let Some(Some(SupervisorOrder::Clear { from, prompt, .. })) = taken else { return Ok(false) };
    if let Some(prompt) = prompt {
        let draft = Draft { urgency: Urgency::Important, ..Draft::new(&from, &prompt) };
        mail::send(store, agent, &draft, None, now)?;
    }
    Ok(true)
}
