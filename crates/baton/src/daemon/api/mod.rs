//! The API's handlers: one file per verb, named after the command that does the same.

mod agents;
mod approvals;
mod backup;
mod config;
mod context_usage;
mod doctor;
mod fleet;
mod handoff;
mod handoffs;
mod inbox;
mod log;
mod login;
mod retire;
mod rotate;
mod send;
mod serve;
mod sessions;
mod spawn;
mod status;
mod tail;
mod undo;

use std::sync::Arc;

use baton_core::agent::Agent;
use baton_core::ids::AgentId;
use hyper::body::Bytes;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{HeaderMap, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::daemon::auth::{Proof, Transport};
use crate::daemon::routes::Operation;
use crate::daemon::{Daemon, openapi};
use crate::rotation::verbs::VerbRefusal;
use crate::sessions::caller::{self, Caller};
use crate::store::Store;
use crate::views::{self, NotShown};

pub(crate) use log::{EventStream, MAX_READERS};

/// A request that has passed the guard.
pub(crate) struct ApiRequest {
    pub(crate) door: Transport,
    pub(crate) proof: Proof,
    /// The part of the path in place of `{id}`.
    pub(crate) id: String,
    pub(crate) query: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl ApiRequest {
    /// Masks secrets for a page.
    fn shown_to_caller(&self, value: serde_json::Value) -> serde_json::Value {
        match self.proof {
            Proof::Cookie { .. } | Proof::Anonymous => views::mail::masked(value),
            Proof::Owner | Proof::Token => value,
        }
    }

    /// Who asks: an agent, known by its process, or the user. On the port there is no process to check, and the token
    /// is the user's.
    pub(crate) fn caller(&self, store: &Store) -> Caller {
        match self.door {
            Transport::Unix { peer: Some(pid) } => caller::of_process(store, pid),
            Transport::Unix { peer: None } | Transport::Http { .. } => Caller::User,
        }
    }
}

pub(crate) enum HttpReply {
    Json {
        status: StatusCode,
        body: Bytes,
        headers: Vec<(HeaderName, HeaderValue)>,
    },
    /// A file of the page.
    File {
        status: StatusCode,
        kind: &'static str,
        body: Bytes,
        headers: Vec<(HeaderName, HeaderValue)>,
    },
    Events(EventStream),
}

impl HttpReply {
    pub(crate) fn json<T: Serialize>(status: StatusCode, value: &T) -> Self {
        match serde_json::to_vec(value) {
            Ok(body) => Self::Json { status, body: body.into(), headers: Vec::new() },
            Err(e) => Self::error(StatusCode::INTERNAL_SERVER_ERROR, &e.to_string()),
        }
    }

    pub(crate) fn ok<T: Serialize>(value: &T) -> Self {
        Self::json(StatusCode::OK, value)
    }

    pub(crate) fn error(status: StatusCode, why: &str) -> Self {
        Self::json(status, &json!({ "error": why }))
    }

    /// Adds a header; does nothing on a stream of events.
    #[must_use]
    pub(crate) fn with_header(mut self, name: HeaderName, value: &str) -> Self {
        if let (Self::Json { headers, .. }, Ok(value)) = (&mut self, HeaderValue::from_str(value)) {
            headers.push((name, value));
        }
        self
    }
}

fn not_found(id: &str) -> HttpReply {
    let id = baton_core::plain::plain_line(id, 80);
    HttpReply::error(StatusCode::NOT_FOUND, &format!("Session {id} not found"))
}

fn failed(error: &dyn std::fmt::Display) -> HttpReply {
    HttpReply::error(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string())
}

fn unprocessable(why: &str) -> HttpReply {
    HttpReply::error(StatusCode::UNPROCESSABLE_ENTITY, why)
}

/// The agent with this name or session id, or a 404 reply.
fn resolve(daemon: &Daemon, id: &str) -> Result<AgentId, HttpReply> {
    match daemon.resolve(id) {
        Ok(Some(agent)) => Ok(agent),
        Ok(None) => Err(not_found(id)),
        Err(e) => Err(failed(&e)),
    }
}

/// Performs a verb on the request's agent, or says why not.
async fn act(
    daemon: &Arc<Daemon>,
    request: ApiRequest,
    verb: impl FnOnce(&Daemon, &Caller, &Agent) -> Result<String, VerbRefusal> + Send + 'static,
) -> HttpReply {
    on_agent(daemon, request, move |daemon, request, agent| {
        match verb(daemon, &request.caller(&daemon.store), agent) {
            Ok(said) => HttpReply::ok(&json!({ "said": said })),
            Err(refusal) => refused(&refusal),
        }
    })
    .await
}

fn refused(refusal: &VerbRefusal) -> HttpReply {
    let status = match refusal {
        VerbRefusal::Forbidden(_) => StatusCode::FORBIDDEN,
        VerbRefusal::Nothing(_) => StatusCode::NOT_FOUND,
        VerbRefusal::Conflict(_) => StatusCode::CONFLICT,
        VerbRefusal::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    HttpReply::error(status, &refusal.to_string())
}

/// Answers a query about the request's agent, read outside the event loop.
async fn on_agent(
    daemon: &Arc<Daemon>,
    request: ApiRequest,
    answer: impl FnOnce(&Daemon, &ApiRequest, &Agent) -> HttpReply + Send + 'static,
) -> HttpReply {
    let id = match resolve(daemon, &request.id) {
        Ok(agent) => agent,
        Err(reply) => return reply,
    };
    blocking(daemon, move |daemon| match daemon.store.agents().get(&id) {
        Ok(Some(agent)) => answer(daemon, &request, &agent),
        Ok(None) => not_found(id.as_str()),
        Err(e) => failed(&e),
    })
    .await
}

/// A view, or why there is none.
fn shown<T: Serialize>(view: Result<T, NotShown>) -> HttpReply {
    match view {
        Ok(view) => HttpReply::ok(&view),
        Err(e @ NotShown::Nothing(_)) => HttpReply::error(StatusCode::NOT_FOUND, &e.to_string()),
        Err(e @ NotShown::Failed(_)) => failed(&e),
    }
}

/// The body as `T`, or the error in it.
fn parse<T: DeserializeOwned>(request: &ApiRequest) -> Result<T, HttpReply> {
    let body: &[u8] = if request.body.is_empty() { b"{}" } else { &request.body };
    // serde would accept a list as the fields in order.
    if !body.trim_ascii_start().starts_with(b"{") {
        return Err(unprocessable("the body is not a JSON object"));
    }
    serde_json::from_slice(body).map_err(|e| unprocessable(&format!("the body cannot be understood: {e}")))
}

/// One value of a query. Ours are plain words and numbers, so nothing is decoded.
fn query<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.split('&')
        .filter_map(|pair| pair.split_once('='))
        .find(|(key, _)| *key == name)
        .map(|(_, value)| value)
}

/// One value of a query that may be any text, decoded as forms encode it.
fn decoded(text: &str, name: &str) -> Option<String> {
    let value = query(text, name)?;
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            byte => byte,
        });
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Runs an action that may wait for the disk outside the event loop.
async fn blocking(
    daemon: &Arc<Daemon>,
    act: impl FnOnce(&Daemon) -> HttpReply + Send + 'static,
) -> HttpReply {
    let daemon = Arc::clone(daemon);
    tokio::task::spawn_blocking(move || act(&daemon)).await.unwrap_or_else(|_| {
        HttpReply::error(StatusCode::INTERNAL_SERVER_ERROR, "it failed; `baton log` says more")
    })
}

pub(crate) async fn answer(daemon: &Arc<Daemon>, operation: Operation, request: ApiRequest) -> HttpReply {
    match operation {
        Operation::Health => serve::health(daemon),
        Operation::Description => HttpReply::ok(&openapi::description()),
        Operation::Sessions => agents::list(daemon, &request),
        Operation::Session => agents::get(daemon, &request),
        Operation::Conversation => tail::get(daemon, request).await,
        Operation::Levels => status::levels(daemon, request).await,
        Operation::Log => log::list(daemon, request).await,
        Operation::Chain => handoffs::chain(daemon, request).await,
        Operation::Draft => handoffs::draft(daemon, request).await,
        Operation::Document => handoffs::show(daemon, request).await,
        Operation::Rotate => rotate::post(daemon, request).await,
        Operation::Undo => undo::post(daemon, request).await,
        Operation::Retire => retire::post(daemon, request).await,
        Operation::Cancel => handoff::cancel(daemon, request).await,
        Operation::Spawn => spawn::post(daemon, request).await,
        Operation::Handoff => handoff::post(daemon, request).await,
        Operation::Send => send::post(daemon, request).await,
        Operation::Messages => inbox::list(daemon, request).await,
        Operation::ContextUsage => context_usage::post(daemon, request).await,
        Operation::Approvals => approvals::list(daemon, request).await,
        Operation::Approve => approvals::answer(daemon, request).await,
        Operation::Events => log::follow(daemon, &request),
        Operation::Code => login::code(daemon, &request),
        Operation::Login => login::login(daemon, &request),
        Operation::Hop => handoffs::hop(daemon, request).await,
        Operation::Tasks => sessions::tasks(daemon, request).await,
        Operation::Search => sessions::search(daemon, request).await,
        Operation::AnyConversation => tail::any(daemon, request).await,
        Operation::Subagents => tail::subagents(daemon, request).await,
        Operation::Inbox => inbox::own(daemon, request).await,
        Operation::Reply => inbox::reply(daemon, request).await,
        Operation::Read => inbox::read(daemon, request).await,
        Operation::Backups => backup::list(daemon).await,
        Operation::Fleet => fleet::get(daemon).await,
        Operation::Doctor => doctor::get(daemon).await,
        Operation::Config => config::get(daemon, request).await,
        Operation::Confirmation => login::confirmation(daemon, &request),
        Operation::Page => login::page(daemon, &request),
        Operation::Confirm => login::confirm(daemon, &request),
        Operation::Unconfirm => login::unconfirm(daemon, &request),
        Operation::Listen => serve::listen(daemon, &request),
        Operation::Stop => serve::stop(daemon),
    }
}
