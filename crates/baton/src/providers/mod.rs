//! The providers: one row each. Differences between agents are data here, not branches elsewhere.
//!
//! Rows are static and hold functions, so that looking one up costs a hook nothing.

mod claude;
mod codex;
pub(crate) mod face;
pub(crate) mod settings;

use std::io;
use std::path::{Path, PathBuf};

use baton_core::approval::Answer;
use baton_core::compaction::CompactionSettings;
use baton_core::event::HookEvent;
use baton_core::ids::SessionId;
use baton_core::launch::Grammar;
use baton_core::process::Process;
use baton_core::transcript::Dialect;
use baton_core::transcript::tail::Tail;

use crate::sys::paths::Paths;
use crate::sys::positioned::Positioned;

pub(crate) use claude::folder as claude_folder;

/// One agent program.
#[derive(Debug)]
pub(crate) struct Provider {
    pub name: &'static str,
    /// The name that people use.
    pub title: &'static str,
    /// The name by which its agents are addressed.
    pub spoken: &'static str,
    pub program: Program,
    pub grammar: Grammar,
    /// How to install it.
    pub install: &'static str,
    /// Why its agents cannot be given a fresh context, if they cannot.
    pub refuses_handoff: Option<&'static str>,
    pub hooks: Hooks,
    pub integration: Integration,
    /// The file with a project's instructions that it reads by itself.
    pub instructions: &'static str,
    /// Whether it shows the agent the file behind an `@path` in a prompt that is typed or given at the start.
    pub expands_paths: bool,
    /// The names of its tools, for an agent that takes over from another.
    pub tools: &'static str,
    /// The variable that tells the commands it runs their conversation.
    pub session_variable: &'static str,
    /// Transcripts that may belong to a client that ran in this folder without calling our hooks.
    pub transcripts: fn(&Paths, &Path) -> Vec<PathBuf>,
    /// Where it looks for a conversation that is resumed in this folder but began elsewhere, perhaps on another
    /// machine; `None` if its transcript was not in the client's own folders.
    pub place: fn(&Paths, &Path, &SessionId, &Path) -> Option<PathBuf>,
    /// How to give one of its conversations a prompt from outside, if it accepts any.
    pub queue: Option<Queue>,
    /// The conversation that a transcript's name contains; a subagent's contains none.
    pub session_of: fn(&Path) -> Option<SessionId>,
    /// Where it keeps its transcripts, unless another row has that place.
    pub archive: Option<Archive>,
}

/// Where transcripts are kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Archive {
    pub root: fn(&Paths) -> PathBuf,
    /// How many levels of folders are between the root and the transcripts.
    pub depth: u32,
    /// The format of the transcripts.
    pub dialect: Dialect,
}

/// The program to start.
#[derive(Debug)]
pub(crate) enum Program {
    /// Found on the PATH.
    Named(&'static str),
    /// This binary, with this first argument: the scripted agent.
    Own(&'static str),
    /// Something that is not ours to start.
    Foreign,
}

/// How its hooks speak, and how it behaves between them.
#[derive(Debug)]
pub(crate) struct Hooks {
    pub read: for<'a> fn(&'a [u8]) -> Result<HookEvent<'a>, String>,
    /// The last usage in its transcript, found from the end.
    pub tail: fn(&mut Positioned<'_>, u64) -> io::Result<Tail>,
    /// The tokens that its own percentage leaves out, of usage and window.
    pub base: u64,
    /// How many characters one hook may show to the agent.
    pub budget: usize,
    /// Characters of files that the hook of a first prompt may add.
    pub files_budget: usize,
    /// The answer to PreCompact that blocks the compaction.
    pub veto: fn(&str) -> Option<String>,
    /// Whether that answer aborts the turn, without a Stop: only good if a fresh context comes at once.
    pub veto_ends_turn: bool,
    /// Whether context from a Stop hook keeps the turn going without an error on the screen. Otherwise the hook blocks.
    pub hears_at_stop: bool,
    /// Whether it reports that it has been idle for a while, which means that nobody is typing.
    pub tells_idle: bool,
    /// Whether its SessionEnd comes up to a minute after the conversation was left, while the client may live on.
    pub end_is_late: bool,
    pub caller: fn() -> HookCaller,
    /// The client's own settings that move its compaction point.
    pub compaction: fn(&Paths, &Path, &HookCaller) -> CompactionSettings,
    /// The agent's own way to a fresh context, where the client gives it one.
    pub window: Option<Window>,
    /// The answer to a permission request.
    pub decide: fn(&Answer) -> Option<String>,
    /// Whether that answer may change the tool's input, and give permissions for later.
    pub takes_changes: bool,
    /// Whether its own dialog is on the screen while a hook waits; the first answer wins.
    pub dialog_stays: bool,
}

/// A tool with which an agent begins a fresh window itself: same conversation, same turn, and no summary.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    pub tool: &'static str,
    /// The switch in the client's settings.
    pub feature: &'static str,
    /// Whether the client that calls has it switched on.
    pub is_on: fn(&Paths, &Path, &HookCaller) -> bool,
    /// The answer that keeps the tool from running.
    pub refuse: fn(&str) -> String,
}

/// The client whose hook this is, as far as the process that started the hook shows.
#[derive(Debug, Default)]
pub(crate) struct HookCaller {
    pub process: Option<Process>,
    /// One process serves many conversations, so neither it nor its environment identifies this one.
    pub shared: bool,
    /// Another row of the same family, instead of the provider that was named.
    pub row: Option<&'static str>,
    /// It runs without a person.
    pub headless: bool,
    pub args: Vec<String>,
}

/// A command of the client that queues a prompt for a conversation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Queue {
    /// The arguments, from the conversation and the text.
    pub args: fn(&str, &str) -> Vec<String>,
    pub home_variable: &'static str,
    /// The client's own folder, from the path of a transcript in it.
    pub home: fn(&Path) -> Option<PathBuf>,
    /// Below its home; exists while its shared daemon runs.
    pub socket: &'static str,
}

