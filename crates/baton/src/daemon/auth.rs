//! The guard: decides who may ask from a request's head alone, before reading a byte of its body.
//!
//! The loopback port is hostile: every web page that the user visits can send requests to it. So a request there must
//! name us exactly as its host, must not come from a page of another origin, and must carry the token, or the cookie of
//! a page that logged in with a one-time code. The unix socket needs none of this: only its owner's processes can enter
//! its folder, and the peer's uid is checked when it connects.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use hyper::header::{self, HeaderMap, HeaderName};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::daemon::page;
use crate::sys::hash::hex;

/// The largest accepted body.
pub(crate) const MAX_BODY: usize = 1 << 20;
/// Carries a secret that only our own page knows. The cookie alone proves nothing: a browser attaches it to any page's
/// request, and sends it to every other port of this host.
pub(crate) const CSRF: HeaderName = HeaderName::from_static("x-baton-csrf");
/// How long a one-time code is valid.
const CODE_LIFETIME: Duration = Duration::from_mins(1);
/// How long a code that lets a page change things can be typed, and how often it may be mistyped.
const CONFIRMATION_LIFETIME: Duration = Duration::from_mins(3);
const CONFIRMATION_TRIES: u8 = 5;
const COOKIE_LIFETIME: Duration = Duration::from_hours(12);
/// More than a user opens; beyond this the oldest is dropped.
const MAX_PAGES: usize = 16;

/// The door that a request came through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    /// The process at the other end, if the system reports it.
    Unix {
        peer: Option<u32>,
    },
    Http {
        port: u16,
    },
}

/// How the caller authenticated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proof {
    /// Through the unix socket: one of the user's own processes.
    Owner,
    Token,
    /// A page that logged in. The user may have confirmed with a code that it may change things.
    Cookie {
        confirmed: bool,
    },
    /// Not yet: may only load the page and exchange a code.
    Anonymous,
}

/// Why a request is refused, in words that do not help an attacker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AuthRefusal {
    pub(crate) status: StatusCode,
    pub(crate) why: &'static str,
}

fn refuse<T>(status: StatusCode, why: &'static str) -> Result<T, AuthRefusal> {
    Err(AuthRefusal { status, why })
}

/// The token, the names we answer to, and the pages that have logged in.
pub(crate) struct Secrets {
    token: String,
    /// Names under which a TLS proxy of the user's passes requests on.
    hosts: Vec<String>,
    pages: Mutex<Pages>,
}

#[derive(Default)]
struct Pages {
    codes: HashMap<String, Instant>,
    cookies: HashMap<String, Instant>,
    /// The cookies whose pages may change things.
    confirmed: HashSet<String>,
    confirmation: Option<Confirmation>,
}

/// A short code that the user reads in a terminal and types into a page. Only pages that are logged in can try it.
struct Confirmation {
    code: String,
    until: Instant,
    tries_left: u8,
}

impl Secrets {
    pub(crate) fn new(token: String, hosts: Vec<String>) -> Self {
        Self { token, hosts, pages: Mutex::default() }
    }

    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// A code that one page may exchange for a cookie, once and within a minute.
    pub(crate) fn new_code(&self) -> std::io::Result<String> {
        let code = random_hex()?;
        let mut pages = self.pages();
        trim(&mut pages.codes);
        pages.codes.insert(code.clone(), Instant::now() + CODE_LIFETIME);
        Ok(code)
    }

    /// The cookie and its CSRF secret, for a valid code. A code works once. A browser that has a cookie already keeps
    /// it, because all its tabs share one and the open ones stay logged in.
    pub(crate) fn exchange(&self, code: &str, had: Option<&str>) -> Option<(String, String)> {
        let mut pages = self.pages();
        trim(&mut pages.codes);
        let known = pages.codes.keys().find(|known| is_same(known, code)).cloned()?;
        pages.codes.remove(&known);
        let valid = had.filter(|had| is_known(&pages.cookies, had)).map(str::to_owned);
        let cookie = valid.map_or_else(random_hex, Ok).ok()?;
        pages.cookies.remove(&cookie);
        trim(&mut pages.cookies);
        pages.cookies.insert(cookie.clone(), Instant::now() + COOKIE_LIFETIME);
        let csrf = csrf_of(&self.token, &cookie);
        Some((cookie, csrf))
    }

    fn knows_cookie(&self, cookie: &str) -> bool {
        is_known(&self.pages().cookies, cookie)
    }

