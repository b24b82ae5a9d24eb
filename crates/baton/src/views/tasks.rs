//! The tasks of the last days: each agent's chain of contexts, how long each lived and how it ended.

use baton_core::agent::{Agent, AgentState};
use baton_core::ids::SessionId;
use baton_core::session::Session;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::store::Store;
use crate::store::handoffs::Handoffs;
use crate::views::agent::AgentView;

/// How many sessions of one task are shown, newest first.
const MAX_CONTEXTS: usize = 200;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct TasksView {
    pub since: Timestamp,
    /// The most recently active one first.
    pub tasks: Vec<TaskView>,
    /// How many more there are than shown.
    pub left_out: usize,
}

/// One chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct TaskView {
    pub agent: String,
    pub project: String,
    /// Its subject: the agent's goal, or its last request.
    pub about: Option<String>,
    pub words: String,
    pub contexts: Vec<ContextView>,
    pub handoffs: Vec<TaskHandoffView>,
    pub last: Timestamp,
}

/// A stretch of the chain: one session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ContextView {
    pub session: String,
    pub from: Timestamp,
    /// `None` while it lasts.
    pub to: Option<Timestamp>,
    pub end: ContextEnd,
    pub tokens: Option<u64>,
    /// The handoff that it began with.
    pub continues: Option<String>,
}

/// How a context ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ContextEnd {
    /// It is the present one.
    Running,
    /// A fresh context began with its handoff.
    Rotated,
    /// The agent continued without its handoff.
    Left,
    Ended,
    /// Its client died.
    Crashed,
}

impl ContextEnd {
    pub(crate) const ALL: [&str; 5] = ["running", "rotated", "left", "ended", "crashed"];
}

/// A handoff of the chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct TaskHandoffView {
    pub id: String,
    pub session: String,
    pub at: Timestamp,
    #[serde(rename = "type")]
    pub kind: String,
    pub wrote: bool,
}

/// The task of `agent`; `None` if it has had no session since then.
pub(crate) fn of(
    store: &Store,
    handoffs: &Handoffs,
    agent: &Agent,
    view: &AgentView,
    since: Timestamp,
) -> Option<TaskView> {
    let skipped = agent.sessions.len().saturating_sub(MAX_CONTEXTS);
    let known = |id: &SessionId| store.sessions().readable(id);
    let sessions: Vec<Session> = agent.sessions.iter().skip(skipped).filter_map(known).collect();
    let mut contexts = Vec::with_capacity(sessions.len());
    for (n, session) in sessions.iter().enumerate() {
        let next = sessions.get(n + 1);
        let (to, end) = how_it_ended(session, next, view);
        if to.is_some_and(|to| to < since) {
            continue;
        }
        contexts.push(ContextView {
            session: session.id.to_string(),
            from: session.started,
            to,
            end,
            tokens: store.sessions().gauge(&session.id).reading.map(|r| r.tokens),
            continues: session.continues.as_ref().map(ToString::to_string),
        });
    }
    let last = contexts.iter().map(|c| c.to.unwrap_or_else(|| view.state_since.unwrap_or(c.from))).max()?;
    Some(TaskView {
        agent: agent.id.to_string(),
        project: view.project.clone(),
        about: view.goal.clone().or_else(|| view.now.clone()),
        words: view.words.clone(),
        handoffs: sealed(handoffs, agent, sessions.last(), since),
        contexts,
        last,
    })
}

fn how_it_ended(
    session: &Session,
    next: Option<&Session>,
    view: &AgentView,
) -> (Option<Timestamp>, ContextEnd) {
    if let Some(next) = next {
        let to = session.ended.as_ref().map_or(next.started, |ended| ended.at.min(next.started));
        let end = if next.continues.is_some() { ContextEnd::Rotated } else { ContextEnd::Left };
        return (Some(to), end);
    }
    let is_over = [AgentState::Ended, AgentState::Retired].iter().any(|state| view.state == state.as_str());
    match &session.ended {
        Some(ended) => (Some(ended.at), ContextEnd::Ended),
        None if is_over && view.words == "died" => (view.state_since, ContextEnd::Crashed),
        None if is_over => (view.state_since, ContextEnd::Ended),
        None => (None, ContextEnd::Running),
    }
}

/// The newest handoff and all that it lists.
fn sealed(
    handoffs: &Handoffs,
    agent: &Agent,
    present: Option<&Session>,
    since: Timestamp,
) -> Vec<TaskHandoffView> {
    let newest = agent.last_handoff.clone().or_else(|| present.and_then(|session| session.continues.clone()));
    let Some(id) = newest else { return Vec::new() };
    // If it is gone or damaged, the chain of sessions remains.
    let Some(last) = handoffs.carried(&id).unwrap_or(None) else { return Vec::new() };
    let mut found: Vec<TaskHandoffView> = last
        .ledger
        .hops
        .iter()
        .map(|hop| TaskHandoffView {
            id: hop.handoff.clone(),
            session: hop.session.clone(),
            at: hop.at,
            kind: hop.kind.clone(),
            wrote: hop.wrote,
        })
        .collect();
    found.push(TaskHandoffView {
        id: id.to_string(),
        session: last.from.session.clone(),
        at: last.from.at,
        kind: last.from.kind.as_str().to_owned(),
        wrote: last.wrote,
    });
    found.retain(|handoff| handoff.at >= since);
    found
}
