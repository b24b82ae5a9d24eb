//! Threads on a shared daemon, with a server that speaks its protocol and a client that runs its hooks. The real ones
//! are in `clients/codex_daemon.rs`.

use std::os::unix::net::UnixListener;
use std::sync::{Arc, Mutex};

use baton_testkit::Home;
use baton_testkit::codex::CodexClient;
use baton_testkit::daemon::Served;
use baton_testkit::hooks::session_id;
use baton_testkit::wait::wait_for;
use serde_json::{Value, json};
use tungstenite::Message;

use crate::BATON;

type Calls = Arc<Mutex<Vec<(String, Value)>>>;

/// A server that answers as Codex's does, except for what it `refuses`; new threads get the id `fresh`.
struct Server {
    asked: Calls,
    fresh: String,
}

impl Server {
    fn start(home: &Home, refuses: &'static str) -> Self {
        let path = home.path().join(".codex/app-server-control/app-server-control.sock");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let listener = UnixListener::bind(path).unwrap();
        let (asked, fresh) = (Calls::default(), session_id());
        let (heard, id) = (Arc::clone(&asked), fresh.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let Ok(mut socket) = tungstenite::accept(stream) else { continue };
                while let Ok(message) = socket.read() {
                    let Message::Text(text) = message else { continue };
                    let request: Value = serde_json::from_str(&text).unwrap();
                    let method = request["method"].as_str().unwrap().to_owned();
                    heard.lock().unwrap().push((method.clone(), request["params"].clone()));
                    let result = match method.as_str() {
                        "initialized" => continue,
                        "thread/start" => json!({ "thread": { "id": id, "path": null } }),
                        "thread/resume" => json!({ "model": "m", "approvalPolicy": "on-request",
                            "sandbox": { "type": "readOnly" }, "reasoningEffort": "high" }),
                        _ => json!({}),
                    };
                    let answer = if method == refuses {
                        json!({ "id": request["id"], "error": { "code": 1, "message": "no more of these" } })
                    } else {
                        json!({ "id": request["id"], "result": result })
                    };
                    if socket.send(Message::text(answer.to_string())).is_err() {
                        break;
                    }
                }
            }
        });
        Self { asked, fresh }
    }

    fn asked(&self, method: &str) -> Vec<Value> {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|(m, _)| m == method).map(|(_, params)| params.clone()).collect()
    }
}

/// A thread of the daemon that has worked and is now idle.
fn worked(home: &Home) -> CodexClient<'_> {
    let mut thread = CodexClient::with_args(home, &["app-server", "--listen", "unix://"]);
    thread.starts("startup").silent();
    thread.says("user", "Write the parser. Never use macros.");
    thread.prompt("Write the parser. Never use macros.").silent();
    std::fs::write(home.project().join("parser.rs"), "fn parser() {}\n").unwrap();
    let call = json!({ "cmd": "cat parser.rs" }).to_string();
    let call = json!({ "type": "function_call", "name": "exec_command", "call_id": "c1", "arguments": call });
    thread.record("response_item", &call);
    let output = "Chunk ID: 1\nProcess exited with code 0\nOutput:\nfn parser() {}\n";
    let output = json!({ "type": "function_call_output", "call_id": "c1", "output": output });
    thread.record("response_item", &output);
    thread.counts(30_000);
    thread
}

fn hand_over(home: &Home, thread: &CodexClient<'_>) {
    hand_over_as(home, thread, "-");
}

/// `what` is a file, or `-` for text on standard input.
fn hand_over_as(home: &Home, thread: &CodexClient<'_>, what: &str) {
    let mut command = home.baton(["handoff", what]);
    command.env("CODEX_THREAD_ID", &thread.thread);
    let heard = baton_testkit::hooks::send(command, b"# Where I am\nHALF-WAY.\n");
    assert_eq!(heard.code, Some(0), "{heard:?}");
}

/// What baton knows about this agent.
fn agent(home: &Home, id: &Value) -> Value {
    let all = home.run("status --all --json").json();
    all.as_array().unwrap().iter().find(|a| &a["agent"]["id"] == id).unwrap().clone()
}

