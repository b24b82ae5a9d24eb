//! The companion without a client: the test plays the mod and the hooks. `clients::companion_*` use the real one.

use std::io::{BufRead, BufReader, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use baton_testkit::Home;
use baton_testkit::home::records;
use baton_testkit::hooks::Client;
use baton_testkit::wait::wait_until;
use serde_json::{Value, json};

use crate::BATON;

const SOON: Duration = Duration::from_secs(10);

/// A client whose process is the test itself, because the companion takes its parent for the client.
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
        let plugin = home.write("plugin/hooks/register.js", "");
        Self::start_with(home, session, plugin.parent().unwrap().parent().unwrap())
    }

    fn start_with(home: &Home, session: &str, plugin: &std::path::Path) -> Self {
        let child = home
            .baton(["companion"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        Self::greet(
            child,
            &json!({ "v": 1, "session": session, "interactive": true, "client": "2.1.325",
            "plugin": plugin }),
        )
    }

    fn greet(mut child: Child, hello: &Value) -> Self {
        writeln!(child.stdin.take().unwrap(), "{hello}").unwrap();
        let lines = read(child.stdout.take().unwrap());
        let mut companion = Self { child, lines: Some(lines), socket: String::new() };
        let hello = companion.next();
        assert_eq!((&hello["do"], &hello["v"]), (&"hello".into(), &1.into()));
        hello["socket"].as_str().unwrap().clone_into(&mut companion.socket);
        companion
    }

    /// The next line that it prints.
    #[track_caller]
    fn next(&self) -> Value {
        self.lines.as_ref().unwrap().recv_timeout(SOON).expect("an order comes")
    }

    /// The next line, where the companion gives the hooks their time first.
    #[track_caller]
    fn next_late(&self) -> Value {
        self.lines.as_ref().unwrap().recv_timeout(SOON * 3).expect("an order comes")
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

/// Sends lines to a channel, so that waiting for one has a deadline. The pipe closes when a send to the receiver fails.
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

#[test]
fn a_handed_over_context_is_cleared_at_the_end_of_the_turn_and_prompted_when_loaded() {
    let home = Home::new(BATON);
    let mut client = client(&home);
    client.starts("startup");
    let companion = Companion::start(&home, &client.session);
    companion.tell(&home, &json!({ "event": "turn-began", "session": client.session }));
    client.hook("UserPromptSubmit");
    client.answers(150_000);
    hand_over(&home, &client, "Half done; MARK.");
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

/// Regression: Esc took a prompt back before the client had begun a turn, and no hook reports that. The next companion
/// believed that the recorded turn was running, and everything waited for its end.
#[test]
fn a_turn_that_only_the_hooks_saw_begin_holds_nothing_if_the_mod_knows_of_none() {
    let home = Home::new(BATON);
    let client = client(&home);
    client.starts("startup");
    client.hook("UserPromptSubmit");
    assert_eq!(client.kept()["turn"], "working");
    let plugin = home.write("plugin/hooks/register.js", "");
    let plugin = plugin.parent().unwrap().parent().unwrap();
    let child = home.baton(["companion"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let companion = Companion::greet(
        child,
        &json!({ "v": 1, "session": client.session, "interactive": true,
        "client": "2.1.325", "plugin": plugin, "turn": false }),
    );
    home.run(&format!("send {} hello", client.agent())).ok();
    let submit = companion.next();
    assert!(submit["do"] == "submit" && submit["text"].as_str().unwrap().contains("hello"), "{submit}");
}

/// Regression: the rotation stayed open for ever, and nobody prompted the fresh context.
#[test]
fn a_context_that_was_cleared_while_the_disk_was_full_is_prompted_and_that_prompt_brings_the_handoff() {
    let home = Home::new(BATON);
    let mut client = client(&home);
    client.starts("startup");
    let companion = Companion::start(&home, &client.session);
    client.hook("UserPromptSubmit");
    client.answers(150_000);
    hand_over(&home, &client, "Half done; MARK.");
    client.hook("Stop");
    companion.tell(&home, &json!({ "event": "turn-ended", "session": client.session }));
    let clear = companion.next();
    let (folder, aside) = (home.store(), home.path().join("aside"));
    std::fs::rename(&folder, &aside).unwrap();
    std::fs::write(&folder, "full").unwrap();
    assert_eq!(client.clears().context(), None, "nothing can be loaded");
    std::fs::remove_file(&folder).unwrap();
    std::fs::rename(&aside, &folder).unwrap();
    companion.tell(&home, &json!({ "event": "done", "order": clear["order"] }));
    let submit = companion.next_late();
    assert_eq!(submit["do"], "submit", "{submit}");
    let heard = client.hook("UserPromptSubmit");
    assert!(heard.context().is_some_and(|c| c.contains("MARK")), "{heard:?}");
    companion.tell(&home, &json!({ "event": "done", "order": submit["order"] }));
    let rotations = || records(&home.state().join("rotations"));
    wait_until("the rotation to be over", || rotations()[0]["step"] == "done");
    assert_eq!(rotations().len(), 1);
}

#[test]
fn mail_is_delivered_when_the_client_took_it_and_queued_when_it_did_not() {
    let home = Home::new(BATON);
    let client = client(&home);
    client.starts("startup");
    let companion = Companion::start(&home, &client.session);
    let new = home.state().join("mail").join(client.agent()).join("new");
    wait_until("the mailbox", || new.is_dir());
    home.run(&format!("send {} first", client.agent())).ok();
    let submit = companion.next();
    assert!(submit["text"].as_str().unwrap().contains("first"), "{submit}");
    assert!(home.run(&format!("inbox {}", client.agent())).ok().contains("queued"), "nobody took it yet");
    companion.tell(&home, &json!({ "event": "refused", "order": submit["order"], "why": "stopped" }));
    wait_until("the message to come back", || new.read_dir().unwrap().count() == 1);
    companion.is_silent();

    companion.tell(&home, &json!({ "event": "turn-began", "session": client.session }));
    companion.tell(&home, &json!({ "event": "turn-ended", "session": client.session }));
    let again = companion.next();
    assert!(again["text"].as_str().unwrap().contains("first"), "the same message once more: {again}");
    companion.tell(&home, &json!({ "event": "done", "order": again["order"] }));
    let inbox = || home.run(&format!("inbox {}", client.agent())).ok();
    wait_until("the receipt", || inbox().contains("delivered"));
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
    wait_until("the mailbox", || new.is_dir());
    tell("turn-began", false);
    client.hook("UserPromptSubmit");
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
    let inbox = || home.run(&format!("inbox {}", client.agent())).ok();
    wait_until("the message to be taken", || !inbox().contains("queued"));
    companion.is_silent();
}

/// A hook delivered it while the turn was being aborted for it, so the agent has not acted on it.
#[test]
fn an_urgent_message_that_a_hook_delivered_into_an_aborted_turn_is_sent_again() {
    let home = Home::new(BATON);
    let client = client(&home);
    client.starts("startup");
    let companion = Companion::start(&home, &client.session);
    let new = home.state().join("mail").join(client.agent()).join("new");
    wait_until("the mailbox", || new.is_dir());
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

/// kill -9 between `/clear` and the prompt: the next companion closes the journal and sees that the work continues.
#[test]
fn the_next_companion_finishes_what_a_killed_one_left_and_prompts_the_fresh_context() {
    let home = Home::new(BATON);
    let mut client = client(&home);
    client.starts("startup");
    let companion = Companion::start(&home, &client.session);
    client.hook("UserPromptSubmit");
    client.answers(150_000);
    hand_over(&home, &client, "Half done; MARK.");
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

/// kill -9 before the client did anything: the journal says that it was given up, and the next companion starts again.
#[test]
fn a_rotation_that_was_only_ordered_is_given_up_and_started_again_by_the_next_companion() {
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
fn the_companion_ends_with_its_client_and_requeues_untaken_mail() {
    let home = Home::new(BATON);
    let client = client(&home);
    client.starts("startup");
    let mut companion = Companion::start(&home, &client.session);
    let new = home.state().join("mail").join(client.agent()).join("new");
    wait_until("the mailbox", || new.is_dir());
    home.run(&format!("send {} first", client.agent())).ok();
    let submit = companion.next();
    assert_eq!(records(&home.state().join("companions")).len(), 1);
    // The reader thread ends at the next line once the receiver is gone; a status line is such a line.
    drop(companion.lines.take());
    companion.tell(&home, &json!({ "event": "refused", "order": submit["order"] }));
    companion.tell(&home, &json!({ "event": "turn-began", "session": client.session }));
    companion.tell(&home, &json!({ "event": "turn-ended", "session": client.session }));
    wait_until("its end", || companion.child.try_wait().unwrap().is_some());
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

/// Nothing was lost and the agent continues, so nobody is notified.
#[test]
fn nobody_is_notified_of_an_answered_compaction() {
    let home = Home::new(BATON);
    let parent = Client::new(&home);
    parent.starts("startup");
    let client = client(&home).env("CLAUDE_SESSION_MANAGER_ID", &parent.agent());
    client.starts("startup");
    assert_ne!(client.agent(), parent.agent());
    client.answers(168_000);
    assert_eq!(compact(&home, &client.session, "auto", &json!([]))["do"], "handoff");
    client.starts("compact");
    for inbox in [format!("inbox {} --json", parent.agent()), "inbox --json".to_owned()] {
        assert!(!home.run(&inbox).out.contains("compacted"), "{inbox}");
    }
    // A compaction without an answer is reported.
    client.answers(168_001);
    client.hook("PreCompact").ok();
    assert!(home.run(&format!("inbox {} --json", parent.agent())).out.contains("was compacted"));
}

#[test]
fn a_compaction_that_the_mod_answers_leaves_its_raw_copy_and_its_line_in_the_memory() {
    let home = Home::new(BATON);
    home.run("memory init").ok();
    let client = client(&home);
    client.starts("startup");
    client.answers(168_000);
    let transcript = std::fs::read(client.transcript()).unwrap();
    assert_eq!(compact(&home, &client.session, "auto", &json!([]))["do"], "handoff");
    let memory = home.project().join(".claude/memory");
    let raw: Vec<_> = std::fs::read_dir(memory.join("raw")).unwrap().flatten().map(|e| e.path()).collect();
    let raw = raw.iter().find(|p| p.extension().is_some_and(|x| x == "jsonl")).expect("a raw copy");
    assert_eq!(std::fs::read(raw).unwrap(), transcript);
    let log = std::fs::read_to_string(memory.join(".backup-log")).unwrap();
    assert!(log.contains("backup precompact") && log.contains("processed precompact"), "{log}");
    assert!(!memory.join(".pending-backup").exists(), "the handoff carries it already");
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
fn a_request_that_is_not_understood_leaves_the_compaction_to_the_client() {
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
fn an_unreachable_companion_is_reported_once_and_remembered() {
    let home = Home::new(BATON);
    let client = client(&home);
    client.starts("startup");
    let companion = Companion::start(&home, &client.session);
    wait_until("the mod is live", || home.run("status").ok().contains(" mod"));
    let status = home.run("status").ok();
    assert!(!status.contains("mod gone"), "{status}");
    let socket = companion.socket.clone();
    drop(companion);
    let event = json!({ "event": "turn-began", "session": client.session }).to_string();
    let (code, out) = call(home.baton(["companion", "tell", &socket]), &event);
    assert_eq!(code, Some(1));
    let line: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(line["do"], "status");
    assert!(home.run("status").ok().contains("mod gone"));
}

/// The client's own token count is one of the readings.
#[test]
fn a_measurement_by_the_mod_is_a_reading() {
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
    // It is published for other people's scripts too.
    assert_eq!(std::fs::read_to_string(client.percentage_file()).unwrap(), "52");
    let published = std::fs::read_to_string(home.path().join(".claude/.context-status")).unwrap();
    assert!(published.starts_with("WARN:"), "{published}");
}

/// Regression: unlike the other actuators, the mod did not name the agent's own file.
#[test]
fn the_prompt_of_a_fresh_context_names_the_file_that_the_agent_wrote() {
    let home = Home::new(BATON);
    let mut client = client(&home);
    client.starts("startup");
    let companion = Companion::start(&home, &client.session);
    companion.tell(&home, &json!({ "event": "turn-began", "session": client.session }));
    client.hook("UserPromptSubmit");
    client.answers(150_000);
    let file = home.write("work/app/h.md", "Half done; MARK.");
    let mut handoff = home.baton([std::ffi::OsStr::new("handoff"), file.as_os_str()]);
    client.dress(&mut handoff);
    assert_eq!(call(handoff, "").0, Some(0));
    client.hook("Stop");
    companion.tell(&home, &json!({ "event": "turn-ended", "session": client.session }));
    let clear = companion.next();
    assert_eq!(clear["do"], "clear");
    client.clears();
    companion.tell(&home, &json!({ "event": "done", "order": clear["order"] }));
    let submit = companion.next();
    let file = std::fs::canonicalize(file).unwrap();
    assert_eq!(submit["text"], format!("Read {} and continue from where you left off.", file.display()));
}

/// The kernel drops events when a process does not read them for too long.
#[test]
fn mail_is_submitted_even_if_the_kernel_dropped_its_event() {
    let home = Home::new(BATON);
    let client = client(&home);
    client.starts("startup");
    let companion = Companion::start(&home, &client.session);
    // Without its socket it has only the files to watch.
    let socket = home.state().join("run").join(format!("{}.companion", client.agent()));
    wait_until("the companion listens", || socket.exists());
    std::fs::remove_file(&socket).unwrap();
    baton_testkit::overflow::unseen(companion.child.id(), &home.state().join("agents"), || {
        home.run(&format!("send {} first", client.agent())).ok();
    });
    let submit = companion.next();
    assert!(submit["text"].as_str().unwrap().contains("first"), "{submit}");
}

fn hand_over(home: &Home, client: &Client<'_>, text: &str) {
    let mut handoff = home.baton(["handoff", "-"]);
    client.dress(&mut handoff);
    assert_eq!(call(handoff, text).0, Some(0));
}

/// Regression: every prompt that a person typed was aborted for a message that waited for the handoff and never came.
#[test]
fn no_turn_is_ended_for_an_urgent_message_while_a_handoff_is_pending() {
    let home = Home::new(BATON);
    let mut client = client(&home);
    client.starts("startup");
    let companion = Companion::start(&home, &client.session);
    let new = home.state().join("mail").join(client.agent()).join("new");
    wait_until("the mailbox", || new.is_dir());
    companion.tell(&home, &json!({ "event": "turn-began", "session": client.session }));
    client.hook("UserPromptSubmit");
    client.answers(50_000);
    hand_over(&home, &client, "Half done; MARK.");
    let said = home.run(&format!("send {} --urgent stop", client.agent())).ok();
    assert!(said.contains("it reads it in its fresh context"), "{said}");
    companion.is_silent();
    // The person presses Esc: the handoff waits for their next prompt and says so; nothing is submitted.
    companion.tell(&home, &json!({ "event": "turn-ended", "session": client.session, "aborted": true }));
    companion.is_silent();
    let waits = "waits for your next prompt in its terminal (it was stopped with Esc)";
    let agents = home.run("agents").ok();
    assert!(agents.contains("handoff pending since ") && agents.contains(waits), "{agents}");
    assert!(home.run(&format!("wait {} --timeout 30s", client.agent())).ok().contains(waits));
    let told = home.run("inbox user").ok();
    assert!(told.contains("is idle: handoff pending since ") && told.contains(waits), "{told}");
    // That prompt runs undisturbed and carries the message.
    companion.tell(&home, &json!({ "event": "turn-began", "session": client.session }));
    assert!(client.hook("UserPromptSubmit").context().is_some_and(|c| c.contains("stop")));
    companion.is_silent();
    client.hook("Stop").ok();
    companion.tell(&home, &json!({ "event": "turn-ended", "session": client.session }));
    assert_eq!(companion.next()["do"], "clear");
    assert!(client.clears().context().is_some_and(|c| c.contains("MARK")));
}

#[test]
fn a_turn_is_ended_for_an_urgent_message_once_whatever_becomes_of_it() {
    let home = Home::new(BATON);
    let client = client(&home);
    client.starts("startup");
    let companion = Companion::start(&home, &client.session);
    let new = home.state().join("mail").join(client.agent()).join("new");
    wait_until("the mailbox", || new.is_dir());
    companion.tell(&home, &json!({ "event": "turn-began", "session": client.session }));
    home.run(&format!("send {} --urgent stop", client.agent())).ok();
    assert_eq!(companion.next()["do"], "abort");
    companion.tell(&home, &json!({ "event": "turn-ended", "session": client.session, "aborted": true }));
    let submit = companion.next();
    companion.tell(&home, &json!({ "event": "refused", "order": submit["order"], "why": "stopped" }));
    wait_until("the message to come back", || new.read_dir().unwrap().count() == 1);
    companion.tell(&home, &json!({ "event": "turn-began", "session": client.session }));
    companion.is_silent();
    // The next companion does not end it either.
    drop(companion);
    client.hook("UserPromptSubmit");
    home.run(&format!("send {} later", client.agent())).ok();
    Companion::start(&home, &client.session).is_silent();
}

/// The Stop hook was killed, or there was none: the mod's report that the turn has ended is enough.
#[test]
fn a_pending_handoff_that_no_hook_carried_out_is_carried_out_by_the_companion() {
    let home = Home::new(BATON);
    let client = client(&home);
    client.starts("startup");
    let companion = Companion::start(&home, &client.session);
    companion.tell(&home, &json!({ "event": "turn-began", "session": client.session }));
    client.hook("UserPromptSubmit");
    client.answers(50_000);
    hand_over(&home, &client, "Half done; MARK.");
    companion.tell(&home, &json!({ "event": "turn-ended", "session": client.session }));
    assert_eq!(companion.next()["do"], "clear");
    assert!(client.kept()["request"].is_null());
    assert_eq!(home.run("handoffs --json").json()[0]["type"], "manual");
}

/// The mod's report that the turn began was lost: the handoff waits for the turn's end, and the companion sleeps
/// meanwhile.
#[test]
fn a_companion_that_was_not_told_of_a_turn_sleeps_while_a_handoff_waits_for_its_end() {
    let home = Home::new(BATON);
    let client = client(&home);
    client.starts("startup");
    let companion = Companion::start(&home, &client.session);
    client.hook("UserPromptSubmit");
    client.answers(50_000);
    hand_over(&home, &client, "Half done; MARK.");
    // The hooks saw the turn begin; after three seconds nobody expects the mod's report any more.
    let began: jiff::Timestamp = client.kept()["turn_since"].as_str().unwrap().parse().unwrap();
    wait_until("the mod's word to be late", || {
        jiff::Timestamp::now() > began + jiff::SignedDuration::from_secs(4)
    });
    home.run(&format!("send {} hello", client.agent())).ok();
    let used = cpu_ticks(companion.child.id());
    for _ in 0..4 {
        companion.is_silent();
    }
    let used = cpu_ticks(companion.child.id()) - used;
    assert!(used < 20, "{used} hundredths of a second in 1.2 s");
    client.hook("Stop").ok();
    assert_eq!(companion.next()["do"], "clear");
}

/// User and system time of a process, in hundredths of a second.
fn cpu_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// Regression: a restart destroyed the draft although the mod was there.
#[test]
fn after_a_usage_limit_the_agent_continues_in_place() {
    let home = Home::new(BATON);
    let client = client(&home);
    client.starts("startup");
    let companion = Companion::start(&home, &client.session);
    companion.tell(&home, &json!({ "event": "turn-began", "session": client.session }));
    client.hook("UserPromptSubmit");
    let reset = jiff::Timestamp::now().as_second() + 3;
    let text = format!("Usage limit reached|{reset}");
    client.hook_with("StopFailure", json!({ "error": "rate_limit", "last_assistant_message": text })).ok();
    companion.tell(&home, &json!({ "event": "turn-ended", "session": client.session }));
    let said = home.run(&format!("send {} hello", client.agent())).ok();
    assert!(said.contains("it is at a usage limit until"), "{said}");
    let submit = companion.next();
    assert!(jiff::Timestamp::now().as_second() >= reset);
    assert_eq!(submit["text"], "The usage limit has ended. Continue.");
    client.hook_with("UserPromptSubmit", json!({ "prompt": submit["text"] })).ok();
    companion.tell(&home, &json!({ "event": "done", "order": submit["order"] }));
    companion.is_silent();
}

/// If a rotation begins in place and a restart finishes it, the restart has already sent the prompt to continue.
#[test]
fn a_fresh_context_that_another_actuator_gave_is_not_told_twice_to_continue() {
    let home = Home::new(BATON);
    let mut client = client(&home);
    client.starts("startup");
    client.answers(50_000);
    let companion = Companion::start(&home, &client.session);
    home.run(&format!("rotate {}", client.agent())).ok();
    assert_eq!(companion.next()["do"], "clear");
    drop(companion);
    let folder = home.state().join("rotations");
    let mut begun = records(&folder).pop().unwrap();
    begun["id"] = json!("R-restart");
    begun["actuator"] = json!("restart");
    begun["step"] = json!("started");
    begun["at"] = json!(jiff::Timestamp::now());
    std::fs::write(folder.join("R-restart.json"), begun.to_string()).unwrap();
    // The restarted client's first prompt is on its command line.
    client.session = baton_testkit::hooks::session_id();
    assert!(client.starts("startup").context().is_some(), "the handoff is loaded");
    assert!(client.kept()["claim"].is_string());
    Companion::start(&home, &client.session).is_silent();
}

/// Nothing else would end it before its client, which may run for days.
#[test]
fn a_companion_ends_when_its_plugin_folder_or_its_records_are_gone() {
    for gone in ["plugin", "records"] {
        let home = Home::new(BATON);
        let client = client(&home);
        client.starts("startup");
        let module = home.write("plugin/hooks/register.js", "");
        let mut companion = Companion::start_with(&home, &client.session, &home.path().join("plugin"));
        companion.is_silent();
        match gone {
            "plugin" => std::fs::remove_dir_all(module.parent().unwrap().parent().unwrap()).unwrap(),
            _ => std::fs::remove_dir_all(home.state()).unwrap(),
        }
        wait_until("its end", || companion.child.try_wait().unwrap().is_some());
        assert_eq!(home.state().exists(), gone == "plugin", "nothing is written where all was removed");
    }
}

/// What a command prints that a person runs at a terminal: this test is the client, so what it starts itself is its agent's.
fn at_a_terminal(home: &Home, line: &str) -> String {
    let said = home.path().join("said");
    let script = format!("{BATON} {line} > {0}.part 2>&1; mv {0}.part {0}", said.display());
    let mut tmux = home.command("tmux");
    tmux.args(["-L", "person", "-f", "/dev/null", "new-session", "-d", "sh", "-c", &script]);
    tmux.env("TMUX_TMPDIR", home.path()).env_remove("TMUX");
    assert!(tmux.status().unwrap().success());
    wait_until("its end", || said.exists());
    std::fs::read_to_string(said).unwrap()
}

#[test]
fn uninstall_ends_the_companions_of_running_clients_and_says_what_those_do() {
    if !baton_testkit::tools::has(&["tmux"]) {
        return;
    }
    let home = Home::new(BATON);
    home.run("install --yes").ok();
    let client = client(&home);
    client.starts("startup");
    let mut companion =
        Companion::start_with(&home, &client.session, &home.path().join(".claude/skills/baton"));
    let said = at_a_terminal(&home, "uninstall");
    wait_until("its end", || companion.child.try_wait().unwrap().is_some());
    assert!(said.contains("Running clients notice within seconds"), "{said}");
    // If the client has not dropped the mod yet and it starts another companion, that one ends at once.
    let mut again = home.baton(["companion"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let hello = json!({ "v": 1, "session": client.session, "interactive": true, "client": "2.1.325",
        "plugin": home.path().join(".claude/skills/baton") });
    writeln!(again.stdin.take().unwrap(), "{hello}").unwrap();
    wait_until("its end", || again.try_wait().unwrap().is_some());
}

/// `/compact keep only …`: the user's words come first, marked as theirs, and are part of the sealed handoff.
#[test]
fn the_words_after_compact_are_at_the_top_of_the_answer() {
    let home = Home::new(BATON);
    let client = client(&home);
    client.starts("startup");
    client.record(&json!({ "type": "user", "message": { "role": "user", "content": "Write the parser" } }));
    client.answers(50_000);
    let words = "keep only the list of open bugs (src/nowhere.rs too)";
    let asked = json!({ "v": 1, "session": client.session, "trigger": "manual", "rows": [],
        "instructions": format!("  {words}\n") });
    let (code, out) = call(home.baton(["companion", "compact"]), &asked.to_string());
    assert_eq!(code, Some(0), "{out}");
    let answer: Value = serde_json::from_str(&out).unwrap();
    let text = answer["text"].as_str().unwrap();
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part:?} in {text}"));
    assert!(text.starts_with("The user compacted this conversation"), "{text}");
    assert!(at(words) < at("=== HANDOFF LOADED") && at("=== HANDOFF LOADED") < at("Write the parser"));
    let sealed = home.run(&format!("handoffs show {}", answer["handoff"].as_str().unwrap())).ok();
    assert!(sealed.contains("## What the user asked to keep"), "{sealed}");
}

#[test]
fn the_files_in_play_are_appended_before_the_prompt_of_a_rotation_and_once() {
    let home = Home::new(BATON);
    let Some(mut client) = crate::files::has_read(&home, client(&home)) else { return };
    let companion = Companion::start(&home, &client.session);
    companion.tell(&home, &json!({ "event": "turn-began", "session": client.session }));
    client.hook("UserPromptSubmit");
    client.answers(150_000);
    hand_over(&home, &client, "Half done.");
    client.hook("Stop");
    companion.tell(&home, &json!({ "event": "turn-ended", "session": client.session }));
    let clear = companion.next();
    client.clears();
    companion.tell(&home, &json!({ "event": "done", "order": clear["order"] }));
    let submit = companion.next();
    let files = submit["append"].as_str().unwrap_or_else(|| panic!("{submit}"));
    assert!(files.starts_with("=== FILES IN PLAY ==="), "{files}");
    crate::files::assert_shown(files, &["SHOWN-A", "SHOWN-B", "SHOWN-NOTES"]);
    let prompt = json!({ "prompt": submit["text"] });
    assert_eq!(client.hook_with("UserPromptSubmit", prompt).context(), None, "they are there already");
    let attached = home.run("handoffs chain --json").json()["attached"].clone();
    assert_eq!(attached, json!(["src/a.rs", "src/b.rs", "my notes.md"]));
}

#[test]
fn an_answered_compaction_brings_the_files_in_play() {
    let home = Home::new(BATON);
    let Some(client) = crate::files::has_read(&home, client(&home)) else { return };
    client.answers(150_000);
    client.hook("PostToolUse");
    let answer = compact(&home, &client.session, "manual", &json!([]));
    let text = answer["text"].as_str().unwrap();
    let files = &text[text.find("=== FILES IN PLAY ===").unwrap_or_else(|| panic!("{text}"))..];
    crate::files::assert_shown(files, &["SHOWN-A", "SHOWN-B", "SHOWN-NOTES"]);
    let attached = home.run("handoffs chain --json").json()["attached"].clone();
    assert_eq!(attached, json!(["src/a.rs", "src/b.rs", "my notes.md"]));
}
