//! `GET /approvals`: the waiting requests. `POST /approvals/{id}`: an answer; the first one wins.

use std::sync::Arc;

use baton_core::approval::{Door, Grant};
use hyper::StatusCode;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::approvals::{self, ApprovalRefusal};
use crate::daemon::Daemon;
use crate::daemon::api::{ApiRequest, HttpReply, blocking, failed, parse, unprocessable};
use crate::daemon::auth;

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Word {
    Allow,
    Deny,
    Answer,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswerBody {
    /// The id of the request that was shown.
    hash: String,
    verdict: Word,
    #[serde(default)]
    grant: Grant,
    #[serde(default)]
    input: Option<Value>,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    answers: Vec<String>,
}

impl AnswerBody {
    fn reply(self) -> approvals::ApprovalReply {
        match self.verdict {
            Word::Allow => approvals::ApprovalReply::Approve { grant: self.grant, input: self.input },
            Word::Deny => approvals::ApprovalReply::Deny { reason: self.reason },
            Word::Answer => approvals::ApprovalReply::Answer(self.answers),
        }
    }
}

pub(crate) async fn list(daemon: &Arc<Daemon>, request: ApiRequest) -> HttpReply {
    blocking(daemon, move |daemon| match approvals::waiting(&daemon.store, Timestamp::now()) {
        Ok(cases) => HttpReply::ok(&request.shown_to_caller(json!({
            "approvals": cases.iter().map(|case| approvals::row(&daemon.paths, case)).collect::<Vec<_>>(),
            "at_terminals": approvals::at_terminals(&daemon.store, &cases),
        }))),
        Err(e) => failed(&e),
    })
    .await
}

pub(crate) async fn answer(daemon: &Arc<Daemon>, request: ApiRequest) -> HttpReply {
    let verdict: AnswerBody = match parse(&request) {
        Ok(verdict) => verdict,
        Err(reply) => return reply,
    };
    if verdict.input.as_ref().is_some_and(|input| !input.is_object()) {
        return unprocessable("`input` is an object");
    }
    blocking(daemon, move |daemon| {
        let (store, now) = (&daemon.store, Timestamp::now());
        let door = match request.door {
            auth::Transport::Unix { .. } => Door::Socket,
            auth::Transport::Http { .. } => Door::Page,
        };
        let (seen, caller) = (verdict.hash.clone(), request.caller(store));
        let given = approvals::find(store, &request.id, now).and_then(|mut case| {
            let reply = verdict.reply();
            let answer = approvals::answer(store, &case, Some(&seen), &caller, door, &reply, now)?;
            case.answer = Some(answer);
            Ok(case)
        });
        match given {
            Ok(case) => HttpReply::ok(&request.shown_to_caller(approvals::row(&daemon.paths, &case))),
            Err(e) => HttpReply::error(status(&e), &e.to_string()),
        }
    })
    .await
}

fn status(refusal: &ApprovalRefusal) -> StatusCode {
    match refusal {
        ApprovalRefusal::Unknown(_) | ApprovalRefusal::TooShort { .. } => StatusCode::NOT_FOUND,
        ApprovalRefusal::NotYours { .. }
        | ApprovalRefusal::MoreRights { .. }
        | ApprovalRefusal::UnknownCaller(_)
        | ApprovalRefusal::Oneself
        | ApprovalRefusal::OnlyOnce => StatusCode::FORBIDDEN,
        ApprovalRefusal::Changed | ApprovalRefusal::Answered { .. } => StatusCode::CONFLICT,
        ApprovalRefusal::Ambiguous(_)
        | ApprovalRefusal::Unsupported(_)
        | ApprovalRefusal::IsQuestion(_)
        | ApprovalRefusal::IsPlan(_)
        | ApprovalRefusal::NoReason
        | ApprovalRefusal::Bad(_) => StatusCode::UNPROCESSABLE_ENTITY,
        ApprovalRefusal::Store(_) | ApprovalRefusal::File(_) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
