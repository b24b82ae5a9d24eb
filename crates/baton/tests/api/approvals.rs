//! `/approvals`: the same requests and answers as on the command line, for programs and pages.

use std::io::{Read as _, Write as _};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use baton_testkit::Home;
use baton_testkit::daemon::Served;
use baton_testkit::hooks::Client;
use baton_testkit::wait::{wait_for, wait_until};
use serde_json::{Value, json};

use crate::BATON;

const PATIENCE: Duration = Duration::from_secs(30);

fn home(more: &str) -> Home {
    let home = Home::new(BATON);
    home.write(".config/baton/config.toml", format!("[approvals]\nwait_for = \"all\"\n{more}"));
    home
}

pub(crate) fn ask(client: &Client<'_>, command: &str) -> Child {
    let input = json!({ "tool_name": "Bash", "tool_input": { "command": command } });
    let mut hook = client.command("PermissionRequest");
    let mut child = hook.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let payload = client.payload("PermissionRequest", input).to_string();
    child.stdin.take().unwrap().write_all(payload.as_bytes()).unwrap();
    child
}

pub(crate) fn decision(mut hook: Child) -> Value {
    let mut out = String::new();
    hook.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    hook.wait().unwrap();
    serde_json::from_str::<Value>(&out).unwrap()["hookSpecificOutput"]["decision"].clone()
}

#[track_caller]
fn waiting(served: &Served<'_>) -> Value {
    let until = Instant::now() + PATIENCE;
    loop {
        let listed = served.get("/approvals")["approvals"].clone();
        if listed[0].is_object() {
            return listed[0].clone();
        }
        assert!(Instant::now() < until, "nothing waits");
    }
}

#[test]
fn a_program_lists_and_answers_with_the_hash_of_what_it_was_shown() {
    let home = home("");
    let served = Served::new(&home);
    let client = Client::new(&home);
    client.starts("startup").ok();
    let hook = ask(&client, "make");
    let shown = waiting(&served);
    assert_eq!((&shown["state"], &shown["input"]["command"]), (&json!("waiting"), &json!("make")));
    let path = format!("/approvals/{}", shown["short"].as_str().unwrap());
    let post = |body: Value| served.ask("POST", &path, Some(&body));
    let wrong = post(json!({ "verdict": "allow", "hash": "0".repeat(64) }));
    assert_eq!(wrong.status, 409, "{}", wrong.json());
    assert_eq!(post(json!({ "verdict": "allow" })).status, 422, "what was shown must be named");
    assert_eq!(post(json!({ "verdict": "deny", "hash": shown["id"] })).status, 422, "a denial has a reason");
    assert_eq!(
        served.ask("POST", "/approvals/ffffffff", Some(&json!({ "verdict": "allow", "hash": "" }))).status,
        404
    );
    let answered = post(json!({ "verdict": "deny", "hash": shown["id"], "reason": "Not today." }));
    assert_eq!((answered.status, &answered.json()["state"]), (200, &json!("offered")));
    assert_eq!(decision(hook), json!({ "behavior": "deny", "message": "Not today." }));
    let late = post(json!({ "verdict": "allow", "hash": shown["id"] }));
    assert_eq!(late.status, 409, "{}", late.json());
    assert_eq!(served.get("/approvals"), json!({ "approvals": [], "at_terminals": [] }));
    client.hook("Stop").ok();
    let record = home.run("approvals log --json").json()[0].clone();
    assert_eq!((&record["state"], &record["answer"]["door"]), (&json!("denied"), &json!("socket")));
}

#[test]
fn a_daemon_that_is_killed_while_a_request_waits_shows_it_again_when_it_is_back() {
    let home = home("");
    let served = Served::new(&home);
    let client = Client::new(&home);
    client.starts("startup").ok();
    let hook = ask(&client, "make");
    waiting(&served);
    served.kill();
    let served = Served::new(&home);
    let shown = waiting(&served);
    let path = format!("/approvals/{}", shown["short"].as_str().unwrap());
    served.post(&path, &json!({ "verdict": "allow", "hash": shown["id"] }));
    assert_eq!(decision(hook), json!({ "behavior": "allow" }));
}

