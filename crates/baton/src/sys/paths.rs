//! Where files are. Read once from the environment; nothing else in the tree reads `$HOME`.

use std::env;
use std::path::{Path, PathBuf};

use baton_core::plain::plain_line;

#[derive(Debug, Clone)]
pub struct Paths {
    pub home: PathBuf,
    /// The client's own folder: `CLAUDE_CONFIG_DIR`, else `~/.claude`.
    pub claude: PathBuf,
    /// `$XDG_STATE_HOME/baton`; `BATON_STATE_DIR` overrides.
    pub state: PathBuf,
    /// `$XDG_CONFIG_HOME/baton/config.toml`; `BATON_CONFIG` overrides.
    pub config: PathBuf,
}

#[derive(Debug, thiserror::Error)]
#[error("HOME is not set, and no home folder is on record for this user; set HOME and try again")]
pub(crate) struct NoHome;

impl Paths {
    pub(crate) fn from_env() -> Result<Self, NoHome> {
        let home = absolute("HOME").or_else(on_record).ok_or(NoHome)?;
        let claude = absolute("CLAUDE_CONFIG_DIR").unwrap_or_else(|| home.join(".claude"));
        let state = absolute("BATON_STATE_DIR").unwrap_or_else(|| {
            absolute("XDG_STATE_HOME").unwrap_or_else(|| home.join(".local/state")).join("baton")
        });
        let config = absolute("BATON_CONFIG").unwrap_or_else(|| {
            absolute("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config")).join("baton/config.toml")
        });
        Ok(Self { home, claude, state, config })
    }

    /// The file in which Claude Code keeps its state about its user and every project: beside its folder, or inside the
    /// one that `CLAUDE_CONFIG_DIR` names.
    pub(crate) fn client_state(&self) -> PathBuf {
        let is_default = self.claude == self.home.join(".claude");
        if is_default { self.home.join(".claude.json") } else { self.claude.join(".claude.json") }
    }

    /// Codex's own folder: `CODEX_HOME`, else `~/.codex`.
    pub fn codex(&self) -> PathBuf {
        absolute("CODEX_HOME").unwrap_or_else(|| self.home.join(".codex"))
    }

    /// `path` as people write it, on one line: `~` for the home folder.
    pub fn short(&self, path: &Path) -> String {
        let text = match path.strip_prefix(&self.home) {
            Ok(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
            Ok(rest) => format!("~/{}", rest.display()),
            Err(_) => path.display().to_string(),
        };
        plain_line(&text, 4096)
    }

    /// The inverse, for paths in the configuration.
    pub fn expand(&self, text: &str) -> PathBuf {
        match text.strip_prefix('~') {
            Some("") => self.home.clone(),
            Some(rest) if rest.starts_with('/') => self.home.join(&rest[1..]),
            _ => PathBuf::from(text),
        }
    }
}

/// The home folder from the system's user database, for a client that was started without `HOME`.
#[cold]
fn on_record() -> Option<PathBuf> {
    env::home_dir().filter(|home| home.is_absolute())
}

/// Ignores a relative or empty value, which would mean another folder in every process.
fn absolute(name: &str) -> Option<PathBuf> {
    env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute())
}
