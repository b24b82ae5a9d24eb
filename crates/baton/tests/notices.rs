//! Who is notified when an agent needs something: its parent by mail, the user by their own command.

use baton_testkit::Home;
use baton_testkit::daemon::Served;
use baton_testkit::hooks::Client;
use serde_json::{Value, json};

use crate::BATON;
use baton_testkit::wait::wait_until;

/// `app`, and `app-oak`, which it started.
fn family(home: &Home) -> (Client<'_>, Client<'_>) {
    let parent = Client::new(home);
    parent.starts("startup").silent();
    let child = Client::new(home).env("CLAUDE_SESSION_MANAGER_ID", "app");
    child.starts("startup").silent();
    (parent, child)
}

/// Runs `baton send` as `from`.
fn asks(home: &Home, from: &Client<'_>, to: &str, text: &str) {
    let mut command = home.baton(["send", to, text]);
    from.dress(&mut command);
    baton_testkit::home::run(&mut command).ok();
}

/// The texts of all mail that an agent has ever received.
fn mail(home: &Home, agent: &str) -> Vec<String> {
    let ran = home.run(&format!("inbox {agent} --json"));
    let list: Value = serde_json::from_str(&ran.out).unwrap_or(json!([]));
    list.as_array().unwrap().iter().map(|m| m["text"].as_str().unwrap().to_owned()).collect()
}

fn count(home: &Home, word: &str) -> usize {
    mail(home, "app").iter().filter(|text| text.contains(word)).count()
}

/// Writes the record of a rotation of `app-oak` that was given up.
fn give_up(home: &Home, child: &Client<'_>, id: &str) {
    let me = baton_testkit::load::myself();
    let rotation = json!({ "id": id, "agent": "app-oak", "handoff": "HO-20261116-040000-a1b2c3d4",
        "from": child.session, "by": "the agent", "actuator": "restart", "step": "failed",
        "at": jiff::Timestamp::now(), "supervisor": me, "note": "the agent could not be stopped" });
    let path = home.write(&format!(".local/state/baton/rotations/.{id}"), rotation.to_string());
    std::fs::rename(&path, path.with_file_name(format!("{id}.json"))).unwrap();
}

#[test]
fn a_parent_is_told_once_that_its_child_is_idle_blocked_or_dead() {
    let home = Home::new(BATON);
    let (parent, child) = family(&home);
    assert_eq!(child.agent(), "app-oak");
    let served = Served::new(&home);
    child.hook("UserPromptSubmit").ok();
    child.hook("PermissionRequest").ok();
    wait_until("the dialog is told", || count(&home, "app-oak: waits for the user in its terminal") == 1);
    child.hook("PostToolUse").ok();
    child.hook("Stop").ok();
    wait_until("the end of the turn is told", || count(&home, "app-oak has ended its turn") == 1);
    // After a restart the same occasion is not reported again; the next one is.
    served.kill();
    let _served = Served::new(&home);
    asks(&home, &parent, "app-oak", "and the lexer?");
    child.hook("UserPromptSubmit").ok();
    child.hook("Stop").ok();
    wait_until("the next end is told", || count(&home, "app-oak has ended its turn") == 2);
    drop(child);
    wait_until("its death is told", || count(&home, "app-oak died") == 1);
    assert_eq!(mail(&home, "app").len(), 4, "{:?}", mail(&home, "app"));
    assert_eq!(mail(&home, "app-oak"), ["and the lexer?"]);
}

/// Seed 004, test plan 6: the `/clear` of a rotation is not a stop, and the agent is not idle after its handoff.
#[test]
fn a_rotation_causes_no_stop_or_idle_notification() {
    let home = Home::new(BATON);
    let (_parent, mut child) = family(&home);
    let other = Client::new(&home).env("CLAUDE_SESSION_MANAGER_ID", "app");
    other.starts("startup").silent();
    let served = Served::new(&home);
    let words = home.write("handoff.md", "# Words\nNext: the parser.");
    child.hook("UserPromptSubmit").ok();
    let body = json!({ "requester_session_id": "app-oak", "file_path": words });
    served.post("/sessions/app-oak/handoff", &body);
    child.hook("Stop").ok();
    assert!(
        served.get("/sessions/app-oak")["rotation"].is_string(),
        "sealed, and a fresh context is asked for"
    );
    // Another child ends its turn after that and is reported; by then the first would have been reported too.
    other.hook("UserPromptSubmit").ok();
    other.hook("Stop").ok();
    wait_until("the other's end is told", || count(&home, "app-elm has ended its turn") == 1);
    assert_eq!(count(&home, "app-oak has ended its turn"), 0, "{:?}", mail(&home, "app"));
    child.clears();
    child.hook("UserPromptSubmit").ok();
    // The turn of the fresh context ends like any other.
    child.hook("Stop").ok();
    wait_until("the real end is told", || count(&home, "app-oak has ended its turn") >= 1);
    assert_eq!(count(&home, "app-oak has ended its turn"), 1, "{:?}", mail(&home, "app"));
    assert_eq!(count(&home, "failed"), 0);
}

