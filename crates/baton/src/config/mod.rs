//! The configuration: defaults, then `config.toml`, then the project's `.baton.toml`, then `BATON_*`.
//!
//! One table ([`keys`]) lists all keys, and every value remembers its origin. An invalid key or value is an error with
//! file, line and the allowed values, never silently ignored.

pub(crate) mod address;
pub(crate) mod edit;
mod keys;
mod parse;
mod values;

use std::path::{Path, PathBuf};
use std::time::Duration;

use baton_core::approval::rules::Rules;
use baton_core::latch::Voice;
use baton_core::level::{ByteLimits, Thresholds};
use jiff::SignedDuration;

pub use keys::KEYS;
pub(crate) use parse::ConfigError;

use crate::sys::paths::Paths;
use crate::sys::{fs, git};

/// The name of a project's own file.
pub(crate) const PROJECT_FILE: &str = ".baton.toml";

/// All settings, resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    pub context: ContextSettings,
    pub handoff: HandoffSettings,
    pub run: RunSettings,
    pub mirror: MirrorSettings,
    pub memory: MemorySettings,
    pub panes: PaneSettings,
    pub compaction: CompactionChoice,
    pub narrative: NarrativeSource,
    pub notify: NotifySettings,
    pub approvals: ApprovalSettings,
    pub serve: ServeSettings,
    pub page: PageSettings,
    pub fleet: FleetSettings,
    /// How many days the log, the archive and the records of ended sessions and agents are kept.
    pub retention_days: u64,
    /// Publish a checkpoint with each handoff that has goal and now, creating the events folder if needed.
    pub checkpoints: bool,
    /// `[channels]`: absolute path and name.
    pub channels: Vec<(PathBuf, String)>,
    /// The channel named by the nearest project file, and that file's folder.
    pub project_channel: Option<(PathBuf, String)>,
}

/// Who handles a compaction where the mod runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompactionChoice {
    /// The handoff becomes the context.
    Handoff,
    /// The client summarises, as without us.
    Client,
    /// The handoff if a person asks with `/compact`, the client for an automatic compaction.
    Ask,
}

/// Whose narrative an answered compaction carries if the agent wrote none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NarrativeSource {
    Off,
    /// Asks the session's own model over its cached conversation.
    Fork,
}

/// Who the daemon notifies when an agent waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotifySettings {
    /// A child's parent, by mail.
    pub parent: bool,
    /// The user, on the desktop.
    pub desktop: bool,
    /// The user, by a command of their own.
    pub command: Option<String>,
    /// Muted notices as `agent:kind`, either part may be `*`.
    pub mute: String,
}

/// Permission requests answered outside the client's own dialog.
#[derive(Debug, Clone, PartialEq)]
pub struct ApprovalSettings {
    pub wait_for: WaitFor,
    /// How long a request waits for an answer; after that only its dialog can answer.
    pub deadline: Duration,
    /// The same without a person at the client; after that the tool is denied.
    pub headless_deadline: Duration,
    /// `allow` and `deny`, only from the user's own file.
    pub rules: Rules,
}

/// Whose requests wait for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitFor {
    All,
    Spawned,
    /// Only those of agents started with `--approvals`.
    Nobody,
}

/// When a context is full, and whether to tell the agent.
#[derive(Debug, Clone, PartialEq)]
pub struct ContextSettings {
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
    /// Ask once more before a critical turn ends, if a fresh context can follow.
    pub block_stop: bool,
    pub early_warning_kb: u64,
    pub warning_kb: u64,
    pub critical_kb: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct HandoffSettings {
    pub dir: PathBuf,
    pub expiry: SignedDuration,
    /// How many characters of a loaded handoff one hook may inject.
    pub budget: u64,
    /// How many characters of a handoff may answer a compaction.
    pub answer_budget: u64,
    /// How many files of the working set to show to a fresh context.
    pub files: u64,
    /// How many tokens of one file to show; of a larger one only the parts in play.
    pub file_tokens: u64,
    /// Load into headless runs that baton did not start.
    pub headless: bool,
    /// Seal an automatic handoff before compaction.
    pub seal: bool,
    /// Block an automatic compaction while a rotation is about to happen.
    pub block_compaction: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RunSettings {
    pub max_restarts: u64,
    /// How long a client may take to end after SIGTERM.
    pub grace: Duration,
    /// How long a rotation waits for background tasks.
    pub background_wait: Duration,
    pub in_place_wait: Duration,
    /// Wait for a usage limit to end, then continue by itself.
    pub park: bool,
    /// Rotate a context this full even in the middle of a turn.
    pub ceiling_percentage: Option<u8>,
    /// The provider that `baton run` starts by default.
    pub provider: Option<String>,
}

/// The copies of conversations that baton keeps.
#[derive(Debug, Clone, PartialEq)]
pub struct MirrorSettings {
    pub enabled: bool,
    /// `baton backup prune` removes older ones; 0 keeps them forever.
    pub keep_days: u64,
    /// It also removes the oldest while all of them together exceed this; 0 means no limit.
    pub max_mb: u64,
}

/// Automatic use of the projects' memories.
#[derive(Debug, Clone, PartialEq)]
pub struct MemorySettings {
    /// Tell a new session of a waiting backup.
    pub announce: bool,
}

/// Agents in tmux panes.
#[derive(Debug, Clone, PartialEq)]
pub struct PaneSettings {
    /// The tmux server for spawned agents: its name, or its socket's path.
    pub socket: String,
    /// Start the daemon, which attends the panes, with the first agent that needs it.
    pub attend: bool,
}

/// The daemon.
#[derive(Debug, Clone, PartialEq)]
pub struct ServeSettings {
    /// The loopback address that it also listens on, without `--http`.
    pub http: Option<String>,
    /// Names, and ports other than 443, under which a TLS proxy of the user's passes requests on.
    pub hosts: Vec<String>,
}

/// What is shared with other machines of the fleet, by channel.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetSettings {
    /// Channels whose conversations they may list and fetch.
    pub share: Vec<String>,
    /// Channels whose agents they do not see.
    pub hide: Vec<String>,
}

/// The page that the daemon serves.
#[derive(Debug, Clone, PartialEq)]
pub struct PageSettings {
    /// It may change things without a code by which the user confirms that.
    pub write: bool,
}

/// The origin of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SettingOrigin {
    Default,
    File { path: PathBuf, line: usize },
    Env(String),
}

