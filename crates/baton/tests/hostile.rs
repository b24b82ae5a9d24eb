//! Promise 12: no web page, other uid or other host can read or change anything. Sends a list of requests that must all
//! be refused before their body is read.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use baton_testkit::daemon::{Answered, Served, Wire};
use baton_testkit::hooks::Client;
use baton_testkit::{Home, tools};
use serde_json::json;

use crate::BATON;

/// The parts of a request; each row of the table changes one thing in a valid one.
struct Request {
    line: String,
    headers: Vec<(String, String)>,
}

impl Request {
    fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(n, _)| !n.eq_ignore_ascii_case(name));
        self.headers.push((name.into(), value.into()));
        self
    }

    fn also(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(n, _)| !n.eq_ignore_ascii_case(name));
        self
    }

    fn line(mut self, line: &str) -> Self {
        line.clone_into(&mut self.line);
        self
    }

    fn head(&self) -> String {
        let headers: Vec<String> = self.headers.iter().map(|(n, v)| format!("{n}: {v}\r\n")).collect();
        format!("{}\r\n{}\r\n", self.line, headers.concat())
    }
}

/// The head of a message to an agent, as a script with the token sends it; a body of 40 bytes would follow.
fn post(at: &str, token: &str) -> Request {
    let headers = [
        ("Host", at),
        ("Authorization", &format!("Bearer {token}")),
        ("Content-Type", "application/json"),
        ("Content-Length", "40"),
    ];
    Request {
        line: "POST /sessions/app/messages HTTP/1.1".into(),
        headers: headers.map(|(n, v)| (n.to_owned(), v.to_owned())).into(),
    }
}

fn get(at: &str, token: &str) -> Request {
    post(at, token).line("GET /sessions HTTP/1.1").without("Content-Type").without("Content-Length")
}

/// The answer to a head whose body never comes, or `None` if the connection was closed without one.
fn answer(address: &str, bytes: &[u8]) -> Option<Answered> {
    let mut wire = Wire::tcp(address).unwrap();
    wire.say(bytes).ok()?;
    wire.hear().ok()
}

