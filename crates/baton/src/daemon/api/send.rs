//! `POST /sessions/{id}/messages`: leaves a message for an agent. The answer means that it is on disk.

use std::sync::Arc;

use baton_core::ids::AgentId;
use baton_core::message::Urgency;
use hyper::StatusCode;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;

use crate::daemon::Daemon;
use crate::daemon::api::{ApiRequest, HttpReply, blocking, failed, not_found, parse, resolve, unprocessable};
use crate::daemon::auth::Transport;
use crate::mail;
use crate::mail::keyed::Key;
use crate::mail::maildir::{Draft, SendError};

#[derive(Deserialize)]
struct Letter {
    text: String,
    /// An agent, or `user`.
    #[serde(default)]
    from: Option<String>,
    #[serde(default, alias = "delivery_mode")]
    urgency: Urgency,
    /// A repeated key is not sent again, so a sender without an answer may retry.
    #[serde(default)]
    key: Option<String>,
}

pub(crate) async fn post(daemon: &Arc<Daemon>, request: ApiRequest) -> HttpReply {
    let letter: Letter = match parse(&request) {
        Ok(letter) => letter,
        Err(reply) => return reply,
    };
    let key = match letter.key.as_deref().map(Key::new).transpose() {
        Ok(key) => key,
        Err(e) => return unprocessable(&e.to_string()),
    };
    if letter.from.as_deref().is_some_and(|from| AgentId::new(from).is_err()) {
        return unprocessable("`from` is an agent's name, or user");
    }
    let to = match resolve(daemon, &request.id) {
        Ok(agent) => agent,
        Err(reply) => return reply,
    };
    blocking(daemon, move |daemon| {
        let caller = request.caller(&daemon.store);
        let from = letter.from.as_deref().unwrap_or(caller.name());
        if matches!(request.door, Transport::Unix { .. }) && from != caller.name() {
            let why = format!("you are {}; no one may speak for someone else", caller.name());
            return HttpReply::error(StatusCode::FORBIDDEN, &why);
        }
        let agent = match daemon.store.agents().get(&to) {
            Ok(Some(agent)) => agent,
            Ok(None) => return not_found(to.as_str()),
            Err(e) => return failed(&e),
        };
        let (text, urgency) = (letter.text.as_str(), letter.urgency);
        let draft = Draft { urgency, ..Draft::new(from, text) };
        match mail::send(&daemon.store, &agent, &draft, key.as_ref(), Timestamp::now()) {
            Ok(sent) => {
                let state = if sent.is_new { "queued" } else { "known" };
                HttpReply::ok(&json!({ "id": sent.id, "to": to, "state": state }))
            }
            Err(e @ SendError::TooLarge(_)) => {
                HttpReply::error(StatusCode::PAYLOAD_TOO_LARGE, &e.to_string())
            }
            Err(e @ SendError::Retired(_)) => HttpReply::error(StatusCode::CONFLICT, &e.to_string()),
            Err(e @ SendError::Empty) => unprocessable(&e.to_string()),
            Err(e @ (SendError::File(_) | SendError::Lock(_))) => failed(&e),
        }
    })
    .await
}
