//! `baton sessions resume`: the right conversation, in its own folder, or a refusal that says what to do.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use baton_testkit::home::run;
use baton_testkit::hooks::Client;
use baton_testkit::{CommandOutput, Home};

use super::made::{Claude, id};
use crate::BATON;

/// A home with a program `claude` that only records how it was started.
pub fn home() -> Home {
    let home = Home::in_memory(BATON);
    home.write("work/app/.baton.toml", "");
    home.write("work/other/.baton.toml", "");
    let told = home.path().join("started").display().to_string();
    let program = home.write(
        "bin/claude",
        format!("#!/bin/sh\npwd >'{told}'\nfor a; do echo \"$a\" >>'{told}'; done\necho resumed\n"),
    );
    std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).unwrap();
    home
}

pub fn with_client(home: &Home, command: &mut Command) {
    command.env("PATH", format!("{}:{}", home.path().join("bin").display(), std::env::var("PATH").unwrap()));
}

fn resume(home: &Home, args: &[&str]) -> CommandOutput {
    let mut command = home.baton(["sessions", "resume"].iter().chain(args));
    with_client(home, &mut command);
    run(&mut command)
}

/// The folder it was started in, and its arguments.
pub fn started(home: &Home) -> Option<Vec<String>> {
    let text = std::fs::read_to_string(home.path().join("started")).ok()?;
    Some(home.tidy(&text).lines().map(str::to_owned).collect())
}

fn other(home: &Home) -> PathBuf {
    home.path().join("work/other")
}

#[test]
fn the_last_conversation_of_this_project_is_resumed_with_the_options_given() {
    let home = home();
    Claude::new(&home, 1, &home.project()).user("Older here").says("Yes.").write();
    Claude::new(&home, 2, &home.project()).user("Newer here").says("Yes.").write();
    Claude::new(&home, 3, &other(&home)).user("Newest, elsewhere").says("Yes.").write();
    resume(&home, &["--last", "--", "--model", "opus"]).ok();
    let args = started(&home).unwrap();
    assert_eq!(args[0], "~/work/app");
    let at = args.iter().position(|a| a == "--resume").unwrap();
    assert_eq!(args[at + 1], id(2));
    assert!(args.windows(2).any(|w| w == ["--model", "opus"]), "{args:?}");
    resume(&home, &["00000001"]).ok();
    assert!(started(&home).unwrap().contains(&id(1)), "the beginning of an id is enough");
}

#[test]
fn a_conversation_of_another_project_is_refused_with_the_command_that_resumes_it() {
    let home = home();
    Claude::new(&home, 3, &other(&home)).user("Elsewhere").says("Yes.").write();
    let said = resume(&home, &["00000003"]).fails(1);
    let said = home.tidy(&said);
    assert!(said.contains(&format!("cd ~/work/other && baton sessions resume {}", id(3))), "{said}");
    assert_eq!(started(&home), None);
    assert!(resume(&home, &["--last"]).fails(3).contains("there is no session"), "none of this project");
    assert!(resume(&home, &["ffff"]).fails(3).contains("no session \"ffff\""));
    assert_eq!(resume(&home, &[]).code, Some(2), "which one must be said");
}

#[test]
fn a_conversation_that_cannot_be_resumed_is_refused_with_the_reason() {
    let home = home();
    let refused = |n: u32, why: &str| {
        let said = resume(&home, &[&id(n)]).fails(1);
        assert!(said.contains(why), "{said}");
        assert_eq!(started(&home), None, "{why}");
    };
    let gone = home.path().join("work/app/gone");
    Claude::new(&home, 1, &gone).user("In a folder").says("Yes.").write();
    std::fs::remove_dir(&gone).unwrap();
    refused(1, "work/app/gone is gone");
    let path = Claude::new(&home, 2, &home.project()).user("Moved").says("Yes.").write();
    let elsewhere = home.path().join(".claude/projects/-elsewhere");
    std::fs::create_dir_all(&elsewhere).unwrap();
    std::fs::rename(&path, elsewhere.join(path.file_name().unwrap())).unwrap();
    refused(2, "the client looks for it in");
    let path = Claude::new(&home, 4, &home.project()).user("Another's inside").says("Yes.").write();
    std::fs::rename(&path, path.with_file_name(format!("{}.jsonl", id(5)))).unwrap();
    refused(5, "holds session 00000004");
}

