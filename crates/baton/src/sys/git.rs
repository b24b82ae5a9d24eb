//! The git work tree around a folder, and how to run git there.

use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::sys::{child, fs};

/// How long git may take to read its settings. A stranger's settings may include a pipe that nobody writes to.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// Git in `dir`, which runs nothing that the repository's own settings name: hooks, a file monitor, filters. The author
/// of a packed folder with a `.git` has written those settings.
///
/// An error if those settings cannot be read in time: then it is unknown what would run.
pub(crate) fn without_its_commands(dir: &Path) -> io::Result<Command> {
    let mut git = Command::new("git");
    // To fetch missing objects, git would run commands that a remote's settings name.
    git.arg("-C").arg(dir).env("GIT_OPTIONAL_LOCKS", "0").env("GIT_NO_LAZY_FETCH", "1");
    // `core.worktree` could name another project, whose files git would then read, list and check out over.
    if let Some(root) = root(dir) {
        git.env("GIT_WORK_TREE", root);
    }
    // To show signatures in a log, git would run a program that checks them.
    let off = [("core.fsmonitor", "false"), ("core.hooksPath", "/dev/null"), ("log.showSignature", "false")];
    let mut settings: Vec<(String, &str)> = off.map(|(key, value)| (key.to_owned(), value)).into();
    for key in commands_and_paths(dir)? {
        // A filter without a command passes the text through, and an empty path names no file.
        let value = if key.ends_with(".required") { "false" } else { "" };
        settings.push((key, value));
    }
    // The user's environment may set some already.
    let set = std::env::var("GIT_CONFIG_COUNT").ok().and_then(|n| n.parse::<usize>().ok()).unwrap_or(0);
    git.env("GIT_CONFIG_COUNT", (set + settings.len()).to_string());
    for (n, (key, value)) in (set..).zip(&settings) {
        git.env(format!("GIT_CONFIG_KEY_{n}"), key).env(format!("GIT_CONFIG_VALUE_{n}"), value);
    }
    Ok(git)
}

/// The repository's own settings that filter what is checked out, or name files that may be pipes.
fn commands_and_paths(dir: &Path) -> io::Result<Vec<String>> {
    const NAMES: &str =
        r"^(filter\..*\.(smudge|clean|process|required)|core\.(excludesfile|attributesfile))$";
    let mut git = Command::new("git");
    git.arg("-C").arg(dir).args(["config", "--includes", "--null", "--name-only", "--show-scope"]);
    git.args(["--get-regexp", NAMES]);
    let out = child::output_within(&mut git, b"", PATIENCE)?;
    let text = String::from_utf8_lossy(&out.stdout);
    let fields: Vec<&str> = text.split_terminator('\0').collect();
    // Scopes and names alternate. The user's own filters, such as those of git-lfs, stay.
    let pairs = fields.as_chunks::<2>().0.iter();
    let own = pairs.filter(|[scope, _]| matches!(*scope, "local" | "worktree"));
    Ok(own.map(|[_, name]| (*name).to_owned()).collect())
}

/// Whether `dir` is the root of a work tree. A folder where everybody can put files does not count: a `.git` in `/tmp`
/// would otherwise make one project of everything below it, controlled by whoever put it there.
pub(crate) fn is_root(dir: &Path) -> bool {
    fs::is_in(dir, ".git") && !fs::is_shared(dir)
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

    #[test]
    fn a_folder_where_everybody_can_put_files_is_no_work_tree() {
        use std::os::unix::fs::PermissionsExt as _;
        let shared = tempfile::tempdir().unwrap();
        let app = shared.path().join("app");
        std::fs::create_dir_all(&app).unwrap();
        std::fs::create_dir(shared.path().join(".git")).unwrap();
        assert_eq!(root(&app), Some(shared.path()));
        std::fs::set_permissions(shared.path(), std::fs::Permissions::from_mode(0o1777)).unwrap();
        assert_eq!(root(&app), None);
    }
}
