//! Appends what a transcript grew by. Runs in hooks: a handful of system calls, no lock, no sync, no waiting.
//!
//! The copy is its own record: its length is how far it got, and its last bytes must be those of the transcript at
//! the same place. The bytes compared and the bytes taken come from one read, and they are written at their place:
//! two hooks at once write the same bytes to the same place, and a hook that is killed leaves a shorter copy.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use baton_core::ids::{SessionId, unsafe_name};
use rustix::fs::OFlags;

use super::{Base, MAIN, Mirror, MirrorError, base_name, generation_name, live_name};
use crate::store::record;
use crate::sys::copy;
use crate::sys::fs::{self, FileError, PRIVATE};

/// What one hook takes at most.
pub const PER_HOOK: u64 = 256 << 10;
/// How long a hook that may take a moment goes on with what was left behind.
pub const CATCH_UP: Duration = Duration::from_millis(300);
/// So many bytes at the end of the copy tell whether the transcript is the same one. They hold a record's own id
/// and time.
const TAIL: usize = 256;
/// How much is read at a time when more than one hook's share is taken.
const CHUNK: u64 = 4 << 20;
/// The lock is held for the blink of a rename. A hook that does not get it leaves the matter to the next one.
const PATIENCE: Duration = Duration::from_millis(5);

/// Whose bytes are taken.
#[derive(Debug, Clone, Copy)]
pub struct Origin<'a> {
    pub session: &'a SessionId,
    pub provider: &'a str,
    /// The conversation's own file, also when a subagent's is taken.
    pub transcript: &'a Path,
    pub cwd: &'a str,
}

/// How far it got.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Took {
    pub bytes: u64,
    /// Bytes that are left for the next one.
    pub left: u64,
    /// The transcript was not the one that had been copied: a new generation began.
    pub began: bool,
}

enum Step {
    Took(Took),
    /// The copy does not continue in this file.
    Diverged,
}

impl Mirror {
    /// Takes at most `limit` bytes of the conversation's own file.
    pub fn take(&self, origin: &Origin<'_>, source: &File, limit: u64) -> Result<Took, MirrorError> {
        self.take_part(origin, MAIN, source, limit)
    }

