//! Rotation by restart: handoff sealed → agent stopped → started again → handoff loaded.
//!
//! A journaled saga: each step is recorded before it is taken. A process that finds the record after a crash knows what
//! may have happened, and either finishes the rotation or gives it up visibly. This module decides; the supervisor
//! carries out the effects.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::agent::{Agent, RotationRequest};
use crate::handoff::HandoffId;
use crate::ids::{AgentId, SessionId};
use crate::process::Process;

/// The progress of a rotation, recorded before each step is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// The old process is asked to end, then killed.
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

/// baton's ways to a fresh context, by their names in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Actuator {
    /// `baton run` stops the client and starts it again.
    Restart,
    /// The mod clears the context inside the client, or answers a compaction.
    #[serde(rename = "mod")]
    InPlace,
    /// `/clear` is typed into the client's tmux pane.
    Tmux,
    /// A new thread on Codex's own daemon, or a fresh window in the same one.
    Thread,
    /// The agent begins a fresh window itself, by a tool of its client.
    Window,
}

impl Actuator {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Restart => "restart",
            Self::InPlace => "mod",
            Self::Tmux => "tmux",
            Self::Thread => "thread",
            Self::Window => "window",
        }
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
    pub actuator: Actuator,
    pub step: Step,
    pub at: Timestamp,
    /// The process that carries it out.
    pub supervisor: Process,
    #[serde(default)]
    pub old: Option<Process>,
    #[serde(default)]
    pub new: Option<Process>,
    #[serde(default)]
    pub note: Option<String>,
    /// The agent's own handoff file, which the continuation prompt names.
    #[serde(default, rename = "path", skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The successor that an actuator created itself: a thread on Codex's daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<SessionId>,
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// An input to [`Rotation::next`].
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The old process is gone.
    Stopped,
    /// The deadline has passed.
    Deadline,
    Started(Process),
    CouldNotStart(String),
    /// A SessionStart of the agent has loaded this handoff.
    Loaded(HandoffId),
    /// The new process ended before it loaded anything.
    NewExited,
    /// A later supervisor found the record open.
    Found(RecoveryFacts),
}

/// A later supervisor's observations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecoveryFacts {
    pub old_alive: bool,
    pub new_alive: bool,
    /// The handoff was claimed by a living session or consumed.
    pub loaded: bool,
}

/// An effect to carry out. `Record` always comes before the effect it covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    Record,
    /// SIGTERM, followed by [`Event::Deadline`] after the grace period.
    Terminate,
    /// SIGKILL.
    Kill,
    RestoreTerminal,
    Start,
    /// Wait for the load, up to a deadline.
    AwaitLoad,
    /// The saga is over, with one line for the user if it failed.
    Over(Option<String>),
}

impl Rotation {
    /// The record of a rotation that `me` is about to carry out.
    pub fn new(
        agent: &Agent,
        request: &RotationRequest,
        actuator: Actuator,
        me: &Process,
        now: Timestamp,
    ) -> Self {
        Self {
            id: format!("R-{}-{}", now.strftime("%Y%m%d-%H%M%S%3f"), agent.id),
            agent: agent.id.clone(),
            handoff: request.handoff.clone(),
            from: request.session.clone(),
            by: request.by.clone(),
            actuator,
            step: Step::Stopping,
            at: now,
            supervisor: me.clone(),
            // A thread stays as it is, for those who look at it.
            old: agent.process.clone().filter(|_| actuator != Actuator::Thread),
            new: None,
            note: None,
            file: request.path.clone(),
            thread: None,
            unknown: Map::new(),
        }
    }

    /// The first prompt of the fresh context.
    pub fn continuation(&self) -> String {
        crate::prompt::continuation(&self.handoff, self.file.as_deref())
    }

    /// Begins: the handoff is sealed and the old process runs.
    #[must_use]
    pub fn begin(self) -> (Self, Vec<Effect>) {
        (Self { step: Step::Stopping, ..self }, vec![Effect::Record, Effect::Terminate])
    }

    /// Begins with nothing to stop: a headless turn has ended by itself.
    #[must_use]
    pub fn begin_stopped(self) -> (Self, Vec<Effect>) {
        (Self { step: Step::Starting, ..self }, vec![Effect::Record, Effect::Start])
    }

    /// The next step. Ignores an event that does not belong to the current step: signals and hooks may come late.
    #[must_use]
    pub fn next(mut self, event: Event, killed: bool) -> (Self, Vec<Effect>) {
        match (self.step, event) {
            (Step::Stopping, Event::Stopped) => {
                self.step = Step::Starting;
                (self, vec![Effect::Record, Effect::RestoreTerminal, Effect::Start])
            }
            (Step::Stopping, Event::Deadline) if !killed => (self, vec![Effect::Kill]),
            (Step::Stopping, Event::Deadline) => {
                self.fail("the agent could not be stopped; it continues as it was")
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

    /// Recovers after a crash of the supervisor.
    fn found(mut self, facts: RecoveryFacts) -> (Self, Vec<Effect>) {
        if facts.loaded {
            self.step = Step::Done;
            return (self, vec![Effect::Record, Effect::Over(None)]);
        }
        if facts.old_alive || facts.new_alive {
            return self.fail("its supervisor was killed; the agent continues as it was");
        }
        // No process runs and no session has the handoff: finish the rotation.
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

/// Why no further rotation is allowed now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RotationRefusal {
    /// This many in a row without a person's prompt.
    TooMany(u64),
    /// The context has hardly grown since the last one.
    NoGrowth,
}

impl std::fmt::Display for RotationRefusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooMany(n) => write!(
                f,
                "{n} rotations in a row without a prompt by a person (run.max_restarts); type something to continue"
            ),
            Self::NoGrowth => f.write_str("nothing was added to the context since the last one"),
        }
    }
}

/// Whether another rotation may follow.
pub fn permitted(in_a_row: u64, max: u64, tokens_since: Option<u64>) -> Result<(), RotationRefusal> {
    if in_a_row >= max {
        return Err(RotationRefusal::TooMany(in_a_row));
    }
    // A fresh context with a handoff already holds some thousand tokens, so zero means no work was done.
    if tokens_since == Some(0) {
        return Err(RotationRefusal::NoGrowth);
    }
    Ok(())
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
