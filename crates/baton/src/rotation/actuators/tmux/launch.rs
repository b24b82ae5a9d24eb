//! Starts an agent in a pane. tmux runs `baton pane FILE`, which records its process as the agent's and then execs the
//! client, so that the client's first hook finds the record.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use baton_core::agent::Agent;
use baton_core::agent::Pane;
use baton_core::ids::{AgentId, ChannelName};
use baton_core::process::Process;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::providers::{self, Provider};
use crate::rotation::actuators::Integrate;
use crate::rotation::actuators::tmux::server::{PaneState, RecordedPane, Server};
use crate::store::agents::is_reserved;
use crate::store::{Store, record};
use crate::sys::fs;
use crate::sys::process;

const PATIENCE: Duration = Duration::from_secs(2);
/// How long a new pane may take to record its process.
const START: Duration = Duration::from_secs(20);
/// The length limit of one command-line argument; longer prompts go into a file.
pub(crate) const MAX_PROMPT: usize = 100_000;

/// The agent to start.
pub(crate) struct PaneSpec {
    pub name: AgentId,
    pub provider: &'static Provider,
    pub channel: ChannelName,
    pub cwd: PathBuf,
    pub parent: Option<AgentId>,
    /// The agent that may answer its permission requests besides the user.
    pub approver: Option<AgentId>,
    /// Its purpose, in a word or two.
    pub role: Option<String>,
    /// The git worktree that was made for it.
    pub worktree: Option<PathBuf>,
    /// It begins with a new task instead of continuing the earlier work under this name.
    pub anew: bool,
    /// The client's own arguments, and its first prompt among them.
    pub args: Vec<String>,
    /// The tmux server, by name or path.
    pub socket: String,
}

/// The process in the pane reads this. The file is private, because it contains an environment, and is removed once
/// read.
#[derive(Serialize, Deserialize)]
struct Ticket {
    agent: AgentId,
    args: Vec<String>,
    env: Vec<(String, String)>,
}

/// Adds the prompt to the arguments: first, because an option that takes many values would swallow it; or last, behind
/// `--`, if it looks like an option itself.
pub(crate) fn with_prompt(mut args: Vec<String>, prompt: &str) -> Vec<String> {
    if prompt.starts_with('-') {
        args.extend(["--".to_owned(), prompt.to_owned()]);
    } else {
        args.insert(0, prompt.to_owned());
    }
    args
}

/// Checks that the client is installed, before anything is made for it.
pub(crate) fn ensure_there(provider: &Provider) -> anyhow::Result<()> {
    ensure!(
        provider.locate().is_some(),
        "{} is not on the PATH; install it with `{}`",
        provider.name,
        provider.install
    );
    Ok(())
}

/// Registers the agent and starts its client in a new pane.
pub(crate) fn start(store: &Store, spec: &PaneSpec) -> anyhow::Result<Agent> {
    ensure!(!is_reserved(&spec.name), "no agent may be called {}; choose another name", spec.name);
    ensure_there(spec.provider)?;
    let before = register(store, spec)?;
    let started = start_pane(store, spec, before.as_ref(), Place::New);
    or_end(store, spec, started)
}

/// Starts the agent's client again, in the pane that it had if that is still there.
pub(crate) fn start_again(store: &Store, spec: &PaneSpec) -> anyhow::Result<Agent> {
    let before = register(store, spec)?;
    let started = start_pane(store, spec, before.as_ref(), Place::Same);
    or_end(store, spec, started)
}

fn or_end(store: &Store, spec: &PaneSpec, started: anyhow::Result<Agent>) -> anyhow::Result<Agent> {
    if started.is_err() {
        // Nobody must wait for a client that did not start.
        store.agents().update(&spec.name, PATIENCE, |a| {
            a.process = None;
            a.ended = Some(Timestamp::now());
        })?;
    }
    started
}

