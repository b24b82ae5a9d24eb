//! Who may ask. Decided from the head of a request alone, before a byte of its body is read.
//!
//! The loopback port is hostile ground: every web page the user visits can send requests to it. So a request there
//! must name us exactly as its host, must not come from a page of another origin, and must carry the token, or the
//! cookie of a page that proved itself with a one-time code. The unix socket needs none of this: only its owner's
//! processes get through its folder, and the other end's uid is checked when it connects.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use hyper::header::{self, HeaderMap, HeaderName};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};
use sha2::{Digest as _, Sha256};

/// The largest body that is read.
pub const MAX_BODY: usize = 1 << 20;
/// The page's proof that it can read our answers; cookies alone prove nothing.
pub const CSRF: HeaderName = HeaderName::from_static("x-baton-csrf");
/// How long a one-time code may wait for its page.
const CODE_LIVES: Duration = Duration::from_mins(1);
const COOKIE_LIVES: Duration = Duration::from_hours(12);
/// More than a user opens; older ones go first.
const MOST_PAGES: usize = 16;

/// Where a request came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    Unix,
    Http { port: u16 },
}

/// How the asker proved who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// Through the unix socket: the user's own process.
    Owner,
    Token,
    Cookie,
    /// None yet: may only exchange a code.
    Nobody,
}

/// Why not. Says nothing that an attacker could use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    pub status: StatusCode,
    pub why: &'static str,
}

fn refuse<T>(status: StatusCode, why: &'static str) -> Result<T, Refusal> {
    Err(Refusal { status, why })
}

/// The token and the pages that have proved themselves.
pub struct Secrets {
    token: String,
    pages: Mutex<Pages>,
}

#[derive(Default)]
struct Pages {
    codes: HashMap<String, Instant>,
    cookies: HashMap<String, Instant>,
}

impl Secrets {
    pub fn new(token: String) -> Self {
        Self { token, pages: Mutex::default() }
    }

    /// A code that one page may exchange for a cookie, once, soon.
    pub fn new_code(&self) -> std::io::Result<String> {
        let code = random_hex()?;
        let mut pages = self.pages();
        trim(&mut pages.codes);
        pages.codes.insert(code.clone(), Instant::now() + CODE_LIVES);
        Ok(code)
    }

    /// The cookie and its CSRF word, for a code that is good. A code works once.
    pub fn exchange(&self, code: &str) -> Option<(String, String)> {
        let mut pages = self.pages();
        trim(&mut pages.codes);
        let known = pages.codes.keys().find(|known| same(known, code)).cloned()?;
        pages.codes.remove(&known);
        let cookie = random_hex().ok()?;
        trim(&mut pages.cookies);
        pages.cookies.insert(cookie.clone(), Instant::now() + COOKIE_LIVES);
        let csrf = csrf_of(&self.token, &cookie);
        Some((cookie, csrf))
    }

    fn knows_cookie(&self, cookie: &str) -> bool {
        let now = Instant::now();
        self.pages().cookies.iter().any(|(known, until)| same(known, cookie) && *until > now)
    }

