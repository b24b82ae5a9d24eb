//! Checkpoints: event files in the project that all instances of a workflow see.
//!
//! Every status line asks on each render which one to show. A small cache in our state, keyed by the folder's own time
//! stamp, reduces that to one `stat`, however many there are.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use baton_core::checkpoint::{self, Checkpoint, CheckpointAuthor};
use baton_core::session::Session;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::project::root;
use crate::store::{Store, record};
use crate::sys::fs::{self, FileError, SHARED, Sync};

/// The events folder of `project`.
pub(crate) fn folder(project: &Path) -> PathBuf {
    project.join(EVENTS)
}

const EVENTS: &str = "thoughts/shared/handoffs/events";

/// The nearest folder at or above `cwd` that has events, else the root of its project, where they are created.
pub(crate) fn project_of(cwd: &Path) -> PathBuf {
    events_above(cwd).unwrap_or_else(|| root(cwd)).to_owned()
}

/// The nearest folder at or above `cwd` that has events.
fn events_above(cwd: &Path) -> Option<&Path> {
    cwd.ancestors().find(|dir| fs::is_in(dir, EVENTS) && is_plain(dir))
}

/// Whether the events folder is really inside `project`. A clone may contain a link to another project's.
fn is_plain(project: &Path) -> bool {
    let dir = folder(project);
    fs::refuse_links_between(project, &dir).is_ok() && dir.is_dir()
}

/// Publishes a checkpoint. Creates the events folder if it is missing.
pub(crate) fn publish(project: &Path, checkpoint: &Checkpoint, now: Timestamp) -> Result<PathBuf, FileError> {
    let dir = folder(project);
    fs::refuse_links_between(project, &dir)?;
    std::fs::create_dir_all(&dir).map_err(|e| FileError::new("create the folder", &dir, e))?;
    let session8: String = checkpoint.session_id.chars().take(8).collect();
    let mut at = now;
    loop {
        let path = dir.join(checkpoint::file_name(at, &session8));
        if fs::create(&path, checkpoint.format().as_bytes(), SHARED, Sync::Yes)? {
            return Ok(path);
        }
        // Two in one millisecond: date this one a millisecond later.
        at = at.checked_add(jiff::SignedDuration::from_millis(1)).unwrap_or(at);
    }
}

/// All checkpoints that can be read, newest first, and how many could not.
pub(crate) fn list(project: &Path) -> (Vec<(PathBuf, Checkpoint)>, usize) {
    let dir = folder(project);
    let (mut found, mut unread) = (Vec::new(), 0);
    if !is_plain(project) {
        return (found, unread);
    }
    let mut names = names(&dir);
    names.sort_by_cached_key(|name| (counts_as_of(&dir, name), name.clone()));
    for name in names.into_iter().rev() {
        let path = dir.join(&name);
        match read(&path, &name) {
            Some(checkpoint) => found.push((path, checkpoint)),
            None => unread += 1,
        }
    }
    (found, unread)
}

/// Reads a checkpoint. If it has no time, uses the one in its name.
fn read(path: &Path, name: &str) -> Option<Checkpoint> {
    let bytes = fs::read(path, 1 << 20).ok().flatten()?;
    let mut checkpoint = Checkpoint::parse(&String::from_utf8_lossy(&bytes))?;
    let named = || checkpoint::FileName::parse(name)?.timestamp();
    checkpoint.timestamp = checkpoint.timestamp.or_else(named);
    Some(checkpoint)
}

/// The time by which a checkpoint is sorted. A teammate's clock may run ahead, and such a checkpoint would hide every
/// later one until that time has passed, so it is no newer than its file on this machine. A synced folder keeps the
/// teammate's mtime; the ctime is always this machine's own.
fn counts_as_of(dir: &Path, name: &str) -> Option<Timestamp> {
    let named = checkpoint::FileName::parse(name)?.timestamp()?;
    let came = std::fs::metadata(dir.join(name)).ok().and_then(|meta| {
        let (second, nanosecond) = (meta.mtime(), meta.mtime_nsec()).min((meta.ctime(), meta.ctime_nsec()));
        Timestamp::new(second, i32::try_from(nanosecond).ok()?).ok()
    });
    Some(came.map_or(named, |came| came.min(named)))
}

/// The newest readable checkpoint that `file` admits by name and `admits` by content. Tries names from the latest on;
/// none is newer than its name says, so few files are read.
fn newest(
    dir: &Path,
    names: &[String],
    file: impl Fn(&str) -> bool,
    admits: impl Fn(&Checkpoint) -> bool,
) -> Option<(Timestamp, Checkpoint)> {
    let mut best: Option<(Timestamp, Checkpoint)> = None;
    for name in names.iter().rev() {
        let Some(parsed) = checkpoint::FileName::parse(name).filter(|n| file(n.session8())) else { continue };
        if best.as_ref().is_some_and(|(at, _)| parsed.timestamp().is_none_or(|named| named <= *at)) {
            break;
        }
        let at = counts_as_of(dir, name).unwrap_or(Timestamp::MIN);
        if best.as_ref().is_none_or(|(known, _)| at > *known)
            && let Some(checkpoint) = read(&dir.join(name), name).filter(&admits)
        {
            best = Some((at, checkpoint));
        }
    }
    best
}

