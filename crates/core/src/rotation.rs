//! Rotation by restart: handoff sealed → agent stopped → started again → handoff loaded.
//!
//! A journaled saga: each step is recorded before it is taken, so whoever finds the record after a crash knows
//! what may have happened and either finishes it or gives it up in a way the user can see. This module decides;
//! the supervisor carries out the effects.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::handoff::HandoffId;
use crate::ids::{AgentId, SessionId};
use crate::process::Process;

/// How far it has come. Recorded before the step is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// The old process is being asked to end, then made to.
    Stopping,
    /// The old process has ended; a new one is being started.
    Starting,
    /// The new process runs; its first hook has not yet loaded the handoff.
    Started,
    /// The fresh context has the handoff.
    Done,
    /// Given up, with the reason in `note`. The handoff waits.
    Failed,
}

impl Step {
    pub fn is_open(self) -> bool {
        !matches!(self, Self::Done | Self::Failed)
    }
}

/// `rotations/{id}.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rotation {
    pub id: String,
    pub agent: AgentId,
    pub handoff: HandoffId,
    /// The conversation that ends.
    pub from: SessionId,
    /// Who asked for it.
    pub by: String,
    pub actuator: String,
    pub step: Step,
    pub at: Timestamp,
    pub supervisor: Process,
    #[serde(default)]
    pub old: Option<Process>,
    #[serde(default)]
    pub new: Option<Process>,
    #[serde(default)]
    pub note: Option<String>,
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The old process is gone.
    Stopped,
    /// The time that was set has passed.
    Deadline,
    Started(Process),
    CouldNotStart(String),
    /// A SessionStart of the agent loaded this handoff.
    Loaded(HandoffId),
    /// The new process ended before it loaded anything.
    NewExited,
    /// A later supervisor found the record open.
    Found(Facts),
}

/// What a later supervisor can see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    pub old_alive: bool,
    pub new_alive: bool,
    /// The handoff was claimed by a living session or consumed.
    pub loaded: bool,
}

/// What to do now. `Record` always comes before the effect it covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    Record,
    /// SIGTERM, with so long until the next [`Event::Deadline`].
    Terminate,
    /// SIGKILL.
    Kill,
    RestoreTerminal,
    Start,
    /// Wait so long for the load.
    AwaitLoad,
    /// The saga is over; one line for the user, if it did not go as it should.
    Over(Option<String>),
}

impl Rotation {
    /// Begins: the handoff is sealed, the old process runs.
    #[must_use]
    pub fn begin(self) -> (Self, Vec<Effect>) {
        (Self { step: Step::Stopping, ..self }, vec![Effect::Record, Effect::Terminate])
    }

    /// Begins where there is nothing to stop: a headless turn has ended by itself.
    #[must_use]
    pub fn begin_stopped(self) -> (Self, Vec<Effect>) {
        (Self { step: Step::Starting, ..self }, vec![Effect::Record, Effect::Start])
    }

    /// The next step. An event that does not belong to the current step changes nothing: signals and hooks may
    /// come late.
    #[must_use]
    pub fn next(mut self, event: Event, killed: bool) -> (Self, Vec<Effect>) {
        match (self.step, event) {
            (Step::Stopping, Event::Stopped) => {
                self.step = Step::Starting;
                (self, vec![Effect::Record, Effect::RestoreTerminal, Effect::Start])
            }
            (Step::Stopping, Event::Deadline) if !killed => (self, vec![Effect::Kill]),
            (Step::Stopping, Event::Deadline) => {
                self.fail("the agent could not be stopped; it goes on as it was")
            }
            (Step::Starting, Event::Started(process)) => {
                self.step = Step::Started;
                self.new = Some(process);
                (self, vec![Effect::Record, Effect::AwaitLoad])
            }
            (Step::Starting, Event::CouldNotStart(why)) => {
                self.fail(&format!("the agent could not be started again: {why}"))
            }
            (Step::Starting | Step::Started, Event::Loaded(id)) if id == self.handoff => {
                self.step = Step::Done;
                (self, vec![Effect::Record, Effect::Over(None)])
            }
            (Step::Started, Event::NewExited) => {
                self.fail("the new agent ended before it had loaded the handoff")
            }
            (Step::Started, Event::Deadline) => {
                self.fail("the new agent runs, but its hooks did not load the handoff")
            }
            (step, Event::Found(facts)) if step.is_open() => self.found(facts),
            _ => (self, Vec::new()),
        }
    }

    /// After a crash of the supervisor.
    fn found(mut self, facts: Facts) -> (Self, Vec<Effect>) {
        if facts.loaded {
            self.step = Step::Done;
            return (self, vec![Effect::Record, Effect::Over(None)]);
        }
        if facts.old_alive || facts.new_alive {
            return self.fail("its supervisor was killed; the agent goes on as it was");
        }
        // Nobody runs and nobody has the handoff: finish what was begun.
        self.step = Step::Starting;
        self.old = None;
        (self, vec![Effect::Record, Effect::Start])
    }

    fn fail(mut self, why: &str) -> (Self, Vec<Effect>) {
        self.step = Step::Failed;
        self.note = Some(why.to_owned());
        let line = format!(
            "baton: rotation of {} given up: {why}. `baton handoffs load {}` prints what was handed over",
            self.agent, self.handoff
        );
        (self, vec![Effect::Record, Effect::Over(Some(line))])
    }
}

/// Why no further rotation happens now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// So many in a row without a prompt by a person.
    TooMany(u64),
    /// The context has hardly grown since the last one.
    NoGrowth,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooMany(n) => write!(
                f,
                "{n} rotations in a row without a prompt by a person (run.max_restarts); type something to go on"
            ),
            Self::NoGrowth => f.write_str("nothing was added to the context since the last one"),
        }
    }
}

/// May another rotation follow?
pub fn permitted(in_a_row: u64, max: u64, tokens_since: Option<u64>) -> Result<(), Refused> {
    if in_a_row >= max {
        return Err(Refused::TooMany(in_a_row));
    }
    // A fresh context with a handoff already holds some thousand tokens; less is no work.
    if tokens_since == Some(0) {
        return Err(Refused::NoGrowth);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
