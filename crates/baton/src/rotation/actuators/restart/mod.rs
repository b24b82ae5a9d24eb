//! `baton run`: owns one agent's client for as long as the agent lives.
//!
//! The client has the terminal exactly as without us. We wait for its end, for the hooks' files to change and for
//! signals, and print nothing until we must. `core::rotation` decides what a rotation does next; this module carries it
//! out.

mod after;
mod limits;
mod output;
mod recover;
mod saga;
mod signals;
mod vigil;

use std::io::IsTerminal as _;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use baton_core::agent::Agent;
use baton_core::ids::{AgentId, SessionId};
use baton_core::launch::Launch;
use baton_core::process::Process;
use baton_core::rotation::{Event, Rotation};
use baton_core::session::Session;
use jiff::Timestamp;

use crate::config::Config;
use crate::mail::announce;
use crate::providers::Provider;
use crate::rotation::actuators::Integrate;
use crate::store::Store;
use crate::store::log::LogLine;
use crate::sys::child::{Change, Child};
use crate::sys::terminal::SavedTerminal;
use crate::sys::watch::Watch;
use crate::sys::{fs, process};

use output::Output;
use saga::Times;
use signals::Signals;

const PATIENCE: Duration = Duration::from_secs(2);

/// The user's options.
pub(crate) struct RunOptions {
    pub provider: &'static Provider,
    /// The exact program, if the user named one.
    pub program: Option<PathBuf>,
    pub args: Vec<String>,
    pub name: Option<AgentId>,
    /// Start again after a crash.
    pub keep_alive: bool,
    pub cwd: PathBuf,
    pub integrate: Integrate,
    /// Whether its permission requests can be answered from elsewhere too.
    pub approvals: bool,
    /// The agent that may answer them besides the user.
    pub approver: Option<AgentId>,
}

pub(crate) struct Supervisor {
    store: Store,
    config: Config,
    options: RunOptions,
    program: PathBuf,
    prefix: Vec<String>,
    launch: Launch,
    headless: bool,
    agent: AgentId,
    me: Process,
    kept: SavedTerminal,
    signals: Signals,
    socket: UnixDatagram,
    socket_path: PathBuf,
    watch: Watch,
    /// The file name of the copy that the session's `baton handoff` writes, and whether it was written since the last
    /// look.
    copy: Option<String>,
    copied: bool,
    output: Output,
    rotation: Option<Rotation>,
    /// The limited turn that the agent was brought back from; the record shows it until the first prompt.
    back_from: Option<Timestamp>,
    /// The conversation that the agent is going back to.
    undoing: Option<SessionId>,
    /// The conversation that the agent is leaving for an empty one.
    leaving: Option<SessionId>,
    times: Times,
    /// The work is not done, and no further context is allowed.
    gave_up: bool,
    /// Lines for the user, printed when the terminal is ours again.
    to_say: Vec<String>,
}

/// Runs an agent until it is over. Returns how its last client ended.
pub(crate) fn run(store: Store, config: Config, options: RunOptions) -> anyhow::Result<Change> {
    let named = options.program.clone().map(|program| (program, Vec::new()));
    let (program, prefix) = named.or_else(|| options.provider.locate()).with_context(|| {
        format!(
            "{} is not on the PATH; install it with `{}`",
            options.provider.name, options.provider.install
        )
    })?;
    let launch = Launch::parse(&options.provider.grammar, &options.args);
    let headless = launch.is_headless(&options.provider.grammar);
    let me = process::identify(std::process::id()).context("this process was not found in /proc")?;
    let signals = Signals::listen()?;

    let found = recover::open_rotations(&store, &config, &options, &launch)?;
    for line in &found.to_say {
        eprintln!("{line}");
    }
    let agent = match found.adopt {
        Some(ref rotation) => rotation.agent.clone(),
        None => recover::new_agent(&store, &config, &options)?,
    };
    let before = store.agents().update(&agent, PATIENCE, |a| {
        a.supervisor = Some(me.clone());
        a.launch.clone_from(&options.args);
        a.order = None;
        a.ended = None;
        // A person starts it, so the count starts over.
        a.in_a_row = 0;
        if found.adopt.is_some() {
            return None;
        }
        // An unfinished rotation of an earlier run waits as a handoff; its conversation is not this one's.
        a.rotation = None;
        a.session.take()
    })?;
    if let Some(before) = before.flatten() {
        store.published().clear_restart(&before)?;
    }

    let socket_path = announce::supervisor_socket(&store.state, &agent);
    fs::private_dir(socket_path.parent().unwrap_or(std::path::Path::new("/")))?;
    fs::remove(&socket_path)?;
    // If the path is too long for a socket, watching the files is enough.
    let socket = UnixDatagram::bind(&socket_path).or_else(|_| UnixDatagram::unbound())?;
    socket.set_nonblocking(true)?;
    let agents = store.agents();
    fs::private_dir(agents.folder())?;
    let requests = store.state.join("requests");
    fs::private_dir(&requests)?;
    let watch = Watch::folders(&[agents.folder(), &requests, &store.claude])?;
    let output = Output::new(
        headless && !launch.streams(&options.provider.grammar),
        launch.output_format(&options.provider.grammar),
    );

    let mut supervisor = Supervisor {
        store,
        config,
        program,
        prefix,
        launch,
        headless,
        agent,
        me,
        kept: SavedTerminal::now(),
        signals,
        socket,
        socket_path,
        watch,
        copy: None,
        copied: false,
        output,
        rotation: None,
        back_from: None,
        undoing: None,
        leaving: None,
        times: Times::default(),
        gave_up: false,
        to_say: Vec::new(),
        options,
    };
    let outcome = supervisor.supervise(found.adopt);
    supervisor.leave();
    outcome
}

