//! Codex runs a hook only after its user has reviewed it. Consent is an entry in `config.toml` with the hash of the
//! hook's definition. This module reads it, gives it (if the user agrees) and takes it back.
//!
//! Pure: text in, text out. Keeps the file's layout, comments and order.

use baton_core::nesting::is_too_deep;
use serde_json::{Map, Value, json};
use toml_edit::{DocumentMut, Item, Table, TableLike};

use crate::setup::install::ours;
use crate::setup::install::settings::all_groups;
use crate::sys::hash::sha256;

/// A hook of ours in a hooks file, and the key of its trust.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookEntry {
    pub event: String,
    pub key: String,
    pub hash: String,
}

/// Whether the client runs a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookTrust {
    Trusted,
    /// Never reviewed.
    Untrusted,
    /// Reviewed, and changed since.
    Changed,
    /// Switched off by the user.
    Off,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TrustRefusal {
    #[error("it is not valid TOML: {0}")]
    Unparsable(String),
    #[error("{0} in it is not a table")]
    Shape(&'static str),
}

/// The client's default timeout.
const TIMEOUT: u64 = 600;

/// Our hooks in the hooks file `value`, which the client knows as `path`.
pub fn entries(path: &str, value: &Value) -> Vec<HookEntry> {
    let mut found = Vec::new();
    for (event, at, group) in all_groups(value) {
        let hooks = group.get("hooks").and_then(Value::as_array).into_iter().flatten();
        for (index, hook) in hooks.enumerate().filter(|(_, hook)| ours::is_hook(hook, event)) {
            let name = snake(event);
            let key = format!("{path}:{name}:{at}:{index}");
            found.push(HookEntry { event: event.to_owned(), key, hash: hash(&name, group, hook) });
        }
    }
    found
}

/// `PreToolUse` is stored as `pre_tool_use`.
fn snake(event: &str) -> String {
    let mut name = String::new();
    for c in event.chars() {
        if c.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(c.to_ascii_lowercase());
    }
    name
}

/// The hash of a definition as the client computes it: compact JSON, sorted keys, unset fields omitted.
fn hash(event: &str, group: &Value, hook: &Value) -> String {
    let mut definition = Map::new();
    definition.insert("async".into(), hook.get("async").cloned().unwrap_or(json!(false)));
    definition.insert("command".into(), hook.get("command").cloned().unwrap_or_default());
    definition.insert("timeout".into(), hook.get("timeout").cloned().unwrap_or(json!(TIMEOUT)));
    definition.insert("type".into(), hook.get("type").cloned().unwrap_or(json!("command")));
    for key in ["additionalContextLimit", "statusMessage"] {
        if let Some(value) = hook.get(key) {
            definition.insert(key.into(), value.clone());
        }
    }
    let mut whole = Map::new();
    whole.insert("event_name".into(), json!(event));
    whole.insert("hooks".into(), json!([definition]));
    if let Some(matcher) = group.get("matcher") {
        whole.insert("matcher".into(), matcher.clone());
    }
    // Sort explicitly, whatever features the JSON library was built with.
    format!("sha256:{}", sha256(sorted(&Value::Object(whole)).as_bytes()))
}

fn sorted(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            let fields: Vec<String> =
                keys.iter().map(|key| format!("{}:{}", json!(key), sorted(&map[*key]))).collect();
            format!("{{{}}}", fields.join(","))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(sorted).collect::<Vec<_>>().join(",")),
        other => other.to_string(),
    }
}

pub(super) fn parse(config: &str) -> Result<DocumentMut, TrustRefusal> {
    if is_too_deep(config) {
        return Err(TrustRefusal::Unparsable("its brackets nest too deep".to_owned()));
    }
    config.parse().map_err(|e: toml_edit::TomlError| TrustRefusal::Unparsable(e.message().trim().to_owned()))
}

fn state_of(config: &DocumentMut) -> Option<&dyn TableLike> {
    config.get("hooks")?.as_table_like()?.get("state")?.as_table_like()
}

/// Whether the client runs each hook, by its configuration.
pub fn states(config: &str, entries: &[HookEntry]) -> Result<Vec<HookTrust>, TrustRefusal> {
    let config = parse(config)?;
    let one = |entry: &HookEntry| {
        let kept = state_of(&config).and_then(|state| state.get(&entry.key)?.as_table_like());
        let Some(kept) = kept else { return HookTrust::Untrusted };
        if kept.get("enabled").and_then(Item::as_bool) == Some(false) {
            return HookTrust::Off;
        }
        match kept.get("trusted_hash").and_then(Item::as_str) {
            Some(hash) if hash == entry.hash => HookTrust::Trusted,
            Some(_) => HookTrust::Changed,
            None => HookTrust::Untrusted,
        }
    };
    Ok(entries.iter().map(one).collect())
}

