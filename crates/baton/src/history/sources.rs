//! Finds transcripts where the provider rows say the clients keep them, without opening any.

use std::fs::{DirEntry, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use baton_core::ids::SessionId;
use baton_core::transcript::Dialect;
use serde::{Deserialize, Serialize};

use crate::providers;
use crate::sys::paths::Paths;

/// Why a path that JSON cannot hold is skipped.
pub(crate) const NOT_UTF8: &str = "its path is not UTF-8";

/// A transcript as listed in its folder.
#[derive(Debug, Clone)]
pub(crate) struct TranscriptFile {
    /// UTF-8.
    pub path: PathBuf,
    pub dialect: Dialect,
    pub id: SessionId,
    pub stamp: FileStamp,
    /// The client has deleted it; only the mirror still has it.
    pub mirrored: bool,
}

/// A file with the same stamp has not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u64, i64, u64)", into = "(u64, i64, u64)")]
pub struct FileStamp {
    pub size: u64,
    /// Nanoseconds since the epoch.
    pub modified: i64,
    pub inode: u64,
}

impl FileStamp {
    pub fn of(about: &Metadata) -> Self {
        let modified = about.mtime().saturating_mul(1_000_000_000).saturating_add(about.mtime_nsec());
        Self { size: about.len(), modified, inode: about.ino() }
    }

    /// The stamp of the regular file at `path`; `None` if there is none.
    pub fn at(path: &Path) -> Option<Self> {
        std::fs::symlink_metadata(path).ok().filter(Metadata::is_file).map(|m| Self::of(&m))
    }
}

impl From<(u64, i64, u64)> for FileStamp {
    fn from((size, modified, inode): (u64, i64, u64)) -> Self {
        Self { size, modified, inode }
    }
}

impl From<FileStamp> for (u64, i64, u64) {
    fn from(stamp: FileStamp) -> Self {
        (stamp.size, stamp.modified, stamp.inode)
    }
}

/// A skipped file or folder, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Skipped {
    pub path: PathBuf,
    pub why: String,
}

impl Skipped {
    pub(crate) fn new(path: &Path, why: &(impl ToString + ?Sized)) -> Self {
        Self { path: path.to_owned(), why: why.to_string() }
    }
}

/// The contents of the clients' folders, unordered.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    pub found: Vec<TranscriptFile>,
    pub skipped: Vec<Skipped>,
}

impl Sources {
    pub(crate) fn read(paths: &Paths) -> Self {
        let mut sources = Self::default();
        for (provider, archive) in providers::archives() {
            sources.add_folder(&(archive.root)(paths), archive.depth, provider, archive.dialect);
        }
        sources
    }

    /// Adds the transcripts `depth` levels below `dir`.
    fn add_folder(&mut self, dir: &Path, depth: u32, provider: &providers::Provider, dialect: Dialect) {
        let entries = match std::fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return,
            Err(e) => return self.skipped.push(Skipped::new(dir, &e)),
        };
        if dir.to_str().is_none() {
            return self.skipped.push(Skipped::new(dir, NOT_UTF8));
        }
        for entry in entries {
            match entry {
                Ok(entry) if depth == 0 => self.add_file(&entry, provider, dialect),
                Ok(entry) if is_folder(&entry) => {
                    self.add_folder(&entry.path(), depth - 1, provider, dialect);
                }
                Ok(_) => {}
                // The listing failed midway, so whatever follows is missing.
                Err(e) => self.skipped.push(Skipped::new(dir, &e)),
            }
        }
    }

    fn add_file(&mut self, entry: &DirEntry, provider: &providers::Provider, dialect: Dialect) {
        let path = entry.path();
        let is_transcript = path.extension().is_some_and(|extension| extension == "jsonl");
        let Some(id) = (provider.session_of)(&path).filter(|_| is_transcript) else { return };
        match entry.metadata() {
            Ok(about) if about.is_file() => {
                let stamp = FileStamp::of(&about);
                self.found.push(TranscriptFile { path, dialect, id, stamp, mirrored: false });
            }
            Ok(_) => self.skipped.push(Skipped::new(&path, "it is not a regular file")),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => self.skipped.push(Skipped::new(&path, &e)),
        }
    }
}

/// Treat a link to a folder as a folder: people keep these on other disks.
fn is_folder(entry: &DirEntry) -> bool {
    entry.file_type().is_ok_and(|t| t.is_dir() || (t.is_symlink() && entry.path().is_dir()))
}

impl TranscriptFile {
    /// The path as text, the key in the cache.
    pub(crate) fn key(&self) -> &str {
        self.path.to_str().unwrap_or_default()
    }

    /// The transcripts of this conversation's subagents.
    pub(crate) fn subagents(&self) -> Result<Vec<PathBuf>, Skipped> {
        subagents(&self.path)
    }
}

/// The transcripts of the subagents of the conversation in this one.
pub(crate) fn subagents(transcript: &Path) -> Result<Vec<PathBuf>, Skipped> {
    let dir = transcript.with_extension("").join("subagents");
    let entries = match std::fs::read_dir(&dir) {
        Ok(entries) => entries,
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(e) => return Err(Skipped::new(&dir, &e)),
    };
    let paths: io::Result<Vec<PathBuf>> = entries.map(|entry| entry.map(|e| e.path())).collect();
    let mut paths = paths.map_err(|e| Skipped::new(&dir, &e))?;
    paths.retain(|p| p.extension().is_some_and(|e| e == "jsonl") && p.is_file());
    Ok(paths)
}
