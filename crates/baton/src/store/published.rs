//! Files in the formats of older scripts, for others to read: `.current-session`, `.context-status`, `.restart-session`
//! in the client's folder, and the percentage in `/tmp`. One such file cannot serve two sessions, so baton itself does
//! not rely on them.

use std::path::{Path, PathBuf};

use baton_core::ids::SessionId;

use crate::sys::fs::{self, FileError, PRIVATE, Sync};

pub struct Published<'a> {
    claude: &'a Path,
}

impl<'a> Published<'a> {
    pub fn new(claude: &'a Path) -> Self {
        Self { claude }
    }

    pub(crate) fn current_session_path(&self) -> PathBuf {
        self.claude.join(".current-session")
    }

    pub(crate) fn restart_path(&self) -> PathBuf {
        self.claude.join(".restart-session")
    }

    /// `{session}:{transcript}`
    pub(crate) fn current_session(&self, session: &SessionId, transcript: &str) -> Result<(), FileError> {
        self.write(&self.current_session_path(), &format!("{session}:{transcript}\n"))
    }

    /// The session id and transcript path that another process last published.
    pub(crate) fn read_current_session(&self) -> Result<Option<(SessionId, String)>, FileError> {
        Self::read_pair(&self.current_session_path())
    }

    /// Removes it if it is about `session`.
    pub(crate) fn clear_current_session(&self, session: &SessionId) -> Result<(), FileError> {
        match self.read_current_session()? {
            Some((id, _)) if &id == session => fs::remove(&self.current_session_path()),
            _ => Ok(()),
        }
    }

    /// `STATUS:SIZE`
    pub(crate) fn context_status(&self, status: &str) -> Result<(), FileError> {
        self.write(&self.claude.join(".context-status"), &format!("{status}\n"))
    }

    /// `{session}:{folder}`: a fresh context was requested.
    pub fn restart(&self, session: &SessionId, cwd: &str) -> Result<(), FileError> {
        self.write(&self.restart_path(), &format!("{session}:{cwd}\n"))
    }

    pub(crate) fn read_restart(&self) -> Result<Option<(SessionId, String)>, FileError> {
        Self::read_pair(&self.restart_path())
    }

    /// Removes the restart signal of `session`, whose fresh context has come or will not come.
    pub(crate) fn clear_restart(&self, session: &SessionId) -> Result<(), FileError> {
        match self.read_restart()? {
            Some((id, _)) if &id == session => fs::remove(&self.restart_path()),
            _ => Ok(()),
        }
    }

    fn write(&self, path: &Path, text: &str) -> Result<(), FileError> {
        // Only the client creates its folder; without it nobody reads these files.
        if !self.claude.is_dir() {
            return Ok(());
        }
        fs::replace(path, text.as_bytes(), PRIVATE, Sync::No)
    }

    fn read_pair(path: &Path) -> Result<Option<(SessionId, String)>, FileError> {
        let Some(bytes) = fs::read(path, 64 << 10)? else { return Ok(None) };
        let text = String::from_utf8_lossy(&bytes);
        let pair = text.trim_end().split_once(':');
        Ok(pair.and_then(|(id, rest)| Some((SessionId::new(id).ok()?, rest.to_owned()))))
    }
}

/// `/tmp/claude-context-pct-{session}.txt` holds the integer alone. Overwrites a file that we made, replaces anything
/// else under that predictable name by rename, and refuses links, so that none is ever followed.
pub(crate) fn percentage(session: &SessionId, percentage: u8) -> Result<(), FileError> {
    if percentage_over(session, percentage) {
        return Ok(());
    }
    fs::replace(&percentage_path(session), percentage.to_string().as_bytes(), PRIVATE, Sync::No)
}

/// Overwrites the file in place, which syncs, creates and removes nothing. Returns `false` if it must be replaced.
pub(crate) fn percentage_over(session: &SessionId, percentage: u8) -> bool {
    fs::overwrite(&percentage_path(session), percentage.to_string().as_bytes())
}

/// Removes the percentage of a session that is over.
pub(crate) fn remove_percentage(session: &SessionId) -> Result<(), FileError> {
    fs::remove(&percentage_path(session))
}

pub(crate) fn percentage_path(session: &SessionId) -> PathBuf {
    PathBuf::from(format!("/tmp/claude-context-pct-{session}.txt"))
}
