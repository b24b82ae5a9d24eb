//! `baton spawn` and related commands: names, parents, prompts, worktrees, waiting, retiring, adopting, coming back.

use std::process::{Command, Stdio};

use baton_testkit::home::run;
use baton_testkit::wait::{wait_for, wait_until};
use serde_json::Value;

use crate::world::{QUIET, World, wait_for_or};

#[test]
fn a_spawned_agent_runs_in_a_pane_under_its_name_and_begins_with_its_prompt() {
    let Some(world) =
        World::new("turn\n  tokens 5%\n  bash echo \"I am $CLAUDE_SESSION_MANAGER_ID\"\n  say Hello.\n")
    else {
        return;
    };
    let said = world.spawn("alpha", &["--prompt", "begin the work"]).ok();
    assert!(said.starts_with("alpha runs in pane %"), "{said}");
    assert_eq!(world.wait_for_prompt("alpha", "begin"), "begin the work");
    world.wait_for_screen("alpha", "● Hello.");
    world.wait_for_turn("alpha", "idle");
    let agents = world.baton(&["agents", "--json"]).json();
    assert_eq!(agents.as_array().unwrap().len(), 1, "no second agent was made of it: {agents}");
    let agent = &agents[0]["agent"];
    assert_eq!((&agent["id"], &agents[0]["state"]), (&"alpha".into(), &"idle".into()));
    assert_eq!(agents[0]["actuator"], "tmux");
    assert!(agent["pane"]["socket"].as_str().unwrap().ends_with("/baton"), "on a server of its own: {agent}");
    assert_eq!(agent["pane"]["process"], agent["process"], "the client is what tmux runs");
    let tail = world.baton(&["tail", "alpha", "--screen"]).ok();
    assert!(tail.contains("● Hello."), "{tail}");
    assert!(!world.home.state().join("run/alpha.start").exists(), "the environment was left behind");
}

