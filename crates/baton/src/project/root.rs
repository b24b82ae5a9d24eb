//! The project's folder.

use std::path::Path;

use crate::sys::git;

/// The project's folder: the git work tree, else `dir` itself.
pub(crate) fn root(dir: &Path) -> &Path {
    git::root(dir).unwrap_or(dir)
}

/// The project's name, with which its agents' names begin.
pub(crate) fn name(dir: &Path) -> String {
    let name = root(dir).file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let safe: String = name
        .chars()
        .take(40)
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_') { c } else { '-' })
        .collect();
    let safe = safe.trim_matches(['-', '.']).to_owned();
    if safe.is_empty() { "agent".to_owned() } else { safe }
}