    fn pages(&self) -> std::sync::MutexGuard<'_, Pages> {
        // Nothing can panic while it is held; a poisoned one would still be whole.
        self.pages.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

fn trim(known: &mut HashMap<String, Instant>) {
    let now = Instant::now();
    known.retain(|_, until| *until > now);
    while known.len() >= MOST_PAGES {
        let Some(oldest) = known.iter().min_by_key(|(_, until)| **until).map(|(k, _)| k.clone()) else {
            return;
        };
        known.remove(&oldest);
    }
}

/// 256 bits that nobody can guess.
pub fn random_hex() -> std::io::Result<String> {
    use std::io::Read as _;
    let mut bytes = [0; 32];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(hex(&bytes))
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(64), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn csrf_of(token: &str, cookie: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(token.as_bytes());
    hash.update(b" csrf ");
    hash.update(cookie.as_bytes());
    hex(&hash.finalize())
}

/// Equal? Takes as long for a wrong first character as for a wrong last one.
fn same(a: &str, b: &str) -> bool {
    let differs = a.bytes().zip(b.bytes()).fold(0, |seen, (a, b)| std::hint::black_box(seen | (a ^ b)));
    a.len() == b.len() && std::hint::black_box(differs) == 0
}

/// The name of the page's cookie. Browsers share cookies among all ports of a host, so it carries ours.
pub fn cookie_name(port: u16) -> String {
    format!("baton-{port}")
}

/// May this request go on? The order is that of the loopback rules.
pub fn admit(door: Door, head: &Parts, secrets: &Secrets) -> Result<Proof, Refusal> {
    let proof = match door {
        Door::Unix => Proof::Owner,
        Door::Http { port } => {
            let host = exact_host(head, port)?;
            own_origin(&head.headers, host)?;
            own_site(&head.headers)?;
            proof(head, port, secrets)?
        }
    };
    form(head)?;
    Ok(proof)
}

/// The one value of a header; two are as bad as a wrong one.
fn one(headers: &HeaderMap, name: HeaderName) -> Result<Option<&str>, Refusal> {
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

fn exact_host(head: &Parts, port: u16) -> Result<&str, Refusal> {
    const WRONG: &str = "this host is not served here";
    // A whole address in the first line would overrule the header.
    if head.uri.authority().is_some() || head.uri.scheme().is_some() {
        return refuse(StatusCode::MISDIRECTED_REQUEST, WRONG);
    }
    let Some(host) = one(&head.headers, header::HOST)? else {
        return refuse(StatusCode::MISDIRECTED_REQUEST, WRONG);
    };
    match host.rsplit_once(':') {
        Some(("127.0.0.1" | "localhost", after)) if after == port.to_string() => Ok(host),
        _ => refuse(StatusCode::MISDIRECTED_REQUEST, WRONG),
    }
}

fn own_origin(headers: &HeaderMap, host: &str) -> Result<(), Refusal> {
    match one(headers, header::ORIGIN)? {
        None => Ok(()),
        Some(origin) if origin.strip_prefix("http://") == Some(host) => Ok(()),
        Some(_) => refuse(StatusCode::FORBIDDEN, "pages of other origins are not served"),
    }
}

fn own_site(headers: &HeaderMap) -> Result<(), Refusal> {
    match one(headers, HeaderName::from_static("sec-fetch-site"))? {
        None | Some("same-origin" | "none") => Ok(()),
        Some(_) => refuse(StatusCode::FORBIDDEN, "pages of other sites are not served"),
    }
}

fn proof(head: &Parts, port: u16, secrets: &Secrets) -> Result<Proof, Refusal> {
    const WHO: &str = "send the token: Authorization: Bearer …; `baton serve --status` names its file";
    if let Some(value) = one(&head.headers, header::AUTHORIZATION)? {
        let token = value.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        return match token {
            Some((_, token)) if same(token, &secrets.token) => Ok(Proof::Token),
            _ => refuse(StatusCode::UNAUTHORIZED, WHO),
        };
    }
    let name = cookie_name(port);
    let sent = one(&head.headers, header::COOKIE)?.and_then(|cookies| {
        cookies.split("; ").filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name)
    });
    if let Some((_, cookie)) = sent
        && secrets.knows_cookie(cookie)
    {
        return csrf(head, cookie, secrets);
    }
    if head.method == Method::POST && head.uri.path() == "/login" {
        return Ok(Proof::Nobody);
    }
    refuse(StatusCode::UNAUTHORIZED, WHO)
}

/// With the cookie a change needs the word that only our own page could read.
fn csrf(head: &Parts, cookie: &str, secrets: &Secrets) -> Result<Proof, Refusal> {
    if head.method == Method::GET {
        return Ok(Proof::Cookie);
    }
    match one(&head.headers, CSRF)? {
        Some(word) if same(word, &csrf_of(&secrets.token, cookie)) => Ok(Proof::Cookie),
        _ => refuse(StatusCode::FORBIDDEN, "a page's change needs its X-Baton-CSRF header"),
    }
}

/// Reading is GET; changing is POST with JSON. Nothing that a form or an image can send changes anything.
fn form(head: &Parts) -> Result<(), Refusal> {
    if head.headers.contains_key(header::UPGRADE) {
        return refuse(StatusCode::BAD_REQUEST, "there is no other protocol here");
    }
    let length = one(&head.headers, header::CONTENT_LENGTH)?;
    if length.is_some() && head.headers.contains_key(header::TRANSFER_ENCODING) {
        return refuse(StatusCode::BAD_REQUEST, "the body has two lengths");
    }
    if head.method == Method::GET {
        let has_body =
            length.is_some_and(|l| l != "0") || head.headers.contains_key(header::TRANSFER_ENCODING);
        return if has_body { refuse(StatusCode::BAD_REQUEST, "GET takes no body") } else { Ok(()) };
    }
    if head.method != Method::POST {
        return refuse(StatusCode::METHOD_NOT_ALLOWED, "GET reads, POST changes; nothing else is known here");
    }
    let kind = one(&head.headers, header::CONTENT_TYPE)?.unwrap_or_default();
    let (kind, options) = kind.split_once(';').unwrap_or((kind, ""));
    let options = options.trim();
    if !kind.trim().eq_ignore_ascii_case("application/json")
        || !(options.is_empty() || options.eq_ignore_ascii_case("charset=utf-8"))
    {
        return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "changes are application/json");
    }
    if one(&head.headers, header::CONTENT_ENCODING)?.is_some() {
        return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "bodies are sent as they are");
    }
    match length.map(str::parse::<usize>) {
        Some(Ok(n)) if n <= MAX_BODY => Ok(()),
        Some(Ok(_)) => refuse(StatusCode::PAYLOAD_TOO_LARGE, "a body has at most 1 MiB"),
        Some(Err(_)) => refuse(StatusCode::BAD_REQUEST, "the length of the body is no number"),
        // In pieces of any number: nobody who sends JSON needs that.
        None => refuse(StatusCode::LENGTH_REQUIRED, "say how long the body is: Content-Length"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_works_once_and_its_cookie_is_known_afterwards() {
        let secrets = Secrets::new("t".into());
        let code = secrets.new_code().unwrap();
        assert!(secrets.exchange("wrong").is_none());
        let (cookie, csrf) = secrets.exchange(&code).unwrap();
        assert!(secrets.exchange(&code).is_none(), "a second page got in by the same code");
        assert!(secrets.knows_cookie(&cookie) && !secrets.knows_cookie(&csrf));
        for _ in 0..40 {
            let code = secrets.new_code().unwrap();
            secrets.exchange(&code).unwrap();
        }
        assert!(secrets.pages().cookies.len() <= MOST_PAGES, "cookies pile up");
    }

    #[test]
    fn tokens_are_equal_only_as_a_whole() {
        assert!(same("abc", "abc"));
        for other in ["", "ab", "abd", "abcd", "ABC"] {
            assert!(!same("abc", other), "{other}");
        }
        assert_ne!(random_hex().unwrap(), random_hex().unwrap());
        assert_eq!(random_hex().unwrap().len(), 64);
    }
}
