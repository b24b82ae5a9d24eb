//! The project that a handoff belongs to.
//!
//! The sources, first match wins: the command line, the environment, `[channels]` of the configuration (longest
//! path), the project's own `.baton.toml`, the git repository, a folder marked by `.claude/` or `.baton.toml`,
//! else `global`. This module decides; finding git folders and resolving links is the caller's work.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::ids::{BadId, ChannelName};
use crate::plain::plain_line;

/// The caller's facts about a working directory. All paths are absolute and free of links.
#[derive(Debug, Clone, Default)]
pub struct Clues {
    pub cwd: PathBuf,
    pub flag: Option<String>,
    pub env: Option<String>,
    /// `[channels]`: path and name, in file order.
    pub map: Vec<(PathBuf, String)>,
    /// The nearest `.baton.toml` inside the project that names a channel: its folder and that name.
    pub project: Option<(PathBuf, String)>,
    /// The repository's common git folder: the same for all its work trees.
    pub git_common: Option<PathBuf>,
    /// The nearest folder outside git that holds `.claude/` or `.baton.toml`.
    pub marked: Option<PathBuf>,
}

/// The channel and how it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Channel {
    pub name: ChannelName,
    pub why: Why,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    Flag,
    Env,
    Map(PathBuf),
    Project(PathBuf),
    Git(PathBuf),
    Marked(PathBuf),
    Nothing,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => f.write_str("--channel"),
            Self::Env => f.write_str("BATON_CHANNEL"),
            Self::Map(path) => {
                write!(f, "[channels] \"{}\" in the configuration", plain_line(&path.to_string_lossy(), 300))
            }
            Self::Project(dir) => {
                write!(f, "channel in {}", plain_line(&dir.join(".baton.toml").to_string_lossy(), 300))
            }
            Self::Git(common) => write!(f, "git repository {}", plain_line(&common.to_string_lossy(), 300)),
            Self::Marked(dir) => {
                write!(
                    f,
                    "{} has a .claude folder or a .baton.toml and is not in git",
                    plain_line(&dir.to_string_lossy(), 300)
                )
            }
            Self::Nothing => f.write_str("no project found above this folder"),
        }
    }
}

/// Resolves the channel. Fails only if an explicitly given name is not usable.
pub fn resolve(clues: &Clues) -> Result<Channel, BadId> {
    let named = |name: &str, why| Ok(Channel { name: ChannelName::new(name)?, why });
    if let Some(name) = &clues.flag {
        return named(name, Why::Flag);
    }
    if let Some(name) = &clues.env {
        return named(name, Why::Env);
    }
    if let Some((path, name)) = longest_match(&clues.map, &clues.cwd) {
        return named(name, Why::Map(path.clone()));
    }
    if let Some((dir, name)) = &clues.project {
        return named(name, Why::Project(dir.clone()));
    }
    if let Some(common) = &clues.git_common {
        return named(&derived(&repository_name(common), common), Why::Git(common.clone()));
    }
    if let Some(dir) = &clues.marked {
        return named(&derived(&file_name(dir), dir), Why::Marked(dir.clone()));
    }
    named(crate::handoff::manifest::GLOBAL, Why::Nothing)
}

/// The entry with the longest path that contains `cwd`, component by component. Of two equal paths the later line wins.
fn longest_match<'a>(map: &'a [(PathBuf, String)], cwd: &Path) -> Option<&'a (PathBuf, String)> {
    map.iter().filter(|(path, _)| cwd.starts_with(path)).max_by_key(|(path, _)| path.components().count())
}

/// `…/app/.git` and `…/app.git` are both `app`; a submodule's `…/.git/modules/lib` is `lib`.
fn repository_name(common: &Path) -> String {
    let name = file_name(common);
    match name.strip_suffix(".git") {
        Some("") => common.parent().map_or_else(|| name.clone(), file_name),
        Some(bare) => bare.to_owned(),
        None => name,
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(|| "root".to_owned(), |n| n.to_string_lossy().into_owned())
}

/// A readable name plus six hex digits of the path, so that two projects with the same folder name do not collide.
fn derived(name: &str, path: &Path) -> String {
    let mut safe: String = name
        .chars()
        .take(48)
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '-' })
        .collect();
    let trimmed = safe.trim_start_matches(['.', '-']).to_owned();
    safe = if trimmed.is_empty() { "project".to_owned() } else { trimmed };
    let hash = fnv1a(path.as_os_str().as_encoded_bytes());
    format!("{safe}-{:06x}", hash & 0x00ff_ffff)
}

