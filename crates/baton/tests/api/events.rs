//! The stream of events.

use baton_testkit::Home;
use baton_testkit::daemon::{Served, Wire};
use serde_json::{Value, json};

use super::started;
use crate::BATON;

/// Reads the next complete event of a stream.
fn event(wire: &mut Wire) -> (String, String, Value) {
    let (mut id, mut name) = (String::new(), String::new());
    loop {
        let line = wire.line().unwrap();
        assert!(!line.starts_with(": still here"), "no event came for half a minute");
        if let Some(rest) = line.strip_prefix("id: ") {
            rest.trim_end().clone_into(&mut id);
        } else if let Some(rest) = line.strip_prefix("event: ") {
            rest.trim_end().clone_into(&mut name);
        } else if let Some(rest) = line.strip_prefix("data: ") {
            return (id, name, serde_json::from_str(rest).unwrap());
        }
    }
}

fn listen(served: &Served<'_>, path: &str, last: Option<&str>) -> Wire {
    let mut wire = served.unix();
    let last = last.map_or_else(String::new, |id| format!("Last-Event-ID: {id}\r\n"));
    wire.say(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{last}\r\n").as_bytes()).unwrap();
    let head = wire.hear_head().unwrap();
    assert_eq!((head.status, head.header("content-type").map(str::trim)), (200, Some("text/event-stream")));
    wire
}

/// When the view of an agent changes, the stream sends the agent as it is now.
#[test]
fn a_change_event_contains_the_agent_as_it_is_now() {
    let home = Home::new(BATON);
    let client = started(&home);
    let served = Served::new(&home);
    let mut wire = listen(&served, "/events?changes=true", None);
    let mut until = |what: &dyn Fn(&Value) -> bool| {
        loop {
            let (id, name, data) = event(&mut wire);
            if name == "agent-changed" {
                assert_eq!(id, "", "a reader cannot resume at something that is not in the log");
                if what(&data) {
                    return data;
                }
            }
        }
    };
    client.answers(104_000);
    client.hook("PostToolUse").ok();
    let agent = until(&|agent| agent["tokens"] == 104_000 && agent["state"] == "working");
    assert_eq!(agent, served.get("/sessions/app"));
    home.run("send app hello").ok();
    until(&|agent| agent["mail"] == 1);
    client.hook("SessionEnd").ok();
    until(&|agent| agent["state"] == "ended");
    assert_eq!(served.ask("GET", "/events?changes=perhaps", None).status, 422);
}

#[test]
fn events_come_as_they_happen_and_a_reader_continues_where_it_was() {
    let home = Home::new(BATON);
    let client = started(&home);
    let served = Served::new(&home);
    let mut wire = listen(&served, "/events?agent=app", None);
    client.hook("UserPromptSubmit").ok();
    let (id, name, data) = event(&mut wire);
    assert_eq!((name.as_str(), &data["agent"]), ("UserPromptSubmit", &json!("app")));
    drop(wire);
    client.hook("PostToolUse").ok();
    served.kill();
    client.hook("Stop").ok();
    let served = Served::new(&home);
    let mut wire = listen(&served, "/events?agent=app", Some(&id));
    assert_eq!(event(&mut wire).1, "PostToolUse");
    assert_eq!(event(&mut wire).1, "stop");
}
