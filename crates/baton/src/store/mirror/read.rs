//! Reads mirrors: parts, their generations, and one reader for all of them.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use baton_core::ids::SessionId;

use crate::store::mirror::{GenerationBase, MAIN, Meta, base_name};
use crate::store::record;
use crate::sys::fs::{self, FileError};

/// One mirrored conversation.
#[derive(Debug, Clone)]
pub struct MirroredSession {
    pub session: SessionId,
    pub folder: PathBuf,
    pub meta: Meta,
    pub pinned: bool,
    /// The conversation itself first, then its subagents by name.
    pub parts: Vec<MirrorPart>,
}

/// The conversation (`main`) or one of its subagents (`agent-…`).
#[derive(Debug, Clone)]
pub struct MirrorPart {
    pub name: String,
    /// Oldest first; the last one is the transcript as a hook last saw it.
    pub generations: Vec<Generation>,
}

#[derive(Debug, Clone)]
pub struct Generation {
    pub number: u32,
    pub path: PathBuf,
    /// Grows while the session runs.
    pub live: bool,
    pub compressed: bool,
    /// The size of the whole conversation, uncompressed.
    pub bytes: u64,
    /// Its size on disk.
    pub stored: u64,
    pub modified: Option<SystemTime>,
    /// It begins with the first bytes of another generation.
    pub base: Option<GenerationBase>,
}

impl Generation {
    /// The file that holds all of it as it is, to map it or search in it.
    pub(crate) fn plain_file(&self) -> Option<&Path> {
        (!self.compressed && self.base.is_none()).then_some(&*self.path)
    }
}

impl MirroredSession {
    pub(super) fn read(session: SessionId, folder: PathBuf) -> Result<Option<Self>, FileError> {
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(FileError::new("list", &folder, e)),
        };
        let meta: Meta = record::read(&folder.join("meta.json"))?.unwrap_or_default();
        let mut parts: Vec<MirrorPart> = Vec::new();
        let mut pinned = false;
        for entry in entries {
            let entry = entry.map_err(|e| FileError::new("list", &folder, e))?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            pinned |= name == "pinned";
            let Some((part, number, compressed)) = split_name(name) else { continue };
            let about = match entry.metadata() {
                Ok(about) => about,
                // It was compressed or removed since the folder was listed.
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                Err(e) => return Err(FileError::new("read", &entry.path(), e)),
            };
            if !about.is_file() {
                continue;
            }
            let stored = stored(&about);
            let bytes = if compressed { meta.resting.get(name).map_or(0, |r| r.bytes) } else { about.len() };
            let generation = Generation {
                number: number.unwrap_or(u32::MAX),
                path: entry.path(),
                live: number.is_none(),
                compressed,
                bytes,
                stored,
                modified: about.modified().ok(),
                base: None,
            };
            match parts.iter_mut().find(|p| p.name == part) {
                Some(found) => found.generations.push(generation),
                None => parts.push(MirrorPart { name: part.to_owned(), generations: vec![generation] }),
            }
        }
        for part in &mut parts {
            part.finish(&folder)?;
        }
        parts.sort_by(|a, b| (a.name != MAIN, &a.name).cmp(&(b.name != MAIN, &b.name)));
        let anything = !parts.is_empty();
        Ok(anything.then_some(Self { session, folder, meta, pinned, parts }))
    }

    pub fn main(&self) -> Option<&MirrorPart> {
        self.parts.first().filter(|p| p.name == MAIN)
    }

    /// The conversation as a hook last saw it.
    pub fn newest(&self) -> Option<(&MirrorPart, &Generation)> {
        let part = self.main()?;
        Some((part, part.generations.last()?))
    }

    /// When a hook last added something.
    pub fn modified(&self) -> Option<SystemTime> {
        self.parts.iter().flat_map(|p| &p.generations).filter_map(|g| g.modified).max()
    }

    /// The size of all of it on disk.
    pub fn stored(&self) -> u64 {
        self.parts.iter().flat_map(|p| &p.generations).map(|g| g.stored).sum()
    }
}

impl MirrorPart {
    /// Numbers the live generation, which comes last, and reads the base of each generation.
    fn finish(&mut self, folder: &Path) -> Result<(), FileError> {
        self.generations.sort_by_key(|g| (g.number, g.compressed));
        let numbered = self.generations.iter().filter(|g| !g.live).map(|g| g.number).max().unwrap_or(0);
        for generation in &mut self.generations {
            if generation.live {
                generation.number = numbered + 1;
            }
            generation.base = record::read(&folder.join(base_name(&self.name, generation.number)))?;
            if let (Some(base), true) = (generation.base, generation.compressed) {
                generation.bytes += base.len;
            }
        }
        Ok(())
    }

    /// The conversation as `generation` holds it, from its first byte.
    pub fn open(&self, generation: &Generation) -> io::Result<Box<dyn Read + Send>> {
        let Some(base) = generation.base else { return open_own(generation, 0) };
        let under = self.generations.iter().find(|g| g.number == base.of && g.number < generation.number);
        let under = under.ok_or_else(|| {
            io::Error::other(format!("generation {} of {}, which it builds on, is gone", base.of, self.name))
        })?;
        Ok(Box::new(self.open(under)?.take(base.len).chain(open_own(generation, base.len)?)))
    }
}

/// A generation's own bytes, after the first `from`.
pub(super) fn open_own(generation: &Generation, from: u64) -> io::Result<Box<dyn Read + Send>> {
    let mut file = fs::open_read(&generation.path)?;
    if generation.compressed {
        return Ok(frames(file));
    }
    file.seek(SeekFrom::Start(from))?;
    Ok(Box::new(file))
}

/// `main.3.jsonl.zst` is (`main`, 3, compressed); `main.jsonl` has no number.
fn split_name(name: &str) -> Option<(&str, Option<u32>, bool)> {
    let (rest, compressed) = match name.strip_suffix(".jsonl.zst") {
        Some(rest) => (rest, true),
        None => (name.strip_suffix(".jsonl")?, false),
    };
    // Our temporary names begin with a dot.
    if rest.is_empty() || rest.starts_with('.') {
        return None;
    }
    match rest.rsplit_once('.') {
        Some((part, number)) => Some((part, Some(number.parse().ok()?), compressed)),
        None => Some((rest, None, compressed)),
    }
}

/// Counts blocks, because a generation that builds on another one begins with a hole.
fn stored(about: &std::fs::Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    (about.blocks() * 512).min(about.len())
}

/// The content of a file of zstd frames, one after the other.
pub fn frames(file: File) -> Box<dyn Read + Send> {
    Box::new(Frames::new(file))
}

struct Frames {
    frame: Option<Box<Decoder>>,
    file: Option<BufReader<File>>,
}

type Decoder = ruzstd::decoding::StreamingDecoder<BufReader<File>, ruzstd::decoding::FrameDecoder>;

impl Frames {
    fn new(file: File) -> Self {
        Self { frame: None, file: Some(BufReader::with_capacity(128 << 10, file)) }
    }
}

impl Read for Frames {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(frame) = &mut self.frame {
                let got = frame.read(buffer)?;
                if got > 0 || buffer.is_empty() {
                    return Ok(got);
                }
            }
            let frame = self.frame.take();
            let Some(mut file) = frame.map(|f| f.into_inner()).or_else(|| self.file.take()) else {
                return Ok(0);
            };
            if io::BufRead::fill_buf(&mut file)?.is_empty() {
                return Ok(0);
            }
            let next = Decoder::new(file).map_err(io::Error::other)?;
            self.frame = Some(Box::new(next));
        }
    }
}
