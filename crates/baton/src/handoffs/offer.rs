//! The path offered to an agent for its own handoff: inside the project, outside `.claude/`, ignored by git.
//!
//! `.baton/` is made if nothing is there, and used if it is ours. A folder or a link of that name from a clone is left
//! alone: the agent then hands over on standard input.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use baton_core::ids::AgentId;

use crate::project::channel::real;
use crate::project::root;
use crate::store::{Store, record};
use crate::sys::fs::{self, FileError, SHARED, Sync};

const FOLDER: &str = ".baton";
const IGNORE: &[u8] = b"*\n";

/// `.baton/handoff-{agent}.md` in the project, relative to `cwd` if that is shorter to type. `None` if the folder is
/// not ours to use.
pub(crate) fn handoff_path(store: &Store, cwd: &Path, agent: &AgentId) -> Option<String> {
    let dir = root(cwd).join(FOLDER);
    if !is_usable(store, &dir) {
        return None;
    }
    let path = dir.join(format!("handoff-{agent}.md"));
    Some(match path.strip_prefix(cwd) {
        Ok(short) => short.display().to_string(),
        Err(_) => path.display().to_string(),
    })
}

/// The folder for agents' work trees in the project; `None` if it is not ours to use.
pub(crate) fn work_trees(store: &Store, cwd: &Path) -> Result<Option<PathBuf>, FileError> {
    let dir = root(cwd).join(FOLDER);
    if !is_usable(store, &dir) {
        return Ok(None);
    }
    let trees = dir.join("worktrees");
    fs::refuse_links_between(&dir, &trees)?;
    Ok(Some(trees))
}

/// Makes the folder, ignored by git, before an agent is asked to write into it.
pub(crate) fn prepare(store: &Store, cwd: &Path) -> Result<(), FileError> {
    let dir = root(cwd).join(FOLDER);
    match std::fs::create_dir(&dir) {
        Ok(()) => {
            remember(store, &dir)?;
            fs::create(&dir.join(".gitignore"), IGNORE, SHARED, Sync::No).map(drop)
        }
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(e) => Err(FileError::new("create the folder", &dir, e)),
    }
}

/// Whether the folder is absent, or made by us and still a folder. In a folder where everybody can put files, others
/// could read it.
fn is_usable(store: &Store, dir: &Path) -> bool {
    if dir.parent().is_some_and(fs::is_shared) {
        return false;
    }
    match std::fs::symlink_metadata(dir) {
        Err(e) => e.kind() == std::io::ErrorKind::NotFound,
        Ok(meta) => {
            // If the list cannot be read, no folder is ours; agents then hand over on standard input.
            let is_ours = made(store).is_ok_and(|made| made.contains(&real(dir)));
            fs::is_own_dir(dir) && meta.is_dir() && (is_ours || is_of_an_earlier_version(dir))
        }
    }
}

fn list_path(store: &Store) -> PathBuf {
    store.state.join("offers.json")
}

/// The folders that we made.
fn made(store: &Store) -> Result<BTreeSet<PathBuf>, FileError> {
    Ok(record::read(&list_path(store))?.unwrap_or_default())
}

fn remember(store: &Store, dir: &Path) -> Result<(), FileError> {
    let mut made = made(store)?;
    made.retain(|dir| dir.is_dir());
    made.insert(real(dir));
    record::write(&list_path(store), &made)
}

/// Versions before the list left handoffs, tasks, work trees and a `.gitignore`, none of which git tracks.
fn is_of_an_earlier_version(dir: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(dir) else { return false };
    let is_ours = |entry: std::fs::DirEntry| {
        let name = entry.file_name();
        let name = name.to_str().unwrap_or_default();
        let is_text = (name.starts_with("handoff-") || name.starts_with("task-"))
            && name.rsplit('.').next() == Some("md");
        entry.file_type().is_ok_and(|kind| match name {
            "worktrees" => kind.is_dir(),
            _ => kind.is_file() && (name == ".gitignore" || is_text),
        })
    };
    let ignores_itself = matches!(fs::read(&dir.join(".gitignore"), 16), Ok(Some(bytes)) if bytes == IGNORE);
    ignores_itself && !is_tracked(dir) && entries.flatten().all(is_ours)
}

/// Whether git may track a file of the folder. Only an index that names none proves that it does not: an unpacked
/// archive has no index, and version 4 of the index format shortens the names in it.
fn is_tracked(dir: &Path) -> bool {
    const MAX_INDEX: u64 = 64 << 20;
    let index = dir.parent().unwrap_or(dir).join(".git/index");
    let Ok(Some(bytes)) = fs::read(&index, MAX_INDEX) else { return true };
    let is_readable = bytes.starts_with(b"DIRC") && matches!(bytes.get(4..8), Some([0, 0, 0, 2 | 3]));
    !is_readable || memchr::memmem::find(&bytes, b".baton/").is_some()
}
