//! The deferred handoff in a tmux pane. The document that specified it (`sm handoff`, self-directed context rotation)
//! has a table of edge cases and a test plan; each row and each line is a test here that names it.

use baton_testkit::Home;
use baton_testkit::hooks::Client;
use baton_testkit::wait::wait_for;
use serde_json::Value;

use crate::BATON;
use crate::world::{World, wait_for_or};

/// Writes a handoff, hands over and continues; the second context says what it knows.
const ONCE: &str = "context\nturn\n  tokens 20%\n  write h.md <<END\n# H\n\n## Next\nRun it again.\nEND\n  \
                    bash baton handoff h.md\n  bash echo after > after.txt\n  say Handed over.\n\
                    context\nturn\n  tokens 5%\n  recall\nturn\n  say More.\n";

fn handoff_prompt(world: &World, name: &str) -> String {
    world.wait_for_prompt(name, "and continue from where you left off.")
}

fn rotations(world: &World) -> Vec<Value> {
    baton_testkit::home::records(&world.home.state().join("rotations"))
}

fn events(world: &World, name: &str) -> Vec<String> {
    let text = world.baton(&["log", "--json", "-n", "100000", "--agent", name]).out;
    let lines = text.lines().filter_map(|l| serde_json::from_str::<Value>(l).ok());
    lines.filter_map(|l| l["event"].as_str().map(str::to_owned)).collect()
}

/// Test plan 1: happy path.
#[test]
fn happy_path_the_agent_writes_hands_over_and_continues_in_a_fresh_context_under_its_name() {
    let Some(world) = World::new(ONCE) else { return };
    world.spawn("alpha", &["--prompt", "begin"]).ok();
    let prompt = handoff_prompt(&world, "alpha");
    let file = std::fs::canonicalize(world.home.project()).unwrap().join("h.md");
    let continuation = format!("Read {} and continue from where you left off.", file.display());
    assert!(prompt.starts_with(&continuation), "{prompt}");
    wait_for_or(
        "the new context",
        || world.told("alpha"),
        || world.texts("alpha", "said").iter().any(|s| s.contains("Next: Run it again.")).then_some(()),
    );
    world.wait_for_turn("alpha", "idle");
    let agent = world.agent("alpha");
    assert_eq!(agent["sessions"].as_array().unwrap().len(), 2, "{agent}");
    assert!(agent["rotation"].is_null(), "{agent}");
    let path = agent["last_handoff_path"].as_str().unwrap();
    assert!(std::fs::read_to_string(path).unwrap().contains("Run it again."), "last_handoff_path is kept");
    let done = wait_for("the journal", || rotations(&world).pop().filter(|r| r["step"] == "done"));
    assert_eq!((&done["actuator"], &done["agent"]), (&"tmux".into(), &"alpha".into()));
    assert_ne!(world.session("alpha")["id"], done["from"]);
    assert_eq!(world.session("alpha")["latches"]["handed_off"], false, "the latches are armed again");
    let status = world.baton(&["handoffs", "--json"]).ok();
    assert!(status.contains("\"consumed\""), "{status}");
    assert_eq!(world.agent("alpha")["pane"]["id"], agent["pane"]["id"], "the same pane");
}

/// Edge case: agent continues after `sm handoff`.
#[test]
fn row_agent_continues_after_the_handoff_and_it_executes_only_at_stop() {
    let Some(world) = World::new(
        &ONCE.replace("  bash echo after > after.txt\n", "  wait go\n  bash echo after > after.txt\n"),
    ) else {
        return;
    };
    world.spawn("alpha", &["--prompt", "begin"]).ok();
    wait_for("the schedule", || world.session("alpha")["request"].is_object().then_some(()));
    // Meanwhile the attendant types something to another agent, but nothing here.
    world.ready("beta");
    let other = world.send("beta", &["hello"]);
    world.wait_for_prompt("beta", &other);
    assert_eq!(world.agent("alpha")["sessions"].as_array().unwrap().len(), 1);
    world.home.write("work/app/go", "");
    handoff_prompt(&world, "alpha");
    assert!(world.home.project().join("after.txt").exists(), "its turn was not cut");
}