impl SettingOrigin {
    /// For people: where to look for it.
    pub(crate) fn shown(&self, paths: &Paths) -> String {
        match self {
            Self::Default => "default".to_owned(),
            Self::File { path, line } => format!("{}:{line}", paths.short(path)),
            Self::Env(name) => name.clone(),
        }
    }
}

/// The resolved configuration with the origin of each key, in the order of [`KEYS`].
#[derive(Debug, Clone)]
pub(crate) struct ResolvedConfig {
    pub config: Config,
    pub origins: Vec<SettingOrigin>,
    /// The origin of each rule of `[approvals]`.
    pub rule_origins: Vec<SettingOrigin>,
    /// The origin of each line of `[channels]`.
    pub channel_origins: Vec<SettingOrigin>,
    /// Ignored project settings, and why.
    pub ignored: Vec<IgnoredSetting>,
}

impl ResolvedConfig {
    /// The configuration when nothing is set.
    fn defaults(paths: &Paths) -> Self {
        Self {
            config: Config::defaults(paths),
            origins: vec![SettingOrigin::Default; KEYS.len()],
            rule_origins: Vec::new(),
            channel_origins: Vec::new(),
            ignored: Vec::new(),
        }
    }
}

/// An ignored line of a project file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IgnoredSetting {
    pub path: PathBuf,
    pub line: usize,
    /// The key, or the fault in the file.
    pub what: String,
    pub why: IgnoredBecause,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IgnoredBecause {
    /// The user has not trusted the folder.
    NotTrusted,
    /// No project may set it, trusted or not.
    UserOnly,
    /// The file cannot be read, or is wrong.
    Invalid,
}

impl IgnoredBecause {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::NotTrusted => "not trusted",
            Self::UserOnly => "only in your own config.toml",
            Self::Invalid => "not valid",
        }
    }
}

/// Whether the user has trusted this folder with these bytes of its project file.
pub(crate) type IsAccepted<'a> = &'a dyn Fn(&Path, &[u8]) -> bool;

/// Resolves everything that applies to `cwd`. `env` is a parameter so that tests need no separate process.
pub(crate) fn resolve(
    paths: &Paths,
    cwd: &Path,
    env: impl Iterator<Item = (String, String)>,
    is_accepted: IsAccepted<'_>,
) -> Result<ResolvedConfig, ConfigError> {
    let mut resolved = ResolvedConfig::defaults(paths);
    parse::user_file(&mut resolved, paths)?;
    for dir in project_files(paths, cwd) {
        parse::project_file(&mut resolved, &dir, paths, is_accepted)?;
    }
    parse::environment(&mut resolved, env, paths)?;
    Ok(resolved)
}

/// The folders with a project file, from the outermost to `cwd`. Inside a git work tree, none above its root: another
/// project's settings do not apply.
pub(crate) fn project_files(paths: &Paths, cwd: &Path) -> Vec<PathBuf> {
    let mut dirs = Vec::new();
    for dir in git::up_to_root(cwd) {
        if fs::is_in(dir, PROJECT_FILE) {
            let file = dir.join(PROJECT_FILE);
            if file != paths.config && file.is_file() {
                dirs.push(dir.to_owned());
            }
        }
    }
    dirs.reverse();
    dirs
}

impl ContextSettings {
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

    pub(crate) fn byte_limits(&self) -> ByteLimits {
        ByteLimits {
            early_warning_kb: self.early_warning_kb,
            warning_kb: self.warning_kb,
            critical_kb: self.critical_kb,
        }
    }

    pub(crate) fn voice(&self) -> Voice {
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
            context: ContextSettings {
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
            handoff: HandoffSettings {
                dir: paths.claude.join("handoff"),
                expiry: SignedDuration::from_hours(2),
                budget: 9_500,
                answer_budget: 40_000,
                files: 5,
                file_tokens: 5_000,
                headless: false,
                seal: true,
                block_compaction: false,
            },
            run: RunSettings {
                max_restarts: 10,
                grace: Duration::from_secs(5),
                background_wait: Duration::from_mins(10),
                in_place_wait: Duration::from_secs(15),
                park: true,
                ceiling_percentage: None,
                provider: None,
            },
            mirror: MirrorSettings { enabled: true, keep_days: 90, max_mb: 10_000 },
            memory: MemorySettings { announce: true },
            panes: PaneSettings { socket: "baton".to_owned(), attend: true },
            compaction: CompactionChoice::Handoff,
            narrative: NarrativeSource::Off,
            notify: NotifySettings { parent: true, desktop: false, command: None, mute: String::new() },
            approvals: ApprovalSettings {
                wait_for: WaitFor::Spawned,
                deadline: Duration::from_hours(24),
                headless_deadline: Duration::from_mins(10),
                rules: Rules::default(),
            },
            serve: ServeSettings { http: None, hosts: Vec::new() },
            fleet: FleetSettings { share: Vec::new(), hide: Vec::new() },
            page: PageSettings { write: false },
            retention_days: 90,
            checkpoints: false,
            channels: Vec::new(),
            project_channel: None,
        }
    }
}
