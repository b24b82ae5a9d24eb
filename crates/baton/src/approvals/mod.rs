//! Permission requests and questions of all agents, answered in one place.
//!
//! `ask` is the hook's side: record, rules, wait. `settle` handles the client's later events. This module has what
//! every interface shares: who may answer, and the one way to do it.

pub(crate) mod ask;
pub(crate) mod settle;

use std::collections::BTreeSet;
use std::path::Path;

use baton_core::agent::Agent;
use baton_core::approval::rules::is_wider;
use baton_core::approval::{
    Answer, AnswerAuthor, BadAnswer, Case, Closing, Door, Grant, PLAN, QUESTION, Request, RequestId, Verdict,
    answers, attributed, granted,
};
use baton_core::ids::AgentId;
use baton_core::redact::redact;
use baton_core::session::Turn;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use crate::providers;
use crate::sessions::caller::Caller;
use crate::store::Store;
use crate::store::approvals::ApprovalError;
use crate::store::log::LogLine;
use crate::sys::fs::FileError;
use crate::sys::paths::Paths;
use crate::sys::process;

/// The answer to a request.
#[derive(Debug, Clone, PartialEq)]
pub enum ApprovalReply {
    Approve {
        grant: Grant,
        input: Option<Value>,
    },
    Deny {
        reason: String,
    },
    /// One answer for each question.
    Answer(Vec<String>),
}

