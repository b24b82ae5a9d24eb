//! Without an install, `run` brings its own plugin folder, so that the agent's hooks speak to us all the same.

use std::path::PathBuf;

use serde_json::json;

use crate::install::ours::EVENTS;
use crate::providers::{Integration, Provider};
use crate::store::Store;
use crate::sys::fs::{self, PRIVATE, Sync};

/// The arguments that load our hooks, where none are installed.
pub fn args(store: &Store, provider: &Provider) -> anyhow::Result<Vec<String>> {
    let Integration::PluginDir(option) = provider.integration else { return Ok(Vec::new()) };
    if crate::install::hooks_apply(&store.claude, &std::env::current_dir()?) {
        return Ok(Vec::new());
    }
    let dir = folder(store)?;
    Ok(vec![option.to_owned(), dir.display().to_string()])
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
        .map(|(event, timeout)| {
            let hook =
                json!({ "type": "command", "command": program, "args": ["hook", event], "timeout": timeout });
            ((*event).to_owned(), json!([{ "hooks": [hook] }]))
        })
        .collect();
    let files = [
        (".claude-plugin/plugin.json", serde_json::to_string_pretty(&plugin)?),
        (
            "hooks/hooks.json",
            serde_json::to_string_pretty(&json!({ "hooks": hooks, "modules": ["./register.js"] }))?,
        ),
        ("hooks/register.js", crate::companion::module(&program.display().to_string())),
    ];
    for (name, text) in files {
        let path = dir.join(name);
        // Clients that run watch this folder and load it anew when it is written; only a change is one.
        if fs::read(&path, 1 << 20)?.is_none_or(|known| known != text.as_bytes()) {
            fs::replace(&path, text.as_bytes(), PRIVATE, Sync::No)?;
        }
    }
    Ok(dir)
}
