//! Gathers what `core::channel` needs from the file system.

use std::io;
use std::path::{Path, PathBuf};

use baton_core::channel::{Channel, Clues, resolve};
use baton_core::ids::BadId;

use crate::config::{Config, PROJECT_FILE};
use crate::paths::Paths;

/// The channel of `cwd`. `flag` is what `--channel` said.
pub fn of(
    cwd: &Path,
    flag: Option<&str>,
    env: Option<String>,
    config: &Config,
    paths: &Paths,
) -> Result<Channel, BadId> {
    let cwd = real(cwd);
    let git_root = cwd.ancestors().find(|dir| dir.join(".git").exists());
    let git_common = git_root.and_then(|root| common_git_dir(&root.join(".git")).ok());
    let marked = if git_common.is_some() { None } else { marked_folder(&cwd, paths) };
    resolve(&Clues {
        flag: flag.map(str::to_owned),
        env: env.filter(|name| !name.is_empty()),
        map: config.channels.iter().map(|(path, name)| (real(path), name.clone())).collect(),
        project: config.project_channel.as_ref().map(|(dir, name)| (real(dir), name.clone())),
        git_common,
        marked,
        cwd,
    })
}

/// Links resolved; a path that does not exist is taken as it is written, without a trailing slash.
pub fn real(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.components().collect())
}

/// The folder that all work trees of a repository share. `.git` is a folder, or a file that points to one.
fn common_git_dir(dot_git: &Path) -> io::Result<PathBuf> {
    let git_dir = if dot_git.is_dir() {
        dot_git.to_owned()
    } else {
        let text = std::fs::read_to_string(dot_git)?;
        let target = text.trim().strip_prefix("gitdir:").ok_or(io::ErrorKind::InvalidData)?.trim();
        dot_git.parent().unwrap_or(Path::new("/")).join(target)
    };
    match std::fs::read_to_string(git_dir.join("commondir")) {
        Ok(common) => std::fs::canonicalize(git_dir.join(common.trim())),
        Err(_) => std::fs::canonicalize(git_dir),
    }
}

/// The nearest folder with `.claude/` or a project file. The home folder's `.claude` is the client's own and
/// does not make a project of everything below it.
fn marked_folder(cwd: &Path, paths: &Paths) -> Option<PathBuf> {
    let claude = real(&paths.claude);
    cwd.ancestors()
        .find(|dir| {
            let own = dir.join(".claude");
            (own.is_dir() && real(&own) != claude && **dir != real(&paths.home))
                || dir.join(PROJECT_FILE).is_file()
        })
        .map(Path::to_owned)
}
