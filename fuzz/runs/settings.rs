//! Any bytes as a client's settings: after an edit they hold what is wanted, and taken out again nothing of ours is left.

use super::grown;
use baton::testing::install::ours::{self, HookProgram};
use baton::testing::install::settings::{WantedEntries, add, holds, look, remove};
use baton::testing::install::trust::{entries, give, take_back};

pub fn run(input: &[u8]) {
    let bytes = grown(input);
    if let Ok(config) = std::str::from_utf8(&bytes) {
        let ours = serde_json::json!({ "hooks": { "SessionStart": [
            { "hooks": [{ "type": "command", "command": "'/x/baton' hook --provider codex SessionStart" }] }
        ] } });
        let entries = entries("/hooks.json", &ours);
        if let Ok(given) = give(config, &entries) {
            let keys: Vec<String> = entries.iter().map(|entry| entry.key.clone()).collect();
            take_back(&given, &keys).expect("it was just written");
        }
    }
    let Ok(found) = look(&bytes) else { return };
    if found.has_ours() || !found.rules.is_empty() || !found.denied.is_empty() {
        return;
    }
    let program = HookProgram::At("/home/me/.local/bin/baton".to_owned());
    let wanted = WantedEntries {
        hooks: Some(program.hooks()),
        statusline: Some(program.statusline(None)),
        rules: ours::AGENT_RULES.to_vec(),
        denied: ours::DENIED.to_vec(),
    };
    let Ok((edited, undo)) = add(&bytes, &wanted) else { return };
    assert_eq!(holds(&edited, &wanted), Ok(true));
    let restored = remove(&edited, &undo).expect("it was just written");
    let left = look(&restored).expect("it was just written");
    assert!(!left.has_ours() && left.rules.is_empty() && left.denied.is_empty());
    assert_eq!(left.statusline, found.statusline);
}