/// Seed 004's stop notification: the sender is notified when the turn that read its message has ended.
#[test]
fn a_sender_that_asked_is_told_once_when_the_turn_has_ended() {
    let home = Home::new(BATON);
    let sender = Client::new(&home);
    sender.starts("startup").silent();
    let target = Client::new(&home);
    target.starts("startup").silent();
    let _served = Served::new(&home);
    target.hook("UserPromptSubmit").ok();
    let send = |line: &str| {
        let mut command = home.baton(line.split(' '));
        sender.dress(&mut command);
        baton_testkit::home::run(&mut command).ok();
    };
    send("send app-oak --important --notify have a look");
    send("send app-oak --important and at this");
    target.hook("PostToolUse").ok();
    assert!(mail(&home, "app").is_empty(), "it works on");
    target.hook("Stop").ok();
    wait_until("the sender is told", || count(&home, "app-oak has ended its turn") == 1);
    // It did not ask about the next turn.
    target.hook("UserPromptSubmit").ok();
    target.hook("Stop").ok();
    send("send app-oak --notify once more");
    target.hook("UserPromptSubmit").ok();
    target.hook("Stop").ok();
    wait_until("told about the second", || count(&home, "app-oak has ended its turn") == 2);
    assert_eq!(mail(&home, "app").len(), 2, "{:?}", mail(&home, "app"));
}

#[test]
fn a_clean_end_is_not_a_death_and_a_top_level_agent_notifies_nobody() {
    let home = Home::new(BATON);
    let (parent, child) = family(&home);
    let third = Client::new(&home).env("CLAUDE_SESSION_MANAGER_ID", "app");
    third.starts("startup").silent();
    let served = Served::new(&home);
    child.hook("SessionEnd").ok();
    drop(child);
    parent.hook("UserPromptSubmit").ok();
    parent.hook("Stop").ok();
    third.hook("UserPromptSubmit").ok();
    drop(third);
    wait_until("the death of the third is told", || count(&home, "app-elm died") == 1);
    assert_eq!(mail(&home, "app").len(), 1, "{:?}", mail(&home, "app"));
    drop(served);
}

#[test]
fn a_parent_is_told_that_a_childs_handoff_failed_even_without_a_daemon() {
    let home = Home::new(BATON);
    let (_parent, child) = family(&home);
    child.hook("UserPromptSubmit").ok();
    let words = home.write("handoff.md", "# Words");
    let mut command = home.baton(["handoff", words.to_str().unwrap()]);
    command.env("CLAUDE_CODE_SESSION_ID", &child.session).env("CLAUDE_SESSION_MANAGER_ID", "app-oak");
    baton_testkit::home::run(&mut command).ok();
    std::fs::remove_file(&words).unwrap();
    std::fs::remove_dir_all(home.state().join("requests")).unwrap();
    assert!(child.hook("Stop").message().unwrap().contains("was not sealed"));
    assert_eq!(count(&home, "the handoff of app-oak failed"), 1, "{:?}", mail(&home, "app"));
}

/// A rotation that was given up leaves its record, even while no daemon runs.
#[test]
fn a_parent_is_told_once_that_a_childs_rotation_was_given_up() {
    let home = Home::new(BATON);
    let (_parent, child) = family(&home);
    give_up(&home, &child, "r1");
    let served = Served::new(&home);
    wait_until("the first is told", || {
        count(&home, "the handoff of app-oak failed: the agent could not") == 1
    });
    served.kill();
    let _served = Served::new(&home);
    give_up(&home, &child, "r2");
    wait_until("the second is told", || count(&home, "the handoff of app-oak failed") == 2);
}

