//! The command line: one file per verb.

mod adopt;
mod agents;
mod args;
mod attach;
mod backup;
mod channel;
mod checkpoint;
mod children;
mod completions;
mod config;
mod demo;
mod doctor;
mod handoff;
mod handoffs;
mod inbox;
mod install;
mod log;
mod memory;
mod outbox;
mod panes;
mod progress;
mod restore;
mod retire;
mod rotate;
mod run;
pub mod screen;
mod send;
mod serve;
mod sessions;
mod spawn;
mod status;
mod tail;
mod undo;
mod uninstall;
mod wait;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use baton_core::agent::Agent;
use baton_core::ids::{AgentId, ChannelName, SessionId};
use baton_core::session::Session;
use clap::Parser;

use crate::config::Resolved;
use crate::paths::Paths;
use crate::providers;
use crate::store::Store;
use crate::store::handoffs::Handoffs;

/// How a command ended, when it did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Done,
    /// Refused or failed, and already said why.
    Failed,
    /// Wrong usage, or not inside an agent; already said.
    Usage,
    /// There was nothing to act on.
    Nothing,
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Done => ExitCode::SUCCESS,
            Outcome::Failed => ExitCode::from(1),
            Outcome::Usage => ExitCode::from(2),
            Outcome::Nothing => ExitCode::from(3),
        }
    }
}

/// Agents of older workflows know the program by this name; some of its messages are theirs.
fn called_as_sm() -> bool {
    std::env::args_os()
        .next()
        .is_some_and(|name| std::path::Path::new(&name).file_name().is_some_and(|n| n == "sm"))
}

/// Parses, runs, reports. Wrong usage exits with 2 (clap's own code), a failure with 1.
pub fn main() -> ExitCode {
    let cli = args::Cli::parse();
    match run(cli) {
        Ok(outcome) => outcome.into(),
        Err(error) if screen::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("baton: {error:#}");
            ExitCode::from(1)
        }
    }
}

/// `baton pane FILE`: started by tmux for `spawn`; ends only if the client cannot be started.
pub fn become_client(ticket: Option<&std::ffi::OsString>) -> ExitCode {
    let became = Paths::from_env().map_err(anyhow::Error::from).and_then(|paths| {
        let ticket = ticket.context("`pane` is started by `baton spawn`")?;
        crate::panes::launch::become_client(&Store::new(&paths), std::path::Path::new(ticket))
    });
    match became {
        Ok(never) => match never {},
        Err(error) => {
            eprintln!("baton: {error:#}");
            ExitCode::from(1)
        }
    }
}

fn run(cli: args::Cli) -> anyhow::Result<Outcome> {
    // These must work where the configuration does not.
    match &cli.command {
        args::Command::Install(args) => return install::run(args),
        args::Command::Uninstall(args) => return uninstall::run(args),
        args::Command::Doctor(args) => return doctor::run(args),
        _ => {}
    }
    let app = App::new(cli.channel)?;
    match cli.command {
        args::Command::Handoffs(args) => handoffs::run(&app, args),
        args::Command::Channel(args) => channel::run(&app, &args),
        args::Command::Config(args) => config::run(&app, &args),
        args::Command::Demo(args) => demo::run(&args),
        args::Command::Completions(args) => completions::run(&args),
        args::Command::Run(args) => run::run(&app, args),
        args::Command::Rotate(args) => rotate::run(&app, &args),
        args::Command::Undo(args) => undo::run(&app, &args),
        args::Command::Retire(args) => retire::run(&app, &args),
        args::Command::Agents(args) => agents::run(&app, &args),
        args::Command::Spawn(args) => spawn::run(&app, &args),
        args::Command::Attach(args) => attach::run(&app, &args),
        args::Command::Wait(args) => wait::run(&app, &args),
        args::Command::Tail(args) => tail::run(&app, &args),
        args::Command::Adopt(args) => adopt::run(&app, &args),
        args::Command::Children(args) => children::run(&app, &args),
        args::Command::Outbox(args) => outbox::run(&app, &args),
        args::Command::Panes => panes::run(&app),
        args::Command::Handoff(args) => handoff::run(&app, &args),
        args::Command::Status(args) => status::run(&app, &args),
        args::Command::Send(args) => send::run(&app, &args),
        args::Command::Inbox(args) => inbox::run(&app, &args),
        args::Command::Sessions(args) => sessions::run(&app, args),
        args::Command::Backup(args) => backup::run(&app, args),
        args::Command::Memory(args) => memory::run(&app, args),
        args::Command::Checkpoint(args) => checkpoint::run(&app, args),
        args::Command::Log(args) => log::run(&app, &args),
        args::Command::Serve(args) => serve::run(&app, &args),
        // Taken above; and hooks, by `main`, unless for `--help`, which clap has answered.
        args::Command::Install(_)
        | args::Command::Uninstall(_)
        | args::Command::Doctor(_)
        | args::Command::Hook { .. }
        | args::Command::Companion { .. }
        | args::Command::Statusline { tmux: None } => Ok(Outcome::Done),
        args::Command::Statusline { tmux: Some(dir) } => status::tmux_line(&app, &dir),
    }
}

