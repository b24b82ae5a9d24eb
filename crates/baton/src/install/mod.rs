//! Plugging into the clients, and out again without leaving a mark.
//!
//! First everything is planned, so that it can be shown; then it is carried out in an order that never leaves a hook
//! pointing at a file that is not there: binary, record, plugin folder, settings. An uninstall goes the other way.

pub mod codex;
pub mod diff;
pub mod gitignore;
pub mod ours;
pub mod place;
pub mod plan;
pub mod plugin;
pub mod record;
pub mod settings;
mod skills;
pub mod trust;
pub mod uninstall;
pub mod version;

use std::path::{Path, PathBuf};
use std::time::Duration;

use self::place::Edit;
pub use self::plan::{Folder, Hooks, Plan, plan};
use self::plugin::sha256;
use crate::paths::Paths;
use crate::sys::fs;
use crate::sys::lock::Lock;

/// Where baton is made ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// All projects of this user.
    User,
    /// One project: for this user alone, or for everybody who works on it.
    Project { dir: PathBuf, shared: bool },
}

impl Scope {
    fn project(&self) -> Option<&Path> {
        match self {
            Self::User => None,
            Self::Project { dir, .. } => Some(dir),
        }
    }

    fn is_shared(&self) -> bool {
        matches!(self, Self::Project { shared: true, .. })
    }

    /// The settings file of this scope, as its user names it.
    pub fn settings(&self, paths: &Paths) -> PathBuf {
        match self {
            Self::User => paths.claude.join("settings.json"),
            Self::Project { dir, shared: false } => dir.join(".claude/settings.local.json"),
            Self::Project { dir, shared: true } => dir.join(".claude/settings.json"),
        }
    }

    /// Under which name the status line before ours is kept.
    fn key(&self) -> String {
        match self {
            Self::User => "user".to_owned(),
            Self::Project { dir, .. } => sha256(dir.as_os_str().as_encoded_bytes())[..12].to_owned(),
        }
    }
}

/// The project around `cwd`: a repository or a folder that the client knows as one, else `cwd` itself.
pub fn project_of(paths: &Paths, cwd: &Path) -> PathBuf {
    let is_project =
        |dir: &&Path| **dir != paths.home && (dir.join(".git").exists() || dir.join(".claude").is_dir());
    cwd.ancestors().find(is_project).unwrap_or(cwd).to_owned()
}

/// The plugin folder, in the client's own.
const FOLDER: &str = "skills/baton";

pub fn folder(paths: &Paths) -> PathBuf {
    paths.claude.join(FOLDER)
}

#[derive(Debug, Clone)]
pub struct Options {
    pub scope: Scope,
    pub statusline: bool,
    pub commands: bool,
    /// Hooks into the settings instead of the plugin folder.
    pub settings: bool,
    pub rule: bool,
    pub sm: bool,
    pub bin_dir: PathBuf,
}

/// Are hooks of the user's own install registered? Then none of a project's may be.
fn user_hooks(claude: &Path) -> bool {
    plugin::read_stamp(&claude.join(FOLDER)).is_some() || has_hooks(&claude.join("settings.json"))
}

/// Will a client that starts in `cwd` call our hooks? `claude` is the client's own folder.
pub fn hooks_apply(claude: &Path, cwd: &Path) -> bool {
    let in_project = |dir: &Path| {
        has_hooks(&dir.join(".claude/settings.local.json"))
            || (has_hooks(&dir.join(".claude/settings.json")) && version::on_path("baton").is_some())
    };
    user_hooks(claude) || cwd.ancestors().any(in_project)
}

fn has_hooks(settings: &Path) -> bool {
    let bytes = place::real(settings).ok().and_then(|real| fs::read(&real, 16 << 20).ok().flatten());
    bytes.and_then(|b| settings::look(&b).ok()).is_some_and(|found| !found.hooks.is_empty())
}

/// What becomes of other people's files, as a diff.
pub fn edits_diff(paths: &Paths, edits: &[Edit]) -> String {
    let text = |bytes: &Option<Vec<u8>>| bytes.as_ref().map(|b| String::from_utf8_lossy(b).into_owned());
    edits
        .iter()
        .map(|e| diff::unified(&paths.short(&e.path), text(&e.before).as_deref(), text(&e.after).as_deref()))
        .collect()
}

/// Tells the hooks that a team shares whether the user's own are in the settings; the folder speaks for itself.
fn mark_own_hooks(state: &Path, there: bool) -> anyhow::Result<()> {
    let mark = state.join(crate::hot::OWN_HOOKS);
    match (there, mark.exists()) {
        (true, false) => fs::replace(&mark, b"", fs::PRIVATE, fs::Sync::No)?,
        (false, true) => fs::remove(&mark)?,
        _ => {}
    }
    Ok(())
}

fn lock(paths: &Paths) -> anyhow::Result<Lock> {
    fs::private_dir(&paths.state)?;
    Ok(Lock::acquire(&paths.state.join("install.lock"), Duration::from_secs(5))?)
}
