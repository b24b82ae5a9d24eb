//! A long-lived worker, and how we recognise which sessions belong to it.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::handoff::HandoffId;
use crate::ids::{AgentId, ChannelName, SessionId};
use crate::limit::Parked;
use crate::process::Process;
use crate::session::{Session, Turn};

/// The tmux pane of an agent's client. A pane id is only meaningful during the life of one tmux server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pane {
    /// The server's socket.
    pub socket: String,
    pub server: Process,
    /// `%7`, as tmux numbers it.
    pub id: String,
    /// The process that tmux started in the pane.
    pub process: Process,
    /// Started by `baton spawn`. Other panes were adopted and stay open when the agent ends.
    #[serde(default)]
    pub spawned: bool,
}

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
    /// Its purpose in a word or two, as given at spawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The git worktree created for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<String>,
    /// A person chose its name (`spawn`, `run --name`) and can bring it back under that name.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub named: bool,
    /// The client process that runs it now.
    #[serde(default)]
    pub process: Option<Process>,
    /// The `baton run` that owns the client, if there is one.
    #[serde(default)]
    pub supervisor: Option<Process>,
    /// Its current conversation.
    #[serde(default)]
    pub session: Option<SessionId>,
    /// All its conversations, oldest first.
    #[serde(default)]
    pub sessions: Vec<SessionId>,
    /// The last conversation before the agent was started again under its name with another task; `undo` never goes
    /// back to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anew_after: Option<SessionId>,
    /// The conversation whose rotation was undone, from then until another one begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undone: Option<SessionId>,
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
    /// The pending order to its supervisor.
    #[serde(default)]
    pub order: Option<SupervisorOrder>,
    /// Waiting for a usage limit to end.
    #[serde(default)]
    pub parked: Option<Parked>,
    /// The tmux pane its client runs in.
    #[serde(default)]
    pub pane: Option<Pane>,
    /// Why we type nothing into that pane although something waits.
    #[serde(default)]
    pub waits: Option<String>,
    /// Stopped for good; a reboot does not bring it back.
    #[serde(default)]
    pub retired: Option<Timestamp>,
    /// The command line it was started with, for the next start.
    #[serde(default)]
    pub launch: Vec<String>,
    #[serde(default)]
    pub ended: Option<Timestamp>,
    /// Let its permission requests be answered from elsewhere too, whatever the settings say.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub approvals: bool,
    /// The agent that spawned it and gave it its first prompt; `None` if a person did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spawned_by: Option<AgentId>,
    /// Earlier names, oldest first; a notice sent under one of them is not repeated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub former: Vec<AgentId>,
    /// Why it was given no further context, and since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stopped>,
    /// The agent that the user lets answer for this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approver: Option<AgentId>,
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// Rotations are refused until a person speaks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stopped {
    pub at: Timestamp,
    pub why: String,
}

/// An agent's state, in the words that all interfaces use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentState {
    Idle,
    Working,
    /// Waits for a person's decision.
    Blocked,
    /// Stopped by a usage limit.
    Limit,
    /// An error ended its last turn; nothing happens until somebody speaks to it.
    Error,
    /// The handoff is sealed and the fresh context is on its way.
    HandingOver,
    /// The agent has reported its task finished, and nobody has asked for anything since.
    Done,
    Ended,
    /// Stopped for good.
    Retired,
}

impl AgentState {
    pub const ALL: [Self; 9] = [
        Self::Idle,
        Self::Working,
        Self::Blocked,
        Self::Limit,
        Self::Error,
        Self::HandingOver,
        Self::Done,
        Self::Ended,
        Self::Retired,
    ];

    /// `live`: its client or its supervisor runs. `rotating`: an actuator is giving it a fresh context.
    pub fn of(agent: &Agent, session: Option<&Session>, live: bool, rotating: bool) -> Self {
        if !live {
            return if agent.retired.is_some() { Self::Retired } else { Self::Ended };
        }
        match session.map(|session| session.turn).unwrap_or_default() {
            Turn::Working => Self::Working,
            Turn::Blocked => Self::Blocked,
            Turn::Limit => Self::Limit,
            Turn::Idle if session.is_some_and(|session| session.done.is_some()) => Self::Done,
            Turn::Idle if rotating => Self::HandingOver,
            Turn::Idle if session.is_some_and(|session| session.error.is_some()) => Self::Error,
            Turn::Idle => Self::Idle,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Working => "working",
            Self::Blocked => "blocked",
            Self::Limit => "limit",
            Self::Error => "error",
            Self::HandingOver => "handing over",
            Self::Done => "done",
            Self::Ended => "ended",
            Self::Retired => "retired",
        }
    }