    /// A code that lets one page change things. The newest counts.
    pub(crate) fn new_confirmation(&self) -> std::io::Result<String> {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes)?;
        let code = format!("{:08}", u64::from_le_bytes(bytes) % 100_000_000);
        let until = Instant::now() + CONFIRMATION_LIFETIME;
        self.pages().confirmation =
            Some(Confirmation { code: code.clone(), until, tries_left: CONFIRMATION_TRIES });
        Ok(code)
    }

    /// Lets the page of this cookie change things, if `code` is the one that the user was shown. It works once.
    pub(crate) fn confirm(&self, cookie: &str, code: &str) -> bool {
        let digits: String = code.chars().filter(char::is_ascii_digit).collect();
        let mut pages = self.pages();
        let Some(confirmation) = &mut pages.confirmation else { return false };
        let is_right = confirmation.until > Instant::now() && is_same(&confirmation.code, &digits);
        confirmation.tries_left = confirmation.tries_left.saturating_sub(1);
        if is_right || confirmation.tries_left == 0 {
            pages.confirmation = None;
        }
        if is_right {
            let Pages { cookies, confirmed, .. } = &mut *pages;
            confirmed.retain(|known| cookies.contains_key(known));
            confirmed.insert(cookie.to_owned());
        }
        is_right
    }

    /// No longer lets the page of this cookie change things.
    pub(crate) fn unconfirm(&self, cookie: &str) {
        self.pages().confirmed.remove(cookie);
    }

    fn is_confirmed(&self, cookie: &str) -> bool {
        self.pages().confirmed.contains(cookie)
    }

    fn pages(&self) -> std::sync::MutexGuard<'_, Pages> {
        // No code panics while it holds this lock.
        self.pages.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

fn is_known(cookies: &HashMap<String, Instant>, cookie: &str) -> bool {
    let now = Instant::now();
    cookies.iter().any(|(known, until)| is_same(known, cookie) && *until > now)
}

/// Drops expired entries and makes room for one more.
fn trim(known: &mut HashMap<String, Instant>) {
    let now = Instant::now();
    known.retain(|_, until| *until > now);
    while known.len() >= MAX_PAGES {
        let Some(oldest) = known.iter().min_by_key(|(_, until)| **until).map(|(k, _)| k.clone()) else {
            return;
        };
        known.remove(&oldest);
    }
}

/// 256 random bits.
pub(crate) fn random_hex() -> std::io::Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    Ok(hex(&bytes))
}

fn csrf_of(token: &str, cookie: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(token.as_bytes());
    hash.update(b" csrf ");
    hash.update(cookie.as_bytes());
    hex(&hash.finalize())
}

/// Compares secrets of equal length in constant time.
fn is_same(a: &str, b: &str) -> bool {
    a.as_bytes().ct_eq(b.as_bytes()).into()
}

/// The page's cookie name. Browsers share cookies among all ports of a host, so the name contains ours.
pub(crate) fn cookie_name(port: u16) -> String {
    format!("baton-{port}")
}

/// Admits or refuses a request. The checks come in the order of the loopback rules.
pub(crate) fn admit(door: Transport, head: &Parts, secrets: &Secrets) -> Result<Proof, AuthRefusal> {
    let proof = match door {
        Transport::Unix { .. } => Proof::Owner,
        Transport::Http { port } => {
            let (host, is_proxied) = exact_host(head, port, &secrets.hosts)?;
            own_origin(&head.headers, host, is_proxied)?;
            own_site(&head.headers)?;
            proof(head, port, secrets)?
        }
    };
    form(head)?;
    Ok(proof)
}

/// Checks the invariant for any request: without a proof, the HTTP door admits a caller only to the files of the page,
/// which contain nothing of the user's, and to the login.
pub fn check_head(head: &Parts) {
    let token = "7".repeat(64);
    let secrets = Secrets::new(token.clone(), vec!["desk.example.org".to_owned()]);
    let bearer = format!("Bearer {token}");
    for door in [Transport::Unix { peer: None }, Transport::Http { port: 8420 }] {
        let Ok(proof) = admit(door, head, &secrets) else { continue };
        let is_file = head.method == Method::GET && page::is_asset(head.uri.path());
        if matches!(door, Transport::Http { .. }) && head.uri.path() != "/login" && !is_file {
            let sent = head.headers.get("authorization").and_then(|value| value.to_str().ok());
            assert!(proof != Proof::Anonymous && sent.is_some_and(|sent| sent.eq_ignore_ascii_case(&bearer)));
        }
        let _ = super::routes::find(&head.method, head.uri.path());
    }
}

