//! The texts already sent in this cycle, so that each is sent once.
//!
//! A latch reopens only at PreCompact, at SessionStart(clear) and when a rotation completes. In particular not at a
//! reading below the threshold: a compaction can leave the context above the warning line, and a reading can drop
//! without a fresh context.

use serde::{Deserialize, Serialize};

use crate::event::{Event, HookEvent, StartSource};
use crate::level::{Level, Limits};
use crate::reading::Reading;

/// One session's latches, kept with its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Latches {
    /// The number of this cycle; some mail is valid for one cycle only.
    pub cycle: u32,
    pub warned: bool,
    pub critical_said: bool,
    pub stop_blocked: bool,
    /// The agent has handed over its handoff; ask nothing more of it in this cycle.
    pub handed_off: bool,
    /// An automatic handoff was sealed because the agent wrote none.
    pub sealed: bool,
    /// The last figures of the previous cycle.
    pub before: Option<AnswerFigures>,
}

/// The figures of one answer. Status line payloads carry no timestamp, so after a compaction the client may repeat the
/// old figures, and only the figures themselves show that they are old.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerFigures {
    pub tokens: u64,
    pub output: u64,
}

/// The text for the agent at its next hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Say {
    /// One sentence that asks for nothing.
    Advisory,
    /// Asks the agent to write and hand over the handoff.
    Request,
}

/// The action at the end of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AtStop {
    Nothing,
    /// Ask before the turn ends. `again`: it was already asked at a tool call, so this is the last time.
    Ask {
        again: bool,
    },
    /// Asked without an answer: seal what the ledger proves. Then rotate, or tell the user how.
    Seal {
        rotate: bool,
    },
}

/// The causes of a new cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rearm {
    PreCompact,
    Clear,
    Rotation,
}

impl Rearm {
    /// Whether an event begins a new cycle; a subagent's never does. A completed rotation is not a provider event.
    pub fn by(event: &HookEvent<'_>) -> Option<Self> {
        match event.event {
            _ if event.subagent.is_some() => None,
            Event::PreCompact { .. } => Some(Self::PreCompact),
            Event::SessionStart { source: StartSource::Clear, .. } => Some(Self::Clear),
            _ => None,
        }
    }
}

/// Which messages the user wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Voice {
    pub advise: bool,
    pub request: bool,
    pub block_stop: bool,
}

impl Default for Voice {
    fn default() -> Self {
        Self { advise: true, request: true, block_stop: true }
    }
}

/// The circumstances of a Stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopContext {
    /// A Stop hook is already keeping this turn going.
    pub hook_active: bool,
    /// An actuator other than the user is live.
    pub rotatable: bool,
}

impl Latches {
    /// The level of a reading in this cycle. `Ok` if there is no reading or if it repeats the previous cycle's figures.
    pub fn level(&self, reading: Option<&Reading>, limits: &Limits) -> Level {
        match reading {
            Some(r) if self.before != Some(AnswerFigures { tokens: r.tokens, output: r.output }) => {
                limits.level(r)
            }
            _ => Level::Ok,
        }
    }

    /// The text to send now, at a hook that can carry text.
    ///
    /// Critical replaces an unsaid warning, so the agent never gets two texts for one step.
    #[must_use]
    pub fn at_level(mut self, level: Level, voice: Voice) -> (Self, Option<Say>) {
        if self.handed_off {
            return (self, None);
        }
        let say = match level {
            Level::Critical if voice.request && !self.critical_said => {
                self.critical_said = true;
                self.warned = true;
                Some(Say::Request)
            }
            Level::Warn if voice.advise && !self.warned => {
                self.warned = true;
                Some(Say::Advisory)
            }
            _ => None,
        };
        (self, say)
    }

    /// The action at the end of a turn.
    #[must_use]
    pub fn at_stop(mut self, level: Level, voice: Voice, stop: StopContext) -> (Self, AtStop) {
        if level < Level::Critical || self.handed_off || self.sealed || !voice.request {
            return (self, AtStop::Nothing);
        }
        if voice.block_stop && stop.rotatable && !stop.hook_active && !self.stop_blocked {
            let again = self.critical_said;
            // This text contains the request, so mark the request as said.
            (self.stop_blocked, self.critical_said, self.warned) = (true, true, true);
            return (self, AtStop::Ask { again });
        }
        if self.critical_said {
            self.sealed = true;
            return (self, AtStop::Seal { rotate: stop.rotatable });
        }
        (self, AtStop::Nothing)
    }

    /// The agent ran `baton handoff`.
    #[must_use]
    pub fn handed_off(mut self) -> Self {
        self.handed_off = true;
        self
    }

    /// Starts a new cycle, in which each text may be sent again. `last` is the last reading of the old cycle.
    #[must_use]
    pub fn rearm(self, _cause: Rearm, last: Option<&Reading>) -> Self {
        let before = last.map(|r| AnswerFigures { tokens: r.tokens, output: r.output });
        Self { cycle: self.cycle.wrapping_add(1), before, ..Self::default() }
    }
}

#[cfg(test)]
mod tests;