#[test]
fn a_running_conversation_is_not_started_a_second_time() {
    let home = home();
    let mut client = Client::new(&home);
    client.session = id(6);
    Claude::new(&home, 6, &home.project()).user("Still running").says("Yes.").write();
    client.starts("startup").ok();
    let said = resume(&home, &[&id(6)]).fails(1);
    assert!(said.contains("it runs now, in process"), "{said}");
    drop(client);
    resume(&home, &[&id(6)]).ok();
    assert!(started(&home).unwrap().contains(&id(6)), "its process is gone");
}

#[test]
fn a_conversation_begun_deeper_in_the_project_is_resumed_there() {
    let home = home();
    Claude::new(&home, 7, &home.path().join("work/app/src")).user("Below").says("Yes.").write();
    let ran = resume(&home, &["--last"]);
    assert!(ran.err.contains("resuming in ~/work/app/src"), "{ran:?}");
    assert_eq!(started(&home).unwrap()[0], "~/work/app/src");
}

/// Adds a second client that records how it was started.
fn with_codex(home: &Home) {
    let text = std::fs::read_to_string(home.path().join("bin/claude")).unwrap();
    let program = home.write("bin/codex", text.replace("/started'", "/codex.started'"));
    std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn in_another_client_a_new_agent_begins_with_what_the_transcript_proves() {
    let home = home();
    with_codex(&home);
    home.write("work/app/CLAUDE.md", "Be brief.");
    Claude::new(&home, 1, &home.project()).user("Write the parser. Never use macros.").says("Yes.").write();
    let ran = resume(&home, &[&id(1), "--in", "codex", "--", "--model", "gpt"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(started(&home), None, "its own client was started");
    let told = std::fs::read_to_string(home.path().join("codex.started")).unwrap();
    let args: Vec<&str> = told.lines().skip(1).collect();
    let prompt = args.iter().find(|a| a.starts_with("Continue where the loaded handoff HO-"));
    assert!(prompt.is_some() && args.windows(2).any(|w| w == ["--model", "gpt"]), "{args:?}");
    assert!(args.contains(&"--no-daemon"), "{args:?}");
    let handoffs = home.run("handoffs --json").json();
    let made = &handoffs[0];
    assert!(prompt.unwrap().contains(made["id"].as_str().unwrap()), "{made}");
    let shown = home.run(&format!("handoffs show {}", made["id"].as_str().unwrap())).ok();
    for fact in ["Never use macros.", "you are Codex.", "The project's instructions are in CLAUDE.md"] {
        assert!(shown.contains(fact), "{fact} is missing in {shown}");
    }
}

#[test]
fn nothing_is_made_for_another_client_that_cannot_be_started() {
    let home = home();
    Claude::new(&home, 1, &home.project()).user("Here").says("Yes.").write();
    Claude::new(&home, 2, &other(&home)).user("Elsewhere").says("Yes.").write();
    let mut command = home.baton(["sessions", "resume", &id(1), "--in", "codex"]);
    let said = run(command.env("PATH", "/usr/bin:/bin")).fails(1);
    assert!(said.contains("npm install -g @openai/codex"), "{said}");
    with_codex(&home);
    let said = home.tidy(&resume(&home, &[&id(2), "--in", "codex"]).fails(1));
    assert!(
        said.contains(&format!("cd ~/work/other && baton sessions resume {} --in codex", id(2))),
        "{said}"
    );
    let said = resume(&home, &[&id(1), "--in", "codex-app"]).fails(2);
    assert!(said.contains("name one of claude, codex, demo"), "{said}");
    assert!(!home.path().join("codex.started").exists());
    assert!(
        !home.state().join("agents").exists()
            || std::fs::read_dir(home.state().join("agents")).unwrap().count() == 0
    );
}
