//! Permission requests: one hook waits, several doors answer, the first answer wins, and everything is recorded.

mod codex;
mod doors;
mod ends;
mod keys;
mod shown;
mod who;

use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use baton_testkit::hooks::Client;
use baton_testkit::pty::Pty;
use baton_testkit::wait::{poll, wait_until};
use baton_testkit::{CommandOutput, Home};
use serde_json::{Value, json};

use crate::BATON;
use crate::world::{World, wait_for_or};

/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// A home where the requests of all agents wait.
fn home() -> Home {
    let home = Home::new(BATON);
    home.write(".config/baton/config.toml", "[approvals]\nwait_for = \"all\"\n");
    home
}

/// A waiting hook.
struct Waiting {
    child: Child,
    asked: Instant,
}

impl Waiting {
    fn start(mut command: Command, payload: &Value) -> Self {
        let asked = Instant::now();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(payload.to_string().as_bytes()).unwrap();
        Self { child, asked }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its output when it has ended.
    fn heard(mut self) -> Option<Value> {
        let ended = poll(PATIENCE, || self.child.try_wait().unwrap());
        let ended = ended.unwrap_or_else(|| panic!("the hook still waits after {:?}", self.asked.elapsed()));
        assert_eq!(ended.code(), Some(0));
        let mut out = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        (!out.trim().is_empty()).then(|| serde_json::from_str(&out).unwrap())
    }

    fn decision(self) -> Value {
        self.heard().expect("an answer")["hookSpecificOutput"]["decision"].clone()
    }
}

fn ask(client: &Client<'_>, fields: Value) -> Waiting {
    let payload = client.payload("PermissionRequest", fields);
    Waiting::start(client.command("PermissionRequest"), &payload)
}

fn bash(client: &Client<'_>, command: &str) -> Waiting {
    ask(client, json!({ "tool_name": "Bash", "tool_input": { "command": command } }))
}

/// The waiting requests, once there are `count` of them.
#[track_caller]
fn listed(home: &Home, count: usize) -> Vec<Value> {
    let until = Instant::now() + PATIENCE;
    loop {
        let rows: Value = serde_json::from_str(&home.run("approvals --json").out).unwrap_or(json!([]));
        let rows: Vec<Value> =
            rows.as_array().unwrap().iter().filter(|row| row["state"] == "waiting").cloned().collect();
        if rows.len() == count {
            return rows;
        }
        assert!(Instant::now() < until, "{count} were expected: {rows:?}");
    }
}

fn short(row: &Value) -> String {
    row["short"].as_str().unwrap().to_owned()
}

/// The record of the newest request that is no longer open.
#[track_caller]
fn newest(home: &Home) -> Value {
    home.run("approvals log --json").json()[0].clone()
}

fn ran(client: &Client<'_>, command: &str) {
    client.hook_with("PostToolUse", json!({ "tool_input": { "command": command } })).ok();
}

fn started(home: &Home) -> Client<'_> {
    let client = Client::new(home);
    client.starts("startup").ok();
    client
}

fn run(home: &Home, args: &[&str]) -> CommandOutput {
    baton_testkit::home::run(&mut home.baton(args))
}

#[test]
fn a_request_waits_until_it_is_allowed_and_the_record_tells_by_whom() {
    let home = home();
    let client = started(&home);
    let hook = bash(&client, "cargo publish");
    let row = listed(&home, 1).remove(0);
    assert_eq!((&row["tool"], &row["input"]["command"]), (&json!("Bash"), &json!("cargo publish")));
    let screen = home.run("approvals").ok();
    assert!(screen.contains("app asks for Bash") && screen.contains("    cargo publish\n"), "{screen}");
    let said = home.run(&format!("approve {}", short(&row))).ok();
    assert!(said.contains("app may: Bash cargo publish"), "{said}");
    assert_eq!(hook.decision(), json!({ "behavior": "allow" }));
    assert_eq!(newest(&home)["state"], "offered", "nothing has shown yet that it counted");
    assert_eq!(client.kept()["turn"], "working", "the tool may take hours, and nobody is waited for");
    ran(&client, "cargo publish");
    let record = newest(&home);
    assert_eq!((&record["state"], &record["answer"]["door"]), (&json!("allowed"), &json!("cli")));
    assert_eq!(record["answer"]["author"]["kind"], "user");
    let log = home.run("log --json").ok();
    for event in ["approval-asked", "approval-answered", "approval-settled"] {
        assert!(log.contains(event), "{event} in {log}");
    }
    assert_eq!(client.kept().get("approvals"), None, "settled and forgotten");
    home.run("approvals").fails(3);
}

