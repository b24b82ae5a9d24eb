//! Finds transcripts: by our own records, by a path, or where the clients keep them.

use std::io::{BufReader, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use baton_core::handoff::Kind;
use baton_core::ids::ChannelName;
use baton_core::ledger::Ledger;
use baton_core::session::{Session, Turn};
use baton_core::transcript::Dialect;
use baton_core::transcript::summary::{Ending, Summary};
use jiff::Timestamp;

use crate::handoffs::seal;
use crate::history::ends;
use crate::providers;
use crate::store::Store;
use crate::store::handoffs::Handoffs;
use crate::sys::fs;
use crate::sys::paths::Paths;

/// A transcript, and its session's record if there is one.
pub(crate) struct LocatedTranscript {
    pub path: PathBuf,
    pub session: Option<Session>,
}

/// `what` is a path, a session id or a prefix of one; `None` means the latest session of the channel.
pub(crate) fn find(
    store: &Store,
    paths: &Paths,
    channel: &ChannelName,
    what: Option<&str>,
) -> anyhow::Result<Option<LocatedTranscript>> {
    let sessions = store.sessions().all();
    let of_record = |session: &Session| {
        let path = PathBuf::from(session.transcript.as_deref()?);
        path.is_file().then(|| LocatedTranscript { path, session: Some(session.clone()) })
    };
    let Some(what) = what else {
        return Ok(sessions.iter().filter(|s| &s.channel == channel).find_map(of_record));
    };
    if Path::new(what).is_file() {
        let path = std::fs::canonicalize(what).with_context(|| format!("could not read {what}"))?;
        let session = sessions.into_iter().find(|s| s.transcript.as_deref().map(Path::new) == Some(&path));
        return Ok(Some(LocatedTranscript { path, session }));
    }
    let mut matching = sessions.iter().filter(|s| s.id.as_str().starts_with(what));
    match (matching.next(), matching.next()) {
        (Some(one), None) => Ok(of_record(one)),
        (Some(a), Some(b)) => {
            anyhow::bail!("{what:?} matches several sessions, {} and {}; write more of it", a.id, b.id)
        }
        (None, _) => Ok(in_client_folders(paths, what).map(|path| LocatedTranscript { path, session: None })),
    }
}

/// A transcript whose name contains the session's id, or a prefix of it.
fn in_client_folders(paths: &Paths, id: &str) -> Option<PathBuf> {
    let named = |path: &Path| {
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        name.strip_suffix(".jsonl")
            .is_some_and(|stem| stem.starts_with(id) || stem.contains(&format!("-{id}")))
    };
    providers::archives().find_map(|(_, archive)| walk(&(archive.root)(paths), archive.depth + 1, &named))
}

fn walk(dir: &Path, depth: u32, wanted: &dyn Fn(&Path) -> bool) -> Option<PathBuf> {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(dir).ok()?.flatten().map(|e| e.path()).collect();
    entries.sort();
    entries.iter().find(|p| p.is_file() && wanted(p)).cloned().or_else(|| {
        let folders = entries.iter().filter(|p| depth > 1 && p.is_dir());
        folders.into_iter().find_map(|p| walk(p, depth - 1, wanted))
    })
}

/// How long a command that runs inside a turn waits for that turn to appear in the transcript. The client writes
/// records a moment later, and the first turn of a conversation into a file that does not exist yet.
const CATCH_UP: Duration = Duration::from_secs(1);

/// How long a hook at the end of a turn waits for that turn to appear; a hook has a deadline.
const CATCH_UP_AT_STOP: Duration = Duration::from_millis(300);

/// Waits until the transcript shows the turn that `session` is in, or how the last one ended.
pub(crate) fn catch_up(session: &Session) {
    let runs = session.turn == Turn::Working;
    // An earlier turn has ended, too.
    let began = session.last_turn_began.filter(|_| !runs);
    let is_late = |end: &Summary| began.zip(end.last).is_some_and(|(began, last)| last < began);
    wait_for(session, CATCH_UP, |end| {
        end.ending != Ending::Unknown && (end.ending == Ending::Unfinished) == runs && !is_late(end)
    });
}

/// Waits until the transcript shows a record of the ending turn. Its request is written before that.
pub(crate) fn catch_up_at_stop(session: &Session) {
    let Some(since) = session.turn_since.filter(|_| session.turn == Turn::Working) else { return };
    wait_for(session, CATCH_UP_AT_STOP, |end| end.last.is_some_and(|last| last >= since));
}

fn wait_for(session: &Session, patience: Duration, is_there: impl Fn(&Summary) -> bool) {
    const LOOK: Duration = Duration::from_millis(10);
    let Some(path) = session.transcript.as_deref().filter(|_| session.turn_since.is_some()) else { return };
    let (path, provider) = (Path::new(path), Dialect::of(&session.provider));
    let until = Instant::now() + patience;
    while !ends::read(path, provider).is_ok_and(|end| is_there(&end)) && Instant::now() < until {
        std::thread::sleep(LOOK);
    }
}

impl LocatedTranscript {
    /// Everything that the transcript proves, read from its beginning, and the task before it.
    pub(crate) fn ledger(&self, store: &Store, handoffs: &Handoffs) -> anyhow::Result<Ledger> {
        let doing = || format!("could not read {}", self.path.display());
        let mut file = fs::open_read(&self.path).with_context(doing)?;
        let mut ledger = match &self.session {
            Some(session) => seal::beginning(store, handoffs, session).0,
            None => Ledger::new(),
        };
        if let Some(session) = &self.session {
            seal::compacted(handoffs, session, &mut ledger);
        }
        file.seek(SeekFrom::Start(ledger.read_to())).with_context(doing)?;
        ledger.read(BufReader::with_capacity(256 << 10, file)).with_context(doing)?;
        ledger.apply_strikes();
        Ok(ledger)
    }

    /// The body of the handoff that would be sealed now; without a record of the session, the facts alone.
    pub(crate) fn body(&self, ledger: &Ledger, now: Timestamp) -> String {
        match &self.session {
            Some(session) => {
                let reader = providers::of(&session.provider);
                seal::compose(session, &Kind::Auto, None, ledger.clone(), None, reader, now).document()
            }
            None => baton_core::handoff::render::render(ledger, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use baton_core::ids::{AgentId, ChannelName, SessionId};

    use super::*;

    fn is_waited_for(turn_since: Option<Timestamp>, catch_up: fn(&Session)) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.jsonl");
        let (id, agent) = (SessionId::new("s").unwrap(), AgentId::new("a").unwrap());
        let channel = ChannelName::new("c").unwrap();
        let mut session = Session::new(id, "claude", agent, channel, Timestamp::UNIX_EPOCH, "startup");
        session.transcript = Some(path.display().to_string());
        (session.turn, session.turn_since) = (Turn::Working, turn_since);
        let line = r#"{"type":"user","uuid":"u","timestamp":"2026-11-16T01:00:00Z","cwd":"/p","sessionId":"s","message":{"role":"user","content":"Port it."}}"#;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(60));
                std::fs::write(&path, line).unwrap();
            });
            catch_up(&session);
            assert!(path.exists(), "it did not wait");
        });
    }

    #[test]
    fn a_turn_that_is_written_late_is_waited_for() {
        is_waited_for(Some(Timestamp::UNIX_EPOCH), catch_up);
    }

    #[test]
    fn the_end_of_an_earlier_turn_is_not_taken_for_that_of_the_last_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.jsonl");
        let said = |minute: u32| {
            format!(
                r#"{{"type":"assistant","uuid":"u{minute}","timestamp":"2026-11-16T01:0{minute}:00Z","sessionId":"s","message":{{"id":"m{minute}","role":"assistant","stop_reason":"end_turn","content":[{{"type":"text","text":"Done."}}]}}}}"#
            ) + "\n"
        };
        std::fs::write(&path, said(1)).unwrap();
        let (id, agent) = (SessionId::new("s").unwrap(), AgentId::new("a").unwrap());
        let channel = ChannelName::new("c").unwrap();
        let mut session = Session::new(id, "claude", agent, channel, Timestamp::UNIX_EPOCH, "startup");
        session.transcript = Some(path.display().to_string());
        session.turn_since = Some("2026-11-16T01:03:00Z".parse().unwrap());
        session.last_turn_began = Some("2026-11-16T01:02:00Z".parse().unwrap());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(60));
                std::fs::write(&path, said(1) + &said(2)).unwrap();
            });
            catch_up(&session);
            assert!(std::fs::read_to_string(&path).unwrap().contains("u2"), "it did not wait");
        });
    }

    #[test]
    fn a_turn_that_ends_before_it_is_written_is_waited_for() {
        is_waited_for(Some("2026-11-16T00:59:59Z".parse().unwrap()), catch_up_at_stop);
    }
}
