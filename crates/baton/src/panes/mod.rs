//! The attendant of all agents in tmux panes: types `/clear`, the word to go on, and mail that found an agent idle.
//!
//! One per user, a thread of the daemon (or `baton panes` in the foreground). All it knows is on disk, so another one
//! can take over at any instant. What is typed and when is decided in `core::pane`; here it is carried out. Where a
//! companion lives inside the client or a supervisor owns it, those go first.

mod attendant;
pub mod launch;
mod look;
mod one;
mod rotation;

use std::fs::{File, TryLockError};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use baton_core::agent::Agent;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::store::Store;
use crate::sys::lock::{Lock, LockError};
use crate::sys::process;

pub use rotation::give_up;

fn lock_path(state: &Path) -> PathBuf {
    state.join("run").join("panes.lock")
}

/// Attends to the panes until the other end of `stop` is closed or written to. Of several one does, the others wait.
pub fn attend(store: &Store, stop: &UnixStream) -> anyhow::Result<()> {
    let Some(_lock) = take_over(&lock_path(&store.state), stop)? else { return Ok(()) };
    attendant::Attendant::new(store)?.run(stop)
}

/// The lock, when it is free; nothing if we were told to stop before.
pub fn take_over(path: &Path, stop: &UnixStream) -> anyhow::Result<Option<Lock>> {
    loop {
        match Lock::acquire_shown(path, Duration::ZERO) {
            Ok(lock) => return Ok(Some(lock)),
            Err(LockError::Held { .. }) => {}
            Err(e) => return Err(e.into()),
        }
        let mut fds = [PollFd::new(stop, PollFlags::IN)];
        let pause = Timespec { tv_sec: 2, tv_nsec: 0 };
        let _ = poll(&mut fds, Some(&pause));
        if !fds[0].revents().is_empty() {
            return Ok(None);
        }
    }
}

/// Does an attendant run?
pub fn is_running(store: &Store) -> bool {
    File::open(lock_path(&store.state))
        .is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// Is there somebody who can type into this agent's pane?
pub fn is_attended(store: &Store, agent: &Agent) -> bool {
    agent.pane.as_ref().is_some_and(|pane| process::is_alive(&pane.process)) && is_running(store)
}
