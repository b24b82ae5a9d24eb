//! What a leading agent and its user need all day: look, finish, remind, rename, answer, clean up.

mod done;
mod inbox;
mod names;
mod remind;
mod story;

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use baton_testkit::home::run;
use baton_testkit::tmux::is_running;
use baton_testkit::wait::{wait_for, wait_until};
use baton_testkit::{CommandOutput, tools};

use crate::world::{QUIET, World, wait_for_or};

/// Spawns an agent with its own script.
fn spawn_with(world: &World, name: &str, script: &str, args: &[&str]) -> CommandOutput {
    run(&mut spawn_command(world, name, script, args))
}

fn spawn_command(world: &World, name: &str, script: &str, args: &[&str]) -> Command {
    let path = world.home.write(&format!("{name}.script"), script);
    let all = [&["spawn", name, "--provider", "demo"], args].concat();
    let mut command = world.command_for(name, &all);
    command.env("BATON_AGENT_SCRIPT", path);
    command
}

/// Types a prompt as a person does.
fn person_asks(world: &World, name: &str, text: &str) {
    world.person_types(name, text);
    world.keys(name, &["Enter"]);
    world.wait_for_prompt(name, text);
}

/// Waits until the client has said this and its turn has ended.
fn wait_for_words(world: &World, name: &str, words: &str) {
    wait_for_or(
        &format!("{words:?} of {name}"),
        || world.told(name),
        || world.texts(name, "said").iter().any(|said| said == words).then_some(()),
    );
    world.wait_for_turn(name, "idle");
}

const WORK: &str =
    "turn\n  tokens 5%\n  bash echo one\n  bash exit 3\n  write notes.md text\n  say All done.\n";

