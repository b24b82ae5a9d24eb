//! Names, parents and empty contexts of live agents.

use std::process::Stdio;

use baton_testkit::Home;
use baton_testkit::home::run;
use baton_testkit::hooks::Client;
use baton_testkit::wait::{wait_for, wait_until};

use super::{person_asks, wait_for_words};
use crate::BATON;
use crate::world::{QUIET, World, wait_for_or};

#[test]
fn an_old_name_whose_new_one_cannot_be_read_is_not_called_unknown() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup").ok();
    home.run("rename app porter").ok();
    let forward = home.state().join("renamed/app.json");
    std::fs::remove_file(&forward).unwrap();
    std::fs::create_dir(&forward).unwrap();
    for line in ["send app hello", "retire app", "inbox app"] {
        let said = home.run(line).fails(1);
        assert!(said.contains("renamed/app.json") && !said.contains("there is no agent"), "{line}: {said}");
    }
}

#[test]
fn a_renamed_agent_keeps_its_mail_its_handoffs_and_its_children_and_the_old_name_leads_to_it() {
    let script = "context\nturn\n  tokens 5%\n  say Hello.\ncontext\nturn\n  tokens 5%\n  say I am back.\n";
    let Some(mut world) = World::new(script) else { return };
    world.spawn("alpha", &["--prompt", "Port the parser"]).ok();
    wait_for_words(&world, "alpha", "Hello.");
    world.spawn("kid", &["--parent", "alpha"]).ok();
    wait_for("its session", || world.session("kid")["id"].is_string().then_some(()));
    world.kill_attendant();
    let waiting = world.send("alpha", &["read me later"]);
    let said = world.baton(&["rename", "alpha", "porter"]).ok();
    assert!(said.contains("alpha is called porter now"), "{said}");
    assert!(!world.home.state().join("agents/alpha.json").exists());
    assert_eq!(world.agent("kid")["parent"], "porter");
    assert_eq!(world.session("porter")["agent"], "porter");
    assert_eq!(world.state_of("porter", &waiting), "queued", "its mail has followed");
    // The old name still works: messages to it arrive.
    let ran = world.baton(&["send", "alpha", "--json", "and this"]);
    assert!(ran.err.contains("alpha is called porter now"), "{}", ran.err);
    let late = ran.json()["id"].as_str().unwrap().to_owned();
    // The attendant continues under the new name.
    world.start_attendant();
    let prompts = || std::fs::read_to_string(world.home.path().join("seen-alpha.jsonl")).unwrap_or_default();
    wait_for_or(
        "both messages",
        || world.told("porter"),
        || (prompts().contains(&waiting) && prompts().contains(&late)).then_some(()),
    );
    let times = world.prompts("alpha").iter().filter(|prompt| prompt.contains("read me later")).count();
    assert_eq!(times, 1, "{:?}", world.prompts("alpha"));
    world.wait_for_turn("porter", "idle");
    world.baton(&["rotate", "porter"]).ok();
    wait_for_or(
        "the fresh context",
        || world.told("porter"),
        || prompts().contains("I am back.").then_some(()),
    );
    assert_eq!(world.agent("porter")["sessions"].as_array().unwrap().len(), 2);
    let loaded =
        world.texts("alpha", "context").into_iter().find(|c| c.contains("=== HANDOFF LOADED")).unwrap();
    assert!(loaded.contains("Port the parser"), "its handoff was its own: {loaded}");
    assert!(!world.home.state().join("agents/alpha.json").exists(), "nobody made a second one");
    assert_eq!(world.baton(&["agents", "--json"]).json().as_array().unwrap().len(), 2);
}

#[test]
fn an_attendant_that_runs_follows_the_new_name() {
    let Some(world) = World::new(QUIET) else { return };
    world.ready("alpha");
    world.baton(&["rename", "alpha", "beta"]).ok();
    let id = world.send("beta", &["hello again"]);
    let seen = || std::fs::read_to_string(world.home.path().join("seen-alpha.jsonl")).unwrap_or_default();
    wait_for_or("the message", || world.told("beta"), || seen().contains(&id).then_some(()));
    wait_until("it was seen", || world.state_of("beta", &id) == "delivered");
    let times = world.prompts("alpha").iter().filter(|prompt| prompt.contains("hello again")).count();
    assert_eq!(times, 1, "typed once");
}

/// `baton run` keeps the name in memory.
#[test]
fn a_supervisor_follows_the_new_name_and_still_rotates() {
    let home = Home::in_memory(BATON);
    home.write("work/app/.claude/keep", "");
    home.write(".claude/keep", "");
    let script = "context\nturn\n  tokens 5%\n  say One.\ncontext\nturn\n  tokens 5%\n  say Two.\n";
    let script = home.write("agent.script", script);
    let seen = home.path().join("seen.jsonl");
    let mut command = home.baton(["run", "--name", "alpha", "demo", "begin"]);
    command.env("BATON_AGENT_SCRIPT", script).env("BATON_AGENT_SEEN", &seen);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let said = |words: &str| std::fs::read_to_string(&seen).unwrap_or_default().contains(words);
    wait_until("the first word", || said("One."));
    home.run("rename alpha beta").ok();
    wait_until("its record", || home.state().join("agents/beta.json").exists());
    home.run("rotate beta").ok();
    wait_until("the fresh context", || said("Two."));
    assert!(!home.state().join("agents/alpha.json").exists());
    home.run("retire beta").ok();
    child.wait().unwrap();
    assert!(!home.state().join("agents/alpha.json").exists());
}

