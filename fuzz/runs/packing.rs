//! Any session and any text as an agent's own words: packed, they fit every budget from 200 to 60,000 characters.

use baton_core::handoff::pack::{pack, pack_document};
use baton_core::handoff::render::{narrative_of, render};
use baton_core::ledger::{Ledger, MAX_CARRIED};
use serde_json::{Value, json};

use super::grown_text;

/// A record for each piece of the input; the first letter of a piece says of what kind.
fn session(text: &str) -> String {
    let mut out = String::new();
    let mut add = |kind: &str, content: Value| {
        let message = json!({ "role": kind, "content": content });
        let record = json!({ "type": kind, "cwd": "/p", "sessionId": "s", "message": message });
        out.push_str(&record.to_string());
        out.push('\n');
    };
    for (n, piece) in text.split('\u{1}').enumerate() {
        let mut chars = piece.chars();
        let kind = chars.next().unwrap_or('u');
        let (a, b) = chars.as_str().split_once('\u{2}').unwrap_or((chars.as_str(), chars.as_str()));
        let (tool, input) = match kind {
            'u' => {
                add("user", json!(a));
                continue;
            }
            'a' => {
                add("assistant", json!([{ "type": "text", "text": a }]));
                continue;
            }
            's' | 'f' => ("Bash", json!({ "command": a })),
            'e' => ("Edit", json!({ "file_path": a, "old_string": "x", "new_string": b })),
            'g' => ("Grep", json!({ "pattern": a, "output_mode": "content" })),
            _ => ("Read", json!({ "file_path": a })),
        };
        let id = format!("t{n}");
        add("assistant", json!([{ "type": "tool_use", "id": id, "name": tool, "input": input }]));
        add(
            "user",
            json!([{ "type": "tool_result", "tool_use_id": id, "content": b, "is_error": kind == 'f' }]),
        );
    }
    out
}

pub fn run(input: &[u8]) {
    let [high, low, input @ ..] = input else { return };
    let budget = 200 + usize::from(u16::from_be_bytes([*high, *low])) * 59_800 / 65_535;
    let text = grown_text(input);
    assert!(pack_document(&text, budget, "/path").text.chars().count() <= budget);

    let ledger = Ledger::of(session(&text).as_bytes()).expect("memory can be read");
    let packed = pack(&ledger, None, budget, "/path");
    assert!(packed.text.chars().count() <= budget && packed.text.ends_with("/path"));
    assert!(pack(&ledger.carried(MAX_CARRIED), None, budget, "/path").text.chars().count() <= budget);
    assert!(pack(&ledger, Some(&text), budget, "/path").text.chars().count() <= budget);
    narrative_of(&render(&ledger, Some(&text)));
}
