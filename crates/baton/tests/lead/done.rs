//! `baton done`: the task is finished, the parent is notified, the chain ends; and how to take it back.

use std::process::Stdio;

use baton_testkit::Home;
use baton_testkit::daemon::Served;
use baton_testkit::home::run;
use baton_testkit::hooks::Client;
use baton_testkit::wait::wait_until;
use serde_json::{Value, json};

use super::{person_asks, spawn_with, wait_for_words};
use crate::BATON;
use crate::world::World;

fn family(home: &Home) -> (Client<'_>, Client<'_>) {
    let parent = Client::new(home);
    parent.starts("startup").silent();
    let child = Client::new(home).env("CLAUDE_SESSION_MANAGER_ID", "app");
    child.starts("startup").silent();
    (parent, child)
}

fn as_agent(home: &Home, client: &Client<'_>, args: &[&str]) -> baton_testkit::CommandOutput {
    let mut command = home.baton(args);
    client.dress(&mut command);
    run(&mut command)
}

fn mail(home: &Home, agent: &str) -> Vec<String> {
    let list: Value =
        serde_json::from_str(&home.run(&format!("inbox {agent} --json")).out).unwrap_or(json!([]));
    list.as_array().unwrap().iter().map(|m| m["text"].as_str().unwrap().to_owned()).collect()
}

fn state(home: &Home, agent: &str) -> String {
    let agents = home.run("agents --json").json();
    let found = agents.as_array().unwrap().iter().find(|a| a["agent"]["id"] == agent).cloned();
    found.unwrap()["state"].as_str().unwrap().to_owned()
}

#[test]
fn a_finished_task_reaches_the_parent_once_with_the_last_answer_and_shows_as_done() {
    let home = Home::new(BATON);
    let (_parent, child) = family(&home);
    let _served = Served::new(&home);
    child.hook("UserPromptSubmit").ok();
    let said = as_agent(&home, &child, &["done", "PR 212", "is green"]).ok();
    assert!(said.contains("app gets a notice with your last answer"), "{said}");
    assert_eq!(state(&home, "app-oak"), "working", "its turn continues");
    assert!(mail(&home, "app").is_empty(), "not before its last answer");
    child.hook_with("Stop", json!({ "last_assistant_message": "All 41 tests pass." })).ok();
    assert_eq!(state(&home, "app-oak"), "done");
    let told = mail(&home, "app");
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("app-oak is done: PR 212 is green") && told[0].contains("All 41 tests pass."));
    // The daemon sees the same occasion and reports neither that again nor the end of the turn: by the time it reports
    // another child, it would have.
    let other = Client::new(&home).env("CLAUDE_SESSION_MANAGER_ID", "app");
    other.starts("startup").silent();
    other.hook("UserPromptSubmit").ok();
    other.hook("Stop").ok();
    wait_until("the other", || {
        mail(&home, "app").iter().any(|text| text.contains("app-elm has ended its turn"))
    });
    let about = mail(&home, "app").into_iter().filter(|text| text.contains("app-oak")).count();
    assert_eq!(about, 1, "{:?}", mail(&home, "app"));
}

#[test]
fn a_person_ends_the_task_of_an_agent_and_an_agent_only_its_own_or_below() {
    let home = Home::new(BATON);
    let (parent, child) = family(&home);
    assert!(
        as_agent(&home, &child, &["done", "--agent", "app"]).fails(1).contains("itself and the agents below")
    );
    as_agent(&home, &parent, &["done", "--agent", "app-oak", "enough"]).ok();
    assert_eq!(state(&home, "app-oak"), "done");
    assert!(home.run("done").fails(2).contains("name the agent"));
    assert!(home.run("done --agent app-oak --undo").ok().contains("continues"));
    assert!(home.run("done --agent app-oak --undo").fails(3).contains("has not said that it is done"));
}

