//! Whose session it is: agents keep their name over clear and resume, and a child is not its parent.

use baton_testkit::Home;
use baton_testkit::agent::Script;
use baton_testkit::hooks::{Client, register};
use serde_json::{Value, json};

use crate::BATON;

fn agent(home: &Home, id: &str) -> Value {
    let text = std::fs::read_to_string(home.state().join(format!("agents/{id}.json"))).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn a_plain_client_becomes_an_agent_named_after_its_project_and_keeps_the_name_over_clear() {
    let home = Home::new(BATON);
    let mut one = Client::new(&home);
    one.starts("startup").silent();
    assert_eq!(one.agent(), "app-1");
    let two = Client::new(&home);
    two.starts("startup").silent();
    assert_eq!(two.agent(), "app-2");
    let first = one.session.clone();
    one.clears().silent();
    assert_eq!(one.agent(), "app-1");
    let record = agent(&home, "app-1");
    assert_eq!(record["sessions"], json!([first, one.session]));
    assert_eq!(record["process"]["pid"], one.pid());
    assert_eq!(record["ended"], Value::Null);
}

#[test]
fn a_client_that_an_agent_starts_is_its_child_though_it_inherits_its_name() {
    let home = Home::new(BATON);
    let parent = Client::new(&home);
    parent.starts("startup").silent();
    let child = Client::new(&home).headless().env("CLAUDE_SESSION_MANAGER_ID", "app-1");
    child.starts("startup").silent();
    assert_eq!(child.agent(), "app-2");
    assert_eq!(agent(&home, "app-2")["parent"], "app-1");
    assert_eq!(agent(&home, "app-1")["session"], parent.session, "the parent's record is untouched");
}

#[test]
fn the_name_in_the_environment_counts_where_session_or_process_is_the_recorded_one() {
    let home = Home::new(BATON);
    let mut client = Client::new(&home);
    client.starts("startup").silent();
    client.env.push(("CLAUDE_SESSION_MANAGER_ID".into(), "app-1".into()));
    client.clears().silent();
    assert_eq!(client.agent(), "app-1");
    let stranger = Client::new(&home).env("CLAUDE_SESSION_MANAGER_ID", "no-such-agent");
    stranger.starts("startup").silent();
    assert_eq!(stranger.agent(), "app-2", "a name that nobody has is no name");
}

#[test]
fn a_resumed_conversation_brings_its_agent_back() {
    let home = Home::new(BATON);
    let session = {
        let client = Client::new(&home);
        client.starts("startup").silent();
        client.hook("SessionEnd").silent();
        client.session.clone()
    };
    assert!(agent(&home, "app-1")["ended"].is_string());
    let mut again = Client::new(&home);
    again.session = session;
    again.starts("resume").silent();
    assert_eq!(again.agent(), "app-1");
    assert_eq!(agent(&home, "app-1")["ended"], Value::Null);
}

#[test]
fn a_conversation_opened_twice_at_once_has_two_agents() {
    let home = Home::new(BATON);
    let one = Client::new(&home);
    one.starts("startup").silent();
    let mut two = Client::new(&home);
    two.session.clone_from(&one.session);
    two.starts("resume").silent();
    assert_eq!(two.agent(), "app-2", "the first one still runs");
}

#[test]
fn a_project_is_its_repository_and_odd_names_make_plain_ones() {
    let home = Home::new(BATON);
    let odd = home.path().join("work/Über böse; rm -rf/sub");
    std::fs::create_dir_all(&odd).unwrap();
    std::fs::create_dir_all(odd.parent().unwrap().join(".git")).unwrap();
    let client = Client::new(&home);
    client.hook_with("SessionStart", json!({ "cwd": odd })).silent();
    assert_eq!(client.agent(), "ber-b-se--rm--rf-1");
}

/// The real thing: an agent's shell starts a headless client, which inherits everything.
#[test]
fn a_headless_client_started_from_an_agents_shell_is_its_child_and_takes_nothing_from_it() {
    let home = Home::new(BATON);
    register(&home);
    home.run_with_input("handoffs seal - --type manual", "# For a person\n").ok();
    let inner = home.write("inner.script", "turn\n  say from within\n");
    let script = format!(
        "context\nturn\n  bash CLAUDE_SESSION_MANAGER_ID=app-1 BATON_AGENT_SCRIPT={} BATON_AGENT_SEEN=/dev/null \
         baton demo-agent -p hello\n",
        inner.display()
    );
    let played = Script::new(&home, &script).play(&["start one"]);
    let tool = played.seen.iter().find(|s| s["kind"] == "tool").unwrap();
    assert_eq!(tool["output"], "from within\n");
    assert_eq!(agent(&home, "app-2")["parent"], "app-1");
    assert_eq!(played.texts("context").len(), 1, "the person's session was given the handoff");
    assert_ne!(agent(&home, "app-1")["ended"], Value::Null);
}
