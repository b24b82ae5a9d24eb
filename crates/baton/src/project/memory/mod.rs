//! A project's own memory: the files that its sessions leave for the next one, for people and the client.
//!
//! Writes into a project only if it has `.claude/memory/`; otherwise the same state is in our own folder, and the
//! mirror itself is the backup.

pub(crate) mod active;
pub(crate) mod backups;
pub(crate) mod block;
pub(crate) mod documents;
pub(crate) mod project;
pub(crate) mod raw;
pub(crate) mod resume;
pub(crate) mod saved;
pub(crate) mod shown;

use std::path::{Path, PathBuf};
use std::time::Duration;

use baton_core::handoff::manifest::GLOBAL;
use baton_core::ids::ChannelName;

use crate::project::channel::real;
use crate::project::trust::Trust;
use crate::sys::hash::sha256;
use crate::sys::lock::{Lock, LockError};
use crate::sys::paths::Paths;
use crate::sys::{fs, git};

/// Where the memory of a working folder is.
#[derive(Debug, Clone)]
pub(crate) struct MemoryDir {
    /// Marker, log and documents.
    pub dir: PathBuf,
    /// The project, if it has its own memory.
    pub project: Option<PathBuf>,
    lock: PathBuf,
}

impl MemoryDir {
    pub(crate) fn of(paths: &Paths, cwd: &Path, channel: &ChannelName) -> Self {
        // A memory that came with a clone is neither written to nor trusted.
        let project = project_of(&paths.home, cwd).filter(|project| Trust::read(paths).accepts(project));
        let ours = Self::without_project(paths, cwd, channel);
        match project {
            Some(project) => Self { dir: folder(&project), project: Some(project), ..ours },
            None => ours,
        }
    }

    /// The place in our own folder, for when the project's cannot be written.
    #[must_use]
    pub(crate) fn without_project(paths: &Paths, cwd: &Path, channel: &ChannelName) -> Self {
        let mut name = channel.to_string();
        if name == GLOBAL {
            // Folders without a project share a channel, but the conversations of one do not belong to another.
            let folder = sha256(real(cwd).as_os_str().as_encoded_bytes());
            name = format!("{GLOBAL}-{}", &folder[..12]);
        }
        let memory = paths.state.join("memory");
        Self { lock: memory.join(format!("{name}.lock")), dir: memory.join(name), project: None }
    }

    pub(crate) fn raw(&self) -> PathBuf {
        self.dir.join("raw")
    }

    pub(crate) fn active_context(&self) -> PathBuf {
        self.dir.join("active-context.md")
    }

    fn lock(&self) -> Result<Lock, LockError> {
        Lock::acquire(&self.lock, Duration::from_millis(300))
    }
}

/// `.claude/memory` of a project.
pub(crate) fn folder(project: &Path) -> PathBuf {
    project.join(".claude/memory")
}

/// The project at `cwd` whose memory nobody has accepted.
pub(crate) fn unaccepted(paths: &Paths, cwd: &Path) -> Option<PathBuf> {
    project_of(&paths.home, cwd).filter(|project| !Trust::read(paths).accepts(project))
}

/// The nearest folder at or above `cwd` that has a memory, inside its repository. The home folder is not a project.
fn project_of(home: &Path, cwd: &Path) -> Option<PathBuf> {
    // No links on the way, because they would redirect our writes.
    let has_memory = |dir: &&Path| fs::is_plain_dir(&dir.join(".claude")) && fs::is_plain_dir(&folder(dir));
    git::up_to_root(cwd).filter(|dir| *dir != home).find(has_memory).map(Path::to_owned)
}
