//! `GET /sessions` (`?all=true` includes those that ended more than a day ago), `GET /sessions/{id}`: the agents, by
//! name or by the id of any of their sessions.

use hyper::StatusCode;

use crate::daemon::Daemon;
use crate::daemon::api::{ApiRequest, HttpReply, failed, not_found, query, unprocessable};

pub(crate) fn list(daemon: &Daemon, request: &ApiRequest) -> HttpReply {
    let all = match query(&request.query, "all") {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => return unprocessable("`all` is true or false"),
    };
    let mut roster = daemon.roster();
    roster.refresh();
    let body = roster.all_as_json(all, &|cwd| daemon.thresholds(cwd));
    HttpReply::Json { status: StatusCode::OK, body, headers: Vec::new() }
}

pub(crate) fn get(daemon: &Daemon, request: &ApiRequest) -> HttpReply {
    let mut roster = daemon.roster();
    roster.refresh();
    let agent = match roster.resolve(&request.id) {
        Ok(agent) => agent,
        Err(e) => return failed(&e),
    };
    match agent.and_then(|id| roster.as_json(&id, &|cwd| daemon.thresholds(cwd))) {
        Some(body) => HttpReply::Json { status: StatusCode::OK, body, headers: Vec::new() },
        None => not_found(&request.id),
    }
}