#[test]
fn the_users_command_gets_each_request_once_and_without_its_secrets() {
    let home =
        home("[notify]\ncommand = \"echo \\\"$BATON_NOTICE $BATON_REQUEST $BATON_TEXT\\\" >> $HOME/told\"\n");
    let served = Served::new(&home);
    let client = Client::new(&home);
    client.starts("startup").ok();
    let key = ["sk-ant-", "api03-", &"a1B2c3D4".repeat(10)].concat();
    let hook = ask(&client, &format!("curl -H 'x-api-key: {key}' https://example.com"));
    let shown = waiting(&served);
    let told = home.path().join("told");
    let text = wait_for("the command to run", || {
        std::fs::read_to_string(&told).ok().filter(|text| !text.is_empty())
    });
    assert!(
        text.starts_with(&format!(
            "blocked {} [baton] app asks for Bash: curl",
            shown["id"].as_str().unwrap()
        )),
        "{text}"
    );
    assert!(!text.contains(&key), "{text}");
    let path = format!("/approvals/{}", shown["short"].as_str().unwrap());
    served.post(&path, &json!({ "verdict": "allow", "hash": shown["id"] }));
    decision(hook);
    assert_eq!(std::fs::read_to_string(&told).unwrap().lines().count(), 1);
}

#[test]
fn a_parent_is_told_once_what_its_child_waits_for() {
    let home = home("");
    let served = Served::new(&home);
    let (child, parent) = (Client::new(&home), Client::new(&home));
    child.starts("startup").ok();
    parent.starts("startup").ok();
    let path = home.state().join("agents/app.json");
    let mut record = baton_testkit::home::record(&path);
    record["parent"] = json!("app-oak");
    std::fs::write(&path, record.to_string()).unwrap();
    child.hook("UserPromptSubmit").ok();
    let hook = ask(&child, "cargo publish");
    let told = wait_for("the parent's notice", || {
        let inbox: Value = serde_json::from_str(&home.run("inbox app-oak --json").out).unwrap_or_default();
        inbox[0]["text"].as_str().map(str::to_owned)
    });
    assert_eq!(told, "[baton] app: asks: Bash \"cargo publish\"");
    let shown = waiting(&served);
    served.post(
        &format!("/approvals/{}", shown["short"].as_str().unwrap()),
        &json!({ "verdict": "allow", "hash": shown["id"] }),
    );
    decision(hook);
    let answered = "[baton] what app asked for is over, allowed by user (socket): Bash: cargo publish";
    wait_until("the answer is told", || home.run("inbox app-oak --json").out.contains(answered));
    // The next daemon reports what was answered while none ran.
    let hook = ask(&child, "cargo yank");
    let shown = waiting(&served);
    drop(served);
    home.run(&format!("approve {}", shown["short"].as_str().unwrap())).ok();
    decision(hook);
    let _served = Served::new(&home);
    let answered = "[baton] what app asked for is over, allowed by user (cli): Bash: cargo yank";
    let told = || home.run("inbox app-oak --json").out.matches(answered).count();
    wait_until("the second answer is told", || told() == 1);
}

/// A command of the user's that writes each notice to a file.
const TELLS: &str = "command = \"echo \\\"$BATON_NOTICE $BATON_REQUEST $BATON_TEXT\\\" >> $HOME/told\"\n";

fn told(home: &Home) -> String {
    std::fs::read_to_string(home.path().join("told")).unwrap_or_default()
}

#[test]
fn a_muted_agents_request_is_listed_but_nobody_is_notified() {
    let home = home(&format!("[notify]\n{TELLS}mute = \"app:blocked\"\n"));
    let served = Served::new(&home);
    let (muted, other) = (Client::new(&home), Client::new(&home));
    muted.starts("startup").ok();
    other.starts("startup").ok();
    assert_eq!(muted.agent(), "app");
    let quiet = ask(&muted, "make");
    waiting(&served);
    let loud = ask(&other, "make test");
    wait_until("the other's request is told", || told(&home).contains("make test"));
    assert_eq!(told(&home).lines().count(), 1, "{}", told(&home));
    for client in [&muted, &other] {
        client.hook("Stop").ok();
    }
    drop((quiet.wait_with_output(), loud.wait_with_output()));
}

