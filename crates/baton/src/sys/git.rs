//! The git work tree around a folder, and how to run git there.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::sys::fs;

/// Git in `dir`, which runs nothing that the repository's own settings name: hooks, a file monitor, filters. Whoever
/// packed a folder with its `.git` has written those.
pub(crate) fn without_its_commands(dir: &Path) -> Command {
    let mut git = Command::new("git");
    // To fetch what is missing, it would run what a remote's settings name.
    git.arg("-C").arg(dir).env("GIT_OPTIONAL_LOCKS", "0").env("GIT_NO_LAZY_FETCH", "1");
    let off = [("core.fsmonitor", "false"), ("core.hooksPath", "/dev/null")];
    let mut settings: Vec<(String, &str)> = off.map(|(key, value)| (key.to_owned(), value)).into();
    for key in filters(dir) {
        // A filter without a command passes the text on.
        let value = if key.ends_with(".required") { "false" } else { "" };
        settings.push((key, value));
    }
    // The user's environment may set some already.
    let set = std::env::var("GIT_CONFIG_COUNT").ok().and_then(|n| n.parse::<usize>().ok()).unwrap_or(0);
    git.env("GIT_CONFIG_COUNT", (set + settings.len()).to_string());
    for (n, (key, value)) in (set..).zip(&settings) {
        git.env(format!("GIT_CONFIG_KEY_{n}"), key).env(format!("GIT_CONFIG_VALUE_{n}"), value);
    }
    git
}

/// The names of the settings by which the repository itself filters what is checked out.
fn filters(dir: &Path) -> Vec<String> {
    let mut git = Command::new("git");
    git.arg("-C").arg(dir).args(["config", "--includes", "--null", "--name-only", "--show-scope"]);
    git.args(["--get-regexp", r"^filter\..*\.(smudge|clean|process|required)$"]);
    let Ok(out) = git.stdin(Stdio::null()).stderr(Stdio::null()).output() else { return Vec::new() };
    let text = String::from_utf8_lossy(&out.stdout);
    let fields: Vec<&str> = text.split_terminator('\0').collect();
    // Scope and name take turns. The user's own filters, such as those of git-lfs, stay.
    let pairs = fields.as_chunks::<2>().0.iter();
    let own = pairs.filter(|[scope, _]| matches!(*scope, "local" | "worktree"));
    own.map(|[_, name]| (*name).to_owned()).collect()
}

/// Whether `dir` is the root of a work tree.
pub(crate) fn is_root(dir: &Path) -> bool {
    fs::is_in(dir, ".git")
}

/// The root of the work tree that holds `dir`, if there is one.
pub(crate) fn root(dir: &Path) -> Option<&Path> {
    dir.ancestors().find(|dir| is_root(dir))
}

/// `dir` and the folders above it, up to the root of its work tree, or all of them if there is none.
pub(crate) fn up_to_root(dir: &Path) -> impl Iterator<Item = &Path> {
    let mut is_above = false;
    dir.ancestors().take_while(move |dir| {
        let is_within = !is_above;
        is_above = is_root(dir);
        is_within
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_upwards_ends_with_the_root_of_the_work_tree() {
        let home = tempfile::tempdir().unwrap();
        let inner = home.path().join("work/app/src/deep");
        std::fs::create_dir_all(&inner).unwrap();
        let app = home.path().join("work/app");
        assert_eq!(up_to_root(&inner).count(), inner.ancestors().count());
        // In a linked work tree `.git` is a file.
        std::fs::write(app.join(".git"), "gitdir: elsewhere").unwrap();
        assert_eq!(up_to_root(&inner).last(), Some(app.as_path()));
        assert_eq!(up_to_root(&inner).count(), 3);
        assert_eq!(root(&inner), Some(app.as_path()));
        assert_eq!(up_to_root(&app).count(), 1);
    }
}
