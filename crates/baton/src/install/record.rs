//! `install.json` in the state folder: what an install changed, so that an uninstall can undo exactly that.
//!
//! Files that were edited are kept as they were, byte for byte, under their hash in `originals/`.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::plugin::sha256;
use super::settings::Undo;
use crate::sys::fs::{self, PRIVATE, Sync};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Record {
    /// The version that wrote it.
    pub baton: String,
    pub binary: Option<PathBuf>,
    /// The link `sm`, where we made one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sm: Option<PathBuf>,
    pub installs: Vec<Install>,
}

/// One place that was made ready: the user's account, or one project.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Install {
    /// `None` for the user's account.
    pub project: Option<PathBuf>,
    pub shared: bool,
    /// The plugin folder, where the hooks are in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
    /// Do hooks of this install run? Not where the user's own serve the project too.
    pub hooks: bool,
    pub files: Vec<Touched>,
    /// Folders that were made, outermost first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub folders: Vec<PathBuf>,
}

/// A file of somebody else's that was edited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Touched {
    pub path: PathBuf,
    pub kind: Kind,
    /// The hash of the bytes without us, which lie in `originals/`; `None` if there was no file.
    pub original: Option<String>,
    /// Hashes of what we wrote. In one of these states nobody else has touched the file since.
    pub written: Vec<String>,
    #[serde(default)]
    pub undo: Undo,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Settings,
    Gitignore,
}

fn file(state: &Path) -> PathBuf {
    state.join("install.json")
}

fn originals(state: &Path) -> PathBuf {
    state.join("originals")
}

impl Record {
    /// The record; an empty one if there is none.
    pub fn read(state: &Path) -> anyhow::Result<Self> {
        let path = file(state);
        let Some(bytes) = fs::read(&path, 16 << 20)? else { return Ok(Self::default()) };
        serde_json::from_slice(&bytes).with_context(|| {
            format!("{} cannot be understood; move it away and run `baton install` again", path.display())
        })
    }

    /// Keeps the record, or removes it when nothing is installed any more.
    pub fn write(&self, state: &Path) -> anyhow::Result<()> {
        if self.installs.is_empty() {
            fs::remove(&file(state))?;
        } else {
            let mut bytes = serde_json::to_vec_pretty(self)?;
            bytes.push(b'\n');
            fs::private_dir(state)?;
            fs::replace(&file(state), &bytes, PRIVATE, Sync::Yes)?;
        }
        Ok(())
    }

    pub fn find(&self, project: Option<&Path>, shared: bool) -> Option<&Install> {
        self.installs.iter().find(|i| i.project.as_deref() == project && i.shared == shared)
    }

    /// Puts `install` in the place of the one before.
    pub fn set(&mut self, install: Install) {
        self.installs
            .retain(|i| (i.project.as_ref(), i.shared) != (install.project.as_ref(), install.shared));
        self.installs.push(install);
    }

    /// Originals that nothing refers to any more.
    pub fn sweep_originals(&self, state: &Path) {
        let wanted: Vec<&String> =
            self.installs.iter().flat_map(|i| &i.files).filter_map(|f| f.original.as_ref()).collect();
        let dir = originals(state);
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            if !wanted.iter().any(|hash| entry.file_name().to_str() == Some(hash)) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
        // Only if it is empty now.
        let _ = std::fs::remove_dir(&dir);
    }
}

impl Install {
    pub fn touched(&self, path: &Path) -> Option<&Touched> {
        self.files.iter().find(|f| f.path == path)
    }
}

/// Keeps `bytes` under their hash.
pub fn keep_original(state: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let dir = originals(state);
    fs::private_dir(&dir)?;
    fs::replace(&dir.join(sha256(bytes)), bytes, PRIVATE, Sync::Yes)?;
    Ok(())
}

/// The bytes kept under `hash`; `None` if they are gone or damaged.
pub fn original(state: &Path, hash: &str) -> Option<Vec<u8>> {
    let bytes = fs::read(&originals(state).join(hash), 16 << 20).ok()??;
    (sha256(&bytes) == hash).then_some(bytes)
}
