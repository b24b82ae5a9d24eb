//! `requests/{session}.md`: what an agent has handed over and nobody has sealed yet. Copied at once, because the agent's
//! own file may be gone when its turn ends.

use std::path::{Path, PathBuf};
use std::time::Duration;

use baton_core::ids::SessionId;
use baton_core::session::Request;
use jiff::Timestamp;

use super::Store;
use super::record::RecordError;
use crate::sys::fs::{self, PRIVATE, Sync};

const PATIENCE: Duration = Duration::from_secs(2);

fn copy_path(state: &Path, session: &SessionId) -> PathBuf {
    state.join("requests").join(format!("{session}.md"))
}

/// Schedules a handoff for the end of the session's turn; the last one counts. `false` if there is no such session.
pub fn schedule(
    store: &Store,
    session: &SessionId,
    path: Option<&Path>,
    text: &str,
    now: Timestamp,
) -> Result<bool, RecordError> {
    let copy = copy_path(&store.state, session);
    fs::private_dir(copy.parent().unwrap_or(Path::new("/")))?;
    fs::replace(&copy, text.as_bytes(), PRIVATE, Sync::Yes)?;
    let request =
        Request { at: now, path: path.map(|p| p.display().to_string()), copy: copy.display().to_string() };
    Ok(store.sessions().update(session, PATIENCE, |s| s.request = Some(request))?.is_some())
}
