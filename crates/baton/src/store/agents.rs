//! `agents/{id}.json`; `processes/{pid}.json`, the agent of a client process; `processes/first.json`, the first client
//! since the machine started.

use std::path::{Path, PathBuf};
use std::time::Duration;

use baton_core::agent::Agent;
use baton_core::ids::AgentId;
use baton_core::process::Process;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::store::log::Log;
use crate::store::record::{self, RecordError};
use crate::sys::fs::FileError;
use crate::sys::lock::Lock;
use crate::sys::process;

pub struct Agents {
    dir: PathBuf,
    processes: PathBuf,
    renamed: PathBuf,
}

/// The new name of a renamed agent: `renamed/{old}.json`.
#[derive(Debug, Serialize, Deserialize)]
struct Forward {
    to: AgentId,
    at: Timestamp,
}

/// How long an old name redirects to the new one.
const LEADS: SignedDuration = SignedDuration::from_hours(24 * 7);

/// The agent of a client process. The file is named after the pid; the start time detects a reused pid.
#[derive(Debug, Serialize, Deserialize)]
struct Client {
    process: Process,
    agent: AgentId,
}

/// How long to wait for the record of a name that may be free.
const PATIENCE: Duration = Duration::from_millis(100);

/// How long a rename waits for the record.
const RENAME: Duration = Duration::from_secs(2);

/// Words that people can say, for the second and later agents of a project.
const WORDS: [&str; 24] = [
    "oak", "elm", "ash", "fir", "pine", "birch", "maple", "cedar", "hazel", "rowan", "willow", "aspen",
    "larch", "beech", "alder", "spruce", "linden", "poplar", "holly", "laurel", "olive", "juniper",
    "cypress", "acacia",
];

/// The names for a project's agents, in the order of preference.
fn names(project: &str) -> impl Iterator<Item = String> {
    let worded = WORDS.iter().map(move |word| format!("{project}-{word}"));
    let numbered =
        (2..).flat_map(move |n: u64| WORDS.iter().map(move |word| format!("{project}-{word}-{n}")));
    std::iter::once(project.to_owned()).chain(worded).chain(numbered)
}

/// Names that mean somebody else, which no agent may have in any capitalisation: before a message, `User` would pass
/// for the user, and some file systems give both the same folder. `unknown` stands for a caller that may be an agent.
const RESERVED: [&str; 3] = ["user", "baton", "unknown"];

/// Whether no agent may have this name.
pub(crate) fn is_reserved(name: &AgentId) -> bool {
    RESERVED.iter().any(|reserved| reserved.eq_ignore_ascii_case(name.as_str()))
}

impl Agents {
    pub fn new(state: &Path) -> Self {
        Self { dir: state.join("agents"), processes: state.join("processes"), renamed: state.join("renamed") }
    }

    /// The folder of the records, for watchers and cleanup.
    pub(crate) fn folder(&self) -> &Path {
        &self.dir
    }

    /// The folder that maps client processes to agents.
    pub(crate) fn processes_folder(&self) -> &Path {
        &self.processes
    }

    /// The path of this agent's record. Its lock is beside it.
    pub(crate) fn path(&self, id: &AgentId) -> PathBuf {
        self.dir.join(format!("{id}.json"))
    }

    pub fn get(&self, id: &AgentId) -> Result<Option<Agent>, FileError> {
        record::read(&self.path(id))
    }

