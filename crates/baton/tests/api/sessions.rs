//! The list of agents: names and conversation ids, states, what hooks write.

use baton_testkit::Home;
use baton_testkit::daemon::Served;
use baton_testkit::hooks::Client;
use baton_testkit::wait::wait_until;
use serde_json::{Value, json};

use super::started;
use crate::BATON;

#[test]
fn names_and_conversation_ids_all_mean_the_agent() {
    let home = Home::new(BATON);
    let mut client = started(&home);
    let first = client.session.clone();
    client.clears();
    let served = Served::new(&home);
    for id in ["app", &first, &client.session] {
        let agent = served.get(&format!("/sessions/{id}"));
        assert_eq!((&agent["id"], &agent["session"]), (&json!("app"), &json!(client.session)), "{id}");
    }
    for id in ["nobody", "..", "a%2fb", "%00", "x".repeat(300).as_str()] {
        for path in ["", "/messages"] {
            assert_eq!(served.ask("GET", &format!("/sessions/{id}{path}"), None).status, 404, "{id}{path}");
        }
        assert_eq!(served.ask("GET", &format!("/events?agent={id}"), None).status, 404, "{id}");
        let text = json!({ "text": "x" });
        assert_eq!(served.ask("POST", &format!("/sessions/{id}/messages"), Some(&text)).status, 404, "{id}");
        let body = json!({ "requester_session_id": id, "file_path": "/nowhere" });
        assert_eq!(served.ask("POST", &format!("/sessions/{id}/handoff"), Some(&body)).status, 404, "{id}");
    }
    let all = served.get("/sessions");
    assert_eq!(all["sessions"].as_array().unwrap().len(), 1);
    assert_eq!(all["sessions"][0], served.get("/sessions/app"));
}

/// The very next request sees what a hook has written, because files are the truth.
#[test]
fn changes_by_hooks_are_shown_at_once() {
    let home = Home::new(BATON);
    let served = Served::new(&home);
    assert_eq!(served.get("/sessions")["sessions"], json!([]));
    let client = started(&home);
    assert_eq!(served.get("/sessions/app")["state"], "idle");
    for n in 1..=20_u64 {
        client.answers(n * 1000);
        client.hook("PostToolUse").ok();
        let agent = served.get("/sessions/app");
        assert_eq!((&agent["tokens"], &agent["tokens_used"]), (&json!(n * 1000), &json!(n * 1000)));
        assert_eq!(agent["state"], "working");
        home.run("send app --important hello").ok();
        assert_eq!(served.get("/sessions/app")["mail"], 1, "the hook before this one took the last");
    }
    client.answers(134_000);
    client.hook("UserPromptSubmit").ok();
    assert_eq!(served.get("/sessions/app")["level"], "CRITICAL");
    client.hook("SessionEnd").ok();
    assert_eq!(served.get("/sessions/app")["state"], "ended");
}

#[test]
fn an_agent_whose_process_is_killed_is_shown_as_dead() {
    let home = Home::new(BATON);
    let client = started(&home);
    let served = Served::new(&home);
    assert_eq!(served.get("/sessions/app")["state"], "idle");
    drop(client);
    wait_until("its end is seen", || served.get("/sessions/app")["state"] == "ended");
}

#[test]
fn a_path_that_takes_another_method_says_which() {
    let home = Home::new(BATON);
    let served = Served::on_http(&home);
    let ask = |method: &str, path: &str| {
        let body = (method != "GET").then(|| json!({}));
        let answered = served.ask(method, path, body.as_ref());
        (answered.status, answered.header("allow").map(str::to_owned))
    };
    assert_eq!(ask("POST", "/health"), (405, Some("get".into())));
    assert_eq!(ask("GET", "/login"), (405, Some("post".into())));
    assert_eq!(ask("PUT", "/sessions"), (405, Some("get".into())));
    assert_eq!(ask("DELETE", "/sessions/app/messages"), (405, Some("post, get".into())));
    assert_eq!(ask("DELETE", "/nothing"), (404, None));
    assert_eq!(ask("POST", "/nothing"), (404, None));
}

/// The command line and the API use the same words; ended agents leave both lists after a day.
#[test]
fn states_have_one_name_and_what_is_over_leaves_the_list_after_a_day() {
    let home = Home::new(BATON);
    let served = Served::new(&home);
    let states = |all: bool| {
        let api = served.get(if all { "/sessions?all=true" } else { "/sessions" });
        let cli = home.run(if all { "agents --all --json" } else { "agents --json" });
        let cli: Value = serde_json::from_str(&cli.out).unwrap();
        let of = |list: &Value, id: &str| {
            let pairs = list
                .as_array()
                .unwrap()
                .iter()
                .map(|row| (row.pointer(id).unwrap().clone(), row["state"].clone()));
            let mut pairs: Vec<_> =
                pairs.map(|(id, state)| format!("{id} {state}").replace('"', "")).collect();
            pairs.sort();
            pairs
        };
        let (api, cli) = (of(&api["sessions"], "/id"), of(&cli, "/agent/id"));
        assert_eq!(api, cli, "one word for one thing");
        api
    };
    let names = ["idle", "working", "blocked", "limit", "killed", "gone", "retired"];
    let clients: Vec<Client<'_>> = names.iter().map(|_| Client::new(&home)).collect();
    let ids: Vec<String> = clients
        .iter()
        .map(|client| {
            client.starts("startup").ok();
            client.agent()
        })
        .collect();
    for (client, name) in clients.iter().zip(names) {
        if name != "idle" {
            client.hook("UserPromptSubmit").ok();
        }
        match name {
            "blocked" => drop(client.hook("PermissionRequest").ok()),
            "limit" => drop(client.hook_with("StopFailure", json!({ "error": "rate_limit" })).ok()),
            "gone" => drop(client.hook("SessionEnd").ok()),
            _ => {}
        }
    }
    home.run(&format!("retire {}", ids[6])).ok();
    let mut clients = clients;
    clients.truncate(4);
    wait_until("the ends are seen", || served.get(&format!("/sessions/{}", ids[4]))["state"] == "ended");
    let mut expected: Vec<String> = ids
        .iter()
        .zip(["idle", "working", "blocked", "limit", "ended", "ended", "retired"])
        .map(|(id, state)| format!("{id} {state}"))
        .collect();
    expected.sort();
    wait_until("the same words", || states(false) == expected);
    // A message to a retired agent is refused; an agent that has ended may come back.
    let refused = home.run(&format!("send {} hello", ids[6])).fails(1);
    assert!(refused.contains("was retired and reads nothing any more"), "{refused}");
    home.run(&format!("send {} hello", ids[5])).ok();
    // Two days later.
    for id in &ids[5..] {
        let path = home.state().join(format!("agents/{id}.json"));
        let mut record: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        record["ended"] = json!(jiff::Timestamp::now() - jiff::SignedDuration::from_hours(48));
        std::fs::write(&path, record.to_string()).unwrap();
    }
    let listed: Vec<String> =
        states(false).iter().map(|row| row.split(' ').next().unwrap().to_owned()).collect();
    assert!(!listed.contains(&ids[5]) && !listed.contains(&ids[6]), "{listed:?}");
    assert!(listed.contains(&ids[4]), "it ended today: {listed:?}");
    assert_eq!(states(true).len(), 7);
}
