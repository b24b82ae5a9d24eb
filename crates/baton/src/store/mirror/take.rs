//! Appends what was added to a transcript. Runs in hooks: a handful of system calls, no lock, no sync, no waiting.
//!
//! The copy is its own record: its length is how far it got, and its last bytes must equal the transcript's at the same
//! offset. The bytes compared and the bytes copied come from one read, and are written at their own offset: two
//! concurrent hooks write the same bytes to the same place, and a hook that is killed leaves a shorter copy.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use baton_core::ids::{SessionId, unsafe_name};
use rustix::fs::OFlags;

use crate::store::mirror::{
    GenerationBase, MAIN, Mirror, MirrorError, base_name, generation_name, live_name,
};
use crate::store::record;
use crate::sys::copy;
use crate::sys::fs::{self, FileError, PRIVATE};

/// How much one hook copies at most.
pub const PER_HOOK: u64 = 256 << 10;
/// How long a hook without tight limits copies the backlog.
pub(crate) const CATCH_UP: Duration = Duration::from_millis(300);
/// How many bytes at the end of the copy identify the transcript. They include a record's own id and time.
const TAIL: usize = 256;
/// How much to read at a time when copying more than one hook's share.
const CHUNK: u64 = 4 << 20;
/// The lock is held only for a rename. A hook that does not get it leaves the work to the next one.
const PATIENCE: Duration = Duration::from_millis(5);

/// The conversation that is copied.
#[derive(Debug, Clone, Copy)]
pub struct MirrorOrigin<'a> {
    pub session: &'a SessionId,
    pub provider: &'a str,
    /// The conversation's own file, even if a subagent's file is copied.
    pub transcript: &'a Path,
    pub cwd: &'a str,
}

/// How far a copy got.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CopyProgress {
    pub bytes: u64,
    /// Bytes that are left for the next hook.
    pub left: u64,
    /// The transcript was not the one copied before, so a new generation began.
    pub began: bool,
}

enum CopyOutcome {
    Took(CopyProgress),
    /// The file does not continue the copy.
    Diverged,
}

impl Mirror {
    /// Copies at most `limit` bytes of the conversation's own file.
    pub fn take(
        &self,
        origin: &MirrorOrigin<'_>,
        source: &File,
        limit: u64,
    ) -> Result<CopyProgress, MirrorError> {
        self.take_of(origin, source, len_of(source, origin.transcript)?, limit)
    }

    /// The same for a file whose length was just read.
    pub(crate) fn take_of(
        &self,
        origin: &MirrorOrigin<'_>,
        source: &File,
        len: u64,
        limit: u64,
    ) -> Result<CopyProgress, MirrorError> {
        self.take_part(origin, MAIN, (source, len), limit)
    }

    /// Copies at most `limit` bytes of a subagent's file. Skips names that cannot be a subagent's.
    pub(crate) fn take_file(
        &self,
        origin: &MirrorOrigin<'_>,
        path: &Path,
        limit: u64,
    ) -> Result<CopyProgress, MirrorError> {
        let Some(part) = part_name(path) else { return Ok(CopyProgress::default()) };
        let (source, about) = match fs::open_regular(path) {
            Ok(opened) => opened,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(CopyProgress::default()),
            Err(e) => return Err(FileError::new("read", path, e).into()),
        };
        self.take_part(origin, part, (&source, about.len()), limit)
    }

    /// Copies all of the conversation and its subagents, or as much as `patience` allows.
    pub fn catch_up(
        &self,
        origin: &MirrorOrigin<'_>,
        patience: Duration,
    ) -> Result<CopyProgress, MirrorError> {
        let began = Instant::now();
        let mut all = CopyProgress::default();
        let mut first = Ok(());
        let mut files = subagents(origin.transcript, None);
        files.insert(0, origin.transcript.to_owned());
        for (n, path) in files.iter().enumerate() {
            let part = if n == 0 { Some(MAIN) } else { part_name(path) };
            let Some(part) = part else { continue };
            // A file that cannot be read must not keep us from copying the others.
            match fs::open_read(path) {
                Ok(source) => {
                    let took = self.catch_up_part(origin, part, &source, began, patience);
                    let took = took.unwrap_or_else(|e| {
                        first = std::mem::replace(&mut first, Ok(())).and(Err(e));
                        CopyProgress::default()
                    });
                    all.bytes += took.bytes;
                    all.left += took.left;
                    all.began |= took.began;
                }
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => {
                    let e = FileError::new("read", path, e).into();
                    first = std::mem::replace(&mut first, Ok(())).and(Err(e));
                }
            }
        }
        first.map(|()| all)
    }

