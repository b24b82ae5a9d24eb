//! Agents in real tmux panes: what is typed to them and what is not. Each way in which keys went wrong elsewhere is a
//! test here.

use std::time::Duration;

use baton_testkit::home::run;
use baton_testkit::rng::Rng;
use baton_testkit::wait::wait_for;

use crate::world::{QUIET, World, wait_for_or};

#[test]
fn mail_for_an_idle_agent_is_typed_and_counts_as_delivered_when_its_prompt_was_seen() {
    let Some(world) = World::new(QUIET) else { return };
    world.ready("alpha");
    let mut command = world.command(&["send", "alpha", "--json", "how is it going?"]);
    let sent = run(command.env("CLAUDE_SESSION_MANAGER_ID", "boss")).json();
    let id = sent["id"].as_str().unwrap().to_owned();
    let prompt = world.wait_for_prompt("alpha", &id);
    assert_eq!(prompt, world.home.framed(&id, "boss", "how is it going?"));
    wait_for("the receipt", || (world.state_of("alpha", &id) == "delivered").then_some(()));
    let inbox = world.baton(&["inbox", "alpha", "--json"]).json();
    assert!(inbox[0]["evidence"].as_str().unwrap().starts_with("prompt of session "), "{inbox}");
    let outbox = world.baton(&["outbox", "boss", "--json"]).json();
    assert_eq!(
        (&outbox[0]["id"], &outbox[0]["state"]),
        (&id.as_str().into(), &"delivered".into()),
        "{outbox}"
    );
    world.wait_for_turn("alpha", "idle");
    assert_eq!(world.prompts("alpha").len(), 1, "it was typed once");
}

/// FIELD: text equal to a key name became the key; text and Enter became a paste; first characters lost.
#[test]
fn text_that_looks_like_keys_commands_or_several_lines_arrives_unchanged() {
    let Some(world) = World::new(QUIET) else { return };
    world.ready("alpha");
    let texts = [
        "Enter",
        "C-c",
        "two\nlines; and more;",
        "#{pane_id} $(date) `id` ~ \\ \"quoted\" 'too'",
        "-t %0 ünï ❯",
    ];
    for (n, text) in texts.into_iter().enumerate() {
        let id = world.send("alpha", &["--", text]);
        let prompt = world.wait_for_prompt("alpha", &id);
        assert_eq!(prompt, world.home.framed(&id, "user", text));
        wait_for("its answer", || (world.texts("alpha", "said").len() > n).then_some(()));
        world.wait_for_turn("alpha", "idle");
    }
    let long = format!("begin {} end", "x".repeat(5_000));
    let id = world.send("alpha", &["--", &long]);
    assert_eq!(world.wait_for_prompt("alpha", &id), world.home.framed(&id, "user", &long));
}

/// FIELD: a message queued while the agent worked was shown minutes later.
#[test]
fn a_busy_agent_reads_its_mail_at_the_next_tool_call_and_nothing_is_typed() {
    let Some(world) =
        World::new("turn\n  tokens 5%\n  wait go\n  bash true\n  wait end\n  say Done so far.\n")
    else {
        return;
    };
    world.spawn("alpha", &["--prompt", "begin"]).ok();
    world.wait_for_turn("alpha", "working");
    let id = world.send("alpha", &["--important", "look at this"]);
    let important = world.send("alpha", &["--important", "and this"]);
    world.home.write("work/app/go", "");
    wait_for("the hook", || {
        world.texts("alpha", "context").iter().any(|c| c.contains(&important)).then_some(())
    });
    assert!(world.texts("alpha", "context").iter().any(|c| c.contains(&id)));
    wait_for("the receipt", || (world.state_of("alpha", &id) == "delivered").then_some(()));
    world.home.write("work/app/end", "");
    world.wait_for_turn("alpha", "idle");
    assert_eq!(world.prompts("alpha"), ["begin"]);
    let inbox = world.baton(&["inbox", "alpha", "--json"]).json();
    assert!(inbox[0]["evidence"].as_str().unwrap().starts_with("hook of session "), "{inbox}");
}

