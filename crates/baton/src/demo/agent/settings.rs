//! Where the client finds hooks and the status line: settings of user, project and command line, and plugins' hooks.
//! Read again at every event, because the client reloads them while it runs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

/// One hook for an event.
#[derive(Debug, Clone)]
pub(super) struct Hook {
    pub command: String,
    /// If given, exec `command` with these; otherwise run `command` in a shell.
    pub args: Option<Vec<String>>,
    pub timeout: Option<Duration>,
    /// The plugin's folder, if it comes from one.
    pub root: Option<PathBuf>,
}

#[derive(Debug, Clone)]
pub(super) struct StatusLine {
    pub command: String,
}

/// The places to search, most general first.
pub(super) struct Sources {
    pub config_dir: PathBuf,
    pub project: PathBuf,
    pub plugin_dirs: Vec<PathBuf>,
    /// Files, or inline JSON.
    pub extra: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Settings {
    hooks: serde_json::Map<String, Value>,
    status_line: Option<Value>,
    disable_all_hooks: bool,
}

#[derive(Deserialize)]
struct Group {
    #[serde(default)]
    matcher: Option<String>,
    #[serde(default)]
    hooks: Vec<Value>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    command: String,
    #[serde(default)]
    args: Option<Vec<String>>,
    #[serde(default)]
    timeout: Option<f64>,
}

impl Sources {
    /// The hooks of `event`; `subject` is what its matchers match against: a tool, a source, a trigger.
    pub(super) fn hooks(&self, event: &str, subject: &str) -> Vec<Hook> {
        let settings = self.settings();
        if settings.iter().any(|s| s.disable_all_hooks) {
            return Vec::new();
        }
        let plugins = self.plugins().into_iter().map(|root| {
            let settings = read(&root.join("hooks/hooks.json"));
            (settings, Some(root))
        });
        let mut hooks = Vec::new();
        for (settings, root) in settings.into_iter().map(|s| (s, None)).chain(plugins) {
            let groups = settings.hooks.get(event).and_then(Value::as_array).cloned().unwrap_or_default();
            for group in groups.into_iter().filter_map(|g| serde_json::from_value::<Group>(g).ok()) {
                if !matches(group.matcher.as_deref(), subject) {
                    continue;
                }
                let entries = group.hooks.into_iter().filter_map(|e| serde_json::from_value::<Entry>(e).ok());
                hooks.extend(entries.filter(|e| e.kind == "command").map(|e| Hook {
                    command: e.command,
                    args: e.args,
                    timeout: e.timeout.filter(|t| *t > 0.0).map(Duration::from_secs_f64),
                    root: root.clone(),
                }));
            }
        }
        hooks
    }

    /// The most specific status line. A plugin cannot have one.
    pub(super) fn status_line(&self) -> Option<StatusLine> {
        let line = self.settings().into_iter().rev().find_map(|s| s.status_line)?;
        Some(StatusLine { command: line.get("command")?.as_str()?.to_owned() })
    }

    fn settings(&self) -> Vec<Settings> {
        let project = self.project.join(".claude");
        let files = [
            self.config_dir.join("settings.json"),
            project.join("settings.json"),
            project.join("settings.local.json"),
        ];
        let mut settings: Vec<Settings> = files.iter().map(|path| read(path)).collect();
        settings.extend(self.extra.iter().map(|text| {
            if text.trim_start().starts_with('{') {
                serde_json::from_str(text).unwrap_or_default()
            } else {
                read(Path::new(text))
            }
        }));
        settings
    }

    fn plugins(&self) -> Vec<PathBuf> {
        let skills = std::fs::read_dir(self.config_dir.join("skills")).into_iter().flatten().flatten();
        let mut found: Vec<PathBuf> =
            skills.map(|e| e.path()).filter(|dir| dir.join(".claude-plugin/plugin.json").is_file()).collect();
        found.sort();
        found.extend(self.plugin_dirs.iter().cloned());
        found
    }
}

/// Treats missing or broken settings as empty, as the client does.
fn read(path: &Path) -> Settings {
    std::fs::read(path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}

/// Words separated by `|`, each whole or ending in `.*`; empty and `*` match everything. The client accepts any regular
/// expression, but people write these.
fn matches(matcher: Option<&str>, subject: &str) -> bool {
    let matcher = matcher.unwrap_or_default();
    matches!(matcher, "" | "*" | ".*")
        || matcher.split('|').any(|word| match word.strip_suffix(".*") {
            Some(start) => subject.starts_with(start),
            None => subject == word,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matchers_are_words_with_bars_between_them() {
        for (matcher, subject, is) in [
            (None, "Bash", true),
            (Some("*"), "Bash", true),
            (Some("Edit|Write"), "Write", true),
            (Some("Edit|Write"), "WriteAll", false),
            (Some("mcp__.*"), "mcp__x", true),
            (Some("startup"), "clear", false),
        ] {
            assert_eq!(matches(matcher, subject), is, "{matcher:?} {subject}");
        }
    }
}
