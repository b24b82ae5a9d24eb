//! The configuration: defaults, then `config.toml`, then the project's `.baton.toml`, then `BATON_*`.
//!
//! What may be written is one table ([`keys`]); every value remembers where it came from. A key or value that is
//! not allowed is an error with file, line and what is allowed, never silently ignored.

mod keys;
mod parse;

use std::path::{Path, PathBuf};
use std::time::Duration;

use baton_core::latch::Voice;
use baton_core::level::{ByteLimits, Thresholds};
use jiff::SignedDuration;

pub use keys::KEYS;
pub use parse::ConfigError;

use crate::paths::Paths;
use crate::sys::fs;

/// The name of a project's own file.
pub const PROJECT_FILE: &str = ".baton.toml";

/// Everything that can be set, resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    pub context: Context,
    pub handoff: Handoff,
    pub run: Run,
    pub mirror: Mirror,
    pub memory: Memory,
    pub panes: Panes,
    pub compaction: Compaction,
    pub narrative: Narrative,
    pub notify: Notify,
    pub serve: Serve,
    /// Days that log, archive and records of what is over are kept.
    pub retention_days: u64,
    /// Publish a checkpoint with each handoff that has goal and now, creating the events folder if needed.
    pub checkpoints: bool,
    /// `[channels]`: absolute path and name.
    pub channels: Vec<(PathBuf, String)>,
    /// The channel that the nearest project file names, and that file's folder.
    pub project_channel: Option<(PathBuf, String)>,
}

/// Who answers a compaction where the mod runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compaction {
    /// The handoff becomes the context.
    Handoff,
    /// The client summarizes, as it would without us.
    Client,
    /// The handoff when a person asks with `/compact`, the client when compaction comes by itself.
    Ask,
}

/// Whose words an answered compaction carries when the agent wrote none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Narrative {
    Off,
    /// The session's own model is asked over its own cached conversation.
    Fork,
}

/// Who hears what an agent waits for; the daemon tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notify {
    /// A child's parent, by mail.
    pub parent: bool,
    /// The user, on the desktop.
    pub desktop: bool,
    /// The user, by a command of their own.
    pub command: Option<String>,
}

/// When an agent counts as full, and whether it is told.
#[derive(Debug, Clone, PartialEq)]
pub struct Context {
    pub enabled: bool,
    pub early_warning_percentage: u8,
    pub warning_percentage: u8,
    pub critical_percentage: u8,
    pub early_warning_tokens: Option<u64>,
    pub warning_tokens: Option<u64>,
    pub critical_tokens: Option<u64>,
    pub default_window: u64,
    /// Say one sentence at WARN.
    pub advise: bool,
    /// Ask for a handoff at CRITICAL.
    pub request: bool,
    /// Ask once more before a critical turn ends, when a fresh context can follow.
    pub block_stop: bool,
    pub early_warning_kb: u64,
    pub warning_kb: u64,
    pub critical_kb: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Handoff {
    pub dir: PathBuf,
    pub expiry: SignedDuration,
    /// Characters of a loaded handoff that one hook may inject.
    pub budget: u64,
    /// Load into headless runs that baton did not start.
    pub headless: bool,
    /// Seal an automatic handoff before compaction.
    pub seal: bool,
    /// Hold back an automatic compaction while a rotation is about to happen.
    pub block_compaction: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    pub max_restarts: u64,
    /// How long a client may take to end after SIGTERM.
    pub grace: Duration,
    /// How long a rotation waits for background tasks.
    pub background_wait: Duration,
    pub in_place_wait: Duration,
    /// Wait for a usage limit to end, and come back by itself.
    pub park: bool,
    /// A context this full is rotated in the middle of a turn.
    pub ceiling_percentage: Option<u8>,
    /// What `baton run` starts when nothing is named.
    pub provider: Option<String>,
}

/// The copies of conversations that baton keeps.
#[derive(Debug, Clone, PartialEq)]
pub struct Mirror {
    pub enabled: bool,
    /// `baton backup prune` removes what is older; 0 keeps it for ever.
    pub keep_days: u64,
    /// And the oldest, while all of it takes more than this; 0 is no limit.
    pub max_mb: u64,
}

/// What the projects' memories do by themselves.
#[derive(Debug, Clone, PartialEq)]
pub struct Memory {
    /// Tell a session that begins of a backup that waits.
    pub announce: bool,
}

/// Agents in tmux panes.
#[derive(Debug, Clone, PartialEq)]
pub struct Panes {
    /// The tmux server on which spawned agents live: its name, or the path of its socket.
    pub socket: String,
    /// Start the daemon, which attends to the panes, with the first agent that needs it.
    pub attend: bool,
}

/// The daemon.
#[derive(Debug, Clone, PartialEq)]
pub struct Serve {
    /// The loopback address on which it also listens, without `--http`.
    pub http: Option<String>,
}

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    Default,
    File { path: PathBuf, line: usize },
    Env(String),
}

