//! What Claude Code's own settings say, as far as baton must know.

use std::path::Path;

use crate::paths::Paths;
use crate::sys::fs;

/// `autoCompactEnabled`, from the most specific settings file that has it.
pub fn auto_compact_enabled(paths: &Paths, cwd: &Path) -> Option<bool> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Settings {
        auto_compact_enabled: Option<bool>,
    }
    let project = cwd.join(".claude");
    [project.join("settings.local.json"), project.join("settings.json"), paths.claude.join("settings.json")]
        .iter()
        .find_map(|path| {
            let real = std::fs::canonicalize(path).ok()?;
            let bytes = fs::read(&real, 4 << 20).ok()??;
            serde_json::from_slice::<Settings>(&bytes).ok()?.auto_compact_enabled
        })
}

/// Is the memory-keeper MCP server, whose `context_get` the first scripts called, configured for this project?
pub fn has_memory_keeper(cwd: &Path) -> bool {
    fs::read(&cwd.join(".mcp.json"), 4 << 20)
        .ok()
        .flatten()
        .is_some_and(|bytes| memchr::memmem::find(&bytes, b"memory-keeper").is_some())
}
