//! `log/{date}.jsonl`: every event, with the time at which it was seen. For history, audit and charts.

use std::path::{Path, PathBuf};

use baton_core::ids::{AgentId, ChannelName, SessionId};
use baton_core::plain::plain;
use baton_core::redact::redact;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::store::record;
use crate::sys::fs::{self, FileError, PRIVATE};

/// One line of the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LogLine {
    pub at: Timestamp,
    pub event: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<ChannelName>,
    /// Further data of the event: tokens, level, handoff, error.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub detail: Value,
}

impl LogLine {
    pub fn new(at: Timestamp, event: impl Into<String>) -> Self {
        Self { at, event: event.into(), session: None, agent: None, channel: None, detail: Value::Null }
    }

    /// A failure of ours while `doing` something.
    pub fn fault(at: Timestamp, doing: &str, error: &dyn std::fmt::Display) -> Self {
        let detail = json!({ "doing": doing, "error": redact(&plain(&format!("{error:#}"))).text });
        Self { detail, ..Self::new(at, "fault") }
    }
}

pub struct Log {
    dir: PathBuf,
}

impl Log {
    /// The log in the state folder that `dir` is in.
    pub(crate) fn beside(dir: &Path) -> Self {
        Self::new(dir.parent().unwrap_or(dir))
    }

    pub fn new(state: &Path) -> Self {
        Self { dir: state.join("log") }
    }

    pub fn folder(&self) -> &Path {
        &self.dir
    }

    /// The files of the log, one for each day, oldest first.
    pub(crate) fn days(&self) -> Vec<PathBuf> {
        let names = fs::sorted_names(&self.dir, |name| name.strip_suffix(".jsonl").is_some());
        names.iter().map(|name| self.dir.join(name)).collect()
    }

    /// Appends one line. Ignores failures, because logging must never make anything else fail.
    pub fn append(&self, line: &LogLine) {
        let _ = self.try_append(line);
    }

    pub fn fault(&self, at: Timestamp, doing: &str, error: &dyn std::fmt::Display) {
        self.append(&LogLine::fault(at, doing, error));
    }

    fn try_append(&self, line: &LogLine) -> Result<(), FileError> {
        let day = jiff::tz::Offset::UTC.to_datetime(line.at).date();
        let path = self.dir.join(format!("{day}.jsonl"));
        let bytes = record::encode(line).map_err(|e| FileError::new("encode", &path, e))?;
        match fs::append_line(&path, &bytes, PRIVATE) {
            Err(e) if e.source.kind() == std::io::ErrorKind::NotFound => {
                fs::private_dir(&self.dir)?;
                fs::append_line(&path, &bytes, PRIVATE)
            }
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_fault_is_kept_without_secrets() {
        let (one, other) = ("a1B2c3D4e5F6g7H8i9", "J0k1L2m3N4o5P6q7R8");
        for between in ["", "\u{200b}"] {
            let error = format!("could not use ghp_{one}{between}{other}: refused");
            let line = LogLine::fault(Timestamp::UNIX_EPOCH, "push", &error).detail.to_string();
            assert!(line.contains("refused") && !line.contains(one) && !line.contains(other), "{line}");
        }
    }
}
