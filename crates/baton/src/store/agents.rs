//! `agents/{id}.json`, and `processes/{pid}.json`, which tells whose client a process is.

use std::path::{Path, PathBuf};
use std::time::Duration;

use baton_core::agent::Agent;
use baton_core::ids::AgentId;
use baton_core::process::Process;
use serde::{Deserialize, Serialize};

use super::record::{self, RecordError};
use super::sessions::Sessions;
use crate::sys::fs::FileError;
use crate::sys::process;

pub struct Agents {
    dir: PathBuf,
    processes: PathBuf,
}

/// Which agent a client process belongs to. The pid is the file's name; the rest tells a reused one apart.
#[derive(Debug, Serialize, Deserialize)]
struct Client {
    process: Process,
    agent: AgentId,
}

impl Agents {
    pub fn new(state: &Path) -> Self {
        Self { dir: state.join("agents"), processes: state.join("processes") }
    }

    fn path(&self, id: &AgentId) -> PathBuf {
        self.dir.join(format!("{id}.json"))
    }

    pub fn get(&self, id: &AgentId) -> Result<Option<Agent>, FileError> {
        record::read(&self.path(id))
    }

    pub fn put(&self, agent: &Agent) -> Result<(), FileError> {
        record::write(&self.path(&agent.id), agent)
    }

    pub fn update<R>(
        &self,
        id: &AgentId,
        patience: Duration,
        change: impl FnOnce(&mut Agent) -> R,
    ) -> Result<Option<R>, RecordError> {
        record::update(&self.path(id), patience, change)
    }

    /// Registers an agent under its own name; `false` if the name has been given.
    pub fn create_named(&self, agent: &Agent) -> Result<bool, FileError> {
        record::create(&self.path(&agent.id), agent)
    }

    /// Registers a new agent under the first free name `{project}-{n}`.
    pub fn create(&self, project: &str, make: impl Fn(AgentId) -> Agent) -> Result<Agent, FileError> {
        let mut n = self.count_of(project) + 1;
        loop {
            let Ok(id) = AgentId::new(format!("{project}-{n}")) else {
                n += 1;
                continue;
            };
            let agent = make(id);
            if record::create(&self.path(&agent.id), &agent)? {
                return Ok(agent);
            }
            n += 1;
        }
    }

    /// How many numbers of `project` are taken, counting gaps: a name is never given twice while its record is
    /// kept.
    fn count_of(&self, project: &str) -> u32 {
        let entries = std::fs::read_dir(&self.dir).into_iter().flatten().flatten();
        entries
            .filter_map(|e| {
                let name = e.file_name();
                name.to_str()?.strip_suffix(".json")?.strip_prefix(project)?.strip_prefix('-')?.parse().ok()
            })
            .max()
            .unwrap_or(0)
    }

    /// The agent recorded for this very process.
    pub fn of_process(&self, client: &Process) -> Option<Agent> {
        let known: Client = record::read(&self.client_path(client.pid)).ok()??;
        if &known.process == client { self.get(&known.agent).ok()? } else { None }
    }

    /// Notes that `client` runs `agent`, and forgets processes that are gone.
    pub fn note_process(&self, client: &Process, agent: &AgentId) -> Result<(), FileError> {
        for entry in std::fs::read_dir(&self.processes).into_iter().flatten().flatten() {
            let pid = entry.path().file_stem().and_then(|s| s.to_str()).and_then(|s| s.parse().ok());
            if pid.is_some_and(|pid| !process::pid_exists(pid)) {
                crate::sys::fs::remove(&entry.path())?;
            }
        }
        let known = Client { process: client.clone(), agent: agent.clone() };
        record::write(&self.client_path(client.pid), &known)
    }

    fn client_path(&self, pid: u32) -> PathBuf {
        self.processes.join(format!("{pid}.json"))
    }

    /// All records that can be read, by name.
    pub fn all(&self) -> Vec<Agent> {
        let mut agents: Vec<Agent> = std::fs::read_dir(&self.dir)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|e| e == "json"))
            .filter_map(|path| record::read(&path).ok().flatten())
            .collect();
        agents.sort_by(|a, b| a.id.cmp(&b.id));
        agents
    }

    /// Does somebody wait for a handoff addressed to this agent: does its client or its supervisor live?
    ///
    /// Whoever is served by a shared daemon does not count: after `/clear` nothing tells that the new conversation is
    /// the same agent's, and its handoff must not wait for the one that was left.
    pub fn is_live(&self, id: &AgentId) -> bool {
        self.get(id).ok().flatten().is_some_and(|agent| {
            agent.ended.is_none()
                && [&agent.process, &agent.supervisor].into_iter().flatten().any(process::is_alive)
        })
    }

    /// Its client or supervisor runs, or its conversation is served by a daemon that has not said that it was left.
    pub fn lives(&self, agent: &Agent) -> bool {
        if agent.ended.is_some() {
            return false;
        }
        let mut own = [&agent.process, &agent.supervisor].into_iter().flatten().peekable();
        if own.peek().is_some() {
            return own.any(process::is_alive);
        }
        let sessions = self.dir.parent().map(Sessions::new);
        let session = agent.session.as_ref().zip(sessions).and_then(|(id, all)| all.get(id).ok().flatten());
        session.is_some_and(|s| s.shared && s.ended.is_none())
    }
}
