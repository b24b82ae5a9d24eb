//! The rotation under way: records and carries out the decisions of `core::rotation`.

use std::time::{Duration, Instant};

use baton_core::agent::{Agent, RotationRequest};
use baton_core::handoff::Status;
use baton_core::latch::Rearm;
use baton_core::rotation::{Actuator, Effect, Event, Rotation, Step};
use jiff::Timestamp;
use rustix::process::Signal;

use crate::rotation::actuators::restart::{PATIENCE, Supervisor};
use crate::rotation::{journal, request};
use crate::sys::child::Child;

/// When the steps of the last rotation happened, to measure our share of the time.
#[derive(Default)]
pub(super) struct Times {
    /// From the request to the signal to end.
    to_stop: Option<Duration>,
    stopping: Option<Instant>,
    pub ended: Option<Instant>,
    pub started: Option<Instant>,
}

impl Times {
    /// Milliseconds of each part.
    fn told(&self) -> serde_json::Value {
        let ms = |d: Option<Duration>| d.map(|d| (d.as_secs_f64() * 10_000.0).round() / 10.0);
        let between = |a: Option<Instant>, b: Option<Instant>| ms(Some(b?.saturating_duration_since(a?)));
        serde_json::json!({
            "ms_until_told": ms(self.to_stop),
            "ms_to_end": between(self.stopping, self.ended),
            "ms_until_started": between(self.ended, self.started),
        })
    }
}

impl Supervisor {
    /// Whether another rotation is allowed. A refusal withdraws the request and tells the user why.
    pub(crate) fn may_rotate(&mut self, agent: &Agent) -> anyhow::Result<bool> {
        let session = self.session(agent);
        let max = self.config.run.max_restarts;
        let Err(refused) = request::permit(&self.store, agent, session.as_ref(), max) else {
            return Ok(true);
        };
        self.log("rotation-refused", &refused.to_string());
        self.to_say.push(format!("baton: no further rotation: {refused}"));
        self.store.agents().update(&self.agent, PATIENCE, |a| a.rotation = None)?;
        if let Some(session) = session {
            // A signal left behind would ask again at once. The end of a later turn may ask again.
            self.store.published().clear_restart(&session.id)?;
            self.store.sessions().update(&session.id, PATIENCE, |s| {
                s.latches = s.latches.rearm(Rearm::Rotation, None);
            })?;
        }
        Ok(false)
    }

    /// Records the rotation and tells the client to end. Returns `false` if it could not be recorded: then nothing
    /// begins, and nothing requests it again by itself.
    pub(crate) fn begin(&mut self, agent: &Agent, wanted: &RotationRequest, child: &Child) -> bool {
        let (rotation, effects) = self.saga(agent, wanted).begin();
        if let Err(e) = journal::record(&self.store, &rotation) {
            self.log("fault", &e.to_string());
            self.to_say.push(format!(
                "baton: {} continues as it was and handoff {} waits; its rotation could not be recorded: {e}",
                self.agent, rotation.handoff
            ));
            self.forget_request(&rotation);
            return false;
        }
        self.rotation = Some(rotation);
        let taken: Vec<Effect> = effects.into_iter().filter(|effect| *effect != Effect::Record).collect();
        self.carry_out(&taken, Some(child));
        let delay = Duration::try_from(Timestamp::now().duration_since(wanted.at)).ok();
        self.times = Times { to_stop: delay, stopping: Some(Instant::now()), ..Times::default() };
        true
    }

    pub(crate) fn saga(&self, agent: &Agent, wanted: &RotationRequest) -> Rotation {
        Rotation::new(agent, wanted, Actuator::Restart, &self.me, Timestamp::now())
    }

    /// Feeds an event to the open rotation, if there is one.
    pub(crate) fn advance(&mut self, event: &Event, child: Option<(&Child, bool)>) {
        let Some(rotation) = self.rotation.take() else { return };
        let (rotation, effects) = rotation.next(event.clone(), child.is_some_and(|(_, killed)| killed));
        self.rotation = Some(rotation);
        self.carry_out(&effects, child.map(|(child, _)| child));
    }

    pub(crate) fn carry_out(&mut self, effects: &[Effect], child: Option<&Child>) {
        for effect in effects {
            match (effect, child) {
                (Effect::Record, _) => {
                    // The old client has already been told to end: without the next step the agent would be gone.
                    if let Some(rotation) = &self.rotation
                        && let Err(e) = journal::record(&self.store, rotation)
                    {
                        self.log("fault", &e.to_string());
                    }
                }
                (Effect::Terminate, Some(child)) => drop(child.signal(Signal::TERM)),
                (Effect::Kill, Some(child)) => drop(child.signal(Signal::KILL)),
                (Effect::Over(Some(line)), _) => {
                    self.to_say.push(line.clone());
                    if let Some(rotation) = &self.rotation {
                        self.forget_request(rotation);
                    }
                }
                // The main loop handles the terminal, the start and the waiting.
                _ => {}
            }
        }
    }

    /// Withdraws the request of a rotation that was given up, so that it does not begin again by itself.
    fn forget_request(&self, rotation: &Rotation) {
        let forgotten = request::withdraw(&self.store, &self.agent, &rotation.handoff, PATIENCE);
        // The signal may come from an earlier request of the same session.
        let cleared = self.store.published().clear_restart(&rotation.from);
        if let Err(e) = forgotten {
            self.log("fault", &e.to_string());
        }
        if let Err(e) = cleared {
            self.log("fault", &e.to_string());
        }
    }

    /// Whether the fresh context was given a newer handoff of the same conversation, sealed while that one ended.
    fn has_newer(&self, agent: &Agent, rotation: &Rotation) -> bool {
        let session = self.session(agent).filter(|session| session.id != rotation.from);
        let Some(id) = session.and_then(|session| session.continues) else { return false };
        let entry = self.store.handoffs(&self.config).entry(&agent.channel, &id);
        entry.is_ok_and(|entry| entry.is_some_and(|entry| entry.session_id == rotation.from))
    }

    /// Closes the rotation if the fresh context has loaded its handoff. The handoff's own entry shows who has it.
    pub(crate) fn confirm(&mut self) {
        let Some(rotation) = self.rotation.as_ref().filter(|r| r.step == Step::Started) else { return };
        let Some(agent) = self.record() else { return };
        let entry = self.store.handoffs(&self.config).entry(&agent.channel, &rotation.handoff);
        let loaded = match entry {
            Ok(Some(entry)) => {
                let claimed = entry.claim.is_some_and(|c| c.session != rotation.from);
                entry.status == Status::Consumed || claimed
            }
            Ok(None) => false,
            Err(e) => {
                self.log("fault", &e.to_string());
                false
            }
        };
        if loaded || self.has_newer(&agent, rotation) {
            let handoff = rotation.handoff.clone();
            self.advance(&Event::Loaded(handoff), None);
            self.log_json("rotated", self.times.told());
            if let Err(e) = request::count(&self.store, &self.agent, PATIENCE) {
                self.log("fault", &e.to_string());
            }
        }
    }
}
