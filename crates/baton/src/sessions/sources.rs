//! Where the clients keep their transcripts: `projects/*/{id}.jsonl` of Claude Code, `sessions/Y/M/D/rollout-*-{id}.jsonl`
//! of Codex. Nothing is opened here.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use baton_core::ids::SessionId;
use baton_core::transcript::Provider;

use crate::paths::Paths;
use crate::sys::fs::{self, Looked};

/// A transcript as the folder shows it.
#[derive(Debug, Clone)]
pub struct Source {
    pub place: Place,
    pub provider: Provider,
    pub id: SessionId,
    pub stamp: Stamp,
}

/// Where a transcript lies. Thousands lie in a few folders: each keeps of its path what the others do not have.
#[derive(Debug, Clone)]
pub enum Place {
    /// In a folder of the client, with this before its id.
    Client(Arc<Path>, Box<str>),
    /// Only the mirror still has it.
    Mirror(PathBuf),
}

/// A file that has the same stamp has not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    pub size: u64,
    /// Nanoseconds.
    pub modified: i64,
    pub inode: u64,
}

impl Stamp {
    pub fn of(about: &Metadata) -> Self {
        let modified = about.mtime().saturating_mul(1_000_000_000).saturating_add(about.mtime_nsec());
        Self { size: about.len(), modified, inode: about.ino() }
    }

    pub fn at(path: &Path) -> Option<Self> {
        std::fs::symlink_metadata(path).ok().filter(Metadata::is_file).map(|m| Self::of(&m))
    }
}

/// Something that has the name of a transcript and is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    pub path: PathBuf,
    pub why: String,
}

/// A folder in which a client keeps transcripts.
pub struct Folder(PathBuf, Provider);

/// All such folders.
pub fn folders(paths: &Paths) -> Vec<Folder> {
    let of = |dir: PathBuf, depth, provider| {
        folders_in(&dir, depth).into_iter().map(move |folder| Folder(folder, provider))
    };
    let claude = of(paths.claude.join("projects"), 1, Provider::Claude);
    claude.chain(of(paths.codex().join("sessions"), 3, Provider::Codex)).collect()
}

/// The folders `depth` levels below `dir`.
fn folders_in(dir: &Path, depth: u32) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    // A link to a folder is a folder: people keep these on other disks.
    let is_folder = |e: &std::fs::DirEntry| {
        e.file_type().is_ok_and(|t| t.is_dir() || (t.is_symlink() && e.path().is_dir()))
    };
    let folders = entries.filter(is_folder).map(|e| e.path());
    if depth <= 1 { folders.collect() } else { folders.flat_map(|f| folders_in(&f, depth - 1)).collect() }
}

impl Folder {
    /// Nothing if it cannot be read, or not be shown: a name that cannot be written is nobody's project.
    pub fn open(&self) -> Option<Opened<'_>> {
        let Self(path, provider) = self;
        let dir = fs::Folder::open(path).ok()?;
        Some(Opened { dir, name: path.to_str()?, path: path.as_path().into(), provider: *provider })
    }
}

/// Such a folder while it is looked at.
pub struct Opened<'f> {
    dir: fs::Folder,
    pub name: &'f str,
    pub path: Arc<Path>,
    provider: Provider,
}

