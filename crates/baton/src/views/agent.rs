//! An agent's view, the same in every interface.

use std::collections::HashMap;
use std::path::Path;

use baton_core::agent::{Agent, AgentState, LISTED, over_since};
use baton_core::approval::QUESTION;
use baton_core::compaction::{CompactionPoint, Observations, compaction_point};
use baton_core::gauge::Gauge;
use baton_core::halt::Audience;
use baton_core::ids::AgentId;
use baton_core::level::{Level, Thresholds};
use baton_core::message::{Message, short_id};
use baton_core::need::{self, Facts, Need, WaitingRequest};
use baton_core::notice;
use baton_core::plain::{plain, plain_line};
use baton_core::process::Process;
use baton_core::redact::redact;
use baton_core::session::{Session, Turn};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::approvals;
use crate::mail::maildir::{Mail, State};
use crate::mail::user;
use crate::project::{self, checkpoints};
use crate::store::Store;
use crate::sys::clock::clock;
use crate::sys::fs::FileError;

/// The width of a goal, a last answer and the like.
const LINE: usize = 200;

/// An agent as the API shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct AgentView {
    pub id: String,
    pub provider: String,
    pub parent: Option<String>,
    pub channel: String,
    /// The project's name.
    pub project: String,
    pub cwd: String,
    pub state: String,
    pub state_since: Option<Timestamp>,
    /// The state in words, without an age: `state_since` or `needs.since` has that.
    pub words: String,
    /// Why it needs a person.
    pub needs: Option<Need>,
    /// From its own newest checkpoint.
    pub goal: Option<String>,
    /// From its own newest checkpoint, else how its last prompt begins.
    pub now: Option<String>,
    /// Goal and now of the checkpoint that a person wrote for all of its project.
    pub checkpoint: Option<String>,
    /// How its last answer to someone else begins.
    pub last_answer: Option<String>,
    /// Its words when it reported its task as finished, until somebody asks for something again.
    pub done: Option<String>,
    /// Its question to the user that it waits for (`send user --ask`).
    pub question: Option<QuestionView>,
    /// Its current session.
    pub session: Option<String>,
    pub session_since: Option<Timestamp>,
    pub transcript_path: Option<String>,
    pub model: Option<String>,
    pub level: Level,
    pub tokens: Option<u64>,
    /// The same value under the name that older scripts expect.
    pub tokens_used: Option<u64>,
    pub window: Option<u64>,
    pub used_percentage: Option<u8>,
    /// In tokens: where baton warns, where it asks for a handoff, and where the client compacts.
    pub warn_at: Option<u64>,
    pub ask_at: Option<u64>,
    pub compacts_at: Option<u64>,
    /// Tokens until the context ends.
    pub left: Option<u64>,
    pub turns_left: Option<u64>,
    pub limit_until: Option<Timestamp>,
    /// Messages waiting for it.
    pub mail: usize,
    /// Its messages that the user has not read.
    pub unread: usize,
    pub last_handoff: Option<String>,
    pub last_handoff_path: Option<String>,
    /// A handoff to be carried out when the turn ends.
    pub pending_handoff_path: Option<String>,
    pub pending: Option<PendingView>,
    /// A sealed handoff that waits for a fresh context.
    pub rotation: Option<String>,
    /// Where it runs: a pane, a terminal, headless, on a shared daemon.
    pub place: String,
    /// The session to which undoing its last rotation returns.
    pub undo_to: Option<String>,
    pub created: Timestamp,
    pub ended: Option<Timestamp>,
}

/// A handoff that is written and not carried out yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PendingView {
    pub since: Timestamp,
    /// The event that ends the wait, in words.
    pub waits_for: String,
}

/// An agent's question in the user's inbox that it waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct QuestionView {
    /// Its id for `baton reply`.
    pub id: String,
    pub text: String,
}

/// One agent's messages in the user's inbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SenderMail {
    /// Messages that the user has not read.
    pub unread: usize,
    /// The newest one that the agent still waits on.
    pub question: Option<Message>,
}

impl SenderMail {
    /// The question that this session waits on.
    pub(crate) fn question_of(&self, session: Option<&Session>) -> Option<&Message> {
        let session = session.filter(|session| session.turn == Turn::Blocked)?;
        self.question.as_ref().filter(|asked| session.blocked_on == Some(notice::beginning(&asked.text)))
    }
}

/// Everything read for one agent.
pub(crate) struct AgentFacts<'a> {
    pub agent: &'a Agent,
    pub session: Option<&'a Session>,
    pub gauge: &'a Gauge,
    pub mail: usize,
    /// Its messages to the user.
    pub sent: Option<&'a SenderMail>,
    pub live: bool,
    pub waiting: Option<&'a WaitingRequest>,
    pub thresholds: Thresholds,
    pub compactions: &'a Observations,
}

