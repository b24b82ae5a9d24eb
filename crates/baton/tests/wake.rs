//! Who is woken for mail: the command line, the API and notices wake the same agents, and none of them waits for a
//! client that does not answer.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use baton_testkit::Home;
use baton_testkit::codex::CodexClient;
use baton_testkit::daemon::Served;
use baton_testkit::home::run;
use baton_testkit::hooks::Client;
use baton_testkit::wait::wait_until;
use serde_json::json;

use crate::BATON;

/// A `codex` that records how it was called and does not end while `slow` is in the home.
const CODEX: &str =
    "#!/bin/sh\necho \"$*\" >> \"$HOME/called\"\nwhile [ -e \"$HOME/slow\" ]; do sleep 0.05; done\n";

fn program(home: &Home) -> PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    let path = home.write("bin/codex", CODEX);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn path(home: &Home) -> String {
    format!("{}:{}", program(home).parent().unwrap().display(), std::env::var("PATH").unwrap())
}

fn with_codex(home: &Home, mut command: Command) -> Command {
    command.env("PATH", path(home));
    command
}

/// An idle Codex that nobody attends to.
fn idle(home: &Home) -> CodexClient<'_> {
    let mut codex = CodexClient::new(home);
    codex.starts("startup").silent();
    codex.prompt("Lead the others.").ok();
    codex.counts(20_000);
    codex.stops(false).ok();
    codex
}

fn calls(home: &Home) -> Vec<String> {
    let called = std::fs::read_to_string(home.path().join("called")).unwrap_or_default();
    called.lines().map(str::to_owned).collect()
}

#[test]
fn an_idle_unattended_codex_is_woken_by_the_command_line_the_api_and_a_notice_alike() {
    let home = Home::new(BATON);
    let codex = idle(&home);
    let agent = codex.kept()["agent"].as_str().unwrap().to_owned();
    let said = run(&mut with_codex(&home, home.baton(["send", &agent, "by hand"]))).ok();
    assert!(said.contains("it was idle and has been woken"), "{said}");
    assert_eq!(calls(&home).len(), 1);

    let served = Served::start(&home, with_codex(&home, home.baton(["serve"])));
    served.post(&format!("/sessions/{agent}/messages"), &json!({ "text": "by the API" }));
    wait_until("the API wakes it", || calls(&home).len() == 2);
    served.kill();

    let child = Client::new(&home).env("PATH", &path(&home)).env("CLAUDE_SESSION_MANAGER_ID", &agent);
    child.starts("startup").ok();
    child.answers(150_000);
    child.hook("PreCompact").ok();
    wait_until("the notice wakes it", || calls(&home).len() == 3);
    let begins = format!("queue --thread {} --message ", codex.thread);
    assert!(calls(&home).iter().all(|call| call.starts_with(&begins)), "{:?}", calls(&home));
}

#[test]
fn nobody_waits_for_a_client_that_takes_its_time_to_be_woken() {
    let home = Home::new(BATON);
    let codex = idle(&home);
    let agent = codex.kept()["agent"].as_str().unwrap().to_owned();
    home.write("slow", "");
    let child = Client::new(&home).env("PATH", &path(&home)).env("CLAUDE_SESSION_MANAGER_ID", &agent);
    child.starts("startup").ok();
    child.answers(150_000);
    let heard = child.hook("PreCompact").ok();
    wait_until("the notice wakes it", || calls(&home).len() == 1);
    // The hook's own deadline would have ended it after eight seconds, before it wrote its line in the log.
    assert!(heard.took < Duration::from_secs(6), "{:?}", heard.took);
    assert!(home.run("log --json -n 20").ok().contains("\"pre-compact\""));

    let began = Instant::now();
    let said = run(&mut with_codex(&home, home.baton(["send", &agent, "are you there"]))).ok();
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    assert!(said.starts_with("Queued for "), "{said}");
    assert_eq!(calls(&home).len(), 2);
}
