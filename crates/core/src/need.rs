//! Why an agent needs a person, in the words that page, screen, CLI, notices and mail share.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::agent::{Agent, AgentState};
use crate::halt::{Audience, Halt, LimitEnd};
use crate::pending::Pending;
use crate::session::Session;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NeedKind {
    Permission,
    Question,
    Plan,
    /// A dialog in its terminal that nobody else can answer, or a draft there that blocks us.
    Blocked,
    Error,
    Limit,
    /// A handoff that needs a person to continue.
    Handoff,
}

impl NeedKind {
    pub const ALL: [Self; 7] = [
        Self::Permission,
        Self::Question,
        Self::Plan,
        Self::Blocked,
        Self::Error,
        Self::Limit,
        Self::Handoff,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Permission => "permission",
            Self::Question => "question",
            Self::Plan => "plan",
            Self::Blocked => "blocked",
            Self::Error => "error",
            Self::Limit => "limit",
            Self::Handoff => "handoff",
        }
    }

    /// Whether it can be answered from elsewhere, not only at its terminal.
    pub fn is_request(self) -> bool {
        matches!(self, Self::Permission | Self::Question | Self::Plan)
    }

    /// The need behind this tool's permission request.
    pub(crate) fn of_tool(tool: &str) -> Self {
        match tool {
            crate::approval::QUESTION => Self::Question,
            crate::approval::PLAN => Self::Plan,
            _ => Self::Permission,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Need {
    pub kind: NeedKind,
    /// One line, without the age, which follows from `since`.
    pub text: String,
    pub since: Timestamp,
}

/// A waiting request of the agent. `about` is redacted and on one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingRequest {
    pub tool: String,
    pub about: String,
    pub at: Timestamp,
}

impl WaitingRequest {
    /// The words of its request. The first answer counts, wherever it is given.
    pub fn words(&self) -> String {
        match NeedKind::of_tool(&self.tool) {
            NeedKind::Question => format!("asks: {}", self.about),
            NeedKind::Plan => format!("asks about its plan: {}", self.about),
            _ if self.about.is_empty() => format!("asks: {}", self.tool),
            _ => format!("asks: {} \"{}\"", self.tool, self.about),
        }
    }
}

/// The facts that decide the need.
pub struct Facts<'a> {
    pub agent: &'a Agent,
    pub session: Option<&'a Session>,
    pub state: AgentState,
    /// The oldest waiting request.
    pub waiting: Option<&'a WaitingRequest>,
    pub pending: Option<Pending>,
    /// An actuator other than the user is available.
    pub rotatable: bool,
}