#[test]
fn the_reason_of_a_denial_reaches_the_agent_word_for_word() {
    let home = home();
    let client = started(&home);
    let hook = bash(&client, "rm -rf build");
    let id = short(&listed(&home, 1)[0]);
    let reason = "No:  keep \"build\"\u{e9} \u{2026} it is needed";
    run(&home, &["deny", &id, reason]).ok();
    assert_eq!(hook.decision(), json!({ "behavior": "deny", "message": reason }));
    client.hook("Stop").ok();
    assert_eq!(newest(&home)["state"], "denied");
    let late = run(&home, &["approve", &id]).fails(1);
    assert!(late.contains("was already answered: denied by user (cli)"), "{late}");
    let empty = run(&home, &["deny", &id, " "]);
    assert_eq!(empty.code, Some(1));
}

#[test]
fn a_session_grant_and_an_edit_are_what_the_client_takes() {
    let home = home();
    let client = started(&home);
    let suggestion = json!({ "type": "addRules", "behavior": "allow", "destination": "localSettings",
        "rules": [{ "toolName": "Bash", "ruleContent": "make:*" }] });
    let asks = || {
        ask(
            &client,
            json!({ "tool_name": "Bash", "tool_input": { "command": "make", "description": "Build" },
            "permission_suggestions": [suggestion.clone()] }),
        )
    };
    let hook = asks();
    run(&home, &["approve", &short(&listed(&home, 1)[0]), "--session"]).ok();
    let mut for_session = suggestion.clone();
    for_session["destination"] = json!("session");
    assert_eq!(hook.decision(), json!({ "behavior": "allow", "updatedPermissions": [for_session] }));
    ran(&client, "make");
    let hook = asks();
    run(&home, &["approve", &short(&listed(&home, 1)[0]), "--always"]).ok();
    assert_eq!(hook.decision()["updatedPermissions"], json!([suggestion]));
    ran(&client, "make");
    let hook = asks();
    let id = short(&listed(&home, 1)[0]);
    let mut command = home.baton(["approve", &id, "--edit"]);
    command.env("EDITOR", "sed -i s/make/make\\ test/");
    baton_testkit::home::run(&mut command).ok();
    let edited = json!({ "command": "make test", "description": "Build" });
    assert_eq!(hook.decision(), json!({ "behavior": "allow", "updatedInput": edited }));
    client.hook_with("PostToolUse", json!({ "tool_input": edited })).ok();
    assert_eq!(newest(&home)["state"], "allowed", "what ran is what it was changed to");
}

#[test]
fn a_question_is_answered_by_number_and_by_text() {
    let home = home();
    let client = started(&home);
    let questions = json!([{ "question": "Which colour?", "header": "Colour", "multiSelect": false,
        "options": [{ "label": "Red", "description": "warm" }, { "label": "Blue", "description": "cool" }] }]);
    let asks =
        || ask(&client, json!({ "tool_name": "AskUserQuestion", "tool_input": { "questions": questions } }));
    let hook = asks();
    let id = short(&listed(&home, 1)[0]);
    let screen = home.run("approvals").ok();
    assert!(screen.contains("Which colour?") && screen.contains("2. Blue: cool"), "{screen}");
    let said = run(&home, &["approve", &id]).fails(1);
    assert!(said.contains("this is a question"), "{said}");
    assert!(run(&home, &["answer", &id, "7"]).fails(1).contains("none of the 2 options"));
    run(&home, &["answer", &id, "2"]).ok();
    let decision = hook.decision();
    assert_eq!(decision["updatedInput"]["answers"], json!({ "Which colour?": "Blue" }));
    let answered = &decision["updatedInput"];
    client.hook_with("PostToolUse", json!({ "tool_name": "AskUserQuestion", "tool_input": answered })).ok();
    assert_eq!(newest(&home)["state"], "allowed");
    let hook = asks();
    run(&home, &["answer", &short(&listed(&home, 1)[0]), "a darker red"]).ok();
    assert_eq!(hook.decision()["updatedInput"]["answers"], json!({ "Which colour?": "a darker red" }));
}

