//! The command line: one file per verb.

/// Every message on standard error in this room is for people, so it is wrapped between words in a terminal.
macro_rules! eprintln {
    ($($text:tt)*) => { $crate::cli::ui::report(&format!($($text)*)) };
}

mod adopt;
mod agents;
mod answer;
mod approvals;
mod approve;
mod args;
mod attach;
mod backup;
mod channel;
mod checkpoint;
mod children;
mod clear;
mod complete;
mod completions;
mod config;
mod demo;
mod deny;
mod doctor;
mod done;
mod fleet;
mod handoff;
mod handoffs;
mod help;
mod inbox;
mod install;
mod log;
mod man;
mod memory;
mod migrate;
mod r#move;
mod outbox;
mod page;
mod panes;
mod remind;
mod reminders;
mod rename;
mod reparent;
mod reply;
mod restore;
mod retire;
mod rotate;
mod run;
mod send;
mod serve;
mod sessions;
mod sm;
mod spawn;
mod status;
mod tail;
mod top;
mod trust;
pub(crate) mod ui;
mod undo;
mod uninstall;
mod wait;
mod what;

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use baton_core::agent::Agent;
use baton_core::checkpoint::MANUAL;
use baton_core::ids::{AgentId, ChannelName, SessionId};
use baton_core::session::Session;
use clap::FromArgMatches as _;

use crate::config::ResolvedConfig;
use crate::mail::maildir::Mail;
use crate::providers;
use crate::rotation::verbs::VerbRefusal;
use crate::sessions::caller::{self, Caller};
use crate::store::Store;
use crate::store::handoffs::Handoffs;
use crate::sys::paths::Paths;
use crate::sys::process;

/// How a command without an error ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Done,
    /// Refused or failed, and already reported.
    Failed,
    /// Wrong usage, or not inside an agent; already reported.
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

/// Agents of older workflows call the program by this name and expect some of its messages.
fn called_as_sm() -> bool {
    std::env::args_os()
        .next()
        .is_some_and(|name| std::path::Path::new(&name).file_name().is_some_and(|n| n == "sm"))
}

/// Parses, runs, reports. Wrong usage exits with 2 (clap's own code), a failure with 1.
pub fn main() -> ExitCode {
    crate::sys::deadline::survive_file_limit();
    if std::env::args_os().len() < 2 {
        if let Some(app) = app_for_screen() {
            return end(top::run(&app, &args::TopArgs::default()));
        }
        let at_terminal = std::io::stdout().is_terminal();
        let is_newcomer = at_terminal && !called_as_sm();
        let help = if is_newcomer { help::welcome() } else { help::command().render_help() };
        let text = if ui::Paint::stdout().is_on() { help.ansi().to_string() } else { help.to_string() };
        return match ui::print(&format!("{}\n", text.trim_end())) {
            Err(error) if !ui::is_closed_pipe(&error) => ExitCode::from(1),
            // For a person the help is a success; a script that forgot the command must get an error.
            _ if at_terminal => ExitCode::SUCCESS,
            _ => Outcome::Usage.into(),
        };
    }
    let mut words: Vec<std::ffi::OsString> = std::env::args_os().collect();
    if called_as_sm() {
        let me = std::env::var("CLAUDE_SESSION_MANAGER_ID").ok().filter(|id| !id.is_empty());
        match sm::translate(&words[1..], me.as_deref()) {
            Ok(translated) => words = translated,
            Err(why) => {
                eprintln!("Error: {why}");
                return Outcome::Usage.into();
            }
        }
    }
    // `baton help --help` is the help.
    if words.len() == 3 && words[1] == "help" && (words[2] == "--help" || words[2] == "-h") {
        words.pop();
    }
    let name = if called_as_sm() { "sm" } else { "baton" };
    let matches = help::command().bin_name(name).get_matches_from(words);
    let cli = args::Cli::from_arg_matches(&matches).unwrap_or_else(|e| e.exit());
    end(run(cli))
}

