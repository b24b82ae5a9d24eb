//! The mirrored conversations: their size, when they were verified, and how to restore one.

use std::path::Path;

use baton_core::ids::SessionId;
use baton_core::plain::plain_line;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::store::Store;
use crate::store::mirror::MirroredSession;
use crate::store::verified::Verification;
use crate::sys::paths::Paths;
use crate::sys::process;

/// How many conversations are shown, newest first.
const MAX_ROWS: usize = 200;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct BackupsView {
    pub sessions: usize,
    /// On disk, compressed or not.
    pub stored: u64,
    /// The last `baton backup verify` of all of them.
    pub verified: Option<Verification>,
    /// The one with the newest bytes first.
    pub rows: Vec<BackupView>,
    pub left_out: usize,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct BackupView {
    pub session: String,
    pub project: String,
    pub modified: Option<Timestamp>,
    /// Of the conversation as it is now.
    pub bytes: u64,
    pub stored: u64,
    pub running: bool,
    pub pinned: bool,
    /// The client's own transcript is gone.
    pub gone: bool,
    /// The command that restores it.
    pub restore: String,
}

pub(crate) fn of(paths: &Paths, store: &Store) -> BackupsView {
    let mirror = store.mirror();
    // `baton backup` reports those that cannot be read.
    let mut all: Vec<MirroredSession> =
        mirror.sessions().into_iter().filter_map(|id| mirror.of(&id).ok().flatten()).collect();
    all.sort_by(|a, b| b.modified().cmp(&a.modified()).then_with(|| a.session.cmp(&b.session)));
    let row = |m: &MirroredSession| BackupView {
        session: m.session.to_string(),
        project: plain_line(&paths.short(Path::new(&m.meta.cwd)), 80),
        modified: m.modified().and_then(|at| Timestamp::try_from(at).ok()),
        bytes: m.newest().map_or(0, |(_, generation)| generation.bytes),
        stored: m.stored(),
        running: is_live(store, &m.session),
        pinned: m.pinned,
        gone: !Path::new(&m.meta.transcript).exists(),
        restore: format!("baton backup restore {}", m.session),
    };
    BackupsView {
        sessions: all.len(),
        stored: all.iter().map(MirroredSession::stored).sum(),
        verified: store.verified().last(),
        rows: all.iter().take(MAX_ROWS).map(row).collect(),
        left_out: all.len().saturating_sub(MAX_ROWS),
    }
}

/// Whether a client still writes to it. A session whose record cannot be read may be live.
pub(crate) fn is_live(store: &Store, session: &SessionId) -> bool {
    match store.sessions().get(session) {
        Ok(session) => {
            session.is_some_and(|s| s.ended.is_none() && s.process.as_ref().is_some_and(process::is_alive))
        }
        Err(_) => true,
    }
}
