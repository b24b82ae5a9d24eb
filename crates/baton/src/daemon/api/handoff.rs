//! `POST /sessions/{id}/handoff`: an agent hands over its work, carried out when its turn ends. `POST
//! /sessions/{id}/cancel` takes it back.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use baton_core::ids::SessionId;
use hyper::StatusCode;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;

use crate::daemon::Daemon;
use crate::daemon::api::{ApiRequest, HttpReply, act, blocking, failed, not_found, parse, unprocessable};
use crate::rotation::{pending, verbs};

/// Agents' documents are not larger.
const MAX_DOCUMENT: u64 = 8 << 20;

#[derive(Deserialize)]
struct HandoffRequest {
    requester_session_id: String,
    file_path: PathBuf,
}

pub(crate) async fn post(daemon: &Arc<Daemon>, request: ApiRequest) -> HttpReply {
    let handoff: HandoffRequest = match parse(&request) {
        Ok(handoff) => handoff,
        Err(reply) => return reply,
    };
    blocking(daemon, move |daemon| schedule(daemon, &request.id, &handoff)).await
}

pub(crate) async fn cancel(daemon: &Arc<Daemon>, request: ApiRequest) -> HttpReply {
    act(daemon, request, |daemon, caller, agent| verbs::cancel(&daemon.store, caller, agent)).await
}

fn schedule(daemon: &Daemon, target: &str, handoff: &HandoffRequest) -> HttpReply {
    let (session, provider) = {
        let mut roster = daemon.roster();
        roster.refresh();
        let resolved = roster.resolve(target).and_then(|agent| {
            let requester = roster.resolve(&handoff.requester_session_id)?;
            Ok((agent, requester))
        });
        let (agent, requester) = match resolved {
            Ok(resolved) => resolved,
            Err(e) => return failed(&e),
        };
        if target != handoff.requester_session_id && (requester.is_none() || agent != requester) {
            let why = "sm handoff is self-directed only — requester must equal target session";
            return HttpReply::error(StatusCode::FORBIDDEN, why);
        }
        let Some(entry) = agent.as_ref().and_then(|id| roster.get(id)) else {
            return not_found(target);
        };
        (entry.agent.session.clone(), entry.agent.provider.clone())
    };
    if let Some(why) = crate::providers::of(&provider).refuses_handoff {
        return HttpReply::error(StatusCode::CONFLICT, why);
    }
    let Some(session) = session else {
        return HttpReply::error(StatusCode::CONFLICT, &format!("{target} has no session yet"));
    };
    let text = match read(&handoff.file_path) {
        Ok(text) => text,
        Err(why) => return unprocessable(&why),
    };
    match daemon.store.requests().schedule(&session, Some(&handoff.file_path), &text, Timestamp::now()) {
        Ok(true) => HttpReply::ok(&json!({ "status": carry_out_while_idle(daemon, &session) })),
        Ok(false) => not_found(target),
        Err(e) => failed(&e),
    }
}

/// Carries out at once a handoff that was scheduled while no turn runs, because no end of a turn will come; otherwise
/// it stays scheduled.
fn carry_out_while_idle(daemon: &Daemon, session: &SessionId) -> &'static str {
    let session = match daemon.store.sessions().get(session) {
        Ok(Some(session)) => session,
        Ok(None) => return "scheduled",
        Err(e) => {
            daemon.fault("read a session's record", &e);
            return "scheduled";
        }
    };
    let ctx = daemon.ctx(&session);
    match pending::carry_out(&ctx, &session, ctx.is_braked(&session.agent), "the agent") {
        Some(pending::SealOutcome::Sealed { .. }) => "sealed",
        Some(pending::SealOutcome::Failed(_)) => "failed",
        None => "scheduled",
    }
}

fn read(path: &Path) -> Result<String, String> {
    if !path.is_absolute() {
        return Err(format!("file_path must be absolute: {}", path.display()));
    }
    // Links on the way to the file are the agent's choice; a pipe or a device is not a document.
    let Ok(file) = std::fs::canonicalize(path).and_then(|real| crate::sys::fs::open_read(&real)) else {
        return Err(format!("File not found: {}", path.display()));
    };
    let mut text = String::new();
    file.take(MAX_DOCUMENT + 1)
        .read_to_string(&mut text)
        .map_err(|e| format!("could not read {}: {e}", path.display()))?;
    if text.len() as u64 > MAX_DOCUMENT {
        return Err(format!("{} is larger than 8 MiB; write what the next context needs", path.display()));
    }
    if text.trim().is_empty() {
        return Err(format!("{} is empty; write what the next context needs to know", path.display()));
    }
    Ok(text)
}
