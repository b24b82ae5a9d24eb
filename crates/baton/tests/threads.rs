//! Threads on a shared daemon, with a server that speaks its protocol and a client that runs its hooks; the real one is
//! in `clients/codex_daemon.rs`.

use std::os::unix::net::UnixListener;
use std::sync::{Arc, Mutex};

use baton_testkit::Home;
use baton_testkit::codex::CodexClient;
use baton_testkit::daemon::Served;
use baton_testkit::hooks::session_id;
use serde_json::{Value, json};
use tungstenite::Message;

use crate::BATON;
use crate::panes::wait_for;

type Asked = Arc<Mutex<Vec<(String, Value)>>>;

/// A server that answers as Codex's does, but for what `refuses`, and starts threads of this id.
struct Server {
    asked: Asked,
    fresh: String,
}

impl Server {
    fn start(home: &Home, refuses: &'static str) -> Self {
        let path = home.path().join(".codex/app-server-control/app-server-control.sock");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let listener = UnixListener::bind(path).unwrap();
        let (asked, fresh) = (Asked::default(), session_id());
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

/// A thread of the daemon that has worked and is idle.
fn worked(home: &Home) -> CodexClient<'_> {
    let mut thread = CodexClient::with_args(home, &["app-server", "--listen", "unix://"]);
    thread.starts("startup").silent();
    thread.says("user", "Write the parser. Never use macros.");
    thread.prompt("Write the parser. Never use macros.").silent();
    thread.counts(30_000);
    thread
}

fn hand_over(home: &Home, thread: &CodexClient<'_>) {
    let mut command = home.baton(["handoff", "-"]);
    command.env("CODEX_THREAD_ID", &thread.thread);
    let heard = baton_testkit::hooks::send(command, b"# Where I am\nHALF-WAY.\n");
    assert_eq!(heard.code, Some(0), "{heard:?}");
}

/// What baton knows of this agent.
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
    assert!(said.out.contains("goes on in a new thread"), "{said:?}");
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
    assert_eq!(server.asked("thread/name/set")[0]["name"], id);
    let left = server.asked("thread/unsubscribe");
    assert!(left.iter().any(|l| l["threadId"] == thread.thread), "it never ends while we listen: {left:?}");

    thread.thread.clone_from(&server.fresh);
    let context = thread.starts("clear").context().unwrap();
    assert!(context.contains("HALF-WAY.") && context.contains("Never use macros."), "{context}");
    thread.prompt(prompt);
    assert_eq!(thread.kept()["agent"], id);
    let after = wait_for("the end of it", || Some(agent(&home, &id)).filter(|a| a["agent"]["in_a_row"] == 1));
    assert!(after["agent"]["rotation"].is_null(), "{after}");
    assert_eq!(server.asked("thread/start").len(), 1);
    assert_eq!(logged(&home, "rotated")[0]["detail"]["by"], "thread");
}

#[test]
fn what_the_server_refuses_is_given_up_once_and_the_handoff_waits() {
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
    assert_eq!(server.asked("thread/start").len(), 1, "it is not tried for ever");
    // The user clears by hand.
    thread.thread = session_id();
    assert!(thread.starts("clear").context().unwrap().contains("HALF-WAY."));
}

#[test]
fn what_was_taken_up_by_hand_is_not_started_again_by_a_daemon_that_comes_later() {
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
    // Something else listens there and hangs up, twice.
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
    // The right one is there when it is tried again.
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