/// Edge case: file deleted between schedule and execution. Our own copy is used.
#[test]
fn row_file_deleted_between_schedule_and_execution_the_copy_is_used() {
    let Some(world) = World::new(&ONCE.replace("bash echo after > after.txt", "bash rm h.md")) else {
        return;
    };
    world.spawn("alpha", &["--prompt", "begin"]).ok();
    world.wait_for_prompt("alpha", "Continue where the loaded handoff HO-");
    wait_for("the new context", || {
        world.texts("alpha", "said").iter().any(|s| s.contains("Next: Run it again.")).then_some(())
    });
}

/// Edge case, and test plan 9, failure recovery: file and copy cannot be read; the agent is idle again and gets its
/// mail.
#[test]
fn row_file_and_copy_gone_the_handoff_is_aborted_idle_is_restored_and_queued_mail_is_delivered() {
    let script = ONCE.replace("  bash echo after > after.txt\n", "  wait go\n");
    let Some(world) = World::new(&script) else { return };
    world.spawn("alpha", &["--prompt", "begin"]).ok();
    let request =
        wait_for("the schedule", || Some(world.session("alpha")["request"].take()).filter(Value::is_object));
    let id = world.send("alpha", &["still there?"]);
    std::fs::remove_file(request["copy"].as_str().unwrap()).unwrap();
    std::fs::remove_file(request["path"].as_str().unwrap()).unwrap();
    world.home.write("work/app/go", "");
    world.wait_for_prompt("alpha", &id);
    let agent = world.agent("alpha");
    assert_eq!(agent["sessions"].as_array().unwrap().len(), 1, "nothing was cleared");
    assert!(agent["rotation"].is_null());
    assert!(world.texts("alpha", "message").iter().any(|m| m.contains("was not sealed")), "the user is told");
}

/// Edge case: multiple `sm handoff` calls in the same turn.
#[test]
fn row_multiple_calls_in_one_turn_the_last_one_wins() {
    let Some(world) = World::new(&ONCE.replace(
        "  bash echo after > after.txt\n",
        "  write second.md <<END\n# H\n\n## Next\nDo the second thing.\nEND\n  bash baton handoff second.md\n",
    )) else { return };
    world.spawn("alpha", &["--prompt", "begin"]).ok();
    assert!(handoff_prompt(&world, "alpha").contains("second.md"));
    wait_for("the new context", || {
        world.texts("alpha", "said").iter().any(|s| s.contains("Next: Do the second thing.")).then_some(())
    });
    assert_eq!(rotations(&world).len(), 1);
}

/// Edge case: session killed before the handoff executes.
#[test]
fn row_session_killed_before_it_executes_does_no_harm() {
    let Some(world) = World::new(&ONCE.replace("  bash echo after > after.txt\n", "  wait never\n")) else {
        return;
    };
    world.spawn("alpha", &["--prompt", "begin"]).ok();
    wait_for("the schedule", || world.session("alpha")["request"].is_object().then_some(()));
    let pid = world.agent("alpha")["process"]["pid"].as_i64().unwrap();
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    wait_for("its end", || world.agent("alpha")["ended"].is_string().then_some(()));
    assert!(rotations(&world).is_empty());
    assert_eq!(world.baton(&["agents", "--json"]).json()[0]["state"], "ended");
}

/// Edge case: server restart with a pending handoff. The document accepts its loss; here it survives. FIELD: a handoff
/// that was pending in memory was lost at a restart.
#[test]
fn row_server_restart_with_a_pending_handoff_survives() {
    let Some(mut world) = World::new(&ONCE.replace("  bash echo after > after.txt\n", "  wait go\n")) else {
        return;
    };
    world.spawn("alpha", &["--prompt", "begin"]).ok();
    wait_for("the schedule", || world.session("alpha")["request"].is_object().then_some(()));
    world.kill_attendant();
    world.home.write("work/app/go", "");
    wait_for("the request", || world.agent("alpha")["rotation"].is_object().then_some(()));
    assert_eq!(world.agent("alpha")["sessions"].as_array().unwrap().len(), 1);
    world.start_attendant();
    handoff_prompt(&world, "alpha");
    wait_for("the journal", || rotations(&world).pop().filter(|r| r["step"] == "done"));
}