#[test]
fn the_users_command_runs_once_per_occasion_and_does_no_harm_when_it_hangs() {
    let home = Home::new(BATON);
    let out = home.path().join("told.txt");
    let command =
        format!("echo \"$BATON_NOTICE $BATON_AGENT $BATON_TEXT\" >> {}; exec sleep 20", out.display());
    home.write(".config/baton/config.toml", format!("[notify]\ncommand = {}\n", json!(command)));
    let client = Client::new(&home);
    client.starts("startup").silent();
    let served = Served::new(&home);
    let told = || std::fs::read_to_string(&out).unwrap_or_default();
    client.hook("UserPromptSubmit").ok();
    client.hook("PermissionRequest").ok();
    wait_until("the command has run", || told().lines().count() == 1);
    assert!(told().starts_with("blocked app [baton] app: waits for you in its terminal"), "{}", told());
    assert_eq!(served.get("/health")["status"], "ok", "nobody waits for it");
    served.kill();
    let _served = Served::new(&home);
    client.hook("PostToolUse").ok();
    client.hook("Stop").ok();
    wait_until("the next occasion", || told().lines().count() == 2);
    assert!(told().lines().nth(1).unwrap().starts_with("idle app "), "{}", told());
}

#[test]
fn a_cloned_project_cannot_make_us_run_a_command() {
    let home = Home::new(BATON);
    std::fs::write(home.project().join(".baton.toml"), "[notify]\ncommand = \"touch /tmp/x\"\n").unwrap();
    for by in ["a stranger", "an accepted project"] {
        let said = home.run("config").ok();
        assert!(said.contains("notify.command: only in your own config.toml"), "{by}: {said}");
        let command = home.run("config --json").json()["settings"].to_string();
        assert!(!command.contains("touch /tmp/x"), "{by}: {command}");
        home.trust();
    }
}

/// The kernel drops events when a process does not read them for too long; the daemon then looks at everything.
#[test]
fn nothing_is_missed_when_the_kernels_event_queue_overflows() {
    let home = Home::new(BATON);
    let (_parent, child) = family(&home);
    let served = Served::new(&home);
    assert_eq!(served.get("/sessions/app-oak")["mail"], 0);
    let agents = home.state().join("agents");
    baton_testkit::overflow::unseen(served.pid(), &agents, || {
        give_up(&home, &child, "r1");
        home.run("send app-oak hello").ok();
    });
    assert_eq!(served.get("/sessions/app-oak")["mail"], 1);
    wait_until("the failure is told", || count(&home, "the handoff of app-oak failed") == 1);
}

/// The parent is told each answer to its own requests, but not what the child answers to a person.
#[test]
fn a_parent_is_told_how_an_answer_begins_and_only_for_what_it_caused() {
    let home = Home::new(BATON);
    let (parent, child) = family(&home);
    let third = Client::new(&home).env("CLAUDE_SESSION_MANAGER_ID", "app");
    third.starts("startup").silent();
    let _served = Served::new(&home);
    let answers = |client: &Client<'_>, text: &str| {
        client.hook_with("Stop", json!({ "last_assistant_message": text })).ok();
    };
    // The first turn is the task that the child was started for.
    child.hook("UserPromptSubmit").ok();
    let key = format!("sk-ant-api03-{}", "aB3x".repeat(24));
    answers(&child, &format!("The parser is ported; the key was {key}. {}", "More. ".repeat(200)));
    wait_until("the answer is told", || count(&home, "The parser is ported") == 1);
    let told = mail(&home, "app").pop().unwrap();
    assert!(
        told.starts_with("[baton] app-oak has ended its turn and is idle. Its answer begins:\n"),
        "{told}"
    );
    assert!(!told.contains(&key) && told.chars().count() < 620, "{told}");
    // A person types into the child's terminal.
    child.hook_with("UserPromptSubmit", json!({ "prompt": "how is it going?" })).ok();
    answers(&child, "Well, thank you.");
    // Another child finishes after the turn that the person caused, so that turn would have been reported by then.
    third.hook("UserPromptSubmit").ok();
    answers(&third, "The third is done.");
    wait_until("the third is told", || count(&home, "The third is done.") == 1);
    assert_eq!(count(&home, "Well, thank you."), 0, "{:?}", mail(&home, "app"));
    asks(&home, &parent, "app-oak", "and the lexer?");
    child.hook("UserPromptSubmit").ok();
    answers(&child, "The lexer too.");
    wait_until("the second answer is told", || count(&home, "The lexer too.") == 1);
    assert_eq!(mail(&home, "app").len(), 3, "{:?}", mail(&home, "app"));
}

