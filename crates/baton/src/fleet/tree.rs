//! The state of a work tree by name, asked from git.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context as _;
use baton_core::fleet::envelope::WorkTree;

/// A larger patch is refused: push the branch instead.
const MAX_PATCH: usize = 1 << 20;
/// Names that are told.
const MAX_NAMES: usize = 50;

/// What a repository says; nothing if it does not know.
fn git(dir: &Path, args: &[&str]) -> anyhow::Result<Option<String>> {
    let mut command = Command::new("git");
    command
        .arg("-C")
        .arg(dir)
        .args(["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"])
        .args(args);
    let ran =
        command.env("GIT_OPTIONAL_LOCKS", "0").stdin(Stdio::null()).output().context("could not run git")?;
    Ok(ran.status.success().then(|| String::from_utf8_lossy(&ran.stdout).trim_end().to_owned()))
}

fn lines(text: Option<String>) -> Vec<String> {
    text.unwrap_or_default().lines().take(MAX_NAMES).map(str::to_owned).collect()
}

/// Where this folder's branch comes from, without what a URL may carry of a password.
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

/// The state of the work tree around `dir`; `with_patch` adds what no remote has.
pub(crate) fn look(dir: &Path, with_patch: bool) -> anyhow::Result<WorkTree> {
    let Some(commit) = git(dir, &["rev-parse", "--verify", "HEAD"])? else { return Ok(WorkTree::default()) };
    let unpushed = git(dir, &["log", "--format=%h %s", "HEAD", "--not", "--remotes"])?;
    let mut tree = WorkTree {
        remote: remote(dir)?,
        branch: git(dir, &["rev-parse", "--abbrev-ref", "HEAD"])?.filter(|name| name != "HEAD"),
        dirty: lines(git(dir, &["status", "--porcelain", "--untracked-files=normal"])?),
        unpushed: lines(unpushed),
        commit: Some(commit),
        base: None,
        patch: None,
    };
    if with_patch && (!tree.dirty.is_empty() || !tree.unpushed.is_empty()) {
        // The oldest commit that no remote has, and what it is based on.
        let ahead = git(dir, &["rev-list", "HEAD", "--not", "--remotes"])?.unwrap_or_default();
        let base = match ahead.lines().last() {
            Some(oldest) => git(dir, &["rev-parse", "--verify", &format!("{oldest}^")])?,
            None => tree.commit.clone(),
        };
        let base = base
            .context("no remote has any commit of this branch, so there is nothing a patch could apply to")?;
        let mut patch =
            git(dir, &["diff", "--binary", "--no-ext-diff", &base])?.context("git could not make a patch")?;
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