#[test]
fn a_name_is_given_once_even_if_several_want_it_at_once() {
    let Some(world) = World::new(QUIET) else { return };
    let mut racers: Vec<_> = (0..4)
        .map(|_| {
            let mut command = world.command_for("alpha", &["spawn", "alpha", "--provider", "demo"]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let codes: Vec<_> = racers.iter_mut().map(|r| r.wait().unwrap().code().unwrap()).collect();
    assert_eq!(codes.iter().filter(|c| **c == 0).count(), 1, "{codes:?}");
    let refused = world.spawn("alpha", &[]).fails(1);
    assert!(refused.contains("already running") && refused.contains("baton retire alpha"), "{refused}");
    assert_eq!(world.tmux(&["list-panes", "-a"]).lines().count(), 1);
    let unknown = world.baton(&["spawn", "beta", "--provider", "nobody"]).fails(1);
    assert!(unknown.contains("there is no provider nobody"), "{unknown}");
    world.baton(&["spawn", "../x"]).fails(2);
}

#[test]
fn an_agent_that_spawns_is_the_parent_and_sees_its_children() {
    let Some(world) = World::new(
        "turn\n  tokens 5%\n  bash BATON_AGENT_SEEN=$PWD/kid.seen baton spawn kid --provider demo\n  say Spawned.\n",
    ) else {
        return;
    };
    world.spawn("lead", &["--prompt", "begin"]).ok();
    wait_for_or("the child", || world.told("lead"), || world.agent("kid")["pane"].is_object().then_some(()));
    assert_eq!(world.agent("kid")["parent"], "lead");
    world.wait_for_turn("lead", "idle");
    let children = world.baton(&["children", "lead", "--json"]).json();
    assert_eq!(children[0]["agent"]["id"], "kid");
    assert!(world.baton(&["agents"]).ok().contains("└ kid"));
    assert_eq!(world.baton(&["children", "kid"]).code, Some(3));
    // The child does not inherit the variables that describe its parent's client.
    let environ = std::fs::read(format!("/proc/{}/environ", world.agent("kid")["process"]["pid"])).unwrap();
    let environ = String::from_utf8_lossy(&environ).into_owned();
    assert!(environ.contains("CLAUDE_SESSION_MANAGER_ID=kid"), "{environ}");
    assert!(!environ.contains("CLAUDE_PID=") && !environ.contains("CLAUDECODE="), "{environ}");
}

#[test]
fn prompts_come_from_files_from_standard_input_and_whatever_they_begin_with() {
    let Some(world) = World::new(QUIET) else { return };
    world.home.write("work/app/task.md", "Do what\nthe file says.\n");
    world.spawn("a", &["--prompt-file", "task.md"]).ok();
    assert_eq!(world.wait_for_prompt("a", "Do what"), "Do what\nthe file says.\n");
    world.spawn("b", &["--prompt", "--not-an-option"]).ok();
    assert_eq!(world.wait_for_prompt("b", "not-an"), "--not-an-option");
    let mut command = world.command_for("c", &["spawn", "c", "--provider", "demo", "--prompt", "-"]);
    let input = world.home.write("input", "from the pipe");
    command.stdin(std::fs::File::open(input).unwrap());
    run(&mut command).ok();
    assert_eq!(world.wait_for_prompt("c", "pipe"), "from the pipe");
    world.home.write("work/app/long.md", "x".repeat(200_000));
    world.spawn("d", &["--prompt-file", "long.md"]).ok();
    assert_eq!(world.wait_for_prompt("d", "Read"), "Read .baton/task-d.md and do what it says.");
    assert_eq!(std::fs::read(world.home.project().join(".baton/task-d.md")).unwrap().len(), 200_000);
}

#[test]
fn a_worktree_is_a_checkout_of_its_own_on_a_branch_of_its_name() {
    if !baton_testkit::tools::has(&["git"]) {
        return;
    }
    let Some(world) = World::new("turn\n  bash git branch --show-current > branch.txt\n  say Done.\n") else {
        return;
    };
    let git = |args: &[&str]| {
        let done = world
            .home
            .command("git")
            .args(["-c", "user.name=t", "-c", "user.email=t@localhost"])
            .args(args)
            .output();
        assert!(done.unwrap().status.success(), "git {args:?}");
    };
    git(&["init", "-q", "-b", "main"]);
    git(&["commit", "-q", "--allow-empty", "-m", "start"]);
    world.spawn("alpha", &["--worktree", "--prompt", "go"]).ok();
    let branch = world.home.project().join(".baton/worktrees/alpha/branch.txt");
    let text = wait_for_or(
        "the branch",
        || world.told("alpha"),
        || std::fs::read_to_string(&branch).ok().filter(|t| !t.is_empty()),
    );
    assert_eq!(text.trim(), "alpha");
    let status = world.home.command("git").args(["status", "--porcelain"]).output().unwrap();
    let status = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(!status.contains(".baton"), "git does not see it: {status}");
    let elsewhere = world.home.write("elsewhere/x", "");
    let refused = run(world
        .command(&["spawn", "beta", "--provider", "demo", "--worktree"])
        .current_dir(elsewhere.parent().unwrap()));
    assert!(refused.fails(1).contains("needs a git repository"));
}

#[test]
fn waiting_ends_when_they_are_idle_blocked_or_gone_and_not_before_they_have_begun() {
    let Some(world) = World::new("turn\n  tokens 5%\n  wait go\n  say Done.\n") else { return };
    world.spawn("alpha", &["--prompt", "begin"]).ok();
    let busy = world.baton(&["wait", "alpha", "--timeout", "300ms"]).fails(1);
    assert!(busy.contains("still at work: alpha"), "{busy}");
    let waiting = world.command(&["wait", "alpha"]).stdout(Stdio::piped()).spawn().unwrap();
    world.home.write("work/app/go", "");
    let output = waiting.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "alpha: idle\n");
    world.baton(&["retire", "alpha"]).ok();
    assert_eq!(world.baton(&["wait", "alpha"]).code, Some(3));
    assert!(world.baton(&["wait", "nobody"]).fails(3).contains("there is no agent nobody"));
}

#[test]
fn a_retired_agent_is_stopped_its_pane_closes_and_its_mail_is_not_called_delivered() {
    let Some(mut world) = World::new(QUIET) else { return };
    world.ready("alpha");
    world.kill_attendant();
    let id = world.send("alpha", &["are you there?"]);
    let said = world.baton(&["retire", "alpha"]).ok();
    assert!(said.contains("alpha was stopped.") && said.contains("1 message to it was never read"), "{said}");
    assert_eq!(world.state_of("alpha", &id), "failed");
    let outbox = world.baton(&["outbox", "--json"]).json();
    assert_eq!(outbox[0]["evidence"], "the agent was retired", "{outbox}");
    let mut tmux = Command::new("tmux");
    tmux.args(["-L", "baton", "list-panes", "-a"]).env("TMUX_TMPDIR", world.home.path());
    assert!(tmux.output().unwrap().stdout.is_empty(), "the pane is still there");
    assert!(world.agent("alpha")["ended"].is_string());
    world.start_attendant();
    assert!(
        world.baton(&["agents", "restore"]).code == Some(3),
        "what was retired does not come back by itself"
    );
}

/// Its client is known no longer to have been started by baton; it is adopted where it runs.
fn adopted(world: &World, name: &str) {
    let path = world.home.state().join(format!("agents/{name}.json"));
    let mut record: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    record["pane"].take();
    std::fs::write(&path, record.to_string()).unwrap();
    world.baton(&["adopt", name]).ok();
}

/// Before its first prompt an agent is idle, too.
fn first_turn_is_over(world: &World, name: &str) {
    wait_for("its first answer", || (!world.texts(name, "said").is_empty()).then_some(()));
    world.wait_for_turn(name, "idle");
}

/// Waits until its rotation out of the conversation `first` is over, and the first turn of the next one too.
fn works_on(world: &World, name: &str, first: &Value) {
    let is_consumed = || {
        let handoffs = world.baton(&["handoffs", "--json"]).json();
        handoffs.as_array().unwrap().iter().any(|handoff| handoff["status"] == "consumed")
    };
    wait_for_or(
        "the fresh context",
        || world.told(name),
        || {
            let moved = &world.agent(name)["session"] != first && world.agent(name)["rotation"].is_null();
            (moved && is_consumed() && world.session(name)["turn"] == "idle").then_some(())
        },
    );
}

/// The pane that tmux has told a client of is found without being named.
#[test]
fn an_agent_that_runs_in_a_pane_already_is_adopted_and_gets_its_mail() {
    let Some(world) = World::new(QUIET) else { return };
    world.ready("alpha");
    let path = world.home.state().join("agents/alpha.json");
    let mut record: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let pane = record["pane"].take();
    std::fs::write(&path, record.to_string()).unwrap();
    let listed = world.baton(&["adopt", "--json"]).json();
    assert_eq!((&listed[0]["agent"], &listed[0]["place"]), (&"alpha".into(), &pane["id"]), "{listed}");
    let said = world.baton(&["adopt", "alpha"]).ok();
    assert!(said.contains("alpha is adopted"), "{said}");
    assert_eq!(world.agent("alpha")["pane"]["process"], pane["process"]);
    let id = world.send("alpha", &["welcome"]);
    world.wait_for_prompt("alpha", &id);
    world.baton(&["retire", "alpha"]).ok();
    assert!(world.baton(&["adopt", "alpha"]).fails(3).contains("does not run"));
    assert!(world.baton(&["adopt", "nobody"]).fails(3).contains("there is no agent nobody"));
}

/// A reboot: the tmux server and everything in it are gone at once.
#[test]
fn after_a_reboot_agents_come_back_with_their_handoff_and_those_that_left_do_not() {
    let script = "context\nturn\n  tokens 20%\n  say Half of it is done.\ncontext\nturn\n  tokens 5%\n  say I am back.\n";
    let Some(world) = World::new(script) else { return };
    world.spawn("alpha", &["--prompt", "Port the parser to the new grammar"]).ok();
    world.spawn("beta", &["--prompt", "hello"]).ok();
    for name in ["alpha", "beta"] {
        world.wait_for_turn(name, "idle");
        wait_for("the first turn", || (!world.texts(name, "said").is_empty()).then_some(()));
    }
    world.keys("beta", &["/exit", "Enter"]);
    wait_for("its end", || world.agent("beta")["ended"].is_string().then_some(()));
    let pid = world.agent("alpha")["process"]["pid"].as_i64().unwrap();
    let server = world.agent("alpha")["pane"]["server"]["pid"].as_i64().unwrap();
    for pid in [pid, server] {
        let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }
    wait_for("its end", || world.agent("alpha")["ended"].is_string().then_some(()));
    let said = run(&mut world.command_for("alpha", &["agents", "restore"])).ok();
    assert!(said.contains("alpha is back with handoff HO-") && !said.contains("beta"), "{said}");
    let prompt = world.wait_for_prompt("alpha", "Continue where the loaded handoff");
    wait_for("the word", || world.texts("alpha", "said").contains(&"I am back.".to_owned()).then_some(()));
    let loaded =
        world.texts("alpha", "context").into_iter().find(|c| c.contains("=== HANDOFF LOADED")).unwrap();
    assert!(loaded.contains("Port the parser to the new grammar"), "{loaded}");
    assert!(!prompt.contains("Port the parser"), "the first prompt is not repeated");
    assert_eq!(world.agent("alpha")["sessions"].as_array().unwrap().len(), 2);
}

#[test]
fn undo_resumes_the_earlier_conversation_in_the_agents_own_pane() {
    let Some(world) = World::new(QUIET) else { return };
    world.spawn("boss", &[]).ok();
    world.spawn("alpha", &["--prompt", "Port it.", "--parent", "boss"]).ok();
    first_turn_is_over(&world, "alpha");
    let (first, pane) = (world.agent("alpha")["session"].clone(), world.pane("alpha"));
    world.baton(&["rotate", "alpha"]).ok();
    world.wait_for_prompt("alpha", "Continue where");
    works_on(&world, "alpha", &first);
    let said = run(&mut world.command_for("alpha", &["undo", "alpha"])).ok();
    let first = first.as_str().unwrap();
    assert!(said.contains(&format!("alpha is back in session {first}, as it was ")), "{said}");
    assert!(said.contains("is active again"), "{said}");
    wait_for_or(
        "the earlier conversation",
        || world.told("alpha"),
        || (world.agent("alpha")["session"] == first).then_some(()),
    );
    assert_eq!(world.pane("alpha"), pane, "whoever looks at the pane sees it there");
    let begun = world.seen("alpha").into_iter().rfind(|e| e["kind"] == "context-begins").unwrap();
    assert_eq!((&begun["source"], &begun["session"]), (&"resume".into(), &first.into()), "{begun}");
    let handoffs = world.baton(&["handoffs", "--json"]).json();
    assert_eq!(handoffs[0]["status"], "active", "{handoffs}");
    let again = world.baton(&["undo", "alpha"]).fails(3);
    assert!(again.contains("there is nothing more to undo: alpha is back already"), "{again}");
    let id = world.send("alpha", &["still there?"]);
    world.wait_for_prompt("alpha", &id);
    let heard = world.baton(&["inbox", "boss", "--json"]).ok();
    assert!(!heard.contains("died") && !heard.contains("is gone"), "{heard}");
    assert_eq!(world.agent("alpha")["parent"], "boss");
    // The pane closes with its client as before.
    world.baton(&["retire", "alpha"]).ok();
    wait_for("the pane to close", || {
        (!world.tmux(&["list-panes", "-a", "-F", "#{pane_id}"]).lines().any(|id| id == pane)).then_some(())
    });
}

#[test]
fn undo_and_rotate_in_a_row_submit_one_prompt() {
    let Some(world) = World::new(QUIET) else { return };
    world.spawn("alpha", &["--prompt", "Port it."]).ok();
    first_turn_is_over(&world, "alpha");
    let first = world.agent("alpha")["session"].clone();
    world.baton(&["rotate", "alpha"]).ok();
    world.wait_for_prompt("alpha", "Continue where");
    works_on(&world, "alpha", &first);
    let second = world.agent("alpha")["session"].clone();
    world.baton(&["undo", "alpha"]).ok();
    wait_until("it to be back", || {
        let rotate = world.baton(&["rotate", "alpha"]);
        let waits = ["is going back to session", "is still starting"];
        assert!(rotate.code == Some(0) || waits.iter().any(|w| rotate.err.contains(w)), "{rotate:?}");
        rotate.code == Some(0)
    });
    wait_for_or(
        "the third context to have worked",
        || world.told("alpha"),
        || {
            let agent = world.agent("alpha");
            let is_third = agent["session"] != first && agent["session"] != second;
            let continued = world.prompts("alpha").iter().filter(|p| p.starts_with("Continue where")).count();
            let is_over = agent["rotation"].is_null() && world.session("alpha")["turn"] == "idle";
            (is_third && is_over && continued > 0).then_some(())
        },
    );
    let prompts = world.prompts("alpha");
    let continued = prompts.iter().filter(|prompt| prompt.starts_with("Continue where")).count();
    // The client that came with undo began a list of its own.
    assert_eq!(continued, 1, "{prompts:?}");
}

/// The command would be ended with the client, half-way.
#[test]
fn an_agent_in_a_pane_cannot_undo_its_own_rotation() {
    let script = "context\nturn\n  tokens 5%\n  say Hello.\ncontext\nturn\n  tokens 6%\n  bash baton undo > undo.txt 2>&1\n  say Tried.\n";
    let Some(world) = World::new(script) else { return };
    let bin = world.home.path().join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    std::os::unix::fs::symlink(crate::BATON, bin.join("baton")).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut spawn =
        world.command_for("alpha", &["spawn", "alpha", "--provider", "demo", "--prompt", "Port it."]);
    run(spawn.env("PATH", path)).ok();
    first_turn_is_over(&world, "alpha");
    let first = world.agent("alpha")["session"].clone();
    world.baton(&["rotate", "alpha"]).ok();
    works_on(&world, "alpha", &first);
    let said = wait_for("its words", || {
        std::fs::read_to_string(world.home.project().join("undo.txt")).ok().filter(|said| !said.is_empty())
    });
    assert!(said.contains("cannot start its own client again; nothing was changed"), "{said}");
    assert!(world.agent("alpha")["undone"].is_null(), "{}", world.agent("alpha"));
}

#[test]
fn undo_refuses_an_agent_in_a_foreign_pane_before_anything_has_changed() {
    let Some(world) = World::new(QUIET) else { return };
    world.spawn("alpha", &["--prompt", "Port it."]).ok();
    first_turn_is_over(&world, "alpha");
    adopted(&world, "alpha");
    let first = world.agent("alpha")["session"].clone();
    world.baton(&["rotate", "alpha"]).ok();
    works_on(&world, "alpha", &first);
    let before = (world.agent("alpha"), world.baton(&["handoffs", "--json"]).json());
    let said = world.baton(&["undo", "alpha"]).fails(1);
    assert!(
        said.contains("a pane that baton did not start") && said.contains("nothing was changed"),
        "{said}"
    );
    assert_eq!((world.agent("alpha"), world.baton(&["handoffs", "--json"]).json()), before);
}

#[test]
fn attaching_shows_the_pane_in_a_terminal() {
    let Some(world) = World::new(QUIET) else { return };
    world.ready("alpha");
    world.person_types("alpha", "seen through the window");
    let outer = baton_testkit::tmux::Tmux::new().unwrap();
    let mut launch = baton_testkit::clients::Launch::new(crate::BATON, world.home.project());
    let command = world.command(&["attach", "alpha"]);
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            launch = launch.env(name.to_str().unwrap(), value);
        }
    }
    let launch = launch.args(&["attach", "alpha"]);
    let pane = outer.run("outer", &launch).unwrap();
    pane.wait_for("seen through the window", std::time::Duration::from_secs(30)).unwrap();
    assert!(world.baton(&["attach", "nobody"]).fails(3).contains("there is no agent nobody"));
}

