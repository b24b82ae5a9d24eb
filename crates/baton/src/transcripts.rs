//! Finds transcripts: by our own records, by a path, or where the clients keep them.

use std::io::BufReader;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use baton_core::handoff::Kind;
use baton_core::ids::ChannelName;
use baton_core::ledger::Ledger;
use baton_core::session::Session;
use jiff::Timestamp;

use crate::paths::Paths;
use crate::sealing;
use crate::store::Store;
use crate::sys::fs;

/// A transcript, and what we know of its session.
pub struct Found {
    pub path: PathBuf,
    pub session: Option<Session>,
}

/// `what` is a path, a session id or the beginning of one; nothing means the latest session of the channel.
pub fn find(
    store: &Store,
    paths: &Paths,
    channel: &ChannelName,
    what: Option<&str>,
) -> anyhow::Result<Option<Found>> {
    let sessions = store.sessions().all();
    let of_record = |session: &Session| {
        let path = PathBuf::from(session.transcript.as_deref()?);
        path.is_file().then(|| Found { path, session: Some(session.clone()) })
    };
    let Some(what) = what else {
        return Ok(sessions.iter().filter(|s| &s.channel == channel).find_map(of_record));
    };
    if Path::new(what).is_file() {
        let path = std::fs::canonicalize(what).with_context(|| format!("could not read {what}"))?;
        let session = sessions.into_iter().find(|s| s.transcript.as_deref().map(Path::new) == Some(&path));
        return Ok(Some(Found { path, session }));
    }
    let mut matching = sessions.iter().filter(|s| s.id.as_str().starts_with(what));
    match (matching.next(), matching.next()) {
        (Some(one), None) => Ok(of_record(one)),
        (Some(a), Some(b)) => {
            anyhow::bail!(
                "{what:?} is the beginning of several sessions, {} and {}; write more of it",
                a.id,
                b.id
            )
        }
        (None, _) => Ok(in_client_folders(paths, what).map(|path| Found { path, session: None })),
    }
}

/// `projects/*/{id}.jsonl` of Claude Code, `sessions/…/rollout-*-{id}.jsonl` of Codex.
fn in_client_folders(paths: &Paths, id: &str) -> Option<PathBuf> {
    let named = |path: &Path| {
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        name.strip_suffix(".jsonl")
            .is_some_and(|stem| stem.starts_with(id) || stem.contains(&format!("-{id}")))
    };
    walk(&paths.claude.join("projects"), 2, &named)
        .or_else(|| walk(&paths.codex().join("sessions"), 4, &named))
}

fn walk(dir: &Path, depth: u32, wanted: &dyn Fn(&Path) -> bool) -> Option<PathBuf> {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(dir).ok()?.flatten().map(|e| e.path()).collect();
    entries.sort();
    entries.iter().find(|p| p.is_file() && wanted(p)).cloned().or_else(|| {
        let folders = entries.iter().filter(|p| depth > 1 && p.is_dir());
        folders.into_iter().find_map(|p| walk(p, depth - 1, wanted))
    })
}

impl Found {
    /// Everything that the transcript proves, read from its beginning.
    pub fn ledger(&self) -> anyhow::Result<Ledger> {
        let file =
            fs::open_read(&self.path).with_context(|| format!("could not read {}", self.path.display()))?;
        Ledger::of(BufReader::with_capacity(256 << 10, file))
            .with_context(|| format!("could not read {}", self.path.display()))
    }

    /// The body of the handoff that would be sealed now; without a record of the session, the facts alone.
    pub fn body(&self, ledger: &Ledger, now: Timestamp) -> String {
        match &self.session {
            Some(session) => sealing::compose(session, &Kind::Auto, None, ledger, None, now),
            None => baton_core::handoff::render::render(ledger, None),
        }
    }
}