/// FNV-1a folded to 32 bits. Channel names are on disk, so the hash must not depend on any library's version.
pub(crate) fn fnv1a(bytes: &[u8]) -> u64 {
    let hash = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0000_0100_0000_01b3));
    hash ^ (hash >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn clues(cwd: &str) -> Clues {
        Clues { cwd: cwd.into(), ..Clues::default() }
    }

    fn map(entries: &[(&str, &str)]) -> Vec<(PathBuf, String)> {
        entries.iter().map(|(p, n)| (PathBuf::from(p), (*n).to_owned())).collect()
    }

    #[test]
    fn the_sources_are_asked_in_their_order() {
        let mut c = clues("/home/dev/app/src");
        assert_eq!(resolve(&c).unwrap().name.as_str(), "global");
        c.marked = Some("/home/dev/app".into());
        assert!(matches!(resolve(&c).unwrap().why, Why::Marked(_)));
        c.git_common = Some("/home/dev/app/.git".into());
        assert!(matches!(resolve(&c).unwrap().why, Why::Git(_)));
        c.project = Some(("/home/dev/app".into(), "own".into()));
        assert_eq!(resolve(&c).unwrap().name.as_str(), "own");
        c.map = map(&[("/home/dev", "work")]);
        assert_eq!(resolve(&c).unwrap().name.as_str(), "work");
        c.env = Some("env".into());
        assert_eq!(resolve(&c).unwrap().name.as_str(), "env");
        c.flag = Some("flag".into());
        assert_eq!(resolve(&c).unwrap().name.as_str(), "flag");
    }

    #[test]
    fn the_longest_path_wins_and_a_name_prefix_is_not_a_parent() {
        let mut c = clues("/p/app/sub/x");
        c.map = map(&[("/p/app/sub", "sub"), ("/p/app", "app"), ("/p/ap", "wrong"), ("/p", "p")]);
        assert_eq!(resolve(&c).unwrap().name.as_str(), "sub");
        c.cwd = "/p/app2".into();
        assert_eq!(resolve(&c).unwrap().name.as_str(), "p");
    }

    #[test]
    fn a_repository_is_named_after_its_folder_and_told_apart_by_its_path() {
        let name = |common: &str| {
            resolve(&Clues { git_common: Some(common.into()), ..clues("/x") }).unwrap().name.to_string()
        };
        let (a, b) = (name("/one/app/.git"), name("/two/app/.git"));
        assert!(a.starts_with("app-") && b.starts_with("app-") && a != b, "{a} {b}");
        assert!(name("/srv/tool.git").starts_with("tool-"));
        assert!(name("/one/app/.git/modules/lib").starts_with("lib-"));
        assert!(name("/one/Mañana proj/.git").starts_with("Ma-ana-proj-"));
        assert!(name("/one/.dots/.git").starts_with("dots-"));
        // Every earlier version stored this name on disk.
        assert_eq!(name("/home/dev/app/.git"), "app-aa73a3");
    }

    #[test]
    fn a_name_that_cannot_be_a_file_name_is_refused() {
        for bad in ["../x", "a/b", "", "a b"] {
            let c = Clues { flag: Some(bad.into()), ..clues("/x") };
            assert!(resolve(&c).is_err(), "{bad:?} was accepted");
        }
    }

    proptest! {
        #[test]
        fn matching_is_by_the_deepest_containing_path(
            depths in proptest::collection::vec(0..6usize, 0..8), cwd_depth in 0..8usize, fork in 0..8usize
        ) {
            let path = |depth: usize| {
                (0..depth).fold(PathBuf::from("/r"), |p, i| p.join(if i == fork { "y".into() } else { format!("d{i}") }))
            };
            let straight = (0..cwd_depth).fold(PathBuf::from("/r"), |p, i| p.join(format!("d{i}")));
            let entries: Vec<_> = depths.iter().enumerate().map(|(i, d)| (path(*d), format!("n{i}"))).collect();
            let c = Clues { cwd: straight.clone(), map: entries.clone(), ..Clues::default() };
            let expected = entries.iter().rev()
                .filter(|(p, _)| straight.ancestors().any(|a| a == p))
                .max_by(|a, b| a.0.as_os_str().len().cmp(&b.0.as_os_str().len()).then(std::cmp::Ordering::Greater))
                .map_or("global", |(_, n)| n.as_str());
            let got = resolve(&c).unwrap();
            let depth_of = |n: &str| entries.iter().find(|(_, m)| m == n).map(|(p, _)| p.clone());
            prop_assert_eq!(depth_of(got.name.as_str()), depth_of(expected));
        }

        #[test]
        fn every_folder_name_gives_a_usable_channel(name in "\\PC{1,80}") {
            prop_assume!(!name.contains('/'));
            let c = Clues { marked: Some(PathBuf::from("/r").join(name)), ..clues("/r") };
            prop_assert!(resolve(&c).is_ok());
        }
    }
}