/// From a pane of the same server, the client that shows it is switched; tmux refuses to run inside tmux.
#[test]
fn attaching_from_inside_the_same_tmux_switches_to_the_pane() {
    let Some(world) = World::new(QUIET) else { return };
    world.ready("alpha");
    world.person_types("alpha", "seen through the window");
    let command = world.command(&[]);
    let told: Vec<String> = command
        .get_envs()
        .filter_map(|(name, value)| Some(format!("{}={}", name.to_str()?, value?.to_str()?)))
        .collect();
    let mut words = vec!["new-session", "-d", "-s", "desk", "-x", "120", "-y", "40"];
    words.extend(told.iter().flat_map(|set| ["-e", set.as_str()]));
    words.extend(["env", "PS1=desk> ", "sh"]);
    world.tmux(&words);
    let outer = baton_testkit::tmux::Tmux::new().unwrap();
    let launch = baton_testkit::clients::Launch::new("tmux", world.home.project())
        .env("TMUX_TMPDIR", world.home.path().to_str().unwrap())
        .env("LANG", "C.UTF-8")
        .args(&["-u", "-L", "baton", "attach", "-t", "desk"]);
    let pane = outer.run("outer", &launch).unwrap();
    let patience = std::time::Duration::from_secs(30);
    pane.wait_for("desk>", patience).unwrap();
    world.tmux(&["send-keys", "-t", "desk", &format!("{} attach alpha", crate::BATON), "Enter"]);
    pane.wait_for("seen through the window", patience).unwrap();
    assert_eq!(world.tmux(&["list-clients", "-F", "#{session_name}"]), "alpha");
}

