//! Gives an agent a fresh context now.

use std::time::Duration;

use anyhow::Context as _;
use baton_core::agent::{Agent, SupervisorOrder};
use baton_core::handoff::{HandoffId, Kind};
use baton_core::prompt;
use baton_core::rotation::Actuator;
use baton_core::session::{Session, Turn};

use crate::handoffs::seal::{self, Sealing};
use crate::handoffs::transcripts;
use crate::mail::announce;
use crate::providers;
use crate::rotation::pending;
use crate::rotation::request::{self, When, Wish};
use crate::rotation::verbs::{VerbRefusal, permit};
use crate::sessions::caller::Caller;
use crate::sessions::context::Context;
use crate::store::Store;

/// A client has queued a prompt well before this.
const QUEUED: Duration = Duration::from_secs(10);

/// Seals a handoff and asks for the fresh context. Returns what people read.
pub(crate) fn rotate(store: &Store, caller: &Caller, agent: &Agent) -> Result<String, VerbRefusal> {
    permit(store, caller, "rotate", agent)?;
    if let Some(SupervisorOrder::Undo { session }) = &agent.order
        && agent.session.as_ref() != Some(session)
    {
        return Err(VerbRefusal::Conflict(format!(
            "{} is going back to session {session}; run this again when it is there",
            agent.id
        )));
    }
    let Some(session) = agent.session.as_ref().and_then(|id| store.sessions().readable(id)) else {
        // Its client has been started again and has not reported yet.
        if agent.session.is_none() && !agent.sessions.is_empty() && store.presence(agent).is_there() {
            let text = format!("the client of {} is still starting; run this again in a moment", agent.id);
            return Err(VerbRefusal::Conflict(text));
        }
        return Err(VerbRefusal::Nothing(format!("{} has no conversation yet", agent.id)));
    };
    let id = seal(&session)?;
    Ok(match store.presence(agent).actuator() {
        // These two actuators wait until the agent is idle.
        Some(Actuator::Tmux | Actuator::Thread) if session.turn != Turn::Idle => {
            let what = if session.turn == Turn::Limit { "usage limit" } else { "turn" };
            format!("Handoff {id} sealed; {} gets a fresh context when its {what} has ended.", agent.id)
        }
        Some(_) => format!("Handoff {id} sealed; {} gets a fresh context now.", agent.id),
        None if is_asked_for_window(&session) => {
            format!("Handoff {id} sealed; {} was asked to continue in a fresh window.", agent.id)
        }
        None => format!("Handoff {id} sealed; type /clear in {} to continue from it.", agent.id),
    })
}

/// Asks the agent of an idle client to begin the fresh window itself. `false` if it cannot, or cannot be asked.
fn is_asked_for_window(session: &Session) -> bool {
    let Some(window) = providers::of(&session.provider).hooks.window.filter(|_| session.opens_window) else {
        return false;
    };
    let outcome = announce::queue_prompt(session, &prompt::open_window(window.tool));
    outcome.is_some_and(|outcome| outcome.recv_timeout(QUEUED).unwrap_or(false))
}

/// Seals and requests the fresh context. If the agent has handed over a document already, seals that one.
fn seal(session: &Session) -> Result<HandoffId, VerbRefusal> {
    let ctx = Context::of(session).context("there is no home folder")?;
    match pending::carry_out_at_once(&ctx, session, "a person") {
        Some(pending::SealOutcome::Sealed { handoff, .. }) => return Ok(handoff),
        Some(pending::SealOutcome::Failed(why)) => {
            return Err(VerbRefusal::Conflict(format!(
                "the handoff that {} has written was not sealed: {why}",
                session.agent
            )));
        }
        None => {}
    }
    // A person may ask for it as soon as the answer is on the screen; the client writes the answer a moment later.
    if session.turn == Turn::Idle {
        transcripts::catch_up(session);
    }
    let sealing = Sealing { session, kind: Kind::Auto, narrative: None, for_self: true };
    let id = seal::seal(&ctx.store, &ctx.config, &sealing, ctx.now)?.entry.id;
    let wish = Wish { by: "a person", when: When::AtOnce, file: None };
    request::request(&ctx.store, &ctx.config, session, &id, &wish, ctx.now)?;
    Ok(id)
}