    /// Takes at most `limit` bytes of a subagent's file. A name that cannot be one of ours is passed over.
    pub fn take_file(&self, origin: &Origin<'_>, path: &Path, limit: u64) -> Result<Took, MirrorError> {
        let Some(part) = part_name(path) else { return Ok(Took::default()) };
        let source = match fs::open_read(path) {
            Ok(source) => source,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Took::default()),
            Err(e) => return Err(FileError::new("read", path, e).into()),
        };
        self.take_part(origin, part, &source, limit)
    }

    /// Takes all of the conversation and its subagents, or as much as `patience` lets it.
    pub fn catch_up(&self, origin: &Origin<'_>, patience: Duration) -> Result<Took, MirrorError> {
        let began = Instant::now();
        let mut all = Took::default();
        let mut first = Ok(());
        let mut files = subagents(origin.transcript, None);
        files.insert(0, origin.transcript.to_owned());
        for (n, path) in files.iter().enumerate() {
            let part = if n == 0 { Some(MAIN) } else { part_name(path) };
            let Some(part) = part else { continue };
            // One that cannot be read keeps none of the others from being kept.
            match fs::open_read(path) {
                Ok(source) => {
                    let took = self.catch_up_part(origin, part, &source, began, patience);
                    let took = took.unwrap_or_else(|e| {
                        first = std::mem::replace(&mut first, Ok(())).and(Err(e));
                        Took::default()
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
        origin: &Origin<'_>,
        part: &str,
        source: &File,
        began: Instant,
        patience: Duration,
    ) -> Result<Took, MirrorError> {
        let mut all = Took::default();
        loop {
            let took = self.take_part(origin, part, source, CHUNK)?;
            all = Took { bytes: all.bytes + took.bytes, left: took.left, began: all.began || took.began };
            if took.left == 0 || took.bytes == 0 || began.elapsed() >= patience {
                return Ok(all);
            }
        }
    }

    /// Is the copy, as far as it goes, what `source` holds? A change in the middle that kept the length is seen by
    /// nothing else, so a session's end asks for it. A difference begins a new generation.
    pub fn compare(&self, origin: &Origin<'_>, source: &File, most: u64) -> Result<Took, MirrorError> {
        let Some(mirrored) = self.of(origin.session)? else { return Ok(Took::default()) };
        // Through the reader of generations: one that was cut has its beginning in another.
        let held = mirrored.newest().filter(|(_, g)| g.live).and_then(|(part, g)| part.open(g).ok());
        if held.is_none_or(|mut held| same_beginning(source, &mut held, most)) {
            return Ok(Took::default());
        }
        self.renew(origin, MAIN, source, true, PER_HOOK)
    }

    fn take_part(
        &self,
        origin: &Origin<'_>,
        part: &str,
        source: &File,
        limit: u64,
    ) -> Result<Took, MirrorError> {
        let path = self.folder(origin.session).join(live_name(part));
        let Some(live) = open_live(&path)? else { return self.begin(origin, part, source, limit) };
        match append(&live, source, limit).map_err(|e| FileError::new("append to", &path, e))? {
            Step::Took(took) => Ok(took),
            Step::Diverged => self.renew(origin, part, source, false, limit),
        }
    }

    /// There is no live copy yet.
    fn begin(&self, origin: &Origin<'_>, part: &str, source: &File, limit: u64) -> Result<Took, MirrorError> {
        let folder = self.folder(origin.session);
        make_folder(&folder)?;
        let _lock = self.lock(origin.session, PATIENCE)?;
        let path = folder.join(live_name(part));
        let live = match open_live(&path)? {
            // Another hook was faster.
            Some(live) => live,
            None => self.create(origin, part, source)?,
        };
        match append(&live, source, limit).map_err(|e| FileError::new("append to", &path, e))? {
            Step::Took(took) => Ok(Took { began: true, ..took }),
            // Rewritten this very moment: the next hook sees it.
            Step::Diverged => Ok(Took { began: true, ..Took::default() }),
        }
    }

    /// An empty live copy, or at once a whole one where the file system shares blocks. The caller holds the lock.
    fn create(&self, origin: &Origin<'_>, part: &str, source: &File) -> Result<File, MirrorError> {
        let folder = self.folder(origin.session);
        // Left by one who was killed before it made what this describes.
        fs::remove(&folder.join(base_name(part, self.next_number(origin.session, part))))?;
        self.note(origin, part)?;
        let path = folder.join(live_name(part));
        let fail = |e: io::Error| FileError::new("create", &path, e);
        let live = options().create_new(true).open(&path).map_err(fail)?;
        if source.metadata().map_err(fail)?.len() > PER_HOOK {
            copy::share_blocks(source, &live);
        }
        Ok(live)
    }

    /// The transcript was rewritten or cut: what is here becomes an earlier generation, and a new one begins. One that
    /// was only cut goes on from the bytes that both share.
    fn renew(
        &self,
        origin: &Origin<'_>,
        part: &str,
        source: &File,
        compared: bool,
        limit: u64,
    ) -> Result<Took, MirrorError> {
        let folder = self.folder(origin.session);
        let _lock = self.lock(origin.session, PATIENCE)?;
        let path = folder.join(live_name(part));
        let fail = |e: io::Error| FileError::new("begin a generation of", &path, e);
        let old = open_live(&path)?;
        // Looked at again under the lock: another hook may have done it meanwhile.
        if let (Some(live), false) = (&old, compared)
            && let Step::Took(took) = append(live, source, limit).map_err(fail)?
        {
            return Ok(took);
        }
        let number = self.next_number(origin.session, part);
        if let Some(old) = &old {
            let len = source.metadata().map_err(fail)?.len();
            let shared = if compared { None } else { cut_at(old, source, len).map_err(fail)? };
            fs::rename_new(&path, &folder.join(generation_name(part, number)))?;
            if let Some(tail) = shared {
                let base = Base { of: number, len };
                record::write(&folder.join(base_name(part, number + 1)), &base)?;
                self.note(origin, part)?;
                copy::with_hole(&path, len, &tail)?;
                return Ok(Took { began: true, ..Took::default() });
            }
        }
        let live = self.create(origin, part, source)?;
        match append(&live, source, limit).map_err(fail)? {
            Step::Took(took) => Ok(Took { began: true, ..took }),
            Step::Diverged => Ok(Took { began: true, ..Took::default() }),
        }
    }

    /// Writes down where the bytes come from.
    fn note(&self, origin: &Origin<'_>, part: &str) -> Result<(), FileError> {
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

    /// The number that the live copy gets when it becomes an earlier generation.
    pub(super) fn next_number(&self, session: &SessionId, part: &str) -> u32 {
        let names = std::fs::read_dir(self.folder(session)).into_iter().flatten().flatten();
        let numbers = names.filter_map(|e| number_of(e.file_name().to_str()?, part));
        numbers.max().unwrap_or(0) + 1
    }
}

/// The generation that a file of `part` belongs to. Base files do not count: one may stand for what is still live.
fn number_of(name: &str, part: &str) -> Option<u32> {
    let rest = name.strip_prefix(part)?.strip_prefix('.')?;
    let number = rest.strip_suffix(".jsonl").or_else(|| rest.strip_suffix(".jsonl.zst"))?;
    number.parse().ok()
}

/// `agent-x` of `…/subagents/agent-x.jsonl`. A dot would be taken for a generation's number.
fn part_name(path: &Path) -> Option<&str> {
    let name = path.file_name()?.to_str()?.strip_suffix(".jsonl")?;
    (unsafe_name(name).is_none() && name != MAIN && !name.contains('.')).then_some(name)
}

/// Where the client keeps what a subagent said.
pub fn subagent_path(transcript: &Path, part: &str) -> std::path::PathBuf {
    transcript.with_extension("").join("subagents").join(format!("{part}.jsonl"))
}

/// The files of a conversation's subagents, those that changed after `since` if it is given.
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

/// Without a sync, which a hook has no time for: what is in it can be taken again.
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

/// Appends at most `limit` bytes of `source` to `live`, if it continues there.
fn append(live: &File, source: &File, limit: u64) -> io::Result<Step> {
    let (have, len) = (live.metadata()?.len(), source.metadata()?.len());
    if len < have {
        return Ok(Step::Diverged);
    }
    let tail = have.min(TAIL as u64);
    let wanted = tail + (len - have).min(limit);
    let mut bytes = vec![0; usize::try_from(wanted).unwrap_or(usize::MAX)];
    let got = read_at(source, &mut bytes, have - tail)?;
    let tail_len = usize::try_from(tail).unwrap_or(usize::MAX);
    let mut ours = [0; TAIL];
    let ours = &mut ours[..tail_len];
    if got < tail_len || read_at(live, ours, have - tail)? < tail_len || bytes[..tail_len] != *ours {
        return Ok(Step::Diverged);
    }
    let grown = &bytes[tail_len..got];
    if !grown.is_empty() {
        live.write_all_at(grown, have)?;
    }
    let bytes = grown.len() as u64;
    Ok(Step::Took(Took { bytes, left: (len - have).saturating_sub(bytes), began: false }))
}

/// The last bytes of `source`, of `len` bytes, if it is the beginning of what `live` holds.
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

/// Does `source` begin with the first `most` bytes of what is held?
fn same_beginning(source: &File, held: &mut dyn Read, most: u64) -> bool {
    let mut held = held.take(most);
    let (mut ours, mut theirs) = (vec![0; 256 << 10], vec![0; 256 << 10]);
    let (mut at, began) = (0, Instant::now());
    // A slow disk must not keep a hook: what was not compared in time counts as the same.
    while began.elapsed() < CATCH_UP {
        // Neither a difference nor an equality: nothing begins because of a disk that cannot be read.
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
