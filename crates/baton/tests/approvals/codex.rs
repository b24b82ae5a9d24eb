//! Codex: on its daemon we are one of several clients and the first answer wins; without the daemon a waiting hook
//! hides the dialog, so it waits only if nobody is looking.

use std::os::unix::net::UnixListener;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use baton_testkit::codex::CodexClient;
use baton_testkit::daemon::Served;
use baton_testkit::wait::wait_for;
use tungstenite::Message;

use super::*;

/// Codex's daemon: answers every request, sends the requests it is told to, and records what it receives.
struct Server {
    heard: Arc<Mutex<Vec<Value>>>,
    says: Sender<Value>,
    /// Open requests, repeated to every new subscriber.
    open: Arc<Mutex<Vec<Value>>>,
}

impl Server {
    fn start(home: &Home) -> Self {
        let path = home.path().join(".codex/app-server-control/app-server-control.sock");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let listener = UnixListener::bind(path).unwrap();
        let (heard, open) = (Arc::<Mutex<Vec<Value>>>::default(), Arc::<Mutex<Vec<Value>>>::default());
        let (says, said) = channel();
        let kept = (Arc::clone(&heard), Arc::clone(&open));
        std::thread::spawn(move || serve(&listener, &kept.0, &kept.1, &said));
        Self { heard, says, open }
    }

    fn say(&self, message: &Value) {
        self.says.send(message.clone()).unwrap();
    }

    /// Sends a request, and repeats it to every new subscriber until it is answered.
    fn ask(&self, message: &Value) {
        self.open.lock().unwrap().push(message.clone());
        self.say(message);
    }

    fn resolved(&self, thread: &str, id: u64) {
        self.open.lock().unwrap().retain(|message| message["id"] != id);
        self.say(
            &json!({ "method": "serverRequest/resolved", "params": { "threadId": thread, "requestId": id } }),
        );
    }

    fn asked(&self, method: &str) -> Vec<Value> {
        let heard = self.heard.lock().unwrap();
        heard.iter().filter(|m| m["method"] == method).map(|m| m["params"].clone()).collect()
    }

    /// The answer that it got to its request.
    fn answer(&self, id: u64) -> Value {
        wait_for("an answer", || {
            let heard = self.heard.lock().unwrap();
            heard.iter().find(|m| m.get("method").is_none() && m["id"] == id).map(|m| m["result"].clone())
        })
    }
}

fn serve(
    listener: &UnixListener,
    heard: &Mutex<Vec<Value>>,
    open: &Mutex<Vec<Value>>,
    said: &Receiver<Value>,
) {
    for stream in listener.incoming().flatten() {
        let Ok(mut socket) = tungstenite::accept(stream) else { continue };
        socket.get_ref().set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        loop {
            while let Ok(message) = said.try_recv() {
                let _ = socket.send(Message::text(message.to_string()));
            }
            let text = match socket.read() {
                Ok(Message::Text(text)) => text,
                Ok(_) => continue,
                Err(tungstenite::Error::Io(e)) if e.kind() == std::io::ErrorKind::WouldBlock => continue,
                Err(_) => break,
            };
            let request: Value = serde_json::from_str(&text).unwrap();
            heard.lock().unwrap().push(request.clone());
            if request.get("method").is_none() || request.get("id").is_none() {
                continue;
            }
            let _ = socket.send(Message::text(json!({ "id": request["id"], "result": {} }).to_string()));
            if request["method"] == "thread/resume" {
                for message in open.lock().unwrap().iter() {
                    let _ = socket.send(Message::text(message.to_string()));
                }
            }
        }
    }
}

/// A thread of the daemon in the middle of a turn.
fn working(home: &Home) -> CodexClient<'_> {
    let mut thread = CodexClient::with_args(home, &["app-server", "--listen", "unix://"]);
    thread.starts("startup").silent();
    thread.says("user", "Write the parser.");
    thread.prompt("Write the parser.").silent();
    thread
}

/// Runs the hook that comes before the server's request.
fn hook_asks(thread: &mut CodexClient<'_>, command: &str) {
    let heard = thread
        .hook("PermissionRequest", json!({ "tool_name": "Bash", "tool_input": { "command": command } }));
    heard.silent();
}

fn command(thread: &str, id: u64, command: &str) -> Value {
    json!({ "method": "item/commandExecution/requestApproval", "id": id, "params": {
        "kind": "command", "threadId": thread, "turnId": "u1", "itemId": format!("call_{id}"), "reason": "to see",
        "command": format!("/bin/bash -lc '{command}'"), "cwd": "/tmp", "availableDecisions": ["accept", "cancel"] } })
}

