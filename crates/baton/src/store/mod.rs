//! baton's records, as files that people can read. Every change happens completely or not at all.
//!
//! `Store` is the one way in: `store.agents()`, `store.sessions()`, … . Opening one reads nothing.

pub(crate) mod agents;
pub(crate) mod approvals;
pub(crate) mod compaction;
pub(crate) mod companions;
mod fence;
pub mod handoffs;
pub(crate) mod log;
pub mod mirror;
pub(crate) mod presence;
pub(crate) mod published;
pub(crate) mod record;
pub(crate) mod reminders;
pub(crate) mod requests;
pub(crate) mod rotations;
pub(crate) mod sessions;
pub(crate) mod verified;

use std::path::PathBuf;

use baton_core::agent::Agent;
use baton_core::fence::Key;
use baton_core::handoff::Entry;
use baton_core::ids::AgentId;

use crate::config::Config;
use crate::store::presence::{Liveness, Presence};
use crate::sys::paths::Paths;
use crate::sys::{lock, process};

/// All stores of one user.
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

    pub fn approvals(&self) -> approvals::Approvals {
        approvals::Approvals::new(&self.state)
    }

    pub fn companions(&self) -> companions::Companions {
        companions::Companions::new(&self.state)
    }

    pub fn compactions(&self) -> compaction::Compactions {
        compaction::Compactions::new(&self.state)
    }

    /// The secret behind our fences, or one for this frame alone if it cannot be read or stored.
    pub fn fence(&self) -> Key {
        fence::key(&self.state).unwrap_or_else(|e| {
            self.log().fault(jiff::Timestamp::now(), "read the secret behind the fences", &e);
            fence::passing()
        })
    }

    pub fn log(&self) -> log::Log {
        log::Log::new(&self.state)
    }

    pub fn mirror(&self) -> mirror::Mirror {
        mirror::Mirror::new(&self.state)
    }

    pub fn published(&self) -> published::Published<'_> {
        published::Published::new(&self.claude)
    }

    pub(crate) fn reminders(&self) -> reminders::Reminders {
        reminders::Reminders::new(&self.state)
    }

    pub(crate) fn verified(&self) -> verified::Verified {
        verified::Verified::new(&self.state)
    }

    pub fn requests(&self) -> requests::Requests {
        requests::Requests::new(&self.state)
    }

    pub fn rotations(&self) -> rotations::Rotations {
        rotations::Rotations::new(&self.state)
    }

    /// Who serves this agent right now.
    pub fn presence<'a>(&'a self, agent: &'a Agent) -> Presence<'a> {
        Presence::new(self, agent)
    }

    /// Whether the client or the supervisor of this agent runs. An agent whose record cannot be read may be running.
    pub fn is_running(&self, agent: &AgentId) -> bool {
        match self.agents().get(agent) {
            Ok(Some(agent)) => self.presence(&agent).liveness() == Liveness::Running,
            Ok(None) => false,
            Err(_) => true,
        }
    }

    /// Whether a pane attendant runs.
    pub(crate) fn has_pane_attendant(&self) -> bool {
        lock::is_held(&presence::panes_lock(&self.state))
    }

    /// The handoffs. They ask the records of agents and sessions whether an addressee still waits for one.
    pub fn handoffs(&self, config: &Config) -> handoffs::Handoffs {
        let store = self.clone();
        let wanted = Box::new(move |entry: &Entry| store.is_wanted(entry));
        let store = self.clone();
        let private = Box::new(move |entry: &Entry| store.is_private(entry));
        handoffs::Handoffs::new(config.handoff.dir.clone(), config.handoff.expiry, wanted).keeping(private)
    }

    /// Whether `agents restore` brings the agent back: it lived in a pane of ours, is gone, and was neither retired,
    /// nor finished, nor quit by its user.
    pub(crate) fn is_restorable(&self, agent: &Agent) -> bool {
        let last = agent.session.as_ref().or(agent.sessions.last());
        // A session whose record cannot be read may have ended without its user quitting.
        let last = last.and_then(|id| self.sessions().readable(id));
        // An agent whose task is finished has nothing to come back for.
        let is_done = last.as_ref().is_some_and(|s| s.done.is_some());
        let said_goodbye = last.and_then(|s| s.ended).is_some_and(|e| e.reason == "prompt_input_exit");
        agent.pane.as_ref().is_some_and(|p| p.spawned)
            && agent.retired.is_none()
            && !said_goodbye
            && !is_done
            && self.presence(agent).liveness() != Liveness::Running
    }

    /// Whether a handoff is addressed to an agent that keeps its work to itself. An agent whose record cannot be read
    /// may be one.
    fn is_private(&self, entry: &Entry) -> bool {
        let Some(id) = &entry.for_agent else { return false };
        self.agents().get(id).map_or(true, |agent| agent.is_some_and(|agent| agent.keeps_to_itself()))
    }

    /// Whether the addressee of a handoff may still come to load it. An addressee whose record cannot be read may be
    /// there.
    ///
    /// An agent that a shared daemon serves does not count: after `/clear` nothing shows that the new conversation
    /// belongs to the same agent, and its handoff must not wait for the old conversation.
    fn is_wanted(&self, entry: &Entry) -> bool {
        if let Some(id) = &entry.for_agent {
            return match self.agents().get(id) {
                Ok(None) => false,
                Ok(Some(agent)) => {
                    self.presence(&agent).liveness() == Liveness::Running || self.is_restorable(&agent)
                }
                Err(_) => true,
            };
        }
        entry.for_session.as_ref().is_some_and(|id| match self.sessions().get(id) {
            Ok(None) => false,
            Ok(Some(session)) => {
                session.ended.is_none() && session.process.as_ref().is_some_and(process::is_alive)
            }
            Err(_) => true,
        })
    }
}
