//! The state of a work tree by name, asked from git.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use baton_core::fleet::envelope::WorkTree;

use crate::project::trust;
use crate::sys::child;

/// A larger patch is refused: push the branch instead.
const MAX_PATCH: usize = 1 << 20;
/// What a large repository takes.
const LONGEST: Duration = Duration::from_secs(30);
/// How many file names are listed.
const MAX_NAMES: usize = 50;

/// In each submodule git starts another git, which does not have our settings and runs what that submodule's own name.
const LEAVE_SUBMODULES: &str = "--ignore-submodules=dirty";

/// Git's answer; `None` if it has none.
fn git(dir: &Path, args: &[&str]) -> anyhow::Result<Option<String>> {
    let mut command = trust::git_in(dir).context("could not read what git is set to do")?;
    // These are settings of the user, too, and nothing that is only looked at needs them.
    command.args(["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"]).args(args);
    let ran = child::output_within(command.env("GIT_OPTIONAL_LOCKS", "0"), b"", LONGEST)
        .context("could not run git")?;
    Ok(ran.status.success().then(|| String::from_utf8_lossy(&ran.stdout).trim_end().to_owned()))
}

/// The first lines of what git must know about a repository. If it fails, nobody knows what is missing elsewhere.
fn lines(dir: &Path, args: &[&str]) -> anyhow::Result<Vec<String>> {
    let text = git(dir, args)?.with_context(|| {
        format!("git could not say what is unpushed or changed in {} (git {})", dir.display(), args[0])
    })?;
    Ok(text.lines().take(MAX_NAMES).map(str::to_owned).collect())
}

/// The remote of this folder's branch, without a password in the URL.
pub(crate) fn remote(dir: &Path) -> anyhow::Result<Option<String>> {
    let name = match git(dir, &["rev-parse", "--abbrev-ref", "@{upstream}"])? {
        Some(upstream) => upstream.split('/').next().unwrap_or("origin").to_owned(),
        None => "origin".to_owned(),
    };
    let url = git(dir, &["config", "--get", &format!("remote.{name}.url")])?.filter(|url| !url.is_empty());
    Ok(url.map(|url| match url.split_once("://") {
        Some((scheme, rest)) => {
            let end = rest.find('/').unwrap_or(rest.len());
            let (host, path) = rest.split_at(end);
            format!("{scheme}://{}{path}", host.rsplit_once('@').map_or(host, |(_, host)| host))
        }
        None => url,
    }))
}

