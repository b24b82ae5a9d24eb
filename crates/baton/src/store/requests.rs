//! `requests/{session}.md`: handoffs that agents have written and that are not sealed yet. Copied at once, because the
//! agent's own file may be gone when its turn ends.

use std::path::{Path, PathBuf};
use std::time::Duration;

use baton_core::ids::SessionId;
use baton_core::session::PendingHandoff;
use jiff::Timestamp;

use crate::store::record::RecordError;
use crate::store::sessions::Sessions;
use crate::sys::fs::{self, PRIVATE, Sync};

const PATIENCE: Duration = Duration::from_secs(2);

pub struct Requests {
    dir: PathBuf,
    sessions: Sessions,
}

impl Requests {
    pub fn new(state: &Path) -> Self {
        Self { dir: state.join("requests"), sessions: Sessions::new(state) }
    }

    /// The folder of the records, for watchers and cleanup.
    pub(crate) fn folder(&self) -> &Path {
        &self.dir
    }

    /// Schedules a handoff for the end of the session's turn; the last one wins. Returns `false` if there is no such
    /// session.
    pub fn schedule(
        &self,
        session: &SessionId,
        path: Option<&Path>,
        text: &str,
        now: Timestamp,
    ) -> Result<bool, RecordError> {
        let copy = self.dir.join(format!("{session}.md"));
        fs::private_dir(&self.dir)?;
        fs::replace(&copy, text.as_bytes(), PRIVATE, Sync::Yes)?;
        let path = path.map(|p| p.display().to_string());
        let request =
            PendingHandoff { at: now, path, copy: copy.display().to_string(), tries: 0, window_asked: false };
        Ok(self.sessions.update(session, PATIENCE, |s| s.request = Some(request))?.is_some())
    }
}