#[test]
fn whoever_answers_at_the_terminal_first_ends_the_waiting_and_a_late_denial_says_so() {
    let home = home();
    let client = started(&home);
    let hook = bash(&client, "ls");
    let id = short(&listed(&home, 1)[0]);
    // Another command ran, or the client only reports that it waits: neither ends the waiting.
    ran(&client, "pwd");
    client.hook_with("Notification", json!({ "notification_type": "permission_prompt" })).ok();
    listed(&home, 1);
    ran(&client, "ls");
    assert_eq!(hook.heard(), None, "the dialog was answered; nothing is left to say");
    let record = newest(&home);
    assert_eq!(record["answer"]["because"], "answered-at-terminal");
    let late = run(&home, &["deny", &id, "no"]).fails(1);
    assert!(late.contains("answered at the terminal"), "{late}");
    // Denied here, but somebody had already pressed Enter.
    let hook = bash(&client, "ls");
    run(&home, &["deny", &short(&listed(&home, 1)[0]), "no"]).ok();
    hook.decision();
    ran(&client, "ls");
    assert_eq!(newest(&home)["state"], "too-late");
    assert!(home.run("approvals log").ok().contains("too late"));
}

#[test]
fn waiting_ends_with_the_turn_the_prompt_the_session_and_the_client() {
    let home = home();
    let client = started(&home);
    let cases = [
        ("Stop", "turn-ended"),
        ("StopFailure", "turn-ended"),
        ("UserPromptSubmit", "new-prompt"),
        ("SessionEnd", "session-ended"),
    ];
    for (event, because) in cases {
        let hook = bash(&client, "ls");
        listed(&home, 1);
        client.hook(event).ok();
        assert_eq!(hook.heard(), None, "{event}");
        assert_eq!(newest(&home)["answer"]["because"], because, "{event}");
    }
    let dying = started(&home);
    let hook = bash(&dying, "ls");
    listed(&home, 1);
    drop(dying);
    assert_eq!(hook.heard(), None);
    assert_eq!(newest(&home)["answer"]["because"], "client-gone");
    // The hook itself is killed: the next reader closes the request.
    let mut hook = bash(&client, "ls");
    listed(&home, 1);
    hook.child.kill().unwrap();
    hook.child.wait().unwrap();
    listed(&home, 0);
    assert_eq!(newest(&home)["answer"]["because"], "hook-gone");
}

#[test]
fn if_nobody_answers_in_time_the_dialog_stays() {
    let home = home();
    home.write(
        ".config/baton/config.toml",
        "[approvals]\nwait_for = \"all\"\ndeadline = \"200ms\"\nheadless_deadline = \"1h\"\n",
    );
    let client = started(&home);
    assert_eq!(bash(&client, "ls").heard(), None);
    assert_eq!(newest(&home)["answer"]["because"], "deadline");
    let headless = Client::new(&home).headless();
    headless.starts("startup").ok();
    let hook = bash(&headless, "ls");
    run(&home, &["approve", &short(&listed(&home, 1)[0])]).ok();
    assert_eq!(hook.decision()["behavior"], "allow");
}

#[test]
fn an_agent_that_nobody_leads_is_left_to_its_dialog_and_still_listed() {
    let home = Home::new(BATON);
    let client = started(&home);
    client.hook("UserPromptSubmit").ok();
    assert_eq!(bash(&client, "ls").heard(), None);
    assert!(!home.state().join("approvals").exists(), "nothing is written for it");
    let screen = home.run("approvals").ok();
    assert!(screen.contains("app waits in its terminal") && screen.contains("baton attach app"), "{screen}");
    let rows = home.run("approvals --json").json();
    assert_eq!(rows[0]["state"], "at-terminal");
}

#[test]
fn a_subagent_at_the_dialog_of_an_agent_that_nobody_leads_is_listed_until_its_tool_has_run() {
    let home = Home::new(BATON);
    let client = started(&home);
    client.hook("UserPromptSubmit").ok();
    let tool = json!({ "agent_id": "a1", "tool_name": "Bash", "tool_input": { "command": "make three" } });
    assert_eq!(ask(&client, tool.clone()).heard(), None);
    let screen = home.run("approvals").ok();
    assert!(screen.contains("app waits in its terminal") && screen.contains("make three"), "{screen}");
    let other = json!({ "agent_id": "a2", "tool_name": "Bash", "tool_input": { "command": "make four" } });
    client.hook_with("PostToolUse", other).ok();
    assert_eq!(home.run("approvals --json").json().as_array().unwrap().len(), 1);
    client.hook_with("PostToolUse", tool).ok();
    assert_eq!(home.run("approvals --json").out.trim(), "[]");
}

