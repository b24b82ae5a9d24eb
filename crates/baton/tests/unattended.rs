//! Nothing waits for an event that never comes: each way in which a fleet once stopped until a person came is a test
//! here.

use baton_testkit::Home;
use baton_testkit::home::{record, run};
use baton_testkit::hooks::Client;
use baton_testkit::wait::wait_for;
use serde_json::json;

use crate::BATON;
use crate::world::{QUIET, World, wait_for_or};

/// A script that writes a handoff and hands over; the test adds the rest.
fn hands_over(then: &str) -> String {
    format!(
        "context\nturn\n  tokens 20%\n  write h.md <<END\n# H\n\n## Next\nRun it again.\nEND\n  \
         bash baton handoff h.md\n{then}context\nturn\n  tokens 5%\n  recall\nturn\n  say More.\n"
    )
}

#[track_caller]
fn goes_on(world: &World, name: &str) {
    wait_for_or(
        "the fresh context",
        || world.told(name),
        || world.texts(name, "said").iter().any(|s| s.contains("Next: Run it again.")).then_some(()),
    );
    wait_for_or(
        "nothing to be pending",
        || world.told(name),
        || {
            (world.session(name)["request"].is_null() && world.agent(name)["rotation"].is_null())
                .then_some(())
        },
    );
}

fn is_pending(world: &World, name: &str) {
    wait_for("the schedule", || world.session(name)["request"].is_object().then_some(()));
}

#[test]
fn an_api_error_after_a_handoff_ends_the_turn_and_the_handoff_is_carried_out() {
    let Some(world) = World::new(&hands_over("  fail overloaded API Error: 529\n")) else { return };
    world.spawn("alpha", &["--prompt", "begin"]).ok();
    goes_on(&world, "alpha");
    let id = world.send("alpha", &["hello"]);
    wait_for("the mail", || (world.state_of("alpha", &id) == "delivered").then_some(()));
}

#[test]
fn esc_after_a_handoff_ends_the_turn_and_held_mail_reaches_the_fresh_context() {
    let Some(world) = World::new(&hands_over("  wait never\n")) else { return };
    world.spawn("alpha", &["--prompt", "begin"]).ok();
    is_pending(&world, "alpha");
    let id = world.send("alpha", &["hello"]);
    world.keys("alpha", &["Escape"]);
    goes_on(&world, "alpha");
    wait_for_or(
        "the mail",
        || world.told("alpha"),
        || (world.state_of("alpha", &id) == "delivered").then_some(()),
    );
}

#[test]
fn a_handoff_that_a_person_schedules_while_the_agent_is_idle_is_carried_out_at_once() {
    let Some(world) =
        World::new("context\nturn\n  tokens 20%\n  say Ready.\ncontext\nturn\n  tokens 5%\n  recall\n")
    else {
        return;
    };
    world.spawn("alpha", &["--prompt", "begin"]).ok();
    wait_for("its answer", || world.texts("alpha", "said").contains(&"Ready.".to_owned()).then_some(()));
    world.wait_for_turn("alpha", "idle");
    world.home.write("work/app/h.md", "# H\n\n## Next\nRun it again.\n");
    let mut command = world.command(&["handoff", "h.md"]);
    let said = run(command.env("CLAUDE_SESSION_MANAGER_ID", "alpha")).ok();
    assert!(said.contains("sealed; a fresh context follows"), "{said}");
    goes_on(&world, "alpha");
}

/// An agent at its limit would still be at the limit in a fresh context.
#[test]
fn a_usage_limit_after_a_handoff_seals_it_and_holds_no_document_back() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup").silent();
    client.hook("UserPromptSubmit").ok();
    client.answers(50_000);
    hand_over(&home, &client, "# H\nThe words of the agent.");
    client.hook("StopFailure").ok();
    assert!(client.kept()["request"].is_null() && client.kept()["turn"] == "limit");
    assert!(newest_handoff(&home).contains("The words of the agent."));
}

fn hand_over(home: &Home, client: &Client<'_>, text: &str) {
    let file = home.write("work/app/h.md", text);
    let mut command = home.baton(["handoff", &file.display().to_string()]);
    client.dress(&mut command);
    run(&mut command).ok();
}

fn newest_handoff(home: &Home) -> String {
    let id = home.run("handoffs --json").json()[0]["id"].as_str().unwrap().to_owned();
    home.run(&format!("handoffs show {id}")).ok()
}

/// What an agent changed in its file after it was copied is lost then, so somebody must be told.
#[test]
fn a_handed_over_file_that_cannot_be_read_is_sealed_from_its_copy_and_the_log_says_so() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup").silent();
    client.hook("UserPromptSubmit").ok();
    client.answers(50_000);
    hand_over(&home, &client, "# H\nThe words of the agent.");
    let file = home.path().join("work/app/h.md");
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    client.hook("Stop").ok();
    assert!(newest_handoff(&home).contains("The words of the agent."));
    let log = home.run("log --json --all").ok();
    assert!(log.contains("read the agent's handoff again; its copy is used"), "{log}");
}

