//! What is known about all machines and the database, in files that every interface reads, even while the database is
//! away.

use std::path::{Path, PathBuf};

use baton_core::fleet::MachineName;
use baton_core::fleet::presence::{Presence, SharedAgent};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::fleet::config::Membership;
use crate::fleet::folder;
use crate::store::record;
use crate::sys::fs::FileError;

/// One machine of the fleet, as last seen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct MachineView {
    pub name: MachineName,
    pub presence: Presence,
    /// When it was last seen, on the database's clock; `None` if it was only invited.
    pub heard: Option<Timestamp>,
    /// The agents that it shares.
    pub agents: Vec<SharedAgent>,
    /// Why it is not believed: no keys, changed keys, revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<String>,
}

/// All machines, as of a moment on the database's clock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Roll {
    /// On this machine's clock: how old the news is.
    pub at: Timestamp,
    pub machines: Vec<MachineView>,
}

impl Roll {
    fn path(state: &Path) -> PathBuf {
        folder(state).join("machines.json")
    }

    pub(crate) fn read(state: &Path) -> Result<Option<Self>, FileError> {
        record::read(&Self::path(state))
    }

    #[cfg(feature = "fleet")]
    pub(crate) fn write(&self, state: &Path) -> Result<(), FileError> {
        record::write(&Self::path(state), self)
    }

    /// The other machines that have an agent of this name.
    pub(crate) fn machines_with(&self, agent: &str, but: &MachineName) -> Vec<MachineName> {
        let has = |m: &&MachineView| {
            m.presence != Presence::Gone && m.name != *but && m.agents.iter().any(|a| a.name == agent)
        };
        self.machines.iter().filter(has).map(|m| m.name.clone()).collect()
    }
}

/// The other machines, for every face: also while the database is away.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct FleetView {
    /// This machine's name; `None` if it is in no fleet.
    pub machine: Option<MachineName>,
    pub link: Option<LinkView>,
    /// When the others were last asked about, on this machine's clock: how old the news is.
    pub news: Option<Timestamp>,
    /// All machines but this one.
    pub machines: Vec<MachineView>,
}

impl FleetView {
    pub(crate) fn read(state: &Path) -> Result<Self, FileError> {
        let Some(membership) = Membership::read(state)? else { return Ok(Self::default()) };
        let roll = Roll::read(state)?;
        let mut machines = roll.as_ref().map_or_else(Vec::new, |roll| roll.machines.clone());
        machines.retain(|machine| machine.name != membership.name);
        Ok(Self {
            machine: Some(membership.name),
            link: LinkView::read(state)?,
            news: roll.map(|roll| roll.at),
            machines,
        })
    }
}

/// The connection of this machine's daemon to the database.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct LinkView {
    pub state: LinkState,
    pub since: Timestamp,
    /// Why it is away or fenced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    pub epoch: u64,
    /// This machine's clock minus the database's, in milliseconds.
    #[serde(default)]
    pub skew_ms: i64,
    /// Whether the database wakes us; else the mailbox is polled.
    #[serde(default)]
    pub hints: bool,
    /// When the database was last found to be older than this machine's memory of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored: Option<Timestamp>,
    /// Envelopes that were not believed since the daemon started.
    #[serde(default)]
    pub refused: u64,
    /// Envelopes that stay in the mailbox because this machine cannot store them.
    #[serde(default)]
    pub stuck: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LinkState {
    Connected,
    Away,
    /// Another incarnation of this machine has begun: this one is silent.
    Fenced,
    Revoked,
}

impl LinkView {
    fn path(state: &Path) -> PathBuf {
        folder(state).join("link.json")
    }

    pub(crate) fn read(state: &Path) -> Result<Option<Self>, FileError> {
        record::read(&Self::path(state))
    }

    #[cfg(feature = "fleet")]
    pub(crate) fn write(&self, state: &Path) -> Result<(), FileError> {
        record::write(&Self::path(state), self)
    }
}
