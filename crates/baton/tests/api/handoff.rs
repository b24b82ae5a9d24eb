//! A handoff that an agent schedules through the endpoint (seed 004).

use baton_testkit::Home;
use baton_testkit::daemon::Served;
use baton_testkit::hooks::Client;
use serde_json::{Value, json};

use super::started;
use crate::BATON;

#[test]
fn a_handoff_is_scheduled_by_the_agent_itself_and_carried_out_when_its_turn_ends() {
    let home = Home::new(BATON);
    let client = started(&home);
    let served = Served::new(&home);
    client.answers(50_000);
    client.hook("UserPromptSubmit").ok();
    let first = home.write("first.md", "# First\nNot this one.");
    let last = home.write("last.md", "# Last\nThe next step is the parser.");
    for path in [&first, &last] {
        let body = json!({ "requester_session_id": "app", "file_path": path });
        assert_eq!(served.post("/sessions/app/handoff", &body), json!({ "status": "scheduled" }));
    }
    assert_eq!(served.get("/sessions/app")["pending_handoff_path"], json!(last));
    assert_eq!(served.get("/sessions/app")["last_handoff_path"], Value::Null);
    client.hook("Stop").ok();
    let agent = served.get("/sessions/app");
    let document = std::fs::read_to_string(agent["last_handoff_path"].as_str().unwrap()).unwrap();
    assert!(
        document.contains("The next step is the parser.") && !document.contains("Not this one"),
        "last wins"
    );
    assert_eq!(agent["pending_handoff_path"], Value::Null);
}

#[test]
fn a_handoff_for_another_session_without_a_file_or_of_nobody_is_refused_with_the_seeds_words() {
    let home = Home::new(BATON);
    let client = started(&home);
    let other = Client::new(&home);
    other.starts("startup").silent();
    let served = Served::new(&home);
    let file = home.write("handoff.md", "# Words");
    let ask = |id: &str, requester: &str, path: &std::path::Path| {
        let body = json!({ "requester_session_id": requester, "file_path": path });
        let answered = served.ask("POST", &format!("/sessions/{id}/handoff"), Some(&body));
        (answered.status, answered.json()["error"].as_str().unwrap_or_default().to_owned())
    };
    let words = "sm handoff is self-directed only — requester must equal target session";
    assert_eq!(ask("app", "app-oak", &file), (403, words.into()));
    assert_eq!(ask("nobody", "nobody", &file), (404, "Session nobody not found".into()));
    let missing = home.path().join("nonexistent.md");
    assert_eq!(ask("app", "app", &missing), (422, format!("File not found: {}", missing.display())));
    assert_eq!(ask("app", "app", std::path::Path::new("/dev/zero")).0, 422);
    assert_eq!(ask("app", &client.session, &file).0, 200, "its conversation is the agent itself");
    // A codex-app session has no terminal to clear.
    let path = home.state().join("agents/app-oak.json");
    let record = std::fs::read_to_string(&path).unwrap().replace("\"claude\"", "\"codex-app\"");
    std::fs::write(&path, record).unwrap();
    let words = "sm handoff is not supported for codex-app sessions";
    assert_eq!(ask("app-oak", "app-oak", &file), (409, words.into()));
}