    fn catch_up_part(
        &self,
        origin: &MirrorOrigin<'_>,
        part: &str,
        source: &File,
        began: Instant,
        patience: Duration,
    ) -> Result<CopyProgress, MirrorError> {
        let mut all = CopyProgress::default();
        loop {
            let len = len_of(source, origin.transcript)?;
            let took = self.take_part(origin, part, (source, len), CHUNK)?;
            all = CopyProgress {
                bytes: all.bytes + took.bytes,
                left: took.left,
                began: all.began || took.began,
            };
            if took.left == 0 || took.bytes == 0 || began.elapsed() >= patience {
                return Ok(all);
            }
        }
    }

    /// Checks that `source` begins with the copy. Nothing else notices a change in the middle that kept the length, so
    /// the end of a session asks for it. A difference begins a new generation.
    pub fn compare(
        &self,
        origin: &MirrorOrigin<'_>,
        source: &File,
        most: u64,
    ) -> Result<CopyProgress, MirrorError> {
        let Some(mirrored) = self.of(origin.session)? else { return Ok(CopyProgress::default()) };
        // Use the reader of generations, because a cut one has its beginning in another.
        let held = mirrored.newest().filter(|(_, g)| g.live).and_then(|(part, g)| part.open(g).ok());
        if held.is_none_or(|mut held| same_beginning(source, &mut held, most)) {
            return Ok(CopyProgress::default());
        }
        self.renew(origin, MAIN, source, true, PER_HOOK)
    }

    /// `source` is the file and its length.
    fn take_part(
        &self,
        origin: &MirrorOrigin<'_>,
        part: &str,
        (source, len): (&File, u64),
        limit: u64,
    ) -> Result<CopyProgress, MirrorError> {
        let path = self.folder(origin.session).join(live_name(part));
        let Some(live) = open_live(&path)? else { return self.begin(origin, part, source, limit) };
        match append(&live, source, len, limit).map_err(|e| FileError::new("append to", &path, e))? {
            CopyOutcome::Took(took) => Ok(took),
            CopyOutcome::Diverged => self.renew(origin, part, source, false, limit),
        }
    }

    /// Starts a live copy if there is none yet.
    fn begin(
        &self,
        origin: &MirrorOrigin<'_>,
        part: &str,
        source: &File,
        limit: u64,
    ) -> Result<CopyProgress, MirrorError> {
        let folder = self.folder(origin.session);
        make_folder(&folder)?;
        let _lock = self.lock(origin.session, PATIENCE)?;
        let path = folder.join(live_name(part));
        let live = match open_live(&path)? {
            // Another hook was faster.
            Some(live) => live,
            None => self.create(origin, part, source)?,
        };
        let len = len_of(source, origin.transcript)?;
        match append(&live, source, len, limit).map_err(|e| FileError::new("append to", &path, e))? {
            CopyOutcome::Took(took) => Ok(CopyProgress { began: true, ..took }),
            // Rewritten at this very moment; the next hook notices.
            CopyOutcome::Diverged => Ok(CopyProgress { began: true, ..CopyProgress::default() }),
        }
    }

    /// Creates an empty live copy, or a whole one if the file system shares blocks. The caller holds the lock.
    fn create(&self, origin: &MirrorOrigin<'_>, part: &str, source: &File) -> Result<File, MirrorError> {
        let folder = self.folder(origin.session);
        // Left by a process that was killed before it created the matching file.
        fs::remove(&folder.join(base_name(part, self.next_number(origin.session, part)?)))?;
        self.note(origin, part)?;
        let path = folder.join(live_name(part));
        let fail = |e: io::Error| FileError::new("create", &path, e);
        let live = options().create_new(true).open(&path).map_err(fail)?;
        if source.metadata().map_err(fail)?.len() > PER_HOOK {
            copy::share_blocks(source, &live);
        }
        Ok(live)
    }