/// The displayed checkpoints of an agent: the one in its status line, whether a person wrote that, and its own newest.
#[derive(Debug, Default)]
struct ShownCheckpoints {
    checkpoint: Option<Checkpoint>,
    is_persons: bool,
    own: Option<Checkpoint>,
}

fn shown(store: &Store, dir: &Path, session: &Session) -> ShownCheckpoints {
    let names = names(dir);
    let agent = store.agents().readable(&session.agent);
    let chain = agent.as_ref().map(|a| a.sessions.as_slice()).unwrap_or_default();
    let own: Vec<&str> = chain.iter().chain([&session.id]).map(baton_core::ids::SessionId::short).collect();
    let known = store.sessions().short_ids();
    let author = |session8: &str| CheckpointAuthor::of(session8, &own, |id| known.contains(id));
    // A stranger's checkpoint with a name belongs to their own workflow.
    let is_persons = |c: &Checkpoint| c.session_name.is_none() || c.session_id == checkpoint::MANUAL;
    let person = newest(dir, &names, |s8| author(s8) == CheckpointAuthor::Person, is_persons);
    let own = newest(dir, &names, |s8| author(s8) == CheckpointAuthor::Own, |_| true);
    let own_newest = own.as_ref().map(|(_, checkpoint)| checkpoint.clone());
    let by_person = person.as_ref().map(|(_, checkpoint)| checkpoint.clone());
    let chosen = checkpoint::shown(person, own);
    let is_persons = chosen.is_some() && chosen == by_person;
    let checkpoint = match chosen.as_ref().and_then(|chosen| chosen.session_name.clone()) {
        Some(workflow) => {
            newest(dir, &names, |_| true, |c| c.session_name.as_ref() == Some(&workflow)).map(|(_, c)| c)
        }
        None => chosen,
    };
    ShownCheckpoints { checkpoint, is_persons, own: own_newest }
}

fn names(dir: &Path) -> Vec<String> {
    fs::sorted_names(dir, |name| checkpoint::FileName::parse(name).is_some())
}

/// The status line's checkpoint, cached.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Cached {
    dir: PathBuf,
    /// When the folder's list of files last changed.
    stamp: i64,
    /// The session it was chosen for.
    #[serde(default)]
    session: String,
    goal: String,
    now: String,
    /// The checkpoints for listings; an earlier version did not cache them.
    #[serde(default)]
    faces: Option<Faces>,
}

/// The checkpoints for listings of agents: the agent's own, and a person's for the whole project.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Faces {
    /// Goal and now.
    pub own: Option<(String, String)>,
    pub persons: Option<(String, String)>,
}

/// The goal and now for this session's status line, at the cost of one `stat` if nothing changed.
pub(crate) fn shown_cached(store: &Store, session: &Session, cwd: &Path) -> Option<(String, String)> {
    let cached = cached(store, session, cwd)?;
    (!cached.goal.is_empty() || !cached.now.is_empty()).then_some((cached.goal, cached.now))
}

/// The checkpoints for listings of this session's agent, at the same cost.
pub(crate) fn faces_cached(store: &Store, session: &Session, cwd: &Path) -> Faces {
    cached(store, session, cwd).and_then(|cached| cached.faces).unwrap_or_default()
}

fn cached(store: &Store, session: &Session, cwd: &Path) -> Option<Cached> {
    let dir = folder(events_above(cwd)?);
    let meta = std::fs::metadata(&dir).ok()?;
    let stamp = meta.mtime() * 1_000_000_000 + meta.mtime_nsec();
    let cache = store.state.join("cache").join(format!("checkpoint-{}.json", session.agent));
    let known: Option<Cached> = record::read(&cache).ok().flatten();
    let is_current = |cached: &Cached| {
        cached.dir == dir
            && cached.stamp == stamp
            && cached.session == session.id.as_str()
            && cached.faces.is_some()
    };
    if let Some(cached) = known.filter(is_current) {
        return Some(cached);
    }
    let shown = shown(store, &dir, session);
    let session = session.id.to_string();
    let words = |checkpoint: Checkpoint| (checkpoint.goal, checkpoint.now);
    let persons = shown.checkpoint.clone().filter(|_| shown.is_persons).map(words);
    let faces = Some(Faces { own: shown.own.map(words), persons });
    let (goal, now) = shown.checkpoint.map(words).unwrap_or_default();
    let cached = Cached { dir, stamp, session, goal, now, faces };
    // A cache that cannot be written is only slower.
    let _ = record::write(&cache, &cached);
    Some(cached)
}
