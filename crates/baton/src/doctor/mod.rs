//! Does everything work? A list of independent checks, each a small function from what it sees to findings.
//!
//! A check only looks; where a remedy is safe it comes along and `--fix` takes it.

mod client;
mod codex;
mod context;
mod hooks;
mod house;
pub mod rehearse;

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Serialize;

use crate::config::{Config, ConfigError};
use crate::install::{Scope, settings};
use crate::paths::Paths;
use crate::store::Store;
use crate::sys::fs;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Ok,
    /// Good to know.
    Note,
    /// Works, but not as well as it could.
    Warn,
    /// Does not work.
    Fail,
}

/// What a check found, and what to do about it.
#[derive(Serialize)]
pub struct Finding {
    pub level: Level,
    pub what: String,
    #[serde(rename = "do", skip_serializing_if = "Option::is_none")]
    pub todo: Option<String>,
    #[serde(skip)]
    pub fix: Option<Fix>,
}

/// A remedy that needs no question.
pub type Fix = Box<dyn FnOnce() -> anyhow::Result<()>>;

impl Finding {
    pub fn ok(what: impl Into<String>) -> Self {
        Self { level: Level::Ok, what: what.into(), todo: None, fix: None }
    }

    pub fn note(what: impl Into<String>) -> Self {
        Self { level: Level::Note, ..Self::ok(what) }
    }

    pub fn warn(what: impl Into<String>, todo: impl Into<String>) -> Self {
        Self { level: Level::Warn, todo: Some(todo.into()), ..Self::ok(what) }
    }

    pub fn fail(what: impl Into<String>, todo: impl Into<String>) -> Self {
        Self { level: Level::Fail, todo: Some(todo.into()), ..Self::ok(what) }
    }

    #[must_use]
    pub fn fixed_by(mut self, fix: impl FnOnce() -> anyhow::Result<()> + 'static) -> Self {
        self.fix = Some(Box::new(fix));
        self
    }
}

/// What the checks look at.
pub struct Scene {
    pub paths: Paths,
    pub cwd: PathBuf,
    pub store: Store,
    pub config: Config,
    pub config_error: Option<ConfigError>,
    pub now: Timestamp,
    /// The settings files that apply here, the most specific first.
    pub settings: Vec<Source>,
}

/// A settings file and what is in it.
pub struct Source {
    pub path: PathBuf,
    pub content: Content,
}

pub enum Content {
    Missing,
    Unusable(String),
    There { value: serde_json::Value, found: settings::Found },
}

impl Source {
    fn read(path: PathBuf) -> Self {
        let bytes = std::fs::canonicalize(&path).ok().map(|real| fs::read(&real, 16 << 20));
        let content = match bytes {
            None | Some(Ok(None)) => Content::Missing,
            Some(Err(e)) => Content::Unusable(e.to_string()),
            Some(Ok(Some(bytes))) => match (settings::value(&bytes), settings::look(&bytes)) {
                (Ok(value), Ok(found)) => Content::There { value, found },
                (Err(e), _) | (_, Err(e)) => Content::Unusable(e.to_string()),
            },
        };
        Self { path, content }
    }

    pub fn value(&self) -> Option<&serde_json::Value> {
        match &self.content {
            Content::There { value, .. } => Some(value),
            _ => None,
        }
    }

    pub fn found(&self) -> Option<&settings::Found> {
        match &self.content {
            Content::There { found, .. } => Some(found),
            _ => None,
        }
    }
}

impl Scene {
    pub fn new(paths: Paths, cwd: PathBuf) -> Self {
        let env =
            std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
        let (config, config_error) = match crate::config::resolve(&paths, &cwd, env) {
            Ok(resolved) => (resolved.config, None),
            Err(e) => (Config::defaults(&paths), Some(e)),
        };
        let dir = crate::install::project_of(&paths, &cwd);
        let project = |shared| Scope::Project { dir: dir.clone(), shared }.settings(&paths);
        let mut files = vec![managed_settings(), project(false), project(true), Scope::User.settings(&paths)];
        files.dedup();
        let settings = files.into_iter().map(Source::read).collect();
        Self { store: Store::new(&paths), paths, cwd, config, config_error, now: Timestamp::now(), settings }
    }

    /// The first value of `key` in the settings, the most specific first.
    pub fn setting(&self, key: &str) -> Option<(&Source, &serde_json::Value)> {
        self.settings.iter().find_map(|source| Some((source, source.value()?.get(key)?)))
    }

    pub fn short(&self, path: &Path) -> String {
        self.paths.short(path)
    }
}

/// What an administrator has laid down for the machine.
fn managed_settings() -> PathBuf {
    let dir = if cfg!(target_os = "macos") {
        "/Library/Application Support/ClaudeCode"
    } else {
        "/etc/claude-code"
    };
    Path::new(dir).join("managed-settings.json")
}

type Check = fn(&Scene) -> Vec<Finding>;

const CHECKS: [(&str, Check); 20] = [
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
];

/// Runs every check: its name and what it found.
pub fn examine(scene: &Scene) -> Vec<(&'static str, Finding)> {
    CHECKS.iter().flat_map(|(name, check)| check(scene).into_iter().map(move |f| (*name, f))).collect()
}