#[test]
fn a_taken_reserved_or_invalid_name_is_refused() {
    let home = Home::new(BATON);
    let first = Client::new(&home);
    first.starts("startup").silent();
    let second = Client::new(&home);
    second.starts("startup").silent();
    assert!(home.run("rename app app-oak").fails(1).contains("there is an agent app-oak already"));
    for name in ["user", "User", "USER", "Baton", "unknown"] {
        let said = home.run(&format!("rename app {name}")).fails(1);
        assert!(said.contains(&format!("no agent may be called {name}")), "{said}");
    }
    assert!(home.run("rename app app").fails(1).contains("called app already"));
    home.run("rename app ../x").fails(2);
    let mut by_other = home.baton(["rename", "app", "mine"]);
    second.dress(&mut by_other);
    assert!(run(&mut by_other).fails(1).contains("itself and the agents below it"));
    home.run("rename app first").ok();
    assert!(home.run("wait app --timeout 1s").err.contains("app is called first now"));
    // A new client may get that name again, and then the name means that client.
    let third = Client::new(&home);
    third.starts("startup").silent();
    assert_eq!(third.agent(), "app");
    assert!(!home.run("wait app --timeout 1s").err.contains("is called"));
}

#[test]
fn an_agent_moves_below_another_and_never_below_itself() {
    let home = Home::new(BATON);
    let names = ["app", "app-oak", "app-elm"];
    let clients: Vec<Client<'_>> = names
        .iter()
        .map(|name| {
            let client = Client::new(&home);
            client.starts("startup").silent();
            assert_eq!(client.agent(), *name);
            client
        })
        .collect();
    assert!(home.run("reparent app-oak").fails(2).contains("baton reparent app-oak --none"));
    home.run("reparent app-oak app").ok();
    home.run("reparent app-elm app-oak").ok();
    assert!(home.run("agents").ok().contains("  └ app-elm"));
    assert!(home.run("reparent app app-elm").fails(1).contains("cannot be its parent"));
    let by = |n: usize, args: &[&str]| {
        let mut command = home.baton(args);
        clients[n].dress(&mut command);
        run(&mut command)
    };
    by(0, &["reparent", "app-elm", "app"]).ok();
    assert!(by(1, &["reparent", "app-elm", "app-oak"]).fails(1).contains("itself and the agents below"));
    assert!(by(1, &["reparent", "app-oak", "app"]).fails(1).contains("its own parent"));
    assert!(by(0, &["reparent", "app-elm", "--none"]).fails(1).contains("only the user"));
    home.run("reparent app-elm --none").ok();
    assert!(!home.run("agents").ok().contains("└ app-elm"));
}

#[test]
fn a_cleared_agent_begins_with_an_empty_context_and_its_new_prompt_and_loads_no_handoff() {
    let script = "context\nturn\n  tokens 5%\n  say First.\ncontext\nturn\n  tokens 5%\n  say Second.\n";
    let Some(world) = World::new(script) else { return };
    world.spawn("alpha", &["--prompt", "Port the parser"]).ok();
    wait_for_words(&world, "alpha", "First.");
    let refused = world.baton(&["clear", "alpha"]).fails(1);
    assert!(refused.contains("nobody can say yes; add --yes"), "{refused}");
    let before = world.session("alpha")["id"].as_str().unwrap().to_owned();
    let said = world.baton(&["clear", "alpha", "--yes", "--prompt", "Now the docs"]).ok();
    assert!(said.contains("is being cleared") && said.contains("its conversation is kept"), "{said}");
    world.wait_for_prompt("alpha", "Now the docs");
    wait_for_words(&world, "alpha", "Second.");
    assert_ne!(world.session("alpha")["id"], before);
    assert!(world.agent("alpha")["order"].is_null());
    let contexts = world.texts("alpha", "context").join("\n");
    assert!(!contexts.contains("HANDOFF LOADED"), "{contexts}");
    assert_eq!(contexts.matches("You are the agent alpha").count(), 2, "it knows nothing else: {contexts}");
    let archive = world.home.store().join("archive");
    assert_eq!(std::fs::read_dir(archive).into_iter().flatten().count(), 0, "none was sealed");
    assert!(world.baton(&["what", "alpha", "goal"]).ok().contains("Now the docs"));
    // Without a prompt it waits.
    world.baton(&["clear", "alpha", "--yes"]).ok();
    wait_until("the third conversation", || world.agent("alpha")["sessions"].as_array().unwrap().len() == 3);
    let told = world.baton(&["tail", "alpha"]).ok();
    assert!(told.contains("nothing yet in its fresh context") && told.contains("Second."), "{told}");
    person_asks(&world, "alpha", "hello");
    world.baton(&["retire", "alpha"]).ok();
    assert!(world.baton(&["clear", "alpha", "--yes"]).fails(1).contains("type /clear"));
}

#[test]
fn a_supervised_agent_is_cleared_by_a_fresh_start() {
    let home = Home::in_memory(BATON);
    home.write("work/app/.claude/keep", "");
    home.write(".claude/keep", "");
    let script = "context\nturn\n  tokens 5%\n  say One.\ncontext\nturn\n  tokens 5%\n  say Two.\n";
    let script = home.write("agent.script", script);
    let seen = home.path().join("seen.jsonl");
    let mut command = home.baton(["run", "--name", "alpha", "demo", "begin"]);
    command.env("BATON_AGENT_SCRIPT", script).env("BATON_AGENT_SEEN", &seen);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let said = |words: &str| std::fs::read_to_string(&seen).unwrap_or_default().contains(words);
    wait_until("the first word", || said("One."));
    let mut clear = home.baton(["clear", "alpha", "--yes", "--prompt", "something else"]);
    run(&mut clear).ok();
    wait_until("the fresh context", || said("Two.") && said("something else"));
    assert!(!said("HANDOFF LOADED"));
    home.run("retire alpha").ok();
    child.wait().unwrap();
}