fn item(thread: &str, id: u64, status: &str) -> Value {
    json!({ "method": "item/completed", "params": { "threadId": thread, "turnId": "u1", "completedAtMs": 1,
        "item": { "type": "commandExecution", "id": format!("call_{id}"), "status": status } } })
}

fn settled(home: &Home, state: &str) -> Value {
    wait_for(state, || Some(newest(home)).filter(|row| row["state"] == state))
}

#[test]
fn on_codexs_daemon_a_request_is_answered_through_the_server() {
    let home = home();
    let server = Server::start(&home);
    let mut thread = working(&home);
    let _served = Served::new(&home);
    wait_until("it listens", || !server.asked("thread/resume").is_empty());
    let id = thread.thread.clone();
    hook_asks(&mut thread, "make");
    server.ask(&command(&id, 0, "make"));
    let row = listed(&home, 1).remove(0);
    assert_eq!(
        (&row["tool"], &row["input"]["command"], &row["provider"]),
        (&json!("Bash"), &json!("make"), &json!("codex"))
    );
    let more = run(&home, &["approve", &short(&row), "--session"]).fails(1);
    assert!(more.contains("takes a yes or a no"), "{more}");
    run(&home, &["approve", &short(&row)]).ok();
    assert_eq!(server.answer(0), json!({ "decision": "accept" }));
    server.resolved(&id, 0);
    assert_eq!(newest(&home)["state"], "offered");
    wait_until("it works on", || thread.kept()["turn"] == "working");
    server.say(&item(&id, 0, "completed"));
    assert_eq!(settled(&home, "allowed")["answer"]["door"], "cli");

    // A denial has no text in this protocol, so the reason follows in the same turn.
    hook_asks(&mut thread, "rm -rf build");
    server.ask(&command(&id, 1, "rm -rf build"));
    let reason = "Keep it:  word for word.";
    run(&home, &["deny", &short(&listed(&home, 1)[0]), reason]).ok();
    assert_eq!(server.answer(1), json!({ "decision": "decline" }));
    let told = wait_for("the reason", || server.asked("turn/steer").pop());
    assert_eq!((&told["input"][0]["text"], &told["expectedTurnId"]), (&json!(reason), &json!("u1")));
    server.resolved(&id, 1);
    server.say(&item(&id, 1, "declined"));
    settled(&home, "denied");

    // Somebody at the terminal was first; another request is allowed here after it was refused there.
    server.ask(&command(&id, 2, "ls"));
    let late = short(&listed(&home, 1)[0]);
    server.resolved(&id, 2);
    assert_eq!(settled(&home, "closed")["answer"]["because"], "answered-at-terminal");
    assert!(run(&home, &["approve", &late]).fails(1).contains("answered at the terminal"));
    server.say(&item(&id, 2, "completed"));
    server.ask(&command(&id, 3, "ls -l"));
    run(&home, &["approve", &short(&listed(&home, 1)[0])]).ok();
    server.answer(3);
    server.resolved(&id, 3);
    server.say(&item(&id, 3, "declined"));
    settled(&home, "too-late");
    assert!(server.asked("thread/unsubscribe").is_empty(), "nobody is asked who does not listen");
}

#[test]
fn on_codexs_daemon_questions_and_patches_are_answered_too() {
    let home = home();
    let server = Server::start(&home);
    let mut thread = working(&home);
    let _served = Served::new(&home);
    wait_until("it listens", || !server.asked("thread/resume").is_empty());
    let id = thread.thread.clone();
    let options = json!([{ "label": "Red", "description": "r" }, { "label": "Blue", "description": "b" }]);
    server.ask(
        &json!({ "method": "item/tool/requestUserInput", "id": 7, "params": { "threadId": id, "turnId": "u1",
        "itemId": "call_q", "questions": [{ "id": "q1", "header": "Color", "question": "Which color?",
        "isOther": true, "isSecret": false, "options": options }] } }),
    );
    let row = listed(&home, 1).remove(0);
    assert!(home.run("approvals").ok().contains("2. Blue: b"));
    run(&home, &["answer", &short(&row), "2"]).ok();
    assert_eq!(server.answer(7), json!({ "answers": { "q1": { "answers": ["Blue"] } } }));
    server.resolved(&id, 7);
    settled(&home, "allowed");

    let changes = json!([{ "path": "/p/a.rs", "kind": { "type": "update", "move_path": null }, "diff": "@@\n-old\n+new\n" }]);
    let item =
        |status: &str| json!({ "type": "fileChange", "id": "call_p", "status": status, "changes": changes });
    server.say(&json!({ "method": "item/started", "params": { "threadId": id, "turnId": "u1", "item": item("inProgress") } }));
    hook_asks(&mut thread, "apply_patch");
    server.ask(&json!({ "method": "item/fileChange/requestApproval", "id": 8,
        "params": { "threadId": id, "turnId": "u1", "itemId": "call_p" } }));
    let row = listed(&home, 1).remove(0);
    let screen = home.run("approvals").ok();
    assert!(screen.contains("    *** Update File: /p/a.rs\n    @@\n    -old\n    +new\n"), "{screen}");
    run(&home, &["approve", &short(&row)]).ok();
    assert_eq!(server.answer(8), json!({ "decision": "accept" }));
    server.resolved(&id, 8);
    server.say(&json!({ "method": "item/completed", "params": { "threadId": id, "turnId": "u1", "item": item("completed") } }));
    wait_until("it is settled", || {
        newest(&home)["tool"] == "apply_patch" && newest(&home)["state"] == "allowed"
    });

    // The server named the files before anybody listened, and nobody may allow what they cannot see.
    server.ask(&json!({ "method": "item/fileChange/requestApproval", "id": 9,
        "params": { "threadId": id, "turnId": "u1", "itemId": "call_unseen" } }));
    hook_asks(&mut thread, "apply_patch");
    wait_until("it is listed", || home.run("approvals").out.contains("waits in its terminal"));
    listed(&home, 0);
}