/// Called as `sm`, it answers with the words and codes that older workflows expect.
#[test]
fn called_as_sm_it_answers_as_the_session_manager_did() {
    let Some(world) =
        World::new("turn\n  tokens 5%\n  write h.md # H\n  bash sm handoff h.md > said.txt\n  say Done.\n")
    else {
        return;
    };
    let bin = world.home.path().join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    std::os::unix::fs::symlink(crate::BATON, bin.join("sm")).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let sm = |args: &[&str]| run(world.home.command(bin.join("sm")).args(args));
    assert_eq!(
        sm(&["handoff", "h.md"]).fails(2),
        "Error: CLAUDE_SESSION_MANAGER_ID not set. sm handoff can only be called from within a session.\n"
    );
    let mut spawn =
        world.command_for("alpha", &["spawn", "alpha", "--provider", "demo", "--prompt", "begin"]);
    run(spawn.env("PATH", &path)).ok();
    let said = world.home.project().join("said.txt");
    let said = wait_for_or(
        "its answer",
        || world.told("alpha"),
        || std::fs::read_to_string(&said).ok().filter(|t| !t.is_empty()),
    );
    assert_eq!(said, "Handoff scheduled — will execute after current turn completes\n");
    assert!(sm(&["send", "alpha", "hello"]).ok().starts_with("Queued for alpha"));
    assert_eq!(sm(&["children", "alpha"]).code, Some(3));
    let mut inside = world.home.command(bin.join("sm"));
    inside.args(["handoff", "/nonexistent/file.md"]).env("CLAUDE_SESSION_MANAGER_ID", "alpha");
    assert_eq!(run(&mut inside).fails(1), "Error: File not found: /nonexistent/file.md\n");
}