#[test]
fn an_agent_at_its_own_dialog_is_reported_although_a_rule_answered_before() {
    let home = home(&format!("wait_for = \"nobody\"\nallow = [\"Bash(make:*)\"]\n[notify]\n{TELLS}"));
    let config = home.path().join(".config/baton/config.toml");
    let text = std::fs::read_to_string(&config).unwrap().replace("wait_for = \"all\"\n", "");
    std::fs::write(&config, text).unwrap();
    let _served = Served::new(&home);
    let client = Client::new(&home);
    client.starts("startup").ok();
    client.hook("UserPromptSubmit").ok();
    // Allowed by the rule, but nothing shows yet that it ran.
    assert_eq!(decision(ask(&client, "make"))["behavior"], "allow");
    assert!(client.kept()["approvals"].is_array());
    ask(&client, "rm -rf build").wait().unwrap();
    wait_until("the dialog is told", || told(&home).contains("waits for "));
}

#[test]
fn a_page_answers_with_the_token_and_the_stream_reports_everything() {
    let home = home("");
    let served = Served::on_http(&home);
    let client = Client::new(&home);
    client.starts("startup").ok();
    let mut wire = served.unix();
    wire.say(b"GET /events?agent=app HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    wire.hear_head().unwrap();
    let mut next = |name: &str| loop {
        let line = wire.line().unwrap();
        if line.trim_end() == format!("event: {name}") {
            let data = wire.line().unwrap();
            return serde_json::from_str::<Value>(data.strip_prefix("data: ").unwrap()).unwrap();
        }
    };
    let hook = ask(&client, "make");
    let asked = next("approval-asked");
    assert_eq!((&asked["detail"]["tool"], &asked["detail"]["about"]), (&json!("Bash"), &json!("make")));
    let shown = waiting(&served);
    assert_eq!(shown["short"], asked["detail"]["id"]);
    let path = format!("/approvals/{}", shown["short"].as_str().unwrap());
    let body = json!({ "verdict": "allow", "hash": shown["id"] });
    let post = |token: &str| {
        let header = format!("Bearer {token}");
        let headers = [("Host", served.http.as_deref().unwrap()), ("Authorization", header.as_str())];
        served.tcp().ask("POST", &path, &headers, Some(&body)).unwrap().status
    };
    assert_eq!(post("not-the-token"), 401);
    assert_eq!(post(&served.token()), 200);
    assert_eq!(decision(hook), json!({ "behavior": "allow" }));
    assert_eq!(next("approval-answered")["detail"]["door"], "page");
    client.hook_with("PostToolUse", json!({ "tool_input": { "command": "make" } })).ok();
    assert_eq!(next("approval-settled")["detail"]["state"], "allowed");
    assert_eq!(home.run("approvals log --json").json()[0]["answer"]["door"], "page");
}

/// More requests than instances of the user's command may run at once.
#[test]
fn every_one_of_many_concurrent_requests_is_reported() {
    const CROWD: usize = 12;
    let home = home("[notify]\ncommand = \"sleep 0.1; echo $BATON_REQUEST >> $HOME/told\"\n");
    let client = Client::new(&home);
    client.starts("startup").ok();
    let _served = Served::new(&home);
    let hooks: Vec<Child> = (0..CROWD).map(|n| ask(&client, &format!("make {n}"))).collect();
    let lines = || told(&home).lines().map(str::to_owned).collect::<std::collections::BTreeSet<_>>();
    wait_until("all are told", || lines().len() == CROWD);
    home.run("approve --all --agent app").ok();
    assert!(hooks.into_iter().all(|hook| decision(hook)["behavior"] == "allow"));
}
