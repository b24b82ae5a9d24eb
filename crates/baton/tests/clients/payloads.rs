//! Hooks that record what a client sends them.

use std::path::{Path, PathBuf};

use anyhow::Result;
use baton_testkit::clients::ClientHome;
use serde_json::{Map, Value, json};

/// A folder in the home where every payload becomes a file.
pub(super) struct Recorder {
    dir: PathBuf,
}

/// What one hook was sent.
pub(super) struct Payload {
    pub(super) event: String,
    pub(super) body: String,
    pub(super) value: Value,
}

impl Recorder {
    pub(super) fn new(place: &ClientHome) -> Result<Self> {
        let dir = place.home().join("payloads");
        std::fs::create_dir_all(&dir)?;
        Ok(Self { dir })
    }

    /// The command that records a payload of this event.
    pub(super) fn command(&self, event: &str) -> String {
        format!("cat > {}/{event}.$$.json", self.dir.display())
    }

    /// Such a hook for every event, in the form of the clients' settings.
    pub(super) fn hooks(&self, events: &[&str]) -> Map<String, Value> {
        let hook =
            |event: &&str| json!([{ "hooks": [{ "type": "command", "command": self.command(event) }] }]);
        events.iter().map(|event| ((*event).to_owned(), hook(event))).collect()
    }

    /// Whether a payload of this event has arrived.
    pub(super) fn has(&self, event: &str) -> Result<Option<()>> {
        let paths = self.paths()?;
        Ok(paths.iter().any(|path| event_of(path) == event).then_some(()))
    }

    /// All payloads so far. If the client ended a hook in the middle of its input, the file is incomplete and is left
    /// out.
    pub(super) fn payloads(&self) -> Result<Vec<Payload>> {
        let mut payloads = Vec::new();
        for path in self.paths()? {
            let body = std::fs::read_to_string(&path)?;
            if let Ok(value) = serde_json::from_str(&body) {
                payloads.push(Payload { event: event_of(&path), body, value });
            }
        }
        Ok(payloads)
    }

    fn paths(&self) -> Result<Vec<PathBuf>> {
        Ok(std::fs::read_dir(&self.dir)?.flatten().map(|entry| entry.path()).collect())
    }
}

fn event_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.split('.').next().unwrap_or_default().to_owned()
}

/// Asserts that our wire types know every field that arrived.
#[track_caller]
pub(super) fn assert_known(mut unknown: Vec<String>) {
    unknown.sort();
    unknown.dedup();
    assert!(unknown.is_empty(), "the client sends what our wire types do not know: {unknown:#?}");
}
