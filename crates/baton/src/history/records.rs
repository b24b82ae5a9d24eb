//! baton's own records of sessions, reduced to a listing's columns.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use baton_core::ids::{AgentId, ChannelName, SessionId};
use baton_core::plain::plain_line;
use baton_core::process::Process;
use serde::{Deserialize, Serialize};

use crate::history::sources::{FileStamp, Skipped};
use crate::store::record;

/// A folder that changed this recently may change again within the same time stamp.
const STILL: Duration = Duration::from_secs(2);

/// All records in the folder, by session.
///
/// A session's record is renamed into the folder when the session begins or resumes, which changes the folder's time.
/// After that it is appended in place until the session ends. So if the folder has not changed, only the records of
/// running sessions need checking.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Records {
    /// The folder's modification time in nanoseconds; `None` if the folder must be read again.
    folder_modified: Option<i64>,
    by_session: HashMap<SessionId, (FileStamp, SessionRecord)>,
}

/// One record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SessionRecord {
    pub agent: String,
    pub channel: String,
    pub provider: String,
    /// Why it ended, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// Set for a session that has not ended; the system tells whether it still runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<Process>,
}

impl Records {
    pub(super) fn get(&self, id: &SessionId) -> Option<&SessionRecord> {
        self.by_session.get(id).map(|(_, record)| record)
    }

    /// Reads the changed records in `dir`. Returns whether there were any; adds unreadable ones to `skipped`.
    pub(super) fn refresh(&mut self, dir: &Path, skipped: &mut Vec<Skipped>) -> bool {
        let about = match std::fs::metadata(dir) {
            Ok(about) => about,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let is_new = *self != Self::default();
                *self = Self::default();
                return is_new;
            }
            Err(e) => {
                skipped.push(Skipped::new(dir, &e));
                return false;
            }
        };
        let now = FileStamp::of(&about).modified;
        if self.folder_modified == Some(now) {
            return self.refresh_running(dir, skipped);
        }
        let is_still = about
            .modified()
            .is_ok_and(|changed| SystemTime::now().duration_since(changed).is_ok_and(|since| since > STILL));
        let mut failures = Vec::new();
        let changed = self.refresh_all(dir, &mut failures);
        let modified = (is_still && failures.is_empty()).then_some(now);
        let changed = changed || modified != self.folder_modified;
        self.folder_modified = modified;
        skipped.append(&mut failures);
        changed
    }

    /// Checks the records of sessions that have not ended.
    fn refresh_running(&mut self, dir: &Path, skipped: &mut Vec<Skipped>) -> bool {
        let running = self.by_session.iter().filter(|(_, (_, record))| record.ended.is_none());
        let running: Vec<SessionId> = running.map(|(id, _)| id.clone()).collect();
        let mut changed = false;
        for id in running {
            let path = dir.join(format!("{id}.json"));
            match std::fs::symlink_metadata(&path) {
                Ok(about) => changed |= self.refresh_one(id, &path, FileStamp::of(&about), skipped),
                Err(e) if e.kind() == io::ErrorKind::NotFound => {
                    self.by_session.remove(&id);
                    changed = true;
                }
                Err(e) => skipped.push(Skipped::new(&path, &e)),
            }
        }
        changed
    }

    /// Checks every record, and drops deleted ones.
    fn refresh_all(&mut self, dir: &Path, skipped: &mut Vec<Skipped>) -> bool {
        let entries = match std::fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(e) => {
                skipped.push(Skipped::new(dir, &e));
                return false;
            }
        };
        let mut before = std::mem::take(&mut self.by_session);
        let mut changed = false;
        for entry in entries {
            let entry = match entry {
                Ok(entry) => entry,
                Err(e) => {
                    skipped.push(Skipped::new(dir, &e));
                    // We do not know which of them are gone, so keep them all.
                    self.by_session.extend(std::mem::take(&mut before));
                    continue;
                }
            };
            let name = entry.file_name();
            let id = name.to_str().and_then(|name| name.strip_suffix(".json"));
            let Some(id) = id.and_then(|id| SessionId::new(id).ok()) else { continue };
            match entry.metadata() {
                Ok(about) if about.is_file() => {
                    if let Some(known) = before.remove(&id) {
                        self.by_session.insert(id.clone(), known);
                    }
                    changed |= self.refresh_one(id, &entry.path(), FileStamp::of(&about), skipped);
                }
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => skipped.push(Skipped::new(&entry.path(), &e)),
            }
        }
        changed || !before.is_empty()
    }

    fn refresh_one(
        &mut self,
        id: SessionId,
        path: &Path,
        stamp: FileStamp,
        skipped: &mut Vec<Skipped>,
    ) -> bool {
        if self.by_session.get(&id).is_some_and(|(was, _)| *was == stamp) {
            return false;
        }
        match record::read::<Stored>(path) {
            Ok(Some(stored)) => {
                self.by_session.insert(id, (stamp, stored.into()));
                true
            }
            // It is gone, or was damaged and set aside.
            Ok(None) => self.by_session.remove(&id).is_some(),
            Err(e) => {
                skipped.push(Skipped::new(path, &e.source));
                false
            }
        }
    }
}

/// The fields of a record that a listing needs.
#[derive(Deserialize)]
struct Stored {
    provider: String,
    agent: AgentId,
    channel: ChannelName,
    #[serde(default)]
    process: Option<Process>,
    #[serde(default)]
    ended: Option<Ended>,
}

#[derive(Deserialize)]
struct Ended {
    reason: String,
}

impl From<Stored> for SessionRecord {
    fn from(stored: Stored) -> Self {
        Self {
            agent: stored.agent.to_string(),
            channel: stored.channel.to_string(),
            provider: plain_line(&stored.provider, 60),
            process: stored.process.filter(|_| stored.ended.is_none()),
            ended: stored.ended.map(|ended| plain_line(&ended.reason, 200)),
        }
    }
}
