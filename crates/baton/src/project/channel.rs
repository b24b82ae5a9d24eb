//! Gathers the facts for `core::channel` from the file system.

use std::io;
use std::path::{Path, PathBuf};

use baton_core::channel::{Channel, Clues, resolve};
use baton_core::ids::BadId;

use crate::config::{Config, PROJECT_FILE};
use crate::sys::paths::Paths;
use crate::sys::{fs, git};

/// Upper bound for git's small files: pointers hold one line, configurations a few.
const MAX_GIT_FILE: u64 = 256 << 10;

/// The channel of `cwd`. `flag` is the value of `--channel`.
pub(crate) fn of(
    cwd: &Path,
    flag: Option<&str>,
    env: Option<String>,
    config: &Config,
    paths: &Paths,
) -> Result<Channel, BadId> {
    let cwd = real(cwd);
    let git = git::root(&cwd);
    // A repository that cannot be verified is a separate project, named after its folder.
    let git_common = git.and_then(|root| common_git_dir(root).ok());
    let unknown = git.is_some() && git_common.is_none();
    let marked = if git.is_some() { None } else { marked_folder(&cwd, paths) };
    resolve(&Clues {
        flag: flag.map(str::to_owned),
        env: env.filter(|name| !name.is_empty()),
        map: config.channels.iter().map(|(path, name)| (real(path), name.clone())).collect(),
        project: config.project_channel.as_ref().map(|(dir, name)| (real(dir), name.clone())),
        git_common,
        marked: marked.or_else(|| git.map(Path::to_owned).filter(|_| unknown)),
        cwd: cwd.clone(),
    })
}

/// Resolves links. A path that does not exist stays as it is written, without a trailing slash.
pub(crate) fn real(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.components().collect())
}

/// The folder that all work trees of a repository share, after which the channel is named.
///
/// `.git` is a folder, or a file of a linked work tree or a submodule that points to one. Such a file is trusted only
/// if its target points back *from inside the repository that it names*: an archive can hold both ends of a chain of
/// files, but not a file in someone else's `.git/worktrees`.
pub(crate) fn common_git_dir(root: &Path) -> io::Result<PathBuf> {
    let dot_git = root.join(".git");
    if fs::is_plain_dir(&dot_git) {
        return std::fs::canonicalize(dot_git);
    }
    let text = read_line(&dot_git)?;
    let target = text.strip_prefix("gitdir:").ok_or(io::ErrorKind::InvalidData)?.trim();
    let git_dir = std::fs::canonicalize(root.join(target))?;
    if points_back_as_work_tree(&git_dir, &dot_git) {
        let common = std::fs::canonicalize(git_dir.join(read_line(&git_dir.join("commondir"))?))?;
        if git_dir.parent() == Some(&common.join("worktrees")) {
            return Ok(common);
        }
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the folder that .git names is not one of the repository's work trees",
        ));
    }
    if points_back_as_submodule(&git_dir, root) {
        return Ok(git_dir);
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidData,
        "the repository that .git names does not know this folder",
    ))
}

/// `worktrees/{name}/gitdir` of the repository names the work tree's `.git`.
fn points_back_as_work_tree(git_dir: &Path, dot_git: &Path) -> bool {
    read_line(&git_dir.join("gitdir")).is_ok_and(|back| real(&git_dir.join(back)) == real(dot_git))
}

/// `core.worktree` in the configuration of the submodule's repository names its folder.
fn points_back_as_submodule(git_dir: &Path, root: &Path) -> bool {
    let Ok(Some(config)) = fs::read(&git_dir.join("config"), MAX_GIT_FILE) else { return false };
    let config = String::from_utf8_lossy(&config).into_owned();
    let named = config.lines().filter_map(|line| line.trim().strip_prefix("worktree"));
    let mut named = named.filter_map(|rest| rest.trim_start().strip_prefix('='));
    named.any(|path| real(&git_dir.join(path.trim())) == real(root))
}

/// The text of a small git file, trimmed. A missing file is an error too.
fn read_line(path: &Path) -> io::Result<String> {
    match fs::read(path, MAX_GIT_FILE) {
        Ok(Some(bytes)) => Ok(String::from_utf8_lossy(&bytes).trim().to_owned()),
        Ok(None) => Err(io::ErrorKind::NotFound.into()),
        Err(e) => Err(io::Error::other(e.to_string())),
    }
}

/// The nearest folder with `.claude/` or a project file. The home folder's `.claude` is the client's own and
/// does not make a project of everything below it.
fn marked_folder(cwd: &Path, paths: &Paths) -> Option<PathBuf> {
    let claude = real(&paths.claude);
    cwd.ancestors()
        .find(|dir| {
            let own = dir.join(".claude");
            let is_marked = (own.is_dir() && real(&own) != claude && **dir != real(&paths.home))
                || dir.join(PROJECT_FILE).is_file();
            // Somebody else may have put the mark there.
            is_marked && !fs::is_shared(dir)
        })
        .map(Path::to_owned)
}
