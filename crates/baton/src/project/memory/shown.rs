//! Which backup a session was shown, so that its summary settles that one and not a newer one that came meanwhile.

use std::path::PathBuf;

use baton_core::ids::SessionId;

use crate::project::memory::backups::Pending;
use crate::store::{Store, record};
use crate::sys::fs::{self, FileError};

fn path(store: &Store, session: &SessionId) -> PathBuf {
    store.state.join("memory/shown").join(format!("{session}.json"))
}

pub(crate) fn note(store: &Store, session: &SessionId, backup: &Pending) -> Result<(), FileError> {
    record::write(&path(store, session), backup)
}

/// Returns what was noted, once.
pub(crate) fn take(store: &Store, session: &SessionId) -> Result<Option<Pending>, FileError> {
    let path = path(store, session);
    let shown = record::read(&path)?;
    if shown.is_some() {
        fs::remove(&path)?;
    }
    Ok(shown)
}
