//! Without an install, `run` brings its own plugin folder, so that the agent's hooks speak to us all the same.

use std::path::PathBuf;

use serde_json::json;

use crate::providers::Provider;
use crate::store::Store;
use crate::sys::fs::{self, PRIVATE, Sync};

const EVENTS: [&str; 14] = [
    "SessionStart",
    "UserPromptSubmit",
    "PostToolUse",
    "PostToolUseFailure",
    "Stop",
    "StopFailure",
    "PreCompact",
    "PostCompact",
    "SessionEnd",
    "Notification",
    "PermissionRequest",
    "SubagentStart",
    "SubagentStop",
    "PostModelSwitch",
];

/// The arguments that load our hooks, where none are installed.
pub fn args(store: &Store, provider: &Provider) -> anyhow::Result<Vec<String>> {
    if store.claude.join("skills/baton/hooks/hooks.json").exists() {
        return Ok(Vec::new());
    }
    let dir = folder(store)?;
    Ok(vec![provider.grammar.plugin_dir.to_owned(), dir.display().to_string()])
}

fn folder(store: &Store) -> anyhow::Result<PathBuf> {
    let dir = store.state.join("plugin");
    fs::private_dir(&dir.join(".claude-plugin"))?;
    fs::private_dir(&dir.join("hooks"))?;
    let program = std::env::current_exe()?;
    let plugin =
        json!({ "name": "baton", "version": env!("CARGO_PKG_VERSION"), "description": "baton's hooks" });
    let hooks: serde_json::Map<_, _> = EVENTS
        .iter()
        .map(|event| {
            let timeout = if matches!(*event, "SessionEnd" | "PreCompact") { 30 } else { 10 };
            let hook =
                json!({ "type": "command", "command": program, "args": ["hook", event], "timeout": timeout });
            ((*event).to_owned(), json!([{ "hooks": [hook] }]))
        })
        .collect();
    let files = [(".claude-plugin/plugin.json", plugin), ("hooks/hooks.json", json!({ "hooks": hooks, "modules": ["./register.js"] }))];
    let module = crate::companion::module(&program.display().to_string());
    fs::replace(&dir.join("hooks/register.js"), module.as_bytes(), PRIVATE, Sync::No)?;
    for (name, value) in files {
        let bytes = serde_json::to_vec_pretty(&value)?;
        fs::replace(&dir.join(name), &bytes, PRIVATE, Sync::No)?;
    }
    Ok(dir)
}
