//! Checks whether everything works: a list of independent checks, each a small function from a scene to findings.
//!
//! A check only looks; a safe remedy comes with its finding, and `--fix` applies it.

mod client;
mod codex;
mod context;
mod hooks;
mod house;
pub(crate) mod rehearse;
mod rules;

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Serialize;

use crate::config::{Config, ConfigError};
use crate::setup::install::{InstallScope, is_installed, settings};
use crate::store::Store;
use crate::sys::fs;
use crate::sys::paths::Paths;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Severity {
    Ok,
    /// Good to know.
    Note,
    /// Works, but not as well as it could.
    Warn,
    /// Does not work.
    Fail,
}

/// A check's finding and remedy.
#[derive(Serialize)]
pub(crate) struct Finding {
    pub level: Severity,
    pub what: String,
    #[serde(rename = "do", skip_serializing_if = "Option::is_none")]
    pub todo: Option<String>,
    #[serde(skip)]
    pub fix: Option<Fix>,
}

/// A remedy that is safe without asking.
pub(crate) type Fix = Box<dyn FnOnce() -> anyhow::Result<()>>;

impl Finding {
    pub(crate) fn ok(what: impl Into<String>) -> Self {
        Self { level: Severity::Ok, what: what.into(), todo: None, fix: None }
    }

    pub(crate) fn note(what: impl Into<String>) -> Self {
        Self { level: Severity::Note, ..Self::ok(what) }
    }

    pub(crate) fn warn(what: impl Into<String>, todo: impl Into<String>) -> Self {
        Self { level: Severity::Warn, todo: Some(todo.into()), ..Self::ok(what) }
    }

    pub(crate) fn fail(what: impl Into<String>, todo: impl Into<String>) -> Self {
        Self { level: Severity::Fail, todo: Some(todo.into()), ..Self::ok(what) }
    }

    #[must_use]
    pub(crate) fn fixed_by(mut self, fix: impl FnOnce() -> anyhow::Result<()> + 'static) -> Self {
        self.fix = Some(Box::new(fix));
        self
    }
}

/// The input of the checks.
pub(crate) struct Scene {
    pub paths: Paths,
    pub cwd: PathBuf,
    pub store: Store,
    pub config: Config,
    pub config_error: Option<ConfigError>,
    pub now: Timestamp,
    /// The settings files that apply here, most specific first.
    pub settings: Vec<SettingsFile>,
}

/// A settings file and its content.
pub(crate) struct SettingsFile {
    pub path: PathBuf,
    pub content: Content,
}

pub(crate) enum Content {
    Missing,
    Unusable(String),
    There { value: serde_json::Value },
}

impl SettingsFile {
    fn read(path: PathBuf) -> Self {
        let bytes = std::fs::canonicalize(&path).ok().map(|real| fs::read(&real, 16 << 20));
        let content = match bytes {
            None | Some(Ok(None)) => Content::Missing,
            Some(Err(e)) => Content::Unusable(e.to_string()),
            Some(Ok(Some(bytes))) => match (settings::value(&bytes), settings::look(&bytes)) {
                (Ok(value), Ok(_)) => Content::There { value },
                (Err(e), _) | (_, Err(e)) => Content::Unusable(e.to_string()),
            },
        };
        Self { path, content }
    }

    pub(crate) fn value(&self) -> Option<&serde_json::Value> {
        match &self.content {
            Content::There { value } => Some(value),
            _ => None,
        }
    }
}

impl Scene {
    pub(crate) fn new(paths: Paths, cwd: PathBuf) -> Self {
        let env =
            std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
        let (config, config_error) = match crate::project::trust::settings(&paths, &cwd, env) {
            Ok(resolved) => (resolved.config, None),
            Err(e) => (Config::defaults(&paths), Some(e)),
        };
        let dir = crate::setup::install::project_of(&paths, &cwd);
        let project = |shared| InstallScope::Project { dir: dir.clone(), shared }.settings(&paths);
        let mut files =
            vec![managed_settings(), project(false), project(true), InstallScope::User.settings(&paths)];
        files.dedup();
        let settings = files.into_iter().map(SettingsFile::read).collect();
        Self { store: Store::new(&paths), paths, cwd, config, config_error, now: Timestamp::now(), settings }
    }

    /// The most specific value of `key` in the settings.
    pub(crate) fn setting(&self, key: &str) -> Option<(&SettingsFile, &serde_json::Value)> {
        self.settings.iter().find_map(|source| Some((source, source.value()?.get(key)?)))
    }

    pub(crate) fn short(&self, path: &Path) -> String {
        self.paths.short(path)
    }
}

/// The administrator's settings for the machine.
fn managed_settings() -> PathBuf {
    let dir = if cfg!(target_os = "macos") {
        "/Library/Application Support/ClaudeCode"
    } else {
        "/etc/claude-code"
    };
    Path::new(dir).join("managed-settings.json")
}

type Check = fn(&Scene) -> Vec<Finding>;

const CHECKS: [(&str, Check); 21] = [
    ("program", house::program),
    ("configuration", house::configuration),
    ("client", client::version),
    ("settings", client::settings),
    ("hooks", hooks::registered),
    ("files", hooks::referenced),
    ("called", hooks::called),
    ("policy", client::policy),
    ("status line", client::statusline),
    ("permission", client::permission),
    ("fresh context", context::actuators),
    ("thresholds", context::thresholds),
    ("auto-compact", context::auto_compact),
    ("folders", house::folders),
    ("locks", house::locks),
    ("clock", house::clock),
    ("listeners", house::listeners),
    ("others", hooks::others),
    ("codex", codex::hooks),
    ("leftovers", house::leftovers),
    ("set aside", house::set_aside),
];

/// Checks of an install's results; without an install they are silent or wrong.
const OF_AN_INSTALL: [&str; 3] = ["files", "permission", "fresh context"];
const INSTALL: &str = "run `baton install`";

/// Runs every applicable check and returns its name with each finding. Mentions a missing install once.
pub(crate) fn examine(scene: &Scene) -> Vec<(&'static str, Finding)> {
    let installed = is_installed(&scene.paths, &scene.cwd);
    let checks = CHECKS.iter().filter(|(name, _)| installed || !OF_AN_INSTALL.contains(name));
    let found = checks.flat_map(|(name, check)| check(scene).into_iter().map(move |f| (*name, f)));
    found.filter(|(_, finding)| installed || finding.todo.as_deref() != Some(INSTALL)).collect()
}
