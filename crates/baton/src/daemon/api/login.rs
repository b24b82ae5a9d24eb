//! `POST /codes` and `POST /login`: a page that the user opened gets a cookie for a code that works once.

use hyper::StatusCode;
use serde::Deserialize;
use serde_json::json;

use super::super::Daemon;
use super::super::auth::{Door, cookie_name};
use super::{Ask, Reply, parse};

/// For whoever already has the token or the socket.
pub fn code(daemon: &Daemon) -> Reply {
    match daemon.secrets.new_code() {
        Ok(code) => Reply::ok(&json!({ "code": code })),
        Err(e) => Reply::error(StatusCode::INTERNAL_SERVER_ERROR, &format!("no code could be made: {e}")),
    }
}

pub fn login(daemon: &Daemon, ask: &Ask) -> Reply {
    #[derive(Deserialize)]
    struct Login {
        code: String,
    }
    let Door::Http { port } = ask.door else {
        return Reply::error(StatusCode::BAD_REQUEST, "cookies are for pages; the socket needs none");
    };
    let login: Login = match parse(ask) {
        Ok(login) => login,
        Err(reply) => return reply,
    };
    let Some((cookie, csrf)) = daemon.secrets.exchange(&login.code) else {
        return Reply::error(StatusCode::FORBIDDEN, "this code was used, is too old, or was never given");
    };
    let name = cookie_name(port);
    let cookie = format!("{name}={cookie}; HttpOnly; SameSite=Strict; Path=/; Max-Age=43200");
    Reply::ok(&json!({ "csrf": csrf })).with_cookie(cookie)
}