    /// Handles a transcript that was rewritten or cut: the copy becomes an earlier generation, and a new one begins.
    /// After a mere cut, the new one builds on the bytes that both share.
    fn renew(
        &self,
        origin: &MirrorOrigin<'_>,
        part: &str,
        source: &File,
        compared: bool,
        limit: u64,
    ) -> Result<CopyProgress, MirrorError> {
        let folder = self.folder(origin.session);
        let _lock = self.lock(origin.session, PATIENCE)?;
        let path = folder.join(live_name(part));
        let fail = |e: io::Error| FileError::new("begin a generation of", &path, e);
        let old = open_live(&path)?;
        // Check again under the lock: another hook may have renewed it meanwhile.
        let len = len_of(source, origin.transcript)?;
        if let (Some(live), false) = (&old, compared)
            && let CopyOutcome::Took(took) = append(live, source, len, limit).map_err(fail)?
        {
            return Ok(took);
        }
        let number = self.next_number(origin.session, part)?;
        if let Some(old) = &old {
            let shared = if compared { None } else { cut_at(old, source, len).map_err(fail)? };
            fs::rename_new(&path, &folder.join(generation_name(part, number)))?;
            if let Some(tail) = shared {
                let base = GenerationBase { of: number, len };
                record::write(&folder.join(base_name(part, number + 1)), &base)?;
                self.note(origin, part)?;
                copy::with_hole(&path, len, &tail)?;
                return Ok(CopyProgress { began: true, ..CopyProgress::default() });
            }
        }
        let live = self.create(origin, part, source)?;
        let len = len_of(source, origin.transcript)?;
        match append(&live, source, len, limit).map_err(fail)? {
            CopyOutcome::Took(took) => Ok(CopyProgress { began: true, ..took }),
            CopyOutcome::Diverged => Ok(CopyProgress { began: true, ..CopyProgress::default() }),
        }
    }

    /// Records where the bytes come from.
    fn note(&self, origin: &MirrorOrigin<'_>, part: &str) -> Result<(), FileError> {
        self.change_meta(origin.session, |meta| {
            origin.provider.clone_into(&mut meta.provider);
            origin.cwd.clone_into(&mut meta.cwd);
            meta.transcript = origin.transcript.display().to_string();
            if part != MAIN {
                let place = subagent_path(origin.transcript, part).display().to_string();
                meta.parts.insert(part.to_owned(), place);
            }
        })
    }

    /// The number that the live copy gets when it becomes an earlier generation. Fails if the folder cannot be listed,
    /// because a name that we do not see would be used twice.
    pub(super) fn next_number(&self, session: &SessionId, part: &str) -> Result<u32, FileError> {
        let names = fs::names(&self.folder(session))?;
        let last = names.iter().filter_map(|name| number_of(name, part)).max();
        Ok(last.unwrap_or(0) + 1)
    }
}

/// The generation that a file of `part` belongs to. Base files do not count, because one may belong to the live copy.
fn number_of(name: &str, part: &str) -> Option<u32> {
    let rest = name.strip_prefix(part)?.strip_prefix('.')?;
    let number = rest.strip_suffix(".jsonl").or_else(|| rest.strip_suffix(".jsonl.zst"))?;
    number.parse().ok()
}

/// `agent-x` of `…/subagents/agent-x.jsonl`. A dot would read as a generation's number.
fn part_name(path: &Path) -> Option<&str> {
    let name = path.file_name()?.to_str()?.strip_suffix(".jsonl")?;
    (unsafe_name(name).is_none() && name != MAIN && !name.contains('.')).then_some(name)
}

/// Where the client keeps a subagent's transcript.
pub(crate) fn subagent_path(transcript: &Path, part: &str) -> std::path::PathBuf {
    transcript.with_extension("").join("subagents").join(format!("{part}.jsonl"))
}

/// The transcripts of a conversation's subagents; only those that changed after `since`, if it is given.
pub fn subagents(transcript: &Path, since: Option<std::time::SystemTime>) -> Vec<std::path::PathBuf> {
    let dir = transcript.with_extension("").join("subagents");
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let changed = |e: &std::fs::DirEntry| {
        since.is_none_or(|s| e.metadata().and_then(|m| m.modified()).is_ok_and(|m| m >= s))
    };
    entries.filter(changed).map(|e| e.path()).filter(|p| part_name(p).is_some()).collect()
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .mode(PRIVATE)
        .custom_flags((OFlags::NOFOLLOW | OFlags::CLOEXEC).bits().cast_signed());
    options
}

fn open_live(path: &Path) -> Result<Option<File>, FileError> {
    match fs::open(path, OFlags::RDWR | OFlags::NOFOLLOW, 0) {
        Ok(file) => Ok(Some(file)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(FileError::new("open", path, e)),
    }
}

/// Makes the folder without a sync, for which a hook has no time. Its content can be copied again.
fn make_folder(folder: &Path) -> Result<(), FileError> {
    if let Some(above) = folder.parent()
        && !above.is_dir()
    {
        fs::private_dir(above)?;
    }
    match std::fs::DirBuilder::new().mode(0o700).create(folder) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
            Err(FileError::new("create the folder", folder, e))
        }
        _ => Ok(()),
    }
}

