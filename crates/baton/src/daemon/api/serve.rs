//! `GET /health`, `POST /listen`, `POST /stop`: the daemon itself, as `baton serve --status` and `--stop` ask for it.

use std::net::SocketAddrV4;
use std::sync::Arc;

use hyper::StatusCode;
use serde::Serialize;
use serde_json::json;

use crate::config::address::http_address;
use crate::daemon::api::{ApiRequest, HttpReply, unprocessable};
use crate::daemon::port::{self, HttpPort};
use crate::daemon::{Daemon, server};

#[derive(Serialize)]
struct Health {
    status: &'static str,
    version: &'static str,
    pid: u32,
    since: jiff::Timestamp,
    /// The address of the HTTP port, if there is one.
    http: Option<String>,
    agents: usize,
}

pub(crate) fn health(daemon: &Daemon) -> HttpReply {
    HttpReply::ok(&Health {
        status: "ok",
        version: env!("CARGO_PKG_VERSION"),
        pid: std::process::id(),
        since: daemon.since,
        http: daemon.http().map(|address| address.to_string()),
        agents: daemon.roster().len(),
    })
}

/// Opens the HTTP port if none is open: the one of the settings, else 8420, or the next one that is free. Reports which
/// program has the first one.
pub(crate) fn listen(daemon: &Arc<Daemon>, request: &ApiRequest) -> HttpReply {
    if request.caller(&daemon.store).is_agent() {
        return HttpReply::error(
            StatusCode::FORBIDDEN,
            "the page is for the user to open, and you are an agent",
        );
    }
    let wanted = match http_address(daemon.config().serve.http.as_deref().unwrap_or_default()) {
        Ok(wanted) => wanted,
        Err(why) => return unprocessable(&why),
    };
    let address = match daemon.http() {
        Some(address) => address,
        None => match open(daemon, wanted) {
            Ok(address) => address,
            Err(e) => return HttpReply::error(StatusCode::CONFLICT, &format!("{e:#}")),
        },
    };
    let holder = if address == wanted { None } else { port::holder(wanted.port()) };
    HttpReply::ok(&json!({ "http": address.to_string(), "wanted": wanted.port(), "holder": holder }))
}

fn open(daemon: &Arc<Daemon>, wanted: SocketAddrV4) -> anyhow::Result<SocketAddrV4> {
    let port = HttpPort::claim_near(wanted)?;
    let address = port.address;
    // Take the port before there is a token that somebody could send to it.
    daemon.run_dir.write_token(daemon.secrets.token())?;
    server::open(daemon, port)?;
    daemon.log("daemon-listens", json!({ "http": address }));
    Ok(address)
}

pub(crate) fn stop(daemon: &Daemon) -> HttpReply {
    daemon.shutdown.request();
    HttpReply::ok(&json!({ "status": "stopping" }))
}
