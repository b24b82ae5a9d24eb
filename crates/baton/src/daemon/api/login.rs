//! `POST /codes` and `POST /login`: a page that the user opens exchanges a one-time code for a cookie. `POST /confirmations`
//! and `POST /page/confirm`: the user lets that page change things. `GET /page`: whether it may.

use hyper::{StatusCode, header};
use serde::Deserialize;
use serde_json::json;

use crate::daemon::Daemon;
use crate::daemon::api::{ApiRequest, HttpReply, failed, parse};
use crate::daemon::auth::{Proof, Transport, cookie_name, cookie_of, is_proxied};

#[derive(Deserialize)]
struct Code {
    code: String,
}

const FOR_THE_USER: &str = "a page is for the user to open, and you are an agent";

/// For callers with the token or on the socket. A page acts with the user's authority, so an agent gets no code.
pub(crate) fn code(daemon: &Daemon, request: &ApiRequest) -> HttpReply {
    if request.caller(&daemon.store).is_agent() {
        return HttpReply::error(StatusCode::FORBIDDEN, FOR_THE_USER);
    }
    match daemon.secrets.new_code() {
        Ok(code) => HttpReply::ok(&json!({ "code": code })),
        Err(e) => failed(&format!("could not make a code: {e}")),
    }
}

pub(crate) fn login(daemon: &Daemon, request: &ApiRequest) -> HttpReply {
    let Transport::Http { port } = request.door else {
        return HttpReply::error(StatusCode::BAD_REQUEST, "cookies are for pages; the socket needs none");
    };
    let login: Code = match parse(request) {
        Ok(login) => login,
        Err(reply) => return reply,
    };
    let had = cookie_of(&request.headers, port).unwrap_or(None);
    let Some((cookie, csrf)) = daemon.secrets.exchange(&login.code, had) else {
        return HttpReply::error(StatusCode::FORBIDDEN, "this code was used, has expired, or never existed");
    };
    let name = cookie_name(port);
    // Browsers refuse `Secure` over plain HTTP to some names of this machine; a TLS proxy is never plain.
    let secure = if is_proxied(&request.headers, port) { "; Secure" } else { "" };
    let cookie = format!("{name}={cookie}; HttpOnly; SameSite=Strict; Path=/; Max-Age=43200{secure}");
    HttpReply::ok(&json!({ "csrf": csrf })).with_header(header::SET_COOKIE, &cookie)
}

pub(crate) fn confirmation(daemon: &Daemon, request: &ApiRequest) -> HttpReply {
    if request.caller(&daemon.store).is_agent() {
        return HttpReply::error(StatusCode::FORBIDDEN, FOR_THE_USER);
    }
    match daemon.secrets.new_confirmation() {
        Ok(code) => HttpReply::ok(&json!({ "code": code })),
        Err(e) => failed(&format!("could not make a code: {e}")),
    }
}

pub(crate) fn page(daemon: &Daemon, request: &ApiRequest) -> HttpReply {
    let may_change = match request.proof {
        Proof::Cookie { confirmed } => confirmed || daemon.config().page.write,
        Proof::Owner | Proof::Token => true,
        Proof::Anonymous => false,
    };
    HttpReply::ok(&json!({ "may_change": may_change }))
}

pub(crate) fn confirm(daemon: &Daemon, request: &ApiRequest) -> HttpReply {
    let confirmation: Code = match parse(request) {
        Ok(confirmation) => confirmation,
        Err(reply) => return reply,
    };
    match own_cookie(request) {
        Some(cookie) if daemon.secrets.confirm(cookie, &confirmation.code) => {
            HttpReply::ok(&json!({ "may_change": true }))
        }
        _ => HttpReply::error(
            StatusCode::FORBIDDEN,
            "this is not the code, or it has expired; `baton page --code` prints another one",
        ),
    }
}

pub(crate) fn unconfirm(daemon: &Daemon, request: &ApiRequest) -> HttpReply {
    if let Some(cookie) = own_cookie(request) {
        daemon.secrets.unconfirm(cookie);
    }
    HttpReply::ok(&json!({ "may_change": daemon.config().page.write }))
}

fn own_cookie(request: &ApiRequest) -> Option<&str> {
    let Transport::Http { port } = request.door else { return None };
    cookie_of(&request.headers, port).unwrap_or(None)
}