/// The agent's most urgent need for a person. `clock` formats a time of day.
pub fn need(facts: &Facts<'_>, clock: impl Fn(Timestamp) -> String) -> Option<Need> {
    let Facts { agent, session, state, .. } = facts;
    if state.is_over() {
        return None;
    }
    let since = session.and_then(|s| s.turn_since).unwrap_or(agent.created);
    let need = |kind, text: String, since| Some(Need { kind, text, since });
    if let Some(waiting) = facts.waiting {
        return need(NeedKind::of_tool(&waiting.tool), waiting.words(), waiting.at);
    }
    match state {
        AgentState::Blocked => {
            let halt = Halt::Blocked(session.and_then(|s| s.blocked_on.as_deref()));
            return need(NeedKind::Blocked, halt.words(Audience::User), since);
        }
        AgentState::Limit => {
            let parked = session.and_then(Session::parked);
            let until = parked.map(|parked| clock(parked.until)).unwrap_or_default();
            let halt = Halt::Limit(parked.map(|parked| LimitEnd::of(&parked, &until)));
            return need(NeedKind::Limit, halt.words(Audience::User), since);
        }
        _ => {}
    }
    if let Some(error) = session.and_then(|s| s.error.as_deref()) {
        return need(NeedKind::Error, Halt::Error(error).words(Audience::User), since);
    }
    if facts.pending == Some(Pending::NextPrompt)
        && let Some(request) = session.and_then(|s| s.request.as_ref())
    {
        let text = "handoff waits for your next prompt in its terminal".to_owned();
        return need(NeedKind::Handoff, text, request.at);
    }
    if let Some(rotation) = agent.rotation.as_ref().filter(|_| !facts.rotatable) {
        let text = "handoff sealed: type /clear in its terminal".to_owned();
        return need(NeedKind::Handoff, text, rotation.at);
    }
    if let Some(stopped) = agent.stopped() {
        return need(NeedKind::Handoff, format!("stopped: {}", stopped.why), stopped.at);
    }
    if let Some(why) = &agent.waits {
        return need(NeedKind::Blocked, format!("something waits to be typed: {why}"), since);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::{RotationRequest, Stopped};
    use crate::handoff::HandoffId;
    use crate::ids::{AgentId, ChannelName, SessionId};
    use crate::limit::Parked;
    use crate::notice::NoticeKind;
    use crate::session::{PendingHandoff, Turn};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_794_790_000 + second).unwrap()
    }

    fn agent() -> (Agent, Session) {
        let (id, channel) = (AgentId::new("app").unwrap(), ChannelName::new("c").unwrap());
        let mut session = Session::new(
            SessionId::new("s").unwrap(),
            "claude",
            id.clone(),
            channel.clone(),
            at(0),
            "startup",
        );
        session.turn_since = Some(at(5));
        (Agent::new(id, "claude", channel, "/p".into(), at(0)), session)
    }

    fn told(
        agent: &Agent,
        session: &Session,
        state: AgentState,
        waiting: Option<&WaitingRequest>,
    ) -> Option<Need> {
        let facts = Facts {
            agent,
            session: Some(session),
            state,
            waiting,
            pending: session.pending(true),
            rotatable: false,
        };
        need(&facts, |at| at.strftime("%H:%M").to_string())
    }

    #[test]
    fn an_agent_that_works_or_is_idle_needs_nobody() {
        let (agent, session) = agent();
        for state in [AgentState::Idle, AgentState::Working, AgentState::HandingOver] {
            assert_eq!(told(&agent, &session, state, None), None);
        }
    }

    #[test]
    fn a_request_says_what_it_asks_for_and_since_when() {
        let (agent, session) = agent();
        let ask = |tool: &str, about: &str| {
            let waiting = WaitingRequest { tool: tool.into(), about: about.into(), at: at(9) };
            told(&agent, &session, AgentState::Blocked, Some(&waiting)).unwrap()
        };
        let need = ask("Bash", "cargo publish");
        assert_eq!((need.kind, need.text.as_str()), (NeedKind::Permission, "asks: Bash \"cargo publish\""));
        assert_eq!(need.since, at(9));
        assert_eq!(ask("AskUserQuestion", "Which one?").text, "asks: Which one?");
        assert_eq!(ask("AskUserQuestion", "Which one?").kind, NeedKind::Question);
        assert_eq!(ask("ExitPlanMode", "1. port").kind, NeedKind::Plan);
    }

    #[test]
    fn a_dialog_in_its_terminal_an_error_and_a_limit_are_told_apart() {
        let (agent, mut session) = agent();
        session.blocked_on = Some("a dialog".into());
        let need = told(&agent, &session, AgentState::Blocked, None).unwrap();
        assert_eq!((need.kind, need.since), (NeedKind::Blocked, at(5)));
        session.error = Some("500".into());
        assert_eq!(told(&agent, &session, AgentState::Idle, None).unwrap().text, "error: 500");
        session.turn = Turn::Limit;
        session.parked =
            Some(Parked { until: at(60 * 60), guess: false, tries: 0, since: None, began: None });
        let need = told(&agent, &session, AgentState::Limit, None).unwrap();
        assert_eq!(need.kind, NeedKind::Limit);
        assert!(need.text.starts_with("limit until "), "{}", need.text);
    }

    /// The user reads "you"; a parent must not think that this refers to it.
    #[test]
    fn notices_use_the_words_of_the_screen() {
        let (agent, mut session) = agent();
        let notice = |halt: Halt<'_>, audience| NoticeKind::Blocked.text("app", &halt.words(audience));
        session.blocked_on = Some("Bash make".into());
        let need = told(&agent, &session, AgentState::Blocked, None).unwrap();
        let halt = Halt::Blocked(Some("Bash make"));
        assert_eq!(notice(halt, Audience::User), format!("[baton] app: {}", need.text));
        assert_eq!(
            notice(halt, Audience::Agent),
            "[baton] app: waits for the user in its terminal: Bash make"
        );
        session.error = Some("500".into());
        let need = told(&agent, &session, AgentState::Idle, None).unwrap();
        let halt = Halt::Error("500");
        assert_eq!(notice(halt, Audience::User), format!("[baton] app: {}", need.text));
    }

    #[test]
    fn a_handoff_that_waits_for_a_person_sends_a_notice() {
        let (mut agent, mut session) = agent();
        session.request =
            Some(PendingHandoff { at: at(7), path: None, copy: "/c".into(), tries: 0, window_asked: false });
        session.turn = Turn::Working;
        assert_eq!(told(&agent, &session, AgentState::Working, None), None, "it waits for the turn's end");
        session.turn = Turn::Idle;
        let need = told(&agent, &session, AgentState::Idle, None).unwrap();
        assert_eq!((need.kind, need.since), (NeedKind::Handoff, at(7)));
        session.request = None;
        agent.rotation = Some(RotationRequest {
            at: at(8),
            handoff: HandoffId::new("HO-20260202-064530-c74cc080").unwrap(),
            session: session.id.clone(),
            by: "the agent".into(),
            path: None,
            wait_for_idle: false,
            at_once: false,
        });
        assert_eq!(told(&agent, &session, AgentState::Idle, None).unwrap().kind, NeedKind::Handoff);
        assert_eq!(told(&agent, &session, AgentState::Ended, None), None);
        agent.rotation = None;
        agent.stopped = Some(Stopped { at: at(9), why: "type something to continue".into() });
        assert_eq!(told(&agent, &session, AgentState::Idle, None), None, "somebody has spoken since");
        agent.in_a_row = 10;
        let need = told(&agent, &session, AgentState::Idle, None).unwrap();
        assert_eq!((need.kind, need.since), (NeedKind::Handoff, at(9)));
        assert_eq!(need.text, "stopped: type something to continue");
    }
}
