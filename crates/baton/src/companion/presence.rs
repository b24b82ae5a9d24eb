//! `companions/{client pid}.json`: is there a companion, and does it work? It lives while its lock is held; nothing
//! beats in between.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use baton_core::agent::Agent;
use baton_core::process::Process;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::store::{Store, record};
use crate::sys::process;

/// What a companion says of itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub process: Process,
    pub client: Process,
    /// The client's version, as it told it.
    #[serde(default)]
    pub client_version: String,
    pub since: Timestamp,
    /// A person can be there; a headless run is never cleared or woken.
    pub interactive: bool,
    /// The person pressed Esc: the client takes no orders until they type again.
    #[serde(default)]
    pub braked: bool,
    /// It did not answer at this time, and has not been heard of since.
    #[serde(default)]
    pub silent: Option<Timestamp>,
}

/// What is known of an agent's companion.
#[derive(Debug, Clone, PartialEq)]
pub enum Presence {
    /// It runs and answers.
    Live(Record),
    /// It runs and does not answer.
    Silent(Record),
    /// It said hello and has ended, while its client runs.
    Gone(Record),
    /// No mod ever said hello: an older client, hooks turned off, another provider.
    Never,
}

impl Presence {
    /// For the eyes of people: one word, and what it means where it is not well.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Live(_) => "mod",
            Self::Silent(_) => "mod hangs",
            Self::Gone(_) => "mod gone",
            Self::Never => "",
        }
    }
}

pub fn folder(state: &Path) -> PathBuf {
    state.join("companions")
}

pub fn path(state: &Path, client: u32, kind: &str) -> PathBuf {
    folder(state).join(format!("{client}.{kind}"))
}

/// The companion of `agent`'s client.
pub fn state(store: &Store, agent: &Agent) -> Presence {
    let Some(client) = &agent.process else { return Presence::Never };
    let known: Option<Record> = record::read(&path(&store.state, client.pid, "json")).ok().flatten();
    let Some(record) = known.filter(|r| &r.client == client) else { return Presence::Never };
    if !is_held(&path(&store.state, client.pid, "lock")) {
        return Presence::Gone(record);
    }
    if record.silent.is_some() { Presence::Silent(record) } else { Presence::Live(record) }
}

/// Can it give this agent a fresh context?
pub fn is_live(store: &Store, agent: &Agent) -> bool {
    matches!(state(store, agent), Presence::Live(record) if record.interactive)
}

fn is_held(lock: &Path) -> bool {
    File::open(lock).is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// Forgets companions whose clients are gone.
pub fn sweep(state: &Path) {
    for entry in std::fs::read_dir(folder(state)).into_iter().flatten().flatten() {
        let path = entry.path();
        let pid = path.file_stem().and_then(|s| s.to_str()).and_then(|s| s.parse().ok());
        if pid.is_some_and(|pid| !process::pid_exists(pid)) {
            let _ = std::fs::remove_file(path);
        }
    }
}
