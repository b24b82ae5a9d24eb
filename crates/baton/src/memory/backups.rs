//! Raw backups: a whole transcript set aside when a session ends or is about to be compacted, and the list of those
//! that nobody has looked at yet.
//!
//! `.pending-backup` holds the path of the newest, for people and scripts; `.pending.json` lists all.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use baton_core::ids::SessionId;
use baton_core::session::Session;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Place, active};
use crate::store::Store;
use crate::store::record::{self, RecordError};
use crate::sys::copy;
use crate::sys::fs::{self, FileError, PRIVATE, Sync};

/// Larger ones are not copied a second time in a hook: the mirror is the backup.
const MAX_COPY: u64 = 128 << 20;

/// Why a backup was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why<'a> {
    /// The session ended, for this reason.
    End(&'a str),
    PreCompact,
    /// It is over, and nobody said so.
    Crash,
}

impl Why<'_> {
    /// The word after the stamp in the file's name.
    fn suffix(self) -> Option<String> {
        match self {
            Self::PreCompact => None,
            Self::Crash => Some("crash".to_owned()),
            Self::End(reason) => {
                let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
                let word: String = reason.chars().filter(|c| plain(*c)).take(40).collect();
                Some(if word.is_empty() { "other".to_owned() } else { word })
            }
        }
    }
}

/// A backup that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    pub path: PathBuf,
    /// `None` for a marker that somebody else wrote.
    #[serde(default)]
    pub session: Option<SessionId>,
    /// `precompact`, `crash`, or how the session ended.
    pub why: String,
    pub at: Timestamp,
    #[serde(default)]
    pub bytes: u64,
}

impl Pending {
    /// Is there something to read: the file itself, or the mirror of its session?
    pub fn is_there(&self, store: &Store) -> bool {
        self.path.is_file() || self.mirrored(store).is_some()
    }

    fn mirrored(&self, store: &Store) -> Option<crate::store::mirror::Mirrored> {
        store.mirror().of(self.session.as_ref()?).ok().flatten().filter(|m| m.newest().is_some())
    }

    pub fn open(&self, store: &Store) -> io::Result<Box<dyn Read + Send>> {
        match fs::open_read(&self.path) {
            Ok(file) => Ok(Box::new(file)),
            Err(e) => {
                let Some(mirrored) = self.mirrored(store) else { return Err(e) };
                let (part, generation) = mirrored.newest().ok_or(e)?;
                part.open(generation)
            }
        }
    }
}

fn list_path(place: &Place) -> PathBuf {
    place.dir.join(".pending.json")
}

pub fn marker_path(place: &Place) -> PathBuf {
    place.dir.join(".pending-backup")
}

/// Everything that waits, oldest first, as it is written down.
pub(super) fn listed(place: &Place) -> Vec<Pending> {
    let mut all: Vec<Pending> = record::read(&list_path(place)).ok().flatten().unwrap_or_default();
    // A marker by another script counts as well.
    if let Ok(Some(bytes)) = fs::read(&marker_path(place), 64 << 10) {
        let path = PathBuf::from(String::from_utf8_lossy(&bytes).trim());
        let at = std::fs::metadata(&path).and_then(|m| m.modified()).ok();
        if path.is_absolute() && !all.iter().any(|p| p.path == path) {
            let at = at.and_then(|t| Timestamp::try_from(t).ok()).unwrap_or_default();
            let bytes = std::fs::metadata(&path).map_or(0, |m| m.len());
            all.push(Pending { path, session: None, why: "marked".to_owned(), at, bytes });
        }
    }
    all
}

/// What waits and can be read, newest first; what is gone is taken off the list.
pub fn pending(store: &Store, place: &Place) -> Vec<Pending> {
    let mut all = listed(place);
    if all.iter().any(|p| !p.is_there(store)) {
        // A list that cannot be mended is only longer than it should be.
        let _ = settle(place, "stale", |p| !p.is_there(store));
        all.retain(|p| p.is_there(store));
    }
    all.reverse();
    all
}

/// Takes those that `done` names off the list. What they were is noted in the log; returns how many there were.
pub fn settle(
    place: &Place,
    how: &str,
    done: impl Fn(&Pending) -> bool,
) -> Result<Vec<Pending>, RecordError> {
    if !list_path(place).exists() && !marker_path(place).exists() {
        return Ok(Vec::new());
    }
    let _lock = place.lock()?;
    let (gone, kept): (Vec<Pending>, Vec<Pending>) = listed(place).into_iter().partition(done);
    if gone.is_empty() {
        return Ok(gone);
    }
    for one in &gone {
        log(place, how, one)?;
    }
    write_list(place, &kept)?;
    Ok(gone)
}

fn write_list(place: &Place, all: &[Pending]) -> Result<(), FileError> {
    let Some(newest) = all.last() else {
        fs::remove(&marker_path(place))?;
        return fs::remove(&list_path(place));
    };
    record::write(&list_path(place), &all)?;
    let text = format!("{}\n", newest.path.display());
    fs::replace(&marker_path(place), text.as_bytes(), PRIVATE, Sync::Later)
}

fn log(place: &Place, what: &str, about: &Pending) -> Result<(), FileError> {
    log_line(place, what, &about.why, about.session.as_ref(), about.bytes, &about.path)
}

