//! The companion without a client: this test plays the mod and the hooks. `clients::companion` has the real one.

use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use baton_testkit::Home;
use baton_testkit::hooks::Client;
use serde_json::{Value, json};

use crate::BATON;

const SOON: Duration = Duration::from_secs(10);

/// A client whose process is this test's own: the companion takes its parent for the client.
fn client(home: &Home) -> Client<'_> {
    Client::new(home).env("CLAUDE_PID", &std::process::id().to_string())
}

struct Companion {
    child: Child,
    lines: Option<Receiver<Value>>,
    socket: String,
}

impl Companion {
    fn start(home: &Home, session: &str) -> Self {
        let mut child = home
            .baton(["companion"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let hello = json!({ "v": 1, "session": session, "interactive": true, "client": "2.1.325" });
        writeln!(child.stdin.take().unwrap(), "{hello}").unwrap();
        let lines = read(child.stdout.take().unwrap());
        let mut companion = Self { child, lines: Some(lines), socket: String::new() };
        let hello = companion.next();
        assert_eq!((&hello["do"], &hello["v"]), (&"hello".into(), &1.into()));
        hello["socket"].as_str().unwrap().clone_into(&mut companion.socket);
        companion
    }

    /// The next line it prints.
    #[track_caller]
    fn next(&self) -> Value {
        self.lines.as_ref().unwrap().recv_timeout(SOON).expect("an order comes")
    }

    #[track_caller]
    fn is_silent(&self) {
        let line = self.lines.as_ref().unwrap().recv_timeout(Duration::from_millis(300));
        assert!(line.is_err(), "{line:?}");
    }

    fn tell(&self, home: &Home, event: &Value) {
        let (code, out) = call(home.baton(["companion", "tell", &self.socket]), &event.to_string());
        assert_eq!((code, out.as_str()), (Some(0), ""));
    }
}

impl Drop for Companion {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Lines on a channel, so that waiting for one has a deadline. The pipe closes with the receiver's first miss.
fn read(out: ChildStdout) -> Receiver<Value> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            if sender.send(serde_json::from_str(&line).unwrap()).is_err() {
                return;
            }
        }
    });
    lines
}

fn call(mut command: Command, input: &str) -> (Option<i32>, String) {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

fn compact(home: &Home, session: &str, trigger: &str, rows: &Value) -> Value {
    let asked = json!({ "v": 1, "session": session, "trigger": trigger, "rows": rows });
    let (code, out) = call(home.baton(["companion", "compact"]), &asked.to_string());
    assert_eq!(code, Some(0), "{out}");
    serde_json::from_str(&out).unwrap()
}

fn records(dir: &Path) -> Vec<Value> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|e| e.path());
    entries
        .filter(|p| p.extension().is_some_and(|e| e == "json"))
        .map(|p| serde_json::from_slice(&std::fs::read(p).unwrap()).unwrap())
        .collect()
}

#[track_caller]
fn wait_until(mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < SOON, "waited in vain");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_handed_over_context_is_cleared_at_the_end_of_the_turn_and_prompted_when_loaded() {
    let home = Home::new(BATON);
    let mut client = client(&home);
    client.starts("startup");
    let companion = Companion::start(&home, &client.session);
    companion.tell(&home, &json!({ "event": "turn-began", "session": client.session }));
    client.hook("UserPromptSubmit");
    client.answers(150_000);
    let mut handoff = home.baton(["handoff", "-"]);
    client.dress(&mut handoff);
    assert_eq!(call(handoff, "Half done; MARK.").0, Some(0));
    client.hook("Stop");
    companion.is_silent();
    companion.tell(&home, &json!({ "event": "turn-ended", "session": client.session }));
    let clear = companion.next();
    assert_eq!(clear["do"], "clear");
    assert_eq!(records(&home.state().join("rotations"))[0]["step"], "stopping", "journaled before the order");

    let heard = client.clears();
    assert!(heard.context().is_some_and(|c| c.contains("MARK")), "{heard:?}");
    companion.tell(&home, &json!({ "event": "done", "order": clear["order"] }));
    let submit = companion.next();
    assert_eq!(submit["do"], "submit");
    assert!(submit["text"].as_str().unwrap().starts_with("Continue where the loaded handoff HO-"));
    let rotations = records(&home.state().join("rotations"));
    assert_eq!((rotations.len(), &rotations[0]["step"]), (1, &"done".into()));
    assert_eq!(rotations[0]["actuator"], "mod");
}

