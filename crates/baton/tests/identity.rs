//! Whose session it is: agents keep their name across clear and resume, and a child is not taken for its parent.

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
    assert_eq!(one.agent(), "app");
    let two = Client::new(&home);
    two.starts("startup").silent();
    assert_eq!(two.agent(), "app-oak");
    let first = one.session.clone();
    one.clears().silent();
    assert_eq!(one.agent(), "app");
    let record = agent(&home, "app");
    assert_eq!(record["sessions"], json!([first, one.session]));
    assert_eq!(record["process"]["pid"], one.pid());
    assert_eq!(record["ended"], Value::Null);
}

#[test]
fn a_client_that_an_agent_starts_is_its_child_though_it_inherits_its_name() {
    let home = Home::new(BATON);
    let parent = Client::new(&home);
    parent.starts("startup").silent();
    let child = Client::new(&home).headless().env("CLAUDE_SESSION_MANAGER_ID", "app");
    child.starts("startup").silent();
    assert_eq!(child.agent(), "app-oak");
    assert_eq!(agent(&home, "app-oak")["parent"], "app");
    assert_eq!(agent(&home, "app")["session"], parent.session, "the parent's record is untouched");
}

#[test]
fn the_name_in_the_environment_counts_only_for_a_recorded_session_or_process() {
    let home = Home::new(BATON);
    let mut client = Client::new(&home);
    client.starts("startup").silent();
    client.env.push(("CLAUDE_SESSION_MANAGER_ID".into(), "app".into()));
    client.clears().silent();
    assert_eq!(client.agent(), "app");
    let stranger = Client::new(&home).env("CLAUDE_SESSION_MANAGER_ID", "no-such-agent");
    stranger.starts("startup").silent();
    assert_eq!(stranger.agent(), "app-oak", "a name that nobody has is no name");
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
    assert!(agent(&home, "app")["ended"].is_string());
    let mut again = Client::new(&home);
    again.session = session;
    again.starts("resume").silent();
    assert_eq!(again.agent(), "app");
    assert_eq!(agent(&home, "app")["ended"], Value::Null);
}

#[test]
fn a_conversation_opened_twice_at_once_has_two_agents() {
    let home = Home::new(BATON);
    let one = Client::new(&home);
    one.starts("startup").silent();
    let mut two = Client::new(&home);
    two.session.clone_from(&one.session);
    two.starts("resume").silent();
    assert_eq!(two.agent(), "app-oak", "the first one still runs");
}

#[test]
fn a_project_is_its_repository_and_odd_names_make_plain_ones() {
    let home = Home::new(BATON);
    let odd = home.path().join("work/Über böse; rm -rf/sub");
    std::fs::create_dir_all(&odd).unwrap();
    std::fs::create_dir_all(odd.parent().unwrap().join(".git")).unwrap();
    let client = Client::new(&home);
    client.hook_with("SessionStart", json!({ "cwd": odd })).silent();
    assert_eq!(client.agent(), "ber-b-se--rm--rf");
}

/// An agent's shell really starts a headless client, which inherits the whole environment.
#[test]
fn a_headless_client_started_from_an_agents_shell_is_its_child_and_takes_nothing_from_it() {
    let home = Home::new(BATON);
    register(&home);
    home.run_with_input("handoffs seal - --type manual", "# For a person\n").ok();
    let inner = home.write("inner.script", "turn\n  say from within\n");
    let script = format!(
        "context\nturn\n  bash CLAUDE_SESSION_MANAGER_ID=app BATON_AGENT_SCRIPT={} BATON_AGENT_SEEN=/dev/null \
         baton demo-agent -p hello\n",
        inner.display()
    );
    let played = Script::new(&home, &script).play(&["start one"]);
    let tool = played.seen.iter().find(|s| s["kind"] == "tool").unwrap();
    assert_eq!(tool["output"], "from within\n");
    assert_eq!(agent(&home, "app-oak")["parent"], "app");
    assert_eq!(played.texts("context").len(), 1, "the person's session was given the handoff");
    assert_ne!(agent(&home, "app")["ended"], Value::Null);
}

/// Names stay short and familiar: they are words, and a free one is reused.
#[test]
fn names_are_the_project_and_a_word_and_a_free_one_is_reused() {
    let home = Home::new(BATON);
    let begin = || {
        let client = Client::new(&home);
        client.starts("startup").ok();
        client
    };
    let (first, second, third) = (begin(), begin(), begin());
    assert_eq!(
        (first.agent(), second.agent(), third.agent()),
        ("app".into(), "app-oak".into(), "app-elm".into())
    );
    // Ten agents that come and go one after the other.
    second.hook("SessionEnd").ok();
    drop(second);
    for _ in 0..10 {
        let next = begin();
        assert_eq!(next.agent(), "app-oak");
        assert_eq!(home.run("agents --json").json().as_array().unwrap().len(), 3);
        next.hook("SessionEnd").ok();
    }
    // Mail waits for the agent that had the name, so nobody else gets the name.
    home.run("send app-oak are you back?").ok();
    assert_eq!(begin().agent(), "app-ash");
    // A name that somebody chose is not reused, even after that agent is gone.
    home.write("agent.script", "turn\n  tokens 5%\n  say Hello.\n");
    let mut run = home.baton(["run", "--name", "app-fir", "demo", "-p", "Go."]);
    baton_testkit::home::run(run.env("BATON_AGENT_SCRIPT", home.path().join("agent.script"))).ok();
    let held = (begin(), begin());
    assert_eq!((held.0.agent(), held.1.agent()), ("app-ash".into(), "app-pine".into()));
}

/// A new agent with a reused name inherits neither the old agent's conversations nor its parent.
#[test]
fn an_agent_with_a_reused_name_is_a_new_agent() {
    let home = Home::new(BATON);
    let old = Client::new(&home);
    old.starts("startup").ok();
    old.record(&json!({ "type": "user", "message": { "role": "user", "content": "Write the parser" } }));
    old.hook("UserPromptSubmit").ok();
    let session = old.session.clone();
    drop(old);
    let new = Client::new(&home);
    let heard = new.starts("startup");
    assert_eq!(new.agent(), "app");
    assert!(
        heard.context().unwrap().contains("Write the parser"),
        "a plain start has the plain client's work"
    );
    let record = baton_testkit::home::record(&home.state().join("agents/app.json"));
    assert_eq!(record["sessions"], json!([new.session]), "{record}");
    assert_ne!(record["sessions"][0], json!(session));
}

/// A client that takes up the work of a plain client that is gone becomes that agent, whose name others know.
#[test]
fn a_plain_client_that_loads_the_handoff_of_one_that_has_ended_has_its_name() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup").ok();
    client.says("TAUGOAL: port the tests.");
    client.hook("UserPromptSubmit");
    client.answers(20_000);
    client.hook("Stop");
    let name = client.agent();
    home.run(&format!("rotate {name}")).ok();
    client.hook("SessionEnd").silent();
    drop(client);
    let next = Client::new(&home);
    let given = next.starts("startup").context().unwrap_or_default();
    assert!(given.contains("TAUGOAL"), "{given}");
    assert_eq!(next.agent(), name);
}