/// FIELD: a user's half-typed draft was submitted together with the injected text.
#[test]
fn mail_never_touches_a_draft_and_comes_with_the_persons_own_prompt() {
    let Some(world) = World::new(QUIET) else { return };
    world.ready("alpha");
    world.person_types("alpha", "half a thought");
    let id = world.send("alpha", &["are you there?"]);
    wait_for_or(
        "the reason",
        || world.told("alpha"),
        || (world.agent("alpha")["waits"] == "a draft is in the composer").then_some(()),
    );
    assert!(world.baton(&["agents"]).ok().contains("a draft is in the composer"));
    assert_eq!(world.prompts("alpha").len(), 0);
    assert!(world.screen("alpha").contains("half a thought"));
    assert_eq!(world.state_of("alpha", &id), "queued");
    world.keys("alpha", &["Enter"]);
    world.wait_for_prompt("alpha", "half a thought");
    // It comes once, with that prompt or as a prompt right after it, never as one text with it.
    let reached = || [world.prompts("alpha"), world.texts("alpha", "context")].concat().join("\n");
    wait_for("the message", || reached().contains(&id).then_some(()));
    assert_eq!(world.prompts("alpha")[0], "half a thought");
    assert_eq!(reached().matches(&id).count(), 1);
}

#[test]
fn a_draft_that_goes_away_makes_room_for_mail() {
    let Some(world) = World::new(QUIET) else { return };
    world.ready("alpha");
    world.person_types("alpha", "x");
    let id = world.send("alpha", &["are you there?"]);
    wait_for("the reason", || world.agent("alpha")["waits"].is_string().then_some(()));
    world.keys("alpha", &["BSpace"]);
    world.wait_for_prompt("alpha", &id);
    wait_for("no reason", || world.agent("alpha")["waits"].is_null().then_some(()));
}

/// FIELD: keys vanished into tmux copy mode.
#[test]
fn copy_mode_is_left_before_anything_is_typed() {
    let Some(world) = World::new(QUIET) else { return };
    world.ready("alpha");
    let pane = world.pane("alpha");
    world.tmux(&["copy-mode", "-t", &pane]);
    assert_eq!(world.tmux(&["display-message", "-p", "-t", &pane, "#{pane_in_mode}"]), "1");
    let id = world.send("alpha", &["are you there?"]);
    world.wait_for_prompt("alpha", &id);
}

/// FIELD: the composer looks idle while a turn runs; dialogs must not be answered by mail.
#[test]
fn an_open_dialog_is_not_answered_and_the_mail_comes_after_it() {
    let Some(world) = World::new("turn\n  tokens 5%\n  ask rm -rf build\n  bash true\n  say Done.\n") else {
        return;
    };
    world.spawn("alpha", &["--prompt", "begin"]).ok();
    world.wait_for_turn("alpha", "blocked");
    world.wait_for_screen("alpha", "Do you want to proceed?");
    assert_eq!(world.baton(&["agents", "--json"]).json()[0]["state"], "blocked");
    let id = world.send("alpha", &["--urgent", "yes\ny"]);
    // Something else reaches the attendant after it, so it has had its chance.
    world.ready("beta");
    let other = world.send("beta", &["hello"]);
    world.wait_for_prompt("beta", &other);
    assert_eq!(world.state_of("alpha", &id), "queued");
    assert!(world.screen("alpha").contains("Do you want to proceed?"), "{}", world.told("alpha"));
    world.keys("alpha", &["y"]);
    wait_for("the hook", || world.texts("alpha", "context").iter().any(|c| c.contains(&id)).then_some(()));
    assert_eq!(world.prompts("alpha"), ["begin"]);
}

/// FIELD: typed text lost its Enter. The Enter is tried once more, the text never.
#[test]
fn a_lost_enter_is_tried_again_and_the_text_is_not() {
    let Some(world) = World::new("drops 1\nturn\n  say Hello.\n") else { return };
    world.ready("alpha");
    let id = world.send("alpha", &["are you there?"]);
    let prompt = world.wait_for_prompt("alpha", &id);
    assert_eq!(prompt.matches(&id).count(), 1, "{prompt}");
    world.wait_for_turn("alpha", "idle");
    assert_eq!(world.prompts("alpha").len(), 1);
}