#[test]
fn every_hostile_request_is_refused_before_its_body_is_read() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup").silent();
    let served = Served::on_http(&home);
    let at = served.http.clone().unwrap();
    let port = at.rsplit_once(':').unwrap().1.to_owned();
    let token = served.token();
    let local = format!("localhost:{port}");
    let other_port = format!("localhost:{}", port.parse::<u16>().unwrap() ^ 1);

    // A page that the user opened: its cookie is valid, but a code that was used is not.
    let code = served.post("/codes", &json!({}))["code"].as_str().unwrap().to_owned();
    let login = |code: &str| {
        let mut wire = served.tcp();
        wire.ask("POST", "/login", &[("Host", &at)], Some(&json!({ "code": code }))).unwrap()
    };
    let page = login(&code);
    assert_eq!(page.status, 200, "{page:?}");
    let csrf = page.json()["csrf"].as_str().unwrap().to_owned();
    let set = page.header("set-cookie").unwrap().to_owned();
    assert!(set.contains("; httponly; samesite=strict; path=/"), "{set}");
    let cookie = set.split(';').next().unwrap().to_owned();
    assert_eq!(login(&code).status, 403, "a code works once");

    let p = || post(&at, &token);
    let g = || get(&at, &token);
    let cookie_post = || p().without("Authorization").header("Cookie", &cookie);
    let fake = |n: usize| "0".repeat(n);
    let rows: Vec<(&str, Request)> = vec![
        // Host: rebinding, other names and other spellings of us.
        ("host missing", p().without("Host")),
        ("host missing, HTTP/1.0", g().without("Host").line("GET /sessions HTTP/1.0")),
        ("host empty", p().header("Host", "")),
        ("host of another site", p().header("Host", "evil.example")),
        ("host of another site with our port", p().header("Host", &format!("evil.example:{port}"))),
        ("host without its port", p().header("Host", "localhost")),
        ("address without its port", p().header("Host", "127.0.0.1")),
        ("host with another port", p().header("Host", &other_port)),
        (
            "our address as the name of another site",
            p().header("Host", &format!("127.0.0.1.evil.example:{port}")),
        ),
        ("our name below another site", p().header("Host", &format!("localhost.evil.example:{port}"))),
        ("host 0.0.0.0", p().header("Host", &format!("0.0.0.0:{port}"))),
        ("host [::1]", p().header("Host", &format!("[::1]:{port}"))),
        ("host 127.1", p().header("Host", &format!("127.1:{port}"))),
        ("host as one number", p().header("Host", &format!("2130706433:{port}"))),
        ("host with a dot behind", p().header("Host", &format!("localhost.:{port}"))),
        ("host in capitals", p().header("Host", &format!("LOCALHOST:{port}"))),
        ("host with a user", p().header("Host", &format!("a@localhost:{port}"))),
        ("two hosts", p().also("Host", &format!("evil.example:{port}"))),
        ("whole address of another site", g().line("GET http://evil.example/sessions HTTP/1.1")),
        ("whole address of ours", g().line(&format!("GET http://{at}/sessions HTTP/1.1"))),
        // Origin: pages.
        ("origin of another site", p().header("Origin", "http://evil.example")),
        ("origin null", p().header("Origin", "null")),
        ("origin empty", p().header("Origin", "")),
        ("origin with https", p().header("Origin", &format!("https://{at}"))),
        ("origin without the port", p().header("Origin", "http://127.0.0.1")),
        ("origin of another port", p().header("Origin", "http://127.0.0.1:3000")),
        ("origin that begins like ours", p().header("Origin", &format!("http://{at}.evil.example"))),
        ("origin of the other spelling", p().header("Origin", &format!("http://{local}"))),
        ("origin of a file", p().header("Origin", "file://")),
        ("origin of an extension", p().header("Origin", "chrome-extension://abcdef")),
        ("two origins", p().header("Origin", &format!("http://{at}")).also("Origin", "http://evil.example")),
        ("reading from another origin", g().header("Origin", "http://evil.example")),
        // Sec-Fetch-Site, which browsers add by themselves.
        ("cross-site", g().header("Sec-Fetch-Site", "cross-site")),
        ("same-site, another port", g().header("Sec-Fetch-Site", "same-site")),
        ("a site word nobody knows", g().header("Sec-Fetch-Site", "friendly")),
        ("two site words", g().header("Sec-Fetch-Site", "none").also("Sec-Fetch-Site", "cross-site")),
        // The token.
        ("no token, reading", g().without("Authorization")),
        ("no token, changing", p().without("Authorization")),
        ("no token, health", g().without("Authorization").line("GET /health HTTP/1.1")),
        ("no token, description", g().without("Authorization").line("GET /openapi.json HTTP/1.1")),
        ("no token, events", g().without("Authorization").line("GET /events HTTP/1.1")),
        ("no token, no such path", g().without("Authorization").line("GET /nothing HTTP/1.1")),
        ("a wrong token", p().header("Authorization", &format!("Bearer {}", fake(64)))),
        ("the beginning of the token", p().header("Authorization", &format!("Bearer {}", &token[..63]))),
        ("the token and more", p().header("Authorization", &format!("Bearer {token}0"))),
        ("an empty token", p().header("Authorization", "Bearer ")),
        ("the token in capitals", p().header("Authorization", &format!("Bearer {}", token.to_uppercase()))),
        ("the token as a password", p().header("Authorization", &format!("Basic {token}"))),
        ("the token without a scheme", p().header("Authorization", &token)),
        ("two tokens", p().also("Authorization", &format!("Bearer {}", fake(64)))),
        (
            "the token in the query",
            g().without("Authorization").line(&format!("GET /sessions?token={token} HTTP/1.1")),
        ),
        (
            "the token as a cookie",
            g().without("Authorization").header("Cookie", &format!("baton-{port}={token}")),
        ),
        ("the token in another header", g().without("Authorization").header("X-Token", &token)),
        // The page's cookie.
        (
            "a cookie of nobody",
            g().without("Authorization").header("Cookie", &format!("baton-{port}={}", fake(64))),
        ),
        (
            "the cookie under another name",
            g().without("Authorization").header("Cookie", &cookie.replace("baton", "other")),
        ),
        ("the cookie without the page's secret", cookie_post()),
        // Another program on another port of this host can serve a page, whose requests carry our cookie.
        ("reading with the cookie alone", g().without("Authorization").header("Cookie", &cookie)),
        ("the cookie with a wrong secret", cookie_post().header("X-Baton-CSRF", &fake(64))),
        (
            "the cookie with itself as the secret",
            cookie_post().header("X-Baton-CSRF", cookie.split_once('=').unwrap().1),
        ),
        (
            "the cookie from another origin",
            cookie_post().header("X-Baton-CSRF", &csrf).header("Origin", "http://evil.example"),
        ),
        (
            "the cookie asking for another code",
            cookie_post()
                .header("X-Baton-CSRF", &csrf)
                .line("POST /codes HTTP/1.1")
                .header("Content-Length", "2"),
        ),
        // Methods and forms: requests that a page can send without a preflight, and the preflight itself.
        (
            "a preflight",
            p().line("OPTIONS /sessions/app/messages HTTP/1.1")
                .header("Origin", &format!("http://{at}"))
                .header("Access-Control-Request-Method", "POST")
                .without("Content-Type")
                .without("Content-Length"),
        ),
        ("PUT", p().line("PUT /sessions/app/messages HTTP/1.1")),
        ("DELETE", p().line("DELETE /sessions/app HTTP/1.1")),
        ("PATCH", p().line("PATCH /sessions/app HTTP/1.1")),
        ("TRACE", g().line("TRACE /sessions HTTP/1.1")),
        ("CONNECT", g().line("CONNECT evil.example:443 HTTP/1.1")),
        ("a change by GET", g().line("GET /hooks/context-usage?session_id=app&used_percentage=90 HTTP/1.1")),
        (
            "a change by GET that says it is POST",
            g().line("GET /stop HTTP/1.1").header("X-HTTP-Method-Override", "POST"),
        ),
        ("text/plain", p().header("Content-Type", "text/plain")),
        ("a form", p().header("Content-Type", "application/x-www-form-urlencoded")),
        ("a form of parts", p().header("Content-Type", "multipart/form-data; boundary=x")),
        ("no type", p().without("Content-Type")),
        ("text that mentions JSON", p().header("Content-Type", "text/plain; application/json")),
        ("JSON in another alphabet", p().header("Content-Type", "application/json; charset=utf-7")),
        ("nearly JSON", p().header("Content-Type", "application/jsonp")),
        ("two types", p().also("Content-Type", "text/plain")),
        ("packed", p().header("Content-Encoding", "gzip")),
        // Sizes and frames.
        ("a body of more than 1 MiB", p().header("Content-Length", "1048577")),
        ("a body of more than the machine", p().header("Content-Length", "99999999999999999999")),
        ("a body of less than nothing", p().header("Content-Length", "-1")),
        ("a body of two lengths", p().header("Transfer-Encoding", "chunked")),
        ("two lengths", p().also("Content-Length", "41")),
        ("a body of no length", p().without("Content-Length")),
        ("a body in pieces", p().without("Content-Length").header("Transfer-Encoding", "chunked")),
        ("GET with a body", g().header("Content-Length", "10")),
        ("a head of more than 16 KiB", g().header("X-Long", &"x".repeat(17 << 10))),
        ("a path of more than 16 KiB", g().line(&format!("GET /{} HTTP/1.1", "x".repeat(17 << 10)))),
        ("two hundred headers", (0..200).fold(g(), |r, n| r.also(&format!("X-{n}"), "x"))),
        ("another protocol", g().header("Upgrade", "websocket").header("Connection", "Upgrade")),
        ("to stop by the port", p().line("POST /stop HTTP/1.1")),
        ("out of the house", g().line("GET /sessions/../../../../etc/passwd HTTP/1.1")),
        ("out of the house, in disguise", g().line("GET /sessions/%2e%2e%2f%2e%2e%2fetc%2fpasswd HTTP/1.1")),
        ("a name with a break in it", g().line("GET /sessions/a%0d%0ab HTTP/1.1")),
    ];
    let raw: Vec<(&str, Vec<u8>)> = vec![
        ("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec()),
        ("TLS", vec![0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, b'\r', b'\n', b'\r', b'\n']),
        ("noise", b"\0\0\0\0\r\n\r\n".to_vec()),
        ("a header folded into two lines", {
            let mut bytes = g().head().into_bytes();
            bytes.splice(bytes.len() - 2.., *b"X-A: b\r\n Host: evil.example\r\n\r\n");
            bytes
        }),
    ];

    // The unchanged request is accepted, so each refusal is due to the one change in its row.
    let body = json!({ "text": "as a friend would send it" });
    let fine = served.tcp().ask(
        "POST",
        "/sessions/app/messages",
        &[("Host", &local), ("Authorization", &format!("Bearer {token}"))],
        Some(&body),
    );
    assert_eq!(fine.unwrap().status, 200);
    for kind in ["same-origin", "none"] {
        assert_eq!(answer(&at, g().header("Sec-Fetch-Site", kind).head().as_bytes()).unwrap().status, 200);
    }
    let own = g().header("Origin", &format!("http://{at}"));
    assert_eq!(answer(&at, own.head().as_bytes()).unwrap().status, 200);
    let page_get = g().without("Authorization").header("Cookie", &cookie).header("X-Baton-CSRF", &csrf);
    assert_eq!(answer(&at, page_get.head().as_bytes()).unwrap().status, 200);
    let page = [("Host", at.as_str()), ("Cookie", &cookie), ("X-Baton-CSRF", &csrf)];
    // By itself a page only looks; the user lets it change things, by a code of their own.
    let asks =
        |path: &str, body: &serde_json::Value| served.tcp().ask("POST", path, &page, Some(body)).unwrap();
    let refused = asks("/sessions/app/messages", &body);
    assert_eq!(refused.status, 403, "{refused:?}");
    let digits = served.post("/confirmations", &json!({}))["code"].clone();
    assert_eq!(asks("/confirmations", &json!({})).status, 403, "a page cannot make the code for itself");
    assert_eq!(asks("/page/confirm", &json!({ "code": "1" })).status, 403);
    assert_eq!(asks("/page/confirm", &json!({ "code": digits })).status, 200);
    assert_eq!(asks("/page/confirm", &json!({ "code": digits })).status, 403, "it works once");
    assert_eq!(asks("/sessions/app/messages", &body).status, 200);
    assert_eq!(asks("/page/look", &json!({})).status, 200);
    assert_eq!(asks("/sessions/app/messages", &body).status, 403, "it only looks again");
    let before = served.get("/sessions/app")["mail"].clone();
    assert_eq!(before, 2);

    let count = rows.len() + raw.len();
    assert!(count >= 60, "{count}");
    let rows = rows.iter().map(|(name, request)| (*name, request.head().into_bytes()));
    for (name, bytes) in rows.chain(raw) {
        let began = Instant::now();
        let answered = answer(&at, &bytes);
        // A server that waited for the body would have given up after five seconds.
        assert!(began.elapsed() < Duration::from_secs(4), "{name}: it waited for the body");
        let Some(answered) = answered else { continue };
        assert!((400..500).contains(&answered.status), "{name}: {answered:?}");
        assert_ne!(answered.status, 408, "{name}: it waited for the body");
        assert!(!answered.head.contains("access-control-"), "{name}: {}", answered.head);
        assert_eq!(answered.status == 405, answered.header("allow").is_some(), "{name}: {}", answered.head);
        let body = String::from_utf8_lossy(&answered.body).into_owned();
        assert!(!body.contains("\"app\"") && !body.contains(&token), "{name}: {body}");
    }
    assert_eq!(served.get("/sessions/app")["mail"], before, "a hostile request was carried out");
    assert_eq!(served.get("/health")["status"], "ok");
}