impl Opened<'_> {
    /// With the same answer before and after, it holds the same names.
    pub fn changed(&self) -> Option<i64> {
        self.dir.changed()
    }

    /// The transcripts in it, in no order, and what has the name of one and is none.
    pub fn all(&self, mut each: impl FnMut(Result<Source, Skipped>)) {
        let read = self.dir.names(|name| {
            if let Some((prefix, id)) = id_of(self.provider, name)
                && let Some(found) = self.look(name, prefix, id)
            {
                each(found);
            }
        });
        if let Err(e) = read {
            each(Err(Skipped { path: self.path.to_path_buf(), why: e.to_string() }));
        }
    }

    /// One whose name was known before, if it is still there.
    pub fn one(&self, prefix: &str, id: &str) -> Option<Result<Source, Skipped>> {
        let name = [prefix, id, SUFFIX].concat();
        self.look(&name, prefix, SessionId::new(id).ok()?)
    }

    fn look(&self, name: &str, prefix: &str, id: SessionId) -> Option<Result<Source, Skipped>> {
        let skipped = |why: String| Some(Err(Skipped { path: self.path.join(name), why }));
        match self.dir.look(name) {
            Ok(Looked { is_file: true, size, modified, inode }) => {
                let place = Place::Client(Arc::clone(&self.path), prefix.into());
                let stamp = Stamp { size, modified, inode };
                Some(Ok(Source { place, provider: self.provider, id, stamp }))
            }
            Ok(_) => skipped("it is not a regular file".to_owned()),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
            Err(e) => skipped(e.to_string()),
        }
    }
}

const SUFFIX: &str = ".jsonl";

/// The session that a file of this name belongs to, and what stands before it; a subagent's file is nobody's.
fn id_of(provider: Provider, name: &str) -> Option<(&str, SessionId)> {
    let stem = name.strip_suffix(SUFFIX)?;
    let at = match provider {
        Provider::Claude if stem.starts_with("agent-") => return None,
        Provider::Claude => 0,
        // `rollout-2026-11-16T00-41-53-{uuid}`.
        Provider::Codex if !stem.starts_with("rollout-") => return None,
        Provider::Codex => stem.len().checked_sub(36).filter(|at| *at >= "rollout-".len())?,
    };
    let (prefix, id) = stem.split_at_checked(at)?;
    SessionId::new(id).ok().map(|id| (prefix, id))
}

impl Source {
    pub fn path(&self) -> PathBuf {
        match &self.place {
            Place::Client(folder, prefix) => folder.join([prefix, self.id.as_str(), SUFFIX].concat()),
            Place::Mirror(path) => path.clone(),
        }
    }

    /// Does it lie in this folder?
    pub fn is_in(&self, dir: &Path) -> bool {
        match &self.place {
            // Letter by letter first: to compare paths part by part takes far longer.
            Place::Client(folder, _) => folder.as_os_str() == dir.as_os_str() || **folder == *dir,
            Place::Mirror(path) => path.parent() == Some(dir),
        }
    }

    /// The folder of the client that it lies in, and what stands before the id in its name.
    pub fn in_client(&self) -> Option<(&Arc<Path>, &str)> {
        match &self.place {
            Place::Client(folder, prefix) => Some((folder, prefix)),
            Place::Mirror(_) => None,
        }
    }

    /// Does only the mirror still have it?
    pub fn is_mirrored(&self) -> bool {
        matches!(self.place, Place::Mirror(_))
    }

    /// The transcripts of the subagents that this conversation started.
    pub fn subagents(&self) -> Vec<PathBuf> {
        let entries =
            std::fs::read_dir(self.path().with_extension("").join("subagents")).into_iter().flatten();
        let paths = entries.flatten().map(|e| e.path());
        paths.filter(|p| p.extension().is_some_and(|e| e == "jsonl") && p.is_file()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_whose_transcript_it_is() {
        let claude = |n: &str| id_of(Provider::Claude, n).map(|(_, id)| id.to_string());
        let codex = |n: &str| id_of(Provider::Codex, n).map(|(_, id)| id.to_string());
        let uuid = "01a1e1cd-a4af-7f20-a71c-091785698e3b";
        assert_eq!(claude("abc.jsonl").as_deref(), Some("abc"));
        assert_eq!(claude("agent-1.jsonl"), None);
        assert_eq!(claude("abc.json"), None);
        assert_eq!(codex(&format!("rollout-2026-11-16T00-41-53-{uuid}.jsonl")).as_deref(), Some(uuid));
        assert_eq!(codex("rollout-x.jsonl"), None);
        assert_eq!(codex("rollout-ééééééééééééééééééé.jsonl"), None, "cut in the middle of a character");
    }
}