    pub fn is_over(self) -> bool {
        matches!(self, Self::Ended | Self::Retired)
    }
}

/// How long an ended agent stays in the listings.
pub const LISTED: SignedDuration = SignedDuration::from_hours(24);

/// The best estimate of when an ended agent ended.
pub fn over_since(agent: &Agent, session: Option<&Session>) -> Timestamp {
    let last = session.map(|s| s.ended.as_ref().map(|e| e.at).or(s.turn_since).unwrap_or(s.started));
    agent.ended.or(agent.retired).or(last).unwrap_or(agent.created)
}

/// A request for a fresh context, carried out by any actuator that can.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RotationRequest {
    pub at: Timestamp,
    pub handoff: HandoffId,
    pub session: SessionId,
    /// The requester: the agent, a critical end of turn, or a person.
    pub by: String,
    /// The file that the agent handed over, so that the prompt can name it.
    #[serde(default)]
    pub path: Option<String>,
    /// A person may be typing: wait until the client has reported idle for a while.
    #[serde(default)]
    pub wait_for_idle: bool,
    /// Interrupt a running turn, and do not wait for background tasks.
    #[serde(default)]
    pub at_once: bool,
}

impl RotationRequest {
    /// Whether `session` is a newer conversation that started working without loading the handoff. Nobody will fulfil
    /// the request any more; the handoff waits for the next fresh context.
    pub fn is_stale(&self, session: &Session) -> bool {
        self.session != session.id
            && session.claim.is_none()
            && session.turn_since.is_some_and(|at| at > session.started)
    }
}

/// Why a stale request is withdrawn.
pub const STALE: &str = "a context began that did not load it; the next one does";

/// An instruction to an agent's supervisor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "what")]
pub enum SupervisorOrder {
    /// Stop the agent for good.
    Retire,
    /// Go back to an earlier conversation.
    Undo { session: SessionId },
    /// Leave this conversation for an empty one, without a handoff, and with this prompt if given.
    Clear {
        session: SessionId,
        from: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt: Option<String>,
    },
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
            role: None,
            worktree: None,
            named: false,
            process: None,
            supervisor: None,
            session: None,
            sessions: Vec::new(),
            anew_after: None,
            undone: None,
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
            approvals: false,
            spawned_by: None,
            former: Vec::new(),
            stopped: None,
            approver: None,
            unknown: Map::new(),
        }
    }

    /// Why it gets no further context; `None` once a person has spoken.
    pub fn stopped(&self) -> Option<&Stopped> {
        self.stopped.as_ref().filter(|_| self.in_a_row > 0)
    }

    /// Whether it was started for one task: then it neither picks up the work of other agents nor leaves its own to
    /// them. A plain client, which a person starts in a project, does both.
    pub fn keeps_to_itself(&self) -> bool {
        self.named || self.parent.is_some()
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

    /// Its conversations since it was last started with a new task, oldest first.
    pub fn since_anew(&self) -> &[SessionId] {
        let before =
            self.anew_after.as_ref().and_then(|last| self.sessions.iter().rposition(|id| id == last));
        &self.sessions[before.map_or(0, |at| at + 1)..]
    }

    /// The conversation that undoing the last rotation returns to. None if there was no rotation, if it was undone
    /// already, or if the present conversation is itself one that was returned to: going back from there would be a redo.
    pub fn before_rotation(&self) -> Option<&SessionId> {
        let [earlier @ .., present] = self.since_anew() else { return None };
        if earlier.contains(present) || self.was_taken_back(present) { None } else { earlier.last() }
    }

    /// Whether the rotation that led into this conversation was undone.
    pub fn was_taken_back(&self, session: &SessionId) -> bool {
        self.undone.as_ref() == Some(session)
    }
}

/// The facts at a session's first event.
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

/// The owner of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentOwner {
    Known(AgentId),
    /// A new agent, started from within another one.
    ChildOf(AgentId),
    New,
}

