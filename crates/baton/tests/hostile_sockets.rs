//! Promise 12, at the level of sockets: connections that are opened and then neither written to nor read from, and
//! programs that occupy our port. None of them keeps others out or learns anything.

use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use baton_testkit::Home;
use baton_testkit::daemon::Served;
use baton_testkit::load;
use rustix::net::{AddressFamily, SocketType, connect, socket, sockopt};
use serde_json::json;

use crate::BATON;
use baton_testkit::wait::wait_until;

/// More connections than there are slots.
const MANY: usize = 130;

/// Keeps the receive window small, so that little of an answer is in flight.
fn connect_tcp(address: &str) -> TcpStream {
    let stream = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    sockopt::set_socket_recv_buffer_size(&stream, 4096).unwrap();
    connect(&stream, &address.parse::<SocketAddr>().unwrap()).unwrap();
    stream.into()
}

fn connect_unix(path: &Path) -> UnixStream {
    UnixStream::connect(path).unwrap()
}

/// Asks for much more than the kernel buffers, and reads nothing.
fn ask_without_reading<S: Write>(mut stream: S, head: &str) -> S {
    stream.write_all(head.repeat(64).as_bytes()).unwrap();
    stream
}

fn head(served: &Served<'_>) -> String {
    let (at, token) = (served.http.as_deref().unwrap(), served.token());
    format!("GET /sessions HTTP/1.1\r\nHost: {at}\r\nAuthorization: Bearer {token}\r\n\r\n")
}

/// How many sockets the daemon has open after its start.
fn own_sockets(home: &Home, served: &Served<'_>) -> usize {
    crate::serve::wait_until_all_has_begun(home);
    sockets(served)
}

fn sockets(served: &Served<'_>) -> usize {
    let fds = std::fs::read_dir(format!("/proc/{}/fd", served.pid())).unwrap().flatten();
    fds.filter(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| to.to_string_lossy().starts_with("socket:")))
        .count()
}

#[track_caller]
fn both_doors_answer(served: &Served<'_>) {
    let (at, token) = (served.http.as_deref().unwrap(), format!("Bearer {}", served.token()));
    let headers = [("Host", at), ("Authorization", &token)];
    assert_eq!(served.tcp().ask("GET", "/health", &headers, None).unwrap().status, 200);
    assert_eq!(served.get("/health")["status"], "ok");
    // A new message is written to disk, and is still accepted.
    let body = json!({ "text": "hello" });
    let sent = served.tcp().ask("POST", "/sessions/load-0/messages", &headers, Some(&body)).unwrap();
    assert_eq!(sent.status, 200);
}

#[test]
fn connections_that_never_read_their_answers_shut_neither_door() {
    let home = Home::in_memory(BATON);
    load::populate(&home, 1000);
    let served = Served::on_http(&home);
    let (at, head) = (served.http.clone().unwrap(), head(&served));
    let _tcp: Vec<TcpStream> = (0..MANY).map(|_| ask_without_reading(connect_tcp(&at), &head)).collect();
    both_doors_answer(&served);
    let _unix: Vec<UnixStream> =
        (0..MANY).map(|_| ask_without_reading(connect_unix(&served.socket()), &head)).collect();
    both_doors_answer(&served);
    // Each listing has 700 KB. The daemon holds at most 32 MiB of unread answers for each socket.
    let anonymous = load::figure(served.pid(), "RssAnon");
    assert!(anonymous <= 10 * 64 * 1024, "{anonymous} KiB");
}

#[test]
fn an_answer_that_nobody_reads_is_given_up_after_a_while() {
    let home = Home::in_memory(BATON);
    load::populate(&home, 1000);
    let served = Served::on_http(&home);
    let before = own_sockets(&home, &served);
    let (at, head) = (served.http.clone().unwrap(), head(&served));
    let tcp = ask_without_reading(connect_tcp(&at), &head);
    let unix = ask_without_reading(connect_unix(&served.socket()), &head);
    wait_until("the daemon has both connections", || sockets(&served) == before + 2);
    wait_until("it has closed both", || sockets(&served) == before);
    drop((tcp, unix));
}

