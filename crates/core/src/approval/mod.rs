//! Agents' permission requests and questions, their answers, and the outcome.
//!
//! A client shows its own dialog while our hook waits, and the first answer wins. Nothing tells the hook that the
//! person at the terminal was faster, so an answer of ours is only *offered* until a later event of the client shows
//! its effect:
//!
//! ```text
//! waiting ── answer ──▶ offered ── effect ──▶ settled
//!    └────── closed by the client's own events ─────▶ settled
//! ```
//!
//! [`Case::step`] is this machine. Each arrow is taken once: answer and effect are created exclusively, and a late
//! writer learns which came first.

mod answer;
pub mod rules;
mod view;

#[cfg(test)]
mod tests;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ids::{AgentId, SessionId};
use crate::process::Process;

pub use answer::{BadAnswer, Grant, NotARequest, RequestId, answered_by, answers, attributed, granted};
pub use view::{Question, Replacement, View, visible};

/// The tool by which an agent asks its user something.
pub const QUESTION: &str = "AskUserQuestion";
/// The tool by which an agent submits a plan. Its dialog does not close on a plain allow, only on one that repeats the
/// plan as the tool's input.
pub const PLAN: &str = "ExitPlanMode";

/// The tool by which an agent changes files with a patch, which names them.
pub(crate) const PATCH: &str = "apply_patch";

/// An agent's request. Immutable: its id is the hash of its record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    pub at: Timestamp,
    pub agent: AgentId,
    pub session: SessionId,
    pub provider: String,
    pub cwd: String,
    /// The subagent that asked, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subagent: Option<String>,
    pub tool: String,
    pub input: Value,
    /// The permissions that the client's dialog suggests beyond a plain yes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suggestions: Vec<Value>,
    /// The hook that waits, and until when. Without one, only the client's dialog can answer.
    #[serde(default)]
    pub hook: Option<Process>,
    #[serde(default)]
    pub deadline: Option<Timestamp>,
}

/// Who decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "kind", content = "name")]
pub enum AnswerAuthor {
    User,
    /// An agent that the user appointed as approver.
    Agent(AgentId),
    /// One of the user's rules, as written.
    Rule(String),
    /// The person at the client, or the client itself.
    Client,
}

impl AnswerAuthor {
    pub fn name(&self) -> String {
        match self {
            Self::User => "user".to_owned(),
            Self::Agent(agent) => agent.to_string(),
            Self::Rule(rule) => format!("rule {rule}"),
            Self::Client => "client".to_owned(),
        }
    }
}

/// Where an answer came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Door {
    Cli,
    /// The full-screen view that goes through the requests one by one.
    Screen,
    /// The daemon's socket.
    Socket,
    /// The daemon's port: the page, or a program with the token.
    Page,
    Rule,
    /// The client's own dialog, or its end.
    Terminal,
}

impl Door {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cli => "cli",
            Self::Screen => "screen",
            Self::Socket => "socket",
            Self::Page => "page",
            Self::Rule => "rule",
            Self::Terminal => "terminal",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "verdict")]
pub enum Verdict {
    Allow {
        /// Replaces the tool's input.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input: Option<Value>,
        /// Permissions that the client gives from now on, in its own form.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        permissions: Vec<Value>,
    },
    Deny {
        reason: String,
    },
    /// No answer here; we tell the client nothing and its dialog decides.
    Closed {
        because: Closing,
    },
}

/// Why a request stopped waiting without an answer of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Closing {
    /// The tool ran, so it was allowed in the client's dialog.
    AnsweredAtTerminal,
    TurnEnded,
    /// A new prompt means that the dialog is gone.
    NewPrompt,
    SessionEnded,
    ClientGone,
    /// The client ended the hook because the dialog was denied or left with Esc.
    Dismissed,
    /// The hook that waited was killed.
    HookGone,
    Deadline,
    /// baton was uninstalled, or the request was handed back to the dialog.
    Withdrawn,
}

impl Closing {
    pub fn text(self) -> &'static str {
        match self {
            Self::AnsweredAtTerminal => "answered at the terminal",
            Self::TurnEnded => "its turn ended",
            Self::NewPrompt => "a new prompt came",
            Self::SessionEnded => "its session ended",
            Self::ClientGone => "its client is gone",
            Self::Dismissed => "refused or closed at the terminal",
            Self::HookGone => "its hook was killed",
            Self::Deadline => "nobody answered in time; it waits in its terminal",
            Self::Withdrawn => "withdrawn; it waits in its terminal",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    pub at: Timestamp,
    pub author: AnswerAuthor,
    pub door: Door,
    #[serde(flatten)]
    pub verdict: Verdict,
}

impl Answer {
    pub fn closed(because: Closing, at: Timestamp) -> Self {
        Self { at, author: AnswerAuthor::Client, door: Door::Terminal, verdict: Verdict::Closed { because } }
    }
}

impl Answer {
    /// The reason as the agent reads it: verbatim from the user, attributed if from another agent.
    pub fn words(&self, reason: &str) -> String {
        match &self.author {
            AnswerAuthor::Agent(agent) => {
                format!("Denied by {agent}, an agent that approves for the user. It says: {reason}")
            }
            _ => reason.to_owned(),
        }
    }
}

/// The client's reaction, as its later events show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClientReaction {
    /// The tool ran, successfully or not.
    Ran,
    /// The turn ended without the tool having run.
    DidNotRun,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settlement {
    pub at: Timestamp,
    pub effect: ClientReaction,
}

/// A request with its answer and outcome so far.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    pub id: RequestId,
    pub request: Request,
    pub answer: Option<Answer>,
    pub outcome: Option<Settlement>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CaseState {
    Waiting,
    /// An answer is on its way to the client; no event has confirmed it yet.
    Offered,
    Allowed,
    Denied,
    /// Another answer was faster.
    TooLate,
    Closed,
}

impl CaseState {
    pub fn text(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Offered => "offered",
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::TooLate => "too late",
            Self::Closed => "closed",
        }
    }
}