/// The same with the attendant killed at a random instant of the rotation, which still finishes once.
#[test]
fn row_server_restart_at_any_instant_of_a_rotation_still_loads_once() {
    let mut rng = baton_testkit::rng::Rng::announced("row_server_restart_at_any_instant");
    for _ in 0..baton_testkit::times(5) {
        let Some(mut world) = World::new(ONCE) else { return };
        world.spawn("alpha", &["--prompt", "begin"]).ok();
        wait_for("the request", || {
            (world.agent("alpha")["sessions"].as_array().is_some_and(|s| s.len() > 1)
                || world.agent("alpha")["rotation"].is_object())
            .then_some(())
        });
        std::thread::sleep(std::time::Duration::from_millis(rng.pick(0..200)));
        world.kill_attendant();
        world.start_attendant();
        wait_for_or(
            "the new context",
            || world.told("alpha"),
            || world.texts("alpha", "said").iter().any(|s| s.contains("Next: Run it again.")).then_some(()),
        );
        assert_eq!(world.agent("alpha")["sessions"].as_array().unwrap().len(), 2, "{}", world.told("alpha"));
        let open =
            || rotations(&world).into_iter().filter(|r| r["step"] != "done" && r["step"] != "failed").count();
        wait_for_or("the journal", || world.told("alpha"), || (open() == 0).then_some(()));
    }
}

/// Edge case and test plan 4: codex-app sessions are rejected when they ask.
#[test]
fn row_codex_app_sessions_are_rejected_at_schedule_time() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup").silent();
    let path = home.state().join(format!("sessions/{}.json", client.session));
    let text = std::fs::read_to_string(&path)
        .unwrap()
        .replace("\"provider\":\"claude\"", "\"provider\":\"codex-app\"");
    assert!(text.contains("codex-app"));
    std::fs::write(&path, text).unwrap();
    home.write("work/app/h.md", "# H");
    let mut command = home.baton(["handoff", "h.md"]);
    client.dress(&mut command);
    let said = baton_testkit::home::run(&mut command).fails(1);
    assert_eq!(said, "Error: sm handoff is not supported for codex-app sessions\n");
    assert!(client.kept()["request"].is_null());
}

/// Edge case `stop_notify_skip_count` and test plan 6, skip fence: nobody takes the clear for the end of a turn.
#[test]
fn row_skip_fence_a_rotation_is_no_end_of_a_turn_and_nobody_is_notified() {
    let Some(world) = World::new(&ONCE.replace("  bash echo after > after.txt\n", "  wait go\n")) else {
        return;
    };
    world.ready("boss");
    world.spawn("alpha", &["--parent", "boss", "--prompt", "begin"]).ok();
    wait_for("the schedule", || world.session("alpha")["request"].is_object().then_some(()));
    world.home.write("work/app/go", "");
    handoff_prompt(&world, "alpha");
    world.wait_for_turn("alpha", "idle");
    let stops = || events(&world, "alpha").iter().filter(|e| *e == "stop").count();
    wait_for("both turns", || (stops() == 2).then_some(()));
    let events = events(&world, "alpha");
    let first = events.iter().position(|e| e == "stop").unwrap();
    let fresh = events.iter().rposition(|e| e == "session-start").unwrap();
    assert!(fresh > first && events[first + 1..fresh].iter().all(|e| e != "stop"), "{events:?}");
    assert_eq!(
        world.baton(&["inbox", "boss", "--json"]).json().as_array().unwrap().len(),
        0,
        "boss heard nothing"
    );
}

/// Edge case, and test plan 7 and 8, queued messages and delivery lock: held while the context is cleared, then
/// delivered to the fresh context.
#[test]
fn row_queued_messages_are_held_and_delivered_to_the_fresh_context() {
    let Some(world) =
        World::new(&ONCE.replace("  bash echo after > after.txt\n", "  wait go\n  bash true\n  bash true\n"))
    else {
        return;
    };
    world.spawn("alpha", &["--prompt", "begin"]).ok();
    wait_for("the schedule", || world.session("alpha")["request"].is_object().then_some(()));
    let ids = [world.send("alpha", &["first"]), world.send("alpha", &["--urgent", "second"])];
    world.home.write("work/app/go", "");
    handoff_prompt(&world, "alpha");
    wait_for_or(
        "both",
        || world.told("alpha"),
        || ids.iter().all(|id| world.state_of("alpha", id) == "delivered").then_some(()),
    );
    // The hook reports the delivery before its client has read the message.
    let seen = wait_for_or(
        "both to be read",
        || world.told("alpha"),
        || {
            let seen = world.seen("alpha");
            let has = |id: &String| seen.iter().any(|s| s["text"].as_str().is_some_and(|t| t.contains(id)));
            ids.iter().all(has).then_some(seen)
        },
    );
    let fresh = seen.iter().rposition(|s| s["kind"] == "context-begins").unwrap();
    for (n, what) in seen.iter().enumerate() {
        let text = what["text"].as_str().unwrap_or_default();
        assert!(n > fresh || !text.contains("[baton message"), "mail before the clear: {what}");
    }
    let after: String =
        seen[fresh..].iter().filter_map(|s| s["text"].as_str()).collect::<Vec<_>>().join("\n");
    assert!(after.find(&ids[0]).unwrap() < after.find(&ids[1]).unwrap(), "in order");
    assert_eq!(after.matches(&ids[0]).count(), 1);
}