#[test]
fn mail_is_delivered_when_the_client_took_it_and_queued_when_it_did_not() {
    let home = Home::new(BATON);
    let client = client(&home);
    client.starts("startup");
    let companion = Companion::start(&home, &client.session);
    let new = home.state().join("mail").join(client.agent()).join("new");
    wait_until(|| new.is_dir());
    home.run(&format!("send {} first", client.agent())).ok();
    let submit = companion.next();
    assert!(submit["text"].as_str().unwrap().contains("first"), "{submit}");
    assert!(home.run(&format!("inbox {}", client.agent())).ok().contains("queued"), "nobody took it yet");
    companion.tell(&home, &json!({ "event": "refused", "order": submit["order"], "why": "stopped" }));
    wait_until(|| new.read_dir().unwrap().count() == 1);
    companion.is_silent();

    companion.tell(&home, &json!({ "event": "turn-began", "session": client.session }));
    companion.tell(&home, &json!({ "event": "turn-ended", "session": client.session }));
    let again = companion.next();
    assert!(again["text"].as_str().unwrap().contains("first"), "the same message once more: {again}");
    companion.tell(&home, &json!({ "event": "done", "order": again["order"] }));
    wait_until(|| home.run(&format!("inbox {}", client.agent())).ok().contains("delivered"));
}

#[test]
fn an_urgent_message_ends_the_turn_and_is_submitted_when_that_has_ended() {
    let home = Home::new(BATON);
    let client = client(&home);
    client.starts("startup");
    let companion = Companion::start(&home, &client.session);
    let tell = |event: &str, aborted: bool| {
        companion.tell(&home, &json!({ "event": event, "session": client.session, "aborted": aborted }));
    };
    let new = home.state().join("mail").join(client.agent()).join("new");
    wait_until(|| new.is_dir());
    tell("turn-began", false);
    home.run(&format!("send {} take your time", client.agent())).ok();
    companion.is_silent();
    let said = home.run(&format!("send {} --urgent stop the deployment", client.agent())).ok();
    assert!(said.contains("its turn is interrupted for it"), "{said}");
    let abort = companion.next();
    assert_eq!(abort["do"], "abort");
    companion.tell(&home, &json!({ "event": "done", "order": abort["order"] }));
    companion.is_silent();
    tell("turn-ended", true);
    let submit = companion.next();
    assert_eq!(submit["do"], "submit");
    let text = submit["text"].as_str().unwrap();
    let (first, second) = (text.find("take your time"), text.find("stop the deployment"));
    assert!(first.is_some() && first < second, "in the order they were sent: {text}");
    companion.tell(&home, &json!({ "event": "done", "order": submit["order"] }));
    wait_until(|| !home.run(&format!("inbox {}", client.agent())).ok().contains("queued"));
    companion.is_silent();
}

/// A hook handed it over while the turn was being ended for it: nobody has acted upon it.
#[test]
fn an_urgent_message_that_a_hook_took_into_the_dying_turn_is_said_again() {
    let home = Home::new(BATON);
    let client = client(&home);
    client.starts("startup");
    let companion = Companion::start(&home, &client.session);
    let new = home.state().join("mail").join(client.agent()).join("new");
    wait_until(|| new.is_dir());
    let interrupt = |shown: bool| {
        companion.tell(&home, &json!({ "event": "turn-began", "session": client.session }));
        home.run(&format!("send {} --urgent stop the deployment", client.agent())).ok();
        let abort = companion.next();
        let heard = client.hook("PostToolUse");
        let text = heard.context().expect("the hook hands it over");
        if shown {
            client.record(&json!({ "type": "user", "message": { "role": "user", "content": text } }));
        }
        companion.tell(&home, &json!({ "event": "turn-ended", "session": client.session, "aborted": true }));
        companion.tell(&home, &json!({ "event": "done", "order": abort["order"] }));
        let submit = companion.next();
        companion.tell(&home, &json!({ "event": "done", "order": submit["order"] }));
        submit["text"].as_str().unwrap().to_owned()
    };
    let lost = interrupt(false);
    assert!(lost.contains("stop the deployment"), "the transcript does not show it: {lost}");
    let seen = interrupt(true);
    assert!(seen.contains("stands above") && !seen.contains("stop the deployment"), "{seen}");
}

