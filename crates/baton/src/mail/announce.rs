//! Wakes the processes that serve an agent. Files are written first; then one datagram goes out that nobody waits for.
//! Losing it costs nothing, because the listeners also watch the files.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use baton_core::agent::Agent;
use baton_core::ids::AgentId;
use baton_core::prompt::MAIL_WAITING;
use baton_core::session::{Session, Turn};

use crate::providers;
use crate::store::Store;
use crate::sys::{child, process};

/// How long a client may take to queue a prompt.
const TIME_TO_QUEUE: Duration = Duration::from_secs(30);

/// Where the agent's supervisor listens.
pub(crate) fn supervisor_socket(state: &Path, agent: &AgentId) -> PathBuf {
    state.join("run").join(format!("{agent}.sock"))
}

/// Where the agent's companion listens.
pub(crate) fn companion_socket(state: &Path, agent: &AgentId) -> PathBuf {
    state.join("run").join(format!("{agent}.companion"))
}

/// Where the attendant of all panes listens.
pub(crate) fn panes_socket(state: &Path) -> PathBuf {
    state.join("run/panes.sock")
}

/// Tells the agent's supervisor, its companion and the attendant of its pane, if any, to look again.
pub(crate) fn wake_listeners(state: &Path, agent: &AgentId) {
    let Ok(socket) = UnixDatagram::unbound() else { return };
    if socket.set_nonblocking(true).is_ok() {
        let _ = socket.send_to(b"!", supervisor_socket(state, agent));
        let _ = socket.send_to(b"!", companion_socket(state, agent));
        let _ = socket.send_to(agent.as_str().as_bytes(), panes_socket(state));
    }
}

/// How an idle agent was woken. Nobody has to wait for the outcome.
#[derive(Debug)]
pub(crate) enum Wake {
    /// Nothing: it works, or nothing can wake it.
    None,
    /// The process that serves it was notified.
    Listener,
    /// Its client is being given a prompt; the receiver gets the outcome.
    Prompt(Receiver<bool>),
}

impl Wake {
    /// Whether the agent was idle and has been woken, as far as is known within `patience`.
    pub(crate) fn succeeds_within(self, patience: Duration) -> bool {
        match self {
            Self::None => false,
            Self::Listener => true,
            Self::Prompt(outcome) => outcome.recv_timeout(patience).unwrap_or(false),
        }
    }
}

/// Announces mail that has just been queued. Never waits for another program, because hooks and lock holders call this.
///
/// The pane attendant types to agents in panes, and the thread attendant wakes the threads it follows. Any other idle
/// client is given a prompt, so that its hook delivers the mail at once; its composer is not touched.
pub(crate) fn announce(store: &Store, agent: &Agent) -> Wake {
    wake_listeners(&store.state, &agent.id);
    let Some(session) = agent.session.as_ref().and_then(|id| store.sessions().readable(id)) else {
        return Wake::None;
    };
    if store.presence(agent).is_followed() {
        return if session.turn == Turn::Idle { Wake::Listener } else { Wake::None };
    }
    let prompt = if agent.pane.is_none() { queue_prompt(&session, MAIL_WAITING) } else { None };
    prompt.map_or(Wake::None, Wake::Prompt)
}

/// Gives an idle client a prompt from outside, if it accepts any. A busy one needs none: its next hook delivers.
pub(crate) fn queue_prompt(session: &Session, text: &str) -> Option<Receiver<bool>> {
    let provider = providers::of(&session.provider);
    let queue = provider.queue?;
    if session.turn != Turn::Idle || session.ended.is_some() {
        return None;
    }
    let home = session.transcript.as_deref().and_then(|t| (queue.home)(Path::new(t)))?;
    let lives = match &session.process {
        Some(client) => process::is_alive(client),
        None => home.join(queue.socket).exists(),
    };
    let (program, before) = provider.locate().filter(|_| lives)?;
    let mut command = Command::new(program);
    command.args(before).args((queue.args)(session.id.as_str(), text)).env(queue.home_variable, home);
    child::run_aside(command, TIME_TO_QUEUE)
}