/// Edge case `_restore_user_input` race: a person's draft is put aside and comes back.
#[test]
fn row_a_draft_is_put_aside_for_the_clear_and_comes_back() {
    let Some(mut world) = World::new(&ONCE.replace("  bash echo after > after.txt\n", "")) else { return };
    world.kill_attendant();
    world.spawn("alpha", &["--prompt", "begin"]).ok();
    wait_for("the request", || world.agent("alpha")["rotation"].is_object().then_some(()));
    world.person_types("alpha", "half a thought");
    world.start_attendant();
    handoff_prompt(&world, "alpha");
    world.wait_for_turn("alpha", "idle");
    world.wait_for_screen("alpha", "❯\u{a0}half a thought");
    assert!(
        world.prompts("alpha").iter().all(|p| !p.contains("half a thought")),
        "{:?}",
        world.prompts("alpha")
    );
}

/// Beyond the document: the rotation waits for background tasks and says so.
#[test]
fn the_rotation_waits_for_running_background_tasks() {
    let Some(world) =
        World::new(&ONCE.replace("  bash echo after > after.txt\n", "  task built build of the parser\n"))
    else {
        return;
    };
    world.spawn("alpha", &["--prompt", "begin"]).ok();
    wait_for_or(
        "the reason",
        || world.told("alpha"),
        || (world.agent("alpha")["waits"] == "background tasks still run").then_some(()),
    );
    assert_eq!(world.agent("alpha")["sessions"].as_array().unwrap().len(), 1);
    world.home.write("work/app/built", "");
    handoff_prompt(&world, "alpha");
}

/// FIELD: `/clear` sent too early, the next prompt sent before the clear had happened. Another tool's hook slows the
/// clear.
#[test]
fn the_prompt_to_continue_reaches_the_fresh_context_however_slow_the_clear_is() {
    let Some(world) = World::new(ONCE) else { return };
    let slow = "while [ ! -e go ]; do sleep 0.05; done";
    let settings = serde_json::json!({ "hooks": { "SessionStart": [
        { "matcher": "clear", "hooks": [{ "type": "command", "command": slow }] }
    ] } });
    world.home.write("work/app/.claude/settings.json", settings.to_string());
    world.spawn("alpha", &["--prompt", "begin"]).ok();
    wait_for_or(
        "the clear",
        || world.told("alpha"),
        || (world.agent("alpha")["sessions"].as_array()?.len() == 2).then_some(()),
    );
    let told = |w: &World| w.prompts("alpha").iter().filter(|p| p.contains("continue from where")).count();
    assert_eq!(told(&world), 0, "the client has not finished its clear");
    world.home.write("work/app/go", "");
    handoff_prompt(&world, "alpha");
    wait_for_or(
        "the new context",
        || world.told("alpha"),
        || world.texts("alpha", "said").iter().any(|s| s.contains("Next: Run it again.")).then_some(()),
    );
    world.wait_for_turn("alpha", "idle");
    assert_eq!(told(&world), 1, "{}", world.told("alpha"));
    assert_eq!(world.agent("alpha")["sessions"].as_array().unwrap().len(), 2);
}

