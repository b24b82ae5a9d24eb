//! The providers: one row each. What differs between agents is data here, not a branch elsewhere.
//!
//! Rows are static and hold functions, so that looking one up costs a hook nothing.

mod claude;
mod codex;
pub mod face;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use baton_core::compaction::CompactionSettings;
use baton_core::event::HookEvent;
use baton_core::ids::SessionId;
use baton_core::launch::Grammar;
use baton_core::process::Process;
use baton_core::transcript::tail::Tail;

use crate::paths::Paths;

pub use claude::folder as claude_folder;
pub use codex::{config_override, read_config};

/// One agent program.
#[derive(Debug)]
pub struct Provider {
    pub name: &'static str,
    /// As people call it.
    pub title: &'static str,
    /// As it is spoken to.
    pub spoken: &'static str,
    pub program: Program,
    pub grammar: Grammar,
    /// What to do when it is not there.
    pub install: &'static str,
    /// Why its agents cannot be given a fresh context, where they cannot.
    pub refuses_handoff: Option<&'static str>,
    pub hooks: Hooks,
    pub integration: Integration,
    /// The file with a project's instructions that it reads by itself.
    pub instructions: &'static str,
    /// What its tools are called, for an agent that takes over from another.
    pub tools: &'static str,
    /// The variable in which it tells the commands it runs their conversation.
    pub session_variable: &'static str,
    /// Transcripts that may be of a client which ran in this folder, whose hooks were never heard.
    pub transcripts: fn(&Paths, &Path) -> Vec<PathBuf>,
    /// Where it looks for a conversation that is resumed in this folder and lay elsewhere before, perhaps on another
    /// machine; `None` if that was no place of its.
    pub place: fn(&Paths, &Path, &SessionId, &Path) -> Option<PathBuf>,
    /// How a prompt is given to one of its conversations from outside, where it takes such.
    pub queue: Option<Queue>,
    /// The conversation that a transcript's name tells.
    pub session_of: fn(&Path) -> Option<SessionId>,
}

/// What is started.
#[derive(Debug)]
pub enum Program {
    /// Found on the PATH.
    Named(&'static str),
    /// This binary, with this first argument: the scripted agent.
    Own(&'static str),
    /// Something that is not ours to start.
    Foreign,
}

/// How its hooks speak, and what it does between them.
#[derive(Debug)]
pub struct Hooks {
    pub read: for<'a> fn(&'a [u8]) -> Result<HookEvent<'a>, String>,
    /// The last usage in its transcript, found from the end.
    pub tail: fn(&mut File, u64) -> io::Result<Tail>,
    /// What its own percentage leaves out, of tokens and window.
    pub base: u64,
    /// Characters that one hook may put in front of the agent.
    pub budget: usize,
    /// The answer to PreCompact that holds the compaction back.
    pub veto: fn(&str) -> Option<String>,
    /// That answer aborts the turn, and no Stop follows: only good if a fresh context comes at once.
    pub veto_ends_turn: bool,
    /// It tells when it has been idle for a while, which means that nobody is typing.
    pub tells_idle: bool,
    /// Its SessionEnd comes up to a minute after the conversation was left, while the client may live on.
    pub end_is_late: bool,
    pub caller: fn() -> Caller,
    /// The client's own settings that move its compaction point.
    pub compaction: fn(&Paths, &Path, &Caller) -> CompactionSettings,
}

/// The client whose hook this is, as far as the process that started it tells.
#[derive(Debug, Default)]
pub struct Caller {
    pub process: Option<Process>,
    /// One process serves many conversations: neither it nor its environment tells whose this one is.
    pub shared: bool,
    /// Not the provider that was named but this row of the same family.
    pub row: Option<&'static str>,
    /// Nobody sits at it.
    pub headless: bool,
    pub args: Vec<String>,
}

/// A command of the client that queues a prompt for a conversation.
#[derive(Debug, Clone, Copy)]
pub struct Queue {
    /// From the conversation and the text.
    pub args: fn(&str, &str) -> Vec<String>,
    pub home_variable: &'static str,
    /// Below its home, there while its shared daemon runs.
    pub socket: &'static str,
}

/// How its hooks are made to speak to us under `baton run` without an install.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Integration {
    /// By a plugin folder, which this option adds.
    PluginDir(&'static str),
    /// Not at all: its hooks stand in a file of its own and need the user's consent there.
    HooksFile,
}

/// In the order in which they are looked for when none is named. The first is meant where nobody says.
pub const PROVIDERS: &[Provider] = &[claude::CLAUDE, codex::CODEX, codex::CODEX_APP, claude::DEMO];

pub fn find(name: &str) -> Option<&'static Provider> {
    PROVIDERS.iter().find(|p| p.name == name)
}

/// The provider whose hooks say nothing else, and of records from before there were others.
pub fn usual() -> &'static Provider {
    &PROVIDERS[0]
}

/// The row of a record's provider.
pub fn of(name: &str) -> &'static Provider {
    find(name).unwrap_or_else(usual)
}

impl Provider {
    /// The program and the arguments that come before all others; `None` if it is not on the PATH.
    pub fn locate(&self) -> Option<(PathBuf, Vec<String>)> {
        match self.program {
            Program::Named(name) => on_path(name).map(|path| (path, Vec::new())),
            Program::Foreign => None,
            Program::Own(first) => Some((std::env::current_exe().ok()?, vec![first.to_owned()])),
        }
    }

    /// A client of its own, which people install and start.
    pub fn is_client(&self) -> bool {
        matches!(self.program, Program::Named(_))
    }
}

fn on_path(name: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let executable = |path: &Path| {
        std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(&std::env::var_os("PATH")?).map(|dir| dir.join(name)).find(|path| executable(path))
}
