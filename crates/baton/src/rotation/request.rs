//! Requests a fresh context: writes the request into the agent's record, then wakes those who can give one.

use std::time::Duration;

use baton_core::agent::{Agent, RotationRequest, Stopped};
use baton_core::handoff::HandoffId;
use baton_core::ids::AgentId;
use baton_core::notice::{Notice, NoticeKind};
use baton_core::rotation::{RotationRefusal, permitted};
use baton_core::session::Session;
use jiff::Timestamp;
use serde_json::json;

use crate::config::Config;
use crate::mail::{announce, notify};
use crate::sessions::context::Context;
use crate::store::log::LogLine;
use crate::store::{Store, record::RecordError};

const PATIENCE: Duration = Duration::from_millis(300);

/// When the fresh context should come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// At the end of the turn, when nobody is typing.
    EndOfTurn,
    /// When the client has been idle for a while, because a person may be typing.
    Idle,
    /// Now, even in the middle of a turn.
    AtOnce,
}

/// Who wants it, when, and the file that the agent handed over, if any.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wish<'a> {
    pub by: &'a str,
    pub when: When,
    pub file: Option<&'a str>,
}

/// Records that `session`'s agent wants a fresh context with handoff `id`.
pub(crate) fn request(
    store: &Store,
    config: &Config,
    session: &Session,
    id: &HandoffId,
    wish: &Wish<'_>,
    now: Timestamp,
) -> Result<(), RecordError> {
    let Wish { by, when, file } = *wish;
    let path = store.handoffs(config).archived_path(id).display().to_string();
    store.agents().update(&session.agent, PATIENCE, |agent| {
        agent.last_handoff = Some(id.clone());
        agent.last_handoff_path = Some(path);
        agent.rotation = Some(RotationRequest {
            at: now,
            handoff: id.clone(),
            session: session.id.clone(),
            by: by.to_owned(),
            path: file.map(str::to_owned),
            wait_for_idle: when == When::Idle,
            at_once: when == When::AtOnce,
        });
    })?;
    store.published().restart(&session.id, &session.cwd)?;
    announce::wake_listeners(&store.state, &session.agent);
    let line = LogLine {
        session: Some(session.id.clone()),
        agent: Some(session.agent.clone()),
        channel: Some(session.channel.clone()),
        detail: json!({ "handoff": id, "by": by }),
        ..LogLine::new(now, "rotation-requested")
    };
    store.log().append(&line);
    Ok(())
}

/// Withdraws the request for `handoff`, so that nothing starts it again by itself. The handoff waits.
pub(crate) fn withdraw(
    store: &Store,
    agent: &AgentId,
    handoff: &HandoffId,
    patience: Duration,
) -> Result<(), RecordError> {
    let from = store.agents().update(agent, patience, |a| {
        a.rotation.take_if(|request| &request.handoff == handoff).map(|request| request.session)
    })?;
    if let Some(from) = from.flatten() {
        store.published().clear_restart(&from)?;
    }
    Ok(())
}

/// Whether another rotation of this agent may follow: not after too many in a row without a person, and not before
/// anything was added to the context.
pub(crate) fn permit(
    store: &Store,
    agent: &Agent,
    session: Option<&Session>,
    max: u64,
) -> Result<(), RotationRefusal> {
    let reading = session.and_then(|session| store.sessions().gauge(&session.id).reading);
    let permitted = permitted(agent.in_a_row, max, reading.map(|reading| reading.tokens));
    if let (Err(refused @ RotationRefusal::TooMany(_)), Some(session)) = (permitted, session) {
        stop(store, agent, session, refused);
    }
    permitted
}

/// From here on the agent waits for a person: records that for the interfaces, and sends a notice.
fn stop(store: &Store, agent: &Agent, session: &Session, refused: RotationRefusal) {
    let now = Timestamp::now();
    let stopped = Stopped { at: now, why: refused.to_string() };
    let recorded = store.agents().update(&agent.id, PATIENCE, |agent| {
        let is_news = agent.stopped().is_none();
        if is_news {
            agent.stopped = Some(stopped.clone());
        }
        is_news
    });
    match recorded {
        Ok(Some(true)) => {}
        Ok(_) => return,
        Err(e) => return store.log().fault(now, "record that an agent was stopped", &e),
    }
    if let Some(ctx) = Context::of(session) {
        let notice = Notice { kind: NoticeKind::HandoffPending, stamp: now.as_nanosecond() };
        let text = notice.kind.text(agent.id.as_str(), &stopped.why);
        notify::tell(store, &ctx.config.notify, agent, notice, &text, now);
    }
}

/// Lets a waiting rotation go ahead: the client has been idle for a while, so nobody is typing a draft.
pub(crate) fn nobody_types(store: &Store, session: &Session) -> Result<(), RecordError> {
    let waiting = store.agents().get(&session.agent)?.and_then(|a| a.rotation);
    if waiting.is_some_and(|r| r.wait_for_idle) {
        store.agents().update(&session.agent, PATIENCE, |agent| {
            if let Some(rotation) = &mut agent.rotation {
                rotation.wait_for_idle = false;
            }
        })?;
        announce::wake_listeners(&store.state, &session.agent);
    }
    Ok(())
}

/// Counts a completed rotation and marks the session as not yet prompted by a person.
pub(crate) fn count(store: &Store, agent: &AgentId, patience: Duration) -> Result<(), RecordError> {
    let session = store.agents().update(agent, patience, |a| {
        a.in_a_row += 1;
        a.session.clone()
    })?;
    if let Some(session) = session.flatten() {
        store.sessions().update(&session, patience, |s| s.unprompted = true)?;
    }
    Ok(())
}

/// Resets the count of rotations without a person after somebody typed. The session's own mark shows whether there is a
/// count, so most prompts need not read the agent's record.
pub(crate) fn person_spoke(store: &Store, session: &Session) -> Result<(), RecordError> {
    if session.unprompted {
        let patience = Duration::from_millis(20);
        store.agents().update(&session.agent, patience, |agent| {
            (agent.in_a_row, agent.stopped) = (0, None);
        })?;
        store.sessions().update(&session.id, patience, |s| s.unprompted = false)?;
    }
    Ok(())
}
