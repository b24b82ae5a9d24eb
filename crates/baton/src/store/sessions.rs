//! `sessions/{id}.json` and, apart from it, `sessions/{id}.gauge`. Both change at every turn, so they grow by lines,
//! and the last line is the record.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use baton_core::gauge::Gauge;
use baton_core::ids::SessionId;
use baton_core::session::Session;
use jiff::Timestamp;

use crate::store::log::Log;
use crate::store::record::{self, GrowingRecord, RecordError};
use crate::sys::fs::FileError;
use crate::sys::lock::{Lock, LockError};

pub struct Sessions {
    dir: PathBuf,
}

/// A gauge that was read and may be changed. There is no lock: the newest reading wins.
pub(crate) struct OpenGauge {
    path: PathBuf,
    pub before: Gauge,
    growing: GrowingRecord<Gauge>,
    /// There was none.
    is_new: bool,
}

impl OpenGauge {
    /// Writes `gauge` if it differs from before. Another process may replace the file meanwhile; its gauge stays then, also
    /// if there was no file.
    pub(crate) fn keep(self, gauge: &Gauge) -> Result<(), FileError> {
        if *gauge == self.before {
            Ok(())
        } else if self.is_new {
            record::create(&self.path, gauge).map(drop)
        } else {
            self.growing.write(&self.path, gauge)
        }
    }
}

impl Sessions {
    pub fn new(state: &Path) -> Self {
        Self { dir: state.join("sessions") }
    }

    /// The folder of the records, for watchers.
    pub(crate) fn folder(&self) -> &Path {
        &self.dir
    }

    /// The path of this session's record. Its gauge and its lock are beside it.
    pub(crate) fn path(&self, id: &SessionId) -> PathBuf {
        self.dir.join(format!("{id}.json"))
    }

    fn gauge_path(&self, id: &SessionId) -> PathBuf {
        self.dir.join(format!("{id}.gauge"))
    }

    pub fn get(&self, id: &SessionId) -> Result<Option<Session>, FileError> {
        record::read(&self.path(id))
    }

    /// For display and lookup only: an unreadable record is logged and skipped. Use [`Self::get`] to decide by its
    /// absence.
    pub(crate) fn readable(&self, id: &SessionId) -> Option<Session> {
        self.get(id).unwrap_or_else(|e| {
            Log::beside(&self.dir).fault(Timestamp::now(), "read the record of a session", &e);
            None
        })
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

    /// Opens the record, so that [`Self::update_open`] need not read it again.
    pub fn open(&self, id: &SessionId) -> Result<GrowingRecord<Session>, FileError> {
        let path = self.path(id);
        match GrowingRecord::read(&path) {
            Ok(growing) => Ok(growing),
            // A record that must not be written may still be read.
            Err(_) => Ok(GrowingRecord::of(record::read(&path)?)),
        }
    }

    /// [`Self::update`] for a record that was opened a moment ago.
    pub(crate) fn update_open<R>(
        &self,
        id: &SessionId,
        open: Option<GrowingRecord<Session>>,
        patience: Duration,
        change: impl FnOnce(&mut Session) -> R,
    ) -> Result<Option<R>, RecordError> {
        record::grow(&self.path(id), open, patience, change)
    }

    /// Keeps others from changing the record while the lock is held.
    pub fn lock(&self, id: &SessionId, patience: Duration) -> Result<Lock, LockError> {
        Lock::acquire(&self.path(id).with_extension("lock"), patience)
    }

    /// A damaged or missing gauge is empty: the next reading fills it.
    pub fn gauge(&self, id: &SessionId) -> Gauge {
        record::read(&self.gauge_path(id)).ok().flatten().unwrap_or_default()
    }

    /// Opens the gauge, to write it back if it changes.
    pub(crate) fn open_gauge(&self, id: &SessionId) -> OpenGauge {
        let path = self.gauge_path(id);
        match GrowingRecord::<Gauge>::read(&path) {
            Ok(mut growing) => {
                let gauge = growing.record.take();
                let is_new = gauge.is_none();
                OpenGauge { path, before: gauge.map_or_else(Gauge::default, |gauge| *gauge), growing, is_new }
            }
            // A gauge that must not be written may still be read.
            Err(_) => {
                OpenGauge { path, before: self.gauge(id), growing: GrowingRecord::default(), is_new: false }
            }
        }
    }

    /// Records written after `since`; the others are not even opened.
    pub(crate) fn changed_since(&self, since: std::time::SystemTime) -> Vec<Session> {
        let entries = std::fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let recent =
            |e: &std::fs::DirEntry| e.metadata().and_then(|m| m.modified()).is_ok_and(|m| m >= since);
        entries
            .filter(|e| is_record(&e.path()) && recent(e))
            .filter_map(|e| record::read(&e.path()).ok().flatten())
            .collect()
    }

    /// All records, in no order. Fails if one of them, or the folder, cannot be read.
    pub(crate) fn every(&self) -> Result<Vec<Session>, FileError> {
        record::every(&self.dir)
    }

    /// The short ids of all recorded sessions, from the file names alone.
    pub(crate) fn short_ids(&self) -> HashSet<String> {
        let entries = std::fs::read_dir(&self.dir).into_iter().flatten().flatten();
        entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter_map(|name| Some(SessionId::new(name.strip_suffix(".json")?).ok()?.short().to_owned()))
            .collect()
    }

    /// All readable records, newest first. Use [`Self::every`] to decide by what is missing.
    pub fn all(&self) -> Vec<Session> {
        let mut sessions: Vec<Session> = record::all_readable(&self.dir);
        sessions.sort_by(|a, b| b.started.cmp(&a.started).then_with(|| a.id.cmp(&b.id)));
        sessions
    }
}

fn is_record(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "json")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The daemon's late reading replaced what a hook had just written.
    #[test]
    fn a_gauge_that_another_process_creates_meanwhile_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let sessions = Sessions::new(dir.path());
        let id = SessionId::new("s1").unwrap();
        let of = |percentage| Gauge { percentage: Some(percentage), ..Gauge::default() };
        let (late, hook) = (sessions.open_gauge(&id), sessions.open_gauge(&id));
        hook.keep(&of(30)).unwrap();
        late.keep(&of(20)).unwrap();
        assert_eq!(sessions.gauge(&id), of(30));
        sessions.open_gauge(&id).keep(&of(40)).unwrap();
        assert_eq!(sessions.gauge(&id), of(40));
    }
}
