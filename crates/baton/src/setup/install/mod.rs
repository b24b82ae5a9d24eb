//! Integrates with the clients, and removes itself without a trace.
//!
//! Everything is planned first, so that it can be shown. Then it is carried out in an order that never leaves a hook
//! pointing at a missing file: binary, record, plugin folder, settings. An uninstall goes the other way.

pub(crate) mod codex;
mod feature;
pub(crate) mod files;
pub mod ours;
pub(crate) mod plan;
pub mod plugin;
pub(crate) mod record;
pub mod settings;
mod skills;
pub mod trust;
pub(crate) mod uninstall;
pub(crate) mod version;

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::setup::install::files::Edit;
pub(crate) use crate::setup::install::plan::{Hooks, InstallPlan, PluginFolder, plan};
use crate::sys::hash::sha256;
use crate::sys::lock::Lock;
use crate::sys::paths::Paths;
use crate::sys::{fs, git};
use crate::views::diff;

/// Where baton is installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum InstallScope {
    /// All projects of this user.
    User,
    /// One project: only for this user, or for everybody who works on it.
    Project { dir: PathBuf, shared: bool },
}

impl InstallScope {
    fn project(&self) -> Option<&Path> {
        match self {
            Self::User => None,
            Self::Project { dir, .. } => Some(dir),
        }
    }

    pub(crate) fn is_shared(&self) -> bool {
        matches!(self, Self::Project { shared: true, .. })
    }

    /// The settings file of this scope, as its user names it.
    pub(crate) fn settings(&self, paths: &Paths) -> PathBuf {
        match self {
            Self::User => paths.claude.join("settings.json"),
            Self::Project { dir, shared: false } => dir.join(".claude/settings.local.json"),
            Self::Project { dir, shared: true } => dir.join(".claude/settings.json"),
        }
    }

    /// The key of the earlier status line.
    pub(in crate::setup) fn key(&self) -> String {
        match self {
            Self::User => "user".to_owned(),
            Self::Project { dir, .. } => sha256(dir.as_os_str().as_encoded_bytes())[..12].to_owned(),
        }
    }
}

/// The scope of a settings file. Both files of a project share one key for their status line.
pub(in crate::setup) fn scope_of(paths: &Paths, file: &Path) -> InstallScope {
    let is_users = files::real(&InstallScope::User.settings(paths)).is_ok_and(|real| real == file);
    match file.parent().and_then(Path::parent) {
        Some(dir) if !is_users => InstallScope::Project { dir: dir.to_owned(), shared: false },
        _ => InstallScope::User,
    }
}

/// The project around `cwd`: a repository or a folder that the client treats as one, else `cwd` itself.
pub(crate) fn project_of(paths: &Paths, cwd: &Path) -> PathBuf {
    let is_project = |dir: &&Path| **dir != paths.home && (git::is_root(dir) || dir.join(".claude").is_dir());
    cwd.ancestors().find(is_project).unwrap_or(cwd).to_owned()
}

/// The plugin folder inside the client's own folder.
const FOLDER: &str = "skills/baton";

pub(crate) fn folder(paths: &Paths) -> PathBuf {
    paths.claude.join(FOLDER)
}

#[derive(Debug, Clone)]
pub(crate) struct InstallOptions {
    pub scope: InstallScope,
    pub statusline: bool,
    pub commands: bool,
    /// Put hooks into the settings instead of the plugin folder.
    pub settings: bool,
    /// Permission rules to add.
    pub rules: Vec<&'static str>,
    /// Permission rules that stop agents from deciding for the user.
    pub denied: Vec<&'static str>,
    pub sm: bool,
    pub bin_dir: PathBuf,
}

/// Whether the user's own install has hooks; then no project's may be registered.
fn user_hooks(claude: &Path) -> bool {
    plugin::read_stamp(&claude.join(FOLDER)).is_some() || has_hooks(&claude.join("settings.json"))
}

/// Whether a client that starts in `cwd` calls our hooks. `claude` is the client's own folder.
pub(crate) fn hooks_apply(claude: &Path, cwd: &Path) -> bool {
    let in_project = |dir: &Path| {
        has_hooks(&dir.join(".claude/settings.local.json"))
            || (has_hooks(&dir.join(".claude/settings.json")) && version::on_path("baton").is_some())
    };
    user_hooks(claude) || cwd.ancestors().any(in_project)
}

/// Whether any client calls us here. An unreadable record counts as yes.
pub(crate) fn is_installed(paths: &Paths, cwd: &Path) -> bool {
    record::InstallRecord::read(&paths.state).map_or(true, |record| !record.installs.is_empty())
        || hooks_apply(&paths.claude, cwd)
        || codex::standing(paths).is_registered()
}

fn has_hooks(settings: &Path) -> bool {
    look(settings).is_some_and(|found| !found.hooks.is_empty())
}

fn look(settings: &Path) -> Option<settings::SettingsSummary> {
    let bytes = files::real(settings).ok().and_then(|real| fs::read(&real, 16 << 20).ok().flatten());
    settings::look(&bytes?).ok()
}

/// The permission rules of ours that an earlier install added there.
pub(crate) fn rules_there(paths: &Paths, scope: &InstallScope) -> Vec<String> {
    look(&scope.settings(paths)).map(|found| found.rules).unwrap_or_default()
}

/// The edits of other people's files as a diff.
pub(crate) fn edits_diff(paths: &Paths, edits: &[Edit]) -> String {
    let text = |bytes: &Option<Vec<u8>>| bytes.as_ref().map(|b| String::from_utf8_lossy(b).into_owned());
    edits
        .iter()
        .map(|e| diff::unified(&paths.short(&e.path), text(&e.before).as_deref(), text(&e.after).as_deref()))
        .collect()
}

/// Exists in the state folder while the user's settings contain our hooks.
const OWN_HOOKS: &str = "hooks-in-settings";

/// Whether an install covers all projects of this user. Only shared hooks ask, so two file checks are cheap enough.
pub(crate) fn has_own_hooks(paths: &Paths) -> bool {
    folder(paths).join("hooks/hooks.json").exists() || paths.state.join(OWN_HOOKS).exists()
}

/// Tells a team's shared hooks whether the user's own are in the settings; the plugin folder needs no mark.
fn mark_own_hooks(state: &Path, there: bool) -> anyhow::Result<()> {
    let mark = state.join(OWN_HOOKS);
    match (there, mark.exists()) {
        (true, false) => fs::replace(&mark, b"", fs::PRIVATE, fs::Sync::No)?,
        (false, true) => fs::remove(&mark)?,
        _ => {}
    }
    Ok(())
}

pub(in crate::setup) fn lock(paths: &Paths) -> anyhow::Result<Lock> {
    fs::private_dir(&paths.state)?;
    Ok(Lock::acquire(&paths.state.join("install.lock"), Duration::from_secs(5))?)
}
