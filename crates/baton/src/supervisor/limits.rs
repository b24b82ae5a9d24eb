//! A usage limit: the agent is parked, and comes back by itself when the limit has ended.

use std::time::{Duration, Instant};

use baton_core::agent::Agent;
use baton_core::limit;
use baton_core::session::{Session, Turn};
use jiff::{SignedDuration, Timestamp};

use super::attend::Purpose;
use super::{PATIENCE, Supervisor};
use crate::rotate;

/// A failure so soon after we came back is the same limit, not a new one.
const SAME: SignedDuration = SignedDuration::from_mins(2);

/// The limit that was met last.
#[derive(Default)]
pub struct Met {
    /// When the client told of it; another time is another failure.
    at: Option<Timestamp>,
    resumed: Option<Timestamp>,
    tries: u32,
}

impl Supervisor {
    /// At a usage limit: park, and come back when it has ended. Returns how, when it is time.
    pub fn parked(
        &mut self,
        agent: &Agent,
        session: Option<&Session>,
        look_at: &mut Option<Instant>,
    ) -> anyhow::Result<Option<Purpose>> {
        let now = Timestamp::now();
        let Some(session) = session.filter(|s| s.turn == Turn::Limit && self.config.run.park) else {
            if agent.parked.is_some() {
                // Somebody typed, or the work went on by itself.
                self.store.agents().update(&self.agent, PATIENCE, |a| a.parked = None)?;
            }
            return Ok(None);
        };
        if self.met.at != session.turn_since {
            let same = self.met.resumed.is_some_and(|at| now.duration_since(at) < SAME);
            let tries = if same { self.met.tries } else { 0 };
            let parked = limit::parked(session.limit.as_deref().unwrap_or_default(), tries, now);
            self.met = Met { at: session.turn_since, resumed: None, tries: parked.tries };
            self.store.agents().update(&self.agent, PATIENCE, |a| a.parked = Some(parked))?;
            self.log("parked", &parked.until.to_string());
            *look_at = Some(Instant::now() + until(parked.until, now));
            return Ok(None);
        }
        match agent.parked {
            Some(parked) if parked.until <= now => {
                self.store.agents().update(&self.agent, PATIENCE, |a| a.parked = None)?;
                self.met.resumed = Some(now);
                self.log("unparked", "");
                let prompt = Some(rotate::UNPARK.to_owned());
                Ok(Some(Purpose::Resume { session: session.id.to_string(), prompt }))
            }
            Some(parked) => {
                *look_at = Some(Instant::now() + until(parked.until, now));
                Ok(None)
            }
            // It is on its way back.
            None => Ok(None),
        }
    }
}

pub fn until(then: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).unwrap_or_default()
}
