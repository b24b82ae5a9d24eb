//! A long-lived worker and how a session is recognised as its own.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::handoff::HandoffId;
use crate::ids::{AgentId, ChannelName, SessionId};
use crate::limit::Parked;
use crate::pane::Pane;
use crate::process::Process;

/// The record of one agent: `agents/{id}.json`. Its id is its name and survives every rotation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Agent {
    pub id: AgentId,
    pub provider: String,
    #[serde(default)]
    pub parent: Option<AgentId>,
    pub channel: ChannelName,
    pub cwd: String,
    pub created: Timestamp,
    /// The client that runs it now.
    #[serde(default)]
    pub process: Option<Process>,
    /// The `baton run` that owns the client, if there is one.
    #[serde(default)]
    pub supervisor: Option<Process>,
    /// The conversation it is in now.
    #[serde(default)]
    pub session: Option<SessionId>,
    /// All it has had, oldest first.
    #[serde(default)]
    pub sessions: Vec<SessionId>,
    #[serde(default)]
    pub last_handoff: Option<HandoffId>,
    #[serde(default)]
    pub last_handoff_path: Option<String>,
    /// A sealed handoff that waits for a fresh context.
    #[serde(default)]
    pub rotation: Option<RotationRequest>,
    /// Rotations since a person last typed something.
    #[serde(default)]
    pub in_a_row: u64,
    /// What its supervisor is told to do with it.
    #[serde(default)]
    pub order: Option<Order>,
    /// Waiting for a usage limit to end.
    #[serde(default)]
    pub parked: Option<Parked>,
    /// The tmux pane its client runs in.
    #[serde(default)]
    pub pane: Option<Pane>,
    /// Why nothing is typed into that pane although something waits.
    #[serde(default)]
    pub waits: Option<String>,
    /// Stopped for good: not brought back after a reboot.
    #[serde(default)]
    pub retired: Option<Timestamp>,
    /// How it was started, for whoever starts it again.
    #[serde(default)]
    pub launch: Vec<String>,
    #[serde(default)]
    pub ended: Option<Timestamp>,
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// Somebody asked for a fresh context; whoever can give one carries it out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RotationRequest {
    pub at: Timestamp,
    pub handoff: HandoffId,
    pub session: SessionId,
    /// Who asked: the agent, a critical end of turn, a person.
    pub by: String,
    /// The file that the agent handed over, for a prompt that names it.
    #[serde(default)]
    pub path: Option<String>,
    /// A person may be typing: wait until the client says that it has been idle for a while.
    #[serde(default)]
    pub wait_for_idle: bool,
    /// Also into a turn, and without waiting for background tasks.
    #[serde(default)]
    pub at_once: bool,
}

/// A word to an agent's supervisor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "what")]
pub enum Order {
    /// Stop the agent for good.
    Retire,
    /// Go back to an earlier conversation.
    Undo { session: SessionId },
}

impl Agent {
    pub fn new(id: AgentId, provider: &str, channel: ChannelName, cwd: String, created: Timestamp) -> Self {
        Self {
            id,
            provider: provider.to_owned(),
            parent: None,
            channel,
            cwd,
            created,
            process: None,
            supervisor: None,
            session: None,
            sessions: Vec::new(),
            last_handoff: None,
            last_handoff_path: None,
            rotation: None,
            in_a_row: 0,
            order: None,
            parked: None,
            pane: None,
            waits: None,
            retired: None,
            launch: Vec::new(),
            ended: None,
            unknown: Map::new(),
        }
    }

    /// The agent is in `session` now.
    pub fn enter(&mut self, session: &SessionId, process: Option<Process>) {
        self.session = Some(session.clone());
        if self.sessions.last() != Some(session) {
            self.sessions.push(session.clone());
        }
        if process.is_some() {
            self.process = process;
        }
        self.ended = None;
    }
}

/// What is known when a session makes itself heard for the first time.
pub struct Arrival<'a> {
    pub session: &'a SessionId,
    pub client: Option<&'a Process>,
    /// The pid of the client's parent.
    pub client_parent: Option<u32>,
    /// The agent last recorded for this very client process.
    pub by_process: Option<&'a Agent>,
    /// The agent that `CLAUDE_SESSION_MANAGER_ID` names.
    pub by_env: Option<&'a Agent>,
    /// The agent of the session's own record: a resumed conversation.
    pub by_session: Option<&'a Agent>,
    pub alive: &'a dyn Fn(&Process) -> bool,
}