/// Without a token there is one short answer per connection, so nobody can fill the kernel's buffers with refusals.
#[test]
fn a_refused_client_must_connect_again() {
    let home = Home::new(BATON);
    let served = Served::on_http(&home);
    let at = served.http.clone().unwrap();
    let mut wire = served.tcp();
    wire.say(format!("GET /health HTTP/1.1\r\nHost: {at}\r\n\r\n").repeat(2).as_bytes()).unwrap();
    let refused = wire.hear().unwrap();
    assert_eq!((refused.status, refused.header("connection")), (401, Some("close")));
    assert!(wire.hear().is_err(), "the second request was answered too");
}

/// Counts the connections that a listener has received so far.
fn visitors(listener: &TcpListener) -> usize {
    listener.set_nonblocking(true).unwrap();
    let mut count = 0;
    loop {
        match listener.accept() {
            Ok(_) => count += 1,
            Err(e) if e.kind() == ErrorKind::WouldBlock => return count,
            Err(e) => panic!("{e}"),
        }
    }
}

/// After a daemon was killed, another program takes its port. None of our commands connects to it, so none can leak the
/// token; the next daemon reports who has the port, and has another token.
#[test]
fn a_squatter_on_the_port_never_hears_from_us() {
    let home = Home::in_memory(BATON);
    load::populate(&home, 1);
    let killed = Served::on_http(&home);
    let (at, old) = (killed.http.clone().unwrap(), killed.token());
    let port = at.rsplit_once(':').unwrap().1.to_owned();
    killed.kill();
    let squatter = TcpListener::bind(&at).unwrap();
    let squatter6 = TcpListener::bind(format!("[::1]:{port}")).ok();
    home.write(".config/baton/config.toml", format!("[serve]\nhttp = {port}\n"));
    for (command, code) in [
        ("serve", 1),
        ("serve --detach", 1),
        ("serve --status", 3),
        ("serve --stop", 3),
        ("send load-0 hello --notify", 1),
    ] {
        let ran = home.run(command);
        assert_eq!(ran.code, Some(code), "{command}: {ran:?}");
    }
    for command in
        ["agents", "status --all", "inbox load-0", "doctor", "log", "config", "handoffs", "wait load-0"]
    {
        home.run(command);
    }
    assert_eq!(visitors(&squatter), 0);
    assert_eq!(squatter6.as_ref().map_or(0, visitors), 0);
    // With another port a daemon runs beside the squatter, which still receives nothing.
    let served = Served::on_http(&home);
    assert_ne!(served.token(), old);
    for command in ["serve --status", "send load-0 hello --notify", "agents", "status --all", "serve --stop"]
    {
        home.run(command).ok();
    }
    assert_eq!(visitors(&squatter), 0);
}

/// Scripts that ask for `localhost` may try `[::1]` first, so nobody else may listen there.
#[test]
fn the_port_is_ours_on_every_loopback_address() {
    let home = Home::new(BATON);
    let served = Served::on_http(&home);
    let port = served.http.as_deref().unwrap().rsplit_once(':').unwrap().1.to_owned();
    if TcpListener::bind("[::1]:0").is_err() {
        baton_testkit::tools::skip("there is no IPv6 here");
        return;
    }
    for address in ["127.0.0.1", "0.0.0.0", "[::1]", "[::]"] {
        let taken = TcpListener::bind(format!("{address}:{port}")).map(|_| ()).unwrap_err();
        assert_eq!(taken.kind(), ErrorKind::AddrInUse, "{address}");
    }
    let refused = TcpStream::connect(format!("[::1]:{port}")).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "clients go on to 127.0.0.1 at once");
    // A client that connects by name reaches the daemon.
    assert!(TcpStream::connect(format!("localhost:{port}")).unwrap().as_fd().try_clone_to_owned().is_ok());
}
