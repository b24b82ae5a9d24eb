//! The parts of Claude Code's own settings that baton must know.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::sys::fs;
use crate::sys::paths::Paths;

/// The compaction settings in Claude Code's files.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CompactionKeys {
    /// `autoCompactEnabled`, from the most specific file that has it.
    pub enabled: Option<bool>,
    /// Whether there is a key about compaction that we do not know, or may be in a file that cannot be read.
    pub unknown: bool,
}

pub(crate) fn compaction(paths: &Paths, cwd: &Path) -> CompactionKeys {
    const ENABLED: &str = "autoCompactEnabled";
    let project = cwd.join(".claude");
    let files = [
        project.join("settings.local.json"),
        project.join("settings.json"),
        paths.claude.join("settings.json"),
    ];
    let mut found = CompactionKeys::default();
    for path in &files {
        let Ok(settings) = read_object(path) else {
            // It may have the key.
            found.unknown = true;
            continue;
        };
        for (key, value) in settings {
            if key == ENABLED {
                found.enabled = found.enabled.or(value.as_bool());
            } else if key.to_ascii_lowercase().contains("compact") {
                found.unknown = true;
            }
        }
    }
    found
}

/// The fields of a JSON file that a link may lead to; none if there is no file.
fn read_object(path: &Path) -> anyhow::Result<serde_json::Map<String, serde_json::Value>> {
    let real = match std::fs::canonicalize(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(serde_json::Map::new()),
        real => real?,
    };
    let bytes = fs::read(&real, 4 << 20)?;
    Ok(bytes.map(|bytes| serde_json::from_slice(&bytes)).transpose()?.unwrap_or_default())
}

/// The MCP servers in a file of the client, for everybody or for one project.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct McpServers {
    mcp_servers: BTreeMap<String, serde_json::Value>,
    projects: BTreeMap<PathBuf, McpServers>,
}

impl McpServers {
    fn read(path: &Path) -> Self {
        // The client keeps much else in the user's file, so it may be large.
        let bytes = fs::read(path, 32 << 20).ok().flatten();
        bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
    }

    fn has(&self, name: &str) -> bool {
        self.mcp_servers.iter().any(|(key, server)| key.contains(name) || server.to_string().contains(name))
    }
}

/// Whether the memory-keeper MCP server, whose `context_get` the first scripts called, is configured for this folder:
/// in the user's scope, in a local scope or in a project's `.mcp.json`, here or above.
pub(crate) fn has_memory_keeper(paths: &Paths, cwd: &Path) -> bool {
    const NAME: &str = "memory-keeper";
    let users = McpServers::read(&paths.client_state());
    let here_or_above = |dir: &Path| {
        users.projects.get(dir).is_some_and(|p| p.has(NAME))
            || McpServers::read(&dir.join(".mcp.json")).has(NAME)
    };
    users.has(NAME) || cwd.ancestors().any(here_or_above)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(home: &Path) -> Paths {
        Paths {
            home: home.to_owned(),
            claude: home.join(".claude"),
            state: home.join("state"),
            config: home.join("config.toml"),
        }
    }

    #[test]
    fn settings_that_cannot_be_read_may_say_anything_about_compaction() {
        let home = tempfile::tempdir().unwrap();
        let at = |path: &str| home.path().join(path);
        let paths = paths(home.path());
        std::fs::create_dir_all(at("app/.claude")).unwrap();
        assert!(!compaction(&paths, &at("app")).unknown);
        std::fs::write(at("app/.claude/settings.json"), r#"{"autoCompactEnabled": false}"#).unwrap();
        let read = compaction(&paths, &at("app"));
        assert_eq!((read.enabled, read.unknown), (Some(false), false));
        std::fs::create_dir(at("app/.claude/settings.local.json")).unwrap();
        let read = compaction(&paths, &at("app"));
        assert_eq!((read.enabled, read.unknown), (Some(false), true));
    }

    #[test]
    fn the_memory_server_is_found_in_every_scope_and_from_below() {
        let home = tempfile::tempdir().unwrap();
        let at = |path: &str| home.path().join(path);
        let paths = paths(home.path());
        let below = at("app/src/deep");
        std::fs::create_dir_all(&below).unwrap();
        let server = r#"{"mcpServers":{"mem":{"command":"npx","args":["mcp-memory-keeper"]}}}"#;
        assert!(!has_memory_keeper(&paths, &below));

        std::fs::write(at("app/.mcp.json"), server).unwrap();
        assert!(has_memory_keeper(&paths, &below), "a project's, from a folder below it");
        assert!(!has_memory_keeper(&paths, &at("other")));

        std::fs::write(at("app/.mcp.json"), "{}").unwrap();
        let local = format!(
            r#"{{"projects":{{"{}":{server},"/elsewhere":{{"allowedTools":[]}}}}}}"#,
            at("app").display()
        );
        std::fs::write(at(".claude.json"), local).unwrap();
        assert!(has_memory_keeper(&paths, &below), "in the local scope");
        assert!(!has_memory_keeper(&paths, &at("other")));

        std::fs::write(at(".claude.json"), server).unwrap();
        assert!(has_memory_keeper(&paths, &at("other")), "in the user's scope");
        std::fs::write(at(".claude.json"), "not JSON: memory-keeper").unwrap();
        assert!(!has_memory_keeper(&paths, &at("other")));
    }
}