    /// For display and lookup only: an unreadable record is logged and skipped. Use [`Self::get`] to decide by its
    /// absence.
    pub(crate) fn readable(&self, id: &AgentId) -> Option<Agent> {
        self.get(id).unwrap_or_else(|e| {
            Log::beside(&self.dir).fault(Timestamp::now(), "read the record of an agent", &e);
            None
        })
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

    /// Rewrites the records of these agents unchanged, so that watchers refresh them after a change elsewhere.
    pub(crate) fn show_again(&self, of: impl Fn(&Agent) -> bool) -> Result<(), FileError> {
        for agent in self.all().into_iter().filter(|agent| agent.ended.is_none() && of(agent)) {
            let path = self.path(&agent.id);
            // The holder of the lock writes it anyway.
            let Ok(_lock) = Lock::acquire(&path.with_extension("lock"), PATIENCE) else { continue };
            if let Some(agent) = record::read::<Agent>(&path)? {
                record::write(&path, &agent)?;
            }
        }
        Ok(())
    }

    fn forward_path(&self, old: &AgentId) -> PathBuf {
        self.renamed.join(format!("{old}.json"))
    }

    /// The agent with this name, or the one that had it until a while ago.
    pub(crate) fn named(&self, id: &AgentId) -> Result<Option<Agent>, FileError> {
        match self.get(id)? {
            Some(agent) => Ok(Some(agent)),
            None => self.renamed(id)?.map_or(Ok(None), |new| self.get(&new)),
        }
    }

    /// The current name of the agent that has this one, or had it until a while ago.
    pub(crate) fn name_now(&self, id: &AgentId) -> Result<AgentId, FileError> {
        let new = if self.get(id)?.is_none() { self.renamed(id)? } else { None };
        Ok(new.unwrap_or_else(|| id.clone()))
    }

    /// The current name of the agent that was called `old`. Ask only if no agent has that name now.
    pub(crate) fn renamed(&self, old: &AgentId) -> Result<Option<AgentId>, FileError> {
        let mut name = old.clone();
        // Follow chains of renames; the bound ends a cycle.
        for _ in 0..16 {
            let forward = record::read::<Forward>(&self.forward_path(&name))?;
            let fresh = |f: &Forward| Timestamp::now().duration_since(f.at) < LEADS;
            match forward.filter(fresh) {
                Some(forward) => name = forward.to,
                None => break,
            }
        }
        Ok((&name != old).then_some(name))
    }

    /// Makes the old name redirect to the new one.
    pub(crate) fn lead_to(&self, old: &AgentId, new: &AgentId, now: Timestamp) -> Result<(), FileError> {
        // A new owner of a name overrides an old forward.
        crate::sys::fs::remove(&self.forward_path(new))?;
        record::write(&self.forward_path(old), &Forward { to: new.clone(), at: now })
    }

    /// Moves the record of `old` to its new name. Processes that wait to change it find it gone.
    pub(crate) fn rename(&self, old: &AgentId, new: &AgentId) -> Result<Agent, RecordError> {
        let (from, to) = (self.path(old), self.path(new));
        let lock = Lock::acquire(&from.with_extension("lock"), RENAME)?;
        let mut agent = match record::read::<Agent>(&from)? {
            Some(agent) => agent,
            // An earlier rename was interrupted between the two steps below.
            None => record::read(&to)?.ok_or_else(|| {
                FileError::new("read", &from, std::io::Error::from(std::io::ErrorKind::NotFound))
            })?,
        };
        agent.former.retain(|name| name != new && name != old);
        agent.former.push(old.clone());
        agent.id = new.clone();
        record::write(&to, &agent)?;
        crate::sys::fs::remove(&from)?;
        drop(lock);
        let _ = crate::sys::fs::remove(&from.with_extension("lock"));
        Ok(agent)
    }

    /// Registers an agent under its own name. Returns `false` if the name is taken.
    pub(crate) fn create_named(&self, agent: &Agent) -> Result<bool, FileError> {
        record::create(&self.path(&agent.id), agent)
    }

    /// Registers a new agent under the first free name of its project: `{project}`, then `{project}-{word}`. The name
    /// of a gone agent is reused if `is_free` allows it, and a name that `may_have` refuses is skipped.
    pub fn create(
        &self,
        project: &str,
        make: impl Fn(AgentId) -> Agent,
        may_have: impl Fn(&AgentId) -> bool,
        is_free: impl Fn(&Agent) -> bool,
    ) -> Result<Agent, FileError> {
        let names = names(project).filter_map(|name| AgentId::new(name).ok());
        for id in names.filter(|id| !is_reserved(id) && may_have(id)) {
            let agent = make(id);
            if record::create(&self.path(&agent.id), &agent)? {
                return Ok(agent);
            }
            // Only one of two concurrent claimants finds the name free.
            let taken = self.update(&agent.id, PATIENCE, |known| {
                let goes_on = known.rotation.is_some();
                let free = is_free(known);
                if free {
                    known.clone_from(&agent);
                }
                free.then_some(goes_on)
            });
            // If the record cannot be updated, treat the name as taken.
            if let Ok(Some(Some(goes_on))) = taken {
                if !goes_on {
                    self.free_below(&agent.id)?;
                }
                return Ok(agent);
            }
        }
        unreachable!("the names of a project never end")
    }

    /// Frees the children of an agent whose name goes to a new one, which neither spawned them nor answers for them.
    pub(crate) fn free_below(&self, name: &AgentId) -> Result<(), FileError> {
        let is_its = |of: &Option<AgentId>| of.as_ref() == Some(name);
        for agent in self.all().iter().filter(|agent| is_its(&agent.parent) || is_its(&agent.approver)) {
            let freed = self.update(&agent.id, PATIENCE, |below| {
                below.parent.take_if(|parent| parent == name);
                below.approver.take_if(|approver| approver == name);
            });
            freed.map_err(|e| FileError::new("change", &self.path(&agent.id), std::io::Error::other(e)))?;
        }
        Ok(())
    }

    /// The agent recorded for this very process.
    pub(crate) fn of_process(&self, client: &Process) -> Result<Option<Agent>, FileError> {
        self.name_of_process(client)?.map_or(Ok(None), |id| self.get(&id))
    }

    /// The name of the agent recorded for this very process.
    pub(crate) fn name_of_process(&self, client: &Process) -> Result<Option<AgentId>, FileError> {
        let known = record::read::<Client>(&self.client_path(client.pid))?;
        Ok(known.filter(|known| &known.process == client).map(|known| known.agent))
    }

    /// Records that `client` runs `agent`, and removes the records of processes that are gone.
    pub(crate) fn note_process(&self, client: &Process, agent: &AgentId) -> Result<(), FileError> {
        for entry in std::fs::read_dir(&self.processes).into_iter().flatten().flatten() {
            let pid = entry.path().file_stem().and_then(|s| s.to_str()).and_then(|s| s.parse().ok());
            if pid.is_some_and(|pid| !process::pid_exists(pid)) {
                crate::sys::fs::remove(&entry.path())?;
            }
        }
        self.note_client(client)?;
        let known = Client { process: client.clone(), agent: agent.clone() };
        record::write(&self.client_path(client.pid), &known)
    }

    /// Records that a client runs, whichever agent it belongs to.
    pub(crate) fn note_client(&self, client: &Process) -> Result<(), FileError> {
        let first = self.first_client()?;
        if first.is_none_or(|first| first.boot != client.boot || client.start < first.start) {
            record::write(&self.first_client_path(), client)?;
        }
        Ok(())
    }

    /// The first client since its machine started, whether it still runs or not.
    pub(crate) fn first_client(&self) -> Result<Option<Process>, FileError> {
        record::read(&self.first_client_path())
    }

    fn first_client_path(&self) -> PathBuf {
        self.processes.join("first.json")
    }

    fn client_path(&self, pid: u32) -> PathBuf {
        self.processes.join(format!("{pid}.json"))
    }

    /// All records, in no order. Fails if one of them, or the folder, cannot be read.
    pub(crate) fn every(&self) -> Result<Vec<Agent>, FileError> {
        record::every(&self.dir)
    }

    /// All readable records, by name. Use [`Self::every`] to decide by what is missing.
    pub fn all(&self) -> Vec<Agent> {
        let mut agents: Vec<Agent> = record::all_readable(&self.dir);
        agents.sort_by(|a, b| a.id.cmp(&b.id));
        agents
    }
}