/// A plain client after Esc: only its own notification tells that it is idle.
#[test]
fn a_pending_handoff_is_carried_out_when_the_client_reports_that_it_is_idle() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup").silent();
    client.hook("UserPromptSubmit").ok();
    client.answers(50_000);
    hand_over(&home, &client, "# H\nThe words of the agent.");
    assert!(client.kept()["request"].is_object());
    client.hook("Notification").ok();
    assert!(client.kept()["request"].is_null());
    assert!(newest_handoff(&home).contains("The words of the agent."));
}

/// Regression: the agent's words were lost in a compaction during which nothing could be sealed.
#[test]
fn a_compaction_that_seals_nothing_leaves_the_handoff_pending() {
    for seals in [true, false] {
        let home = Home::new(BATON);
        home.write(".config/baton/config.toml", format!("[handoff]\nseal = {seals}\n"));
        let client = Client::new(&home);
        client.starts("startup").silent();
        client.hook("UserPromptSubmit").ok();
        client.answers(170_000);
        hand_over(&home, &client, "# H\nThe words of the agent.");
        let archive = home.path().join(".claude/handoff");
        if seals {
            std::fs::write(&archive, "in the way").unwrap();
        }
        client.hook("PreCompact").ok();
        assert!(client.kept()["request"].is_object(), "seal = {seals}: {}", client.kept());
        let inbox = home.run("inbox").out;
        assert!(!inbox.contains("handoff none"), "{inbox}");
        if seals {
            std::fs::remove_file(&archive).unwrap();
        }
        client.hook("Stop").ok();
        assert!(client.kept()["request"].is_null(), "seal = {seals}");
        assert!(newest_handoff(&home).contains("The words of the agent."));
    }
}

#[test]
fn clearing_or_leaving_with_a_handoff_pending_keeps_its_words() {
    let home = Home::new(BATON);
    let mut client = Client::new(&home);
    client.starts("startup").silent();
    client.hook("UserPromptSubmit").ok();
    client.answers(50_000);
    hand_over(&home, &client, "# H\nThe words of the agent.");
    let heard = client.clears();
    assert!(heard.context().is_some_and(|c| c.contains("The words of the agent.")), "{heard:?}");
}

#[test]
fn a_handoff_scheduled_through_the_api_while_idle_is_sealed_at_once() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup").silent();
    client.hook("UserPromptSubmit").ok();
    client.answers(50_000);
    client.hook("Stop").ok();
    let served = baton_testkit::daemon::Served::new(&home);
    let file = home.write("h.md", "# H\nThe words of the agent.");
    let body = json!({ "requester_session_id": client.agent(), "file_path": file });
    let answered = served.post(&format!("/sessions/{}/handoff", client.agent()), &body);
    assert_eq!(answered, json!({ "status": "sealed" }));
    assert!(client.kept()["request"].is_null());
    assert!(newest_handoff(&home).contains("The words of the agent."));
}

#[test]
fn rotate_seals_the_document_that_is_pending_and_not_the_transcript_alone() {
    let Some(world) = World::new(&hands_over("  wait never\n")) else { return };
    world.spawn("alpha", &["--prompt", "begin"]).ok();
    is_pending(&world, "alpha");
    world.baton(&["rotate", "alpha"]).ok();
    goes_on(&world, "alpha");
    let path = world.agent("alpha")["last_handoff_path"].as_str().unwrap().to_owned();
    assert!(std::fs::read_to_string(path).unwrap().contains("Run it again."));
}

#[test]
fn agents_status_send_and_wait_say_what_a_pending_handoff_waits_for() {
    let Some(world) = World::new(&hands_over("  wait go\n")) else { return };
    world.spawn("alpha", &["--prompt", "begin"]).ok();
    is_pending(&world, "alpha");
    for args in [&["agents"][..], &["status", "alpha"], &["send", "alpha", "hello"]] {
        let said = world.baton(args).ok();
        assert!(said.contains("handoff pending since "), "{args:?}: {said}");
        assert!(said.contains("waits for the end of its turn"), "{args:?}: {said}");
    }
    let waited = world.baton(&["wait", "alpha", "--timeout", "200ms"]).fails(1);
    assert!(waited.contains("waits for the end of its turn"), "{waited}");
    world.home.write("work/app/go", "");
    goes_on(&world, "alpha");
    assert!(!world.baton(&["agents"]).ok().contains("handoff pending"));
}

