//! The git work tree around a folder.

use std::path::Path;

use crate::sys::fs;

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
