//! `POST /sessions/{id}/messages`, `GET /sessions/{id}/messages`: mail. Accepted means on disk.

use std::sync::Arc;

use baton_core::ids::{AgentId, unsafe_name};
use baton_core::message::Urgency;
use hyper::StatusCode;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::Daemon;
use super::{Ask, Reply, blocking, parse, query};
use crate::store::mail::SendError;
use crate::store::once::{self, Keyed};

#[derive(Deserialize)]
struct Letter {
    text: String,
    /// An agent, or `user`.
    #[serde(default)]
    from: Option<String>,
    #[serde(default, alias = "delivery_mode")]
    urgency: Urgency,
    /// The same key a second time sends nothing: a sender that heard no answer may try again.
    #[serde(default)]
    key: Option<String>,
}

pub async fn post(daemon: &Arc<Daemon>, ask: Ask) -> Reply {
    let letter: Letter = match parse(&ask) {
        Ok(letter) => letter,
        Err(reply) => return reply,
    };
    if letter.key.as_deref().is_some_and(|key| unsafe_name(key).is_some() || key.len() > 64) {
        let why = "a key has at most 64 letters, digits, dots, underscores and dashes";
        return Reply::error(StatusCode::UNPROCESSABLE_ENTITY, why);
    }
    let from = letter.from.as_deref().unwrap_or("user");
    if AgentId::new(from).is_err() {
        return Reply::error(StatusCode::UNPROCESSABLE_ENTITY, "`from` is an agent's name, or user");
    }
    let Some(to) = daemon.resolve(&ask.id) else { return super::not_found(&ask.id) };
    blocking(daemon, move |daemon| {
        let from = letter.from.as_deref().unwrap_or("user");
        let now = Timestamp::now();
        let sent = if let Some(key) = &letter.key {
            let mail = Keyed { key, to: &to, from, text: &letter.text, urgency: letter.urgency };
            once::send(&daemon.store.state, &mail, now)
        } else {
            let sent = daemon.store.mail().send(&to, from, &letter.text, letter.urgency, now);
            sent.map(|message| (message.id, true))
        };
        match sent {
            Ok((id, new)) => {
                crate::poke::supervisor(&daemon.store.state, &to);
                Reply::ok(&json!({ "id": id, "to": to, "state": if new { "queued" } else { "known" } }))
            }
            Err(e @ SendError::TooLarge(_)) => Reply::error(StatusCode::PAYLOAD_TOO_LARGE, &e.to_string()),
            Err(e @ SendError::Empty) => Reply::error(StatusCode::UNPROCESSABLE_ENTITY, &e.to_string()),
            Err(e @ SendError::File(_)) => Reply::error(StatusCode::INTERNAL_SERVER_ERROR, &e.to_string()),
        }
    })
    .await
}

/// At most so many at once, the newest; `?limit=` asks for fewer.
const MOST: usize = 200;

pub async fn list(daemon: &Arc<Daemon>, ask: Ask) -> Reply {
    let Some(agent) = daemon.resolve(&ask.id) else { return super::not_found(&ask.id) };
    let limit = query(&ask.query, "limit").and_then(|n| n.parse().ok()).unwrap_or(MOST).min(MOST);
    let state = query(&ask.query, "state").map(str::to_owned);
    blocking(daemon, move |daemon| {
        let all: Vec<Value> = daemon
            .store
            .mail()
            .list(&agent)
            .into_iter()
            .map(|(message, state)| {
                let mut row = json!(message);
                row["state"] = json!(state);
                row
            })
            .filter(|row| state.as_ref().is_none_or(|state| row["state"] == **state))
            .collect();
        let from = all.len().saturating_sub(limit);
        Reply::ok(&json!({ "messages": &all[from..] }))
    })
    .await
}
