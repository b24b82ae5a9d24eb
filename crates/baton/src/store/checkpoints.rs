//! Checkpoints: event files in the project that all instances of a workflow see.
//!
//! The status line of every instance asks for the newest one on each render; a small cache beside our state,
//! keyed by the folder's own time stamp, makes that one `stat` however many there are.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use baton_core::checkpoint::{self, Checkpoint};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::record;
use crate::sys::fs::{self, FileError, SHARED, Sync};

/// Where the events of `project` lie.
pub fn folder(project: &Path) -> PathBuf {
    project.join(EVENTS)
}

const EVENTS: &str = "thoughts/shared/handoffs/events";

/// The nearest folder at or above `cwd` that has one, else `cwd` itself as the place to create it.
pub fn project_of(cwd: &Path) -> PathBuf {
    events_above(cwd)
        .or_else(|| cwd.ancestors().find(|dir| dir.join(".git").exists()))
        .unwrap_or(cwd)
        .to_owned()
}

/// The nearest folder at or above `cwd` that has events.
fn events_above(cwd: &Path) -> Option<&Path> {
    cwd.ancestors().find(|dir| fs::is_in(dir, EVENTS) && folder(dir).is_dir())
}

/// Publishes a checkpoint; the folder must exist or be wanted.
pub fn publish(project: &Path, checkpoint: &Checkpoint, now: Timestamp) -> Result<PathBuf, FileError> {
    let dir = folder(project);
    std::fs::create_dir_all(&dir).map_err(|e| FileError::new("create the folder", &dir, e))?;
    let session8: String = checkpoint.session_id.chars().take(8).collect();
    let mut at = now;
    loop {
        let path = dir.join(checkpoint::file_name(at, &session8));
        if fs::create(&path, checkpoint.format().as_bytes(), SHARED, Sync::Yes)? {
            return Ok(path);
        }
        // Two in one millisecond: the later one is a millisecond later.
        at = at.checked_add(jiff::SignedDuration::from_millis(1)).unwrap_or(at);
    }
}

/// Every checkpoint that can be understood, newest first, and how many files could not.
pub fn list(project: &Path) -> (Vec<(PathBuf, Checkpoint)>, usize) {
    let dir = folder(project);
    let (mut found, mut unread) = (Vec::new(), 0);
    for name in names(&dir) {
        let path = dir.join(&name);
        match fs::read(&path, 1 << 20).ok().flatten().map(|b| String::from_utf8_lossy(&b).into_owned()) {
            Some(text) => match Checkpoint::parse(&text) {
                Some(checkpoint) => found.push((path, checkpoint)),
                None => unread += 1,
            },
            None => unread += 1,
        }
    }
    found.reverse();
    (found, unread)
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|e| e.file_name().into_string().ok())
        .filter(|name| checkpoint::FileName::parse(name).is_some())
        .collect();
    names.sort();
    names
}

/// What the status line shows, remembered.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Cached {
    dir: PathBuf,
    /// When the folder's list of files last changed.
    stamp: i64,
    goal: String,
    now: String,
}

/// The newest checkpoint's goal and now, at the price of one `stat` when nothing changed.
pub fn latest_cached(state: &Path, channel: &str, cwd: &Path) -> Option<(String, String)> {
    let dir = folder(events_above(cwd)?);
    let meta = std::fs::metadata(&dir).ok()?;
    let stamp = meta.mtime() * 1_000_000_000 + meta.mtime_nsec();
    let cache = state.join("cache").join(format!("checkpoint-{channel}.json"));
    let known: Option<Cached> = record::read(&cache).ok().flatten();
    let cached = match known {
        Some(cached) if cached.dir == dir && cached.stamp == stamp => cached,
        _ => {
            let newest = names(&dir).into_iter().rev().find_map(|name| {
                let bytes = fs::read(&dir.join(name), 1 << 20).ok()??;
                Checkpoint::parse(&String::from_utf8_lossy(&bytes))
            });
            let newest = newest.unwrap_or_default();
            let cached = Cached { dir, stamp, goal: newest.goal, now: newest.now };
            // A cache that cannot be written is only slower.
            let _ = record::write(&cache, &cached);
            cached
        }
    };
    (!cached.goal.is_empty() || !cached.now.is_empty()).then_some((cached.goal, cached.now))
}