/// The value of a header that may occur once. Refuses two values, because readers disagree about which one counts.
fn single(headers: &HeaderMap, name: HeaderName) -> Result<Option<&str>, AuthRefusal> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    if values.next().is_some() {
        return refuse(StatusCode::BAD_REQUEST, "a header that may come once came twice");
    }
    match first.map(|v| v.to_str()) {
        None => Ok(None),
        Some(Ok(text)) => Ok(Some(text)),
        Some(Err(_)) => refuse(StatusCode::BAD_REQUEST, "a header is not plain text"),
    }
}

/// The host that the request names, and whether it is that of a TLS proxy.
fn exact_host<'a>(head: &'a Parts, port: u16, hosts: &[String]) -> Result<(&'a str, bool), AuthRefusal> {
    const WRONG: &str = "this host is not served here";
    // An absolute address in the request line would override the header.
    if head.uri.authority().is_some() || head.uri.scheme().is_some() {
        return refuse(StatusCode::MISDIRECTED_REQUEST, WRONG);
    }
    let Some(host) = single(&head.headers, header::HOST)? else {
        return refuse(StatusCode::MISDIRECTED_REQUEST, WRONG);
    };
    match host.rsplit_once(':') {
        Some(("127.0.0.1" | "localhost", after)) if after == port.to_string() => Ok((host, false)),
        _ if hosts.iter().any(|known| known == host) => Ok((host, true)),
        _ => refuse(StatusCode::MISDIRECTED_REQUEST, WRONG),
    }
}

fn own_origin(headers: &HeaderMap, host: &str, is_proxied: bool) -> Result<(), AuthRefusal> {
    let scheme = if is_proxied { "https://" } else { "http://" };
    match single(headers, header::ORIGIN)? {
        None => Ok(()),
        Some(origin) if origin.strip_prefix(scheme) == Some(host) => Ok(()),
        Some(_) => refuse(StatusCode::FORBIDDEN, "pages of other origins are not served"),
    }
}

fn own_site(headers: &HeaderMap) -> Result<(), AuthRefusal> {
    match single(headers, HeaderName::from_static("sec-fetch-site"))? {
        None | Some("same-origin" | "none") => Ok(()),
        Some(_) => refuse(StatusCode::FORBIDDEN, "pages of other sites are not served"),
    }
}

fn proof(head: &Parts, port: u16, secrets: &Secrets) -> Result<Proof, AuthRefusal> {
    const WHO: &str = "send the token: Authorization: Bearer …; `baton serve --status` names its file";
    if let Some(value) = single(&head.headers, header::AUTHORIZATION)? {
        let token = value.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        return match token {
            Some((_, token)) if is_same(token, &secrets.token) => Ok(Proof::Token),
            _ => refuse(StatusCode::UNAUTHORIZED, WHO),
        };
    }
    let path = head.uri.path();
    // A page that logs in again may still have a cookie, but no longer its secret. The files of the page are the same
    // for everybody.
    let is_open = match head.method {
        Method::POST => path == "/login",
        Method::GET => page::is_asset(path),
        _ => false,
    };
    if is_open {
        return Ok(Proof::Anonymous);
    }
    if let Some(cookie) = cookie_of(&head.headers, port)?
        && secrets.knows_cookie(cookie)
    {
        return csrf(head, cookie, secrets);
    }
    refuse(StatusCode::UNAUTHORIZED, WHO)
}

/// The page's cookie, as it was sent.
pub(crate) fn cookie_of(headers: &HeaderMap, port: u16) -> Result<Option<&str>, AuthRefusal> {
    let name = cookie_name(port);
    let sent = single(headers, header::COOKIE)?.and_then(|cookies| {
        cookies.split("; ").filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name)
    });
    Ok(sent.map(|(_, cookie)| cookie))
}

/// Whether a request came through a TLS proxy of the user's.
pub(crate) fn is_proxied(headers: &HeaderMap, port: u16) -> bool {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    !matches!(host.rsplit_once(':'), Some(("127.0.0.1" | "localhost", after)) if after == port.to_string())
}

/// With the cookie, every request needs the secret that only our own page has, reads included: browsers also send the
/// cookie to other programs that serve pages on this host.
fn csrf(head: &Parts, cookie: &str, secrets: &Secrets) -> Result<Proof, AuthRefusal> {
    match single(&head.headers, CSRF)? {
        Some(secret) if is_same(secret, &csrf_of(&secrets.token, cookie)) => {
            Ok(Proof::Cookie { confirmed: secrets.is_confirmed(cookie) })
        }
        _ => refuse(StatusCode::FORBIDDEN, "with the cookie, a request needs the X-Baton-CSRF header"),
    }
}