#[test]
fn an_urgent_message_interrupts_the_turn_with_one_escape_and_is_the_next_prompt() {
    let Some(world) = World::new("turn\n  tokens 5%\n  wait never\n  say Done.\nturn\n  say I heard.\n")
    else {
        return;
    };
    world.spawn("alpha", &["--prompt", "begin"]).ok();
    world.wait_for_turn("alpha", "working");
    let id = world.send("alpha", &["--urgent", "stop that"]);
    world.wait_for_prompt("alpha", &id);
    wait_for("the answer", || world.texts("alpha", "said").contains(&"I heard.".to_owned()).then_some(()));
    assert!(!world.texts("alpha", "said").contains(&"Done.".to_owned()), "the turn was cut");
    assert!(world.seen("alpha").iter().all(|s| s["kind"] != "escape-at-idle"));
}

/// FIELD: two Escapes at an idle pane open a menu. We never send one to an idle pane.
#[test]
fn an_idle_pane_never_gets_an_escape() {
    let Some(world) = World::new(QUIET) else { return };
    world.ready("alpha");
    let id = world.send("alpha", &["--urgent", "now"]);
    world.wait_for_prompt("alpha", &id);
    world.wait_for_turn("alpha", "idle");
    assert!(world.seen("alpha").iter().all(|s| s["kind"] != "escape-at-idle"), "{:?}", world.seen("alpha"));
}

/// FIELD: a stale signal hit the wrong session. A pane is identified by its id, its server and its process.
#[test]
fn nothing_is_typed_to_another_program_in_the_same_pane() {
    let Some(world) = World::new(QUIET) else { return };
    world.ready("alpha");
    let pane = world.pane("alpha");
    world.tmux(&["set-option", "-t", &pane, "remain-on-exit", "on"]);
    world.tmux(&["respawn-pane", "-k", "-t", &pane, "cat"]);
    wait_for("its end", || world.agent("alpha")["ended"].is_string().then_some(()));
    let id = world.send("alpha", &["are you there?"]);
    world.ready("beta");
    let other = world.send("beta", &["hello"]);
    world.wait_for_prompt("beta", &other);
    assert_eq!(world.state_of("alpha", &id), "queued");
    assert_eq!(world.tmux(&["capture-pane", "-p", "-t", &pane]), "");
    assert_eq!(world.baton(&["agents", "--json"]).json()[0]["state"], "ended");
}

/// FIELD: a message was shown after it had become pointless. It can expire, and then does not count as delivered.
#[test]
fn an_expired_message_says_so_and_an_oversized_one_is_refused() {
    let Some(world) = World::unattended(QUIET) else { return };
    world.ready("alpha");
    let id = world.send("alpha", &["--expires", "1ms", "only now"]);
    let kept = world.send("alpha", &["forever"]);
    let mut world = world;
    world.start_attendant();
    let prompt = world.wait_for_prompt("alpha", &kept);
    assert!(!prompt.contains(&id), "{prompt}");
    assert_eq!(world.state_of("alpha", &id), "expired");
    let large = "x".repeat((1 << 20) + 1);
    let refused = world.home.run_with_input("send alpha -", &large).fails(1);
    assert!(refused.contains("1048576") && refused.contains("send a path instead"), "{refused}");
}

/// Seed 004's stop notification, end to end: a message is typed to an idle agent, which works, and its sender is
/// notified.
#[test]
fn a_sender_that_asked_is_told_when_the_typed_message_was_worked_on() {
    let Some(world) = World::unattended("turn\n  tokens 5%\n  wait go\n  say Done with it.\n") else {
        return;
    };
    world.ready("alpha");
    world.ready("beta");
    let mut command = world.command(&["send", "alpha", "--notify", "--json", "have a look"]);
    // The command that asks for the notice starts the daemon that sends it and that attends to the panes.
    let sent = run(command.env_remove("BATON_PANES_ATTEND").env("CLAUDE_SESSION_MANAGER_ID", "beta")).json();
    let id = sent["id"].as_str().unwrap().to_owned();
    world.wait_for_prompt("alpha", &id);
    world.wait_for_turn("alpha", "working");
    assert!(
        !world.prompts("beta").iter().any(|p| p.contains("has ended its turn")),
        "{}",
        world.told("beta")
    );
    world.home.write("work/app/go", "");
    let notice = world.wait_for_prompt("beta", "alpha has ended its turn");
    assert!(notice.contains("from baton]"), "{notice}");
    world.baton(&["serve", "--stop"]).ok();
}

