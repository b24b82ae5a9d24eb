//! The attendant of sessions that a client's shared server runs (Codex's threads): starts a fresh thread for a handoff,
//! wakes an idle one for its mail, and takes readings while one works. It types nothing and needs no terminal.
//!
//! There is one per user, a thread of the daemon. Everything it knows is on disk, so another one can take over at any
//! instant. The fresh thread's own SessionStart hook loads the handoff, as everywhere.

mod attendant;
mod link;
mod requests;
mod rotation;

use std::os::unix::net::UnixStream;

use crate::store::Store;
use crate::store::presence::threads_lock;

/// Attends to the threads until the other end of `stop` is closed or written to. Only one attendant works at a time;
/// the others wait for its lock.
pub(crate) fn attend(store: &Store, stop: &UnixStream) -> anyhow::Result<()> {
    let Some(_lock) = crate::rotation::actuators::tmux::take_over(&threads_lock(&store.state), stop)? else {
        return Ok(());
    };
    attendant::ThreadAttendant::new(store)?.run(stop)
}
