//! `companions/{client pid}.json`: what a companion reports about itself. It lives while its lock is held; there is no
//! heartbeat.

use std::path::{Path, PathBuf};

use baton_core::process::Process;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::store::record;
use crate::sys::fs::FileError;
use crate::sys::{lock, process};

/// What a companion reports about itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Companion {
    pub process: Process,
    pub client: Process,
    /// The client's version, as the client reported it.
    #[serde(default)]
    pub client_version: String,
    pub since: Timestamp,
    /// Whether a person may be there; a headless run is never cleared or woken.
    pub interactive: bool,
    /// The person pressed Esc: the client takes no orders until they type again.
    #[serde(default)]
    pub braked: bool,
    /// When it failed to answer, if it has not answered since.
    #[serde(default)]
    pub silent: Option<Timestamp>,
    /// The newest urgent message that a turn was interrupted for.
    #[serde(default)]
    pub interrupted_for: Option<String>,
}

/// The state of a client's companion.
#[derive(Debug, Clone, PartialEq)]
pub enum CompanionState {
    /// It runs and answers.
    Live(Companion),
    /// It runs and does not answer.
    Silent(Companion),
    /// It said hello and has ended, while its client runs.
    Gone(Companion),
    /// No mod ever said hello: an older client, hooks turned off, another provider.
    Never,
}

impl CompanionState {
    /// The state in one word for people.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Live(_) => "mod",
            Self::Silent(_) => "mod hangs",
            Self::Gone(_) => "mod gone",
            Self::Never => "",
        }
    }
}

pub struct Companions {
    dir: PathBuf,
}

impl Companions {
    pub fn new(state: &Path) -> Self {
        Self { dir: state.join("companions") }
    }

    /// The record, lock or socket (`kind`) of the companion of client `pid`.
    pub fn path(&self, pid: u32, kind: &str) -> PathBuf {
        self.dir.join(format!("{pid}.{kind}"))
    }

    pub fn put(&self, companion: &Companion) -> Result<(), FileError> {
        record::write(&self.path(companion.client.pid, "json"), companion)
    }

    /// The message that an earlier companion of this client interrupted a turn for.
    pub(crate) fn interrupted_for(&self, client: &Process) -> Option<String> {
        // An unreadable record costs at most one more interruption.
        let known: Option<Companion> = record::read(&self.path(client.pid, "json")).unwrap_or(None);
        known.filter(|known| &known.client == client)?.interrupted_for
    }

    /// The companion of this very process.
    pub fn of(&self, client: &Process) -> CompanionState {
        // An unreadable record is treated as "never": the other actuators then do the work.
        let known: Option<Companion> = record::read(&self.path(client.pid, "json")).unwrap_or(None);
        let Some(companion) = known.filter(|known| &known.client == client) else {
            return CompanionState::Never;
        };
        if !lock::is_held(&self.path(client.pid, "lock")) {
            return CompanionState::Gone(companion);
        }
        if companion.silent.is_some() {
            CompanionState::Silent(companion)
        } else {
            CompanionState::Live(companion)
        }
    }

    /// The companions that run now: their process lives, and their lock is held.
    pub fn running(&self) -> Vec<Companion> {
        let entries = std::fs::read_dir(&self.dir).into_iter().flatten().flatten();
        entries
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|e| e == "json"))
            .filter_map(|path| record::read::<Companion>(&path).unwrap_or(None))
            .filter(|c| lock::is_held(&self.path(c.client.pid, "lock")) && process::is_alive(&c.process))
            .collect()
    }

    /// Removes the files of companions whose clients are gone.
    pub fn sweep(&self) {
        for entry in std::fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            let path = entry.path();
            let pid = path.file_stem().and_then(|s| s.to_str()).and_then(|s| s.parse().ok());
            if pid.is_some_and(|pid| !process::pid_exists(pid)) {
                let _ = std::fs::remove_file(path);
            }
        }
    }
}