/// FIELD: a half-typed draft was submitted or destroyed. If it cannot be put aside, the rotation waits and says so.
#[test]
fn a_draft_that_cannot_be_put_aside_makes_the_rotation_wait_and_say_so() {
    let Some(mut world) =
        World::new(&format!("stash off\n{}", ONCE.replace("  bash echo after > after.txt\n", "")))
    else {
        return;
    };
    world.kill_attendant();
    world.spawn("alpha", &["--prompt", "begin"]).ok();
    wait_for("the request", || world.agent("alpha")["rotation"].is_object().then_some(()));
    world.person_types("alpha", "half a thought");
    world.start_attendant();
    wait_for_or(
        "the reason",
        || world.told("alpha"),
        || (world.agent("alpha")["waits"] == "a draft is in the composer").then_some(()),
    );
    assert!(world.baton(&["agents"]).ok().contains("a draft is in the composer"));
    assert_eq!(world.agent("alpha")["sessions"].as_array().unwrap().len(), 1);
    assert!(world.screen("alpha").contains("❯\u{a0}half a thought"), "{}", world.told("alpha"));
    assert!(!world.home.state().join("run/alpha.put-by").exists(), "nothing was put by");
    // The person removes it themselves.
    world.keys("alpha", &["C-c"]);
    handoff_prompt(&world, "alpha");
    wait_for("nothing in the way", || world.agent("alpha")["waits"].is_null().then_some(()));
}

/// Beyond the document: tasks that outlast the wait are named in the handoff.
#[test]
fn background_tasks_that_outlast_the_wait_are_named_in_the_handoff() {
    let Some(world) = World::unattended(
        &ONCE.replace("  bash echo after > after.txt\n", "  task never-built build of the parser\n"),
    ) else {
        return;
    };
    world.home.write(".config/baton/config.toml", "[run]\nbackground_wait = \"1s\"\n");
    let world = world.attended();
    world.spawn("alpha", &["--prompt", "begin"]).ok();
    handoff_prompt(&world, "alpha");
    let loaded = world.texts("alpha", "context").into_iter().find(|c| c.contains("=== HANDOFF LOADED"));
    let loaded = loaded.unwrap_or_else(|| panic!("{}", world.told("alpha")));
    assert!(loaded.contains("Still running in the background"), "{loaded}");
    assert!(loaded.contains("build of the parser"), "{loaded}");
}

/// Test plan 2: file validation. Test plan 5: no session.
#[test]
fn file_validation_and_no_session_are_reported_at_the_command_line() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup").silent();
    let mut command = home.baton(["handoff", "/nonexistent/file.md"]);
    client.dress(&mut command);
    assert_eq!(
        baton_testkit::home::run(&mut command).fails(1),
        "Error: File not found: /nonexistent/file.md\n"
    );
    let said = home.run("handoff h.md").fails(2);
    assert!(said.starts_with("Error: CLAUDE_SESSION_MANAGER_ID not set."), "{said}");
}

/// Neither does it say that there is no session, nor does it take the project's last one.
#[test]
fn an_agent_whose_session_cannot_be_read_is_told_so() {
    let home = Home::new(BATON);
    let (other, client) = (Client::new(&home), Client::new(&home));
    other.starts("startup").silent();
    client.starts("startup").silent();
    let record = home.state().join(format!("sessions/{}.json", client.session));
    std::fs::remove_file(&record).unwrap();
    std::fs::create_dir(&record).unwrap();
    for line in ["handoff -", "handoff --to someone -", "children", "outbox"] {
        let mut command = home.baton(line.split(' '));
        client.dress(&mut command);
        let said = baton_testkit::hooks::send(command, b"# Words\n");
        assert_eq!(said.code, Some(1), "{line}: {said:?}");
        assert!(said.err.contains(&record.display().to_string()), "{line}: {said:?}");
    }
}

/// Test plan 3: self-only. A session can hand over only itself; there is no way to name another one.
#[test]
fn self_only_an_agent_cannot_hand_over_for_another() {
    let home = Home::new(BATON);
    let (one, other) = (Client::new(&home), Client::new(&home));
    for client in [&one, &other] {
        client.starts("startup").silent();
        client.hook("UserPromptSubmit").silent();
    }
    home.write("work/app/h.md", "# H");
    // Another agent's environment does not make this session that agent.
    let mut command = home.baton(["handoff", "h.md"]);
    one.dress(&mut command);
    command.env("CLAUDE_SESSION_MANAGER_ID", other.agent());
    baton_testkit::home::run(&mut command).ok();
    assert!(one.kept()["request"].is_object());
    assert!(other.kept()["request"].is_null());
}
