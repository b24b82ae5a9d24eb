//! Asking for a fresh context. Files first, then a word to the supervisor; whoever can give one carries it out.

use std::time::Duration;

use baton_core::agent::RotationRequest;
use baton_core::handoff::HandoffId;
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
    format!("{CONTINUE} {id} left off.")
}

pub(crate) const CONTINUE: &str = "Continue where the loaded handoff";
/// What a parked agent is told when its limit has ended.
pub const UNPARK: &str = "The usage limit has ended. Continue.";

/// Was this prompt typed by a person? Ours and the client's own notifications were not.
pub fn is_from_a_person(prompt: &str) -> bool {
    let prompt = prompt.trim_start();
    !prompt.starts_with(CONTINUE)
        && prompt != UNPARK
        && !prompt.starts_with("<task-notification>")
        // Mail that a companion submitted.
        && !prompt.starts_with("[baton message ")
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
    let path = store.handoffs(config).archived_path(id).display().to_string();
    store.agents().update(&session.agent, PATIENCE, |agent| {
        agent.last_handoff = Some(id.clone());
        agent.last_handoff_path = Some(path);
        agent.rotation = Some(RotationRequest {
            at: now,
            handoff: id.clone(),
            session: session.id.clone(),
            by: by.to_owned(),
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

/// A person typed something: the count of rotations without one begins anew.
pub fn person_spoke(store: &Store, session: &Session) {
    let counted = store.agents().get(&session.agent).ok().flatten().is_some_and(|a| a.in_a_row > 0);
    if counted {
        let _ = store.agents().update(&session.agent, Duration::from_millis(20), |agent| agent.in_a_row = 0);
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
        assert!(!is_from_a_person("<task-notification>done</task-notification>"));
        assert!(!is_from_a_person("[baton message m1 from app-2]\nhello"));
        assert!(is_from_a_person("Continue, please"));
    }
}
