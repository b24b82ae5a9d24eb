//! Codex's hook payload (0.166), as the client writes it on a hook's stdin, and the answers that Claude Code's hooks do
//! not have.
//!
//! No payload says how full the context is, but each names the rollout, which does. A subagent's event carries the root
//! thread's `session_id` and a separate `agent_id`.

pub mod app;
pub mod known;
mod server_request;

use std::borrow::Cow;

use serde::Deserialize;

use super::lax::{self, Later};

/// The client's events, as named in its schemas.
pub const EVENTS: [&str; 13] = [
    "SessionStart",
    "SessionEnd",
    "UserPromptSubmit",
    "PreToolUse",
    "PermissionRequest",
    "PostToolUse",
    "PreCompact",
    "PostCompact",
    "Stop",
    "SubagentStart",
    "SubagentStop",
    "Interrupt",
    "PreModelRequest",
];

/// What the client subtracts from total and window before it shows a percentage: its own instructions and tools.
pub const BASE_TOKENS: u64 = 12_000;

/// The input is not a payload of the client.
#[derive(Debug, thiserror::Error)]
pub enum NotAPayload {
    #[error("this is not a payload of Codex: it does not begin with an object")]
    NoObject,
    #[error("this is not a payload of Codex: {0}")]
    Json(#[from] serde_json::Error),
}

/// One event, borrowed from the input bytes.
#[derive(Debug, Clone, Deserialize)]
pub struct HookPayload<'a> {
    #[serde(default, borrow, deserialize_with = "lax::text")]
    pub hook_event_name: Option<Cow<'a, str>>,
    #[serde(default, borrow, deserialize_with = "lax::text")]
    pub session_id: Option<Cow<'a, str>>,
    #[serde(default, borrow, deserialize_with = "lax::text")]
    pub turn_id: Option<Cow<'a, str>>,
    #[serde(default, borrow, deserialize_with = "lax::text")]
    pub transcript_path: Option<Cow<'a, str>>,
    #[serde(default, borrow, deserialize_with = "lax::text")]
    pub cwd: Option<Cow<'a, str>>,
    #[serde(default, borrow, deserialize_with = "lax::text")]
    pub model: Option<Cow<'a, str>>,
    #[serde(default, borrow, deserialize_with = "lax::text")]
    pub permission_mode: Option<Cow<'a, str>>,
    /// Present only on a subagent's events.
    #[serde(default, borrow, deserialize_with = "lax::text")]
    pub agent_id: Option<Cow<'a, str>>,
    /// SessionStart: startup, resume, clear, compact. Fires with the first prompt, not at the start.
    #[serde(default, borrow, deserialize_with = "lax::text")]
    pub source: Option<Cow<'a, str>>,
    /// UserPromptSubmit.
    #[serde(default, borrow)]
    pub prompt: Option<Later<'a>>,
    /// Every tool event.
    #[serde(default, borrow, deserialize_with = "lax::text")]
    pub tool_name: Option<Cow<'a, str>>,
    /// `Stop` and `SubagentStop`.
    #[serde(default, deserialize_with = "lax::truth")]
    pub stop_hook_active: bool,
    #[serde(default, borrow)]
    pub last_assistant_message: Option<Later<'a>>,
    #[serde(default, borrow, deserialize_with = "lax::text")]
    pub agent_transcript_path: Option<Cow<'a, str>>,
    /// PreCompact, PostCompact: auto or manual.
    #[serde(default, borrow, deserialize_with = "lax::text")]
    pub trigger: Option<Cow<'a, str>>,
    /// SessionEnd; only ever seen as `other`.
    #[serde(default, borrow, deserialize_with = "lax::text")]
    pub reason: Option<Cow<'a, str>>,
}

/// Parses one payload. Accepts unknown fields and events; treats fields of an unexpected type as absent.
pub fn parse_hook(bytes: &[u8]) -> Result<HookPayload<'_>, NotAPayload> {
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(NotAPayload::NoObject);
    }
    Ok(serde_json::from_slice(bytes)?)
}

/// The answer to PreToolUse that keeps the tool from running; the model reads the reason.
pub fn refuse_tool(reason: &str) -> String {
    let decision = serde_json::json!({
        "hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": reason,
    });
    serde_json::json!({ "hookSpecificOutput": decision }).to_string()
}

/// The answer to PreCompact that holds the compaction back. It aborts the turn: an Interrupt follows and no Stop, and
/// while the context is over its limit every further prompt meets the same compaction first.
pub fn veto(reason: &str) -> String {
    serde_json::json!({ "continue": false, "stopReason": reason, "systemMessage": reason }).to_string()
}