/// Nobody attends to the panes yet: spawning the first agent starts the daemon, which does.
#[test]
fn the_first_agent_brings_the_daemon_which_attends_to_its_pane() {
    let Some(world) = World::unattended(QUIET) else { return };
    let mut spawn = world.command_for("alpha", &["spawn", "alpha", "--provider", "demo", "--json"]);
    let told = run(spawn.env("BATON_PANES_ATTEND", "true")).json();
    assert_eq!(told["attended"], true);
    let id = world.send("alpha", &["hello"]);
    world.wait_for_prompt("alpha", &id);
    world.baton(&["serve", "--stop"]).ok();
    let agents = || world.baton(&["agents", "--json"]).json();
    assert_eq!(agents()[0]["actuator"], "you", "it says so when nobody attends any more: {}", agents());
    wait_for_or(
        "the turn to end without it",
        || world.told("alpha"),
        || (agents()[0]["state"] == "idle").then_some(()),
    );
}

/// A daemon that was killed left mail and rotations to a person's next prompt.
#[test]
fn a_killed_daemon_is_back_with_the_next_command_that_needs_it_for_a_pane() {
    let Some(world) = World::unattended(QUIET) else { return };
    let attended = |args: &[&str]| {
        let mut command = world.command_for("alpha", args);
        let ran = run(command.env("BATON_PANES_ATTEND", "true"));
        assert_eq!(ran.err, "", "{args:?}");
        ran
    };
    attended(&["spawn", "alpha", "--provider", "demo"]).ok();
    let kill = || {
        let status = world.baton(&["serve", "--status", "--json"]).json();
        let pid = status["pid"].as_i64().unwrap_or_else(|| panic!("{status}"));
        let killed = std::process::Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
        assert!(killed.success());
        wait_for_or(
            "its end",
            || world.told("alpha"),
            || (world.baton(&["agents", "--json"]).json()[0]["actuator"] == "you").then_some(()),
        );
    };
    world.wait_for_screen("alpha", "❯");
    kill();
    attended(&["send", "alpha", "hello"]).ok();
    world.wait_for_prompt("alpha", "hello");
    assert_eq!(attended(&["wait", "alpha", "--timeout", "30s"]).ok(), "alpha: idle\n");
    kill();
    world.send("alpha", &["are you there"]);
    assert_eq!(attended(&["wait", "alpha", "--timeout", "30s"]).ok(), "alpha: idle\n");
    world.wait_for_prompt("alpha", "are you there");
    kill();
    attended(&["rotate", "alpha"]).ok();
    wait_for_or(
        "the fresh context",
        || world.told("alpha"),
        || (world.agent("alpha")["sessions"].as_array()?.len() == 2).then_some(()),
    );
    world.baton(&["serve", "--stop"]).ok();
}