#[test]
fn requests_of_a_subagent_and_parallel_ones_of_a_turn_are_told_apart() {
    let home = home();
    let client = started(&home);
    client.hook("UserPromptSubmit").ok();
    let first = bash(&client, "one");
    let second = bash(&client, "two");
    let sub = ask(
        &client,
        json!({ "agent_id": "a1", "agent_type": "general-purpose", "tool_name": "Bash",
            "tool_input": { "command": "three" } }),
    );
    let rows = listed(&home, 3);
    let id = |command: &str| short(rows.iter().find(|row| row["input"]["command"] == command).unwrap());
    assert!(home.run("approvals").ok().contains("its subagent a1"));
    run(&home, &["deny", &id("two"), "not two"]).ok();
    assert_eq!(second.decision()["message"], "not two");
    ran(&client, "one");
    assert_eq!(first.heard(), None);
    let left = listed(&home, 1);
    assert_eq!(left[0]["subagent"], "a1");
    let tool = json!({ "agent_id": "a1", "tool_input": { "command": "three" } });
    client.hook_with("PostToolUse", tool).ok();
    assert_eq!(sub.heard(), None);
    listed(&home, 0);
}

#[test]
fn rules_of_the_user_decide_at_once_and_are_the_author() {
    let home = Home::new(BATON);
    home.write(
        ".config/baton/config.toml",
        "[approvals]\nallow = [\"Bash(cargo test:*)\"]\ndeny = [\"Bash(git push:*)\"]\n\
         [approvals.agents.app]\nallow = [\"Edit(src/**)\"]\n",
    );
    let client = started(&home);
    assert_eq!(bash(&client, "cargo test -p core").decision()["behavior"], "allow");
    let record = newest(&home);
    assert_eq!(record["answer"]["author"], json!({ "kind": "rule", "name": "Bash(cargo test:*)" }));
    ran(&client, "cargo test -p core");
    assert_eq!(newest(&home)["state"], "allowed");
    let denied = bash(&client, "git push origin").decision();
    assert_eq!(denied["behavior"], "deny");
    assert!(denied["message"].as_str().unwrap().contains("Bash(git push:*)"));
    assert_eq!(bash(&client, "cargo test; rm -rf /").heard(), None, "two commands ask");
    let edit =
        |path: String| ask(&client, json!({ "tool_name": "Edit", "tool_input": { "file_path": path } }));
    let project = home.project();
    std::fs::create_dir_all(project.join("src")).unwrap();
    std::os::unix::fs::symlink("/etc", project.join("src/link")).unwrap();
    assert_eq!(edit(project.join("src/a.rs").display().to_string()).decision()["behavior"], "allow");
    assert_eq!(edit(project.join("src/link/passwd").display().to_string()).heard(), None);
    assert_eq!(edit(project.join("src/../Cargo.toml").display().to_string()).heard(), None);
    let other = started(&home);
    let payload = json!({ "tool_name": "Edit", "tool_input": { "file_path": project.join("src/a.rs") } });
    assert_eq!(ask(&other, payload).heard(), None, "that rule is for app alone");
}

#[test]
fn a_project_ships_no_rules_and_a_wrong_rule_is_reported_with_its_line() {
    let home = home();
    home.write("work/app/.baton.toml", "[approvals]\nallow = [\"Bash\"]\nwait_for = \"nobody\"\n");
    let project = home.project();
    std::fs::write(project.join(".baton.toml"), "[approvals]\nallow = [\"Bash\"]\nwait_for = \"nobody\"\n")
        .unwrap();
    let client = started(&home);
    let hook = bash(&client, "ls");
    let id = short(&listed(&home, 1)[0]);
    run(&home, &["deny", &id, "no"]).ok();
    assert_eq!(hook.decision()["behavior"], "deny", "the project's rule counts for nothing");
    std::fs::remove_file(project.join(".baton.toml")).unwrap();
    home.write(".config/baton/config.toml", "[approvals]\nallow = [\n  \"Edit(/etc/x)\",\n]\n");
    let said = home.run("config").fails(1);
    assert!(said.contains("config.toml:3") && said.contains("//path"), "{said}");
}

