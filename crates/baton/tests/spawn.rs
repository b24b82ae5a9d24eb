//! `baton spawn` and what goes with it: names, parents, prompts, worktrees, waiting, retiring, adopting, coming back.

use std::process::{Command, Stdio};

use baton_testkit::home::run;
use serde_json::Value;

use crate::panes::{QUIET, World, wait_for, wait_for_or};

#[test]
fn a_spawned_agent_runs_in_a_pane_under_its_name_and_begins_with_its_prompt() {
    let world =
        World::new("turn\n  tokens 5%\n  bash echo \"I am $CLAUDE_SESSION_MANAGER_ID\"\n  say Hello.\n");
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
    let tail = world.baton(&["tail", "alpha"]).ok();
    assert!(tail.contains("● Hello."), "{tail}");
    assert!(!world.home.state().join("run/alpha.start").exists(), "the environment was left behind");
}

#[test]
fn a_name_is_given_once_and_of_several_who_want_it_one_gets_it() {
    let world = World::new(QUIET);
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
    let world = World::new(
        "turn\n  tokens 5%\n  bash BATON_AGENT_SEEN=$PWD/kid.seen baton spawn kid --provider demo\n  say Spawned.\n",
    );
    world.spawn("lead", &["--prompt", "begin"]).ok();
    wait_for_or("the child", || world.told("lead"), || world.agent("kid")["pane"].is_object().then_some(()));
    assert_eq!(world.agent("kid")["parent"], "lead");
    world.wait_for_turn("lead", "idle");
    let children = world.baton(&["children", "lead", "--json"]).json();
    assert_eq!(children[0]["agent"]["id"], "kid");
    assert!(world.baton(&["agents"]).ok().contains("└ kid"));
    assert_eq!(world.baton(&["children", "kid"]).code, Some(3));
    // What the client of the parent says of itself is not what its child is told.
    let environ = std::fs::read(format!("/proc/{}/environ", world.agent("kid")["process"]["pid"])).unwrap();
    let environ = String::from_utf8_lossy(&environ).into_owned();
    assert!(environ.contains("CLAUDE_SESSION_MANAGER_ID=kid"), "{environ}");
    assert!(!environ.contains("CLAUDE_PID=") && !environ.contains("CLAUDECODE="), "{environ}");
}

#[test]
fn prompts_come_from_files_from_standard_input_and_whatever_they_begin_with() {
    let world = World::new(QUIET);
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
    let world = World::new("turn\n  bash git branch --show-current > branch.txt\n  say Done.\n");
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
    let world = World::new("turn\n  tokens 5%\n  wait go\n  say Done.\n");
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
    let mut world = World::new(QUIET);
    world.ready("alpha");
    world.kill_attendant();
    let id = world.send("alpha", &["are you there?"]);
    let said = world.baton(&["retire", "alpha"]).ok();
    assert!(
        said.contains("alpha was stopped.") && said.contains("1 messages to it were never read"),
        "{said}"
    );
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

/// The pane that tmux has told a client of is found without being named.
#[test]
fn an_agent_that_runs_in_a_pane_already_is_adopted_and_gets_its_mail() {
    let world = World::new(QUIET);
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

/// A reboot: the tmux server and all in it are gone from one instant to the next.
#[test]
fn after_a_reboot_agents_come_back_with_their_handoff_and_those_that_left_do_not() {
    let script = "context\nturn\n  tokens 20%\n  say Half of it is done.\ncontext\nturn\n  tokens 5%\n  say I am back.\n";
    let world = World::new(script);
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
fn attaching_shows_the_pane_in_a_terminal() {
    let world = World::new(QUIET);
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

/// From a pane of the same server the client that looks at it is switched; tmux in tmux would be refused.
#[test]
fn attaching_from_inside_the_same_tmux_switches_to_the_pane() {
    let world = World::new(QUIET);
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

/// Called as `sm`, it answers with the words and codes that older workflows know.
#[test]
fn called_as_sm_it_answers_as_the_session_manager_did() {
    let world =
        World::new("turn\n  tokens 5%\n  write h.md # H\n  bash sm handoff h.md > said.txt\n  say Done.\n");
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

/// Nobody attends to the panes yet: the first agent brings the daemon, which does.
#[test]
fn the_first_agent_brings_the_daemon_which_attends_to_its_pane() {
    let world = World::unattended(QUIET);
    let mut spawn = world.command_for("alpha", &["spawn", "alpha", "--provider", "demo", "--json"]);
    let told = run(spawn.env("BATON_PANES_ATTEND", "true")).json();
    assert_eq!(told["attended"], true);
    let id = world.send("alpha", &["hello"]);
    world.wait_for_prompt("alpha", &id);
    world.baton(&["serve", "--stop"]).ok();
    let agents = world.baton(&["agents", "--json"]).json();
    assert_eq!(agents[0]["actuator"], "you", "it says so when nobody attends any more: {agents}");
    assert_eq!(agents[0]["state"], "idle", "the agent goes on without it");
}

#[test]
fn work_given_to_a_new_agent_goes_on_in_a_pane_where_one_is_asked_for_or_the_giver_has_one() {
    let world = World::new(
        "turn\n  tokens 5%\n  bash echo MY-OWN-WORDS | BATON_AGENT_SEEN=$PWD/heir.seen baton handoff --to demo - > given.txt\n  say Given.\n",
    );
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
    assert!(said.contains(&format!("{name} (")) && said.contains("goes on with it in pane %"), "{said}");
    wait_for("its handoff", || {
        let all = world.baton(&["handoffs", "--json"]).json();
        (all[0]["status"] == "consumed").then_some(())
    });
    // A person who sits at no pane asks for one.
    world.wait_for_turn("lead", "idle");
    let moved = world.baton(&["handoff", "--to", "demo", "--spawn", "--json"]).json();
    assert!(moved["pane"].as_str().is_some_and(|p| p.starts_with('%')), "{moved}");
    let plain = world.baton(&["handoff", "--to", "demo", "--json"]).json();
    assert!(plain["command"].as_str().is_some_and(|c| c.contains("baton run --name")), "{plain}");
}