/// Why a request could not be answered.
#[derive(Debug, thiserror::Error)]
pub enum ApprovalRefusal {
    #[error("no request {0:?} waits; `baton approvals` lists what does")]
    Unknown(String),
    #[error(
        "{id:?} is too short for an id; write at least {least} characters of it, as `baton approvals` shows it",
        least = RequestId::LEAST
    )]
    TooShort { id: String },
    #[error("{0:?} matches several ids; write more of it")]
    Ambiguous(String),
    #[error("only the user may answer for {agent}, and you are {caller}; the user can make you its approver")]
    NotYours { agent: AgentId, caller: AgentId },
    #[error(
        "only the user may answer for {0}, and it could not be determined who runs this command; `baton log` says why"
    )]
    UnknownCaller(AgentId),
    #[error("{agent} runs with more rights than {caller}, which leads it; only the user may answer for it")]
    MoreRights { agent: AgentId, caller: AgentId },
    #[error("no agent answers for itself")]
    Oneself,
    #[error("an approver may only allow a request once and unchanged; the user decides the rest")]
    OnlyOnce,
    #[error(
        "the request under this id is not the one that you were shown; look again with `baton approvals`"
    )]
    Changed,
    #[error("{} of {} was already answered: {}", .id.short(), .agent, said(.answer))]
    Answered { id: RequestId, agent: AgentId, answer: Box<Answer> },
    #[error("{0} takes a yes or a no, nothing else; answer the rest at its terminal")]
    Unsupported(&'static str),
    #[error("this is a question; `baton answer {0} CHOICE` answers it, `baton deny {0} REASON` refuses it")]
    IsQuestion(String),
    #[error("the client did not report the plan; `baton attach {0}` shows it, `baton deny` refuses it")]
    IsPlan(AgentId),
    #[error("a denial needs a reason: the agent reads it")]
    NoReason,
    #[error(transparent)]
    Bad(#[from] BadAnswer),
    #[error(transparent)]
    Store(#[from] ApprovalError),
    #[error(transparent)]
    File(#[from] FileError),
}

/// An answer in a few words.
pub(crate) fn said(answer: &Answer) -> String {
    let verdict = match &answer.verdict {
        Verdict::Allow { .. } => "allowed".to_owned(),
        Verdict::Deny { .. } => "denied".to_owned(),
        Verdict::Closed { because } => return because.text().to_owned(),
    };
    format!("{verdict} by {} ({})", answer.author.name(), answer.door.as_str())
}

/// All waiting requests, oldest first. Closes those that nobody waits for any more.
pub fn waiting(store: &Store, now: Timestamp) -> Result<Vec<Case>, FileError> {
    let approvals = store.approvals();
    let mut cases = Vec::new();
    for id in approvals.waiting()? {
        match approvals.get(&id) {
            Ok(Some(case)) if case.answer.is_none() => {
                if case.request.hook.as_ref().is_some_and(|hook| !process::is_alive(hook)) {
                    approvals.answer(&id, &Answer::closed(Closing::HookGone, now))?;
                    approvals.finish(&id)?;
                } else {
                    cases.push(case);
                }
            }
            // Its hook is about to move it, or died before it could.
            Ok(Some(case)) => {
                if case.request.hook.as_ref().is_none_or(|hook| !process::is_alive(hook)) {
                    approvals.finish(&id)?;
                }
            }
            Ok(None) => {}
            // An unreadable one must not hide the others.
            Err(e) => store.log().fault(now, "read a permission request", &e),
        }
    }
    cases.sort_by(|a, b| a.request.at.cmp(&b.request.at).then_with(|| a.id.cmp(&b.id)));
    Ok(cases)
}

/// An agent at a dialog that can only be answered in its terminal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Dialog {
    pub agent: AgentId,
    #[serde(rename = "at")]
    pub since: Option<Timestamp>,
    pub cwd: String,
    /// Its subject, redacted, as far as its hook reported it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    state: &'static str,
}

/// Blocked agents whose hook does not wait, so that nobody else can answer.
pub(crate) fn at_terminals(store: &Store, waiting: &[Case]) -> Vec<Dialog> {
    let blocked = |agent: &Agent| {
        let session = store.sessions().readable(agent.session.as_ref()?)?;
        let waits_here = waiting.iter().any(|case| case.request.session == session.id);
        let is_blocked = session.turn == Turn::Blocked && !waits_here && store.presence(agent).is_there();
        is_blocked.then(|| Dialog {
            agent: agent.id.clone(),
            since: session.turn_since,
            cwd: session.cwd.clone(),
            about: session.blocked_on.clone(),
            state: "at-terminal",
        })
    };
    store.agents().all().iter().filter_map(blocked).collect()
}

/// The latest closed requests, newest first.
pub(crate) fn past(store: &Store, count: usize) -> Result<Vec<Case>, FileError> {
    let approvals = store.approvals();
    let mut cases = Vec::new();
    for id in approvals.done()? {
        match approvals.get(&id) {
            Ok(Some(case)) => cases.push(case),
            Ok(None) => {}
            Err(e) => store.log().fault(Timestamp::now(), "read a permission request", &e),
        }
    }
    cases.sort_by(|a, b| b.request.at.cmp(&a.request.at).then_with(|| a.id.cmp(&b.id)));
    cases.truncate(count);
    Ok(cases)
}

/// The request with this id, or with an id that begins like this.
pub(crate) fn find(store: &Store, text: &str, now: Timestamp) -> Result<Case, ApprovalRefusal> {
    let text = text.to_ascii_lowercase();
    let is_id = !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
    if is_id && text.len() < RequestId::LEAST {
        return Err(ApprovalRefusal::TooShort { id: text });
    }
    let is_named = |id: &RequestId| id.is_meant_by(&text);
    let mut waiting = waiting(store, now)?;
    waiting.retain(|case| is_named(&case.id));
    match waiting.len() {
        1 => return Ok(waiting.remove(0)),
        0 => {}
        _ => return Err(ApprovalRefusal::Ambiguous(text)),
    }
    let mut done: Vec<RequestId> = store.approvals().done()?.into_iter().filter(is_named).collect();
    match (done.pop(), done.is_empty()) {
        (Some(id), true) => store.approvals().get(&id)?.ok_or(ApprovalRefusal::Unknown(text)),
        (Some(_), false) => Err(ApprovalRefusal::Ambiguous(text)),
        (None, _) => Err(ApprovalRefusal::Unknown(text)),
    }
}

/// Whether `caller` may answer for the agent of this request.
pub(crate) fn may_answer(
    store: &Store,
    caller: &Caller,
    request: &Request,
) -> Result<AnswerAuthor, ApprovalRefusal> {
    let caller = match caller {
        Caller::User => return Ok(AnswerAuthor::User),
        Caller::Agent(caller) => caller,
        Caller::Unknown => return Err(ApprovalRefusal::UnknownCaller(request.agent.clone())),
    };
    if *caller == request.agent {
        return Err(ApprovalRefusal::Oneself);
    }
    let agent: Option<Agent> = store.agents().get(&request.agent)?;
    let is_approver = |agent: &Agent| agent.approver.as_ref() == Some(caller);
    let Some(agent) = agent.filter(is_approver) else {
        return Err(ApprovalRefusal::NotYours { agent: request.agent.clone(), caller: caller.clone() });
    };
    // An ancestor could have started the agent with more rights than its own and would then approve everything else.
    if ask::ancestors(store, &agent.id).contains(caller) && has_more_rights(store, &agent, caller)? {
        return Err(ApprovalRefusal::MoreRights { agent: agent.id, caller: caller.clone() });
    }
    Ok(AnswerAuthor::Agent(caller.clone()))
}

/// Whether an agent's client asks its user less than the other one's.
fn has_more_rights(store: &Store, agent: &Agent, than: &AgentId) -> Result<bool, FileError> {
    let mode = |agent: Option<&Agent>| -> Result<Option<String>, FileError> {
        let Some(session) = agent.and_then(|agent| agent.session.as_ref()) else { return Ok(None) };
        Ok(store.sessions().get(session)?.and_then(|session| session.permission_mode))
    };
    let than = store.agents().get(than)?;
    Ok(is_wider(mode(Some(agent))?.as_deref(), mode(than.as_ref())?.as_deref()))
}

/// The verdict for the client, if this reply is possible.
fn verdict(case: &Case, author: &AnswerAuthor, reply: &ApprovalReply) -> Result<Verdict, ApprovalRefusal> {
    let request = &case.request;
    let provider = providers::of(&request.provider);
    let is_question = request.tool == QUESTION;
    match reply {
        ApprovalReply::Deny { reason } if reason.trim().is_empty() => Err(ApprovalRefusal::NoReason),
        ApprovalReply::Deny { reason } => Ok(Verdict::Deny { reason: reason.clone() }),
        ApprovalReply::Approve { .. } if is_question => {
            Err(ApprovalRefusal::IsQuestion(case.id.short().to_owned()))
        }
        ApprovalReply::Approve { .. } if request.is_unseen_plan() => {
            Err(ApprovalRefusal::IsPlan(request.agent.clone()))
        }
        // This dialog closes only on an answer that repeats the plan.
        ApprovalReply::Approve { grant: Grant::Once, input }
            if request.tool == PLAN && provider.hooks.takes_changes =>
        {
            if input.is_some() && matches!(author, AnswerAuthor::Agent(_)) {
                return Err(ApprovalRefusal::OnlyOnce);
            }
            let input = input.clone().unwrap_or_else(|| request.input.clone());
            Ok(Verdict::Allow { input: Some(input), permissions: Vec::new() })
        }
        ApprovalReply::Approve { grant, input } => {
            let is_plain = *grant == Grant::Once && input.is_none();
            if !is_plain && matches!(author, AnswerAuthor::Agent(_)) {
                return Err(ApprovalRefusal::OnlyOnce);
            }
            if !is_plain && !provider.hooks.takes_changes {
                return Err(ApprovalRefusal::Unsupported(provider.title));
            }
            Ok(Verdict::Allow { input: input.clone(), permissions: granted(request, *grant)? })
        }
        ApprovalReply::Answer(given) => {
            let input = answers(request, given)?;
            let input = match author {
                AnswerAuthor::Agent(agent) => attributed(input, agent),
                _ => input,
            };
            Ok(Verdict::Allow { input: Some(input), permissions: Vec::new() })
        }
    }
}

/// Answers a request, or says why not. Every interface goes through here.
///
/// `seen` is the id of the request that was shown in full, if the interface knows it.
pub fn answer(
    store: &Store,
    case: &Case,
    seen: Option<&str>,
    caller: &Caller,
    door: Door,
    reply: &ApprovalReply,
    now: Timestamp,
) -> Result<Answer, ApprovalRefusal> {
    if seen.is_some_and(|seen| seen != case.id.as_str()) {
        return Err(ApprovalRefusal::Changed);
    }
    let author = may_answer(store, caller, &case.request)?;
    let answered = |answer: Answer| ApprovalRefusal::Answered {
        id: case.id.clone(),
        agent: case.request.agent.clone(),
        answer: Box::new(answer),
    };
    if let Some(answer) = &case.answer {
        return Err(answered(answer.clone()));
    }
    let verdict = verdict(case, &author, reply)?;
    let answer = Answer { at: now, author, door, verdict };
    if store.approvals().answer(&case.id, &answer)? {
        log(store, case, "approval-answered", json!({ "answer": said(&answer), "door": door.as_str() }), now);
        return Ok(answer);
    }
    match store.approvals().answer_of(&case.id)? {
        Some(first) => Err(answered(first)),
        None => Err(ApprovalRefusal::Unknown(case.id.short().to_owned())),
    }
}

/// A request as JSON for programs.
pub(crate) fn row(paths: &Paths, case: &Case) -> Value {
    let mut row = json!(case.request);
    row["asks_for"] = json!(case.request.asks_for());
    row["folder"] = json!(paths.short(Path::new(&case.request.cwd)));
    row["id"] = json!(case.id);
    row["short"] = json!(case.id.short());
    row["state"] = json!(case.state());
    row["questions"] = json!(case.request.questions());
    if let Some(answer) = &case.answer {
        row["answer"] = json!(answer);
        row["wait_seconds"] = json!(answer.at.duration_since(case.request.at).as_secs());
    }
    if let Some(outcome) = &case.outcome {
        row["outcome"] = json!(outcome);
    }
    row
}

/// Closes all waiting requests: their hooks end without an answer.
pub(crate) fn withdraw_all(store: &Store, now: Timestamp) -> Result<usize, FileError> {
    let mut count = 0;
    for case in waiting(store, now)? {
        count += usize::from(store.approvals().answer(&case.id, &Answer::closed(Closing::Withdrawn, now))?);
    }
    Ok(count)
}

/// Whether the client hides its dialog while this request waits. Each client of a shared server shows its own.
fn is_hidden(store: &Store, case: &Case) -> bool {
    let is_shared = || store.sessions().readable(&case.request.session).is_some_and(|s| s.shared);
    !providers::of(&case.request.provider).hooks.dialog_stays && !is_shared()
}

/// Agents whose own dialog is held up by a hook of ours.
pub(crate) fn hidden(store: &Store, now: Timestamp) -> Result<BTreeSet<AgentId>, FileError> {
    let waiting = waiting(store, now)?;
    Ok(waiting.into_iter().filter(|case| is_hidden(store, case)).map(|case| case.request.agent).collect())
}

/// Returns an agent's requests to its own dialog, if our hook has held that up.
pub(crate) fn hand_back(store: &Store, agent: &AgentId, now: Timestamp) -> Result<(), FileError> {
    for case in waiting(store, now)? {
        if case.request.agent == *agent && is_hidden(store, &case) {
            store.approvals().answer(&case.id, &Answer::closed(Closing::Withdrawn, now))?;
        }
    }
    Ok(())
}

/// Logs one line about a request, with its subject redacted.
fn log(store: &Store, case: &Case, event: &str, mut detail: Value, now: Timestamp) {
    let request = &case.request;
    detail["id"] = json!(case.id.short());
    detail["tool"] = json!(request.tool);
    detail["about"] = json!(summary(request, 200));
    let line = LogLine {
        session: Some(request.session.clone()),
        agent: Some(request.agent.clone()),
        detail,
        ..LogLine::new(now, event)
    };
    store.log().append(&line);
}

/// A request's subject on one line for logs and notifications: redacted and cut.
pub(crate) fn summary(request: &Request, width: usize) -> String {
    // Far more than is shown, and far less than an input may contain.
    const ENOUGH: usize = 4_000;
    let subject: String = request.subject().chars().take(ENOUGH).collect();
    let plain = baton_core::plain::plain(&subject);
    baton_core::plain::plain_line(&redact(&plain).text, width)
}