/// Takes the name; only one of two concurrent starts gets it. Returns the pane of the agent's earlier life.
fn register(store: &Store, spec: &PaneSpec) -> anyhow::Result<Option<Pane>> {
    let me = process::identify(std::process::id()).context("this process was not found in /proc")?;
    let cwd = spec.cwd.display().to_string();
    let mut new =
        Agent::new(spec.name.clone(), spec.provider.name, spec.channel.clone(), cwd, Timestamp::now());
    new.parent.clone_from(&spec.parent);
    new.approver.clone_from(&spec.approver);
    new.role.clone_from(&spec.role);
    new.worktree = spec.worktree.as_ref().map(|path| path.display().to_string());
    new.launch.clone_from(&spec.args);
    new.named = true;
    new.process = Some(me);
    if store.agents().create_named(&new)? {
        return Ok(None);
    }
    let taken = store.agents().update(&spec.name, PATIENCE, |known| {
        if [&known.process, &known.supervisor].into_iter().flatten().any(process::is_alive) {
            return None;
        }
        let before = known.pane.take();
        if spec.anew && known.retired.is_some() {
            known.clone_from(&new);
            return Some(before);
        }
        // An agent that has ended comes back under its name.
        if spec.anew {
            known.anew_after = known.sessions.last().cloned();
        }
        (known.process, known.supervisor) = (new.process.clone(), None);
        (known.ended, known.retired, known.order, known.waits) = (None, None, None, None);
        (known.rotation, known.session) = (None, None);
        (known.cwd, known.channel) = (new.cwd.clone(), new.channel.clone());
        (known.provider, known.launch) = (new.provider.clone(), new.launch.clone());
        known.approver.clone_from(&new.approver);
        if new.role.is_some() {
            known.role.clone_from(&new.role);
        }
        // An agent that returns to its own worktree keeps it.
        if new.worktree.is_some() || known.worktree.as_ref() != Some(&new.cwd) {
            known.worktree.clone_from(&new.worktree);
        }
        known.in_a_row = 0;
        known.named = true;
        if new.parent.is_some() {
            known.parent.clone_from(&new.parent);
        }
        Some(before)
    })?;
    match taken {
        Some(Some(before)) => Ok(before),
        _ => anyhow::bail!(
            "agent {name} is already running; choose another name or `baton retire {name}` first",
            name = spec.name
        ),
    }
}

/// Where a client is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    New,
    /// Where it ran before.
    Same,
}