#[test]
fn no_answer_carries_a_cors_header_and_every_one_says_what_a_page_may_not_do() {
    let home = Home::new(BATON);
    let served = Served::on_http(&home);
    let at = served.http.clone().unwrap();
    for path in ["/health", "/sessions", "/nothing"] {
        let answered =
            answer(&at, get(&at, &served.token()).line(&format!("GET {path} HTTP/1.1")).head().as_bytes())
                .unwrap();
        assert!(!answered.head.contains("access-control-"), "{}", answered.head);
        assert_eq!(
            answered.header("content-security-policy"),
            Some("default-src 'none'; frame-ancestors 'none'")
        );
        assert_eq!(answered.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answered.header("cache-control"), Some("no-store"));
        assert_eq!(answered.header("cross-origin-resource-policy"), Some("same-origin"));
    }
}

/// Slow senders hold one slot each for five seconds; meanwhile the others are served.
#[test]
fn slow_heads_and_bodies_are_cut_off_and_hold_nobody_up() {
    let home = Home::new(BATON);
    let served = Served::on_http(&home);
    let at = served.http.clone().unwrap();
    let token = served.token();
    let began = Instant::now();
    let mut slow: Vec<Wire> = (0..100)
        .map(|n| {
            let mut wire = Wire::tcp(&at).unwrap();
            let head = post(&at, &token).head();
            let part = if n % 2 == 0 { &head[..head.len() - 2] } else { &head };
            wire.say(part.as_bytes()).unwrap();
            wire
        })
        .collect();
    assert_eq!(answer(&at, get(&at, &token).head().as_bytes()).unwrap().status, 200);
    assert_eq!(served.get("/health")["status"], "ok");
    for wire in &mut slow {
        let answered = wire.hear();
        assert!(answered.as_ref().map_or(true, |a| a.status == 408), "{answered:?}");
    }
    assert!(began.elapsed() < Duration::from_secs(25), "{:?}", began.elapsed());
    // So many connections that some must wait: none is lost, and the unix socket is unaffected.
    let held: Vec<Wire> = (0..200).map(|_| Wire::tcp(&at).unwrap()).collect();
    assert_eq!(served.get("/health")["status"], "ok");
    drop(held);
    assert_eq!(answer(&at, get(&at, &token).head().as_bytes()).unwrap().status, 200);
}