/// An input to [`Case::step`].
#[derive(Debug, Clone, PartialEq)]
pub enum CaseInput {
    Answer(Answer),
    /// A tool of the session has run.
    ToolRan {
        tool: String,
        input: Value,
        at: Timestamp,
    },
    /// Nothing that the session asked for can wait any longer.
    Ended {
        because: Closing,
        at: Timestamp,
    },
}

/// Records to create, unless they exist already.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Writes {
    pub answer: Option<Answer>,
    pub outcome: Option<Settlement>,
}

impl Case {
    pub fn state(&self) -> CaseState {
        let effect = self.outcome.as_ref().map(|outcome| outcome.effect);
        match (self.answer.as_ref().map(|a| &a.verdict), effect) {
            (None, _) => CaseState::Waiting,
            (Some(Verdict::Closed { .. }), _) => CaseState::Closed,
            (Some(_), None) => CaseState::Offered,
            (Some(Verdict::Allow { .. }), Some(ClientReaction::Ran)) => CaseState::Allowed,
            (Some(Verdict::Deny { .. }), Some(ClientReaction::DidNotRun)) => CaseState::Denied,
            (Some(Verdict::Allow { .. }), Some(ClientReaction::DidNotRun))
            | (Some(Verdict::Deny { .. }), Some(ClientReaction::Ran)) => CaseState::TooLate,
        }
    }

    /// The writes that `input` calls for.
    pub fn step(&self, input: &CaseInput) -> Writes {
        match (input, &self.answer) {
            (CaseInput::Answer(answer), None) => Writes { answer: Some(answer.clone()), outcome: None },
            (CaseInput::ToolRan { tool, input, at }, answer) if self.is_about(tool, input) => Writes {
                answer: answer.is_none().then(|| Answer::closed(Closing::AnsweredAtTerminal, *at)),
                outcome: self
                    .outcome
                    .is_none()
                    .then_some(Settlement { at: *at, effect: ClientReaction::Ran }),
            },
            (CaseInput::Ended { because, at }, None) => {
                Writes { answer: Some(Answer::closed(*because, *at)), outcome: None }
            }
            // A prompt may be queued while an allowed tool still runs; only the end of the turn proves that it never
            // ran.
            (CaseInput::Ended { because, at }, Some(answer))
                if *because != Closing::NewPrompt && !matches!(answer.verdict, Verdict::Closed { .. }) =>
            {
                let outcome = Settlement { at: *at, effect: ClientReaction::DidNotRun };
                Writes { answer: None, outcome: self.outcome.is_none().then_some(outcome) }
            }
            _ => Writes::default(),
        }
    }

    /// Whether a tool that ran is the requested one. The client may have added fields (answers, defaults), and our
    /// answer may have replaced the input.
    pub(crate) fn is_about(&self, tool: &str, input: &Value) -> bool {
        // The client does not repeat the plan, and a session has only one at a time.
        if tool == PLAN && self.request.tool == PLAN {
            return true;
        }
        let replaced = self.answer.as_ref().and_then(|answer| match &answer.verdict {
            Verdict::Allow { input, .. } => input.as_ref(),
            _ => None,
        });
        let is_within = |asked: &Value| match (asked, input) {
            (Value::Object(asked), Value::Object(ran)) => {
                // A description only explains the call, and not every client repeats it.
                asked.iter().all(|(name, value)| name == "description" || ran.get(name) == Some(value))
            }
            (asked, ran) => asked == ran,
        };
        tool == self.request.tool && (is_within(&self.request.input) || replaced.is_some_and(is_within))
    }
}

/// The case that a tool run settles. If several asked for the same, take the one whose answer was offered first, else
/// the oldest.
pub fn settled_by<'a>(cases: &'a [Case], tool: &str, input: &Value) -> Option<&'a Case> {
    let open = cases.iter().filter(|case| case.outcome.is_none() && case.is_about(tool, input));
    open.min_by_key(|case| {
        let rank = match case.answer.as_ref().map(|answer| &answer.verdict) {
            Some(Verdict::Allow { .. }) => 0,
            None => 1,
            Some(Verdict::Closed { .. }) => 2,
            Some(Verdict::Deny { .. }) => 3,
        };
        (rank, case.request.at)
    })
}
