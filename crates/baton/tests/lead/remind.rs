//! Reminders survive restarts, arrive as mail from the daemon or a hook, and come once if several were missed.

use baton_testkit::Home;
use baton_testkit::home::run;
use baton_testkit::hooks::Client;
use baton_testkit::wait::{wait_for, wait_until};
use serde_json::{Value, json};

use crate::BATON;

/// Stops the daemon that a reminder has started.
struct Daemon<'a>(&'a Home);

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        let _ = self.0.run("serve --stop");
    }
}

fn texts(home: &Home, agent: &str) -> Vec<String> {
    let list: Value =
        serde_json::from_str(&home.run(&format!("inbox {agent} --json")).out).unwrap_or(json!([]));
    list.as_array().unwrap().iter().map(|m| m["text"].as_str().unwrap().to_owned()).collect()
}

fn as_agent(home: &Home, client: &Client<'_>, args: &[&str]) -> baton_testkit::CommandOutput {
    let mut command = home.baton(args);
    client.dress(&mut command);
    run(&mut command)
}

/// Moves the only reminder into the past, as if nothing had been running.
fn make_late(home: &Home, seconds: i64) {
    let dir = home.state().join("reminders");
    let path = std::fs::read_dir(&dir)
        .unwrap()
        .flatten()
        .map(|e| e.path())
        .find(|p| p.extension().is_some_and(|e| e == "json"));
    let path = path.unwrap();
    let mut reminder: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    reminder["at"] = json!(jiff::Timestamp::now() - jiff::SignedDuration::from_secs(seconds));
    std::fs::write(&path, reminder.to_string()).unwrap();
}

#[test]
fn the_first_reminder_starts_the_daemon_which_sends_it_once_as_mail() {
    let home = Home::new(BATON);
    let _daemon = Daemon(&home);
    let client = Client::new(&home);
    client.starts("startup").silent();
    assert_eq!(home.run("serve --status").code, Some(3));
    let said = home.run("remind --in 5s app look at the build").ok();
    assert!(said.starts_with("app is reminded at "), "{said}");
    home.run("serve --status").ok();
    assert_eq!(home.run("reminders --json").json().as_array().unwrap().len(), 1);
    wait_until("it is sent", || texts(&home, "app").len() == 1);
    let told = texts(&home, "app");
    assert!(told[0].contains("set by user] look at the build") && !told[0].contains("late"), "{told:?}");
    assert!(home.run("reminders").fails(3).is_empty());
    assert_eq!(texts(&home, "app").len(), 1);
}

#[test]
fn without_a_daemon_the_agents_own_hook_sends_due_reminders() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup").silent();
    client.hook("UserPromptSubmit").ok();
    as_agent(&home, &client, &["remind", "--in", "1s", "check the deploy"]).ok();
    home.run("serve --stop").ok();
    let context = wait_for("the reminder", || client.hook("PostToolUse").ok().context());
    assert!(context.contains("set by you] check the deploy"), "{context}");
    assert!(client.kept()["remind_at"].is_null(), "nothing is left to look for: {}", client.kept());
    assert!(client.hook("PostToolUse").ok().context().is_none(), "once");
}

#[test]
fn a_reminder_survives_a_restart_of_everything_and_comes_once_late_and_says_so() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup").silent();
    home.run("remind --every 1h app report where you are").ok();
    home.run("serve --stop").ok();
    drop(client);
    make_late(&home, 3 * 3_600 + 60);
    // After a reboot: another client, and the daemon that the next command starts.
    let _daemon = Daemon(&home);
    home.run("serve --detach").ok();
    wait_until("it is sent", || texts(&home, "app").len() == 1);
    let told = texts(&home, "app");
    assert!(told[0].contains("comes late, once for the 4 that were missed"), "{told:?}");
    let next = home.run("reminders --json").json();
    let at: jiff::Timestamp = next[0]["at"].as_str().unwrap().parse().unwrap();
    assert!(at > jiff::Timestamp::now(), "the next one lies ahead: {next}");
    assert_eq!(texts(&home, "app").len(), 1);
}

#[test]
fn a_session_that_starts_later_knows_of_the_reminder_too() {
    let home = Home::new(BATON);
    let mut client = Client::new(&home);
    client.starts("startup").silent();
    let at = home.run("remind --in 1h app say hello --json").json()["at"].clone();
    home.run("serve --stop").ok();
    assert_eq!(client.kept()["remind_at"], at);
    client.clears().ok();
    assert_eq!(client.kept()["remind_at"], at, "its hooks know when to look");
}

#[test]
fn reminders_are_listed_and_taken_back_and_agents_remind_themselves_and_those_below() {
    let home = Home::new(BATON);
    let _daemon = Daemon(&home);
    let parent = Client::new(&home);
    parent.starts("startup").silent();
    let child = Client::new(&home).env("CLAUDE_SESSION_MANAGER_ID", "app");
    child.starts("startup").silent();
    as_agent(&home, &parent, &["remind", "--at", "23:59", "app-oak", "go home"]).ok();
    let refused = as_agent(&home, &child, &["remind", "--in", "1h", "app", "go home"]).fails(1);
    assert!(refused.contains("itself and the agents below it"), "{refused}");
    as_agent(&home, &child, &["remind", "--in", "1h", "rest a little"]).ok();
    home.run("remind --in 1h stretch").ok();
    let listed = home.run("reminders").ok();
    for part in ["go home", "rest a little", "stretch", "app-oak", "user"] {
        assert!(listed.contains(part), "{part}: {listed}");
    }
    let own = as_agent(&home, &child, &["reminders", "--json"]).json();
    assert_eq!(own.as_array().unwrap().len(), 2, "its own, and what is for it: {own}");
    let users = home.run("reminders --json").json();
    let id = users.as_array().unwrap().iter().find(|r| r["text"] == "stretch").unwrap()["id"].clone();
    let id = id.as_str().unwrap();
    assert!(as_agent(&home, &child, &["reminders", "cancel", id]).fails(3).contains("no reminder"));
    home.run(&format!("reminders cancel {id}")).ok();
    assert!(!home.run("reminders").ok().contains("stretch"));
    assert!(home.run("remind --in 0s now").fails(2).contains("must be in the future"));
    assert!(home.run("remind --at teatime now").fails(2).contains("is no time"));
    home.run("remind nothing").fails(2);
}

#[test]
fn the_users_own_reminder_lies_in_their_inbox() {
    let home = Home::new(BATON);
    let _daemon = Daemon(&home);
    home.run("remind --in 1s call the bank").ok();
    wait_until("it is there", || texts(&home, "user").iter().any(|t| t.contains("call the bank")));
}

#[test]
fn a_time_that_cannot_be_is_wrong_usage_in_every_form() {
    let home = baton_testkit::Home::new(crate::BATON);
    for (option, value, told) in
        [("--in", "5x", "like 20m"), ("--every", "soon", "like 20m"), ("--at", "25:00", "25:00")]
    {
        let said = run(&mut home.baton(["remind", option, value, "stretch"])).fails(2);
        assert!(said.contains(told) && !said.contains("designator"), "{option} {value}: {said}");
    }
}
