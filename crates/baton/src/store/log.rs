//! `log/{date}.jsonl`: every event with the stamp of whoever saw it. For history, audit and charts.

use std::path::{Path, PathBuf};

use baton_core::ids::{AgentId, ChannelName, SessionId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::sys::fs::{self, FileError, PRIVATE};

/// One line of the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    pub at: Timestamp,
    pub event: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<ChannelName>,
    /// What else belongs to the event: tokens, level, handoff, error.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub detail: Value,
}

impl Line {
    pub fn new(at: Timestamp, event: impl Into<String>) -> Self {
        Self { at, event: event.into(), session: None, agent: None, channel: None, detail: Value::Null }
    }
}

pub fn folder(state: &Path) -> PathBuf {
    state.join("log")
}

/// Appends one line. Nobody waits for it and nobody fails because of it.
pub fn append(state: &Path, line: &Line) {
    let _ = try_append(state, line);
}

fn try_append(state: &Path, line: &Line) -> Result<(), FileError> {
    let day = jiff::tz::Offset::UTC.to_datetime(line.at).date();
    let path = folder(state).join(format!("{day}.jsonl"));
    let mut bytes = serde_json::to_vec(line).map_err(|e| FileError::new("encode", &path, e))?;
    bytes.push(b'\n');
    match fs::append_line(&path, &bytes, PRIVATE) {
        Err(e) if e.source.kind() == std::io::ErrorKind::NotFound => {
            fs::private_dir(&folder(state))?;
            fs::append_line(&path, &bytes, PRIVATE)
        }
        other => other,
    }
}