/// Whose session it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whose {
    Known(AgentId),
    /// A new agent, started from within another one.
    ChildOf(AgentId),
    New,
}

/// Decides whose session this is.
///
/// The environment is inherited by everything an agent starts, so it names the agent only if the session or the
/// process is the one recorded for it, or its supervisor started the client; else the session is a child.
pub fn whose(arrival: &Arrival<'_>) -> Whose {
    if let Some(agent) = arrival.by_process {
        return Whose::Known(agent.id.clone());
    }
    if let Some(agent) = arrival.by_env {
        let same_session = agent.session.as_ref() == Some(arrival.session);
        let same_process = agent.process.is_some() && agent.process.as_ref() == arrival.client;
        let own_supervisor = agent
            .supervisor
            .as_ref()
            .is_some_and(|s| Some(s.pid) == arrival.client_parent && (arrival.alive)(s));
        // A launcher that stays in the pane and starts the client as its child.
        let first_in_pane = agent.session.is_none()
            && agent
                .pane
                .as_ref()
                .is_some_and(|p| Some(p.process.pid) == arrival.client_parent && (arrival.alive)(&p.process));
        return if same_session || same_process || own_supervisor || first_in_pane {
            Whose::Known(agent.id.clone())
        } else {
            Whose::ChildOf(agent.id.clone())
        };
    }
    match arrival.by_session {
        Some(agent) if !agent.process.as_ref().is_some_and(|p| (arrival.alive)(p)) => {
            Whose::Known(agent.id.clone())
        }
        _ => Whose::New,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32) -> Process {
        Process { pid, start: 1, boot: "b".into() }
    }

    fn agent(name: &str) -> Agent {
        let at = Timestamp::UNIX_EPOCH;
        Agent::new(AgentId::new(name).unwrap(), "claude", ChannelName::new("c").unwrap(), "/p".into(), at)
    }

    fn sid(text: &str) -> SessionId {
        SessionId::new(text).unwrap()
    }

    fn arrival<'a>(session: &'a SessionId, client: &'a Process) -> Arrival<'a> {
        Arrival {
            session,
            client: Some(client),
            client_parent: Some(7),
            by_process: None,
            by_env: None,
            by_session: None,
            alive: &|p| p.pid < 100,
        }
    }

    #[test]
    fn a_plain_client_is_a_new_agent_and_stays_it_after_clear() {
        let (s, p) = (sid("s2"), process(5));
        assert_eq!(whose(&arrival(&s, &p)), Whose::New);
        let known = agent("app-1");
        assert_eq!(
            whose(&Arrival { by_process: Some(&known), ..arrival(&s, &p) }),
            Whose::Known(known.id.clone())
        );
    }

    #[test]
    fn a_client_that_an_agent_started_is_its_child_and_not_itself() {
        let (s, p) = (sid("s2"), process(5));
        let mut parent = agent("app-1");
        parent.enter(&sid("s1"), Some(process(4)));
        let a = Arrival { by_env: Some(&parent), ..arrival(&s, &p) };
        assert_eq!(whose(&a), Whose::ChildOf(parent.id.clone()));
    }

    #[test]
    fn the_successor_that_our_supervisor_started_is_the_agent() {
        let (s, p) = (sid("s2"), process(5));
        let mut ours = agent("app-1");
        ours.enter(&sid("s1"), Some(process(4)));
        ours.supervisor = Some(process(7));
        let a = Arrival { by_env: Some(&ours), ..arrival(&s, &p) };
        assert_eq!(whose(&a), Whose::Known(ours.id.clone()));
        ours.supervisor = Some(process(700));
        let a = Arrival { by_env: Some(&ours), client_parent: Some(700), ..arrival(&s, &p) };
        assert_eq!(whose(&a), Whose::ChildOf(ours.id.clone()), "a dead supervisor vouches for nobody");
    }

    #[test]
    fn a_resumed_conversation_brings_its_agent_back_unless_that_one_lives_elsewhere() {
        let (s, p) = (sid("s1"), process(5));
        let mut old = agent("app-1");
        old.enter(&s, Some(process(400)));
        assert_eq!(
            whose(&Arrival { by_session: Some(&old), ..arrival(&s, &p) }),
            Whose::Known(old.id.clone())
        );
        old.process = Some(process(4));
        assert_eq!(whose(&Arrival { by_session: Some(&old), ..arrival(&s, &p) }), Whose::New);
    }
}