fn len_of(source: &File, path: &Path) -> Result<u64, FileError> {
    source.metadata().map(|about| about.len()).map_err(|e| FileError::new("read", path, e))
}

/// Appends at most `limit` bytes of `source`, which has `len` bytes, to `live`, if `source` continues it.
fn append(live: &File, source: &File, len: u64, limit: u64) -> io::Result<CopyOutcome> {
    let have = live.metadata()?.len();
    if len < have {
        return Ok(CopyOutcome::Diverged);
    }
    let tail = have.min(TAIL as u64);
    let wanted = tail + (len - have).min(limit);
    let mut bytes = vec![0; usize::try_from(wanted).unwrap_or(usize::MAX)];
    let got = read_at(source, &mut bytes, have - tail)?;
    let tail_len = usize::try_from(tail).unwrap_or(usize::MAX);
    let mut ours = [0; TAIL];
    let ours = &mut ours[..tail_len];
    if got < tail_len || read_at(live, ours, have - tail)? < tail_len || bytes[..tail_len] != *ours {
        return Ok(CopyOutcome::Diverged);
    }
    let grown = &bytes[tail_len..got];
    if !grown.is_empty() {
        live.write_all_at(grown, have)?;
    }
    let bytes = grown.len() as u64;
    Ok(CopyOutcome::Took(CopyProgress { bytes, left: (len - have).saturating_sub(bytes), began: false }))
}

/// The last bytes of `source`, which has `len` bytes, if `live` begins with it.
fn cut_at(live: &File, source: &File, len: u64) -> io::Result<Option<Vec<u8>>> {
    if len == 0 || len >= live.metadata()?.len() {
        return Ok(None);
    }
    let tail = tail_of(source, len)?;
    let same = tail.len() as u64 == len.min(TAIL as u64) && tail == tail_of(live, len)?;
    Ok(same.then_some(tail))
}

/// The last bytes before `end`.
fn tail_of(file: &File, end: u64) -> io::Result<Vec<u8>> {
    let tail = end.min(TAIL as u64);
    let mut bytes = vec![0; usize::try_from(tail).unwrap_or(0)];
    let got = read_at(file, &mut bytes, end - tail)?;
    bytes.truncate(got);
    Ok(bytes)
}

/// Whether `source` begins with the first `most` bytes of `held`.
fn same_beginning(source: &File, held: &mut dyn Read, most: u64) -> bool {
    let mut held = held.take(most);
    let (mut ours, mut theirs) = (vec![0; 256 << 10], vec![0; 256 << 10]);
    let (mut at, began) = (0, Instant::now());
    // A slow disk must not delay a hook: treat the part that was not compared in time as equal.
    while began.elapsed() < CATCH_UP {
        // A read error proves nothing, so do not start a new generation.
        let Ok(got) = held.read(&mut ours) else { return true };
        if got == 0 {
            return true;
        }
        match read_at(source, &mut theirs[..got], at) {
            Ok(n) if n == got && ours[..got] == theirs[..got] => at += got as u64,
            Ok(_) => return false,
            Err(_) => return true,
        }
    }
    true
}

/// Reads until the buffer is full or the file ends.
fn read_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    let mut got = 0;
    while got < buffer.len() {
        match file.read_at(&mut buffer[got..], at + got as u64) {
            Ok(0) => break,
            Ok(n) => got += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(got)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file where the folder belongs cannot be listed.
    #[test]
    fn a_folder_that_cannot_be_listed_gives_no_number_that_may_be_taken() {
        let dir = tempfile::tempdir().unwrap();
        let mirror = Mirror::new(dir.path());
        let session = SessionId::new("s-1").unwrap();
        assert_eq!(mirror.next_number(&session, MAIN).unwrap(), 1, "nothing is there yet");
        std::fs::create_dir_all(mirror.folder(&session)).unwrap();
        std::fs::write(mirror.folder(&session).join("main.1.jsonl.zst"), "").unwrap();
        assert_eq!(mirror.next_number(&session, MAIN).unwrap(), 2);
        std::fs::remove_dir_all(mirror.folder(&session)).unwrap();
        std::fs::write(mirror.folder(&session), "").unwrap();
        assert!(mirror.next_number(&session, MAIN).is_err());
    }
}