#[test]
fn a_handoff_that_cannot_be_written_now_is_tried_again() {
    let Some(world) = World::new(&hands_over("  wait go\n")) else { return };
    world.spawn("alpha", &["--prompt", "begin"]).ok();
    is_pending(&world, "alpha");
    // A file is where the archive should be, so nothing can be sealed.
    let archive = world.home.path().join(".claude/handoff");
    let _ = std::fs::remove_dir_all(&archive);
    std::fs::write(&archive, "in the way").unwrap();
    world.home.write("work/app/go", "");
    wait_for_or(
        "the first try",
        || world.told("alpha"),
        || (world.session("alpha")["request"]["tries"].as_u64() >= Some(1)).then_some(()),
    );
    std::fs::remove_file(&archive).unwrap();
    goes_on(&world, "alpha");
}

/// Regression: `send` followed by `wait` reported idle while the message was still queued.
#[test]
fn wait_counts_queued_mail_as_work_to_come() {
    let Some(world) = World::new(QUIET) else { return };
    world.ready("alpha");
    let id = world.send("alpha", &["hello"]);
    assert_eq!(world.baton(&["wait", "alpha", "--timeout", "30s"]).ok(), "alpha: idle\n");
    assert_eq!(world.state_of("alpha", &id), "delivered", "{}", world.told("alpha"));
    assert_eq!(world.session("alpha")["turn"], "idle");
    assert!(world.texts("alpha", "said").contains(&"Hello.".to_owned()), "its turn is over");
}

#[test]
fn wait_names_mail_that_only_a_person_can_bring_and_does_not_wait_for_them() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup").silent();
    client.hook("UserPromptSubmit").ok();
    client.hook("Stop").ok();
    home.run(&format!("send {} hello", client.agent())).ok();
    let said = home.run(&format!("wait {} --timeout 30s", client.agent())).ok();
    assert!(said.contains("idle (1 message waits for the next prompt in its terminal)"), "{said}");
}

/// Nobody but its person prompts a plain client, or an agent that was spawned again without a prompt.
#[test]
fn wait_does_not_wait_for_a_first_prompt_that_only_a_person_can_give() {
    let home = Home::new(BATON);
    let mut client = Client::new(&home);
    client.starts("startup").silent();
    client.says("Port the tests.");
    client.hook("UserPromptSubmit").ok();
    client.answers(20_000);
    client.hook("Stop").ok();
    let agent = client.agent();
    home.run(&format!("rotate {agent}")).ok();
    client.clears();
    let claim = client.kept()["claim"].as_str().unwrap().to_owned();
    let said = home.run(&format!("wait {agent} --timeout 30s")).ok();
    let waits = format!("handoff {claim} is loaded and waits for the first prompt in its terminal");
    assert!(said.contains(&format!("idle ({waits})")), "{said}");
    home.run(&format!("send {agent} hello")).ok();
    let said = home.run(&format!("wait {agent} --timeout 30s")).ok();
    assert!(said.contains(&waits) && said.contains("; 1 message waits"), "{said}");
}

#[test]
fn sequential_mail_waits_for_idle_and_important_mail_comes_at_the_next_tool_call() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup").silent();
    client.hook("UserPromptSubmit").ok();
    let send = |how: &str, text: &str| {
        let args = format!("send {} {how} --json {text}", client.agent());
        home.run(&args).json()["id"].as_str().unwrap().to_owned()
    };
    let (later, now, last) = (send("", "later"), send("--important", "now"), send("", "last"));
    assert!(later.split('-').nth(1).unwrap().starts_with('s'), "{later}");
    let heard = client.hook("PostToolUse").context().unwrap();
    assert!(heard.contains(&now) && !heard.contains(&later), "{heard}");
    client.hook("PostToolUse").silent();
    // Nobody can wake a plain client, so queued mail arrives at the end of its turn, and the turn continues.
    let stop = client.hook("Stop");
    let heard = stop.context().unwrap();
    assert!(heard.find(&later) < heard.find(&last) && heard.contains(&last), "{heard}");
    assert_eq!(stop.block(), None);
    assert_eq!(client.kept()["turn"], "working");
    client.hook_with("Stop", json!({ "stop_hook_active": true })).silent();
    assert_eq!(client.kept()["turn"], "idle");
}

/// The file names of earlier versions do not tell the urgency, so those messages are opened.
#[test]
fn a_message_that_an_earlier_version_queued_keeps_its_urgency() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup").silent();
    client.hook("UserPromptSubmit").ok();
    home.run(&format!("send {} --important now", client.agent())).ok();
    let new = home.state().join("mail").join(client.agent()).join("new");
    let path = std::fs::read_dir(&new).unwrap().next().unwrap().unwrap().path();
    let old = "m01794790000000000000-77-0001";
    let text = std::fs::read_to_string(&path).unwrap();
    let id = path.file_name().unwrap().to_str().unwrap();
    std::fs::write(new.join(old), text.replace(id, old)).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(client.hook("PostToolUse").context().unwrap().contains(old));
}