impl Supervisor {
    fn supervise(&mut self, adopted: Option<Rotation>) -> anyhow::Result<Change> {
        let mut args = self.launch.first(&self.options.provider.grammar, &self.options.args);
        if let Some(rotation) = adopted {
            args = self.fresh_args(&rotation);
            self.rotation = Some(rotation);
        }
        let mut crashes = 0;
        loop {
            let child = match self.start(&args) {
                Ok(child) => child,
                Err(e) => {
                    self.advance(&Event::CouldNotStart(e.to_string()), None);
                    self.say_now();
                    return Err(e);
                }
            };
            self.times.started = Some(Instant::now());
            self.advance(&Event::Started(child.process.clone()), None);
            let ended = self.watch_child(child)?;
            self.times.ended = Some(Instant::now());
            let next = self.after(&ended, &mut crashes)?;
            if next.is_some() || ended.killed_by_us {
                // For the next client, or because we left this one no time to tidy up.
                self.kept.restore(matches!(ended.change, Change::Killed(_)));
            }
            if next.is_none() && !ended.killed_by_us && matches!(ended.change, Change::Killed(_)) {
                // The terminal stays as the client left it, so do not print over its last line.
                self.say_below();
            }
            self.say_now();
            match next {
                Some(next) if self.ready(&next) => {
                    self.follow();
                    args = next.args;
                }
                _ if self.gave_up => return Ok(Change::Exited(1)),
                _ => return Ok(ended.change),
            }
        }
    }

    /// Continues in the folder that the client made for itself, because its work is there.
    fn follow(&mut self) {
        if self.launch.moves(&self.options.provider.grammar)
            && let Some(session) = self.record().and_then(|agent| self.session(&agent))
            && std::path::Path::new(&session.cwd).is_dir()
        {
            self.options.cwd = session.cwd.into();
        }
    }

    fn start(&self, args: &[String]) -> anyhow::Result<Child> {
        let mut command = Command::new(&self.program);
        command
            .args(&self.prefix)
            .args((self.options.integrate)(&self.store, self.options.provider)?)
            .args(args)
            .current_dir(&self.options.cwd)
            .env("CLAUDE_SESSION_MANAGER_ID", self.agent.as_str());
        let starting = || format!("could not start {}", self.program.display());
        let held = Child::hold(&command, self.output.captures()).with_context(starting)?;
        let process = held.process().clone();
        self.store.agents().update(&self.agent, PATIENCE, |a| a.process = Some(process))?;
        held.release().with_context(starting)
    }

    fn record(&self) -> Option<Agent> {
        self.store.agents().readable(&self.agent)
    }

    /// Takes the agent's new name if it was renamed.
    fn follow_name(&mut self) {
        // If it is unknown, ask again at the next look.
        let Ok(new) = self.store.agents().name_now(&self.agent) else { return };
        if new == self.agent {
            return;
        }
        let path = announce::supervisor_socket(&self.store.state, &new);
        let _ = fs::remove(&path);
        // Without a socket, watching the files is enough.
        if let Ok(socket) = UnixDatagram::bind(&path)
            && socket.set_nonblocking(true).is_ok()
        {
            let _ = fs::remove(&self.socket_path);
            (self.socket, self.socket_path) = (socket, path);
        }
        self.agent = new;
    }

    fn session(&self, agent: &Agent) -> Option<Session> {
        self.store.sessions().readable(agent.session.as_ref()?)
    }

    fn say_now(&mut self) {
        // A killed client may have left the terminal raw, so begin each line at the left.
        let end = if std::io::stderr().is_terminal() { "\r\n" } else { "\n" };
        for line in self.to_say.drain(..) {
            eprint!("{line}{end}");
        }
    }

    fn say_below(&self) {
        if !self.to_say.is_empty() && std::io::stderr().is_terminal() {
            eprint!("\r\n");
        }
    }

    fn log(&self, event: &str, detail: &str) {
        self.log_json(event, serde_json::json!({ "note": detail }));
    }

    fn log_json(&self, event: &str, detail: serde_json::Value) {
        let line =
            LogLine { agent: Some(self.agent.clone()), detail, ..LogLine::new(Timestamp::now(), event) };
        self.store.log().append(&line);
    }

    /// Cleans up when the agent, or at least this supervisor, ends.
    fn leave(&mut self) {
        self.follow_name();
        self.say_now();
        let ended = self.store.agents().update(&self.agent, PATIENCE, |a| {
            if a.supervisor.as_ref() == Some(&self.me) {
                a.supervisor = None;
                a.process = None;
                a.order = None;
                a.parked = None;
                a.ended = Some(Timestamp::now());
            }
        });
        if let Err(e) = ended {
            self.log("fault", &e.to_string());
        }
        let _ = fs::remove(&self.socket_path);
    }
}