fn start_pane(store: &Store, spec: &PaneSpec, before: Option<&Pane>, place: Place) -> anyhow::Result<Agent> {
    let before = before.filter(|pane| pane.spawned && process::is_alive(&pane.server));
    let same = before.filter(|pane| {
        // Another program may run in a pane of that number by now.
        let is_left = |f: &PaneState| f.dead || f.process == pane.process.pid;
        place == Place::Same && Server::of(pane).facts(&pane.id).as_ref().is_some_and(is_left)
    });
    if let (None, Some(pane)) = (same, before) {
        // The screen of a failed client has been seen by now, or never will be.
        let _ = RecordedPane::new(pane).close();
    }
    let ticket = store.state.join("run").join(format!("{}.start", spec.name));
    let told = Ticket { agent: spec.name.clone(), args: spec.args.clone(), env: environment() };
    record::write(&ticket, &told)?;
    let program = std::env::current_exe().context("this program no longer exists")?;
    let words: [OsString; 2] = ["pane".into(), ticket.clone().into()];
    let started = match same {
        Some(pane) => Server::of(pane).restart(&pane.id, &spec.cwd, &program, &words),
        None => Server::told(&spec.socket).start(spec.name.as_str(), &spec.cwd, &program, &words),
    };
    let until = Instant::now() + START;
    let outcome = started.and_then(|facts| {
        loop {
            let agent = store.agents().get(&spec.name)?.context("the agent's record vanished")?;
            if agent
                .pane
                .as_ref()
                .is_some_and(|pane| pane.id == facts.pane && pane.process.pid == facts.process)
            {
                return Ok(agent);
            }
            ensure!(process::pid_exists(facts.process), "the pane closed before the client had started");
            ensure!(
                Instant::now() < until,
                "the pane {} did not report its client within {START:?}",
                facts.pane
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    fs::remove(&ticket)?;
    outcome
}

/// Runs in the pane: records this process as the agent's, and becomes the client.
///
/// `integration` returns the arguments that load our hooks if none are installed.
pub(crate) fn become_client(
    store: &Store,
    ticket: &Path,
    integration: Integrate,
) -> anyhow::Result<std::convert::Infallible> {
    let text =
        fs::read(ticket, 4 << 20)?.context("there is nothing to start; this command is baton's own")?;
    fs::remove(ticket)?;
    let ticket: Ticket = record::parse(ticket, &text)?.context("what to start cannot be understood")?;
    let me = process::identify(std::process::id()).context("this process was not found in /proc")?;
    let pane = own_pane(&me, true)?;
    let agent = store
        .agents()
        .update(&ticket.agent, PATIENCE, |a| {
            (a.pane, a.process, a.session) = (Some(pane), Some(me.clone()), None);
            a.clone()
        })?
        .with_context(|| format!("there is no agent {}", ticket.agent))?;
    store.agents().note_process(&me, &agent.id)?;
    let provider = providers::find(&agent.provider)
        .with_context(|| format!("there is no provider {}", agent.provider))?;
    let (program, prefix) =
        provider.locate().with_context(|| format!("{} is not on the PATH", provider.name))?;
    let typing = providers::face::of(provider.name);
    let mut client = Command::new(&program);
    client
        .args(prefix)
        .args(integration(store, provider)?)
        .args(typing.map_or(&[][..], |t| t.spawn_args))
        .args(&ticket.args)
        .env_clear()
        .envs(ticket.env)
        .env("CLAUDE_SESSION_MANAGER_ID", agent.id.as_str());
    for name in OF_THE_PANE {
        match std::env::var_os(name) {
            Some(value) => client.env(name, value),
            None => client.env_remove(name),
        };
    }
    let error = client.exec();
    Err(anyhow::Error::from(error).context(format!("could not start {}", program.display())))
}

/// The pane that this process runs in.
fn own_pane(me: &Process, spawned: bool) -> anyhow::Result<Pane> {
    let told = std::env::var("TMUX").context("this is not a tmux pane")?;
    let mut fields = told.split(',');
    let (socket, server) =
        (fields.next().unwrap_or_default(), fields.next().and_then(|pid| pid.parse().ok()));
    Ok(Pane {
        socket: socket.to_owned(),
        server: server.and_then(process::identify).context("tmux does not say which server this is")?,
        id: std::env::var("TMUX_PANE").context("tmux does not say which pane this is")?,
        process: me.clone(),
        spawned,
    })
}

/// Variables that belong to the terminal, not to the spawner's environment.
const OF_THE_PANE: &[&str] =
    &["TMUX", "TMUX_PANE", "TERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "COLORTERM"];
/// Variables that a client sets for its own commands. A spawned agent is another agent and must not inherit them.
const OF_A_CLIENT: &[&str] = &[
    "CLAUDECODE",
    "CLAUDE_PID",
    "CLAUDE_PROJECT_DIR",
    "CLAUDE_ENV_FILE",
    "CLAUDE_JOB_DIR",
    "CLAUDE_PLUGIN_ROOT",
    "CLAUDE_SESSION_MANAGER_ID",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_SESSION_ATTENDED",
    "CLAUDE_CODE_MESSAGING_SOCKET",
    "CLAUDE_CODE_MESSAGING_TOKEN",
    "CODEX_SESSION_ID",
    "CODEX_THREAD_ID",
    "CODEX_TOOL_CALL_ID",
    "CODEX_CI",
    "COLUMNS",
    "LINES",
];

/// Our own environment, for the client. A tmux server keeps the one it was started with.
fn environment() -> Vec<(String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| !OF_A_CLIENT.contains(&name.as_str()))
        .collect()
}
