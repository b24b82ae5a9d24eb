//! Who hears what an agent waits for: its parent by mail, the user by a command of theirs.

use baton_testkit::Home;
use baton_testkit::daemon::Served;
use baton_testkit::hooks::Client;
use serde_json::{Value, json};

use crate::BATON;
use crate::serve::wait_until;

/// `app-1`, and `app-2` that it started.
fn family(home: &Home) -> (Client<'_>, Client<'_>) {
    let parent = Client::new(home);
    parent.starts("startup").silent();
    let child = Client::new(home).env("CLAUDE_SESSION_MANAGER_ID", "app-1");
    child.starts("startup").silent();
    (parent, child)
}

/// The texts of all mail that an agent ever got.
fn mail(home: &Home, agent: &str) -> Vec<String> {
    let ran = home.run(&format!("inbox {agent} --json"));
    let list: Value = serde_json::from_str(&ran.out).unwrap_or(json!([]));
    list.as_array().unwrap().iter().map(|m| m["text"].as_str().unwrap().to_owned()).collect()
}

fn count(home: &Home, word: &str) -> usize {
    mail(home, "app-1").iter().filter(|text| text.contains(word)).count()
}

#[test]
fn a_parent_hears_once_that_its_child_is_idle_blocked_or_dead() {
    let home = Home::new(BATON);
    let (_parent, child) = family(&home);
    assert_eq!(child.agent(), "app-2");
    let served = Served::new(&home);
    child.hook("UserPromptSubmit").ok();
    child.hook("PermissionRequest").ok();
    wait_until("the dialog is told", || count(&home, "app-2 waits for a person") == 1);
    child.hook("PostToolUse").ok();
    child.hook("Stop").ok();
    wait_until("the end of the turn is told", || count(&home, "app-2 has ended its turn") == 1);
    // The same occasion after a restart is not told again; the next one is.
    served.kill();
    let _served = Served::new(&home);
    child.hook("UserPromptSubmit").ok();
    child.hook("Stop").ok();
    wait_until("the next end is told", || count(&home, "app-2 has ended its turn") == 2);
    drop(child);
    wait_until("its death is told", || count(&home, "app-2 died") == 1);
    assert_eq!(mail(&home, "app-1").len(), 4, "{:?}", mail(&home, "app-1"));
    assert!(mail(&home, "app-2").is_empty());
}

/// Seed 004, test plan 6: the `/clear` of a rotation is no stop, and the handoff that comes before it is no idleness.
#[test]
fn a_rotation_causes_no_stop_or_idle_notification() {
    let home = Home::new(BATON);
    let (_parent, mut child) = family(&home);
    let other = Client::new(&home).env("CLAUDE_SESSION_MANAGER_ID", "app-1");
    other.starts("startup").silent();
    let served = Served::new(&home);
    let words = home.write("handoff.md", "# Words\nNext: the parser.");
    child.hook("UserPromptSubmit").ok();
    let body = json!({ "requester_session_id": "app-2", "file_path": words });
    served.post("/sessions/app-2/handoff", &body);
    child.hook("Stop").ok();
    assert!(
        served.get("/sessions/app-2")["rotation"].is_string(),
        "sealed, and a fresh context is asked for"
    );
    // Another child ends its turn after that, and is told: by then the first would have been told too.
    other.hook("UserPromptSubmit").ok();
    other.hook("Stop").ok();
    wait_until("the other's end is told", || count(&home, "app-3 has ended its turn") == 1);
    assert_eq!(count(&home, "app-2 has ended its turn"), 0, "{:?}", mail(&home, "app-1"));
    child.clears();
    child.hook("UserPromptSubmit").ok();
    // The turn of the fresh context ends as any other.
    child.hook("Stop").ok();
    wait_until("the real end is told", || count(&home, "app-2 has ended its turn") >= 1);
    assert_eq!(count(&home, "app-2 has ended its turn"), 1, "{:?}", mail(&home, "app-1"));
    assert_eq!(count(&home, "failed"), 0);
}