impl AgentView {
    pub(crate) fn of(store: &Store, facts: &AgentFacts<'_>) -> Self {
        let AgentFacts { agent, session, gauge, .. } = *facts;
        let presence = store.presence(agent);
        // Look up its actuator, and whether it takes orders, only where that matters.
        let rotatable = agent.rotation.is_some() && presence.actuator().is_some();
        let state = AgentState::of(agent, session, facts.live, rotatable);
        let request = session.and_then(|s| s.request.as_ref()).filter(|_| facts.live);
        let waits_for = request.and(session).and_then(|s| s.pending(presence.is_braked()));
        let question = facts.sent.and_then(|sent| sent.question_of(session)).filter(|_| facts.live);
        let asked = question.map(asks);
        let waiting = facts.waiting.or(asked.as_ref());
        let known = need::Facts { agent, session, state, waiting, pending: waits_for, rotatable };
        let now = Timestamp::now();
        let needs = need(&known, now);
        let reading = gauge.reading;
        let model = gauge.model.as_deref().or(session.and_then(|s| s.model.as_deref()));
        let point = session.zip(reading).map(|(s, reading)| {
            compaction_point(model, reading.window, &s.compaction, s.compacts_at, facts.compactions)
        });
        let limits = point
            .zip(reading)
            .map(|(point, reading)| facts.thresholds.limits_from(reading.base, reading.window, point.end()));
        let left = point.zip(reading).map(|(point, reading)| point.distance(reading.total()));
        let published =
            session.map(|s| checkpoints::faces_cached(store, s, Path::new(&s.cwd))).unwrap_or_default();
        let (goal, doing) = published.own.unwrap_or_default();
        let asked = || session.and_then(|s| s.asked.as_deref()).and_then(one_line);
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Self {
            id: agent.id.to_string(),
            provider: agent.provider.clone(),
            parent: agent.parent.as_ref().map(ToString::to_string),
            channel: agent.channel.to_string(),
            project: project::name(Path::new(&agent.cwd)),
            cwd: agent.cwd.clone(),
            state: state.as_str().to_owned(),
            state_since: since(agent, session, state),
            words: words(agent, session, state, needs.as_ref()),
            needs,
            goal: one_line(&goal),
            now: one_line(&doing).or_else(asked),
            checkpoint: published.persons.and_then(|(goal, now)| match (goal.is_empty(), now.is_empty()) {
                (false, false) => one_line(&format!("{goal} · {now}")),
                _ => one_line(&format!("{goal}{now}")),
            }),
            last_answer: session.and_then(|s| s.answer.as_deref()).and_then(one_line),
            done: session.and_then(|s| s.done.as_ref()).and_then(|done| one_line(&done.text)),
            question: question.map(|question| QuestionView {
                id: short_id(&question.id),
                text: redact(&plain(&question.text)).text.into_owned(),
            }),
            session: agent.session.as_ref().map(ToString::to_string),
            session_since: session.map(|s| s.started),
            transcript_path: session.and_then(|s| s.transcript.clone()),
            model: owned(model),
            level: gauge.level,
            tokens: reading.map(|r| r.tokens),
            tokens_used: reading.map(|r| r.tokens),
            window: reading.map(|r| r.window),
            used_percentage: reading.map(|r| r.percentage()),
            warn_at: limits.map(|limits| limits.warning),
            ask_at: limits.map(|limits| limits.critical),
            compacts_at: point.map(CompactionPoint::end),
            left,
            turns_left: session.zip(left).and_then(|(s, left)| s.turn_ends.turns_left(left)),
            limit_until: session.and_then(Session::parked).map(|parked| parked.until),
            mail: facts.mail,
            unread: facts.sent.map_or(0, |sent| sent.unread),
            last_handoff: agent.last_handoff.as_ref().map(ToString::to_string),
            last_handoff_path: agent.last_handoff_path.clone(),
            pending_handoff_path: session
                .and_then(|s| s.request.as_ref())
                .map(|r| r.path.clone().unwrap_or_else(|| r.copy.clone())),
            pending: request.zip(waits_for).map(|(request, pending)| PendingView {
                since: request.at,
                waits_for: pending.text(&clock(request.at, now), Audience::User),
            }),
            rotation: agent.rotation.as_ref().map(|r| r.handoff.to_string()),
            place: place(agent, session),
            undo_to: agent.before_rotation().map(ToString::to_string),
            created: agent.created,
            ended: agent.ended,
        }
    }

    /// A person is wanted.
    pub(crate) fn needs_person(&self) -> bool {
        self.needs.is_some()
    }
}

/// A question in the user's inbox as a request.
pub(crate) fn asks(question: &Message) -> WaitingRequest {
    let about = one_line(&question.text).unwrap_or_default();
    WaitingRequest { tool: QUESTION.to_owned(), about, at: question.at }
}

fn need(facts: &Facts<'_>, now: Timestamp) -> Option<Need> {
    let mut need = need::need(facts, |at| clock(at, now))?;
    // Errors and dialogs may quote anything.
    need.text = one_line(&need.text).unwrap_or_default();
    Some(need)
}

