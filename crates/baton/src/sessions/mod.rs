//! A session's life, for every caller: hooks, companion, attendants and the API.
//!
//! `context` holds the surroundings of an event; `turn` says whose turn it is; `gauge` measures; `register` finds the
//! agent of a session; `claim` loads its handoff; `nudge` decides what to tell the agent; `compaction` and `crash` seal
//! what would be lost; `mirror` and `backup` keep the conversation itself.

pub(crate) mod backup;
pub(crate) mod caller;
pub(crate) mod claim;
pub(crate) mod clear;
pub(crate) mod compaction;
pub(crate) mod context;
pub(crate) mod crash;
pub(crate) mod done;
pub(crate) mod gauge;
pub(crate) mod mirror;
pub(crate) mod nudge;
pub(crate) mod register;
pub(crate) mod rename;
pub(crate) mod rights;
pub(crate) mod turn;

use std::time::Duration;

/// How long a hot hook waits for all its locks together before it leaves the work to the next hook.
pub(crate) const HOT_PATIENCE: Duration = Duration::from_millis(20);
/// The same for hooks that seal or load.
pub(crate) const SEAL_PATIENCE: Duration = Duration::from_millis(300);