#[test]
fn work_given_to_a_new_agent_continues_in_a_pane_where_one_is_asked_for_or_the_giver_has_one() {
    // The heir has the same script, and must not give the work on.
    let Some(world) = World::new(
        "turn\n  tokens 5%\n  bash [ -e given.txt ] || echo MY-OWN-WORDS | BATON_AGENT_SEEN=$PWD/heir.seen baton handoff --to demo - > given.txt\n  say Given.\n",
    ) else {
        return;
    };
    world.spawn("lead", &["--prompt", "begin"]).ok();
    let heir = wait_for_or(
        "the heir",
        || world.told("lead"),
        || {
            let agents = world.baton(&["agents", "--json"]).json();
            let all = agents.as_array()?.iter().map(|a| a["agent"].clone());
            all.into_iter().find(|a| a["id"] != "lead" && a["pane"].is_object())
        },
    );
    assert_eq!(heir["provider"], "demo");
    let name = heir["id"].as_str().unwrap();
    let given = world.home.project().join("given.txt");
    let said =
        wait_for("what was said", || std::fs::read_to_string(&given).ok().filter(|t| t.contains("attach")));
    assert!(said.contains(&format!("{name} (")) && said.contains("continues it in pane %"), "{said}");
    wait_for("its handoff", || {
        let all = world.baton(&["handoffs", "--json"]).json();
        (all[0]["status"] == "consumed").then_some(())
    });
    // A person outside any pane asks for one.
    world.wait_for_turn("lead", "idle");
    let moved = world.baton(&["handoff", "--to", "demo", "--spawn", "--json"]).json();
    assert!(moved["pane"].as_str().is_some_and(|p| p.starts_with('%')), "{moved}");
    let plain = world.baton(&["handoff", "--to", "demo", "--json"]).json();
    assert!(plain["command"].as_str().is_some_and(|c| c.contains("baton run --name")), "{plain}");
}

