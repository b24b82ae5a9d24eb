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
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use baton_core::agent::Agent;

use crate::paths::Paths;
use crate::store::Store;
use crate::sys::lock::Lock;
use crate::sys::process;

/// A predecessor that was told to end lets go within this.
const START: Duration = Duration::from_secs(5);
/// One that was started for an agent goes when there is none for so long.
const LINGER: Duration = Duration::from_mins(1);

fn lock_path(state: &Path) -> PathBuf {
    state.join("run").join("panes.lock")
}

/// Attends to the panes until the other end of `stop` is closed or written to.
pub fn attend(store: &Store, paths: &Paths, stop: &UnixStream) -> anyhow::Result<()> {
    let _lock = Lock::acquire_shown(&lock_path(&store.state), START)?;
    attendant::Attendant::new(store, paths)?.run(stop, None)
}

/// The same for as long as there is an agent in a pane, and a little longer.
pub fn attend_while_needed(store: &Store, paths: &Paths, stop: &UnixStream) -> anyhow::Result<()> {
    let _lock = Lock::acquire_shown(&lock_path(&store.state), START)?;
    attendant::Attendant::new(store, paths)?.run(stop, Some(LINGER))
}

/// Makes sure that somebody attends to the panes. `false` if nobody could be started.
pub fn ensure(store: &Store) -> bool {
    if is_running(store) {
        return true;
    }
    let Ok(program) = std::env::current_exe() else { return false };
    let mut attendant = Command::new(program);
    attendant.args(["panes", "--detach"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // It outlives us, and becomes a session of its own.
    if attendant.spawn().is_err() {
        return false;
    }
    let until = Instant::now() + START;
    while !is_running(store) {
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
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