/// One line per event in `.backup-log`.
pub(super) fn log_line(
    place: &Place,
    what: &str,
    why: &str,
    session: Option<&SessionId>,
    bytes: u64,
    path: &Path,
) -> Result<(), FileError> {
    let session = session.map_or("?", SessionId::as_str);
    let path = path.strip_prefix(&place.dir).unwrap_or(path);
    let line = format!(
        "{} {what} {why} session={session} bytes={bytes} {}\n",
        Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ"),
        path.display()
    );
    fs::append_line(&place.dir.join(".backup-log"), line.as_bytes(), PRIVATE)
}

/// Sets the session's transcript aside. `None` if there is nothing in it.
pub fn make(
    store: &Store,
    place: &Place,
    session: &Session,
    why: Why<'_>,
    now: Timestamp,
) -> Result<Option<Pending>, RecordError> {
    let Some((path, bytes)) = set_aside(store, place, session, why, now)? else { return Ok(None) };
    let word = match why {
        Why::End(reason) => reason,
        Why::PreCompact => "precompact",
        Why::Crash => "crash",
    };
    let made = Pending {
        path,
        session: Some(session.id.clone()),
        why: baton_core::plain::plain_line(word, 40),
        at: now,
        bytes,
    };
    fs::private_dir(place.dir.parent().unwrap_or(Path::new("/")))?;
    if place.project.is_none() {
        fs::private_dir(&place.dir)?;
    }
    {
        let _lock = place.lock()?;
        let mut all = listed(place);
        all.retain(|p| p.path != made.path);
        all.push(made.clone());
        write_list(place, &all)?;
        log(place, "backup", &made)?;
    }
    if let (Some(_), Why::End(_)) = (&place.project, why) {
        let backup = made.path.strip_prefix(&place.dir).unwrap_or(&made.path).display().to_string();
        active::stamp_end(place, &session.id, &made.why, &backup, now)?;
    }
    Ok(Some(made))
}

/// The backup's path and length. In a project a file of its own, made from the bytes that the mirror has; elsewhere
/// the mirror itself.
fn set_aside(
    store: &Store,
    place: &Place,
    session: &Session,
    why: Why<'_>,
    now: Timestamp,
) -> Result<Option<(PathBuf, u64)>, FileError> {
    let transcript = session.transcript.as_deref().map(Path::new);
    let own = transcript.and_then(|t| Some((t, fs::open_read(t).ok()?)));
    let own = own.and_then(|(t, file)| Some((t, file.metadata().ok()?.len(), file))).filter(|o| o.1 > 0);
    let mirrored = store.mirror().of(&session.id)?;
    let copy = mirrored.as_ref().and_then(|m| m.newest()).filter(|(_, g)| g.bytes > 0);
    let Some(project) = &place.project else {
        // What the mirror has is the backup; without it there is the client's own file.
        return Ok(match (copy, own) {
            (Some((_, generation)), _) => Some((generation.path.clone(), generation.bytes)),
            (None, Some((path, len, _))) => Some((path.to_owned(), len)),
            (None, None) => None,
        });
    };
    let from = match (&own, copy) {
        // The mirror's bytes are the same ones, and on most file systems sharing them costs nothing.
        (Some((_, len, _)), Some((part, g))) if g.bytes == *len && part.plain_file(g).is_some() => {
            fs::open_read(&g.path).ok().map(|file| (file, g.bytes))
        }
        (Some((_, len, file)), _) => file.try_clone().ok().map(|file| (file, *len)),
        // The client has deleted it already.
        (None, Some((part, g))) if part.plain_file(g).is_some() => {
            fs::open_read(&g.path).ok().map(|file| (file, g.bytes))
        }
        (None, _) => None,
    };
    let Some((from, len)) = from else { return Ok(None) };
    if len > MAX_COPY
        && let Some((_, generation)) = copy
    {
        return Ok(Some((generation.path.clone(), generation.bytes)));
    }
    let raw = super::folder(project).join("raw");
    fs::private_dir(&raw)?;
    // Left by a hook that was killed.
    fs::sweep_temps(&raw, |pid| crate::sys::process::identify(pid).is_some())?;
    let stamp = now.strftime("%Y%m%d_%H%M%S").to_string();
    let suffix = why.suffix().map(|w| format!("_{w}")).unwrap_or_default();
    for n in 1..1000 {
        // Two in one second.
        let again = if n == 1 { String::new() } else { format!("-{n}") };
        let path = raw.join(format!("{stamp}{suffix}{again}.jsonl"));
        match copy::copy_new(&from, len, &path) {
            Err(e) if e.source.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
            Ok(()) => return Ok(Some((path, len))),
        }
    }
    Err(FileError::new(
        "create",
        &raw,
        io::Error::other("a thousand backups of this second are there already"),
    ))
}

/// Removes the file of a backup, unless it is the mirror itself. Whether there was one.
pub fn remove_file(store: &Store, place: &Place, backup: &Pending) -> Result<bool, FileError> {
    let ours = backup.path.starts_with(place.raw()) && !backup.path.starts_with(store.state.join("mirror"));
    let there = ours && backup.path.is_file();
    if there {
        fs::remove(&backup.path)?;
    }
    Ok(there)
}
