//! What baton keeps, as files that anybody can read. Every change is whole or has not happened.

pub mod agents;
pub mod checkpoints;
pub mod compaction;
pub mod handoffs;
pub mod log;
pub mod mail;
pub mod mirror;
pub mod once;
pub mod published;
pub mod record;
pub mod requests;
pub mod rotations;
pub mod sessions;

use std::path::PathBuf;

use baton_core::agent::Agent;
use baton_core::handoff::Entry;

use crate::config::Config;
use crate::paths::Paths;

/// All stores of one user, opened by path; opening reads nothing.
#[derive(Debug, Clone)]
pub struct Store {
    pub state: PathBuf,
    pub claude: PathBuf,
}

impl Store {
    pub fn new(paths: &Paths) -> Self {
        Self { state: paths.state.clone(), claude: paths.claude.clone() }
    }

    pub fn sessions(&self) -> sessions::Sessions {
        sessions::Sessions::new(&self.state)
    }

    pub fn agents(&self) -> agents::Agents {
        agents::Agents::new(&self.state)
    }

    pub fn mail(&self) -> mail::Mail {
        mail::Mail::new(&self.state)
    }

    pub fn mirror(&self) -> mirror::Mirror {
        mirror::Mirror::new(&self.state)
    }

    pub fn published(&self) -> published::Published<'_> {
        published::Published::new(&self.claude)
    }

    /// The handoffs, which ask the records of agents and sessions who still waits for one.
    pub fn handoffs(&self, config: &Config) -> handoffs::Handoffs {
        let store = self.clone();
        let wanted = Box::new(move |entry: &Entry| store.is_wanted(entry));
        handoffs::Handoffs::new(config.handoff.dir.clone(), config.handoff.expiry, wanted)
    }

    /// It lived in a pane of ours, is gone, and neither was retired nor said goodbye: `agents restore` brings it back.
    pub fn is_restorable(&self, agent: &Agent) -> bool {
        let last = agent.session.as_ref().or(agent.sessions.last());
        let last = last.and_then(|id| self.sessions().get(id).ok().flatten());
        let left = last.and_then(|s| s.ended).is_some_and(|e| e.reason == "prompt_input_exit");
        agent.pane.as_ref().is_some_and(|p| p.spawned)
            && agent.retired.is_none()
            && !left
            && !self.agents().is_live(&agent.id)
    }

    /// Is the one it is addressed to still there to load it?
    fn is_wanted(&self, entry: &Entry) -> bool {
        if let Some(id) = &entry.for_agent {
            let restorable = || self.agents().get(id).ok().flatten().is_some_and(|a| self.is_restorable(&a));
            return self.agents().is_live(id) || restorable();
        }
        entry.for_session.as_ref().is_some_and(|id| {
            self.sessions().get(id).ok().flatten().is_some_and(|session| {
                session.ended.is_none() && session.process.as_ref().is_some_and(crate::sys::process::is_alive)
            })
        })
    }
}
