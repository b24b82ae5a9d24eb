//! The attendant of all agents in tmux panes: types `/clear`, the prompt to continue, and mail for idle agents.
//!
//! There is one per user, a thread of the daemon (or `baton panes` in the foreground). Everything it knows is on disk,
//! so another one can take over at any instant. `core::pane` decides what to type and when; this module types it. A
//! companion inside the client or a supervisor that owns it goes first.

mod attendant;
mod facts;
mod keys;
pub(crate) mod launch;
mod pane_agent;
pub(crate) mod server;
mod takeover;
pub(crate) mod worktree;

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::store::Store;
use crate::store::presence::panes_lock;
use crate::sys::lock::{Lock, LockError};
use crate::sys::poll;

/// Attends to the panes until the other end of `stop` is closed or written to. Only one attendant works at a time; the
/// others wait for its lock.
pub(crate) fn attend(store: &Store, stop: &UnixStream) -> anyhow::Result<()> {
    let Some(_lock) = take_over(&panes_lock(&store.state), stop)? else { return Ok(()) };
    attendant::PaneAttendant::new(store)?.run(stop)
}

/// Takes the lock when it is free; `None` if told to stop before that.
pub(crate) fn take_over(path: &Path, stop: &UnixStream) -> anyhow::Result<Option<Lock>> {
    loop {
        match Lock::acquire_shown(path, Duration::ZERO) {
            Ok(lock) => return Ok(Some(lock)),
            Err(LockError::Held { .. }) => {}
            Err(e) => return Err(e.into()),
        }
        if poll::readable(stop, Duration::from_secs(2)).unwrap_or(false) {
            return Ok(None);
        }
    }
}
