//! The ways to a fresh context, one folder each.

pub(crate) mod inplace;
mod record_watch;
pub(crate) mod restart;
pub(crate) mod thread;
pub(crate) mod tmux;

use crate::providers::Provider;
use crate::store::Store;

/// Returns the arguments that make a client load our hooks if no install does. Called at each start, because an install
/// may come in between, and hooks loaded twice would speak twice.
pub(crate) type Integrate = fn(&Store, &Provider) -> anyhow::Result<Vec<String>>;
