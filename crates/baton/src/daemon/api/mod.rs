//! What the API answers: one file per verb.

mod context_usage;
mod events;
mod handoff;
mod health;
mod login;
mod messages;
mod sessions;

use std::sync::Arc;

use hyper::body::Bytes;
use hyper::{HeaderMap, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::sync::mpsc;

use super::auth::Door;
use super::routes::Operation;
use super::{Daemon, openapi};

pub use events::MOST as MOST_READERS;

/// A request that may be answered.
pub struct Ask {
    pub door: Door,
    /// What stood in the place of `{id}`.
    pub id: String,
    pub query: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

pub enum Reply {
    Json { status: StatusCode, body: Bytes, cookie: Option<String> },
    Events(mpsc::Receiver<Bytes>),
}

impl Reply {
    pub fn json<T: Serialize>(status: StatusCode, value: &T) -> Self {
        match serde_json::to_vec(value) {
            Ok(body) => Self::Json { status, body: body.into(), cookie: None },
            Err(e) => Self::error(StatusCode::INTERNAL_SERVER_ERROR, &e.to_string()),
        }
    }

    pub fn ok<T: Serialize>(value: &T) -> Self {
        Self::json(StatusCode::OK, value)
    }

    #[must_use]
    pub fn with_cookie(self, text: String) -> Self {
        match self {
            Self::Json { status, body, .. } => Self::Json { status, body, cookie: Some(text) },
            events @ Self::Events(_) => events,
        }
    }

    pub fn error(status: StatusCode, why: &str) -> Self {
        Self::json(status, &json!({ "error": why }))
    }
}

fn not_found(id: &str) -> Reply {
    let id = baton_core::plain::plain_line(id, 80);
    Reply::error(StatusCode::NOT_FOUND, &format!("Session {id} not found"))
}

/// The body as `T`, or what is wrong with it.
fn parse<T: DeserializeOwned>(ask: &Ask) -> Result<T, Reply> {
    let body: &[u8] = if ask.body.is_empty() { b"{}" } else { &ask.body };
    // A list would be taken for the fields in their order.
    if !body.trim_ascii_start().starts_with(b"{") {
        return Err(Reply::error(StatusCode::UNPROCESSABLE_ENTITY, "the body is not a JSON object"));
    }
    serde_json::from_slice(body).map_err(|e| {
        Reply::error(StatusCode::UNPROCESSABLE_ENTITY, &format!("the body cannot be understood: {e}"))
    })
}

/// One value of a query. Ours are words and numbers, so nothing is decoded.
fn query<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.split('&')
        .filter_map(|pair| pair.split_once('='))
        .find(|(key, _)| *key == name)
        .map(|(_, value)| value)
}

/// Runs what may wait for the disk beside the event loop.
async fn blocking(daemon: &Arc<Daemon>, act: impl FnOnce(&Daemon) -> Reply + Send + 'static) -> Reply {
    let daemon = Arc::clone(daemon);
    tokio::task::spawn_blocking(move || act(&daemon))
        .await
        .unwrap_or_else(|_| Reply::error(StatusCode::INTERNAL_SERVER_ERROR, "it failed; the log tells more"))
}

pub async fn answer(daemon: &Arc<Daemon>, operation: Operation, ask: Ask) -> Reply {
    match operation {
        Operation::Health => health::get(daemon),
        Operation::Description => Reply::ok(&openapi::description()),
        Operation::Sessions => sessions::list(daemon),
        Operation::Session => sessions::get(daemon, &ask),
        Operation::Handoff => handoff::post(daemon, ask).await,
        Operation::Send => messages::post(daemon, ask).await,
        Operation::Messages => messages::list(daemon, ask).await,
        Operation::ContextUsage => context_usage::post(daemon, ask).await,
        Operation::Events => events::get(daemon, &ask),
        Operation::Code => login::code(daemon),
        Operation::Login => login::login(daemon, &ask),
        Operation::Stop => {
            daemon.stop.say();
            Reply::ok(&json!({ "status": "stopping" }))
        }
    }
}
