//! `sessions/{id}.json` and, apart from it, `sessions/{id}.gauge.json`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use baton_core::ids::SessionId;
use baton_core::session::{Gauge, Session};

use super::record::{self, RecordError};
use crate::sys::fs::FileError;
use crate::sys::lock::{Lock, LockError};

pub struct Sessions {
    dir: PathBuf,
}

impl Sessions {
    pub fn new(state: &Path) -> Self {
        Self { dir: state.join("sessions") }
    }

    fn path(&self, id: &SessionId) -> PathBuf {
        self.dir.join(format!("{id}.json"))
    }

    fn gauge_path(&self, id: &SessionId) -> PathBuf {
        self.dir.join(format!("{id}.gauge"))
    }

    pub fn get(&self, id: &SessionId) -> Result<Option<Session>, FileError> {
        record::read(&self.path(id))
    }

    pub fn put(&self, session: &Session) -> Result<(), FileError> {
        record::write(&self.path(&session.id), session)
    }

    pub fn update<R>(
        &self,
        id: &SessionId,
        patience: Duration,
        change: impl FnOnce(&mut Session) -> R,
    ) -> Result<Option<R>, RecordError> {
        record::update(&self.path(id), patience, change)
    }

    /// Nobody else changes the record while this is held.
    pub fn lock(&self, id: &SessionId, patience: Duration) -> Result<Lock, LockError> {
        Lock::acquire(&self.path(id).with_extension("lock"), patience)
    }

    /// A damaged or missing gauge is an empty one: the next reading fills it.
    pub fn gauge(&self, id: &SessionId) -> Gauge {
        record::read(&self.gauge_path(id)).ok().flatten().unwrap_or_default()
    }

    pub fn put_gauge(&self, id: &SessionId, gauge: &Gauge) -> Result<(), FileError> {
        record::write(&self.gauge_path(id), gauge)
    }

    /// Records that were written after `since`; the others are not even opened.
    pub fn changed_since(&self, since: std::time::SystemTime) -> Vec<Session> {
        let entries = std::fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let recent =
            |e: &std::fs::DirEntry| e.metadata().and_then(|m| m.modified()).is_ok_and(|m| m >= since);
        entries
            .filter(|e| e.path().extension().is_some_and(|x| x == "json") && recent(e))
            .filter_map(|e| record::read(&e.path()).ok().flatten())
            .collect()
    }

    /// All records that can be read, newest first.
    pub fn all(&self) -> Vec<Session> {
        let mut sessions: Vec<Session> = std::fs::read_dir(&self.dir)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|e| e == "json"))
            .filter_map(|path| record::read(&path).ok().flatten())
            .collect();
        sessions.sort_by(|a, b| b.started.cmp(&a.started).then_with(|| a.id.cmp(&b.id)));
        sessions
    }
}