#[test]
fn a_finished_task_can_be_reopened_until_the_user_asks_for_something_new() {
    let home = Home::new(BATON);
    let (_parent, child) = family(&home);
    child.hook_with("UserPromptSubmit", json!({ "prompt": "Port it" })).ok();
    as_agent(&home, &child, &["done"]).ok();
    as_agent(&home, &child, &["done", "--undo"]).ok();
    child.hook("Stop").ok();
    assert_eq!(state(&home, "app-oak"), "idle");
    // A message asks for more of the same task, whether a hook delivers it or it is typed.
    as_agent(&home, &child, &["done"]).ok();
    home.run("send app-oak --important mind the docs").ok();
    assert!(child.hook("PostToolUse").ok().context().unwrap().contains("mind the docs"));
    child.hook("Stop").ok();
    assert_eq!(state(&home, "app-oak"), "idle");
    as_agent(&home, &child, &["done"]).ok();
    let id = home.run("send app-oak one test still fails --json").json()["id"].as_str().unwrap().to_owned();
    let typed = home.framed(&id, "user", "one test still fails");
    child.hook_with("UserPromptSubmit", json!({ "prompt": typed })).ok();
    child.hook("Stop").ok();
    assert_eq!(state(&home, "app-oak"), "idle");
    assert!(child.kept()["task_from"].is_null(), "{}", child.kept());
    // A person's next request makes it final.
    as_agent(&home, &child, &["done"]).ok();
    child.hook_with("UserPromptSubmit", json!({ "prompt": "Now write the docs" })).ok();
    assert!(
        as_agent(&home, &child, &["done", "--undo"]).fails(1).contains("asked app-oak for something new")
    );
}

/// The chain ends: a handoff after the next request contains nothing of the finished task.
#[test]
fn a_handoff_after_a_finished_task_begins_with_the_new_one() {
    let script = "turn\n  tokens 5%\n  bash baton done ported > said.txt\n  say Ported.\nturn\n  tokens 6%\n  say Documented.\n";
    let Some(world) = World::new(script) else { return };
    let bin = world.home.path().join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    std::os::unix::fs::symlink(BATON, bin.join("baton")).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut spawn = super::spawn_command(
        &world,
        "alpha",
        script,
        &["--prompt", "Port the parser. Never touch the lexer."],
    );
    run(spawn.env("PATH", path)).ok();
    wait_for_words(&world, "alpha", "Ported.");
    let session = world.session("alpha")["id"].as_str().unwrap().to_owned();
    let before = world.baton(&["handoffs", "draft", &session]).ok();
    assert!(before.contains("Port the parser") && before.contains("Never touch the lexer"), "{before}");
    person_asks(&world, "alpha", "Document the build.");
    wait_for_words(&world, "alpha", "Documented.");
    let after = world.baton(&["handoffs", "draft", &session]).ok();
    assert!(after.contains("Document the build."), "{after}");
    assert!(!after.contains("Port the parser.") && !after.contains("Never touch the lexer"), "{after}");
    world.baton(&["rotate", "alpha"]).ok();
    world.wait_for_prompt("alpha", "Continue where");
    let loaded =
        world.texts("alpha", "context").into_iter().rfind(|c| c.contains("=== HANDOFF LOADED")).unwrap();
    assert!(loaded.contains("Document the build.") && !loaded.contains("Never touch the lexer"), "{loaded}");
}

#[test]
fn wait_done_ends_when_all_have_said_so_and_not_when_they_are_merely_idle() {
    let Some(world) = World::new("turn\n  tokens 5%\n  say Hello.\n") else { return };
    world.spawn("alpha", &["--prompt", "begin"]).ok();
    spawn_with(&world, "beta", "turn\n  tokens 5%\n  say Hi.\n", &["--prompt", "begin"]).ok();
    wait_for_words(&world, "alpha", "Hello.");
    wait_for_words(&world, "beta", "Hi.");
    world.baton(&["wait", "alpha", "beta"]).ok();
    let busy = world.baton(&["wait", "alpha", "--done", "--timeout", "300ms"]).fails(1);
    assert!(busy.contains("alpha (idle, and has not said that it is done)"), "{busy}");
    let mut waiting = world.command(&["wait", "alpha", "beta", "--done"]);
    let waiting = waiting.stdout(Stdio::piped()).spawn().unwrap();
    world.baton(&["done", "--agent", "alpha", "it works"]).ok();
    world.baton(&["done", "--agent", "beta"]).ok();
    let output = waiting.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "alpha: done\nbeta: done\n");
    wait_until("it shows", || world.baton(&["agents"]).out.contains("done"));
    // An agent that ends without saying that it is done gives another exit code.
    world.spawn("gamma", &[]).ok();
    world.baton(&["retire", "gamma"]).ok();
    assert_eq!(world.baton(&["wait", "gamma", "--done"]).code, Some(3));
}
