//! Raw backups: a whole transcript, set aside when a session ends or is about to be compacted, and the list of those
//! that nobody has looked at yet.
//!
//! `.pending-backup` holds the path of the newest, for people and scripts; `.pending.json` lists all.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use baton_core::ids::SessionId;
use baton_core::session::{Session, Turn};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::project::channel::real;
use crate::project::memory::{MemoryDir, active};
use crate::store::Store;
use crate::store::record::{self, RecordError};
use crate::sys::copy;
use crate::sys::fs::{self, FileError, PRIVATE, Sync};

/// A larger transcript is not copied a second time in a hook: its mirror is the backup.
const MAX_COPY: u64 = 128 << 20;

/// Why a backup was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BackupReason<'a> {
    /// The session ended, for this reason.
    End(&'a str),
    PreCompact,
    /// The session is over, and no hook reported it.
    Crash,
}

impl BackupReason<'_> {
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

/// A pending backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PendingBackup {
    pub path: PathBuf,
    /// `None` for a marker that someone else wrote.
    #[serde(default)]
    pub session: Option<SessionId>,
    /// `precompact`, `crash`, or how the session ended.
    pub why: String,
    /// When its session's work stopped, which may be long before the backup was made.
    pub at: Timestamp,
    #[serde(default)]
    pub bytes: u64,
}

impl PendingBackup {
    /// Whether there is something to read. A file of the mirror may have been compressed since, under another name; any
    /// other file is there under its own name or not at all. What cannot be checked may be there.
    pub(crate) fn is_there(&self, store: &Store) -> bool {
        let is_file = std::fs::metadata(&self.path).map(|meta| meta.is_file());
        match is_file {
            Ok(is_file) => is_file,
            Err(e) if e.kind() != io::ErrorKind::NotFound && e.kind() != io::ErrorKind::NotADirectory => true,
            Err(_) => self.mirror_of(store).is_some_and(|session| {
                let kept = store.mirror().of(session);
                kept.map_or(true, |found| found.is_some_and(|m| m.newest().is_some()))
            }),
        }
    }

    /// Whether this is a backup of `place`. Anyone may have written a list inside a project, so only files of that
    /// project are accepted, and the mirrors of sessions that ran there.
    fn belongs_to(&self, store: &Store, place: &MemoryDir) -> bool {
        let Some(project) = &place.project else { return true };
        let in_project =
            || std::fs::canonicalize(&self.path).is_ok_and(|path| path.starts_with(real(project)));
        let ran_here = |id: &SessionId| {
            let session = store.sessions().readable(id);
            session.is_some_and(|session| real(Path::new(&session.cwd)).starts_with(real(project)))
        };
        in_project() || self.mirror_of(store).is_some_and(ran_here)
    }

    /// The session whose mirror is the backup.
    fn mirror_of(&self, store: &Store) -> Option<&SessionId> {
        let session = self.session.as_ref()?;
        (self.path.parent() == Some(&store.mirror().folder(session))).then_some(session)
    }

    fn mirrored(&self, store: &Store) -> Option<crate::store::mirror::MirroredSession> {
        store.mirror().of(self.mirror_of(store)?).ok().flatten().filter(|m| m.newest().is_some())
    }