/// Decides which agent owns this session.
///
/// Everything that an agent starts inherits its environment, so the environment names the agent only if the session or
/// process is the one recorded for it, or if its supervisor started the client. Otherwise the session is a child.
pub fn whose(arrival: &Arrival<'_>) -> AgentOwner {
    if let Some(agent) = arrival.by_process {
        return AgentOwner::Known(agent.id.clone());
    }
    if let Some(agent) = arrival.by_env {
        let same_session = agent.session.as_ref() == Some(arrival.session);
        let same_process = agent.process.is_some() && agent.process.as_ref() == arrival.client;
        let own_supervisor = agent
            .supervisor
            .as_ref()
            .is_some_and(|s| Some(s.pid) == arrival.client_parent && (arrival.alive)(s));
        // Some launchers stay in the pane and start the client as their child.
        let first_in_pane = agent.session.is_none()
            && agent
                .pane
                .as_ref()
                .is_some_and(|p| Some(p.process.pid) == arrival.client_parent && (arrival.alive)(&p.process));
        return if same_session || same_process || own_supervisor || first_in_pane {
            AgentOwner::Known(agent.id.clone())
        } else {
            AgentOwner::ChildOf(agent.id.clone())
        };
    }
    match arrival.by_session {
        Some(agent) if !agent.process.as_ref().is_some_and(|p| (arrival.alive)(p)) => {
            AgentOwner::Known(agent.id.clone())
        }
        _ => AgentOwner::New,
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
        assert_eq!(whose(&arrival(&s, &p)), AgentOwner::New);
        let known = agent("app-1");
        assert_eq!(
            whose(&Arrival { by_process: Some(&known), ..arrival(&s, &p) }),
            AgentOwner::Known(known.id.clone())
        );
    }

    #[test]
    fn a_rotation_is_undone_once_and_a_later_one_again() {
        let mut agent = agent("app-1");
        agent.enter(&sid("s1"), None);
        assert_eq!(agent.before_rotation(), None);
        agent.enter(&sid("s2"), None);
        assert_eq!(agent.before_rotation(), Some(&sid("s1")));
        agent.enter(&sid("s1"), None);
        assert_eq!(agent.before_rotation(), None, "a second undo would be a redo");
        agent.enter(&sid("s3"), None);
        assert_eq!(agent.before_rotation(), Some(&sid("s1")));
        agent.undone = agent.session.clone();
        assert_eq!(agent.before_rotation(), None, "it is undone before the earlier conversation is resumed");
        agent.enter(&sid("s4"), None);
        assert_eq!(agent.before_rotation(), Some(&sid("s3")));
    }

    #[test]
    fn undo_never_goes_back_before_a_start_with_another_task() {
        let mut agent = agent("app-1");
        agent.enter(&sid("s1"), None);
        agent.enter(&sid("s2"), None);
        agent.anew_after = Some(sid("s2"));
        assert_eq!((agent.before_rotation(), agent.since_anew()), (None, &[][..]));
        agent.enter(&sid("s3"), None);
        assert_eq!((agent.before_rotation(), agent.since_anew()), (None, &[sid("s3")][..]));
        agent.enter(&sid("s4"), None);
        assert_eq!(agent.before_rotation(), Some(&sid("s3")));
    }

    #[test]
    fn a_client_that_an_agent_started_is_its_child_and_not_itself() {
        let (s, p) = (sid("s2"), process(5));
        let mut parent = agent("app-1");
        parent.enter(&sid("s1"), Some(process(4)));
        let a = Arrival { by_env: Some(&parent), ..arrival(&s, &p) };
        assert_eq!(whose(&a), AgentOwner::ChildOf(parent.id.clone()));
    }

    #[test]
    fn the_successor_that_our_supervisor_started_is_the_agent() {
        let (s, p) = (sid("s2"), process(5));
        let mut ours = agent("app-1");
        ours.enter(&sid("s1"), Some(process(4)));
        ours.supervisor = Some(process(7));
        let a = Arrival { by_env: Some(&ours), ..arrival(&s, &p) };
        assert_eq!(whose(&a), AgentOwner::Known(ours.id.clone()));
        ours.supervisor = Some(process(700));
        let a = Arrival { by_env: Some(&ours), client_parent: Some(700), ..arrival(&s, &p) };
        assert_eq!(whose(&a), AgentOwner::ChildOf(ours.id.clone()), "a dead supervisor vouches for nobody");
    }

    #[test]
    fn a_resumed_conversation_brings_its_agent_back_unless_that_one_lives_elsewhere() {
        let (s, p) = (sid("s1"), process(5));
        let mut old = agent("app-1");
        old.enter(&s, Some(process(400)));
        assert_eq!(
            whose(&Arrival { by_session: Some(&old), ..arrival(&s, &p) }),
            AgentOwner::Known(old.id.clone())
        );
        old.process = Some(process(4));
        assert_eq!(whose(&Arrival { by_session: Some(&old), ..arrival(&s, &p) }), AgentOwner::New);
    }
}
