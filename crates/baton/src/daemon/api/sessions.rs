//! `GET /sessions`, `GET /sessions/{id}`: the agents. Ids, names and conversation ids all resolve.

use hyper::StatusCode;

use super::super::Daemon;
use super::{Ask, Reply};

pub fn list(daemon: &Daemon) -> Reply {
    let mut roster = daemon.roster();
    roster.refresh();
    Reply::Json { status: StatusCode::OK, body: roster.all_shown(), cookie: None }
}

pub fn get(daemon: &Daemon, ask: &Ask) -> Reply {
    let mut roster = daemon.roster();
    roster.refresh();
    match roster.resolve(&ask.id).and_then(|id| roster.shown(&id)) {
        Some(body) => Reply::Json { status: StatusCode::OK, body, cookie: None },
        None => super::not_found(&ask.id),
    }
}