#[test]
fn errors_limits_and_dialogs_have_different_notices() {
    let home = Home::new(BATON);
    let (_parent, child) = family(&home);
    let _served = Served::new(&home);
    let fails = |error: &str, message: &str| {
        child.hook_with("UserPromptSubmit", json!({ "prompt": "go on" })).ok();
        child.hook_with("StopFailure", json!({ "error": error, "last_assistant_message": message })).ok();
    };
    fails("server_error", "API Error: 529 Overloaded");
    wait_until("the error", || count(&home, "app-oak: error: API Error: 529") == 1);
    let until = (jiff::Timestamp::now() + jiff::SignedDuration::from_hours(2)).strftime("%Y-%m-%dT%H:%M:00Z");
    fails("rate_limit", &format!("You've hit your limit, resets at {until}"));
    let clock = until.to_string()[11..16].to_owned();
    wait_until("the limit", || count(&home, "app-oak: limit until") == 1);
    assert_eq!(count(&home, &format!("{clock} UTC")), 1, "{:?}", mail(&home, "app"));
    child.hook_with("UserPromptSubmit", json!({ "prompt": "go on" })).ok();
    child.hook_with("PermissionRequest", json!({ "tool_name": "Bash" })).ok();
    wait_until("the dialog", || count(&home, "app-oak: waits for the user in its terminal: Bash") == 1);
    assert_eq!(count(&home, "has ended its turn"), 0, "{:?}", mail(&home, "app"));
}

/// A death is reported exactly once, by the first process that notices it: a daemon that saw it, one that was started
/// later, a listing, or the next start in the folder.
#[test]
fn a_death_is_always_reported_once_whoever_notices_it() {
    let home = Home::new(BATON);
    let parent = Client::new(&home);
    parent.starts("startup").silent();
    let kill = || {
        let child = Client::new(&home).env("CLAUDE_SESSION_MANAGER_ID", "app");
        child.starts("startup").ok();
        child.hook("UserPromptSubmit").ok();
        child.agent()
    };
    let told = |name: &str| count(&home, &format!("{name} died: "));
    let listed = kill();
    home.run("agents").ok();
    assert_eq!(told(&listed), 1, "{:?}", mail(&home, "app"));
    let found = kill();
    Client::new(&home).starts("startup").ok();
    assert_eq!(told(&found), 1, "{:?}", mail(&home, "app"));
    let late = kill();
    let served = Served::new(&home);
    wait_until("the daemon found it", || told(&late) == 1);
    let seen = kill();
    wait_until("the daemon saw it", || told(&seen) == 1);
    home.run("agents").ok();
    Client::new(&home).starts("startup").ok();
    served.kill();
    let _served = Served::new(&home);
    let last = kill();
    wait_until("the next daemon", || told(&last) == 1);
    for name in [&listed, &found, &late, &seen, &last] {
        assert_eq!(told(name), 1, "{name}: {:?}", mail(&home, "app"));
    }
}

