//! The backup that a session was shown, so that its summary settles that one and not a newer one.

use std::path::PathBuf;

use baton_core::ids::SessionId;

use crate::project::memory::backups::PendingBackup;
use crate::store::{Store, record};
use crate::sys::fs::{self, FileError};

fn path(store: &Store, session: &SessionId) -> PathBuf {
    store.state.join("memory/shown").join(format!("{session}.json"))
}

pub(crate) fn note(store: &Store, session: &SessionId, backup: &PendingBackup) -> Result<(), FileError> {
    record::write(&path(store, session), backup)
}

/// Returns the note, once.
pub(crate) fn take(store: &Store, session: &SessionId) -> Result<Option<PendingBackup>, FileError> {
    let path = path(store, session);
    let shown = record::read(&path)?;
    if shown.is_some() {
        fs::remove(&path)?;
    }
    Ok(shown)
}