#[test]
fn after_our_daemon_dies_the_next_one_is_asked_again() {
    let home = home();
    let server = Server::start(&home);
    let mut thread = working(&home);
    let daemon = Served::new(&home);
    wait_until("it listens", || !server.asked("thread/resume").is_empty());
    let id = thread.thread.clone();
    hook_asks(&mut thread, "make");
    server.ask(&command(&id, 0, "make"));
    listed(&home, 1);
    daemon.kill();
    listed(&home, 0);
    let _served = Served::new(&home);
    let row = listed(&home, 1).remove(0);
    run(&home, &["approve", &short(&row)]).ok();
    assert_eq!(server.answer(0), json!({ "decision": "accept" }));
    // The end of the turn closes the rest.
    server.resolved(&id, 0);
    server.ask(&command(&id, 1, "make test"));
    listed(&home, 1);
    thread.stops(false);
    listed(&home, 0);
}

#[test]
fn a_thread_that_nobody_leads_waits_in_its_terminal_and_every_door_says_so() {
    let home = Home::new(BATON);
    let mut thread = working(&home);
    let served = Served::new(&home);
    hook_asks(&mut thread, "rm -rf build");
    let screen = home.run("approvals").ok();
    assert!(screen.contains("waits in its terminal") && screen.contains("Bash: rm -rf build"), "{screen}");
    let row = served.get("/approvals")["at_terminals"][0].clone();
    assert_eq!((&row["state"], &row["about"]), (&json!("at-terminal"), &json!("Bash: rm -rf build")));
    assert!(
        home.run("approve").fails(3).contains("Bash: rm -rf build")
            || home.run("approve").out.contains("Bash: rm")
    );
    let mut watching = home.baton(["approvals", "--watch", "--json"]);
    let mut child = watching.stdout(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut first)
        .unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let first: Value = serde_json::from_str(&first).unwrap();
    assert_eq!(first["about"], "Bash: rm -rf build");
}

#[test]
fn headless_codex_waits_and_takes_a_yes_or_a_no_with_its_reason() {
    let home = home();
    let mut client = CodexClient::with_args(&home, &["exec", "--approve-for-me"]);
    client.starts("startup").silent();
    client.prompt("Go.").silent();
    let asks = json!({ "tool_name": "Bash", "tool_input": { "command": "make", "description": "Build" } });
    for (args, decision) in [
        (vec!["approve"], json!({ "behavior": "allow" })),
        (vec!["deny", "Not today."], json!({ "behavior": "deny", "message": "Not today." })),
    ] {
        let heard = std::thread::scope(|scope| {
            let hook = scope.spawn(|| client.hook("PermissionRequest", asks.clone()));
            let id = short(&listed(&home, 1)[0]);
            assert!(run(&home, &["approve", &id, "--always"]).fails(1).contains("takes a yes or a no"));
            let mut args = args.clone();
            args.insert(1, &id);
            run(&home, &args).ok();
            hook.join().unwrap()
        });
        assert_eq!(heard.answer().unwrap()["hookSpecificOutput"]["decision"], decision);
    }
    client.hook(
        "PostToolUse",
        json!({ "tool_name": "Bash", "tool_input": { "command": "make" }, "tool_response": "" }),
    );
    assert_eq!(home.run("approvals log --json").json()[1]["state"], "allowed");
}