/// The folder keeps others out. Here it is opened to them, and still nobody gets in.
#[test]
fn another_user_is_refused_at_the_socket_even_where_the_folders_are_open() {
    if !rustix::process::geteuid().is_root() {
        tools::skip("only root can become another user");
        return;
    }
    if !tools::has(&["setpriv", "curl"]) {
        return;
    }
    let home = Home::new(BATON);
    let served = Served::new(&home);
    let socket = served.socket();
    let ask = |user: &str| {
        let mut command = std::process::Command::new("setpriv");
        command.args([&format!("--reuid={user}"), "--clear-groups", "curl", "-sS", "--unix-socket"]);
        let out = command.arg(&socket).arg("http://localhost/health").stdin(Stdio::null()).output().unwrap();
        (out.status.code(), String::from_utf8_lossy(&out.stdout).into_owned())
    };
    let (not_connected, empty_reply, reset) = (Some(7), Some(52), Some(56));
    assert_eq!(ask("65534"), (not_connected, String::new()), "the folder is closed");
    for dir in socket.ancestors().skip(1).take_while(|dir| dir.starts_with(home.path())) {
        std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o666)).unwrap();
    let (code, heard) = ask("65534");
    assert!(heard.is_empty(), "{heard}");
    // To curl, a connection that is closed at once looks like a failed one.
    assert!([empty_reply, reset, not_connected].contains(&code), "heard nothing: {code:?}");
    let writes = ["--reuid=65534", "--clear-groups", "test", "-w"];
    let is_let_in =
        std::process::Command::new("setpriv").args(writes).arg(&socket).status().unwrap().success();
    assert!(is_let_in, "the folder and the socket are open to others");
    assert!(ask("0").1.contains("\"ok\""), "the owner is served");
    // The next daemon makes the folder private again.
    served.kill();
    let _again = Served::new(&home);
    let mode = std::fs::metadata(home.state().join("run")).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o700);
}