/// The resolved configuration with the origin of each key, in the order of [`KEYS`].
#[derive(Debug, Clone)]
pub struct Resolved {
    pub config: Config,
    pub origins: Vec<Origin>,
    /// Where each line of `[channels]` stands.
    pub channel_origins: Vec<Origin>,
}

/// Reads everything that applies to `cwd`. `env` is passed in so that tests need no process of their own.
pub fn resolve(
    paths: &Paths,
    cwd: &Path,
    env: impl Iterator<Item = (String, String)>,
) -> Result<Resolved, ConfigError> {
    let mut resolved = Resolved {
        config: Config::defaults(paths),
        origins: vec![Origin::Default; KEYS.len()],
        channel_origins: Vec::new(),
    };
    parse::file(&mut resolved, &paths.config, parse::Scope::User, paths)?;
    for dir in project_files(paths, cwd) {
        parse::file(&mut resolved, &dir.join(PROJECT_FILE), parse::Scope::Project, paths)?;
    }
    parse::environment(&mut resolved, env, paths)?;
    Ok(resolved)
}

/// Folders from the outermost to `cwd` that hold a project file; inside a git work tree none above its root,
/// because another project's settings are none of this one's business.
fn project_files(paths: &Paths, cwd: &Path) -> Vec<PathBuf> {
    let mut dirs = Vec::new();
    for dir in cwd.ancestors() {
        if fs::is_in(dir, PROJECT_FILE) {
            let file = dir.join(PROJECT_FILE);
            if file != paths.config && file.is_file() {
                dirs.push(dir.to_owned());
            }
        }
        if fs::is_in(dir, ".git") {
            break;
        }
    }
    dirs.reverse();
    dirs
}

impl Context {
    pub fn thresholds(&self) -> Thresholds {
        Thresholds {
            early_warning_percentage: self.early_warning_percentage,
            warning_percentage: self.warning_percentage,
            critical_percentage: self.critical_percentage,
            early_warning_tokens: self.early_warning_tokens,
            warning_tokens: self.warning_tokens,
            critical_tokens: self.critical_tokens,
        }
    }

    pub fn byte_limits(&self) -> ByteLimits {
        ByteLimits {
            early_warning_kb: self.early_warning_kb,
            warning_kb: self.warning_kb,
            critical_kb: self.critical_kb,
        }
    }

    pub fn voice(&self) -> Voice {
        Voice {
            advise: self.enabled && self.advise,
            request: self.enabled && self.request,
            block_stop: self.enabled && self.block_stop,
        }
    }
}

impl Config {
    pub fn defaults(paths: &Paths) -> Self {
        Self {
            context: Context {
                enabled: true,
                early_warning_percentage: 40,
                warning_percentage: 50,
                critical_percentage: 65,
                early_warning_tokens: None,
                warning_tokens: None,
                critical_tokens: None,
                default_window: 200_000,
                advise: true,
                request: true,
                block_stop: true,
                early_warning_kb: 1300,
                warning_kb: 1500,
                critical_kb: 1700,
            },
            handoff: Handoff {
                dir: paths.claude.join("handoff"),
                expiry: SignedDuration::from_hours(2),
                budget: 9_500,
                headless: false,
                seal: true,
                block_compaction: false,
            },
            run: Run {
                max_restarts: 10,
                grace: Duration::from_secs(5),
                background_wait: Duration::from_mins(10),
                in_place_wait: Duration::from_secs(15),
                park: true,
                ceiling_percentage: None,
                provider: None,
            },
            mirror: Mirror { enabled: true, keep_days: 90, max_mb: 10_000 },
            memory: Memory { announce: true },
            panes: Panes { socket: "baton".to_owned(), attend: true },
            compaction: Compaction::Handoff,
            narrative: Narrative::Off,
            notify: Notify { parent: true, desktop: false, command: None },
            serve: Serve { http: None },
            retention_days: 90,
            checkpoints: false,
            channels: Vec::new(),
            project_channel: None,
        }
    }
}