/// Reads are GET, changes are POST with JSON. Nothing that a form or an image can send changes anything.
fn form(head: &Parts) -> Result<(), AuthRefusal> {
    if head.headers.contains_key(header::UPGRADE) {
        return refuse(StatusCode::BAD_REQUEST, "no other protocol is spoken here");
    }
    let length = single(&head.headers, header::CONTENT_LENGTH)?;
    if length.is_some() && head.headers.contains_key(header::TRANSFER_ENCODING) {
        return refuse(StatusCode::BAD_REQUEST, "the body has two lengths");
    }
    if head.method == Method::GET {
        let has_body =
            length.is_some_and(|l| l != "0") || head.headers.contains_key(header::TRANSFER_ENCODING);
        return if has_body { refuse(StatusCode::BAD_REQUEST, "GET takes no body") } else { Ok(()) };
    }
    if head.method != Method::POST {
        return refuse(StatusCode::METHOD_NOT_ALLOWED, "GET reads, POST changes; there is no other method");
    }
    let kind = single(&head.headers, header::CONTENT_TYPE)?.unwrap_or_default();
    let (kind, options) = kind.split_once(';').unwrap_or((kind, ""));
    let options = options.trim();
    if !kind.trim().eq_ignore_ascii_case("application/json")
        || !(options.is_empty() || options.eq_ignore_ascii_case("charset=utf-8"))
    {
        return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "changes are application/json");
    }
    if single(&head.headers, header::CONTENT_ENCODING)?.is_some() {
        return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "bodies are sent as they are");
    }
    match length.map(str::parse::<usize>) {
        Some(Ok(n)) if n <= MAX_BODY => Ok(()),
        Some(Ok(_)) => refuse(StatusCode::PAYLOAD_TOO_LARGE, "a body has at most 1 MiB"),
        Some(Err(_)) => refuse(StatusCode::BAD_REQUEST, "the length of the body is not a number"),
        // A chunked body, which no JSON sender needs.
        None => refuse(StatusCode::LENGTH_REQUIRED, "say how long the body is: Content-Length"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_works_once_and_its_cookie_is_known_afterwards() {
        let secrets = Secrets::new("t".into(), Vec::new());
        let code = secrets.new_code().unwrap();
        assert!(secrets.exchange("wrong", None).is_none());
        let (cookie, csrf) = secrets.exchange(&code, Some("unknown")).unwrap();
        assert_ne!(cookie, "unknown", "a cookie is ours to choose");
        assert!(secrets.exchange(&code, None).is_none(), "a second page got in by the same code");
        let again = secrets.exchange(&secrets.new_code().unwrap(), Some(&cookie)).unwrap();
        assert_eq!(again, (cookie.clone(), csrf.clone()), "a second tab keeps the first logged in");
        assert!(secrets.knows_cookie(&cookie) && !secrets.knows_cookie(&csrf));
        for _ in 0..40 {
            let code = secrets.new_code().unwrap();
            secrets.exchange(&code, None).unwrap();
        }
        assert!(secrets.pages().cookies.len() <= MAX_PAGES, "cookies pile up");
    }

    #[test]
    fn a_confirmation_works_once_for_the_page_that_typed_it_and_dies_of_guesses() {
        let secrets = Secrets::new("t".into(), Vec::new());
        assert!(!secrets.confirm("page", "00000000"), "there is none");
        let code = secrets.new_confirmation().unwrap();
        let typed = format!("{} {}", &code[..4], &code[4..]);
        assert!(secrets.confirm("page", &typed));
        assert!(secrets.is_confirmed("page") && !secrets.is_confirmed("other"));
        assert!(!secrets.confirm("other", &code), "it works once");
        secrets.unconfirm("page");
        assert!(!secrets.is_confirmed("page"));
        let code = secrets.new_confirmation().unwrap();
        for _ in 0..CONFIRMATION_TRIES {
            assert!(!secrets.confirm("page", "1"));
        }
        assert!(!secrets.confirm("page", &code), "it can be guessed");
    }

    #[test]
    fn secrets_are_equal_only_as_a_whole() {
        assert!(is_same("abc", "abc"));
        for other in ["", "ab", "abd", "abcd", "ABC"] {
            assert!(!is_same("abc", other), "{other}");
        }
        assert_ne!(random_hex().unwrap(), random_hex().unwrap());
        assert_eq!(random_hex().unwrap().len(), 64);
    }
}
