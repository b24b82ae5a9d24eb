//! The raw backups that lie in projects, as `baton backup prune` sees them: whose they are, how old, and whether somebody
//! still has to look at them.

use std::collections::HashMap;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use baton_core::ids::SessionId;

use super::{Place, backups, project};
use crate::channel;
use crate::config::Config;
use crate::paths::Paths;
use crate::store::record::RecordError;
use crate::sys::fs;

/// So much of a backup's beginning tells whose it is.
const HEAD: u64 = 64 << 10;

/// One file in a project's `raw/`.
#[derive(Debug)]
pub struct Raw {
    pub path: PathBuf,
    pub modified: SystemTime,
    /// What it takes on the disk.
    pub stored: u64,
    pub session: Option<SessionId>,
    /// It waits to be looked at: a marker names it.
    pub waits: bool,
}

/// The memory of every project that has one: those that `init` knows, and where we are.
pub fn places(paths: &Paths, config: &Config, cwd: &Path) -> Vec<Place> {
    let known = project::all(&paths.state).into_iter().map(|memory| memory.project);
    let mut places: Vec<Place> = Vec::new();
    for dir in known.chain([cwd.to_owned()]) {
        let Ok(channel) = channel::of(&dir, None, None, config, paths) else { continue };
        let place = Place::of(paths, &dir, &channel.name);
        if place.project.is_some() && !places.iter().any(|p| p.dir == place.dir) {
            places.push(place);
        }
    }
    places
}

/// What lies in `raw/` under a name that we give; what somebody else put there is theirs.
pub fn all(place: &Place) -> Vec<Raw> {
    let (waiting, told) = (backups::listed(place), told(place));
    let entries = std::fs::read_dir(place.raw()).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().to_str().is_some_and(is_ours))
        .filter_map(|entry| {
            let (path, about) = (entry.path(), entry.metadata().ok().filter(std::fs::Metadata::is_file)?);
            let listed = waiting.iter().find(|p| is_same(&p.path, &path));
            Some(Raw {
                modified: about.modified().ok()?,
                stored: (about.blocks() * 512).min(about.len()),
                session: entry
                    .file_name()
                    .to_str()
                    .and_then(|name| told.get(name))
                    .cloned()
                    .or_else(|| session_of(&path)),
                waits: listed.is_some(),
                path,
            })
        })
        .collect()
}

/// Does a marker name something in `folder`?
pub fn waits_in(place: &Place, folder: &Path) -> bool {
    backups::listed(place).iter().any(|p| p.path.starts_with(folder))
}

/// Removes one, unless it waits by now, and notes it in the project's log. Whether it is gone.
pub fn remove(place: &Place, raw: &Raw) -> Result<bool, RecordError> {
    let _lock = place.lock()?;
    if backups::listed(place).iter().any(|p| is_same(&p.path, &raw.path)) {
        return Ok(false);
    }
    fs::remove(&raw.path)?;
    backups::log_line(place, "pruned", "raw", raw.session.as_ref(), raw.stored, &raw.path)?;
    Ok(true)
}

/// A marker may name the same file by another way.
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

/// Whose the backups are that the log tells of, by their names.
fn told(place: &Place) -> HashMap<String, SessionId> {
    let log = fs::read(&place.dir.join(".backup-log"), 64 << 20).ok().flatten().unwrap_or_default();
    let line = |line: &str| {
        let session = line.split(' ').find_map(|word| word.strip_prefix("session="))?;
        let name = line.rsplit('/').next()?;
        Some((name.to_owned(), SessionId::new(session).ok()?))
    };
    String::from_utf8_lossy(&log).lines().filter_map(line).collect()
}

/// The session that the records of a transcript name; the first of them may be longer than what is looked at.
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