/// kill -9 between `/clear` and the prompt: the next companion closes the journal and sees that the work goes on.
#[test]
fn what_a_killed_companion_left_is_ended_by_the_next_and_the_fresh_context_is_prompted() {
    let home = Home::new(BATON);
    let mut client = client(&home);
    client.starts("startup");
    let companion = Companion::start(&home, &client.session);
    client.hook("UserPromptSubmit");
    client.answers(150_000);
    let mut handoff = home.baton(["handoff", "-"]);
    client.dress(&mut handoff);
    assert_eq!(call(handoff, "Half done; MARK.").0, Some(0));
    client.hook("Stop");
    assert_eq!(companion.next()["do"], "clear");
    drop(companion);
    let heard = client.clears();
    assert!(heard.context().is_some_and(|c| c.contains("MARK")), "{heard:?}");
    assert_eq!(records(&home.state().join("rotations"))[0]["step"], "stopping", "nobody saw it to its end");

    let next = Companion::start(&home, &client.session);
    let submit = next.next();
    assert!(
        submit["text"].as_str().unwrap().starts_with("Continue where the loaded handoff HO-"),
        "{submit}"
    );
    let rotations = records(&home.state().join("rotations"));
    assert_eq!((rotations.len(), &rotations[0]["step"]), (1, &"done".into()));
    client.hook("UserPromptSubmit");
    next.tell(&home, &json!({ "event": "done", "order": submit["order"] }));
    next.tell(&home, &json!({ "event": "turn-ended", "session": client.session }));
    next.is_silent();
    drop(next);
    Companion::start(&home, &client.session).is_silent();
}

/// kill -9 before the client did anything: given up in words, and begun anew by the next companion.
#[test]
fn a_rotation_that_was_only_ordered_is_given_up_and_begun_anew_by_the_next_companion() {
    let home = Home::new(BATON);
    let client = client(&home);
    client.starts("startup");
    client.answers(150_000);
    let companion = Companion::start(&home, &client.session);
    home.run(&format!("rotate {}", client.agent())).ok();
    let first = companion.next();
    assert_eq!(first["do"], "clear");
    drop(companion);
    let next = Companion::start(&home, &client.session);
    let second = next.next();
    assert_eq!(second["do"], "clear");
    assert!(second["order"].as_u64() > first["order"].as_u64(), "numbers are never used again");
    let mut steps: Vec<Value> =
        records(&home.state().join("rotations")).iter().map(|r| r["step"].clone()).collect();
    steps.sort_by_key(ToString::to_string);
    assert_eq!(steps, ["failed", "stopping"]);
}

#[test]
fn it_ends_when_its_client_does_and_queues_again_what_nobody_took() {
    let home = Home::new(BATON);
    let client = client(&home);
    client.starts("startup");
    let mut companion = Companion::start(&home, &client.session);
    let new = home.state().join("mail").join(client.agent()).join("new");
    wait_until(|| new.is_dir());
    home.run(&format!("send {} first", client.agent())).ok();
    let submit = companion.next();
    assert_eq!(records(&home.state().join("companions")).len(), 1);
    // The reader thread ends with the receiver when the next line comes; a status line is one.
    drop(companion.lines.take());
    companion.tell(&home, &json!({ "event": "refused", "order": submit["order"] }));
    companion.tell(&home, &json!({ "event": "turn-began", "session": client.session }));
    companion.tell(&home, &json!({ "event": "turn-ended", "session": client.session }));
    wait_until(|| companion.child.try_wait().unwrap().is_some());
    assert_eq!(new.read_dir().unwrap().count(), 1, "the message waits");
    assert_eq!(records(&home.state().join("companions")).len(), 0);
}

#[test]
fn a_compaction_is_sealed_consumed_and_journaled_before_it_is_answered() {
    let home = Home::new(BATON);
    let client = client(&home);
    client.starts("startup");
    client.answers(168_000);
    let rows = json!([
        { "role": "user" },
        { "role": "assistant", "uses": ["a"] },
        { "role": "user", "results": [{ "id": "a", "text": "done" }] },
    ]);
    let answer = compact(&home, &client.session, "auto", &rows);
    assert_eq!(answer["do"], "handoff", "{answer}");
    assert!(answer["text"].as_str().unwrap().starts_with("=== HANDOFF LOADED"));
    assert_eq!(answer["keep"], json!([{ "row": 1 }, { "row": 2 }]));
    let entry = &home.run("handoffs --json").json()[0];
    assert_eq!((&entry["id"], &entry["status"]), (&answer["handoff"], &"consumed".into()));
    assert_eq!(records(&home.state().join("rotations"))[0]["step"], "done");
    assert_eq!(client.kept()["latches"]["cycle"], 1);
    let heard = client.starts("compact");
    assert_eq!(heard.context(), None, "the handoff is the context already");
}

