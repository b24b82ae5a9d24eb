//! Several doors at once: each shows the request, and only one answer counts.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::mpsc::Receiver;

use baton::testing::Store;
use baton::testing::approvals::{self, ApprovalReply, Caller};
use baton_core::approval::{ClientReaction, Door, Grant};
use baton_testkit::daemon::{Served, Wire};
use baton_testkit::wait::wait_until;
use serde_json::json;

use super::{PATIENCE, bash, home, ran, started};

/// What the client finally did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Truth {
    Ran,
    Refused,
}

#[test]
fn one_of_several_doors_at_once_answers_and_the_record_agrees_with_the_client() {
    let rounds = if std::env::var_os("BATON_LONG").is_some() { 10_000 } else { 200 };
    let home = home();
    let client = started(&home);
    let store = Store { state: home.state(), claude: home.path().join(".claude") };
    let mut served = Served::on_http(&home);
    let mut states = std::collections::BTreeMap::new();
    for round in 0..rounds {
        let command = format!("make {round}");
        let hook = bash(&client, &command);
        let case = loop {
            if let Some(case) = approvals::waiting(&store, jiff::Timestamp::now()).unwrap().pop() {
                break case;
            }
        };
        // Requests survive the daemon.
        if round % 50 == 49 {
            served.kill();
            served = Served::on_http(&home);
        }
        let answer = |reply: ApprovalReply| {
            let now = jiff::Timestamp::now();
            approvals::answer(&store, &case, None, &Caller::User, Door::Cli, &reply, now).is_ok()
        };
        let token = format!("Bearer {}", served.token());
        let host = served.http.clone().unwrap();
        let post = |mut wire: Wire, headers: &[(&str, &str)], verdict: &str| {
            let body = json!({ "hash": case.id, "verdict": verdict, "reason": "no" });
            let path = format!("/approvals/{}", case.id);
            let code = wire.ask("POST", &path, headers, Some(&body)).unwrap().status;
            // Accepted, or too late; nothing else is expected.
            assert!([200, 404, 409].contains(&code), "{code}");
            code == 200
        };
        // A person at the terminal presses a key or does not; the client obeys whoever is first.
        let key = [None, Some(true), Some(false)][round % 3];
        let (allowed, also_allowed, denied, truth) = std::thread::scope(|scope| {
            let allow = scope.spawn(|| answer(ApprovalReply::Approve { grant: Grant::Once, input: None }));
            let deny = scope.spawn(|| post(served.unix(), &[], "deny"));
            let page = scope.spawn(|| {
                round % 2 == 1 && post(served.tcp(), &[("Host", &host), ("Authorization", &token)], "allow")
            });
            let terminal = scope.spawn(|| {
                // The key may come before the hook has answered or after it; both race with the doors.
                let pressed = key.filter(|_| round % 2 == 0);
                if pressed == Some(true) {
                    ran(&client, &command);
                }
                let heard = hook.heard().map(|h| h["hookSpecificOutput"]["decision"]["behavior"].clone());
                match (pressed, heard) {
                    (Some(true), _) => Truth::Ran,
                    (None, Some(behavior)) if behavior == "allow" => {
                        ran(&client, &command);
                        Truth::Ran
                    }
                    _ => Truth::Refused,
                }
            });
            (allow.join().unwrap(), page.join().unwrap(), deny.join().unwrap(), terminal.join().unwrap())
        });
        client.hook("Stop").ok();
        let answers = [allowed, also_allowed, denied].iter().filter(|answer| **answer).count();
        assert!(answers <= 1, "{answers} answers in round {round}");
        let allowed = allowed || also_allowed;
        let record = store.approvals().get(&case.id).unwrap().unwrap();
        let state = record.state().text();
        let ran = record.outcome.as_ref().map(|o| o.effect == ClientReaction::Ran);
        match truth {
            Truth::Ran => assert_eq!(ran, Some(true), "round {round}: {record:?}"),
            Truth::Refused => assert_ne!(ran, Some(true), "round {round}: {record:?}"),
        }
        let agrees = match (truth, state) {
            (Truth::Ran, "allowed") | (Truth::Refused, "too late") => allowed,
            (Truth::Ran, "too late") | (Truth::Refused, "denied") => denied,
            (_, "closed") => !allowed && !denied,
            _ => false,
        };
        assert!(agrees, "round {round}: {truth:?}, {state}, allowed {allowed}, denied {denied}");
        let door = record.answer.as_ref().map_or("", |answer| answer.door.as_str());
        *states.entry((state, door)).or_insert(0) += 1;
    }
    println!("{rounds} rounds: {states:?}");
    assert!(store.approvals().waiting().unwrap().is_empty());
    assert_eq!(store.approvals().done().unwrap().len(), rounds);
}

/// Reads lines on a separate thread.
fn lines(from: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (to, lines) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for line in std::io::BufRead::lines(std::io::BufReader::new(from)).map_while(Result::ok) {
            if to.send(line).is_err() {
                break;
            }
        }
    });
    lines
}

/// Waits for a line that contains `text`.
fn came(lines: &Receiver<String>, text: &str) {
    while !lines.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no line has {text}")).contains(text) {}
}

/// `benches/approvals.rs` measures how soon.
#[test]
fn a_request_shows_at_every_door_and_its_answer_arrives() {
    let home = home();
    home.write(
        ".config/baton/config.toml",
        "[approvals]\nwait_for = \"all\"\n[notify]\ncommand = \"echo $BATON_REQUEST >> $HOME/told\"\n",
    );
    let told = home.write("told", "");
    let client = started(&home);
    let store = Store { state: home.state(), claude: home.path().join(".claude") };
    let served = Served::new(&home);
    let mut watching = home.baton(["approvals", "--watch", "--json"]);
    let mut watching = watching.stdout(Stdio::piped()).spawn().unwrap();
    let watched = lines(watching.stdout.take().unwrap());
    let mut stream = std::os::unix::net::UnixStream::connect(served.socket()).unwrap();
    stream.write_all(b"GET /events?agent=app HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let events = lines(stream);
    let mut tail =
        Command::new("tail").args(["-n", "+1", "-f"]).arg(&told).stdout(Stdio::piped()).spawn().unwrap();
    let told_to = lines(tail.stdout.take().unwrap());
    for round in 0..3 {
        let hook = bash(&client, &format!("make {round}"));
        let case = loop {
            if let Some(case) = approvals::waiting(&store, jiff::Timestamp::now()).unwrap().pop() {
                break case;
            }
        };
        wait_until("the socket shows it", || {
            served.get("/approvals")["approvals"][0]["id"] == case.id.as_str()
        });
        came(&events, "event: approval-asked");
        came(&watched, case.id.as_str());
        came(&told_to, case.id.as_str());
        let reply = ApprovalReply::Approve { grant: Grant::Once, input: None };
        let now = jiff::Timestamp::now();
        approvals::answer(&store, &case, None, &Caller::User, Door::Cli, &reply, now).unwrap();
        assert_eq!(hook.decision()["behavior"], "allow");
        ran(&client, &format!("make {round}"));
    }
    for mut reader in [watching, tail] {
        reader.kill().unwrap();
        reader.wait().unwrap();
    }
}