/// One agent is killed with `kill -9`, another is spawned with its own task, then the first is brought back.
#[test]
fn a_crashed_agents_work_waits_for_it_and_is_never_given_to_the_next_spawn() {
    let Some(world) = World::new("turn\n  tokens 20%\n  say Half of it is done.\n") else { return };
    let loads = |name: &str| {
        let contexts = world.texts(name, "context");
        contexts.into_iter().filter(|c| c.contains("=== HANDOFF LOADED")).collect::<Vec<_>>()
    };
    world.spawn("q1", &["--prompt", "Port the parser to the new grammar"]).ok();
    world.wait_for_turn("q1", "idle");
    wait_for("the first turn", || (!world.texts("q1", "said").is_empty()).then_some(()));
    let pid = i32::try_from(world.agent("q1")["process"]["pid"].as_i64().unwrap()).unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    wait_for("its end", || (!baton_testkit::tmux::is_running(pid.as_raw_nonzero().get())).then_some(()));

    for (name, args) in [("q2", &["--prompt", "Write the manual"][..]), ("q3", &[])] {
        world.spawn(name, args).ok();
        wait_for("its session", || world.session(name)["id"].is_string().then_some(()));
    }
    world.wait_for_prompt("q2", "Write the manual");
    // A person's own client in the same folder does not get it either.
    let plain = baton_testkit::hooks::Client::new(&world.home);
    assert_eq!(plain.starts("startup").context(), None);
    assert_eq!((loads("q2"), loads("q3")), (vec![], vec![]), "another agent's work");

    run(&mut world.command_for("q1", &["agents", "restore", "q1"])).ok();
    world.wait_for_prompt("q1", "Continue where the loaded handoff");
    let loaded = loads("q1");
    assert_eq!(loaded.len(), 1, "{loaded:?}");
    assert!(loaded[0].contains("Port the parser to the new grammar"), "{}", loaded[0]);
    wait_for("its turn", || (world.texts("q1", "said").len() == 2).then_some(()));
    let crashes = world.baton(&["handoffs", "--json"]).json();
    let crashes: Vec<_> = crashes.as_array().unwrap().iter().filter(|h| h["type"] == "crash").collect();
    assert_eq!(crashes.len(), 1, "sealed once: {crashes:?}");
    assert_eq!((&crashes[0]["for_agent"], &crashes[0]["status"]), (&"q1".into(), &"consumed".into()));
}

/// `baton handoff` had acknowledged the words. An agent that was spawned again under its name got nothing, and they stayed
/// pending for ever.
#[test]
fn words_that_were_handed_over_in_a_turn_that_was_killed_are_there_when_the_agent_is_back() {
    for again in [&["agents", "restore", "q1"][..], &["spawn", "q1", "--provider", "demo"]] {
        let script = "turn\n  tokens 20%\n  bash printf 'OWN-%s' WORDS | baton handoff -\n  wait never\n";
        let Some(world) = World::new(script) else { return };
        world.spawn("q1", &["--prompt", "Port the parser"]).ok();
        wait_for("the words", || world.session("q1")["request"].is_object().then_some(()));
        let pid = i32::try_from(world.agent("q1")["process"]["pid"].as_i64().unwrap()).unwrap();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        wait_for("its end", || (!baton_testkit::tmux::is_running(pid.as_raw_nonzero().get())).then_some(()));
        world.home.write("agent.script", "turn\n  tokens 5%\n  recall\n");
        run(&mut world.command_for("q1", again)).ok();
        wait_for_or(
            &format!("its own words after {again:?}"),
            || world.told("q1"),
            || world.texts("q1", "context").iter().any(|c| c.contains("OWN-WORDS")).then_some(()),
        );
    }
}