    /// Whether it is where we put backups, under a name of our form: a stamp, and the client's own word for how the
    /// session ended. Other names could be sentences, which an agent would read.
    pub(crate) fn has_plain_name(&self, place: &MemoryDir) -> bool {
        const ENDS: [&str; 10] = [
            "",
            "clear",
            "compact",
            "crash",
            "exit",
            "logout",
            "other",
            "prompt_input_exit",
            "resume",
            "bypass_permissions_disabled",
        ];
        let is_in_raw = self.path.parent().is_some_and(|dir| dir == place.raw());
        let name =
            self.path.file_name().and_then(|name| name.to_str()).filter(|_| is_in_raw).unwrap_or_default();
        let Some((stamp, rest)) = name.split_at_checked(15) else { return false };
        let is_stamp =
            stamp.bytes().enumerate().all(|(i, b)| if i == 8 { b == b'_' } else { b.is_ascii_digit() });
        // claude-memory's scripts say that the stamp is UTC.
        let rest = rest.strip_prefix('Z').unwrap_or(rest).strip_suffix(".jsonl").unwrap_or("-");
        let digits = rest.bytes().rev().take_while(u8::is_ascii_digit).count().min(3);
        let numbered = rest[..rest.len() - digits].strip_suffix('-').filter(|_| digits > 0);
        let end = numbered.unwrap_or(rest);
        is_stamp && ENDS.contains(&end.strip_prefix('_').unwrap_or(end))
    }