fn attended(home: &Home, id: &Value) {
    wait_for("its attendant", || (agent(home, id)["actuator"] == "thread").then_some(()));
}

fn logged(home: &Home, event: &str) -> Vec<Value> {
    let log = home.run("log --json -n 200").ok();
    let lines = log.lines().map(|l| serde_json::from_str::<Value>(l).unwrap());
    lines.filter(|l| l["event"] == event).collect()
}

#[test]
fn a_handoff_is_followed_by_a_thread_with_the_same_setup_that_is_the_same_agent() {
    let home = Home::new(BATON);
    let server = Server::start(&home, "");
    let mut thread = worked(&home);
    let id = thread.kept()["agent"].clone();
    let _served = Served::new(&home);
    attended(&home, &id);
    hand_over(&home, &thread);
    let said = thread.stops(false);
    assert!(said.out.contains("continues in a new thread"), "{said:?}");
    let turn = wait_for("its first turn", || server.asked("turn/start").pop());
    let start = &server.asked("thread/start")[0];
    assert_eq!(start["sessionStartSource"], "clear");
    assert_eq!((&start["model"], &start["sandbox"]), (&json!("m"), &json!("read-only")), "{start}");
    assert_eq!(start["approvalPolicy"], "on-request");
    assert_eq!(start["cwd"], home.project().display().to_string());
    assert_eq!(turn["threadId"], server.fresh);
    assert_eq!(turn["effort"], "high");
    let prompt = turn["input"][0]["text"].as_str().unwrap();
    assert!(prompt.starts_with("Continue where the loaded handoff HO-"), "{prompt}");
    assert!(prompt.contains("=== FILES IN PLAY ===") && prompt.contains("fn parser() {}"), "{prompt}");
    assert_eq!(server.asked("thread/name/set")[0]["name"], id);
    let left = server.asked("thread/unsubscribe");
    assert!(left.iter().any(|l| l["threadId"] == thread.thread), "it never ends while we listen: {left:?}");

    thread.thread.clone_from(&server.fresh);
    let context = thread.starts("clear").context().unwrap();
    assert!(context.contains("HALF-WAY.") && context.contains("Never use macros."), "{context}");
    let more = thread.prompt(prompt).context();
    assert!(more.is_none_or(|more| !more.contains("FILES IN PLAY")), "its prompt brings them");
    assert_eq!(thread.kept()["agent"], id);
    let after = wait_for("the end of it", || Some(agent(&home, &id)).filter(|a| a["agent"]["in_a_row"] == 1));
    assert!(after["agent"]["rotation"].is_null(), "{after}");
    assert_eq!(server.asked("thread/start").len(), 1);
    assert_eq!(logged(&home, "rotated")[0]["detail"]["by"], "thread");
}

#[test]
fn the_first_turn_of_a_fresh_thread_names_the_file_that_the_agent_wrote() {
    let home = Home::new(BATON);
    let server = Server::start(&home, "");
    let mut thread = worked(&home);
    let id = thread.kept()["agent"].clone();
    let _served = Served::new(&home);
    attended(&home, &id);
    let file = home.write("work/app/h.md", "# Where I am\nHALF-WAY.\n");
    hand_over_as(&home, &thread, &file.display().to_string());
    thread.stops(false);
    let turn = wait_for("its first turn", || server.asked("turn/start").pop());
    let file = std::fs::canonicalize(file).unwrap();
    let prompt = format!("Read {} and continue from where you left off.", file.display());
    let text = turn["input"][0]["text"].as_str().unwrap();
    assert!(text.starts_with(&prompt), "{text}");
}