/// The configuration with the user's consent to `entries`.
pub fn give(config: &str, entries: &[HookEntry]) -> Result<String, TrustRefusal> {
    let states = states(config, entries)?;
    let mut document = parse(config)?;
    let wanting: Vec<&HookEntry> =
        entries.iter().zip(states).filter(|(_, s)| *s != HookTrust::Trusted).map(|(e, _)| e).collect();
    if wanting.is_empty() {
        return Ok(config.to_owned());
    }
    let hooks = table(document.as_table_mut(), "hooks", "hooks")?;
    let state = table(hooks, "state", "hooks.state")?;
    for entry in wanting {
        if state.get(&entry.key).is_none() {
            state.insert(&entry.key, Item::Table(Table::new()));
        }
        let kept = state.get_mut(&entry.key).and_then(Item::as_table_like_mut);
        kept.ok_or(TrustRefusal::Shape("hooks.state"))?.insert("trusted_hash", toml_edit::value(&entry.hash));
    }
    Ok(document.to_string())
}

pub(super) fn table<'a>(
    parent: &'a mut dyn TableLike,
    name: &str,
    whole: &'static str,
) -> Result<&'a mut dyn TableLike, TrustRefusal> {
    if parent.get(name).is_none() {
        let mut table = Table::new();
        table.set_implicit(true);
        parent.insert(name, Item::Table(table));
    }
    parent.get_mut(name).and_then(Item::as_table_like_mut).ok_or(TrustRefusal::Shape(whole))
}

/// The configuration without the entries for `keys` and the tables that become empty.
pub fn take_back(config: &str, keys: &[String]) -> Result<String, TrustRefusal> {
    let mut document = parse(config)?;
    let Some(hooks) = document.get_mut("hooks").and_then(Item::as_table_like_mut) else {
        return Ok(config.to_owned());
    };
    let Some(state) = hooks.get_mut("state").and_then(Item::as_table_like_mut) else {
        return Ok(config.to_owned());
    };
    let removed = keys.iter().filter(|key| state.remove(key).is_some()).count();
    if removed == 0 {
        return Ok(config.to_owned());
    }
    if state.is_empty() {
        hooks.remove("state");
    }
    if hooks.is_empty() {
        document.remove("hooks");
    }
    Ok(document.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH_START: &str = "sha256:3147c60a2a626a655181bfcac3f71bd673fd08c2f8c791ea870ef177fe5eae06";
    const HASH_COMPACT: &str = "sha256:7a5008a8865f7b227d67b173b5813b45bf187741a273696d5137d815fdb2bb9b";

    fn file() -> Value {
        json!({ "hooks": {
            "SessionStart": [
                { "hooks": [{ "type": "command", "command": "other", "timeout": 5 }] },
                { "hooks": [{ "type": "command", "command": "'/x/baton' hook --provider codex SessionStart",
                    "timeout": 10, "additionalContextLimit": 16000 }] },
            ],
            "PreCompact": [{ "matcher": "auto", "hooks": [{ "type": "command", "command": "a", "timeout": 30 }] }],
        } })
    }

    #[test]
    fn the_hash_is_the_clients_own() {
        // As reported by the client's `hooks/list` (0.166.0) for these definitions.
        let entry = &entries("/h/hooks.json", &file())[0];
        assert_eq!(entry.key, "/h/hooks.json:session_start:1:0");
        assert_eq!(entry.hash, HASH_START);
        let group = &file()["hooks"]["PreCompact"][0];
        assert_eq!(hash("pre_compact", group, &group["hooks"][0]), HASH_COMPACT);
    }

    #[test]
    fn only_our_hooks_are_trusted_and_what_the_user_wrote_stays() {
        let entries = entries("/h/hooks.json", &file());
        assert_eq!(entries.len(), 1);
        let config = "# mine\nmodel = 'm'   # the model\n\n[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ntype = \"command\"\ncommand = \"x\"\n\n[projects.\"/p\"]\ntrust_level = \"trusted\"\n";
        let with = give(config, &entries).unwrap();
        insta::assert_snapshot!(with);
        assert_eq!(states(&with, &entries).unwrap(), [HookTrust::Trusted]);
        assert_eq!(give(&with, &entries).unwrap(), with, "a second time changes nothing");
        let keys: Vec<String> = entries.iter().map(|e| e.key.clone()).collect();
        assert_eq!(take_back(&with, &keys).unwrap(), config);
        assert_eq!(take_back(config, &keys).unwrap(), config);
        let from_nothing = give("", &entries).unwrap();
        assert_eq!(take_back(&from_nothing, &keys).unwrap(), "");
    }

    #[test]
    fn a_hook_that_changed_or_was_switched_off_does_not_count_as_trusted() {
        let entries = entries("/h/hooks.json", &file());
        let with = |text: &str| format!("[hooks.state.\"/h/hooks.json:session_start:1:0\"]\n{text}\n");
        let state = |config: &str| states(config, &entries).unwrap()[0];
        assert_eq!(state(""), HookTrust::Untrusted);
        assert_eq!(state(&with("trusted_hash = \"sha256:00\"")), HookTrust::Changed);
        assert_eq!(
            state(&with(&format!("enabled = false\ntrusted_hash = \"{HASH_START}\""))),
            HookTrust::Off
        );
        assert!(matches!(states("a = ", &entries), Err(TrustRefusal::Unparsable(_))));
        assert!(matches!(give("hooks = 3", &entries), Err(TrustRefusal::Shape("hooks"))));
    }
}