#[test]
fn a_context_warning_is_dropped_with_its_context() {
    let home = Home::new(BATON);
    let mut client = Client::new(&home);
    client.starts("startup").silent();
    client.hook("UserPromptSubmit").ok();
    let agent = client.agent();
    let served = baton_testkit::daemon::Served::new(&home);
    let report = |client: &Client<'_>, percentage: u32| {
        let body = json!({ "session_id": client.session, "used_percentage": percentage,
            "context_window_size": 200_000 });
        served.post("/hooks/context-usage", &body);
    };
    report(&client, 52);
    let queued = || home.run(&format!("inbox {agent} --json")).json();
    assert_eq!((&queued()[0]["state"], &queued()[0]["urgency"]), (&json!("queued"), &json!("important")));
    let heard = client.clears();
    assert!(!heard.out.contains("Context is 52%"), "{heard:?}");
    client.hook("UserPromptSubmit").silent();
    let inbox = queued();
    assert_eq!(inbox[0]["state"], "expired", "{inbox}");
    assert!(inbox[0]["evidence"].as_str().unwrap().contains("the context it spoke of is gone"), "{inbox}");
    // The new context gets its own warning.
    report(&client, 53);
    assert!(client.hook("PostToolUse").context().unwrap().contains("Context is 53%"));
}

/// Blocking at Stop would show "Stop hook error" on the user's screen.
#[test]
fn the_agent_is_asked_at_the_end_of_a_turn_without_an_error_on_the_screen() {
    let Some(world) = World::new(
        "asked ignore\ncontext\nturn\n  tokens 67%\n  bash true\n  say All done.\ncontext\nturn\n  recall\n",
    ) else {
        return;
    };
    world.spawn("alpha", &["--prompt", "begin"]).ok();
    let asked = wait_for_or(
        "the second request",
        || world.told("alpha"),
        || world.texts("alpha", "context").into_iter().find(|c| c.contains("Asked again before")),
    );
    assert!(!asked.contains("once more"), "{asked}");
    let first =
        world.texts("alpha", "context").into_iter().find(|c| c.contains("Nothing needs to be cut short"));
    assert!(first.unwrap().contains("you are asked once more before the turn ends"));
    assert!(!world.screen("alpha").contains("Stop hook error"), "{}", world.told("alpha"));
    wait_for_or(
        "the fresh context",
        || world.told("alpha"),
        || (world.agent("alpha")["sessions"].as_array()?.len() == 2).then_some(()),
    );
}

#[test]
fn waiting_for_an_agent_at_its_limit_says_until_when_and_what_waits_for_it() {
    let reset = jiff::Timestamp::now().as_second() + 75_000;
    let script = format!("context\nturn\n  tokens 5%\n  fail rate_limit Usage limit reached|{reset}\n");
    let Some(world) = World::new(&script) else { return };
    world.spawn("alpha", &["--prompt", "begin"]).ok();
    world.wait_for_turn("alpha", "limit");
    let said = world.baton(&["wait", "alpha"]).ok();
    assert!(said.starts_with("alpha: limit until ") && !said.contains("message"), "{said}");
    world.send("alpha", &["hello"]);
    let said = world.baton(&["wait", "alpha"]).ok();
    assert!(said.trim_end().ends_with("; 1 message waits"), "{said}");
    let rotated = world.baton(&["rotate", "alpha"]).ok();
    assert!(rotated.contains("gets a fresh context when its usage limit has ended"), "{rotated}");
    let retired = world.baton(&["retire", "alpha"]).ok();
    assert!(retired.contains("1 message to it was never read; `baton inbox alpha` shows it."), "{retired}");
}

/// An agent in a pane at its limit was brought back by nobody.
#[test]
fn an_agent_in_a_pane_continues_when_its_usage_limit_has_ended() {
    let reset = jiff::Timestamp::now().as_second() + 4;
    let script = format!(
        "context\nturn\n  tokens 5%\n  fail rate_limit Usage limit reached|{reset}\nturn\n  say Back at work.\n"
    );
    let Some(world) = World::new(&script) else { return };
    world.spawn("alpha", &["--prompt", "begin"]).ok();
    world.wait_for_turn("alpha", "limit");
    let id = world.send("alpha", &["hello"]);
    wait_for_or(
        "its work",
        || world.told("alpha"),
        || world.texts("alpha", "said").contains(&"Back at work.".to_owned()).then_some(()),
    );
    assert!(jiff::Timestamp::now().as_second() >= reset);
    assert_eq!(world.prompts("alpha")[1], "The usage limit has ended. Continue.");
    wait_for("the mail", || (world.state_of("alpha", &id) == "delivered").then_some(()));
}

