//! The git worktree of a spawned agent: made for it, and removed with it if nothing in it would be lost.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use baton_core::ids::AgentId;
use baton_core::plain::plain_line;

use crate::handoffs::offer;
use crate::project::{channel, trust};
use crate::store::Store;
use crate::sys::{child, fs, git};

/// Runs git in `dir`. Returns whether it succeeded, and its output.
fn git(dir: &Path, args: &[&str]) -> anyhow::Result<(bool, String)> {
    /// A checkout of a large repository takes minutes.
    const LONGEST: Duration = Duration::from_mins(10);
    let limit = if args[0] == "rev-parse" { git::PATIENCE } else { LONGEST };
    let output = trust::git_in(dir)
        .and_then(|mut git| child::output_within(git.args(args), b"", limit))
        .with_context(|| format!("could not run git in {}", shown(dir)))?;
    let said = if output.status.success() { output.stdout } else { output.stderr };
    Ok((output.status.success(), String::from_utf8_lossy(&said).trim().to_owned()))
}

/// Makes a checkout below the project, on a branch named after the agent. Reuses an existing one.
pub(crate) fn make(store: &Store, cwd: &Path, name: &AgentId) -> anyhow::Result<PathBuf> {
    let (found, root) = git(cwd, &["rev-parse", "--show-toplevel"])?;
    ensure!(found, "--worktree needs a git repository, and {} is in none", shown(cwd));
    let root = Path::new(&root);
    offer::prepare(store, root)?;
    let folder = offer::work_trees(store, root)?.with_context(|| {
        format!(
            "{}/.baton is not baton's own, so no work tree can be made there; move it away, or spawn without --worktree",
            shown(root)
        )
    })?;
    // These may be pipes that came with the repository, and git would wait for them.
    for file in ["info/exclude", "info/attributes"] {
        let file = channel::common_git_dir(root)?.join(file);
        let is_sound = std::fs::metadata(&file).map_or(true, |about| about.is_file());
        ensure!(is_sound, "{} is no file; remove it, or spawn without --worktree", shown(&file));
    }
    let path = folder.join(name.as_str());
    if std::fs::symlink_metadata(&path).is_ok() {
        let is_of_this_repository = fs::is_plain_dir(&path)
            && channel::common_git_dir(&path).ok() == channel::common_git_dir(root).ok();
        ensure!(
            is_of_this_repository,
            "{} exists and is not a work tree of this repository; remove it, or choose another name",
            shown(&path)
        );
        return Ok(path);
    }
    let target = path.display().to_string();
    let branch = format!("refs/heads/{name}");
    let (known, _) = git(cwd, &["rev-parse", "--verify", "--quiet", &branch])?;
    let add: &[&str] = if known {
        &["worktree", "add", &target, name.as_str()]
    } else {
        &["worktree", "add", "-b", name.as_str(), &target]
    };
    let (made, said) = git(cwd, add)?;
    ensure!(made, "git made no worktree {}: {}", shown(&path), plain_line(&said, 1000));
    Ok(path)
}

fn shown(path: &Path) -> String {
    plain_line(&path.display().to_string(), 4096)
}

/// The outcome of removing a worktree.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum WorktreeRemoval {
    Removed,
    /// It stays, for this reason.
    Kept(String),
    /// It was removed before.
    Gone,
}

/// Removes a worktree in which everything is committed. Its branch stays.
pub(crate) fn remove(path: &Path) -> WorktreeRemoval {
    if !path.join(".git").exists() {
        return WorktreeRemoval::Gone;
    }
    let kept = |why: String| WorktreeRemoval::Kept(why);
    match git(path, &["status", "--porcelain"]) {
        Ok((true, changes)) if changes.is_empty() => {}
        Ok((true, changes)) => {
            let n = changes.lines().count();
            return kept(format!("{n} file{} not committed", if n == 1 { " is" } else { "s are" }));
        }
        Ok((false, said)) => return kept(said),
        Err(e) => return kept(format!("{e:#}")),
    }
    // A worktree cannot be removed from within.
    let (Ok((true, common)), Some(target)) =
        (git(path, &["rev-parse", "--path-format=absolute", "--git-common-dir"]), path.to_str())
    else {
        return kept("git does not say which repository it belongs to".to_owned());
    };
    match git(Path::new(&common), &["worktree", "remove", target]) {
        Ok((true, _)) => WorktreeRemoval::Removed,
        Ok((false, said)) => kept(said),
        Err(e) => kept(format!("{e:#}")),
    }
}
