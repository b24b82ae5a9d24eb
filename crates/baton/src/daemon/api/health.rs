//! `GET /health`

use serde::Serialize;

use super::super::Daemon;
use super::Reply;

#[derive(Serialize)]
struct Health {
    status: &'static str,
    version: &'static str,
    pid: u32,
    since: jiff::Timestamp,
    /// Where it listens besides the unix socket.
    http: Option<String>,
    agents: usize,
}

pub fn get(daemon: &Daemon) -> Reply {
    Reply::ok(&Health {
        status: "ok",
        version: env!("CARGO_PKG_VERSION"),
        pid: std::process::id(),
        since: daemon.since,
        http: daemon.http.map(|address| address.to_string()),
        agents: daemon.roster().len(),
    })
}
