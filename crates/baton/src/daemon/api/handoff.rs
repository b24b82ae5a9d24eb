//! `POST /sessions/{id}/handoff`: an agent hands over; carried out when its turn ends.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hyper::StatusCode;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;

use super::super::Daemon;
use super::{Ask, Reply, blocking, parse};
use crate::store::requests;

/// No document of an agent is larger.
const MAX_DOCUMENT: u64 = 8 << 20;

#[derive(Deserialize)]
struct Handoff {
    requester_session_id: String,
    file_path: PathBuf,
}

pub async fn post(daemon: &Arc<Daemon>, ask: Ask) -> Reply {
    let handoff: Handoff = match parse(&ask) {
        Ok(handoff) => handoff,
        Err(reply) => return reply,
    };
    blocking(daemon, move |daemon| schedule(daemon, &ask.id, &handoff)).await
}

fn schedule(daemon: &Daemon, target: &str, handoff: &Handoff) -> Reply {
    let (session, provider) = {
        let mut roster = daemon.roster();
        roster.refresh();
        let (asked, asking) = (roster.resolve(target), roster.resolve(&handoff.requester_session_id));
        if target != handoff.requester_session_id && (asking.is_none() || asked != asking) {
            let why = "sm handoff is self-directed only — requester must equal target session";
            return Reply::error(StatusCode::FORBIDDEN, why);
        }
        let Some(entry) = asked.as_ref().and_then(|id| roster.get(id)) else {
            return super::not_found(target);
        };
        (entry.agent.session.clone(), entry.agent.provider.clone())
    };
    if let Some(why) = crate::providers::of(&provider).refuses_handoff {
        return Reply::error(StatusCode::CONFLICT, why);
    }
    let Some(session) = session else {
        return Reply::error(StatusCode::CONFLICT, &format!("{target} has no conversation yet"));
    };
    let text = match read(&handoff.file_path) {
        Ok(text) => text,
        Err(why) => return Reply::error(StatusCode::UNPROCESSABLE_ENTITY, &why),
    };
    match requests::schedule(&daemon.store, &session, Some(&handoff.file_path), &text, Timestamp::now()) {
        Ok(true) => Reply::ok(&json!({ "status": "scheduled" })),
        Ok(false) => super::not_found(target),
        Err(e) => Reply::error(StatusCode::INTERNAL_SERVER_ERROR, &e.to_string()),
    }
}

fn read(path: &Path) -> Result<String, String> {
    if !path.is_absolute() {
        return Err(format!("file_path must be absolute: {}", path.display()));
    }
    // The agent's own path; links on the way are its business, a pipe is not a document.
    let Ok(file) = std::fs::canonicalize(path).and_then(|real| crate::sys::fs::open_read(&real)) else {
        return Err(format!("File not found: {}", path.display()));
    };
    let mut text = String::new();
    file.take(MAX_DOCUMENT + 1)
        .read_to_string(&mut text)
        .map_err(|e| format!("{} cannot be read: {e}", path.display()))?;
    if text.len() as u64 > MAX_DOCUMENT {
        return Err(format!("{} is larger than 8 MiB; write what the next context needs", path.display()));
    }
    if text.trim().is_empty() {
        return Err(format!("{} is empty; write what the next context needs to know", path.display()));
    }
    Ok(text)
}
