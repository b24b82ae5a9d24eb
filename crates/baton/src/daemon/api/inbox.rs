//! `GET /sessions/{id}/messages`: an agent's messages and their states. `GET /inbox`: the user's own, which `POST
//! /inbox/{id}/reply` answers and `POST /inbox/{id}/read` marks as read.

use std::sync::Arc;

use baton_core::ids::AgentId;
use baton_core::message::Message;
use hyper::StatusCode;
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::IntoDeserializer as _;
use serde::de::value::{Error, StrDeserializer};
use serde_json::{Value, json};

use crate::daemon::Daemon;
use crate::daemon::api::{ApiRequest, HttpReply, blocking, parse, query, resolve, unprocessable};
use crate::mail::maildir::{Mail, SendError, State};
use crate::mail::reply::{self, ReplyRefusal};
use crate::mail::{remind, user};
use crate::views::mail::row;

/// At most this many of the newest; `?limit=` asks for fewer.
const MAX_MESSAGES: usize = 200;
/// Bytes of text in one answer. Long messages mean fewer of them, but always at least one.
const MAX_TEXT: usize = 4 << 20;

pub(crate) async fn list(daemon: &Arc<Daemon>, request: ApiRequest) -> HttpReply {
    let agent = match resolve(daemon, &request.id) {
        Ok(agent) => agent,
        Err(reply) => return reply,
    };
    let limit = match query(&request.query, "limit").map(str::parse::<usize>).transpose() {
        Ok(limit) => limit.unwrap_or(MAX_MESSAGES).min(MAX_MESSAGES),
        Err(_) => return unprocessable("`limit` is a number"),
    };
    let Ok(state) = query(&request.query, "state").map(state).transpose() else {
        return unprocessable("`state` is queued, delivered, expired or failed");
    };
    blocking(daemon, move |daemon| newest(daemon, &request, &agent, limit, state)).await
}

/// The user's own inbox.
pub(crate) async fn own(daemon: &Arc<Daemon>, request: ApiRequest) -> HttpReply {
    blocking(daemon, move |daemon| {
        // Nothing else may have sent due reminders, so send them here.
        remind::fire(&daemon.store, Some(&user::id()), Timestamp::now());
        newest(daemon, &request, &user::id(), MAX_MESSAGES, None)
    })
    .await
}

pub(crate) async fn reply(daemon: &Arc<Daemon>, request: ApiRequest) -> HttpReply {
    #[derive(Deserialize)]
    struct Answer {
        text: String,
    }
    let answer: Answer = match parse(&request) {
        Ok(answer) => answer,
        Err(reply) => return reply,
    };
    blocking(daemon, move |daemon| {
        if let Some(refused) = not_the_user(daemon, &request) {
            return refused;
        }
        let (own, now) = (user::id(), Timestamp::now());
        match reply::reply(&daemon.store, &own, user::NAME, &request.id, &answer.text, now) {
            Ok(sent) => HttpReply::ok(&json!({ "id": sent.id, "to": sent.to, "reply_to": sent.reply_to })),
            Err(e) => HttpReply::error(status(&e), &e.to_string()),
        }
    })
    .await
}

pub(crate) async fn read(daemon: &Arc<Daemon>, request: ApiRequest) -> HttpReply {
    blocking(daemon, move |daemon| {
        if let Some(refused) = not_the_user(daemon, &request) {
            return refused;
        }
        let mail = Mail::of(&daemon.store);
        match reply::find(&mail, &user::id(), &request.id) {
            Ok(message) => {
                mail.seen(&user::id(), &message.id, "read by the user", Timestamp::now());
                HttpReply::ok(&json!({ "id": message.id }))
            }
            Err(e) => HttpReply::error(status(&e), &e.to_string()),
        }
    })
    .await
}

/// An agent neither reads nor answers for the user.
fn not_the_user(daemon: &Daemon, request: &ApiRequest) -> Option<HttpReply> {
    let why = request.caller(&daemon.store).not_the_user("answer what is in this inbox")?;
    Some(HttpReply::error(StatusCode::FORBIDDEN, &why))
}

fn status(refusal: &ReplyRefusal) -> StatusCode {
    match refusal {
        ReplyRefusal::Unknown(_) | ReplyRefusal::Gone(_) => StatusCode::NOT_FOUND,
        ReplyRefusal::Notice(_) | ReplyRefusal::Send(SendError::Retired(_)) => StatusCode::CONFLICT,
        ReplyRefusal::Send(SendError::TooLarge(_)) => StatusCode::PAYLOAD_TOO_LARGE,
        ReplyRefusal::Ambiguous(..) | ReplyRefusal::Send(SendError::Empty) => {
            StatusCode::UNPROCESSABLE_ENTITY
        }
        ReplyRefusal::Send(_) | ReplyRefusal::File(_) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// The newest messages of an inbox, oldest first, with how far each has come.
fn newest(
    daemon: &Daemon,
    request: &ApiRequest,
    agent: &AgentId,
    limit: usize,
    state: Option<State>,
) -> HttpReply {
    let mail = Mail::of(&daemon.store);
    let receipts = mail.receipts(agent);
    let mut all = mail.list(agent);
    all.retain(|(_, is)| state.is_none_or(|wanted| *is == wanted));
    let mut text = 0;
    let fits = |(message, _): &&(Message, State)| {
        let is_first = text == 0;
        text += message.text.len();
        is_first || text <= MAX_TEXT
    };
    let count = all.iter().rev().take(limit).take_while(fits).count();
    let newest = all.split_off(all.len() - count);
    let rows: Vec<Value> =
        newest.into_iter().map(|(message, state)| row(&message, state, receipts.get(&message.id))).collect();
    HttpReply::ok(&request.shown_to_caller(json!({ "messages": rows, "left_out": all.len() })))
}

fn state(text: &str) -> Result<State, Error> {
    let word: StrDeserializer<'_, Error> = text.into_deserializer();
    State::deserialize(word)
}
