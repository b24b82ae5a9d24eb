//! `verified.json`: when all mirrored conversations were last verified, and the result.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::store::record;
use crate::sys::fs::FileError;

pub(crate) struct Verified {
    path: PathBuf,
}

/// The result of `baton backup verify`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Verification {
    pub at: Timestamp,
    pub sessions: usize,
    pub generations: usize,
    pub damaged: usize,
}

impl Verified {
    pub(crate) fn new(state: &Path) -> Self {
        Self { path: state.join("verified.json") }
    }

    /// The last one. `None` also for a record that cannot be read: the next verification replaces it.
    pub(crate) fn last(&self) -> Option<Verification> {
        record::read(&self.path).unwrap_or(None)
    }

    pub(crate) fn note(&self, verification: &Verification) -> Result<(), FileError> {
        record::write(&self.path, verification)
    }
}