/// What every verb needs: where it runs and what is configured.
struct App {
    paths: Paths,
    cwd: PathBuf,
    resolved: Resolved,
    channel_flag: Option<String>,
}

impl App {
    fn new(channel_flag: Option<String>) -> anyhow::Result<Self> {
        let cwd = std::env::current_dir()
            .context("the current folder cannot be read; change to one that exists")?;
        Self::at(cwd, channel_flag)
    }

    /// As if started in `cwd`.
    fn at(cwd: PathBuf, channel_flag: Option<String>) -> anyhow::Result<Self> {
        let paths = Paths::from_env()?;
        let env =
            std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
        let resolved = crate::config::resolve(&paths, &cwd, env)?;
        Ok(Self { paths, cwd, resolved, channel_flag })
    }

    fn channel(&self) -> anyhow::Result<ChannelName> {
        Ok(self.channel_of(&self.cwd)?.name)
    }

    fn channel_of(&self, dir: &std::path::Path) -> anyhow::Result<baton_core::channel::Channel> {
        let env = std::env::var("BATON_CHANNEL").ok();
        let config = &self.resolved.config;
        Ok(crate::channel::of(dir, self.channel_flag.as_deref(), env, config, &self.paths)?)
    }

    fn store(&self) -> Store {
        Store::new(&self.paths)
    }

    fn handoffs(&self) -> Handoffs {
        self.store().handoffs(&self.resolved.config)
    }
}

impl App {
    /// Makes sure that somebody attends to the panes: the daemon does. `false` if nobody does.
    fn ensure_attendant(&self) -> bool {
        let store = self.store();
        if self.resolved.config.panes.attend
            && !crate::panes::is_running(&store)
            && let Err(e) = crate::daemon::client::ensure(&self.paths, &[])
        {
            eprintln!("baton: {e:#}");
        }
        // It takes the panes over a moment after it listens.
        let until = std::time::Instant::now() + std::time::Duration::from_secs(2);
        while self.resolved.config.panes.attend
            && !crate::panes::is_running(&store)
            && std::time::Instant::now() < until
        {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        crate::panes::is_running(&store)
    }

    /// The agent that a command means: the one named, the one it runs in, else the only one of this project.
    fn meant_agent(&self, named: Option<&AgentId>) -> anyhow::Result<Option<Agent>> {
        let agents = self.store().agents();
        if let Some(id) = named {
            let agent = agents.get(id)?;
            if agent.is_none() {
                eprintln!("baton: there is no agent {id}; `baton agents` names them");
            }
            return Ok(agent);
        }
        if let Some(session) = self.current_session() {
            return Ok(agents.get(&session.agent)?);
        }
        let channel = self.channel()?;
        let mut live: Vec<Agent> =
            agents.all().into_iter().filter(|a| a.channel == channel && agents.is_live(&a.id)).collect();
        if live.len() > 1 {
            let running: Vec<_> = live.iter().map(|a| a.id.as_str()).collect();
            eprintln!("baton: several agents run in this project; name one of {}", running.join(", "));
            return Ok(None);
        }
        if live.is_empty() {
            eprintln!("baton: no agent runs in this project; `baton agents` lists those of others");
        }
        Ok(live.pop())
    }

    /// The session this command runs in, if its hooks have told us of it.
    fn current_session(&self) -> Option<Session> {
        let store = self.store();
        if let Some(id) = client_session() {
            return store.sessions().get(&id).ok().flatten();
        }
        let agent = AgentId::new(std::env::var("CLAUDE_SESSION_MANAGER_ID").ok()?).ok()?;
        let session = store.agents().get(&agent).ok().flatten()?.session?;
        store.sessions().get(&session).ok().flatten()
    }
}

/// The conversation that the client says it runs this command in. Where one client was started by another, both have
/// said so; the nearer one is meant.
fn client_session() -> Option<SessionId> {
    let said = providers::PROVIDERS.iter().filter_map(|provider| {
        let id = SessionId::new(std::env::var(provider.session_variable).ok()?).ok()?;
        Some((provider, id))
    });
    let mut said: Vec<_> = said.collect();
    said.dedup_by(|a, b| a.1 == b.1);
    if said.len() > 1 {
        let store = Store::new(&Paths::from_env().ok()?);
        let distance = |id: &SessionId| {
            let process = store.sessions().get(id).ok().flatten().and_then(|s| s.process);
            process.and_then(|p| crate::sys::process::distance_to(p.pid)).unwrap_or(u32::MAX)
        };
        said.sort_by_key(|(_, id)| distance(id));
    }
    said.into_iter().next().map(|(_, id)| id)
}

/// The session this command runs in, as the clients tell their child processes.
fn session_from_env() -> SessionId {
    client_session().unwrap_or_else(|| SessionId::new("manual").expect("a plain word is a valid id"))
}

/// The client this command runs in, else whoever started it.
fn client_pid() -> u32 {
    std::env::var("CLAUDE_PID")
        .ok()
        .and_then(|pid| pid.parse().ok())
        .unwrap_or_else(crate::sys::process::parent_pid)
}