/// After Esc the client refuses the mod's orders, but its pane accepts typed text.
#[test]
fn after_esc_mail_and_rotation_are_typed_where_there_is_a_pane() {
    let Some(world) = World::new(&hands_over("  wait never\n")) else { return };
    world.spawn("alpha", &["--prompt", "begin"]).ok();
    is_pending(&world, "alpha");
    let braked = braked_companion(&world, "alpha");
    let id = world.send("alpha", &["hello"]);
    world.keys("alpha", &["Escape"]);
    goes_on(&world, "alpha");
    wait_for_or(
        "the mail",
        || world.told("alpha"),
        || (world.state_of("alpha", &id) == "delivered").then_some(()),
    );
    assert!(!world.baton(&["agents"]).ok().contains("next prompt"));
    drop(braked);
}

/// Esc took a prompt back before its turn began: the hook has recorded a turn, nothing is in the transcript, and no event
/// tells of an end. Mail and rotations waited for that end for ever.
#[test]
fn a_prompt_that_esc_took_back_before_its_turn_began_holds_neither_mail_nor_a_rotation() {
    let Some(world) = World::new(
        "context\nturn\n  tokens 20%\n  say Ready.\nturn\n  say Heard.\ncontext\nturn\n  recall\n",
    ) else {
        return;
    };
    world.spawn("alpha", &["--prompt", "begin"]).ok();
    wait_for("its answer", || world.texts("alpha", "said").contains(&"Ready.".to_owned()).then_some(()));
    let take_back = || {
        world.wait_for_turn("alpha", "idle");
        let session = world.session("alpha");
        let payload = json!({ "session_id": session["id"], "transcript_path": session["transcript"],
            "cwd": session["cwd"], "hook_event_name": "UserPromptSubmit", "prompt": "half a thought" });
        let payload = world.home.write("prompt.json", payload.to_string());
        let mut hook = world.command(&["hook", "UserPromptSubmit"]);
        run(hook.stdin(std::fs::File::open(payload).unwrap())).ok();
        assert_eq!(world.session("alpha")["turn"], "working");
    };
    take_back();
    let id = world.send("alpha", &["hello"]);
    wait_for_or(
        "the mail",
        || world.told("alpha"),
        || (world.state_of("alpha", &id) == "delivered").then_some(()),
    );
    wait_for("its answer", || world.texts("alpha", "said").contains(&"Heard.".to_owned()).then_some(()));
    take_back();
    world.baton(&["rotate", "alpha"]).ok();
    wait_for_or(
        "the fresh context",
        || world.told("alpha"),
        || (world.agent("alpha")["rotation"].is_null() && world.prompts("alpha").len() == 3).then_some(()),
    );
}

/// A plain client with a turn by its record, of which its transcript has shown nothing for `seconds`.
pub(crate) fn took_back(client: &Client<'_>, seconds: i64) {
    assert_eq!(client.kept()["turn"], "working");
    let ago = jiff::Timestamp::now() - jiff::SignedDuration::from_secs(seconds);
    let mut kept = client.kept();
    kept["turn_since"] = json!(ago);
    let path = client.record_path();
    let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
    std::io::Write::write_all(&mut file, format!("{kept}\n").as_bytes()).unwrap();
    if let Ok(transcript) = std::fs::OpenOptions::new().append(true).open(client.transcript()) {
        let before = std::time::SystemTime::from(ago) - std::time::Duration::from_secs(5);
        transcript.set_modified(before).unwrap();
    }
}

/// No hook, no mod and no screen tells of this end, so whoever looks first records it. Before, the agent was at work until
/// its person's next prompt: `wait` waited, and its parent heard nothing.
#[test]
fn a_plain_client_whose_prompt_esc_took_back_is_idle_for_the_first_who_looks_and_its_handoff_is_sealed() {
    let lookers: [&[&str]; 4] = [
        &["agents"],
        &["status", "AGENT"],
        &["wait", "AGENT", "--timeout", "20s"],
        &["send", "AGENT", "hello"],
    ];
    for looker in lookers {
        let home = Home::new(BATON);
        let client = Client::new(&home);
        client.starts("startup").silent();
        client.says("Port the tests.");
        client.answers(50_000);
        client.hook("UserPromptSubmit").ok();
        hand_over(&home, &client, "# H\nThe words of the agent.");
        took_back(&client, 20);
        home.run("agents").ok();
        assert_eq!(client.kept()["turn"], "working", "other hooks may take a while");
        took_back(&client, 40);
        let agent = client.agent();
        let looker: Vec<&str> =
            looker.iter().map(|arg| if *arg == "AGENT" { &agent } else { *arg }).collect();
        let said = run(&mut home.baton(&looker)).ok();
        assert!(!said.contains("working") && !said.contains("end of its turn"), "{looker:?}: {said}");
        assert_eq!(client.kept()["turn"], "idle", "{looker:?}: {said}");
        assert!(client.kept()["request"].is_null(), "{looker:?}: {said}");
        assert!(newest_handoff(&home).contains("The words of the agent."), "{looker:?}");
    }
}

