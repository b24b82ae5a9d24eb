//! The data that all interfaces show: agents, conversations, levels, chains, tasks, mail, backups and drafts as
//! serialisable values.
//!
//! The daemon answers with these values, and an interface without the daemon builds the same ones from the files.

pub(crate) mod agent;
pub(crate) mod backups;
pub(crate) mod chain;
pub(crate) mod conversation;
pub(crate) mod diff;
pub(crate) mod draft;
pub(crate) mod levels;
pub(crate) mod log;
pub(crate) mod mail;
pub(crate) mod search;
pub(crate) mod tasks;

use crate::store::handoffs::StoreError;
use crate::sys::fs::FileError;

/// Why something cannot be shown.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotShown {
    /// It does not exist; the text says what exists.
    #[error("{0}")]
    Nothing(String),
    #[error("{0:#}")]
    Failed(anyhow::Error),
}

impl From<anyhow::Error> for NotShown {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

impl From<std::io::Error> for NotShown {
    fn from(error: std::io::Error) -> Self {
        Self::Failed(error.into())
    }
}

impl From<FileError> for NotShown {
    fn from(error: FileError) -> Self {
        Self::Failed(error.into())
    }
}

impl From<StoreError> for NotShown {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.into())
    }
}
