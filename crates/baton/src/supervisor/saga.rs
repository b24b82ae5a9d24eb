//! The rotation that is under way: what `core::rotation` decides is recorded and carried out here.

use std::time::{Duration, Instant};

use baton_core::agent::{Agent, RotationRequest};
use baton_core::handoff::Status;
use baton_core::latch::Rearm;
use baton_core::rotation::{Effect, Event, Rotation, Step, permitted};
use jiff::Timestamp;
use rustix::process::Signal;

use super::{PATIENCE, Supervisor};
use crate::rotate;
use crate::store::rotations;
use crate::sys::child::Child;

/// When the steps of the last rotation were taken, to tell how much of it was ours.
#[derive(Default)]
pub struct Times {
    /// From the request to the word to end.
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
    /// Is another rotation allowed? A refusal takes the request back and says why.
    pub fn may_rotate(&mut self, agent: &Agent) -> anyhow::Result<bool> {
        let session = self.session(agent);
        let tokens =
            session.as_ref().and_then(|s| self.store.sessions().gauge(&s.id).reading).map(|r| r.tokens);
        let Err(refused) = permitted(agent.in_a_row, self.config.run.max_restarts, tokens) else {
            return Ok(true);
        };
        self.log("rotation-refused", &refused.to_string());
        self.to_say.push(format!("baton: no further rotation: {refused}"));
        self.store.agents().update(&self.agent, PATIENCE, |a| a.rotation = None)?;
        if let Some(session) = session {
            // A signal left behind would ask again at once; the end of a later turn may ask again.
            self.store.published().clear_restart(&session.id)?;
            self.store.sessions().update(&session.id, PATIENCE, |s| {
                s.latches = s.latches.rearm(Rearm::Rotation, None);
            })?;
        }
        Ok(false)
    }

    pub fn begin(&mut self, agent: &Agent, request: &RotationRequest, child: &Child) {
        let (rotation, effects) = self.saga(agent, request).begin();
        self.rotation = Some(rotation);
        self.carry_out(&effects, Some(child));
        let waited = Duration::try_from(Timestamp::now().duration_since(request.at)).ok();
        self.times = Times { to_stop: waited, stopping: Some(Instant::now()), ..Times::default() };
    }

    pub fn saga(&self, agent: &Agent, request: &RotationRequest) -> Rotation {
        let now = Timestamp::now();
        Rotation {
            id: format!("R-{}-{}", now.strftime("%Y%m%d-%H%M%S%3f"), self.agent),
            agent: self.agent.clone(),
            handoff: request.handoff.clone(),
            from: request.session.clone(),
            by: request.by.clone(),
            actuator: "restart".to_owned(),
            step: Step::Stopping,
            at: now,
            supervisor: self.me.clone(),
            old: agent.process.clone(),
            new: None,
            note: None,
            unknown: serde_json::Map::default(),
        }
    }

    /// Feeds an event to the open rotation, if there is one.
    pub fn advance(&mut self, event: &Event, child: Option<(&Child, bool)>) {
        let Some(rotation) = self.rotation.take() else { return };
        let (rotation, effects) = rotation.next(event.clone(), child.is_some_and(|(_, killed)| killed));
        self.rotation = Some(rotation);
        self.carry_out(&effects, child.map(|(child, _)| child));
    }

    pub fn carry_out(&mut self, effects: &[Effect], child: Option<&Child>) {
        for effect in effects {
            match (effect, child) {
                (Effect::Record, _) => {
                    if let Some(rotation) = &self.rotation
                        && let Err(e) = rotations::put(&self.store.state, rotation)
                    {
                        self.log("fault", &e.to_string());
                    }
                }
                (Effect::Terminate, Some(child)) => drop(child.signal(Signal::TERM)),
                (Effect::Kill, Some(child)) => drop(child.signal(Signal::KILL)),
                (Effect::Over(Some(line)), _) => {
                    self.to_say.push(line.clone());
                    self.forget_request();
                }
                // The terminal and the start are the main loop's next steps; waiting is its way to be.
                _ => {}
            }
        }
    }

    /// A rotation was given up: what asked for it must not begin it again by itself.
    fn forget_request(&self) {
        let Some(rotation) = &self.rotation else { return };
        let forgotten = self.store.agents().update(&self.agent, PATIENCE, |a| {
            a.rotation.take_if(|r| r.handoff == rotation.handoff);
        });
        let cleared = self.store.published().clear_restart(&rotation.from);
        if let Err(e) = forgotten {
            self.log("fault", &e.to_string());
        }
        if let Err(e) = cleared {
            self.log("fault", &e.to_string());
        }
    }

    /// Has the fresh context loaded its handoff? The handoff itself tells who has it.
    pub fn confirm(&mut self) {
        let Some(rotation) = self.rotation.as_ref().filter(|r| r.step == Step::Started) else { return };
        let Some(agent) = self.record() else { return };
        let found = self.store.handoffs(&self.config).find(&agent.channel, &rotation.handoff);
        let loaded = match found {
            Ok(Some(found)) => {
                let claimed = found.entry.claim.is_some_and(|c| c.session != rotation.from);
                found.entry.status == Status::Consumed || claimed
            }
            Ok(None) => false,
            Err(e) => {
                self.log("fault", &e.to_string());
                false
            }
        };
        if loaded {
            let handoff = rotation.handoff.clone();
            self.advance(&Event::Loaded(handoff), None);
            self.log_json("rotated", self.times.told());
            if let Err(e) = rotate::count(&self.store, &self.agent, PATIENCE) {
                self.log("fault", &e.to_string());
            }
        }
    }
}
