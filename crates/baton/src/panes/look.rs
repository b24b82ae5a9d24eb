//! What the files say of an agent in a pane, as far as somebody who may have to type must know.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::time::Duration;

use baton_core::agent::{Agent, RotationRequest};
use baton_core::pane::Look;
use baton_core::rotation::permitted;
use baton_core::session::{Session, Turn};
use jiff::{SignedDuration, Timestamp};

use crate::companion::{self, Presence};
use crate::config::Config;
use crate::providers::face::Typing;
use crate::store::Store;
use crate::sys::process;

/// A companion that has not given the fresh context by then is not waited for any longer.
const IN_PLACE: SignedDuration = SignedDuration::from_secs(15);
/// Sealing a handoff takes at most a second.
const SEALING: SignedDuration = SignedDuration::from_secs(5);
/// The last record of a turn that was interrupted is at the very end.
const END: u64 = 16 << 10;
/// The first prompt of a fresh context lies within this.
const BEGINNING: u64 = 512 << 10;

/// What was found, and what must be said about it.
pub struct Found {
    pub look: Look,
    /// No further rotation: why.
    pub refused: Option<String>,
    /// Look again then, although nothing may have happened.
    pub again: Option<Timestamp>,
}

pub fn look(store: &Store, config: &Config, agent: &Agent, typing: &Typing, now: Timestamp) -> Found {
    let session = agent.session.as_ref().and_then(|id| store.sessions().get(id).ok().flatten());
    // A hook that seals writes the agent's request before it says in the session that it is done: read the other way
    // round, so that an idle session without its request is never seen.
    let fresh = store.agents().get(&agent.id).ok().flatten();
    let moved = fresh.as_ref().is_some_and(|fresh| fresh.session != agent.session);
    let agent = fresh.as_ref().unwrap_or(agent);
    let session = session.filter(|_| !moved);
    let mut found = Found { look: Look::default(), refused: None, again: None };
    found.look.session.clone_from(&agent.session);
    // A conversation that has not begun, or has just ended, takes nothing.
    let Some(session) = session.filter(|s| s.ended.is_none()) else {
        found.look.request.clone_from(&agent.rotation);
        return found;
    };
    found.look.ready = true;
    found.look.turn = turn(&session, typing);
    // A hook that was killed meanwhile is not waited for.
    if let Some(until) = session.sealing.map(|at| at + SEALING).filter(|at| *at > now) {
        found.look.ready = false;
        found.again = Some(until);
        return found;
    }
    found.look.heard = session.claim.is_none() && session.turn_since.is_some_and(|at| at > session.started);
    found.look.turn_since = session.turn_since.or(Some(session.started));
    let inside = inside(store, agent, &session, now, &mut found.again);
    if !inside.mail {
        let waiting = store.mail().waiting(&agent.id);
        // An agent that has handed over is about to forget what it hears.
        let hears = session.request.is_none() && found.look.turn != Turn::Limit;
        found.look.mail = if hears { waiting } else { 0 };
        found.look.urgent = found.look.mail > 0
            && found.look.turn == Turn::Working
            && store.mail().urgent(&agent.id).is_some();
    }
    let supervised = agent.supervisor.as_ref().is_some_and(process::is_alive);
    let request = agent.rotation.clone().filter(|_| !supervised && !inside.rotation);
    if let Some(request) = request {
        let tokens = store.sessions().gauge(&session.id).reading.map(|r| r.tokens);
        match permitted(agent.in_a_row, config.run.max_restarts, tokens) {
            Ok(()) => {
                found.look.hold_until = hold_until(&session, &request, config.run.background_wait);
                found.look.request = Some(request);
            }
            Err(refused) => found.refused = Some(refused.to_string()),
        }
    }
    // After Esc no hook speaks; the transcript does.
    let waits = found.look.mail > 0 || found.look.request.is_some();
    if waits && matches!(found.look.turn, Turn::Working | Turn::Blocked) {
        found.again = Some(now + SignedDuration::from_secs(3));
    }
    found
}

/// Whose move it is: what the hooks say, and that a turn was interrupted, which no hook says.
fn turn(session: &Session, typing: &Typing) -> Turn {
    match session.turn {
        Turn::Working | Turn::Blocked if was_interrupted(session, typing) => Turn::Idle,
        turn => turn,
    }
}

fn was_interrupted(session: &Session, typing: &Typing) -> bool {
    let Some(path) = session.transcript.as_deref() else { return false };
    let Ok(mut file) = crate::sys::fs::open_read(Path::new(path)) else { return false };
    let from = file.metadata().map_or(0, |m| m.len()).saturating_sub(END);
    let mut bytes = Vec::new();
    let read = file.seek(SeekFrom::Start(from)).and_then(|_| file.take(END).read_to_end(&mut bytes));
    if read.is_err() {
        return false;
    }
    let text = String::from_utf8_lossy(&bytes);
    // The last thing that was said. What follows it are notes of the client about itself.
    let last = text.lines().rev().find(|line| typing.speaks.iter().any(|mark| line.contains(mark)));
    last.is_some_and(|line| line.contains(typing.interrupted))
}

/// Does the transcript of a fresh context show this prompt?
pub fn was_prompted(session: &Session, typing: &Typing, words: &str) -> bool {
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

/// What is left to the companion inside the client.
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
    let Presence::Live(record) = companion::state(store, agent) else { return Inside::default() };
    if !record.interactive {
        return Inside::default();
    }
    let mut inside = Inside { mail: true, rotation: true };
    if let Some(request) = &agent.rotation
        && session.turn == Turn::Idle
        && !record.braked
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
