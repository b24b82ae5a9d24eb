//! The raw backups in projects, as `baton backup prune` sees them: their session, their age, and whether they are still
//! pending.

use std::collections::HashMap;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use baton_core::ids::SessionId;

use crate::config::Config;
use crate::project::channel;
use crate::project::memory::{MemoryDir, active, backups, project};
use crate::store::record::RecordError;
use crate::sys::fs::{self, FileError};
use crate::sys::paths::Paths;

/// How much of a backup's beginning to search for its session.
const HEAD: u64 = 64 << 10;

/// One file in a project's `raw/`.
#[derive(Debug)]
pub(crate) struct RawBackup {
    pub path: PathBuf,
    pub modified: SystemTime,
    /// Its size on disk.
    pub stored: u64,
    pub session: Option<SessionId>,
    /// Whether it is pending: a marker names it.
    pub waits: bool,
}

/// The memory of every project that has one: those that `init` recorded, and the one of `cwd`. Fails if the record
/// cannot be read.
pub(crate) fn places(paths: &Paths, config: &Config, cwd: &Path) -> Result<Vec<MemoryDir>, FileError> {
    let known = project::read(&paths.state)?.into_iter().map(|memory| memory.project);
    let mut places: Vec<MemoryDir> = Vec::new();
    for dir in known.chain([cwd.to_owned()]) {
        let Ok(channel) = channel::of(&dir, None, None, config, paths) else { continue };
        let place = MemoryDir::of(paths, &dir, &channel.name);
        if place.project.is_some() && !places.iter().any(|p| p.dir == place.dir) {
            places.push(place);
        }
    }
    Ok(places)
}

/// The files in `raw/` with names that we give; others are not ours.
pub(crate) fn all(place: &MemoryDir) -> Vec<RawBackup> {
    // If the list cannot be read, everything may be pending.
    let (waiting, told) = (backups::listed(place), told(place));
    if !fs::is_plain_dir(&place.raw()) {
        // Nothing, or a link to files that are not ours.
        return Vec::new();
    }
    let entries = std::fs::read_dir(place.raw()).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().to_str().is_some_and(is_ours))
        .filter_map(|entry| {
            let (path, about) = (entry.path(), entry.metadata().ok().filter(std::fs::Metadata::is_file)?);
            Some(RawBackup {
                modified: about.modified().ok()?,
                stored: (about.blocks() * 512).min(about.len()),
                session: entry
                    .file_name()
                    .to_str()
                    .and_then(|name| told.get(name))
                    .cloned()
                    .or_else(|| session_of(&path)),
                waits: waiting.as_ref().map_or(true, |all| all.iter().any(|p| is_same(&p.path, &path))),
                path,
            })
        })
        .collect()
}

/// Whether a marker names something in `folder`. If the list cannot be read, one may.
pub(crate) fn waits_in(place: &MemoryDir, folder: &Path) -> bool {
    backups::listed(place).map_or(true, |all| all.iter().any(|p| p.path.starts_with(folder)))
}

/// Removes a backup, unless it is pending by now, and notes that in the project's log. Returns whether it is gone.
pub(crate) fn remove(place: &MemoryDir, raw: &RawBackup) -> Result<bool, RecordError> {
    let _lock = place.lock()?;
    if backups::listed(place)?.iter().any(|p| is_same(&p.path, &raw.path)) {
        return Ok(false);
    }
    fs::remove(&raw.path)?;
    let named = raw.path.strip_prefix(&place.dir).unwrap_or(&raw.path).display().to_string();
    active::forget_backup(place, &named)?;
    backups::log_line(place, "pruned", "raw", raw.session.as_ref(), raw.stored, &raw.path)?;
    Ok(true)
}

/// Whether both name the same file; a marker may use another path.
fn is_same(a: &Path, b: &Path) -> bool {
    a == b || (a.file_name() == b.file_name() && channel::real(a) == channel::real(b))
}

/// `20261116_134500.jsonl`, `20261116_134500_clear-2.jsonl`.
fn is_ours(name: &str) -> bool {
    let Some(stem) = name.strip_suffix(".jsonl") else { return false };
    let (stamp, rest) = stem.split_at_checked(15).unwrap_or(("", ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let is_stamp =
        stamp.split_once('_').is_some_and(|(day, time)| day.len() == 8 && digits(day) && digits(time));
    is_stamp && (rest.is_empty() || rest.starts_with(['_', '-']))
}

/// The sessions of the backups that the log mentions, by file name.
fn told(place: &MemoryDir) -> HashMap<String, SessionId> {
    let log = fs::read(&place.dir.join(".backup-log"), 64 << 20).ok().flatten().unwrap_or_default();
    let line = |line: &str| {
        let session = line.split(' ').find_map(|word| word.strip_prefix("session="))?;
        let name = line.rsplit('/').next()?;
        Some((name.to_owned(), SessionId::new(session).ok()?))
    };
    String::from_utf8_lossy(&log).lines().filter_map(line).collect()
}

/// The session that a transcript's records name. The first record may be longer than the part we read.
fn session_of(path: &Path) -> Option<SessionId> {
    let mut head = Vec::new();
    fs::open_read(path).ok()?.take(HEAD).read_to_end(&mut head).ok()?;
    let key = b"\"sessionId\":\"";
    let at = memchr::memmem::find(&head, key)? + key.len();
    let end = at + memchr::memchr(b'"', &head[at..])?;
    SessionId::new(std::str::from_utf8(&head[at..end]).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Opening a socket fails as it does on a failing disk.
    #[test]
    fn while_a_marker_cannot_be_read_every_backup_may_be_pending() {
        let dir = tempfile::tempdir().unwrap();
        let (memory, project) = (dir.path().join(".claude/memory"), dir.path().to_owned());
        let place = MemoryDir { lock: memory.join("lock"), dir: memory, project: Some(project) };
        std::fs::create_dir_all(place.raw()).unwrap();
        std::fs::write(place.raw().join("20261116_134500.jsonl"), "{}\n").unwrap();
        let waits = || all(&place).iter().map(|raw| raw.waits).collect::<Vec<_>>();
        assert_eq!(waits(), [false]);
        let _socket = std::os::unix::net::UnixListener::bind(backups::marker_path(&place)).unwrap();
        assert_eq!(waits(), [true]);
    }

    #[test]
    fn only_names_that_we_give_are_ours() {
        for ours in ["20261116_134500.jsonl", "20261116_134500_clear.jsonl", "20261116_134500-2.jsonl"] {
            assert!(is_ours(ours), "{ours}");
        }
        for other in [
            "notes.jsonl",
            "20261116_134500.md",
            "20261116-134500.jsonl",
            "20261116_1345000.jsonl",
            "ééééééééé.jsonl",
        ] {
            assert!(!is_ours(other), "{other}");
        }
    }
}
