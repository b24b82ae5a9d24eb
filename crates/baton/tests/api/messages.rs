//! Mail through the API.

use baton_testkit::Home;
use baton_testkit::daemon::Served;
use serde_json::{Value, json};

use super::started;
use crate::BATON;

#[test]
fn messages_are_accepted_listed_and_sent_once_per_key() {
    let home = Home::new(BATON);
    let client = started(&home);
    let served = Served::new(&home);
    let letter = json!({ "text": "hello", "from": "user", "urgency": "important", "key": "k-1" });
    let sent = served.post("/sessions/app/messages", &letter);
    assert_eq!(sent["state"], "queued");
    let again = served.post("/sessions/app/messages", &letter);
    assert_eq!((&again["id"], &again["state"]), (&sent["id"], &json!("known")));
    let heard = client.hook("PostToolUse").context().unwrap();
    assert_eq!(heard.matches("hello").count(), 1, "{heard}");
    assert!(heard.contains(" from user] "), "{heard}");
    let third = served.post("/sessions/app/messages", &letter);
    assert_eq!(third["state"], "known", "a delivered one is not sent again");
    client.hook("PostToolUse").silent();
    let list = served.get("/sessions/app/messages");
    assert_eq!(list["messages"][0]["state"], "delivered");
    let status = |body: &Value| served.ask("POST", "/sessions/app/messages", Some(body)).status;
    assert_eq!(status(&json!({ "text": " " })), 422);
    assert_eq!(status(&json!({ "text": "x", "from": "../x" })), 422);
    assert_eq!(status(&json!({ "text": "x", "key": "../x" })), 422);
    assert_eq!(status(&json!({ "text": "x", "urgency": "whenever" })), 422);
    assert_eq!(served.ask("POST", "/sessions/nobody/messages", Some(&json!({ "text": "x" }))).status, 404);
}

/// Whoever creates a mailbox also syncs it to disk; the daemon only waits for its queue.
#[test]
fn a_mailbox_that_is_half_made_is_left_alone_and_its_mail_is_seen() {
    let home = Home::new(BATON);
    let _client = started(&home);
    let served = Served::new(&home);
    assert_eq!(served.get("/sessions/app")["mail"], 0);
    let mailbox = home.state().join("mail/app");
    std::fs::create_dir_all(&mailbox).unwrap();
    assert_eq!(served.get("/sessions/app")["mail"], 0);
    assert!(!mailbox.join("new").exists(), "the daemon has made it");
    for n in 1..=3 {
        home.run("send app hello").ok();
        assert_eq!(served.get("/sessions/app")["mail"], n);
    }
}

#[test]
fn a_list_of_messages_says_what_it_leaves_out_and_refuses_what_it_does_not_understand() {
    let home = Home::new(BATON);
    let _client = started(&home);
    let served = Served::new(&home);
    let large = "x".repeat((1 << 20) - 4096);
    for text in ["first", "second", &large, &large, &large, &large, &large] {
        served.post("/sessions/app/messages", &json!({ "text": text }));
    }
    let list = |query: &str| served.ask("GET", &format!("/sessions/app/messages{query}"), None);
    let shown = |query: &str| {
        let list = list(query).json();
        (list["messages"].as_array().unwrap().len(), list["left_out"].as_u64().unwrap())
    };
    assert_eq!(shown(""), (4, 3), "an answer has at most 4 MiB of text");
    assert_eq!(shown("?limit=1"), (1, 6));
    assert_eq!(shown("?limit=0"), (0, 7));
    assert_eq!(shown("?state=delivered"), (0, 0));
    for query in ["?limit=-1", "?limit=many", "?limit=", "?state=lost", "?state="] {
        assert_eq!(list(query).status, 422, "{query}");
    }
}
