//! Reads what the pane attendant must know of an agent before it types.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::time::Duration;

use baton_core::agent::{Agent, Order, RotationRequest, STALE};
use baton_core::pane::Look;
use baton_core::session::{Session, Turn};
use jiff::{SignedDuration, Timestamp};

use crate::config::Config;
use crate::mail::maildir::Mail;
use crate::providers::face::Typing;
use crate::rotation::request;
use crate::store::Store;
use crate::store::companions::CompanionState;

/// How long a rotation is left to the companion.
const IN_PLACE: SignedDuration = SignedDuration::from_secs(15);
/// Sealing a handoff takes at most a second.
const SEALING: SignedDuration = SignedDuration::from_secs(5);
/// How long the client may take to begin the turn of a prompt that our hook has seen: other hooks may see it too.
const BEGIN: SignedDuration = SignedDuration::from_secs(10);
/// How much of the transcript's end to search for the last record of the conversation. Behind the first prompt of a
/// context the client notes tens of kilobytes about tools and skills.
const END: u64 = 256 << 10;
/// How much of a transcript's beginning to search for the first prompt.
const BEGINNING: u64 = 512 << 10;

/// The facts, and what to do about them.
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

pub(super) fn look(store: &Store, config: &Config, agent: &Agent, typing: &Typing, now: Timestamp) -> Survey {
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
    found.look.clear = matches!(&agent.order, Some(Order::Clear { session: of, .. }) if *of == session.id);
    found.look.turn = turn(&session, typing, now);
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
    found.look.heard = session.claim.is_none() && session.turn_since.is_some_and(|at| at > session.started);
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
        // An agent with a pending handoff is about to forget what it is told.
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
        found.silent = prompt_alone(&session, typing, now).map(|prompt| (session.clone(), prompt));
    }
    if let Some(until) = limit.filter(|until| *until > now) {
        found.again = Some(until);
    }
    found
}

/// Whose move it is: from the hooks, corrected by what only the transcript shows.
fn turn(session: &Session, typing: &Typing, now: Timestamp) -> Turn {
    match session.turn {
        Turn::Working if was_taken_back(session, typing, now) => Turn::Idle,
        Turn::Working | Turn::Blocked if was_interrupted(session, typing) => Turn::Idle,
        turn => turn,
    }
}

fn was_interrupted(session: &Session, typing: &Typing) -> bool {
    last_words(session, typing).ok().flatten().is_some_and(|line| line.contains(typing.interrupted))
}

/// Whether Esc took the prompt back before its turn began. Our hook has recorded a turn by then; the client puts the
/// prompt into its composer, writes nothing and tells nobody.
fn was_taken_back(session: &Session, typing: &Typing, now: Timestamp) -> bool {
    let (Some(path), Some(since)) = (session.transcript.as_deref(), session.turn_since) else { return false };
    if now < since + BEGIN {
        return false;
    }
    match std::fs::metadata(path).and_then(|found| found.modified()) {
        // The client makes the file with the first turn.
        Err(e) => e.kind() == std::io::ErrorKind::NotFound,
        // A turn that goes on after a permission was given writes nothing either, while its tool runs.
        Ok(at) => {
            Timestamp::try_from(at).is_ok_and(|at| at < since)
                && last_words(session, typing)
                    .is_ok_and(|line| !line.is_some_and(|line| typing.tools.iter().any(|m| line.contains(m))))
        }
    }
}

/// The record of the prompt, if the transcript ends with it and has not grown for a while.
///
/// Esc may come when the prompt is written already, and nothing has been sent to the model.
fn prompt_alone(session: &Session, typing: &Typing, now: Timestamp) -> Option<String> {
    let grew = std::fs::metadata(session.transcript.as_deref()?).and_then(|found| found.modified()).ok()?;
    let is_quiet =
        session.turn == Turn::Working && Timestamp::try_from(grew).is_ok_and(|at| at + BEGIN <= now);
    let last = is_quiet.then(|| last_words(session, typing).ok().flatten()).flatten()?;
    let has = |marks: &[&str]| marks.iter().any(|mark| last.contains(mark));
    (has(typing.prompts) && !has(typing.tools)).then_some(last)
}

/// Whether the record of a prompt has exactly this text, however the composer has broken its lines.
pub(super) fn is_prompt(record: &str, draft: &str) -> bool {
    fn has(value: &serde_json::Value, draft: &str) -> bool {
        match value {
            serde_json::Value::String(text) => dense(text) == draft,
            serde_json::Value::Array(items) => items.iter().any(|item| has(item, draft)),
            serde_json::Value::Object(fields) => fields.values().any(|field| has(field, draft)),
            _ => false,
        }
    }
    let draft = dense(draft);
    !draft.is_empty() && serde_json::from_str(record).is_ok_and(|record| has(&record, &draft))
}

fn dense(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

/// The last record of the user or the model; the client's own notes may follow it.
fn last_words(session: &Session, typing: &Typing) -> std::io::Result<Option<String>> {
    let Some(path) = session.transcript.as_deref() else { return Ok(None) };
    let mut file = crate::sys::fs::open_read(Path::new(path))?;
    let from = file.metadata()?.len().saturating_sub(END);
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(from))?;
    file.take(END).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let last = text.lines().rev().find(|line| typing.speaks.iter().any(|mark| line.contains(mark)));
    match last {
        None if from > 0 => Err(std::io::Error::other("the last record is longer than what is read")),
        last => Ok(last.map(str::to_owned)),
    }
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

/// What to leave to the companion inside the client.
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
    // After Esc the client takes no orders from its companion, but it takes what is typed, like a person's.
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
