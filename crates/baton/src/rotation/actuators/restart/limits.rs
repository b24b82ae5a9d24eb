//! Usage limits: parks the agent, and brings it back when the limit has ended.
//!
//! The hook that sees the limit writes its end into the session's record; companion and pane attendant read it too. A
//! companion inside the client goes first: it submits a prompt, and a draft survives. Only without one is the client
//! restarted, and not while its composer may hold a draft.

use std::time::{Duration, Instant};

use baton_core::agent::Agent;
use baton_core::prompt::UNPARK;
use baton_core::session::Session;
use jiff::Timestamp;

use crate::rotation::actuators::restart::vigil::Purpose;
use crate::rotation::actuators::restart::{PATIENCE, Supervisor};
use crate::store::companions::CompanionState;
use crate::sys::terminal;

/// The text in `agents` while a draft may be in the way.
const TYPED: &str =
    "its usage limit has ended, and something was typed in its terminal since: submit it to continue";

impl Supervisor {
    /// When the agent's usage limit ends, if it is to come back by itself. Also kept in the agent's record, for people.
    pub(crate) fn limit(
        &self,
        agent: &Agent,
        session: Option<&Session>,
    ) -> anyhow::Result<Option<Timestamp>> {
        let session = session.filter(|s| self.config.run.park && s.turn_since != self.back_from);
        let parked = session.and_then(Session::parked);
        if agent.parked != parked {
            self.store.agents().update(&self.agent, PATIENCE, |a| {
                a.parked = parked;
                a.waits.take_if(|waits| parked.is_none() && waits == TYPED);
            })?;
            match parked {
                Some(parked) => self.log("parked", &parked.until.to_string()),
                // Somebody typed, or the client continued by itself.
                None => self.log("unparked", ""),
            }
        }
        Ok(parked.map(|parked| parked.until))
    }

    /// How the agent comes back after the limit has ended. `None` while someone else brings it back, or while a draft
    /// may be in the way; `look_at` then says when to look again.
    pub(crate) fn come_back(
        &mut self,
        agent: &Agent,
        session: &Session,
        ended: Timestamp,
        look_at: &mut Option<Instant>,
    ) -> anyhow::Result<Option<Purpose>> {
        if let CompanionState::Live(companion) = self.store.presence(agent).companion() {
            let waited = Duration::try_from(Timestamp::now().duration_since(ended)).unwrap_or_default();
            let left = self.config.run.in_place_wait.checked_sub(waited);
            // After Esc it is the person's move, however long that takes.
            if companion.braked || left.is_some() {
                *look_at = left.map(|left| Instant::now() + left);
                return Ok(None);
            }
        }
        if !self.headless && may_have_draft(session) {
            if agent.waits.is_none() {
                self.store.agents().update(&self.agent, PATIENCE, |a| a.waits = Some(TYPED.to_owned()))?;
                self.log("parked", TYPED);
            }
            return Ok(None);
        }
        Ok(Some(self.back(session)))
    }

    /// Resumes the same conversation and tells it to go on.
    pub(crate) fn back(&mut self, session: &Session) -> Purpose {
        self.back_from = session.turn_since;
        Purpose::Resume { session: session.id.to_string(), prompt: Some(UNPARK.to_owned()) }
    }
}

/// Whether something was typed in our terminal since the session met its limit.
fn may_have_draft(session: &Session) -> bool {
    let (Some(met), Some(typed)) = (session.turn_since, terminal::last_input()) else { return false };
    let times = (Timestamp::try_from(typed), Timestamp::try_from(terminal::grain(met.into())));
    let (Ok(typed), Ok(step)) = times else { return false };
    session.parked().is_some_and(|parked| parked.may_have_draft(typed, met, step))
}

pub(super) fn until(then: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).unwrap_or_default()
}