#[test]
fn the_daemon_looks_by_itself_at_a_turn_that_never_began_and_notifies_who_asked_for_it() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup").silent();
    client.says("Port the tests.");
    client.answers(50_000);
    client.hook("UserPromptSubmit").ok();
    // A second later it is due.
    took_back(&client, 29);
    let _served = baton_testkit::daemon::Served::new(&home);
    wait_for("the end of that turn", || (client.kept()["turn"] == "idle").then_some(()));
}

/// A turn that thinks for long writes nothing either, but its prompt is in the transcript. A client stamps that before our
/// hook runs.
#[test]
fn a_turn_that_shows_its_prompt_and_nothing_else_is_at_work() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup").silent();
    client.answers(50_000);
    client.says("Think hard.");
    client.hook("UserPromptSubmit").ok();
    took_back(&client, 40);
    let now = std::time::SystemTime::now();
    std::fs::OpenOptions::new().append(true).open(client.transcript()).unwrap().set_modified(now).unwrap();
    assert!(home.run("agents").ok().contains("working"));
    run(&mut home.baton(["wait", &client.agent(), "--timeout", "1s"])).fails(1);
    assert_eq!(client.kept()["turn"], "working");
}

#[test]
fn a_plain_client_that_esc_interrupted_is_idle_at_once_and_the_next_prompt_is_work_again() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup").silent();
    client.hook("UserPromptSubmit").ok();
    client.says("Port the tests.");
    client.says("[Request interrupted by user]");
    assert_eq!(
        home.run(&format!("wait {} --timeout 20s", client.agent())).ok(),
        format!("{}: idle\n", client.agent())
    );
    client.hook("UserPromptSubmit").ok();
    assert!(home.run("agents").ok().contains("working"), "the transcript still ends with the interruption");
}

/// The next prompt is a turn of its own, also while the transcript still ends with the interruption of the last one.
#[test]
fn a_prompt_after_esc_is_work_for_who_looks_before_the_client_has_written_it() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup").silent();
    client.hook("UserPromptSubmit").ok();
    client.says("Port the tests.");
    client.says("[Request interrupted by user]");
    client.hook_with("UserPromptSubmit", json!({ "prompt": "Port the docs." })).ok();
    assert!(home.run("agents").ok().contains("working"));
    assert_eq!(client.kept()["turn"], "working");
}

/// The client drops what hooks gave with such a prompt: seen with the real one, see `clients::tmux`.
#[test]
fn a_message_that_came_with_a_prompt_that_esc_took_back_comes_with_the_next_one_and_once() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup").silent();
    client.says("Port the tests.");
    client.answers(50_000);
    let agent = client.agent();
    let sent = home.run(&format!("send {agent} --json hello")).json();
    let id = sent["id"].as_str().unwrap();
    let first = client.taken_back("UserPromptSubmit", json!({})).context().unwrap();
    assert!(first.contains(id));
    let at_once = client.taken_back("UserPromptSubmit", json!({}));
    assert!(
        at_once.context().is_none_or(|context| !context.contains(id)),
        "the client may not have written it yet"
    );
    took_back(&client, 4);
    let second = client.hook("UserPromptSubmit").context().unwrap_or_default();
    assert!(second.contains(id), "{second}");
    // This turn begins.
    client.says("Port the tests.");
    client.hook("UserPromptSubmit").silent();
    client.hook("Stop").ok();
    let inbox = home.run(&format!("inbox {agent} --json")).json();
    assert_eq!((inbox.as_array().unwrap().len(), &inbox[0]["state"]), (1, &json!("delivered")), "{inbox}");
}

/// It may keep no transcript that could show the message, and nobody presses Esc there.
#[test]
fn a_message_that_a_headless_client_was_given_with_its_prompt_comes_once() {
    let home = Home::new(BATON);
    let client = Client::new(&home).headless();
    client.starts("startup").silent();
    let agent = client.agent();
    home.run(&format!("send {agent} --important hello")).ok();
    let first = client.taken_back("UserPromptSubmit", json!({})).context().unwrap();
    assert!(first.contains("hello"), "{first}");
    took_back(&client, 4);
    client.hook("PostToolUse").silent();
    client.hook("Stop").ok();
    let inbox = home.run(&format!("inbox {agent} --json")).json();
    assert_eq!(inbox[0]["state"], "delivered", "{inbox}");
}

