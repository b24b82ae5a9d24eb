//! `baton run`: owns one agent's client for as long as the agent lives.
//!
//! The client has the terminal exactly as without us; we wait for its end, for the hooks' files to change and
//! for signals, and say nothing until something must be said. What a rotation does next is decided in
//! `core::rotation`; here it is carried out.

mod attend;
pub mod integration;
mod limits;
mod output;
mod over;
mod recover;
mod saga;
mod signals;

use std::io::IsTerminal as _;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use baton_core::agent::Agent;
use baton_core::ids::AgentId;
use baton_core::launch::Launch;
use baton_core::process::Process;
use baton_core::rotation::{Event, Rotation};
use baton_core::session::Session;
use jiff::Timestamp;

use crate::config::Config;
use crate::poke;
use crate::providers::Provider;
use crate::store::Store;
use crate::store::log::{self, Line};
use crate::sys::child::{Change, Child};
use crate::sys::terminal::Kept;
use crate::sys::watch::Watch;
use crate::sys::{fs, process};

use limits::Met;
use output::Output;
use saga::Times;
use signals::Signals;

const PATIENCE: Duration = Duration::from_secs(2);

/// What the user asked for.
pub struct Options {
    pub provider: &'static Provider,
    pub args: Vec<String>,
    pub name: Option<AgentId>,
    /// Start again after a crash.
    pub keep_alive: bool,
    pub cwd: PathBuf,
}

pub struct Supervisor {
    store: Store,
    config: Config,
    options: Options,
    program: PathBuf,
    prefix: Vec<String>,
    launch: Launch,
    headless: bool,
    agent: AgentId,
    me: Process,
    kept: Kept,
    signals: Signals,
    socket: UnixDatagram,
    socket_path: PathBuf,
    watch: Watch,
    output: Output,
    rotation: Option<Rotation>,
    times: Times,
    met: Met,
    /// Lines for the user, said when the terminal is ours again.
    to_say: Vec<String>,
}

/// Runs an agent until it is over; the answer is how its last client ended.
pub fn run(store: Store, config: Config, options: Options) -> anyhow::Result<Change> {
    let (program, prefix) = options.provider.locate().with_context(|| {
        format!(
            "{} is not on the PATH; install it with `{}`",
            options.provider.name, options.provider.install
        )
    })?;
    let launch = Launch::parse(&options.provider.grammar, &options.args);
    let headless = launch.is_headless(&options.provider.grammar);
    let me = process::identify(std::process::id()).context("this process is not to be found in /proc")?;
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
        // A person starts it.
        a.in_a_row = 0;
        if found.adopt.is_some() {
            return None;
        }
        // What an earlier run left undone waits as a handoff; its conversation is not this one's.
        a.rotation = None;
        a.session.take()
    })?;
    if let Some(before) = before.flatten() {
        store.published().clear_restart(&before)?;
    }

    let socket_path = poke::socket_path(&store.state, &agent);
    fs::private_dir(socket_path.parent().unwrap_or(std::path::Path::new("/")))?;
    fs::remove(&socket_path)?;
    // A path too long for a socket leaves the watched files, which are enough.
    let socket = UnixDatagram::bind(&socket_path).or_else(|_| UnixDatagram::unbound())?;
    socket.set_nonblocking(true)?;
    let agents = store.state.join("agents");
    fs::private_dir(&agents)?;
    let watch = Watch::folders(&[&agents, &store.claude])?;
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
        kept: Kept::now(),
        signals,
        socket,
        socket_path,
        watch,
        output,
        rotation: None,
        times: Times::default(),
        met: Met::default(),
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
                // For the next client, or because it was we who left it no time to tidy up.
                self.kept.restore(matches!(ended.change, Change::Killed(_)));
            }
            if next.is_none() && !ended.killed_by_us && matches!(ended.change, Change::Killed(_)) {
                // The terminal stays as the client left it, so what we say must not be written over its last line.
                self.say_below();
            }
            self.say_now();
            match next {
                Some(next) if self.ready(&next) => {
                    self.follow();
                    args = next.args;
                }
                _ => return Ok(ended.change),
            }
        }
    }

    /// A client that has made a folder of its own goes on there: another one would lack all that was done.
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
            .args(integration::args(&self.store, self.options.provider)?)
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
        self.store.agents().get(&self.agent).ok().flatten()
    }

    fn session(&self, agent: &Agent) -> Option<Session> {
        self.store.sessions().get(agent.session.as_ref()?).ok().flatten()
    }

    fn say_now(&mut self) {
        // A killed client may have left the terminal raw: each line begins at the left all the same.
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
        let line = Line { agent: Some(self.agent.clone()), detail, ..Line::new(Timestamp::now(), event) };
        log::append(&self.store.state, &line);
    }

    /// The agent is over, or at least we are.
    fn leave(&mut self) {
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