fn since(agent: &Agent, session: Option<&Session>, state: AgentState) -> Option<Timestamp> {
    if state.is_over() {
        return Some(over_since(agent, session));
    }
    session.map(|s| s.turn_since.unwrap_or(s.started)).or(Some(agent.created))
}

fn words(agent: &Agent, session: Option<&Session>, state: AgentState, need: Option<&Need>) -> String {
    if let Some(need) = need {
        return need.text.clone();
    }
    let died = || {
        let said = agent.ended.is_some() || session.is_some_and(|s| s.ended.is_some());
        !said && agent.process.is_some()
    };
    match state {
        AgentState::Ended if died() => "died".to_owned(),
        _ if session.is_none() && !state.is_over() => "starting".to_owned(),
        AgentState::Working if session.is_some_and(|s| s.request.is_some()) => {
            "working, then hands over".to_owned()
        }
        _ => state.as_str().to_owned(),
    }
}

fn place(agent: &Agent, session: Option<&Session>) -> String {
    if let Some(pane) = &agent.pane {
        return format!("pane {}", pane.id);
    }
    match session {
        Some(session) if session.shared => "shared daemon".to_owned(),
        Some(session) if session.headless => "headless".to_owned(),
        _ if agent.supervisor.is_some() => "terminal, under baton run".to_owned(),
        _ => "terminal".to_owned(),
    }
}

/// A text on one line, without secrets.
fn one_line(text: &str) -> Option<String> {
    let line = plain_line(&redact(&plain(text)).text, LINE);
    (!line.is_empty()).then_some(line)
}

/// Each agent's oldest waiting request.
pub(crate) fn waiting(store: &Store) -> Result<HashMap<AgentId, WaitingRequest>, FileError> {
    let mut waiting: HashMap<AgentId, WaitingRequest> = HashMap::new();
    let approvals = store.approvals();
    for id in approvals.waiting()? {
        // Unreadable or answered ones are reported and closed elsewhere.
        let Ok(Some(case)) = approvals.get(&id) else { continue };
        if case.answer.is_some() {
            continue;
        }
        let request = &case.request;
        let one = WaitingRequest {
            tool: request.tool.clone(),
            about: approvals::summary(request, LINE),
            at: request.at,
        };
        let known = waiting.entry(request.agent.clone()).or_insert_with(|| one.clone());
        if one.at < known.at {
            *known = one;
        }
    }
    Ok(waiting)
}

/// Each sender's messages in the user's inbox.
pub(crate) fn inbox(store: &Store) -> HashMap<String, SenderMail> {
    let mut inbox: HashMap<String, SenderMail> = HashMap::new();
    for (message, state) in Mail::of(store).list(&user::id()) {
        if state != State::Queued && !message.ask {
            continue;
        }
        let sent = inbox.entry(message.from.clone()).or_default();
        sent.unread += usize::from(state == State::Queued);
        if message.ask && sent.question.as_ref().is_none_or(|known| known.at <= message.at) {
            sent.question = Some(message);
        }
    }
    inbox
}

/// Whether an agent ended so long ago that it is listed only on request.
pub(crate) fn is_history(agent: &Agent, session: Option<&Session>, live: bool, now: Timestamp) -> bool {
    !live && now.duration_since(over_since(agent, session)) > LISTED
}

/// The processes that make an agent live.
pub(crate) fn processes(agent: &Agent) -> impl Iterator<Item = &Process> {
    [&agent.process, &agent.supervisor].into_iter().flatten().filter(|_| agent.ended.is_none())
}

/// All agents, read from the files. `thresholds` returns those of a folder.
pub(crate) fn all(
    store: &Store,
    everything: bool,
    mut thresholds: impl FnMut(&Path) -> Thresholds,
) -> Vec<AgentView> {
    let (waiting, inbox) = (waiting(store).unwrap_or_default(), inbox(store));
    let compactions = store.compactions().observations();
    let now = Timestamp::now();
    let view = |agent: Agent| {
        let session = agent.session.as_ref().and_then(|id| store.sessions().readable(id));
        let live = store.presence(&agent).is_there();
        if !everything && is_history(&agent, session.as_ref(), live, now) {
            return None;
        }
        let gauge = session.as_ref().map(|s| store.sessions().gauge(&s.id)).unwrap_or_default();
        let facts = AgentFacts {
            agent: &agent,
            session: session.as_ref(),
            gauge: &gauge,
            mail: Mail::of(store).waiting(&agent.id),
            sent: inbox.get(agent.id.as_str()),
            live,
            waiting: waiting.get(&agent.id),
            thresholds: thresholds(Path::new(&agent.cwd)),
            compactions: &compactions,
        };
        Some(AgentView::of(store, &facts))
    };
    store.agents().all().into_iter().filter_map(view).collect()
}
