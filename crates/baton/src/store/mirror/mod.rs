//! `mirror/{session}/`: the bytes of a conversation as they grew, kept even if the client rewrites or deletes its own.
//!
//! ```text
//! main.jsonl                the live copy of the transcript; its length is how far it got
//! main.{n}.jsonl[.zst]      an earlier generation: what the transcript held before it was rewritten or cut
//! main.{n}.base             generation n begins with so many bytes of another one, and holds only what came after
//! agent-{id}.jsonl …        the same for each subagent
//! meta.json                 where it came from; what rests compressed, with its length and hash
//! pinned                    exempt from pruning
//! ```
//!
//! [`take`] is the hot part: it appends new bytes, and compares the last bytes of the copy to see whether the
//! transcript is still the same one. [`rest`] is the cold part, run by commands only.

mod read;
pub mod rest;
pub mod take;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use baton_core::ids::SessionId;
use serde::{Deserialize, Serialize};

use crate::store::record;
use crate::sys::fs::{self, FileError, PRIVATE, Sync};
use crate::sys::lock::{Lock, LockError};

pub use read::{Generation, MirrorPart, MirroredSession, frames};
pub(crate) use take::CATCH_UP;
pub use take::{CopyProgress, MirrorOrigin, PER_HOOK};

/// The part that holds the conversation itself.
pub const MAIN: &str = "main";

#[derive(Debug, thiserror::Error)]
pub enum MirrorError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Lock(#[from] LockError),
}

/// All mirrored conversations of one user.
#[derive(Debug, Clone)]
pub struct Mirror {
    dir: PathBuf,
}

/// The metadata of a mirrored conversation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Meta {
    pub provider: String,
    /// Where the client keeps it.
    pub transcript: String,
    pub cwd: String,
    /// Paths of the parts that are not beside the transcript.
    pub parts: BTreeMap<String, String>,
    /// The compressed generations, by file name.
    pub resting: BTreeMap<String, CompressedGeneration>,
    /// The machine and the channel there that it was fetched from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fetched: Option<Fetched>,
}

/// Where a conversation of another machine comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fetched {
    pub machine: String,
    pub channel: String,
}

/// The expected content of a compressed generation, checked when it is read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompressedGeneration {
    /// Uncompressed, without the bytes shared with its base.
    pub bytes: u64,
    pub sha256: String,
}

/// A generation begins with the first `len` bytes of generation `of`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GenerationBase {
    pub of: u32,
    pub len: u64,
}

impl Mirror {
    pub fn new(state: &Path) -> Self {
        Self { dir: state.join("mirror") }
    }

    /// Where this process may unpack a conversation that came from elsewhere; [`Mirror::sweep`] removes leftovers.
    pub(crate) fn folder_for_import(&self) -> PathBuf {
        self.dir.join(format!(".import.{}.0.tmp", std::process::id()))
    }

    #[cfg(feature = "fleet")]
    /// Adopts the conversation in `folder` with its metadata. Replaces an earlier fetched copy; a conversation of this
    /// machine's own stays. Returns whether it was adopted.
    pub fn admit(&self, session: &SessionId, folder: &Path, meta: &Meta) -> Result<bool, FileError> {
        if self.of(session)?.is_some() {
            if self.meta(session)?.fetched.is_none() {
                return Ok(false);
            }
            self.remove(session)?;
        }
        record::write(&folder.join("meta.json"), meta)?;
        let to = self.folder(session);
        std::fs::rename(folder, &to).map_err(|e| FileError::new("create", &to, e))?;
        fs::sync_parent(&to)?;
        Ok(true)
    }

    pub fn folder(&self, session: &SessionId) -> PathBuf {
        self.dir.join(session.as_str())
    }

    /// Every session that has a mirror, in no order.
    pub fn sessions(&self) -> Vec<SessionId> {
        let entries = std::fs::read_dir(&self.dir).into_iter().flatten().flatten();
        entries.filter_map(|e| SessionId::new(e.file_name().into_string().ok()?).ok()).collect()
    }

    #[cfg(feature = "fleet")]
    /// The same; fails if they cannot all be listed.
    pub(crate) fn every_session(&self) -> Result<Vec<SessionId>, FileError> {
        Ok(fs::names(&self.dir)?.into_iter().filter_map(|name| SessionId::new(name).ok()).collect())
    }

    /// The mirror of `session`; `None` if nothing was mirrored.
    pub fn of(&self, session: &SessionId) -> Result<Option<MirroredSession>, FileError> {
        MirroredSession::read(session.clone(), self.folder(session))
    }

    pub fn meta(&self, session: &SessionId) -> Result<Meta, FileError> {
        Ok(record::read(&self.folder(session).join("meta.json"))?.unwrap_or_default())
    }

    /// Changes the metadata; the caller holds the lock.
    fn change_meta(&self, session: &SessionId, change: impl FnOnce(&mut Meta)) -> Result<(), FileError> {
        let before = self.meta(session)?;
        let mut after = before.clone();
        change(&mut after);
        if after == before {
            return Ok(());
        }
        record::write(&self.folder(session).join("meta.json"), &after)
    }

    /// Generations begin and end under this lock; bytes are appended without it.
    fn lock(&self, session: &SessionId, patience: Duration) -> Result<Lock, LockError> {
        Lock::acquire(&self.folder(session).join("lock"), patience)
    }

    pub(crate) fn is_pinned(&self, session: &SessionId) -> bool {
        self.folder(session).join("pinned").exists()
    }

    /// Pins or unpins a conversation; pruning skips pinned ones. Returns whether anything changed.
    pub fn pin(&self, session: &SessionId, pinned: bool) -> Result<bool, FileError> {
        let path = self.folder(session).join("pinned");
        if pinned {
            return fs::create(&path, b"", PRIVATE, Sync::Later);
        }
        let was = path.exists();
        fs::remove(&path)?;
        Ok(was)
    }
}

/// `main.3.jsonl`: the third generation of the conversation.
fn generation_name(part: &str, number: u32) -> String {
    format!("{part}.{number}.jsonl")
}

fn live_name(part: &str) -> String {
    format!("{part}.jsonl")
}

fn base_name(part: &str, number: u32) -> String {
    format!("{part}.{number}.base")
}