fn end(ran: anyhow::Result<Outcome>) -> ExitCode {
    match ran {
        Ok(outcome) => outcome.into(),
        Err(error) if ui::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("baton: {error:#}");
            ExitCode::from(1)
        }
    }
}

/// Without a command, a person at a terminal with an install gets the screen.
fn app_for_screen() -> Option<App> {
    if !top::is_possible() || called_as_sm() {
        return None;
    }
    let app = App::new(None).ok()?;
    crate::setup::install::is_installed(&app.paths, &app.cwd).then_some(app)
}

/// `baton pane FILE`: started by tmux for `spawn`; returns only if the client cannot be started.
pub fn become_client(ticket: Option<&std::ffi::OsString>) -> ExitCode {
    let became = Paths::from_env().map_err(anyhow::Error::from).and_then(|paths| {
        let ticket = ticket.context("`pane` is started by `baton spawn`")?;
        crate::rotation::actuators::tmux::launch::become_client(
            &Store::new(&paths),
            std::path::Path::new(ticket),
            crate::setup::plugin_dir::args,
        )
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
    // These must work even if the configuration is invalid.
    match &cli.command {
        args::Command::Install(args) => return install::run(args),
        args::Command::Uninstall(args) => return uninstall::run(args),
        args::Command::Doctor(args) => return doctor::run(args),
        args::Command::Config(args::ConfigArgs { command: Some(command), .. }) => {
            return config::change(command);
        }
        _ => {}
    }
    let app = App::new(cli.channel)?;
    match cli.command {
        args::Command::Handoffs(args) => handoffs::run(&app, args),
        args::Command::Channel(args) => channel::run(&app, &args),
        args::Command::Config(args) => config::run(&app, &args),
        args::Command::Trust(args) => trust::run(&app, &args),
        args::Command::Demo(args) => demo::run(&args),
        args::Command::Completions(args) => completions::run(&args),
        args::Command::Complete { words } => complete::run(&app, &words),
        args::Command::Run(args) => run::run(&app, args),
        args::Command::Rotate(args) => rotate::run(&app, &args),
        args::Command::Undo(args) => undo::run(&app, &args),
        args::Command::Retire(args) => retire::run(&app, &args),
        args::Command::Agents(args) => agents::run(&app, &args),
        args::Command::Spawn(args) => spawn::run(&app, &args),
        args::Command::Attach(args) => attach::run(&app, &args),
        args::Command::Wait(args) => wait::run(&app, &args),
        args::Command::Top(args) => top::run(&app, &args),
        args::Command::Page(args) => page::run(&app, &args),
        args::Command::Tail(args) => tail::run(&app, &args),
        args::Command::What(args) => what::run(&app, &args),
        args::Command::Done(args) => done::run(&app, &args),
        args::Command::Move(args) => r#move::run(&app, &args),
        args::Command::Fleet(args) => fleet::run(&app, &args),
        args::Command::Remind(args) => remind::run(&app, &args),
        args::Command::Reminders(args) => reminders::run(&app, &args),
        args::Command::Rename(args) => rename::run(&app, &args),
        args::Command::Clear(args) => clear::run(&app, &args),
        args::Command::Reparent(args) => reparent::run(&app, &args),
        args::Command::Reply(args) => reply::run(&app, &args),
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
        args::Command::Approvals(args) => approvals::run(&app, &args),
        args::Command::Approve(args) => approve::run(&app, &args),
        args::Command::Deny(args) => deny::run(&app, &args),
        args::Command::Answer(args) => answer::run(&app, &args),
        args::Command::Log(args) => log::run(&app, &args),
        args::Command::Serve(args) => serve::run(&app, &args),
        args::Command::Version => {
            ui::print(&format!("baton {}\n", env!("CARGO_PKG_VERSION")))?;
            Ok(Outcome::Done)
        }
        args::Command::Man => man::run(),
        // Handled above; `main` handles hooks, except `--help`, which clap has answered.
        args::Command::Install(_)
        | args::Command::Uninstall(_)
        | args::Command::Doctor(_)
        | args::Command::Hook { .. }
        | args::Command::Companion { .. }
        | args::Command::Statusline { tmux: None } => Ok(Outcome::Done),
        args::Command::Statusline { tmux: Some(dir) } => status::tmux_line(&app, &dir),
    }
}

/// The context of every verb: the folder and the configuration.
struct App {
    paths: Paths,
    cwd: PathBuf,
    resolved: ResolvedConfig,
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
        crate::sys::fs::tighten(&paths.state);
        let env =
            std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
        let resolved = crate::project::trust::settings(&paths, &cwd, env)?;
        Ok(Self { paths, cwd, resolved, channel_flag })
    }

    fn channel(&self) -> anyhow::Result<ChannelName> {
        Ok(self.channel_of(&self.cwd)?.name)
    }

    fn channel_of(&self, dir: &std::path::Path) -> anyhow::Result<baton_core::channel::Channel> {
        let env = std::env::var("BATON_CHANNEL").ok();
        let config = &self.resolved.config;
        Ok(crate::project::channel::of(dir, self.channel_flag.as_deref(), env, config, &self.paths)?)
    }

    /// The channel's name in messages; "this project" unless the user named a channel.
    fn place(&self) -> anyhow::Result<String> {
        let is_named = self.channel_flag.is_some() || std::env::var_os("BATON_CHANNEL").is_some();
        Ok(if is_named { format!("channel {}", self.channel()?) } else { "this project".to_owned() })
    }

    fn store(&self) -> Store {
        Store::new(&self.paths)
    }

    fn handoffs(&self) -> Handoffs {
        self.store().handoffs(&self.resolved.config)
    }
}

impl App {
    /// The text of an empty listing if no client calls us.
    fn not_installed(&self) -> Option<String> {
        (!crate::setup::install::is_installed(&self.paths, &self.cwd)).then(|| {
            "baton is not installed, so it knows of no agent.\n  \
             baton install   connects Claude Code; shows what it will change and asks first\n  \
             baton run       starts an agent without an install\n"
                .to_owned()
        })
    }

    /// Makes sure that the daemon attends the panes. `false` if nobody does.
    fn ensure_attendant(&self) -> bool {
        let store = self.store();
        // It takes the panes over a moment after it listens.
        let until = std::time::Instant::now() + std::time::Duration::from_secs(2);
        while self.resolved.config.panes.attend && !store.has_pane_attendant() {
            // Each time: one that is being killed may still listen when it attends to nothing any more.
            if let Err(e) = crate::daemon::client::ensure(&self.paths, &[]) {
                eprintln!("baton: {e:#}");
                break;
            }
            if std::time::Instant::now() >= until {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        store.has_pane_attendant()
    }

    /// Starts the daemon again if it was killed and this agent lives in a pane: nobody else types into that. `false` if it
    /// does not start.
    fn keep_attended(&self, agent: &Agent) -> bool {
        let is_in_pane = agent.pane.as_ref().is_some_and(|pane| process::is_alive(&pane.process));
        let is_attended =
            !is_in_pane || !self.resolved.config.panes.attend || self.store().has_pane_attendant();
        is_attended || self.ensure_attendant()
    }

    /// The agent that a command refers to: the named one, the one it runs in, else the project's only one.
    fn meant_agent(&self, named: Option<&AgentId>) -> anyhow::Result<Option<Agent>> {
        let store = self.store();
        let agents = store.agents();
        if let Some(id) = named {
            return self.named_agent(id);
        }
        if let Some(session) = self.current_session()? {
            return Ok(agents.get(&session.agent)?);
        }
        let channel = self.channel()?;
        let mut live: Vec<Agent> =
            agents.all().into_iter().filter(|a| a.channel == channel && store.is_running(&a.id)).collect();
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

    /// The agent with this name, or the one that used to have it. Prints why there is none.
    fn named_agent(&self, id: &AgentId) -> anyhow::Result<Option<Agent>> {
        let agents = self.store().agents();
        if let Some(agent) = agents.get(id)? {
            return Ok(Some(agent));
        }
        let moved = agents.named(id)?;
        match &moved {
            Some(agent) => eprintln!("baton: {id} is called {} now", agent.id),
            None => eprintln!("baton: there is no agent {id}; `baton agents` lists them"),
        }
        Ok(moved)
    }

    /// The user's unread count, as a line for listings that the user asked for.
    fn unread(&self) -> Option<String> {
        let n = Mail::of(&self.store()).unread();
        match n {
            0 => None,
            1 => Some("1 unread message for you; `baton inbox` shows it".to_owned()),
            n => Some(format!("{n} unread messages for you; `baton inbox` shows them")),
        }
    }

    /// The caller of this command.
    fn caller(&self) -> Caller {
        caller::of_this_process(&self.store())
    }

    /// Refuses an agent something that only the user may do.
    fn refuse_agent(&self, doing: &str) -> Option<Outcome> {
        refuse_agent(&self.store(), doing)
    }

    /// Refuses an agent to act on anyone but itself and its descendants.
    fn refuse_stranger(&self, doing: &str, agent: &Agent) -> anyhow::Result<Option<Outcome>> {
        let caller = self.caller();
        if caller::may_direct(&self.store(), &caller, agent)? {
            return Ok(None);
        }
        eprintln!("baton: {}", caller::stranger(&caller, doing, &agent.id));
        Ok(Some(Outcome::Failed))
    }

    /// The session that this command runs in, if its hooks have reported it.
    fn current_session(&self) -> anyhow::Result<Option<Session>> {
        let store = self.store();
        if let Some(id) = client_session() {
            return Ok(store.sessions().get(&id)?);
        }
        let named = std::env::var("CLAUDE_SESSION_MANAGER_ID").ok().and_then(|id| AgentId::new(id).ok());
        let agent = named.map(|id| store.agents().named(&id)).transpose()?.flatten();
        Ok(agent.and_then(|agent| agent.session).map(|id| store.sessions().get(&id)).transpose()?.flatten())
    }
}

/// Prints the result, or the refusal.
fn said(outcome: Result<String, VerbRefusal>) -> anyhow::Result<Outcome> {
    match outcome {
        Ok(text) => ui::print(&format!("{text}\n")).map(|()| Outcome::Done),
        Err(refusal) => refused(refusal),
    }
}

fn refused(refusal: VerbRefusal) -> anyhow::Result<Outcome> {
    let outcome = match refusal {
        VerbRefusal::Failed(error) => return Err(error),
        VerbRefusal::Nothing(_) => Outcome::Nothing,
        VerbRefusal::Forbidden(_) | VerbRefusal::Conflict(_) => Outcome::Failed,
    };
    eprintln!("baton: {refusal}");
    Ok(outcome)
}

/// Refuses an agent something that only the user may do.
fn refuse_agent(store: &Store, doing: &str) -> Option<Outcome> {
    let why = match caller::find(store, std::process::id()) {
        Ok(caller) => caller.not_the_user(doing)?,
        Err(e) => e.to_string(),
    };
    eprintln!("baton: {why}");
    Some(Outcome::Failed)
}

/// The conversation that the client's environment names. If one client started another, both have set theirs; take the
/// nearer one.
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
            let process = store.sessions().readable(id).and_then(|s| s.process);
            process.and_then(|p| crate::sys::process::distance_to(p.pid)).unwrap_or(u32::MAX)
        };
        said.sort_by_key(|(_, id)| distance(id));
    }
    said.into_iter().next().map(|(_, id)| id)
}

/// The session that this command runs in, from the clients' environment variables.
fn session_from_env() -> SessionId {
    client_session().unwrap_or_else(|| SessionId::new(MANUAL).expect("a plain word is a valid id"))
}

/// The client that this command runs in, else its parent process.
fn client_pid() -> u32 {
    std::env::var("CLAUDE_PID")
        .ok()
        .and_then(|pid| pid.parse().ok())
        .unwrap_or_else(crate::sys::process::parent_pid)
}
