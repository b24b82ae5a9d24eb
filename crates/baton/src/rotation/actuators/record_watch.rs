//! Watches the records of agents and sessions, and mailboxes, for the attendants.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use baton_core::ids::{AgentId, SessionId};

use crate::mail::maildir::Mail;
use crate::store::Store;
use crate::sys::watch::{FolderChange, FolderId, Interest, Watch};

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

    /// Adds the agents whose records have changed to `dirty`; `owner` names the agent of a session that concerns the
    /// caller. Returns `true` if events were lost, so that any record may have changed.
    pub(crate) fn gather(
        &mut self,
        dirty: &mut BTreeSet<AgentId>,
        mut owner: impl FnMut(SessionId) -> Option<AgentId>,
    ) -> bool {
        let Self { watch, agents, sessions, mailboxes } = self;
        let mut is_lost = false;
        watch.drain(|change| {
            let agent = match change {
                FolderChange::Everything => {
                    is_lost = true;
                    return true;
                }
                FolderChange::Entry(folder, name) if folder == *agents => {
                    id_in(name).and_then(|id| AgentId::new(id).ok())
                }
                FolderChange::Entry(folder, name) if folder == *sessions => {
                    id_in(name).and_then(|id| SessionId::new(id).ok()).and_then(&mut owner)
                }
                FolderChange::Entry(folder, _) => mailboxes.get(&folder).cloned(),
            };
            let concerns_us = agent.is_some();
            dirty.extend(agent);
            concerns_us
        });
        is_lost
    }
}

/// The id in the name of a record; gauges, locks and temporary files have other names.
fn id_in(name: &str) -> Option<&str> {
    name.strip_suffix(".json")
}
