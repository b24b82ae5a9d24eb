//! What has been said in this cycle, so that each thing is said once.
//!
//! A latch opens again at PreCompact, at SessionStart(clear) and when a rotation has completed, and at nothing
//! else. In particular not at a reading below the threshold: a compaction can leave the context above the
//! warning line, and a reading can fall for reasons that have nothing to do with a fresh context.

use serde::{Deserialize, Serialize};

use crate::event::{Event, HookEvent, StartSource};
use crate::level::{Level, Limits};
use crate::reading::Reading;

/// One session's latches, kept with its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Latches {
    /// Which stretch between two fresh contexts this is; mail may be meant for one only.
    pub cycle: u32,
    pub warned: bool,
    pub critical_said: bool,
    pub stop_blocked: bool,
    /// The agent has handed over its handoff; nothing more is asked of it in this cycle.
    pub handed_off: bool,
    /// An automatic handoff was sealed because none came.
    pub sealed: bool,
    /// What the context held when the cycle began.
    pub before: Option<Usage>,
}

/// One answer's figures. Payloads of the status line bear no stamp: after a compaction the client may show the
/// old figures again, and only the figures tell that they are old.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub tokens: u64,
    pub output: u64,
}

/// What the agent hears at its next hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Say {
    /// One sentence; nothing is asked.
    Advisory,
    /// Write the handoff, hand it over.
    Request,
}

/// What happens when a turn ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AtStop {
    Nothing,
    /// Ask once more, now, before the turn ends.
    Block,
    /// Asked and not answered: seal what the ledger proves. Then rotate, or tell the user how.
    Seal {
        rotate: bool,
    },
}

/// The three things that begin a new cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rearm {
    PreCompact,
    Clear,
    Rotation,
}

impl Rearm {
    /// Whether an event begins a new cycle; a subagent's never does. A completed rotation is no event of the
    /// provider.
    pub fn by(event: &HookEvent<'_>) -> Option<Self> {
        match event.event {
            _ if event.subagent.is_some() => None,
            Event::PreCompact { .. } => Some(Self::PreCompact),
            Event::SessionStart { source: StartSource::Clear, .. } => Some(Self::Clear),
            _ => None,
        }
    }
}

/// What the user wants to be said at all.
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
    /// A Stop hook already keeps this turn going.
    pub hook_active: bool,
    /// Some actuator other than the user is live.
    pub rotatable: bool,
}

impl Latches {
    /// The level of a reading in this cycle. An unknown context is not full, and neither is one whose figures
    /// are those of the cycle before.
    pub fn level(&self, reading: Option<&Reading>, limits: &Limits) -> Level {
        match reading {
            Some(r) if self.before != Some(Usage { tokens: r.tokens, output: r.output }) => limits.level(r),
            _ => Level::Ok,
        }
    }

    /// At a hook that can carry text: what to say now, if anything.
    ///
    /// Critical swallows a warning that was never said, so nobody hears two texts for one step.
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

    /// At the end of a turn.
    #[must_use]
    pub fn at_stop(mut self, level: Level, voice: Voice, stop: StopContext) -> (Self, AtStop) {
        if level < Level::Critical || self.handed_off || self.sealed || !voice.request {
            return (self, AtStop::Nothing);
        }
        if voice.block_stop && stop.rotatable && !stop.hook_active && !self.stop_blocked {
            // The reason repeats the request, so the request counts as said.
            (self.stop_blocked, self.critical_said, self.warned) = (true, true, true);
            return (self, AtStop::Block);
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

    /// A fresh context: everything may be said again. `last` is the last reading of the cycle that ends.
    #[must_use]
    pub fn rearm(self, _cause: Rearm, last: Option<&Reading>) -> Self {
        let before = last.map(|r| Usage { tokens: r.tokens, output: r.output });
        Self { cycle: self.cycle.wrapping_add(1), before, ..Self::default() }
    }
}

#[cfg(test)]
mod tests;