/// How `baton run` makes its hooks call us without an install.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Integration {
    /// By a plugin folder, which this option adds.
    PluginDir(&'static str),
    /// Not at all: its hooks are in a separate file and need the user's consent there.
    HooksFile,
}

/// In the order in which they are searched if none is named. The first one is the default.
pub(crate) const PROVIDERS: &[Provider] = &[claude::CLAUDE, codex::CODEX, codex::CODEX_APP, claude::DEMO];

pub(crate) fn find(name: &str) -> Option<&'static Provider> {
    PROVIDERS.iter().find(|p| p.name == name)
}

/// Whether a command line is that of a client: its program, or the interpreter that runs it.
pub(crate) fn is_client(args: &[String]) -> bool {
    let is = |at: usize| {
        args.get(at).is_some_and(|arg| of_program(Path::new(arg.trim_end_matches(".js"))).is_some())
    };
    let is_interpreted = args.first().is_some_and(|arg| {
        ["node", "bun"].iter().any(|name| Path::new(arg).file_name().is_some_and(|file| file == *name))
    });
    is(0) || (is_interpreted && is(1))
}

/// The client whose program has this file name.
pub(crate) fn of_program(path: &Path) -> Option<&'static Provider> {
    let file = path.file_name()?.to_str()?;
    PROVIDERS.iter().find(|p| matches!(p.program, Program::Named(name) if name == file))
}

/// The name of the default provider.
pub(crate) const USUAL: &str = PROVIDERS[0].name;

/// The client whose hooks are in a separate file.
pub(crate) fn with_hooks_file() -> Option<&'static Provider> {
    PROVIDERS.iter().find(|p| p.integration == Integration::HooksFile && p.is_client())
}

/// The default provider: for hooks that name none, and for records from before there were others.
pub(crate) fn usual() -> &'static Provider {
    &PROVIDERS[0]
}

/// The row of a record's provider.
pub(crate) fn of(name: &str) -> &'static Provider {
    find(name).unwrap_or_else(usual)
}

/// The providers that have their own place for transcripts.
pub(crate) fn archives() -> impl Iterator<Item = (&'static Provider, Archive)> {
    PROVIDERS.iter().filter_map(|provider| Some((provider, provider.archive?)))
}

/// The provider that writes transcripts of this dialect.
pub(crate) fn of_dialect(dialect: Dialect) -> &'static Provider {
    archives().find(|(_, archive)| archive.dialect == dialect).map_or_else(usual, |(provider, _)| provider)
}

impl Provider {
    /// The program and the arguments that come before all others; `None` if it is not on the PATH.
    pub(crate) fn locate(&self) -> Option<(PathBuf, Vec<String>)> {
        match self.program {
            Program::Named(name) => on_path(name).map(|path| (path, Vec::new())),
            Program::Foreign => None,
            Program::Own(first) => Some((std::env::current_exe().ok()?, vec![first.to_owned()])),
        }
    }

    /// Whether it is a client that people install and start.
    pub(crate) fn is_client(&self) -> bool {
        matches!(self.program, Program::Named(_))
    }
}

/// The program of this name that a shell would start.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let executable = |path: &Path| {
        std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(&std::env::var_os("PATH")?).map(|dir| dir.join(name)).find(|path| executable(path))
}