/// Runs a command with the environment of an agent's own shell.
fn as_agent(home: &Home, client: &Client<'_>, args: &[&str]) -> CommandOutput {
    let mut command = home.baton(args);
    client.dress(&mut command);
    baton_testkit::home::run(&mut command)
}

#[test]
fn no_agent_answers_for_itself_or_another_unless_the_user_made_it_an_approver() {
    let home = home();
    let (worker, lead) = (started(&home), started(&home));
    let hook = bash(&worker, "ls");
    let id = short(&listed(&home, 1)[0]);
    let itself = as_agent(&home, &worker, &["approve", &id]).fails(1);
    assert!(itself.contains("no agent answers for itself"), "{itself}");
    let other = as_agent(&home, &lead, &["approve", &id]).fails(1);
    assert!(other.contains("only the user may answer for app"), "{other}");
    as_agent(&home, &lead, &["deny", &id, "no"]).fails(1);
    as_agent(&home, &lead, &["approve"]).fails(1);
    for all in ["app", "nobody"] {
        let said = as_agent(&home, &lead, &["approve", "--all", "--agent", all]).fails(1);
        assert!(said.contains("only the user may answer for"), "{said}");
    }
    let grant = as_agent(&home, &lead, &["spawn", "pet", "--approver", "app-oak"]).fails(1);
    assert!(grant.contains("only the user may make somebody an approver"), "{grant}");
    // The user makes it the approver in the agent's record.
    let path = home.state().join("agents/app.json");
    let mut record = baton_testkit::home::record(&path);
    record["approver"] = json!("app-oak");
    std::fs::write(&path, record.to_string()).unwrap();
    let more = as_agent(&home, &lead, &["approve", &id, "--always"]).fails(1);
    assert!(more.contains("only allow a request once"), "{more}");
    as_agent(&home, &lead, &["deny", &id, "Wait for me."]).ok();
    let message = hook.decision()["message"].as_str().unwrap().to_owned();
    assert!(message.contains("app-oak") && message.ends_with("It says: Wait for me."), "{message}");
    assert_eq!(newest(&home)["answer"]["author"], json!({ "kind": "agent", "name": "app-oak" }));
    // An agent cannot be its own approver.
    let mut record = baton_testkit::home::record(&path);
    record["approver"] = json!("app");
    std::fs::write(&path, record.to_string()).unwrap();
    let hook = bash(&worker, "ls");
    as_agent(&home, &worker, &["approve", &short(&listed(&home, 1)[0])]).fails(1);
    client_ends(&worker, hook);
}

fn client_ends(client: &Client<'_>, hook: Waiting) {
    client.hook("Stop").ok();
    assert_eq!(hook.heard(), None);
}

#[test]
fn a_listing_hides_nothing_and_a_changed_record_is_refused() {
    let home = home();
    let client = started(&home);
    let hidden = "echo safe \u{1b}[2K\r\u{202e}rm -rf / #\u{200b}";
    let hook = bash(&client, hidden);
    let row = listed(&home, 1).remove(0);
    let screen = home.run("approvals").ok();
    assert!(screen.contains("echo safe \\u{1b}[2K\\r\\u{202e}rm -rf / #\\u{200b}"), "{screen}");
    assert!(!screen.contains('\u{1b}') && !screen.contains('\u{202e}'));
    let short_one = run(&home, &["approve", &short(&row)[..2]]).fails(3);
    assert!(short_one.contains("is too short for an id; write at least 4"), "{short_one}");
    for forged in ["deadbeef", "../../x", "0", &"f".repeat(64)] {
        run(&home, &["approve", forged]).fails(3);
    }
    let path = home.state().join(format!("approvals/waiting/{}/request.json", row["id"].as_str().unwrap()));
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("safe", "evil")).unwrap();
    run(&home, &["approve", &short(&row)]).fails(3);
    assert!(home.run("log --faults").ok().contains("has changed since"));
    std::fs::write(&path, text).unwrap();
    run(&home, &["approve", &short(&row)]).ok();
    assert_eq!(hook.decision()["behavior"], "allow");
}

