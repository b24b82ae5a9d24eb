//! `GET /sessions/{id}/conversation`, `GET /conversations/{id}`: the conversation, from the transcript, in pages. `GET
//! /conversations/{id}/subagents`: its subagents.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use baton_core::ids::SessionId;
use baton_core::transcript::pages::PageRange;
use hyper::StatusCode;
use serde_json::json;

use crate::daemon::Daemon;
use crate::daemon::api::{ApiRequest, HttpReply, blocking, failed, on_agent, query, shown, unprocessable};
use crate::views::conversation;

const USUAL_LIMIT: usize = 100;

/// Which entries are wanted, and how many.
fn wanted(request: &ApiRequest) -> Result<(PageRange, usize), HttpReply> {
    let cursor = |name: &str| query(&request.query, name).map(str::parse::<u64>);
    let part = match (cursor("before"), cursor("after")) {
        (None, None) => PageRange::Newest,
        (Some(Ok(offset)), None) => PageRange::Before(offset),
        (None, Some(Ok(offset))) => PageRange::After(offset),
        (Some(_), Some(_)) => return Err(unprocessable("`before` and `after` exclude each other")),
        _ => return Err(unprocessable("`before` and `after` are offsets of entries")),
    };
    match query(&request.query, "limit").map(str::parse::<usize>).transpose() {
        Ok(limit) => Ok((part, limit.unwrap_or(USUAL_LIMIT))),
        Err(_) => Err(unprocessable("`limit` is a number")),
    }
}

/// The conversation of any session, ours or not, or of one of its subagents.
pub(crate) async fn any(daemon: &Arc<Daemon>, request: ApiRequest) -> HttpReply {
    let (part, limit) = match wanted(&request) {
        Ok(wanted) => wanted,
        Err(reply) => return reply,
    };
    let subagent = query(&request.query, "subagent").map(str::to_owned);
    on_session(daemon, request, move |transcript| {
        let Some(name) = subagent else { return shown(conversation::of_file(transcript, part, limit)) };
        match conversation::subagents(transcript) {
            Ok(found) => match found.iter().find(|(_, view)| view.name == name) {
                Some((path, _)) => shown(conversation::of_file(path, part, limit)),
                None => HttpReply::error(StatusCode::NOT_FOUND, "the session has had no such subagent"),
            },
            Err(e) => failed(&e),
        }
    })
    .await
}

pub(crate) async fn subagents(daemon: &Arc<Daemon>, request: ApiRequest) -> HttpReply {
    on_session(daemon, request, |transcript| match conversation::subagents(transcript) {
        Ok(found) => {
            let views: Vec<_> = found.into_iter().map(|(_, view)| view).collect();
            HttpReply::ok(&json!({ "subagents": views }))
        }
        Err(e) => failed(&e),
    })
    .await
}

/// Answers with something about the transcript of a session.
async fn on_session(
    daemon: &Arc<Daemon>,
    request: ApiRequest,
    answer: impl FnOnce(&Path) -> HttpReply + Send + 'static,
) -> HttpReply {
    let Ok(id) = SessionId::new(&request.id) else {
        return HttpReply::error(StatusCode::NOT_FOUND, "this is not the id of a session");
    };
    blocking(daemon, move |daemon| {
        // The records of our sessions have the path; search the clients' own folders for the others.
        let recorded = match daemon.store.sessions().get(&id) {
            Ok(session) => session.and_then(|s| s.transcript).map(PathBuf::from),
            Err(e) => return failed(&e),
        };
        // A client writes the first words a moment after it began. The mirror may have what the client has deleted.
        let is_lost = |path: &PathBuf| !path.exists() && daemon.store.mirror().folder(&id).exists();
        let found = match recorded.filter(|path| !is_lost(path)) {
            Some(path) => Ok(path),
            None => conversation::transcript_of(&daemon.paths, &daemon.config(), &id),
        };
        match found {
            Ok(path) => answer(&path),
            Err(e) => shown::<()>(Err(e)),
        }
    })
    .await
}

pub(crate) async fn get(daemon: &Arc<Daemon>, request: ApiRequest) -> HttpReply {
    let (part, limit) = match wanted(&request) {
        Ok(wanted) => wanted,
        Err(reply) => return reply,
    };
    on_agent(daemon, request, move |daemon, request, agent| {
        let session = match query(&request.query, "session") {
            None => None,
            Some(id) => {
                let known = SessionId::new(id).ok().filter(|id| agent.sessions.contains(id));
                let read = known.map(|id| daemon.store.sessions().get(&id)).transpose();
                match read.map(Option::flatten) {
                    Ok(Some(session)) => Some(session),
                    Ok(None) => {
                        return HttpReply::error(StatusCode::NOT_FOUND, "the agent has had no such session");
                    }
                    Err(e) => return failed(&e),
                }
            }
        };
        shown(conversation::of(&daemon.store, agent, session.as_ref(), part, limit))
    })
    .await
}
