//! `install.json` in the state folder: what an install changed, so that an uninstall can undo exactly that.
//!
//! The originals of edited files are kept byte for byte, under their hash in `originals/`.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::setup::install::settings::Undo;
use crate::store::record;
use crate::sys::fs::{self, PRIVATE, Sync};
use crate::sys::hash::sha256;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct InstallRecord {
    /// The version that wrote it.
    pub baton: String,
    pub binary: Option<PathBuf>,
    /// The program was on the PATH before us: leave its removal to whoever put it there, even in a purge.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub binary_is_theirs: bool,
    /// The link `sm`, if we created it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sm: Option<PathBuf>,
    pub installs: Vec<Install>,
}

/// One install: for the user's account or for one project.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Install {
    /// `None` for the user's account.
    pub project: Option<PathBuf>,
    pub shared: bool,
    /// The plugin folder, if the hooks are in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
    /// Whether hooks of this install run. They do not if the user's own cover the project too.
    pub hooks: bool,
    pub files: Vec<EditedFile>,
    /// Folders that we created, outermost first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub folders: Vec<PathBuf>,
}

/// An edited file of someone else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EditedFile {
    pub path: PathBuf,
    pub kind: EditedFileKind,
    /// The hash of the bytes without our entries, kept in `originals/`; `None` if there was no file.
    pub original: Option<String>,
    /// Hashes of our writes. If the file matches one of them, nobody else has changed it since.
    pub written: Vec<String>,
    #[serde(default)]
    pub undo: Undo,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum EditedFileKind {
    Settings,
    Gitignore,
}

fn file(state: &Path) -> PathBuf {
    state.join("install.json")
}

fn originals(state: &Path) -> PathBuf {
    state.join("originals")
}

impl InstallRecord {
    /// The record, empty if there is none.
    pub(crate) fn read(state: &Path) -> anyhow::Result<Self> {
        let path = file(state);
        let Some(bytes) = fs::read(&path, 16 << 20)? else { return Ok(Self::default()) };
        record::parse(&path, &bytes)?.with_context(|| {
            format!("{} cannot be understood; move it away and run `baton install` again", path.display())
        })
    }

    /// Writes the record, or removes it when nothing is installed.
    pub(crate) fn write(&self, state: &Path) -> anyhow::Result<()> {
        if self.installs.is_empty() {
            fs::remove(&file(state))?;
        } else {
            record::write_synced(&file(state), self)?;
        }
        Ok(())
    }

    pub(crate) fn find(&self, project: Option<&Path>, shared: bool) -> Option<&Install> {
        self.installs.iter().find(|i| i.project.as_deref() == project && i.shared == shared)
    }

    /// Replaces the previous `install` of the same scope.
    pub(crate) fn set(&mut self, install: Install) {
        self.installs
            .retain(|i| (i.project.as_ref(), i.shared) != (install.project.as_ref(), install.shared));
        self.installs.push(install);
    }

    /// Removes originals that nothing refers to.
    pub(crate) fn sweep_originals(&self, state: &Path) {
        let wanted: Vec<&String> =
            self.installs.iter().flat_map(|i| &i.files).filter_map(|f| f.original.as_ref()).collect();
        let dir = originals(state);
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            if !wanted.iter().any(|hash| entry.file_name().to_str() == Some(hash)) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
        // This succeeds only if the folder is empty now.
        let _ = std::fs::remove_dir(&dir);
    }
}

impl Install {
    pub(crate) fn touched(&self, path: &Path) -> Option<&EditedFile> {
        self.files.iter().find(|f| f.path == path)
    }
}

/// Stores `bytes` under their hash.
pub(crate) fn keep_original(state: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let dir = originals(state);
    fs::private_dir(&dir)?;
    fs::replace(&dir.join(sha256(bytes)), bytes, PRIVATE, Sync::Yes)?;
    Ok(())
}

/// The bytes stored under `hash`; `None` if missing or damaged.
pub(crate) fn original(state: &Path, hash: &str) -> Option<Vec<u8>> {
    let bytes = fs::read(&originals(state).join(hash), 16 << 20).ok()??;
    (sha256(&bytes) == hash).then_some(bytes)
}