#[test]
fn a_command_of_five_megabytes_is_shown_whole_and_answered() {
    let home = home();
    let client = started(&home);
    let command = format!("echo {}", "x".repeat(5 << 20));
    let hook = bash(&client, &command);
    let rows = listed(&home, 1);
    assert_eq!(rows[0]["input"]["command"].as_str().unwrap().len(), command.len());
    assert!(home.run("approvals").ok().len() > command.len());
    run(&home, &["approve", &short(&rows[0])]).ok();
    assert_eq!(hook.decision()["behavior"], "allow");
    let log = home.run("log --json").ok();
    assert!(log.len() < 100_000, "the log holds a summary");
}

#[test]
fn an_answer_reaches_a_client_whose_session_cannot_be_read() {
    let home = home();
    let client = started(&home);
    let hook = bash(&client, &format!("echo {}", "x".repeat(5 << 20)));
    let rows = listed(&home, 1);
    wait_until("it has restarted", || {
        let line = std::fs::read(format!("/proc/{}/cmdline", hook.pid())).unwrap_or_default();
        String::from_utf8_lossy(&line).contains("--wait")
    });
    let record = home.state().join(format!("sessions/{}.json", client.session));
    std::fs::rename(&record, record.with_extension("moved")).unwrap();
    std::fs::create_dir(&record).unwrap();
    run(&home, &["approve", &short(&rows[0])]).ok();
    assert_eq!(hook.decision()["behavior"], "allow");
}

#[test]
fn five_agents_at_once_are_answered_in_any_order_and_all_of_one_together() {
    let home = home();
    let clients: Vec<Client<'_>> = (0..5).map(|_| started(&home)).collect();
    let hooks: Vec<Waiting> = clients.iter().map(|client| bash(client, "make")).collect();
    let more = bash(&clients[2], "make test");
    let rows = listed(&home, 6);
    let of = |agent: &str| short(rows.iter().find(|row| row["agent"] == agent).unwrap());
    run(&home, &["deny", &of(&clients[4].agent()), "five"]).ok();
    run(&home, &["approve", "--all", "--agent", &clients[2].agent()]).ok();
    for client in [&clients[0], &clients[1], &clients[3]] {
        run(&home, &["approve", &of(&client.agent())]).ok();
    }
    let decisions: Vec<Value> = hooks.into_iter().map(Waiting::decision).collect();
    assert_eq!(decisions[4], json!({ "behavior": "deny", "message": "five" }));
    assert!(decisions[..4].iter().all(|d| d["behavior"] == "allow"), "{decisions:?}");
    assert_eq!(more.decision()["behavior"], "allow");
    run(&home, &["approve", "--all", "--agent", &clients[2].agent()]).fails(3);
}

/// Anonymous memory and voluntary wake-ups of a process.
fn costs(pid: u32) -> (u64, u64) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let number = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    (number("RssAnon:"), number("voluntary_ctxt_switches:"))
}

/// This holds for any size of request.
#[test]
fn a_waiting_hook_is_small_and_sleeps() {
    small_and_asleep("ls");
    small_and_asleep(&format!("echo {}", "x".repeat(5 << 20)));
}

fn small_and_asleep(command: &str) {
    let home = home();
    let (client, other) = (started(&home), started(&home));
    let hook = bash(&client, command);
    listed(&home, 1);
    if command.len() > 1 << 20 {
        wait_until("it has restarted", || {
            let line = std::fs::read(format!("/proc/{}/cmdline", hook.pid())).unwrap_or_default();
            String::from_utf8_lossy(&line).contains("--wait")
        });
    }
    // Wait until it sleeps in the call that it stays in, not in a disk access from its start.
    let syscall = || std::fs::read_to_string(format!("/proc/{}/syscall", hook.pid())).unwrap_or_default();
    let ppoll = if cfg!(target_arch = "x86_64") { "271 " } else { "73 " };
    wait_until("it sleeps", || syscall().starts_with(ppoll));
    let (memory, wakeups) = costs(hook.pid());
    println!("{} bytes asked: {memory} KiB", command.len());
    assert!(memory <= 4 << 10, "{memory} KiB");
    // Meanwhile other agents work.
    for _ in 0..20 {
        other.hook("PostToolUse").ok();
    }
    let second = bash(&other, "pwd");
    listed(&home, 2);
    let (memory, later) = costs(hook.pid());
    assert!(memory <= 4 << 10, "{memory} KiB");
    assert!(later - wakeups <= 1, "{} wake-ups", later - wakeups);
    client_ends(&client, hook);
    client_ends(&other, second);
}