/// FIELD: a stale signal hit the wrong session. The tmux server also keeps a single key from reaching another program.
#[test]
fn no_key_reaches_a_pane_that_has_changed_since_it_was_looked_at() {
    let Some(mut world) = World::new("drops 1\nturn\n  say Hello.\n") else { return };
    world.ready("alpha");
    let pane = world.pane("alpha");
    world.tmux(&["set-option", "-t", &pane, "remain-on-exit", "on"]);
    world.send("alpha", &["are you there?"]);
    // Its Enter was lost; another program takes the pane before the next try.
    world.wait_for_screen("alpha", "[baton message");
    world.tmux(&["respawn-pane", "-k", "-t", &pane, "cat -v"]);
    wait_for("its end", || world.agent("alpha")["ended"].is_string().then_some(()));
    world.kill_attendant();
    assert_eq!(world.tmux(&["capture-pane", "-p", "-t", &pane]), "");
}

/// FIELD: the agent was left busy forever after a failure. Promise 7: an attendant killed at any instant loses no
/// message, shows none twice, and keeps their order.
#[test]
fn an_attendant_killed_at_any_instant_loses_and_repeats_nothing() {
    let Some(mut world) = World::new(QUIET) else { return };
    world.ready("alpha");
    let mut rng = Rng::announced("an_attendant_killed_at_any_instant_loses_and_repeats_nothing");
    let mut ids = Vec::new();
    for _ in 0..baton_testkit::times(12) {
        for _ in 0..rng.pick(1..4) {
            ids.push(world.send("alpha", &["one more"]));
        }
        std::thread::sleep(Duration::from_millis(rng.pick(0..120)));
        world.kill_attendant();
        world.start_attendant();
    }
    let last = ids.last().unwrap().clone();
    let everything = || [world.prompts("alpha"), world.texts("alpha", "context")].concat().join("\n");
    wait_for_or("the last message", || world.told("alpha"), || everything().contains(&last).then_some(()));
    // The agent gets a prompt before its hook has written the receipt.
    wait_for_or(
        "the receipts",
        || world.told("alpha"),
        || ids.iter().all(|id| world.state_of("alpha", id) == "delivered").then_some(()),
    );
    world.wait_for_turn("alpha", "idle");
    let order: Vec<usize> = ids.iter().map(|id| in_order(&world, "alpha", id)).collect();
    assert!(order.is_sorted(), "{order:?}");
    for id in &ids {
        assert_eq!(everything().matches(&format!("[baton message {id} ")).count(), 1, "{id}");
    }
}

/// The position of a message in everything that reached the agent.
fn in_order(world: &World, name: &str, id: &str) -> usize {
    let mark = format!("[baton message {id} ");
    let reached = world.seen(name).into_iter().filter(|s| s["kind"] == "prompt" || s["kind"] == "context");
    let all: String = reached.filter_map(|s| s["text"].as_str().map(|t| format!("{t}\n"))).collect();
    all.find(&mark).unwrap_or_else(|| panic!("{id} never arrived"))
}

/// The kernel drops events when a process does not read them for too long.
#[test]
fn mail_is_typed_even_if_the_kernel_dropped_its_event() {
    let Some(world) = World::new(QUIET) else { return };
    world.ready("alpha");
    let first = world.send("alpha", &["first"]);
    wait_for("the receipt", || (world.state_of("alpha", &first) == "delivered").then_some(()));
    world.wait_for_turn("alpha", "idle");
    // Without its socket the attendant has only the files to watch.
    std::fs::remove_file(world.home.state().join("run/panes.sock")).unwrap();
    let attendant = world.attendant.as_ref().unwrap().id();
    let second = baton_testkit::overflow::unseen(attendant, &world.home.state().join("agents"), || {
        world.send("alpha", &["second"])
    });
    world.wait_for_prompt("alpha", &second);
}
