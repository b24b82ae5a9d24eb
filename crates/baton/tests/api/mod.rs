//! The API as scripts meet it: shapes, ids, the latches, mail, events.

pub(crate) mod approvals;
mod context_usage;
mod events;
mod handoff;
mod messages;
mod scripts;
mod sessions;
mod views;

use baton_testkit::Home;
use baton_testkit::daemon::Served;
use baton_testkit::hooks::Client;
use serde_json::{Value, json};

pub fn started(home: &Home) -> Client<'_> {
    let client = Client::new(home);
    client.starts("startup").silent();
    client
}

pub fn usage(session: &str, percentage: u64) -> Value {
    json!({ "session_id": session, "used_percentage": percentage, "total_input_tokens": percentage * 2000,
        "total_output_tokens": 300, "context_window_size": 200_000 })
}

/// The texts of the messages that wait for an agent.
fn queued(served: &Served<'_>, agent: &str) -> Vec<(String, String)> {
    let list = served.get(&format!("/sessions/{agent}/messages?state=queued"));
    let text = |m: &Value, key: &str| m[key].as_str().unwrap().to_owned();
    list["messages"].as_array().unwrap().iter().map(|m| (text(m, "urgency"), text(m, "text"))).collect()
}