/// It was "idle", with the error below the table.
#[test]
fn an_agent_whose_turn_ended_in_an_error_is_in_error_for_agents_wait_and_the_api() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup").silent();
    client.hook("UserPromptSubmit").ok();
    client
        .hook_with("StopFailure", json!({ "error": "unknown", "last_assistant_message": "API Error: 500" }))
        .ok();
    let agent = client.agent();
    let listed = home.run("agents").ok();
    let row = listed.lines().find(|line| line.starts_with(&agent)).unwrap();
    assert_eq!(row.split_whitespace().nth(1), Some("error"), "{listed}");
    assert_eq!(home.run(&format!("wait {agent}")).ok(), format!("{agent}: error (API Error: 500)\n"));
    let served = baton_testkit::daemon::Served::new(&home);
    assert_eq!(served.get(&format!("/sessions/{agent}"))["state"], "error");
    client.hook("UserPromptSubmit").ok();
    assert!(home.run("agents").ok().contains("working"));
}

/// The record and the lock of a companion whose user has pressed Esc.
fn braked_companion(world: &World, name: &str) -> std::fs::File {
    let client = world.agent(name)["process"].clone();
    let (pid, folder) = (client["pid"].as_u64().unwrap(), world.home.state().join("companions"));
    std::fs::create_dir_all(&folder).unwrap();
    let lock = std::fs::File::create(folder.join(format!("{pid}.lock"))).unwrap();
    lock.lock().unwrap();
    let record = json!({ "process": client, "client": client, "since": jiff::Timestamp::now(),
        "interactive": true, "braked": true });
    std::fs::write(folder.join(format!("{pid}.json")), record.to_string()).unwrap();
    lock
}

/// A turn may be shorter than a moment in which the disk is full.
#[test]
fn a_handoff_whose_consumption_could_not_be_written_is_consumed_later_and_never_given_back() {
    for later in ["Notification", "SessionEnd"] {
        let home = Home::new(BATON);
        let mut client = Client::new(&home);
        client.starts("startup").ok();
        client.says("Port the tests.");
        client.hook("UserPromptSubmit").ok();
        client.answers(20_000);
        client.hook("Stop").ok();
        home.run(&format!("rotate {}", client.agent())).ok();
        client.clears();
        assert!(client.kept()["claim"].is_string(), "{}", client.kept());
        let (folder, aside) = (home.store(), home.path().join("aside"));
        std::fs::rename(&folder, &aside).unwrap();
        std::fs::write(&folder, "full").unwrap();
        client.hook("UserPromptSubmit").ok();
        client.hook("Stop").ok();
        std::fs::remove_file(&folder).unwrap();
        std::fs::rename(&aside, &folder).unwrap();
        assert!(client.kept()["claim"].is_string(), "{}", client.kept());
        client.hook(later).ok();
        assert!(client.kept()["claim"].is_null(), "{later}: {}", client.kept());
        let handoffs = home.run("handoffs --json").json();
        assert_eq!(handoffs[0]["status"], "consumed", "{later}: {handoffs}");
    }
}

/// Runs `what` while nothing can be sealed or loaded, as on a full disk.
pub(crate) fn while_the_disk_is_full(home: &Home, what: impl FnOnce()) {
    let (folder, aside) = (home.store(), home.path().join("aside"));
    std::fs::rename(&folder, &aside).unwrap();
    std::fs::write(&folder, "full").unwrap();
    what();
    std::fs::remove_file(&folder).unwrap();
    std::fs::rename(&aside, &folder).unwrap();
}

/// Regression: the fresh context had no handoff, its rotation stayed open for ever, and nobody prompted it.
#[test]
fn a_handoff_that_a_start_could_not_load_comes_with_the_first_prompt_that_can() {
    let home = Home::new(BATON);
    let mut client = Client::new(&home);
    client.starts("startup").ok();
    client.says("Port the tests.");
    client.hook("UserPromptSubmit").ok();
    client.answers(20_000);
    client.hook("Stop").ok();
    home.run(&format!("rotate {}", client.agent())).ok();
    let rotation =
        |client: &Client<'_>| record(&home.state().join(format!("agents/{}.json", client.agent())));
    while_the_disk_is_full(&home, || {
        client.clears();
        assert_eq!(client.kept()["unloaded"], true, "{}", client.kept());
        assert!(rotation(&client)["rotation"].is_object(), "it still waits for its handoff");
        let prompted = client.hook("UserPromptSubmit").ok();
        assert!(!prompted.out.contains("=== HANDOFF LOADED"), "{}", prompted.out);
        client.hook("Stop").ok();
    });
    let prompted = client.hook("UserPromptSubmit").ok();
    assert!(prompted.out.contains("=== HANDOFF LOADED"), "{}", prompted.out);
    assert!(prompted.out.contains("Port the tests."), "{}", prompted.out);
    assert!(rotation(&client)["rotation"].is_null());
    client.hook("Stop").ok();
    assert!(client.kept()["claim"].is_null(), "a turn that shows it is a sign of life: {}", client.kept());
    let handoffs = home.run("handoffs --json").json();
    assert_eq!(handoffs[0]["status"], "consumed", "{handoffs}");
    let again = client.hook("UserPromptSubmit").ok();
    assert!(!again.out.contains("=== HANDOFF LOADED"), "once: {}", again.out);
}