/// What a spawned agent had handed over was loaded by the next client in its folder once it was retired, and by a new agent
/// under its name; that one's `undo` went back into the conversation of the retired one.
#[test]
fn what_a_retired_agent_left_is_for_nobody_and_a_new_agent_of_its_name_begins_afresh() {
    let script = "context\nturn\n  tokens 20%\n  write h.md Go on with the parser.\n  bash baton handoff h.md\n\
                  context\nturn\n  tokens 5%\n  recall\n";
    let Some(world) = World::unattended(script) else { return };
    world.spawn("boss", &[]).ok();
    world.spawn("q1", &["--parent", "boss", "--role", "parser", "--prompt", "Port the parser"]).ok();
    let waits = || world.agent("q1")["rotation"]["handoff"].as_str().map(str::to_owned);
    let id = wait_for("the handoff", waits);
    world.baton(&["retire", "q1"]).ok();
    let plain = baton_testkit::hooks::Client::new(&world.home);
    assert_eq!(plain.starts("startup").context(), None, "another agent's work");
    let status = || {
        let handoffs = world.baton(&["handoffs", "--json"]).json();
        let one = handoffs.as_array().unwrap().iter().find(|handoff| handoff["id"] == id.as_str());
        one.map(|handoff| handoff["status"].clone()).unwrap_or_default()
    };
    assert_eq!(status(), "active");

    world.spawn("q1", &["--prompt", "Write the manual"]).ok();
    world.wait_for_prompt("q1", "Write the manual");
    let contexts = world.texts("q1", "context");
    assert!(!contexts.iter().any(|c| c.contains("=== HANDOFF LOADED")), "{contexts:?}");
    assert!(contexts.last().is_some_and(|c| c.contains("You are the agent q1; your user spawned you")));
    assert_eq!(status(), "cleared");
    let agent = world.agent("q1");
    assert!(agent["parent"].is_null() && agent["role"].is_null(), "{agent}");
    let said = world.baton(&["undo", "q1"]).fails(3);
    assert!(said.contains("nothing more to undo"), "{said}");
}

#[test]
fn a_new_agent_under_a_retired_leads_name_is_not_the_parent_of_the_leads_children() {
    let Some(world) = World::unattended("turn\n  say On it.\n") else { return };
    world.spawn("lead", &[]).ok();
    world.spawn("kid", &["--parent", "lead", "--approver", "lead"]).ok();
    world.baton(&["retire", "lead"]).ok();
    assert_eq!(world.agent("kid")["parent"], "lead", "whose child it was stays to be seen");
    world.spawn("lead", &[]).ok();
    let kid = world.agent("kid");
    assert!(kid["parent"].is_null() && kid["approver"].is_null(), "{kid}");
    let said = world.baton(&["agents", "--tree"]).ok();
    assert!(!said.contains("└ kid"), "{said}");
}

#[test]
fn an_agent_that_is_spawned_again_is_waited_for_and_undo_does_not_go_back_behind_that() {
    let Some(world) = World::new("turn\n  tokens 20%\n  say Half of it is done.\n") else { return };
    world.spawn("q1", &["--prompt", "Port the parser"]).ok();
    first_turn_is_over(&world, "q1");
    let pid = i32::try_from(world.agent("q1")["process"]["pid"].as_i64().unwrap()).unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    wait_for("its end", || (!baton_testkit::tmux::is_running(pid.as_raw_nonzero().get())).then_some(()));
    world.spawn("q1", &["--prompt", "Write the manual"]).ok();
    assert_eq!(world.baton(&["wait", "q1", "--timeout", "60s"]).ok(), "q1: idle\n");
    assert_eq!(
        world.texts("q1", "said").len(),
        2,
        "waited for its first turn: {:?}",
        world.texts("q1", "said")
    );
    let said = world.baton(&["undo", "q1"]).fails(3);
    assert!(said.contains("nothing more to undo"), "{said}");
}

/// No daemon runs, so the attendant of the panes or the supervisor must notice.
#[test]
fn a_parent_is_told_that_its_child_in_a_pane_or_under_a_supervisor_died_and_how() {
    let Some(world) = World::new(QUIET) else { return };
    world.ready("lead");
    let kill = |pid: i64| {
        let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    };
    let told = |text: &str| {
        let inbox = world.baton(&["inbox", "lead", "--json"]).json();
        inbox.as_array().unwrap().iter().filter(|m| m["text"].as_str().unwrap().contains(text)).count()
    };
    world.spawn("kid", &["--parent", "lead", "--prompt", "begin"]).ok();
    wait_for("its turn", || (!world.texts("kid", "said").is_empty()).then_some(()));
    kill(world.agent("kid")["process"]["pid"].as_i64().unwrap());
    wait_for_or("the word", || world.told("kid"), || (told("kid died: ") == 1).then_some(()));

    let mut run = world.command_for("son", &["run", "--name", "son", "demo", "begin"]);
    run.env("CLAUDE_SESSION_MANAGER_ID", "lead").stdin(Stdio::piped()).stdout(Stdio::null());
    let mut run = run.stderr(Stdio::null()).spawn().unwrap();
    wait_for("its turn", || (!world.texts("son", "said").is_empty()).then_some(()));
    kill(world.agent("son")["process"]["pid"].as_i64().unwrap());
    run.wait().unwrap();
    assert_eq!(told("son died: its client was killed by signal 9"), 1);
    world.baton(&["agents"]).ok();
    assert_eq!((told("kid died"), told("son died")), (1, 1), "once");
}
