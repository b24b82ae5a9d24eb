//! `approvals/`: agents' requests, one folder each.
//!
//! `new/{id}` is being written, `waiting/{id}` can be answered, `done/{id}` is over. The id is the hash of
//! `request.json`, so an id identifies exactly the request that was shown. `answer.json` and `outcome.json` are created
//! once and never replaced: only one of two concurrent answers wins, and the other finds it there.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use baton_core::approval::{Answer, Case, Request, RequestId, Settlement};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::store::record;
use crate::store::sessions::Sessions;
use crate::sys::fs::{self, FileError, PRIVATE, Sync};
use crate::sys::hash::sha256;

const REQUEST: &str = "request.json";
const ANSWER: &str = "answer.json";
const OUTCOME: &str = "outcome.json";
/// A client's payload is at most 64 MiB, and a record holds one.
const MAX: u64 = 80 << 20;

#[derive(Debug, thiserror::Error)]
pub enum ApprovalError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("the record of request {} has changed since it was written; answer it in its terminal", .0.short())]
    Altered(RequestId),
}

pub struct Approvals {
    dir: PathBuf,
    sessions: Sessions,
}

impl Approvals {
    pub fn new(state: &Path) -> Self {
        Self { dir: state.join("approvals"), sessions: Sessions::new(state) }
    }

    /// Changes when a request starts or stops waiting, because folders move in and out.
    pub fn waiting_dir(&self) -> PathBuf {
        self.dir.join("waiting")
    }

    fn done_dir(&self) -> PathBuf {
        self.dir.join("done")
    }

    /// Whether there ever was a request.
    pub fn is_in_use(&self) -> bool {
        self.done_dir().exists()
    }

    /// Writes a request that nobody can answer yet. Returns its id and its folder, which stays the same when it moves.
    pub fn draft(&self, request: &Request) -> Result<(RequestId, PathBuf), FileError> {
        fs::private_dirs(&self.dir, &["new", "waiting", "done"])?;
        let bytes = encoded(&self.dir, request)?;
        let hash = sha256(&bytes);
        let dir = self.dir.join("new").join(&hash);
        fs::private_dir(&dir)?;
        fs::create(&dir.join(REQUEST), &bytes, PRIVATE, Sync::Yes)?;
        let id = RequestId::new(hash).map_err(|e| FileError::new("name", &dir, std::io::Error::other(e)))?;
        Ok((id, dir))
    }

    /// Lets the request be seen and answered.
    pub fn publish(&self, id: &RequestId) -> Result<(), FileError> {
        let to = self.waiting_dir().join(id.as_str());
        fs::rename_new(&self.dir.join("new").join(id.as_str()), &to)?;
        fs::sync_parent(&to)
    }

    /// Records a request that was answered before anybody could see it.
    pub fn conclude(&self, id: &RequestId, answer: &Answer) -> Result<(), FileError> {
        let dir = self.dir.join("new").join(id.as_str());
        fs::create(&dir.join(ANSWER), &encoded(&dir, answer)?, PRIVATE, Sync::Yes)?;
        fs::rename_new(&dir, &self.done_dir().join(id.as_str()))
    }