/// A fresh context without its handoff, which was sealed and could not be loaded.
fn cleared_while_the_disk_was_full(home: &Home) -> Client<'_> {
    let mut client = Client::new(home);
    client.starts("startup").ok();
    client.says("Port the tests.");
    client.hook("UserPromptSubmit").ok();
    client.answers(20_000);
    client.hook("Stop").ok();
    home.run(&format!("rotate {}", client.agent())).ok();
    while_the_disk_is_full(home, || {
        client.clears();
    });
    client
}

fn state_of_newest(home: &Home) -> String {
    home.run("handoffs --json").json()[0]["status"].as_str().unwrap().to_owned()
}

/// The client drops what the hook gave with such a prompt, and with it the only copy that the context was given.
#[test]
fn a_handoff_that_came_with_a_prompt_that_esc_took_back_comes_with_the_next_one_and_once() {
    let home = Home::new(BATON);
    let client = cleared_while_the_disk_was_full(&home);
    let first = client.taken_back("UserPromptSubmit", json!({})).context().unwrap();
    assert!(first.contains("=== HANDOFF LOADED"), "{first}");
    assert_eq!(state_of_newest(&home), "active", "nobody has read it yet");
    took_back(&client, 4);
    let second = client.hook("UserPromptSubmit").context().unwrap();
    assert!(second.contains("=== HANDOFF LOADED") && second.contains("Port the tests."), "{second}");
    client.hook("PostToolUse").silent();
    took_back(&client, 4);
    client.hook("PostToolUse").silent();
    assert_eq!(state_of_newest(&home), "consumed");
    assert!(client.kept()["claim"].is_null(), "{}", client.kept());
    client.hook("Stop").ok();
    let again = client.hook("UserPromptSubmit").ok();
    assert!(!again.out.contains("=== HANDOFF LOADED"), "{}", again.out);
}

/// The second prompt came too early to tell, and its turn runs without the handoff.
#[test]
fn a_handoff_that_a_turn_runs_without_comes_with_the_prompt_after_it() {
    let home = Home::new(BATON);
    let client = cleared_while_the_disk_was_full(&home);
    client.taken_back("UserPromptSubmit", json!({})).ok();
    assert!(!client.hook("UserPromptSubmit").ok().out.contains("=== HANDOFF LOADED"));
    client.says("Port the docs.");
    client.answers(20_000);
    took_back(&client, 4);
    client.hook("Stop").ok();
    assert_eq!(state_of_newest(&home), "active", "{}", client.kept());
    let next = client.hook("UserPromptSubmit").context().unwrap();
    assert!(next.contains("=== HANDOFF LOADED"), "{next}");
    took_back(&client, 4);
    client.hook("Stop").ok();
    assert_eq!(state_of_newest(&home), "consumed", "{}", client.kept());
}

#[test]
fn a_session_that_ends_after_such_a_prompt_gives_the_handoff_back() {
    let home = Home::new(BATON);
    let mut client = cleared_while_the_disk_was_full(&home);
    client.taken_back("UserPromptSubmit", json!({})).ok();
    took_back(&client, 4);
    let fresh = client.clears().context().unwrap_or_default();
    assert!(fresh.contains("=== HANDOFF LOADED") && fresh.contains("Port the tests."), "{fresh}");
    client.hook("UserPromptSubmit").ok();
    assert_eq!(state_of_newest(&home), "consumed");
}

/// The same in a pane: nobody but the attendant prompts the fresh context.
#[test]
fn a_fresh_context_that_was_cleared_while_the_disk_was_full_is_told_to_continue_and_has_its_handoff() {
    let Some(mut world) = World::unattended(&hands_over("  say Done.\n")) else { return };
    world.spawn("alpha", &["--prompt", "begin"]).ok();
    let first = wait_for("the request for a fresh context", || {
        let request = &world.agent("alpha")["rotation"];
        request["session"].as_str().map(str::to_owned)
    });
    let (folder, aside) = (world.home.store(), world.home.path().join("aside"));
    std::fs::rename(&folder, &aside).unwrap();
    std::fs::write(&folder, "full").unwrap();
    world.start_attendant();
    wait_for_or(
        "a context without its handoff",
        || world.told("alpha"),
        || {
            (world.agent("alpha")["session"] != first.as_str() && world.session("alpha")["unloaded"] == true)
                .then_some(())
        },
    );
    std::fs::remove_file(&folder).unwrap();
    std::fs::rename(&aside, &folder).unwrap();
    goes_on(&world, "alpha");
    let rotations = || baton_testkit::home::records(&world.home.state().join("rotations"));
    wait_for_or(
        "one rotation on record, and done",
        || format!("{:#?}", rotations()),
        || matches!(&rotations()[..], [rotation] if rotation["step"] == "done").then_some(()),
    );
}