/// Seed 004's stop notification: the sender learns that the turn in which its message was read has ended.
#[test]
fn a_sender_that_asked_hears_once_when_the_turn_has_ended() {
    let home = Home::new(BATON);
    let sender = Client::new(&home);
    sender.starts("startup").silent();
    let target = Client::new(&home);
    target.starts("startup").silent();
    let _served = Served::new(&home);
    target.hook("UserPromptSubmit").ok();
    home.run("send app-2 --from app-1 --notify have a look").ok();
    home.run("send app-2 --from app-1 and at this").ok();
    target.hook("PostToolUse").ok();
    assert!(mail(&home, "app-1").is_empty(), "it works on");
    target.hook("Stop").ok();
    wait_until("the sender is told", || count(&home, "app-2 has ended its turn") == 1);
    // The next turn is not what it asked about.
    target.hook("UserPromptSubmit").ok();
    target.hook("Stop").ok();
    home.run("send app-2 --from app-1 --notify once more").ok();
    target.hook("UserPromptSubmit").ok();
    target.hook("Stop").ok();
    wait_until("told about the second", || count(&home, "app-2 has ended its turn") == 2);
    assert_eq!(mail(&home, "app-1").len(), 2, "{:?}", mail(&home, "app-1"));
}

#[test]
fn a_clean_end_is_no_death_and_a_top_level_agent_tells_nobody() {
    let home = Home::new(BATON);
    let (parent, child) = family(&home);
    let third = Client::new(&home).env("CLAUDE_SESSION_MANAGER_ID", "app-1");
    third.starts("startup").silent();
    let served = Served::new(&home);
    child.hook("SessionEnd").ok();
    drop(child);
    parent.hook("UserPromptSubmit").ok();
    parent.hook("Stop").ok();
    third.hook("UserPromptSubmit").ok();
    drop(third);
    wait_until("the death of the third is told", || count(&home, "app-3 died") == 1);
    assert_eq!(mail(&home, "app-1").len(), 1, "{:?}", mail(&home, "app-1"));
    drop(served);
}

#[test]
fn a_parent_hears_that_a_childs_handoff_failed_even_without_a_daemon() {
    let home = Home::new(BATON);
    let (_parent, child) = family(&home);
    child.hook("UserPromptSubmit").ok();
    let words = home.write("handoff.md", "# Words");
    let mut command = home.baton(["handoff", words.to_str().unwrap()]);
    command.env("CLAUDE_CODE_SESSION_ID", &child.session).env("CLAUDE_SESSION_MANAGER_ID", "app-2");
    baton_testkit::home::run(&mut command).ok();
    std::fs::remove_file(&words).unwrap();
    std::fs::remove_dir_all(home.state().join("requests")).unwrap();
    assert!(child.hook("Stop").message().unwrap().contains("was not sealed"));
    assert_eq!(count(&home, "the handoff of app-2 failed"), 1, "{:?}", mail(&home, "app-1"));
}

/// A rotation that was given up leaves its record; also while no daemon ran.
#[test]
fn a_parent_hears_once_that_a_childs_rotation_was_given_up() {
    let home = Home::new(BATON);
    let (_parent, child) = family(&home);
    let give_up = |id: &str| {
        let me = baton_testkit::load::myself();
        let rotation = json!({ "id": id, "agent": "app-2", "handoff": "HO-20261116-040000-a1b2c3d4",
            "from": child.session, "by": "the agent", "actuator": "restart", "step": "failed",
            "at": jiff::Timestamp::now(), "supervisor": me, "note": "the agent could not be stopped" });
        let path = home.write(&format!(".local/state/baton/rotations/.{id}"), rotation.to_string());
        std::fs::rename(&path, path.with_file_name(format!("{id}.json"))).unwrap();
    };
    give_up("r1");
    let served = Served::new(&home);
    wait_until("the first is told", || count(&home, "the handoff of app-2 failed: the agent could not") == 1);
    served.kill();
    let _served = Served::new(&home);
    give_up("r2");
    wait_until("the second is told", || count(&home, "the handoff of app-2 failed") == 2);
}

#[test]
fn a_command_of_the_user_runs_once_per_occasion_and_may_hang_without_hurting_anybody() {
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
    assert!(told().starts_with("blocked app-1 [baton] app-1 waits for a person"), "{}", told());
    assert_eq!(served.get("/health")["status"], "ok", "nobody waits for it");
    served.kill();
    let _served = Served::new(&home);
    client.hook("PostToolUse").ok();
    client.hook("Stop").ok();
    wait_until("the next occasion", || told().lines().count() == 2);
    assert!(told().lines().nth(1).unwrap().starts_with("idle app-1 "), "{}", told());
}

#[test]
fn a_cloned_project_cannot_make_us_run_a_command() {
    let home = Home::new(BATON);
    std::fs::write(home.project().join(".baton.toml"), "[notify]\ncommand = \"touch /tmp/x\"\n").unwrap();
    let said = home.run("config").fails(1);
    assert!(said.contains("only be set in your own config.toml"), "{said}");
}