#[test]
fn a_refused_thread_is_given_up_once_and_the_handoff_waits() {
    let home = Home::new(BATON);
    let server = Server::start(&home, "thread/start");
    let mut thread = worked(&home);
    let id = thread.kept()["agent"].clone();
    let _served = Served::new(&home);
    attended(&home, &id);
    hand_over(&home, &thread);
    thread.stops(false);
    let failed = wait_for("the reason", || logged(&home, "rotation-failed").pop());
    assert!(failed["detail"]["note"].as_str().unwrap().contains("no more of these"), "{failed}");
    wait_for("its end", || agent(&home, &id)["agent"]["rotation"].is_null().then_some(()));
    assert_eq!(home.run("handoffs --json").json()[0]["status"], "active");
    assert_eq!(server.asked("thread/start").len(), 1, "it is not tried forever");
    // The user clears it themselves.
    thread.thread = session_id();
    assert!(thread.starts("clear").context().unwrap().contains("HALF-WAY."));
}

#[test]
fn a_daemon_that_starts_later_does_not_repeat_a_rotation_that_the_user_has_made() {
    let home = Home::new(BATON);
    let server = Server::start(&home, "");
    let mut thread = worked(&home);
    let id = thread.kept()["agent"].clone();
    hand_over(&home, &thread);
    let said = thread.stops(false);
    assert!(said.out.contains("type /clear"), "nobody else can do it: {said:?}");
    assert!(agent(&home, &id)["agent"]["rotation"].is_object());
    thread.thread = session_id();
    assert!(thread.starts("clear").context().unwrap().contains("HALF-WAY."));
    let _served = Served::new(&home);
    wait_for("the old request to go", || agent(&home, &id)["agent"]["rotation"].is_null().then_some(()));
    assert!(server.asked("thread/start").is_empty(), "a second thread was started");
}

#[test]
fn mail_gives_an_idle_thread_one_turn_and_a_server_that_hangs_up_costs_one_line() {
    let home = Home::new(BATON);
    let mut thread = worked(&home);
    thread.stops(false).silent();
    let id = thread.kept()["agent"].clone();
    let name = id.as_str().unwrap();
    // Another program listens there and hangs up, twice.
    let path = home.path().join(".codex/app-server-control/app-server-control.sock");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let wrong = UnixListener::bind(&path).unwrap();
    let hangs_up = std::thread::spawn(move || drop((wrong.accept(), wrong.accept())));
    let _served = Served::new(&home);
    attended(&home, &id);
    home.run(&format!("send {name} FIRST-WORD")).ok();
    let fault = wait_for("the fault", || {
        logged(&home, "fault").into_iter().find(|l| l["detail"]["doing"] == "attend to its thread")
    });
    assert!(fault["detail"]["error"].as_str().unwrap().contains("does not speak WebSocket"), "{fault}");
    hangs_up.join().unwrap();
    // The next try finds the right server.
    std::fs::remove_file(&path).unwrap();
    let server = Server::start(&home, "");
    let turn = wait_for("the turn", || server.asked("turn/start").pop());
    assert_eq!(turn["threadId"], thread.thread);
    let prompt = turn["input"][0]["text"].as_str().unwrap().to_owned();
    assert!(prompt.starts_with("[baton message waiting]"), "{prompt}");
    assert!(thread.prompt(&prompt).context().unwrap().contains("FIRST-WORD"));
    thread.stops(false).silent();
    wait_for("the word that we no longer listen", || server.asked("thread/unsubscribe").pop());
    assert_eq!(server.asked("turn/start").len(), 1);
    let faults = logged(&home, "fault");
    let ours: Vec<_> = faults.iter().filter(|l| l["detail"]["doing"] == "attend to its thread").collect();
    assert_eq!(ours.len(), 1, "{ours:?}");
}

/// The kernel drops events when a process does not read them for too long.
#[test]
fn mail_gives_an_idle_thread_a_turn_even_if_the_kernel_dropped_its_event() {
    let home = Home::new(BATON);
    let server = Server::start(&home, "");
    let mut thread = worked(&home);
    thread.stops(false).silent();
    let id = thread.kept()["agent"].clone();
    let daemon = Served::new(&home);
    attended(&home, &id);
    baton_testkit::overflow::unseen(daemon.pid(), &home.state().join("agents"), || {
        home.run(&format!("send {} FIRST-WORD", id.as_str().unwrap())).ok();
    });
    let turn = wait_for("the turn", || server.asked("turn/start").pop());
    assert_eq!(turn["threadId"], thread.thread);
}