/// Notices about an agent without a parent go to the user; a newer one replaces an unread one of the same kind.
#[test]
fn notices_about_agents_without_a_parent_go_to_the_users_inbox() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup").silent();
    let _served = Served::new(&home);
    let new = || {
        let list = home.run("inbox --json").json();
        let queued = list.as_array().unwrap().iter().filter(|m| m["state"] == "queued").cloned();
        queued.map(|m| m["text"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for message in ["API Error: 500 one", "API Error: 500 two"] {
        client.hook("UserPromptSubmit").ok();
        client
            .hook_with("StopFailure", json!({ "error": "server_error", "last_assistant_message": message }))
            .ok();
        wait_until("the error", || new().iter().any(|text| text.contains(message)));
    }
    // It is there a moment before the older one goes.
    wait_until("the newest of a kind alone", || new().len() == 1);
    asks(&home, &client, "user", "The release is out.\nShall I announce it?");
    let shown = home.run("inbox").ok();
    assert!(shown.contains("500 two") && shown.contains("Shall I announce it?"), "{shown}");
    assert!(new().is_empty(), "shown is read");
    assert!(home.run("inbox").fails(3).is_empty() || home.run("inbox").out.contains("Nothing new."));
    // A person at the client sees the end of a turn for themselves; the user is told the answer to what they sent.
    home.run("send app how is it going?").ok();
    client.hook("UserPromptSubmit").ok();
    client.hook_with("Stop", json!({ "last_assistant_message": "Very well." })).ok();
    wait_until("the answer", || new().iter().any(|text| text.contains("Very well.")));
    assert!(home.baton(["run", "--name", "user", "demo"]).status().unwrap().code() == Some(1));
}

#[test]
fn notices_can_be_switched_off_for_an_agent_and_a_kind() {
    let home = Home::new(BATON);
    home.write(".config/baton/config.toml", "[notify]\nmute = \"app-oak:error, *:compacted\"\n");
    let (_parent, child) = family(&home);
    let _served = Served::new(&home);
    child.hook("UserPromptSubmit").ok();
    child.hook_with("StopFailure", json!({ "error": "server_error" })).ok();
    child.answers(150_000);
    child.hook("PreCompact").ok();
    child.hook("UserPromptSubmit").ok();
    child.hook("PermissionRequest").ok();
    wait_until("the dialog", || count(&home, "waits for the user") == 1);
    assert_eq!(mail(&home, "app").len(), 1, "{:?}", mail(&home, "app"));
}

/// Regression: a muted notice still came from everything but the daemon. A death is reported whatever is muted.
#[test]
fn muted_notices_come_from_nobody_but_deaths_are_always_reported() {
    let home = Home::new(BATON);
    home.write(".config/baton/config.toml", "[notify]\nmute = \"*:handoff-failed, *:died\"\n");
    let (_parent, child) = family(&home);
    child.hook("UserPromptSubmit").ok();
    let words = home.write("handoff.md", "# Words");
    let mut command = home.baton(["handoff", words.to_str().unwrap()]);
    command.env("CLAUDE_CODE_SESSION_ID", &child.session).env("CLAUDE_SESSION_MANAGER_ID", "app-oak");
    baton_testkit::home::run(&mut command).ok();
    std::fs::remove_file(&words).unwrap();
    std::fs::remove_dir_all(home.state().join("requests")).unwrap();
    assert!(child.hook("Stop").message().unwrap().contains("was not sealed"));
    assert_eq!(count(&home, "failed"), 0, "{:?}", mail(&home, "app"));
    let _served = Served::new(&home);
    drop(child);
    wait_until("its death is told", || count(&home, "app-oak died") == 1);
}

/// Regression: the notice said five minutes although the agent waited for ten, and came again at every try.
#[test]
fn a_limit_without_an_end_time_is_reported_once_with_the_agents_retry_time() {
    let home = Home::new(BATON);
    let (_parent, child) = family(&home);
    let meets_it = || {
        child.hook_with("UserPromptSubmit", json!({ "prompt": "go on" })).ok();
        child
            .hook_with("StopFailure", json!({ "error": "rate_limit", "last_assistant_message": "429" }))
            .ok();
    };
    meets_it();
    meets_it();
    assert_eq!(child.kept()["parked"]["tries"], 2, "{}", child.kept());
    let until: jiff::Timestamp = child.kept()["parked"]["until"].as_str().unwrap().parse().unwrap();
    let _served = Served::new(&home);
    wait_until("the limit", || count(&home, "app-oak: limit, next try") == 1);
    let clock = until.strftime("%H:%M UTC").to_string();
    assert_eq!(count(&home, &clock), 1, "{clock}: {:?}", mail(&home, "app"));
    meets_it();
    child.hook_with("UserPromptSubmit", json!({ "prompt": "go on" })).ok();
    child.hook_with("PermissionRequest", json!({ "tool_name": "Bash" })).ok();
    wait_until("what came later", || count(&home, "app-oak: waits for the user in its terminal") == 1);
    assert_eq!(count(&home, "app-oak: limit"), 1, "{:?}", mail(&home, "app"));
}

/// Clients write a time of day, as people read it.
#[test]
fn an_agent_waits_until_the_time_of_day_that_its_limit_names() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup").silent();
    client.hook("UserPromptSubmit").ok();
    let text = "You've hit your limit · resets 11:00pm (UTC)";
    client.hook_with("StopFailure", json!({ "error": "rate_limit", "last_assistant_message": text })).ok();
    let parked = client.kept()["parked"].clone();
    assert_eq!(parked["guess"], false, "{parked}");
    assert!(parked["until"].as_str().unwrap().ends_with("T23:00:00Z"), "{parked}");
}