    pub(crate) fn open(&self, store: &Store) -> io::Result<Box<dyn Read + Send>> {
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

fn list_path(place: &MemoryDir) -> PathBuf {
    place.dir.join(".pending.json")
}

pub(crate) fn marker_path(place: &MemoryDir) -> PathBuf {
    place.dir.join(".pending-backup")
}

/// The markers of claude-memory's scripts, one for each way a backup is made. Only read, and removed once they are
/// settled.
const OTHER_MARKERS: [&str; 2] = [".pending-backup-compact", ".pending-backup-exit"];

fn markers(place: &MemoryDir) -> impl Iterator<Item = PathBuf> {
    OTHER_MARKERS.iter().map(|name| place.dir.join(name)).chain([marker_path(place)])
}

/// All pending backups, oldest first, as they are recorded.
pub(super) fn listed(place: &MemoryDir) -> Result<Vec<PendingBackup>, FileError> {
    let mut all: Vec<PendingBackup> = record::read(&list_path(place))?.unwrap_or_default();
    // Include the markers of other scripts.
    for marker in markers(place) {
        let bytes = match fs::read(&marker, 64 << 10) {
            Err(e) if e.may_be_sound() => return Err(e),
            // A link or a folder under its name is not a marker.
            Ok(None) | Err(_) => continue,
            Ok(Some(bytes)) => bytes,
        };
        if bytes.trim_ascii().is_empty() {
            continue;
        }
        let path = marked_path(place, Path::new(String::from_utf8_lossy(&bytes).trim()));
        let at = std::fs::metadata(&path).and_then(|m| m.modified()).ok();
        if !all.iter().any(|p| p.path == path) {
            let at = at.and_then(|t| Timestamp::try_from(t).ok()).unwrap_or_default();
            let bytes = std::fs::metadata(&path).map_or(0, |m| m.len());
            all.push(PendingBackup { path, session: None, why: "marked".to_owned(), at, bytes });
        }
    }
    all.sort_by_key(|p| p.at);
    Ok(all)
}

/// Resolves a path of other people's scripts, which is relative to the project or to its memory.
fn marked_path(place: &MemoryDir, path: &Path) -> PathBuf {
    let project = place.project.as_deref().unwrap_or(&place.dir);
    let tries = [project.join(path), place.dir.join(path)];
    tries.iter().find(|p| p.is_file()).unwrap_or(&tries[0]).clone()
}

/// Pending backups that can be read, newest first. Drops entries whose file is gone.
pub(crate) fn pending(store: &Store, place: &MemoryDir) -> Vec<PendingBackup> {
    let mut all = listed(place).unwrap_or_else(|e| {
        store.log().fault(Timestamp::now(), "read the list of backups that wait", &e);
        Vec::new()
    });
    if all.iter().any(|p| !p.is_there(store)) {
        // If the list cannot be corrected, it is only longer than it should be.
        let _ = settle(place, "stale", |p| !p.is_there(store));
        all.retain(|p| p.is_there(store));
    }
    all.retain(|p| p.belongs_to(store, place));
    all.reverse();
    all
}

/// Settles `newest` and everything older, because nobody returns to backups older than the one they have seen. The
/// files stay.
pub(crate) fn settle_up_to(
    place: &MemoryDir,
    how: &str,
    newest: &PendingBackup,
) -> Result<Vec<PendingBackup>, RecordError> {
    settle(place, how, |p| p.at <= newest.at)
}

/// Removes the backups that `done` picks from the list, notes them in the log, and returns them.
pub(crate) fn settle(
    place: &MemoryDir,
    how: &str,
    done: impl Fn(&PendingBackup) -> bool,
) -> Result<Vec<PendingBackup>, RecordError> {
    if !list_path(place).exists() && !markers(place).any(|marker| marker.exists()) {
        return Ok(Vec::new());
    }
    let _lock = place.lock()?;
    let (gone, kept): (Vec<PendingBackup>, Vec<PendingBackup>) = listed(place)?.into_iter().partition(done);
    if gone.is_empty() {
        return Ok(gone);
    }
    for one in &gone {
        log(place, how, one)?;
    }
    write_list(place, &kept)?;
    Ok(gone)
}

fn write_list(place: &MemoryDir, all: &[PendingBackup]) -> Result<(), FileError> {
    // The list has their backups, if still pending.
    for name in OTHER_MARKERS {
        fs::remove(&place.dir.join(name))?;
    }
    let Some(newest) = all.last() else {
        fs::remove(&marker_path(place))?;
        return fs::remove(&list_path(place));
    };
    record::write(&list_path(place), &all)?;
    let text = format!("{}\n", newest.path.display());
    fs::replace(&marker_path(place), text.as_bytes(), PRIVATE, Sync::Later)
}

fn log(place: &MemoryDir, what: &str, about: &PendingBackup) -> Result<(), FileError> {
    log_line(place, what, &about.why, about.session.as_ref(), about.bytes, &about.path)
}

/// One line per event in `.backup-log`.
pub(super) fn log_line(
    place: &MemoryDir,
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

/// Sets the session's transcript aside. `None` if it is empty.
pub(crate) fn make(
    store: &Store,
    place: &MemoryDir,
    session: &Session,
    why: BackupReason<'_>,
    now: Timestamp,
) -> Result<Option<PendingBackup>, RecordError> {
    let Some((path, bytes)) = set_aside(store, place, session, why, now)? else { return Ok(None) };
    let word = match why {
        BackupReason::End(reason) => reason,
        BackupReason::PreCompact => "precompact",
        BackupReason::Crash => "crash",
    };
    let made = PendingBackup {
        path,
        session: Some(session.id.clone()),
        why: baton_core::plain::plain_line(word, 40),
        at: work_stopped(session, now),
        bytes,
    };
    fs::private_dir(place.dir.parent().unwrap_or(Path::new("/")))?;
    if place.project.is_none() {
        fs::private_dir(&place.dir)?;
    }
    {
        let _lock = place.lock()?;
        let mut all = listed(place)?;
        all.retain(|p| p.path != made.path);
        all.push(made.clone());
        all.sort_by_key(|p| p.at);
        write_list(place, &all)?;
        log(place, "backup", &made)?;
    }
    if let (Some(_), BackupReason::End(_)) = (&place.project, why) {
        let backup = made.path.strip_prefix(&place.dir).unwrap_or(&made.path).display().to_string();
        active::stamp_end(place, &session.id, &made.why, &backup, now)?;
    }
    Ok(Some(made))
}

/// When the work of a session stopped. A session that was closed hours after its last turn, or found dead the next day,
/// is not newer than what was done in between.
fn work_stopped(session: &Session, now: Timestamp) -> Timestamp {
    let last_record = || {
        let modified = std::fs::metadata(session.transcript.as_deref()?).and_then(|meta| meta.modified());
        Timestamp::try_from(modified.ok()?).ok()
    };
    // In the middle of a turn, the time of its last record.
    let last = if session.turn == Turn::Working { last_record() } else { None };
    last.or(session.turn_since).unwrap_or(now).min(now)
}

/// Returns the backup's path and length. In a project it is a separate file, made from the mirror's bytes; elsewhere it
/// is the mirror itself.
fn set_aside(
    store: &Store,
    place: &MemoryDir,
    session: &Session,
    why: BackupReason<'_>,
    now: Timestamp,
) -> Result<Option<(PathBuf, u64)>, FileError> {
    let open = |path: &Path| fs::open_read(path).map_err(|e| FileError::new("open", path, e));
    let own = session.transcript.as_deref().map(Path::new).map(|path| (path, fs::open_regular(path)));
    let mirrored = store.mirror().of(&session.id)?;
    let copy = mirrored.as_ref().and_then(|m| m.newest()).map(|(_, g)| g).filter(|g| g.bytes > 0);
    let own = match own {
        Some((path, Ok((file, about)))) => Some((path, about.len(), file)).filter(|_| about.len() > 0),
        Some((_, Err(e))) if e.kind() == io::ErrorKind::NotFound => None,
        Some((path, Err(e))) => match FileError::new("open", path, e) {
            e if e.may_be_sound() && copy.is_none() => return Err(e),
            _ => None,
        },
        None => None,
    };
    let Some(project) = &place.project else {
        // The mirror is the backup or, without one, the client's own file.
        return Ok(match (copy, own) {
            (Some(generation), _) => Some((generation.path.clone(), generation.bytes)),
            (None, Some((path, len, _))) => Some((path.to_owned(), len)),
            (None, None) => None,
        });
    };
    let from = match (&own, copy) {
        // The mirror has the same bytes, and on most file systems sharing them costs nothing.
        (Some((_, len, _)), Some(g)) if g.bytes == *len && g.plain_file().is_some() => {
            Some((open(&g.path)?, g.bytes))
        }
        (Some((path, len, _)), _) => Some((open(path)?, *len)),
        // The client has deleted it already.
        (None, Some(g)) if g.plain_file().is_some() => Some((open(&g.path)?, g.bytes)),
        (None, _) => None,
    };
    let Some((from, len)) = from else { return Ok(None) };
    if len > MAX_COPY
        && let Some(generation) = copy
    {
        return Ok(Some((generation.path.clone(), generation.bytes)));
    }
    let raw = crate::project::memory::folder(project).join("raw");
    fs::refuse_links_between(project, &raw)?;
    fs::private_dir(&raw)?;
    // These are raw conversations, secrets included: git must never track them, whatever the project's own rules say.
    fs::create(&raw.join(".gitignore"), b"*\n", PRIVATE, Sync::No)?;
    // Left by a hook that was killed.
    fs::sweep_temps(&raw, |pid| crate::sys::process::identify(pid).is_some())?;
    let stamp = now.strftime("%Y%m%d_%H%M%S").to_string();
    let suffix = why.suffix().map(|w| format!("_{w}")).unwrap_or_default();
    for n in 1..1000 {
        // Two backups in one second.
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

/// Removes the file of a backup, if it is in the project's `raw/`. Returns whether there was one.
pub(crate) fn remove_file(place: &MemoryDir, backup: &PendingBackup) -> Result<bool, FileError> {
    let (Some(dir), Some(name)) = (backup.path.parent(), backup.path.file_name()) else { return Ok(false) };
    // Anybody may have written the list, so check where the file really is.
    let is_in_raw = fs::is_plain_dir(&place.raw()) && real(dir) == real(&place.raw());
    let path = place.raw().join(name);
    let is_there = is_in_raw && std::fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_file());
    if is_there {
        fs::remove(&path)?;
        let named = path.strip_prefix(&place.dir).unwrap_or(&path).display().to_string();
        active::forget_backup(place, &named)?;
    }
    Ok(is_there)
}