    /// Moves an answered request to `done`.
    pub fn finish(&self, id: &RequestId) -> Result<(), FileError> {
        match fs::rename_new(&self.waiting_dir().join(id.as_str()), &self.done_dir().join(id.as_str())) {
            Err(e) if e.source.kind() != ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }

    /// Answers a request. Returns `false` if someone else was first or there is no such request.
    pub fn answer(&self, id: &RequestId, answer: &Answer) -> Result<bool, FileError> {
        let dir = self.waiting_dir().join(id.as_str());
        match fs::create(&dir.join(ANSWER), &encoded(&dir, answer)?, PRIVATE, Sync::Yes) {
            // The folder moved: somebody was first, or the hook took this very answer before it was synced.
            Err(e) if e.source.kind() == ErrorKind::NotFound => {
                Ok(self.answer_of(id)?.is_some_and(|first| first == *answer))
            }
            created => created,
        }
    }

    /// Records the client's reaction. Returns `false` if one is recorded already.
    pub fn settle(&self, id: &RequestId, outcome: &Settlement) -> Result<bool, FileError> {
        // The folder moves once, from the first to the second.
        for dir in [self.waiting_dir(), self.done_dir()] {
            let dir = dir.join(id.as_str());
            match fs::create(&dir.join(OUTCOME), &encoded(&dir, outcome)?, PRIVATE, Sync::Later) {
                Err(e) if e.source.kind() == ErrorKind::NotFound => {}
                created => return created,
            }
        }
        Ok(false)
    }

    /// The request with this id, wherever it is.
    pub fn get(&self, id: &RequestId) -> Result<Option<Case>, ApprovalError> {
        for dir in [self.waiting_dir(), self.done_dir()] {
            let dir = dir.join(id.as_str());
            let case = read(&dir, id)?;
            // It was moved while it was read: a file that was missing then may be there now.
            if let Some(case) = case.filter(|_| dir.exists()) {
                return Ok(Some(self.as_called_now(case)));
            }
        }
        Ok(None)
    }

    /// The case with the agent's current name. The stored request stays unchanged, because its hash is the id.
    fn as_called_now(&self, mut case: Case) -> Case {
        if let Some(session) = self.sessions.readable(&case.request.session) {
            case.request.agent = session.agent;
        }
        case
    }

    /// Whether there is a record of this request.
    pub fn is_there(&self, id: &RequestId) -> bool {
        [self.waiting_dir(), self.done_dir()].iter().any(|dir| dir.join(id.as_str()).exists())
    }

    /// Whether this request can still be answered.
    pub fn is_waiting(&self, id: &RequestId) -> bool {
        let dir = self.waiting_dir().join(id.as_str());
        dir.exists() && !dir.join(ANSWER).exists()
    }

    /// The answer to a request, if there is one.
    pub fn answer_of(&self, id: &RequestId) -> Result<Option<Answer>, FileError> {
        for dir in [self.waiting_dir(), self.done_dir()] {
            if let Some(answer) = file(&dir.join(id.as_str()).join(ANSWER))? {
                return Ok(Some(answer));
            }
        }
        Ok(None)
    }

    /// Removes requests that are over or were never published and have not changed since. Returns how many.
    pub fn remove_older(&self, before: SystemTime) -> Result<usize, FileError> {
        let mut removed = 0;
        for place in [self.done_dir(), self.dir.join("new")] {
            for id in ids(&place)? {
                let dir = place.join(id.as_str());
                let is_old =
                    std::fs::metadata(&dir).and_then(|about| about.modified()).is_ok_and(|at| at < before);
                if is_old {
                    std::fs::remove_dir_all(&dir).map_err(|e| FileError::new("remove", &dir, e))?;
                    removed += 1;
                }
            }
        }
        Ok(removed)
    }

    /// Ids of the requests that wait, in no order.
    pub fn waiting(&self) -> Result<Vec<RequestId>, FileError> {
        ids(&self.waiting_dir())
    }

    /// Ids of the requests that are over and have changed since, in no order.
    pub fn done_since(&self, since: SystemTime) -> Result<Vec<RequestId>, FileError> {
        let dir = self.done_dir();
        let is_newer = |id: &RequestId| {
            let about = std::fs::metadata(dir.join(id.as_str()));
            about.and_then(|about| about.modified()).is_ok_and(|at| at >= since)
        };
        Ok(self.done()?.into_iter().filter(is_newer).collect())
    }

    /// Ids of the requests that are over, in no order.
    pub fn done(&self) -> Result<Vec<RequestId>, FileError> {
        ids(&self.done_dir())
    }
}

fn encoded<T: Serialize>(path: &Path, record: &T) -> Result<Vec<u8>, FileError> {
    record::encode(record).map_err(|e| FileError::new("encode", path, e))
}

fn read(dir: &Path, id: &RequestId) -> Result<Option<Case>, ApprovalError> {
    let path = dir.join(REQUEST);
    let Some(bytes) = fs::read(&path, MAX)? else { return Ok(None) };
    if sha256(&bytes) != id.as_str() {
        return Err(ApprovalError::Altered(id.clone()));
    }
    let Some(request) = record::parse(&path, &bytes)? else { return Err(ApprovalError::Altered(id.clone())) };
    let (answer, outcome) = (file(&dir.join(ANSWER))?, file(&dir.join(OUTCOME))?);
    Ok(Some(Case { id: id.clone(), request, answer, outcome }))
}

fn file<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, FileError> {
    let Some(bytes) = fs::read(path, MAX)? else { return Ok(None) };
    match record::parse(path, &bytes)? {
        Some(record) => Ok(Some(record)),
        // It was created whole, so somebody has changed it. An unreadable answer is not a missing one.
        None => Err(FileError::new("understand", path, std::io::Error::other("it is not a record of ours"))),
    }
}

fn ids(dir: &Path) -> Result<Vec<RequestId>, FileError> {
    let entries = match std::fs::read_dir(dir) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|e| FileError::new("list", dir, e))?,
    };
    let mut ids = Vec::new();
    for entry in entries {
        let name = entry.map_err(|e| FileError::new("list", dir, e))?.file_name();
        ids.extend(name.to_str().and_then(|name| RequestId::new(name).ok()));
    }
    Ok(ids)
}
