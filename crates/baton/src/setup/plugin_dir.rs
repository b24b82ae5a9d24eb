//! Without an install, `run` brings its own plugin folder, so that the agent's hooks still reach us.

use std::path::PathBuf;

use serde_json::json;

use crate::providers::{Integration, Provider};
use crate::setup::install::ours::EVENTS;
use crate::setup::install::{hooks_apply, plugin};
use crate::store::Store;
use crate::sys::fs::{self, PRIVATE, Sync};

/// The arguments that load our hooks if none are installed.
pub(crate) fn args(store: &Store, provider: &Provider) -> anyhow::Result<Vec<String>> {
    let Integration::PluginDir(option) = provider.integration else { return Ok(Vec::new()) };
    if hooks_apply(&store.claude, &std::env::current_dir()?) {
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
        ("hooks/register.js", plugin::module(&program.display().to_string(), &dir)),
    ];
    for (name, text) in files {
        let path = dir.join(name);
        // Running clients watch this folder and reload it when written, so write only changes.
        if fs::read(&path, 1 << 20)?.is_none_or(|known| known != text.as_bytes()) {
            fs::replace(&path, text.as_bytes(), PRIVATE, Sync::No)?;
        }
    }
    Ok(dir)
}