/// The state of the work tree around `dir`; `with_patch` adds the commits that no remote has.
pub(crate) fn look(dir: &Path, with_patch: bool) -> anyhow::Result<WorkTree> {
    let Some(commit) = git(dir, &["rev-parse", "--verify", "HEAD"])? else { return Ok(WorkTree::default()) };
    let mut tree = WorkTree {
        remote: remote(dir)?,
        branch: git(dir, &["rev-parse", "--abbrev-ref", "HEAD"])?.filter(|name| name != "HEAD"),
        dirty: lines(dir, &["status", "--porcelain", "--untracked-files=normal", LEAVE_SUBMODULES])?,
        unpushed: lines(dir, &["log", "--format=%h %s", "HEAD", "--not", "--remotes"])?,
        commit: Some(commit),
        base: None,
        patch: None,
    };
    if with_patch && (!tree.dirty.is_empty() || !tree.unpushed.is_empty()) {
        // The oldest commit that no remote has, and what it is based on.
        let ahead = git(dir, &["rev-list", "HEAD", "--not", "--remotes"])?
            .context("git could not list the commits that no remote has")?;
        let base = match ahead.lines().last() {
            Some(oldest) => git(dir, &["rev-parse", "--verify", &format!("{oldest}^")])?,
            None => tree.commit.clone(),
        };
        let base = base
            .context("no remote has any commit of this branch, so there is nothing a patch could apply to")?;
        let mut patch =
            git(dir, &["diff", "--binary", "--no-ext-diff", "--no-textconv", LEAVE_SUBMODULES, &base])?
                .context("git could not make a patch")?;
        patch.push('\n');
        anyhow::ensure!(
            patch.len() <= MAX_PATCH,
            "the patch would have {} bytes, more than {MAX_PATCH}; push the branch instead",
            patch.len()
        );
        (tree.base, tree.patch) = (Some(base), Some(patch));
    }
    Ok(tree)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn git(dir: &Path, args: &[&str]) {
        let mut git = Command::new("git");
        git.arg("-C").arg(dir).args(["-c", "user.name=a", "-c", "user.email=a@localhost"]);
        assert!(git.args(args).output().unwrap().status.success(), "{args:?}");
    }

    /// A repository with a change, whose filters run `touch`.
    fn repository(dir: &Path, touches: &Path) {
        git(dir, &["init", "-q"]);
        std::fs::write(dir.join("a"), "one\n").unwrap();
        std::fs::write(dir.join(".gitattributes"), "* filter=x diff=y\n").unwrap();
        git(dir, &["add", "."]);
        git(dir, &["commit", "-qm", "A"]);
        std::fs::write(dir.join("a"), "two\n").unwrap();
        let run = format!("touch {} #", touches.display());
        for key in ["filter.x.clean", "filter.x.smudge", "diff.y.textconv", "diff.external", "core.fsmonitor"]
        {
            git(dir, &["config", key, &run]);
        }
    }

    /// Somebody packed the folder with its `.git`: nothing that its settings name may run.
    #[test]
    fn a_look_at_a_strangers_repository_runs_none_of_its_commands() {
        let dir = tempfile::tempdir().unwrap();
        let ran = dir.path().join(".git/ran");
        repository(dir.path(), &ran);
        git(dir.path(), &["update-ref", "refs/remotes/origin/main", "HEAD"]);
        let tree = look(dir.path(), true).unwrap();
        assert!(tree.patch.is_some_and(|patch| patch.contains("+two")), "the look is of use");
        assert!(!ran.exists(), "a command of the repository ran");
    }

    #[test]
    fn a_look_at_a_strangers_repository_runs_no_command_of_its_submodules() {
        let dir = tempfile::tempdir().unwrap();
        let (top, sub) = (dir.path().join("top"), dir.path().join("top/sub"));
        std::fs::create_dir_all(&sub).unwrap();
        let ran = dir.path().join("ran");
        repository(&sub, &ran);
        git(&top, &["init", "-q"]);
        std::fs::write(top.join("a"), "one\n").unwrap();
        git(&top, &["add", "."]);
        git(&top, &["commit", "-qm", "A"]);
        git(&top, &["update-ref", "refs/remotes/origin/main", "HEAD"]);
        std::fs::write(top.join("a"), "two\n").unwrap();
        let _ = std::fs::remove_file(&ran);
        let tree = look(&top, true).unwrap();
        assert!(tree.patch.is_some_and(|patch| patch.contains("+two")), "the look is of use");
        assert!(!ran.exists(), "a command of the submodule ran");
    }

    /// A tree that git cannot read may have changes that nobody else has.
    #[test]
    fn a_repository_that_git_cannot_read_is_not_one_without_changes() {
        let dir = tempfile::tempdir().unwrap();
        git(dir.path(), &["init", "-q"]);
        std::fs::write(dir.path().join("a"), "one\n").unwrap();
        git(dir.path(), &["add", "."]);
        git(dir.path(), &["commit", "-qm", "A"]);
        git(dir.path(), &["update-ref", "refs/remotes/origin/main", "HEAD"]);
        std::fs::write(dir.path().join("a"), "two\n").unwrap();
        assert_eq!(look(dir.path(), false).unwrap().dirty, [" M a"]);
        std::fs::write(dir.path().join(".git/index"), "damaged").unwrap();
        let said = look(dir.path(), false).unwrap_err().to_string();
        assert!(said.contains("changed in") && said.contains("git status"), "{said}");
    }

    #[test]
    fn a_look_at_a_strangers_repository_shows_no_other_folder() {
        let dir = tempfile::tempdir().unwrap();
        let (top, other) = (dir.path().join("top"), dir.path().join("other"));
        for dir in [&top, &other] {
            std::fs::create_dir_all(dir).unwrap();
        }
        git(&top, &["init", "-q"]);
        std::fs::write(top.join("a"), "one\n").unwrap();
        git(&top, &["add", "."]);
        git(&top, &["commit", "-qm", "A"]);
        git(&top, &["update-ref", "refs/remotes/origin/main", "HEAD"]);
        std::fs::write(other.join("a"), "private\n").unwrap();
        git(&top, &["config", "core.worktree", other.to_str().unwrap()]);
        let tree = look(&top, true).unwrap();
        assert_eq!((tree.dirty.len(), tree.patch), (0, None));
    }
}