#[test]
fn a_second_compaction_without_an_answer_in_between_is_the_clients() {
    let home = Home::new(BATON);
    let client = client(&home);
    client.starts("startup");
    client.answers(168_000);
    let none = json!([]);
    assert_eq!(compact(&home, &client.session, "auto", &none)["do"], "handoff");
    client.record(&json!({
        "type": "system", "subtype": "compact_boundary", "isSidechain": false,
        "timestamp": format!("{:.3}", jiff::Timestamp::now()),
        "compactMetadata": { "trigger": "auto", "preTokens": 168_000, "postTokens": 4_000 },
    }));
    assert_eq!(compact(&home, &client.session, "auto", &none)["do"], "next");
    assert_eq!(compact(&home, &client.session, "manual", &none)["do"], "handoff", "a person may ask again");
    client.answers(20_000);
    assert_eq!(compact(&home, &client.session, "auto", &none)["do"], "handoff", "there was progress");
}

#[test]
fn a_narrative_that_came_too_late_leaves_the_facts_alone() {
    let home = Home::new(BATON);
    let client = client(&home);
    client.starts("startup");
    client.answers(168_000);
    let ask = |fork: Value| {
        let mut command = home.baton(["companion", "compact"]);
        command.env("BATON_NARRATIVE", "fork");
        let asked = json!({ "v": 1, "session": client.session, "trigger": "auto", "fork": fork });
        serde_json::from_str::<Value>(&call(command, &asked.to_string()).1).unwrap()
    };
    let first = ask(Value::Null);
    assert_eq!(first["do"], "fork", "{first}");
    assert_eq!(
        records(&home.state().join("rotations")).len(),
        0,
        "nothing is sealed before the model answered"
    );
    let late = ask(json!({ "text": "" }));
    assert_eq!(late["do"], "handoff");
    let told = ask(json!({ "text": "The words of the model; see src/nowhere.rs." }));
    let text = told["text"].as_str().unwrap();
    assert!(text.contains("The words of the model"), "{text}");
    assert!(text.contains("src/nowhere.rs [unproven]"), "{text}");
}

#[test]
fn what_cannot_be_understood_leaves_the_compaction_to_the_client() {
    let home = Home::new(BATON);
    for asked in [
        "",
        "{",
        "[]",
        r#"{"v":2,"session":"s","trigger":"auto"}"#,
        r#"{"v":1,"session":"../x","trigger":"auto"}"#,
    ] {
        let (code, out) = call(home.baton(["companion", "compact"]), asked);
        assert_eq!((code, out.as_str()), (Some(1), ""), "{asked}");
    }
    assert_eq!(compact(&home, "nobody-knows", "auto", &json!([]))["do"], "next");
    assert_eq!(compact(&home, "nobody-knows", "precompute", &json!([]))["do"], "next");
}

#[test]
fn a_hand_that_cannot_be_reached_is_said_once_and_remembered() {
    let home = Home::new(BATON);
    let client = client(&home);
    client.starts("startup");
    let companion = Companion::start(&home, &client.session);
    let status = home.run("status").ok();
    assert!(status.contains(" mod") && !status.contains("mod gone"), "{status}");
    let socket = companion.socket.clone();
    drop(companion);
    let event = json!({ "event": "turn-began", "session": client.session }).to_string();
    let (code, out) = call(home.baton(["companion", "tell", &socket]), &event);
    assert_eq!(code, Some(1));
    let line: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(line["do"], "status");
    assert!(home.run("status").ok().contains("mod gone"));
}

/// The client's own count joins the others.
#[test]
fn a_measure_of_the_mod_is_a_reading() {
    let home = Home::new(BATON);
    let client = client(&home);
    client.starts("startup");
    let companion = Companion::start(&home, &client.session);
    let measure =
        json!({ "event": "measure", "session": client.session, "tokens": 104_000, "window": 200_000 });
    companion.tell(&home, &measure);
    let status = &home.run("status --json").json()[0];
    assert_eq!(
        (&status["percentage"], &status["reading"]["source"]),
        (&52.into(), &"mod".into()),
        "{status}"
    );
}