#[test]
fn tail_tells_prompt_tools_with_outcome_and_the_last_answer_from_the_transcript() {
    let Some(world) = World::new(WORK) else { return };
    world.spawn("alpha", &["--prompt", "Port the parser"]).ok();
    wait_for_words(&world, "alpha", "All done.");
    let told = world.baton(&["tail", "alpha"]).ok();
    for part in ["user   Port the parser", "✓    $ echo one", "✗    $ exit 3", "agent  All done."] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(!told.contains('❯'), "that is the screen: {told}");
    let last = world.baton(&["tail", "alpha", "-n", "1"]).ok();
    assert!(last.contains("All done.") && !last.contains("Port the parser"), "{last}");
    let json = world.baton(&["tail", "alpha", "--json"]).json();
    let kinds: Vec<&str> =
        json["entries"].as_array().unwrap().iter().map(|e| e["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["prompt", "tool", "tool", "tool", "reply"], "{json}");
    assert_eq!(json["entries"][2]["result"]["failed"], true, "{json}");
    let screen = world.baton(&["tail", "alpha", "--screen"]).ok();
    assert!(screen.contains("● All done."), "{screen}");
    world.baton(&["retire", "alpha"]).ok();
    assert!(world.baton(&["tail", "alpha"]).ok().contains("All done."), "it is told after its end too");
    assert!(world.baton(&["tail", "alpha", "--screen"]).fails(3).contains("no pane"));
}

#[test]
fn tail_follow_continues_over_a_fresh_context_until_the_agent_is_gone() {
    let script = "context\nturn\n  tokens 5%\n  say First.\ncontext\nturn\n  tokens 5%\n  say Second.\n";
    let Some(world) = World::new(script) else { return };
    world.spawn("alpha", &["--prompt", "begin"]).ok();
    wait_for_words(&world, "alpha", "First.");
    let mut tail = world.command(&["tail", "alpha", "--follow"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(tail.stdout.take().unwrap()).lines();
    let mut wait_for_line = |part: &str| lines.by_ref().map(Result::unwrap).find(|line| line.contains(part));
    assert!(wait_for_line("First.").is_some());
    world.baton(&["rotate", "alpha"]).ok();
    assert!(wait_for_line("a fresh context").is_some());
    assert!(wait_for_line("Second.").is_some());
    world.baton(&["retire", "alpha"]).ok();
    assert!(tail.wait().unwrap().success());
}

#[test]
fn what_names_goal_now_last_answer_and_files_without_disturbing_the_agent() {
    let Some(world) = World::new(WORK) else { return };
    world.spawn("alpha", &["--prompt", "Port the parser to the new grammar."]).ok();
    wait_for_words(&world, "alpha", "All done.");
    let part = |name: &str| world.baton(&["what", "alpha", name]).ok();
    assert_eq!(part("goal"), "Port the parser to the new grammar.\n");
    assert_eq!(part("last"), "All done.\n");
    assert!(part("files").contains("notes.md"), "{}", part("files"));
    assert!(world.baton(&["what", "alpha", "open"]).fails(3).contains("alpha has no open"));
    let whole = world.baton(&["what", "alpha"]).ok();
    assert!(whole.contains("goal   Port the parser") && whole.contains("last   All done."), "{whole}");
    let json = world.baton(&["what", "alpha", "--json"]).json();
    assert_eq!(json["last"], "All done.");
    assert_eq!(world.prompts("alpha").len(), 1, "nobody asked it");
    // A message is what it does now, and what it said at its end is there.
    world.ready("lead");
    let mut send = world.command(&["send", "alpha", "Now the docs."]);
    send.env("CLAUDE_SESSION_MANAGER_ID", "lead");
    run(&mut send).ok();
    world.wait_for_prompt("alpha", "Now the docs.");
    wait_until("what it does now", || part("now") == "lead: Now the docs.\n");
    world.wait_for_turn("alpha", "idle");
    assert!(part("state").starts_with("idle ("), "{}", part("state"));
    world.baton(&["done", "--agent", "alpha", "the parser is ported"]).ok();
    let whole = world.baton(&["what", "alpha"]).ok();
    assert!(whole.contains("state  done (") && whole.contains("done   the parser is ported"), "{whole}");
    assert!(world.baton(&["what", "nobody"]).fails(3).contains("there is no agent nobody"));
}

#[test]
fn a_spawned_agent_is_told_in_its_first_context_who_it_is_and_how_to_report() {
    let Some(world) = World::new(QUIET) else { return };
    world.ready("lead");
    world.spawn("alpha", &["--parent", "lead", "--role", "reviewer", "--prompt", "begin"]).ok();
    wait_for_words(&world, "alpha", "Hello.");
    let contexts = world.texts("alpha", "context");
    // The prompt that an agent gives is not the user's word.
    let mut spawn = spawn_command(&world, "beta", QUIET, &["--prompt", "begin too"]);
    spawn.env("CLAUDE_SESSION_MANAGER_ID", "lead");
    run(&mut spawn).ok();
    wait_for_words(&world, "beta", "Hello.");
    for (name, line) in [("alpha", "user   begin"), ("beta", "lead   begin too")] {
        let told = world.baton(&["tail", name]).ok();
        assert!(told.contains(line), "{told}");
    }
    let primer = contexts.iter().find(|text| text.contains("You are the agent alpha")).unwrap();
    assert!(primer.contains("lead spawned you. Your role: reviewer."), "{primer}");
    assert!(primer.contains("baton send lead") && primer.contains("baton done"), "{primer}");
    world.baton(&["rotate", "alpha"]).ok();
    world.wait_for_prompt("alpha", "Continue where");
    let told = world.texts("alpha", "context").join("\n");
    assert_eq!(told.matches("You are the agent alpha").count(), 1, "once: {told}");
    let tree = world.baton(&["agents", "--tree"]).ok();
    let is_drawn = ["├", "└"].iter().any(|branch| tree.contains(&format!("{branch} alpha (reviewer)  ")));
    assert!(tree.contains("lead  ") && is_drawn, "{tree}");
}

#[test]
fn a_worktree_goes_with_its_agent_when_it_is_clean_and_is_named_when_it_is_not() {
    if !tools::has(&["git"]) {
        return;
    }
    let Some(world) = World::new(QUIET) else { return };
    let git = |args: &[&str]| {
        let author = ["-c", "user.name=t", "-c", "user.email=t@localhost"];
        let done = world.home.command("git").args(author).args(args).output().unwrap();
        assert!(done.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8_lossy(&done.stdout).into_owned()
    };
    git(&["init", "-q", "-b", "main"]);
    git(&["commit", "-q", "--allow-empty", "-m", "start"]);
    for name in ["clean", "messy"] {
        world.spawn(name, &["--worktree"]).ok();
        wait_for("its session", || world.session(name)["id"].is_string().then_some(()));
    }
    let tree = |name: &str| world.home.project().join(".baton/worktrees").join(name);
    std::fs::write(tree("messy").join("draft.txt"), "unsaved").unwrap();
    let said = world.baton(&["retire", "clean"]).ok();
    assert!(said.contains("was removed") && !tree("clean").exists(), "{said}");
    assert!(git(&["branch", "--list", "clean"]).contains("clean"), "the branch stays");
    let said = world.baton(&["retire", "messy"]).ok();
    assert!(said.contains("stays: 1 file is not committed") && said.contains("worktrees/messy"), "{said}");
    assert!(tree("messy").join("draft.txt").exists());
    wait_until("the worktrees are told by git", || git(&["worktree", "list"]).lines().count() == 2);
}

/// A reboot: the tmux server and everything in it are gone at once.
#[test]
fn after_a_reboot_parent_role_and_reminders_are_there_and_a_finished_agent_stays_away() {
    let Some(world) = World::new("turn\n  tokens 5%\n  say Hello.\n") else { return };
    world.spawn("lead", &["--prompt", "Lead them"]).ok();
    wait_for_words(&world, "lead", "Hello.");
    for name in ["tests", "docs"] {
        world.spawn(name, &["--parent", "lead", "--role", "worker", "--prompt", "Do your part"]).ok();
        wait_for_words(&world, name, "Hello.");
    }
    world.baton(&["done", "--agent", "docs", "written"]).ok();
    world.baton(&["remind", "--in", "1h", "tests", "stretch"]).ok();
    world.baton(&["serve", "--stop"]).ok();
    world.baton(&["rename", "tests", "checks"]).ok();
    let server = world.agent("lead")["pane"]["server"]["pid"].as_i64().unwrap();
    let clients = ["lead", "checks", "docs"].map(|n| world.agent(n)["process"]["pid"].as_i64().unwrap());
    for pid in clients.into_iter().chain([server]) {
        let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        let killed = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        // A server without panes may have ended by itself.
        assert!(matches!(killed, Ok(()) | Err(rustix::io::Errno::SRCH)), "{killed:?}");
    }
    // Nobody records an end: what attends the panes has died with them, as in a reboot.
    for pid in clients {
        wait_until("its end", || !is_running(i32::try_from(pid).unwrap()));
    }
    let said = world.baton(&["agents", "restore"]).ok();
    assert!(said.contains("lead is back") && said.contains("checks is back"), "{said}");
    assert!(!said.contains("docs"), "it was finished: {said}");
    assert_eq!(world.agent("checks")["parent"], "lead");
    assert_eq!(world.agent("checks")["role"], "worker");
    let session = wait_for("its session", || {
        let session = world.session("checks");
        session["remind_at"].is_string().then_some(session)
    });
    assert_eq!(session["agent"], "checks");
    assert!(world.baton(&["reminders"]).ok().contains("checks"), "the reminder has followed");
    world.baton(&["agents", "restore", "docs"]).ok();
}
