//! Take a handoff back before the fresh context has come.

use std::time::Duration;

use baton_core::agent::Agent;
use jiff::Timestamp;

use crate::mail::announce;
use crate::rotation::request;
use crate::rotation::verbs::{VerbRefusal, permit};
use crate::sessions::caller::Caller;
use crate::store::Store;
use crate::store::log::LogLine;

const PATIENCE: Duration = Duration::from_secs(2);

/// Cancels the agent's pending handoff or, if it is sealed already, the request for its fresh context; the handoff then
/// waits for the next one. Returns a message for the user.
pub(crate) fn cancel(store: &Store, caller: &Caller, agent: &Agent) -> Result<String, VerbRefusal> {
    permit(store, caller, "cancel a handoff of", agent)?;
    let said = match &agent.session {
        Some(session)
            if store.sessions().update(session, PATIENCE, |s| s.request.take())?.flatten().is_some() =>
        {
            format!("The handoff of {} was cancelled; it continues in its context.", agent.id)
        }
        _ => {
            let Some(rotation) = &agent.rotation else {
                return Err(VerbRefusal::Nothing(format!("no handoff of {} is pending", agent.id)));
            };
            request::withdraw(store, &agent.id, &rotation.handoff, PATIENCE)?;
            format!(
                "{} gets no fresh context now; handoff {} is loaded by the next one.",
                agent.id, rotation.handoff
            )
        }
    };
    announce::wake_listeners(&store.state, &agent.id);
    let line = LogLine {
        agent: Some(agent.id.clone()),
        session: agent.session.clone(),
        channel: Some(agent.channel.clone()),
        detail: serde_json::json!({ "by": caller.name() }),
        ..LogLine::new(Timestamp::now(), "handoff-cancelled")
    };
    store.log().append(&line);
    Ok(said)
}
