//! `sessions/{id}.json` and, apart from it, `sessions/{id}.gauge`. Both change at every turn, so they grow by lines:
//! the last one counts.

use std::path::{Path, PathBuf};
use std::time::Duration;

use baton_core::ids::SessionId;
use baton_core::session::{Gauge, Session};

use super::record::{self, Growing, RecordError};
use crate::sys::fs::FileError;
use crate::sys::lock::{Lock, LockError};

pub struct Sessions {
    dir: PathBuf,
}

/// A gauge that has been read and may be changed. No lock: the newest reading wins.
pub struct OpenGauge {
    path: PathBuf,
    pub before: Gauge,
    growing: Growing<Gauge>,
}

impl OpenGauge {
    /// Writes `gauge` if it shows something else than before.
    pub fn keep(self, gauge: &Gauge) -> Result<(), FileError> {
        if *gauge == self.before { Ok(()) } else { self.growing.write(&self.path, gauge) }
    }
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
        record::grow(&self.path(id), None, patience, change)
    }

    /// The record, to be changed by [`Self::update_open`] without being read again.
    pub fn open(&self, id: &SessionId) -> Result<Growing<Session>, FileError> {
        let path = self.path(id);
        match Growing::read(&path) {
            Ok(growing) => Ok(growing),
            // What must not be written may still be read.
            Err(_) => Ok(Growing::of(record::read(&path)?)),
        }
    }

    /// [`Self::update`] of a record that was opened a moment ago.
    pub fn update_open<R>(
        &self,
        id: &SessionId,
        open: Option<Growing<Session>>,
        patience: Duration,
        change: impl FnOnce(&mut Session) -> R,
    ) -> Result<Option<R>, RecordError> {
        record::grow(&self.path(id), open, patience, change)
    }

    /// Nobody else changes the record while this is held.
    pub fn lock(&self, id: &SessionId, patience: Duration) -> Result<Lock, LockError> {
        Lock::acquire(&self.path(id).with_extension("lock"), patience)
    }

    /// A damaged or missing gauge is an empty one: the next reading fills it.
    pub fn gauge(&self, id: &SessionId) -> Gauge {
        record::read(&self.gauge_path(id)).ok().flatten().unwrap_or_default()
    }

    /// The gauge as it is, to be kept when it shows something else.
    pub fn open_gauge(&self, id: &SessionId) -> OpenGauge {
        let path = self.gauge_path(id);
        match Growing::read(&path) {
            Ok(mut growing) => OpenGauge { path, before: growing.record.take().unwrap_or_default(), growing },
            // What must not be written may still be read.
            Err(_) => OpenGauge { path, before: self.gauge(id), growing: Growing::default() },
        }
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

    pub fn put_gauge(&self, id: &SessionId, gauge: &Gauge) -> Result<(), FileError> {
        self.open_gauge(id).keep(gauge)
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
