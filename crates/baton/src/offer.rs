//! The path offered to an agent for its own handoff: inside the project, outside `.claude/`, ignored by git.

use std::path::{Path, PathBuf};

use baton_core::ids::AgentId;

use crate::sys::fs::{self, FileError, SHARED, Sync};

const FOLDER: &str = ".baton";

/// `.baton/handoff-{agent}.md` in the project, relative to `cwd` where that is shorter to type.
pub fn handoff_path(cwd: &Path, agent: &AgentId) -> String {
    let path = project(cwd).join(FOLDER).join(format!("handoff-{agent}.md"));
    match path.strip_prefix(cwd) {
        Ok(short) => short.display().to_string(),
        Err(_) => path.display().to_string(),
    }
}

fn project(cwd: &Path) -> PathBuf {
    cwd.ancestors().find(|dir| dir.join(".git").exists()).unwrap_or(cwd).to_owned()
}

/// Makes the folder, ignored by git, before an agent is asked to write into it. If that fails the agent still
/// can, and `git status` shows it.
pub fn prepare(cwd: &Path) {
    let _ = try_prepare(&project(cwd));
}

fn try_prepare(project: &Path) -> Result<(), FileError> {
    let dir = project.join(FOLDER);
    let ignore = dir.join(".gitignore");
    if ignore.exists() {
        return Ok(());
    }
    std::fs::create_dir_all(&dir).map_err(|e| FileError::new("create the folder", &dir, e))?;
    fs::create(&ignore, b"*\n", SHARED, Sync::No).map(drop)
}