/// A person at the terminal of a client without a parent loses nothing.
#[test]
fn an_attended_codex_is_never_waited_for() {
    let home = home();
    let mut client = CodexClient::new(&home);
    client.starts("startup").silent();
    client.prompt("Go.").silent();
    hook_asks(&mut client, "make");
    assert!(!home.state().join("approvals").exists());
}

/// Codex in a pane of `baton spawn`: it runs whatever line it is given, so that its hooks are its children.
struct Spawned {
    world: World,
    lines: std::path::PathBuf,
    thread: String,
}

impl Spawned {
    fn start() -> Option<Self> {
        let world = World::new("")?;
        let (home, lines) = (&world.home, world.home.path().join("lines"));
        let script = format!(
            "#!/bin/bash\nwhile true; do read -r line < '{}' && eval \"$line\"; done\n",
            lines.display()
        );
        let codex = home.write("bin/codex", script);
        std::fs::set_permissions(&codex, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        assert!(Command::new("mkfifo").arg(&lines).status().unwrap().success());
        let mut spawn = world.command_for("worker", &["spawn", "worker", "--provider", "codex"]);
        let path = format!("{}:{}", home.path().join("bin").display(), std::env::var("PATH").unwrap());
        baton_testkit::home::run(spawn.env("PATH", path)).ok();
        let thread = baton_testkit::hooks::session_id();
        let spawned = Self { world, lines, thread };
        spawned.hook("SessionStart", json!({ "source": "startup" }));
        spawned.hook("UserPromptSubmit", json!({ "prompt": "Go." }));
        Some(spawned)
    }

    /// Starts a hook in the pane; when it has ended, its output is in the returned file.
    #[expect(clippy::needless_pass_by_value, reason = "callers write json!(…)")]
    fn begin(&self, event: &str, fields: Value) -> std::path::PathBuf {
        let home = &self.world.home;
        let mut payload = json!({ "session_id": self.thread, "turn_id": "u", "hook_event_name": event,
            "transcript_path": home.path().join(format!(".codex/sessions/2026/11/16/rollout-2026-11-16T00-45-20-{}.jsonl", self.thread)),
            "cwd": home.project(), "model": "m", "permission_mode": "default" });
        payload.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let name = baton_testkit::hooks::session_id();
        let input = home.write(&format!("hooks/{name}.in"), payload.to_string());
        let (out, done) = (input.with_extension("out"), input.with_extension("done"));
        let line = format!(
            "'{}' hook --provider codex {event} < '{}' > '{}'; mv '{2}' '{}'\n",
            home.binary().display(),
            input.display(),
            out.display(),
            done.display()
        );
        std::fs::write(&self.lines, line).unwrap();
        done
    }

    fn hook(&self, event: &str, fields: Value) -> String {
        let done = self.begin(event, fields);
        wait_for("the end of a hook", || std::fs::read_to_string(&done).ok())
    }

    fn asks(&self, command: &str) -> std::path::PathBuf {
        self.begin("PermissionRequest", json!({ "tool_name": "Bash", "tool_input": { "command": command } }))
    }
}

#[test]
fn a_person_who_looks_at_the_pane_of_a_spawned_codex_gets_its_dialog() -> anyhow::Result<()> {
    let Some(spawned) = Spawned::start() else { return Ok(()) };
    let home = &spawned.world.home;
    let hook = spawned.asks("make");
    let id = short(&listed(home, 1)[0]);
    // Nobody is looking, so it is answered from elsewhere.
    run(home, &["approve", &id]).ok();
    let said = wait_for("its answer", || std::fs::read_to_string(&hook).ok());
    assert!(said.contains("\"allow\""), "{said}");
    // A plain `tmux attach` while it waits gives the question back to the dialog.
    let hook = spawned.asks("make test");
    listed(home, 1);
    let mut tmux = home.command("tmux");
    tmux.env("TMUX_TMPDIR", home.path()).env("TERM", "xterm-256color").args(["-L", "baton", "attach"]);
    let mut pty = Pty::start(&tmux)?;
    assert_eq!(wait_for("the end of its waiting", || std::fs::read_to_string(&hook).ok()), "");
    assert_eq!(newest(home)["answer"]["because"], "withdrawn");
    // While somebody is looking, nothing waits.
    assert_eq!(
        spawned.hook("PermissionRequest", json!({ "tool_name": "Bash", "tool_input": { "command": "ls" } })),
        ""
    );
    listed(home, 0);
    assert!(home.run("approvals").ok().contains("worker waits in its terminal"));
    pty.hang_up();
    wait_until("the terminal is gone", || spawned.world.tmux(&["list-clients"]).trim().is_empty());
    spawned.asks("make install");
    listed(home, 1);
    Ok(())
}