/// Also where somebody has opened the state folder: each file and folder below is closed by itself.
#[test]
fn another_user_reads_and_changes_no_file_of_ours() {
    if !rustix::process::geteuid().is_root() {
        tools::skip("only root can become another user");
        return;
    }
    if !tools::has(&["setpriv", "find"]) {
        return;
    }
    let home = Home::new(BATON);
    let served = Served::new(&home);
    let client = Client::new(&home);
    client.answers(150_000);
    for event in ["SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", "PreCompact", "SessionEnd"] {
        client.hook(event).ok();
    }
    home.run("send app hello").ok();
    home.run("trust").ok();
    home.run("memory init").ok();
    home.run("remind --in 2h app look").ok();
    assert_eq!(served.get("/health")["status"], "ok");
    let open = |dir: &std::path::Path| {
        for dir in dir.ancestors().take_while(|dir| dir.starts_with(home.path())) {
            std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
    };
    let handoffs = home.path().join(".claude/handoff");
    open(&home.state());
    open(&handoffs);
    let (mut files, mut reached) = (0, Vec::new());
    for dir in [home.state(), handoffs] {
        for entry in std::fs::read_dir(&dir).unwrap() {
            files += 1;
            let mut find = std::process::Command::new("setpriv");
            find.args(["--reuid=65534", "--clear-groups", "find"]).arg(entry.unwrap().path());
            let out = find.args(["(", "-readable", "-o", "-writable", ")", "-print"]).output().unwrap();
            reached.extend(String::from_utf8_lossy(&out.stdout).lines().map(str::to_owned));
        }
    }
    assert!(files > 8, "only {files} are there");
    assert!(reached.is_empty(), "{reached:#?}");
    let mut find = std::process::Command::new("setpriv");
    let out = find.args(["--reuid=65534", "--clear-groups", "find"]).arg(home.project()).output().unwrap();
    assert!(!out.stdout.is_empty(), "the other user can look at what is open");
}
