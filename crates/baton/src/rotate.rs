//! Asking for a fresh context. Files first, then a word to the supervisor; whoever can give one carries it out.

use std::time::Duration;

use baton_core::agent::RotationRequest;
use baton_core::handoff::HandoffId;
use baton_core::ids::AgentId;
use baton_core::pane::{CONTINUE, READ};
use baton_core::session::Session;
use jiff::Timestamp;
use serde_json::json;

use crate::config::Config;
use crate::poke;
use crate::store::log::{self, Line};
use crate::store::{Store, record::RecordError};

const PATIENCE: Duration = Duration::from_millis(300);

/// The prompt with which a fresh context begins.
pub fn continuation(id: &HandoffId) -> String {
    format!("{}{id}{}", CONTINUE.0, CONTINUE.1)
}

/// The prompt of a fresh context whose handoff is a file of the agent's own.
pub fn read_and_continue(path: &str) -> String {
    format!("{}{path}{}", READ.0, READ.1)
}

/// What a parked agent is told when its limit has ended.
pub const UNPARK: &str = "The usage limit has ended. Continue.";

/// Was this prompt typed by a person? Ours and the client's own notifications were not.
pub fn is_from_a_person(prompt: &str) -> bool {
    let prompt = prompt.trim_start();
    let names_a_file = prompt.starts_with(READ.0) && prompt.trim_end().ends_with(READ.1);
    !names_a_file
        && !prompt.starts_with(CONTINUE.0)
        && prompt != UNPARK
        && !prompt.starts_with("<task-notification>")
        // Mail that a companion submitted.
        && !prompt.starts_with(baton_core::message::HEAD)
}

/// When the fresh context shall come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// The turn has ended, or will: nobody is typing.
    EndOfTurn,
    /// A person may be typing: when the client says that it has been idle for a while.
    Idle,
    /// Into whatever is going on.
    AtOnce,
}

/// Records that `session`'s agent wants a fresh context with handoff `id`.
pub fn request(
    store: &Store,
    config: &Config,
    session: &Session,
    id: &HandoffId,
    by: &str,
    when: When,
    now: Timestamp,
) -> Result<(), RecordError> {
    request_with(store, config, session, id, &Wish { by, when, file: None }, now)
}

/// Who wants it, when, and the file that was handed over, if the agent wrote one.
#[derive(Debug, Clone, Copy)]
pub struct Wish<'a> {
    pub by: &'a str,
    pub when: When,
    pub file: Option<&'a str>,
}

/// The same, with a file of the agent's own.
pub fn request_with(
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
    poke::supervisor(&store.state, &session.agent);
    let line = Line {
        session: Some(session.id.clone()),
        agent: Some(session.agent.clone()),
        channel: Some(session.channel.clone()),
        detail: json!({ "handoff": id, "by": by }),
        ..Line::new(now, "rotation-requested")
    };
    log::append(&store.state, &line);
    Ok(())
}

/// The client has been idle for a while: no draft is being typed, a waiting rotation may go ahead.
pub fn nobody_types(store: &Store, session: &Session) {
    let waiting = store.agents().get(&session.agent).ok().flatten().and_then(|a| a.rotation);
    if waiting.is_some_and(|r| r.wait_for_idle) {
        let _ = store.agents().update(&session.agent, PATIENCE, |agent| {
            if let Some(rotation) = &mut agent.rotation {
                rotation.wait_for_idle = false;
            }
        });
        poke::supervisor(&store.state, &session.agent);
    }
}

/// A rotation of `agent` is complete: one more without a person, unless one writes to its session.
pub fn count(store: &Store, agent: &AgentId, patience: Duration) -> Result<(), RecordError> {
    let session = store.agents().update(agent, patience, |a| {
        a.in_a_row += 1;
        a.session.clone()
    })?;
    if let Some(session) = session.flatten() {
        store.sessions().update(&session, patience, |s| s.unprompted = true)?;
    }
    Ok(())
}

/// A person typed something: the count of rotations without one begins anew. The session's own mark tells whether there
/// is one; most prompts need not look at the agent.
pub fn person_spoke(store: &Store, session: &Session) {
    if session.unprompted {
        let patience = Duration::from_millis(20);
        let anew = store.agents().update(&session.agent, patience, |agent| agent.in_a_row = 0);
        if anew.is_ok() {
            let _ = store.sessions().update(&session.id, patience, |s| s.unprompted = false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_prompts_are_not_a_persons() {
        let id = HandoffId::new("HO-20260202-064530-c74cc080").unwrap();
        assert!(!is_from_a_person(&continuation(&id)));
        assert!(!is_from_a_person(UNPARK));
        assert!(!is_from_a_person(&read_and_continue("/p/h.md")));
        assert!(is_from_a_person("Read it and tell me"));
        assert!(!is_from_a_person("<task-notification>done</task-notification>"));
        assert!(!is_from_a_person("[baton message m1 from app-2]\nhello"));
        assert!(is_from_a_person("Continue, please"));
    }
}
