//! The attendant of conversations that a client's shared daemon runs (Codex's threads): a fresh thread with the handoff
//! when one is asked for, mail to an idle one, live readings while one works. Nothing is typed, no terminal is needed.
//!
//! One per user, a thread of our own daemon. All it knows is on disk, so another one can take over at any instant.
//! The handoff itself is loaded by the fresh thread's own SessionStart hook, as everywhere.

mod attendant;
mod link;
mod rotation;

use std::fs::{File, TryLockError};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use baton_core::agent::Agent;
use baton_core::session::Session;

use crate::providers;
use crate::store::Store;

/// How it is named in the journal and by `status`.
pub const ACTUATOR: &str = "thread";

fn lock_path(state: &Path) -> PathBuf {
    state.join("run").join("threads.lock")
}

/// Attends until the other end of `stop` is closed or written to. Of several one does, the others wait.
pub fn attend(store: &Store, stop: &UnixStream) -> anyhow::Result<()> {
    let Some(_lock) = crate::panes::take_over(&lock_path(&store.state), stop)? else { return Ok(()) };
    attendant::Attendant::new(store)?.run(stop)
}

/// Where the server of this conversation listens, if it is one that a shared daemon runs.
pub fn server_of(session: &Session) -> Option<PathBuf> {
    let queue = providers::of(&session.provider).queue.filter(|_| session.shared)?;
    Some(crate::wake::home_of(session.transcript.as_deref()?)?.join(queue.socket))
}

/// Is there somebody who can give this conversation a successor?
pub fn is_attended_session(store: &Store, session: &Session) -> bool {
    session.ended.is_none() && server_of(session).is_some_and(|path| path.exists()) && is_running(store)
}

/// The same of the conversation that an agent is in.
pub fn is_attended(store: &Store, agent: &Agent) -> bool {
    let session = agent.session.as_ref().and_then(|id| store.sessions().get(id).ok().flatten());
    session.is_some_and(|session| is_attended_session(store, &session))
}

fn is_running(store: &Store) -> bool {
    File::open(lock_path(&store.state))
        .is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}
