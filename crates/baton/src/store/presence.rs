//! Who serves an agent right now, according to records and locks.
//!
//! Everybody who wants to rotate, type to or wake an agent asks here, so that all get the same answer.

use std::path::{Path, PathBuf};

use baton_core::agent::Agent;
use baton_core::process::Process;
use baton_core::rotation::Actuator;
use baton_core::session::Session;

use crate::providers;
use crate::store::Store;
use crate::store::companions::CompanionState;
use crate::sys::{lock, process};

/// The lock that the attendant of all tmux panes holds.
pub(crate) fn panes_lock(state: &Path) -> PathBuf {
    state.join("run/panes.lock")
}

/// The lock that the attendant of the threads on Codex's daemon holds.
pub(crate) fn threads_lock(state: &Path) -> PathBuf {
    state.join("run/threads.lock")
}

/// Whether an agent is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Liveness {
    /// Its client or its supervisor runs.
    Running,
    /// It has no separate process: a shared daemon serves its conversation and has not reported its end.
    Served,
    Gone,
}

/// Answers about one agent; each question reads only what it needs.
#[derive(Clone, Copy)]
pub struct Presence<'a> {
    store: &'a Store,
    agent: &'a Agent,
}

impl<'a> Presence<'a> {
    pub(crate) fn new(store: &'a Store, agent: &'a Agent) -> Self {
        Self { store, agent }
    }

    pub(crate) fn liveness(self) -> Liveness {
        if self.agent.ended.is_some() {
            return Liveness::Gone;
        }
        let own: Vec<&Process> =
            [&self.agent.process, &self.agent.supervisor].into_iter().flatten().collect();
        if own.iter().any(|process| process::is_alive(process)) {
            return Liveness::Running;
        }
        if own.is_empty() && self.may_be_in(|session| session.shared && session.ended.is_none()) {
            Liveness::Served
        } else {
            Liveness::Gone
        }
    }

    /// Whether it is there at all, in a separate process or served by a shared daemon.
    pub(crate) fn is_there(self) -> bool {
        self.liveness() != Liveness::Gone
    }

    pub fn companion(self) -> CompanionState {
        match &self.agent.process {
            Some(client) => self.store.companions().of(client),
            None => CompanionState::Never,
        }
    }

    /// Whether a companion takes orders for a person's client. A headless run is never cleared or woken.
    pub(crate) fn has_companion(self) -> bool {
        matches!(self.companion(), CompanionState::Live(companion) if companion.interactive)
    }

    /// Whether nothing reaches the client before its user's next prompt: they pressed Esc, so it takes no orders, and
    /// nobody types into its terminal.
    pub fn is_braked(self) -> bool {
        matches!(self.companion(), CompanionState::Live(companion) if companion.braked) && !self.is_typed_to()
    }

    /// Whether something can give it a prompt while it is idle.
    pub(crate) fn is_reachable(self) -> bool {
        let in_place = matches!(self.companion(), CompanionState::Live(c) if c.interactive && !c.braked);
        in_place || self.is_typed_to() || self.is_followed() || self.takes_queued_prompts()
    }

    /// Whether its client takes prompts from outside.
    fn takes_queued_prompts(self) -> bool {
        providers::of(&self.agent.provider).queue.is_some()
            && self.agent.process.as_ref().is_some_and(process::is_alive)
    }

    /// Whether a `baton run` owns the client.
    pub fn is_supervised(self) -> bool {
        self.agent.supervisor.as_ref().is_some_and(process::is_alive)
    }

    /// Whether the pane attendant types into its pane.
    pub(crate) fn is_typed_to(self) -> bool {
        self.agent.pane.as_ref().is_some_and(|pane| process::is_alive(&pane.process))
            && lock::is_held(&panes_lock(&self.store.state))
    }

    /// Whether the thread attendant follows its conversation on a client's shared daemon.
    pub(crate) fn is_followed(self) -> bool {
        self.may_be_in(|session| is_followed(self.store, session))
    }

    /// Whether its session matches; one whose record cannot be read may match.
    fn may_be_in(self, such: impl Fn(&Session) -> bool) -> bool {
        let Some(id) = &self.agent.session else { return false };
        self.store.sessions().get(id).map_or(true, |session| session.is_some_and(|session| such(&session)))
    }

    /// The actuator that would give it a fresh context; `None` if only the user can.
    pub fn actuator(self) -> Option<Actuator> {
        if self.has_companion() {
            Some(Actuator::InPlace)
        } else if self.is_supervised() {
            Some(Actuator::Restart)
        } else if self.is_typed_to() {
            Some(Actuator::Tmux)
        } else if self.is_followed() {
            Some(Actuator::Thread)
        } else {
            None
        }
    }
}

/// The socket of the shared daemon that runs this conversation, if one does.
pub(crate) fn thread_server(session: &Session) -> Option<PathBuf> {
    let queue = providers::of(&session.provider).queue.filter(|_| session.shared)?;
    Some((queue.home)(Path::new(session.transcript.as_deref()?))?.join(queue.socket))
}

/// Whether the thread attendant can give this conversation on a shared daemon a successor.
pub(crate) fn is_followed(store: &Store, session: &Session) -> bool {
    session.ended.is_none()
        && thread_server(session).is_some_and(|path| path.exists())
        && lock::is_held(&threads_lock(&store.state))
}
