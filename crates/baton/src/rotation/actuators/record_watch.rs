//! Watches the records of agents and sessions, and mailboxes, for the attendants.

use std::collections::HashMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use baton_core::ids::{AgentId, SessionId};

use crate::mail::maildir::Mail;
use crate::store::Store;
use crate::sys::watch::{FolderChange, FolderId, Interest, Watch};

/// A record that has changed.
#[derive(Debug)]
pub(crate) enum RecordChange {
    Agent(AgentId),
    Session(SessionId),
    /// The mailbox of this agent.
    Mail(AgentId),
    /// Events were lost: re-read every record.
    Everything,
}

pub(crate) struct RecordWatch {
    watch: Watch,
    agents: FolderId,
    sessions: FolderId,
    mailboxes: HashMap<FolderId, AgentId>,
}

impl RecordWatch {
    /// The folders of the records must exist.
    pub(crate) fn new(store: &Store) -> io::Result<Self> {
        let mut watch = Watch::new()?;
        let agents = watch.add(store.agents().folder(), Interest::Files)?;
        let sessions = watch.add(store.sessions().folder(), Interest::Files)?;
        Ok(Self { watch, agents, sessions, mailboxes: HashMap::new() })
    }

    /// Also reports new mail of this agent. Makes its mailbox if there is none yet.
    pub(crate) fn add_mailbox(&mut self, store: &Store, agent: &AgentId) -> anyhow::Result<()> {
        let queue = Mail::of(store).dir(agent, "new");
        crate::sys::fs::private_dir(&queue)?;
        self.mailboxes.insert(self.watch.add(&queue, Interest::Files)?, agent.clone());
        Ok(())
    }

    /// See [`Watch::fd`].
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.watch.fd()
    }

    /// See [`Watch::timeout`].
    pub(crate) fn timeout(&self, left: Option<Duration>) -> Option<Duration> {
        self.watch.timeout(left)
    }

    /// Reads the changes. `concerns_us` returns whether a record is of interest; see [`Watch::drain`].
    pub(crate) fn drain(&mut self, mut concerns_us: impl FnMut(RecordChange) -> bool) {
        let Self { watch, agents, sessions, mailboxes } = self;
        watch.drain(|change| {
            let record = match change {
                FolderChange::Everything => Some(RecordChange::Everything),
                FolderChange::Entry(folder, name) if folder == *agents => {
                    id_in(name).and_then(|id| AgentId::new(id).ok()).map(RecordChange::Agent)
                }
                FolderChange::Entry(folder, name) if folder == *sessions => {
                    id_in(name).and_then(|id| SessionId::new(id).ok()).map(RecordChange::Session)
                }
                FolderChange::Entry(folder, _) => mailboxes.get(&folder).cloned().map(RecordChange::Mail),
            };
            record.is_some_and(&mut concerns_us)
        });
    }
}

/// The id in the name of a record; gauges, locks and temporary files have other names.
fn id_in(name: &str) -> Option<&str> {
    name.strip_suffix(".json")
}
