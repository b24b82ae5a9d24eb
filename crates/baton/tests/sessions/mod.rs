//! Past conversations, and the handoff that one of them would give.

mod bad_input;
mod list;
pub mod made;
mod mirrored;
mod picker;
mod resume;
mod search;
mod tree;

use baton_testkit::Home;
use baton_testkit::hooks::Client;
use serde_json::json;

use crate::BATON;

/// A session with a request, a rule, a failed test, a secret and a control character.
fn worked(client: &Client<'_>) {
    client.starts("startup").silent();
    let user =
        |text: &str| json!({ "type": "user", "uuid": "u1", "message": { "role": "user", "content": text } });
    client.record(&user("Port the parser. Never change the grammar.\u{1b}[31m"));
    let secret = ["ghp", "_", &"a1B2".repeat(9)].concat();
    let call = json!({ "type": "tool_use", "id": "t1", "name": "Bash", "input": { "command": format!("GITHUB_TOKEN={secret} cargo test parser") } });
    client.record(&json!({ "type": "assistant", "uuid": "a1", "message": { "id": "m1", "role": "assistant",
        "model": "claude-opus-4-6", "content": [call], "usage": { "input_tokens": 9, "output_tokens": 9 } } }));
    let result = json!({ "type": "tool_result", "tool_use_id": "t1", "is_error": true, "content": "Exit code 101\ntest parser::nested ... FAILED" });
    client
        .record(&json!({ "type": "user", "uuid": "u2", "message": { "role": "user", "content": [result] } }));
}

#[test]
fn a_draft_is_what_would_be_sealed_now_without_secrets_and_seals_nothing() {
    let home = Home::in_memory(BATON);
    let client = Client::new(&home);
    worked(&client);
    let draft = home.run("handoffs draft").ok();
    for words in ["Never change the grammar.", "cargo test parser", "parser::nested ... FAILED", "[REDACTED:"]
    {
        assert!(draft.contains(words), "{words} is missing: {draft}");
    }
    assert!(!draft.contains("a1B2a1B2") && !draft.contains('\u{1b}'), "{draft}");
    assert_eq!(home.run("handoffs draft").ok(), draft, "the same transcript gives the same bytes");
    assert!(home.run("handoffs").code == Some(3), "a draft is not sealed");
    let short = home.run(&format!("handoffs draft {} --budget 600", &client.session[..8])).ok();
    assert!(short.chars().count() <= 601 && short.contains("Never change the grammar."), "{short}");
    let value = home.run("handoffs draft --json").json();
    assert!(value["ledger"]["words"].is_object(), "{value}");
}

#[test]
fn a_session_is_shown_by_the_beginning_of_its_id_or_by_its_transcript() {
    let home = Home::in_memory(BATON);
    let client = Client::new(&home);
    worked(&client);
    let short = &client.session[..8];
    let facts = home.run(&format!("sessions show {short}")).ok();
    assert!(facts.contains(&client.session) && facts.contains("Never change the grammar."), "{facts}");
    let turns = home.run(&format!("sessions show {short} --turns")).ok();
    let who: Vec<_> = turns.lines().map(|l| l.split(' ').next().unwrap()).collect();
    assert_eq!(who, ["user", "tool", "failed"], "{turns}");
    assert!(!turns.contains("a1B2a1B2"), "{turns}");
    let path = client.transcript().display().to_string();
    assert_eq!(home.run(&format!("sessions show {path} --raw")).ok().lines().count(), 3);
    assert!(home.run(&format!("sessions show {path} --turns --json")).json().as_array().unwrap().len() == 3);
    assert!(home.run("sessions show nothing-like-it").fails(3).contains("was found"), "a wrong id is told");
}

#[test]
fn a_draft_from_an_unreadable_transcript_says_so() {
    let home = Home::in_memory(BATON);
    let path = home.write("garbage.jsonl", vec![0xff_u8, 0x00, b'\n', b'{', b'"', b'\n']);
    let draft = home.run(&format!("handoffs draft {}", path.display())).ok();
    assert!(draft.contains("could not be read"), "{draft}");
}
