//! A project's own memory: what its sessions leave for the next one, in files that people and the client read.
//!
//! Files of the project are written only where `.claude/memory/` exists; elsewhere the same state lies in our own
//! folder, and backups are the mirror itself.

pub mod active;
pub mod backups;
pub mod block;
pub mod documents;
pub mod project;
pub mod raw;
pub mod resume;
pub mod saved;

use std::path::{Path, PathBuf};
use std::time::Duration;

use baton_core::ids::ChannelName;

use crate::paths::Paths;
use crate::sys::lock::{Lock, LockError};

/// Where the memory of a working folder lies.
#[derive(Debug, Clone)]
pub struct Place {
    /// Marker, log and documents.
    pub dir: PathBuf,
    /// The project, where it keeps a memory of its own.
    pub project: Option<PathBuf>,
    lock: PathBuf,
}

impl Place {
    pub fn of(paths: &Paths, cwd: &Path, channel: &ChannelName) -> Self {
        let lock = paths.state.join("memory").join(format!("{channel}.lock"));
        match project_of(&paths.home, cwd) {
            Some(project) => Self { dir: folder(&project), project: Some(project), lock },
            None => Self { dir: paths.state.join("memory").join(channel.as_str()), project: None, lock },
        }
    }

    /// The same without the project: for when its folder cannot be written.
    #[must_use]
    pub fn without_project(paths: &Paths, channel: &ChannelName) -> Self {
        Self {
            dir: paths.state.join("memory").join(channel.as_str()),
            project: None,
            lock: paths.state.join("memory").join(format!("{channel}.lock")),
        }
    }

    pub fn raw(&self) -> PathBuf {
        self.dir.join("raw")
    }

    pub fn active_context(&self) -> PathBuf {
        self.dir.join("active-context.md")
    }

    fn lock(&self) -> Result<Lock, LockError> {
        Lock::acquire(&self.lock, Duration::from_millis(300))
    }
}

/// `.claude/memory` of a project.
pub fn folder(project: &Path) -> PathBuf {
    project.join(".claude/memory")
}

/// The nearest folder at or above `cwd` that has a memory, inside its repository. The home folder is no project.
fn project_of(home: &Path, cwd: &Path) -> Option<PathBuf> {
    for dir in cwd.ancestors().filter(|d| *d != home) {
        if folder(dir).is_dir() {
            return Some(dir.to_owned());
        }
        if dir.join(".git").exists() {
            break;
        }
    }
    None
}
