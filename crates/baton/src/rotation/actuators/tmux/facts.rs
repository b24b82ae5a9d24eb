//! Gathers the facts that the pane attendant needs before it types.

use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use baton_core::agent::{Agent, RotationRequest, STALE, SupervisorOrder};
use baton_core::pane::Look;
use baton_core::session::{Session, Turn};
use jiff::{SignedDuration, Timestamp};

use crate::config::Config;
use crate::mail::maildir::Mail;
use crate::providers::face::Typing;
use crate::rotation::request;
use crate::sessions::turn;
use crate::store::Store;
use crate::store::companions::CompanionState;

/// How long a rotation is left to the companion.
const IN_PLACE: SignedDuration = SignedDuration::from_secs(15);
/// Sealing a handoff takes at most a second.
const SEALING: SignedDuration = SignedDuration::from_secs(5);
/// How much of a transcript's beginning to search for the first prompt.
const BEGINNING: u64 = 512 << 10;

/// The facts, and the resulting actions.
pub(super) struct Survey {
    pub look: Look,
    /// Why no further rotation is allowed.
    pub refused: Option<String>,
    /// When to look again although nothing happened.
    pub again: Option<Timestamp>,
    /// The session, if its turn is over and its handoff is still pending.
    pub over: Option<Session>,
    /// The session, if its turn runs by the hooks and nothing but its prompt has come of it for a while. If the composer
    /// holds that prompt, it was taken back.
    pub silent: Option<(Session, String)>,
}

pub(super) fn look(store: &Store, config: &Config, agent: &Agent, now: Timestamp) -> Survey {
    let session = agent.session.as_ref().and_then(|id| store.sessions().readable(id));
    // A hook that seals writes the agent's request before it clears the session's mark. Read them in the opposite
    // order, so that we never see an idle session without its request.
    let fresh = store.agents().readable(&agent.id);
    let moved = fresh.as_ref().is_some_and(|fresh| fresh.session != agent.session);
    let agent = fresh.as_ref().unwrap_or(agent);
    let session = session.filter(|_| !moved);
    let mut found = Survey { look: Look::default(), refused: None, again: None, over: None, silent: None };
    found.look.session.clone_from(&agent.session);
    // Nothing can be typed into a conversation that has not begun or has just ended.
    let Some(session) = session.filter(|s| s.ended.is_none()) else {
        found.look.request.clone_from(&agent.rotation);
        return found;
    };
    found.look.ready = true;
    found.look.clear =
        matches!(&agent.order, Some(SupervisorOrder::Clear { session: of, .. }) if *of == session.id);
    found.look.turn = turn::observed(&session, now);
    let limit = session.parked().filter(|_| config.run.park).map(|parked| parked.until);
    if limit.is_some_and(|until| until <= now) {
        found.look.turn = Turn::Idle;
    }
    // The mark expires, because the hook may have been killed.
    if let Some(until) = session.sealing.map(|at| at + SEALING).filter(|at| *at > now) {
        found.look.ready = false;
        found.again = Some(until);
        return found;
    }
    found.look.heard =
        !session.awaits_first_prompt() && session.turn_since.is_some_and(|at| at > session.started);
    found.look.turn_since = session.turn_since.or(Some(session.started));
    found.look.continues.clone_from(&session.continues);
    let is_pending = session.request.is_some();
    if is_pending && !matches!(found.look.turn, Turn::Working | Turn::Blocked) {
        found.over = Some(session.clone());
    }
    let inside = inside(store, agent, &session, now, &mut found.again);
    // An ordered clear would make the agent forget mail that comes before it.
    if !inside.mail && !found.look.clear {
        let waiting = Mail::of(store).waiting(&agent.id);
        // An agent with a pending handoff is about to lose its context.
        let hears = !is_pending && found.look.turn != Turn::Limit;
        found.look.mail = if hears { waiting } else { 0 };
        let may_interrupt = found.look.mail > 0 && found.look.turn == Turn::Working;
        found.look.urgent = if may_interrupt { Mail::of(store).urgent(&agent.id) } else { None };
    }
    let supervised = store.presence(agent).is_supervised();
    found.look.unpark = limit.is_some_and(|until| until <= now) && !supervised && !inside.mail;
    // A newer handoff that is still pending comes first.
    let comes_later = is_pending && found.look.turn == Turn::Idle;
    let request = agent.rotation.clone().filter(|_| !supervised && !inside.rotation && !comes_later);
    if let Some(wanted) = request.as_ref().filter(|wanted| wanted.is_stale(&session)) {
        found.refused = Some(format!("handoff {}: {STALE}", wanted.handoff));
    } else if let Some(wanted) = request {
        match request::permit(store, agent, Some(&session), config.run.max_restarts) {
            Ok(()) => {
                found.look.hold_until = hold_until(&session, &wanted, config.run.background_wait);
                found.look.request = Some(wanted);
            }
            Err(refused) => found.refused = Some(refused.to_string()),
        }
    }
    // Esc fires no hook, so poll the transcript.
    let waits = found.look.mail > 0 || found.look.request.is_some() || found.look.clear || is_pending;
    if waits && matches!(found.look.turn, Turn::Working | Turn::Blocked) {
        found.again = Some(now + SignedDuration::from_secs(3));
        found.silent = turn::prompt_alone(&session, now).map(|prompt| (session.clone(), prompt));
    }
    if let Some(until) = limit.filter(|until| *until > now) {
        found.again = Some(until);
    }
    found
}

/// Whether the transcript of a fresh context shows this prompt.
pub(super) fn was_prompted(session: &Session, typing: &Typing, words: &str) -> bool {
    let Some(path) = session.transcript.as_deref() else { return false };
    let Ok(file) = crate::sys::fs::open_read(Path::new(path)) else { return false };
    let mut bytes = Vec::new();
    if file.take(BEGINNING).read_to_end(&mut bytes).is_err() {
        return false;
    }
    let words = serde_json::Value::from(words).to_string();
    let words = words.trim_matches('"');
    let text = String::from_utf8_lossy(&bytes);
    text.lines().any(|line| typing.prompts.iter().any(|mark| line.contains(mark)) && line.contains(words))
}

/// The actions left to the companion inside the client.
#[derive(Default)]
struct Inside {
    mail: bool,
    rotation: bool,
}

fn inside(
    store: &Store,
    agent: &Agent,
    session: &Session,
    now: Timestamp,
    again: &mut Option<Timestamp>,
) -> Inside {
    let CompanionState::Live(record) = store.presence(agent).companion() else { return Inside::default() };
    // After Esc the client takes no orders from its companion, but it accepts typed text, as from a person.
    if !record.interactive || record.braked {
        return Inside::default();
    }
    let mut inside = Inside { mail: true, rotation: true };
    if let Some(request) = &agent.rotation
        && session.turn == Turn::Idle
    {
        let idle_since = session.turn_since.map_or(request.at, |at| at.max(request.at));
        let until = idle_since + IN_PLACE;
        inside.rotation = until > now;
        *again = Some(until).filter(|at| *at > now);
    }
    inside
}

fn hold_until(session: &Session, request: &RotationRequest, wait: Duration) -> Option<Timestamp> {
    let wait = SignedDuration::try_from(wait).ok()?;
    (!session.background.is_empty()).then(|| request.at + wait)
}