/// A spawned agent needs no setting, because nobody sits at its pane.
#[test]
fn a_spawned_agent_continues_when_it_is_answered_from_elsewhere() {
    let script = "turn\n  tokens 5%\n  ask rm -rf build\n  ask make\n  say Done.\n";
    let Some(world) = World::new(script) else { return };
    world.spawn("alpha", &["--prompt", "begin"]).ok();
    let waiting = |about: &str| {
        wait_for_or(
            "a request",
            || world.told("alpha"),
            || {
                let rows: Value = serde_json::from_str(&world.baton(&["approvals", "--json"]).out).ok()?;
                let row = rows.as_array()?.iter().find(|row| row["input"]["command"] == about)?.clone();
                Some(short(&row))
            },
        )
    };
    let first = waiting("rm -rf build");
    world.wait_for_screen("alpha", "Do you want to proceed?");
    world.baton(&["deny", &first, "Keep it."]).ok();
    let second = waiting("make");
    // Answered at its own terminal: the request here is gone within a moment.
    world.keys("alpha", &["y"]);
    world.wait_for_turn("alpha", "idle");
    let late = world.baton(&["approve", &second]).fails(1);
    assert!(late.contains("answered at the terminal"), "{late}");
    let log = world.baton(&["approvals", "log", "--json"]).json();
    let states: Vec<&str> =
        log.as_array().unwrap().iter().map(|row| row["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["closed", "denied"]);
    let answered = world.seen("alpha").into_iter().find(|note| note["kind"] == "answered").unwrap();
    assert_eq!((&answered["by"], &answered["reason"]), (&json!("hook"), &json!("Keep it.")));
}

#[test]
fn an_uninstall_ends_the_waiting_and_leaves_the_dialog_to_decide() {
    let home = home();
    let client = started(&home);
    let hook = bash(&client, "make");
    listed(&home, 1);
    let mut command = home.baton(["uninstall", "--yes"]);
    baton_testkit::home::run(&mut command);
    assert_eq!(hook.heard(), None);
    assert_eq!(newest(&home)["answer"]["because"], "withdrawn");
}

#[test]
fn a_request_is_its_agents_under_the_new_name_too() {
    let home = home();
    let client = started(&home);
    let served = baton_testkit::daemon::Served::new(&home);
    let hook = bash(&client, "make");
    let id = short(&listed(&home, 1)[0]);
    wait_until("the daemon knows", || served.get("/sessions/app")["needs"]["kind"] == "permission");
    home.run("rename app first").ok();
    assert_eq!(listed(&home, 1)[0]["agent"], "first");
    assert!(home.run("approvals").ok().contains("first asks for Bash"));
    wait_until("the daemon follows", || served.get("/sessions/first")["needs"]["kind"] == "permission");
    let told = home.run("inbox --json").json();
    let told =
        told.as_array().unwrap().iter().filter(|m| m["text"].as_str().unwrap().contains("make")).count();
    assert!(told <= 1, "one occasion, one notice");
    let said = run(&home, &["approve", "--all", "--agent", "first"]).ok();
    assert!(said.contains("first may: Bash make"), "{said}");
    assert_eq!(hook.decision()["behavior"], "allow");
    let late = run(&home, &["deny", &id, "no"]).fails(1);
    assert!(late.contains("of first was already answered"), "{late}");
}

#[test]
fn the_log_of_answers_tells_the_reason_the_grant_and_the_door() {
    let home = home();
    let client = started(&home);
    let hook = bash(&client, "rm -rf build");
    run(&home, &["deny", "--door=screen", &short(&listed(&home, 1)[0]), "Others use it."]).ok();
    hook.decision();
    client.hook("Stop").ok();
    let suggestion = json!({ "type": "addRules", "behavior": "allow", "destination": "localSettings",
        "rules": [{ "toolName": "Bash", "ruleContent": "make:*" }] });
    let hook = ask(
        &client,
        json!({ "tool_name": "Bash", "tool_input": { "command": "make" }, "permission_suggestions": [suggestion] }),
    );
    run(&home, &["approve", &short(&listed(&home, 1)[0]), "--session"]).ok();
    hook.decision();
    let log = home.run("approvals log").ok();
    let line = |word: &str| log.lines().find(|line| line.contains(word)).unwrap().to_owned();
    assert!(
        line("rm -rf build").contains("Others use it.") && line("rm -rf build").contains("screen"),
        "{log}"
    );
    assert!(line("  make").contains("for the session"), "{log}");
}
