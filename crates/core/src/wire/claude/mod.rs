//! Claude Code's hook payload, as the client writes it on a hook's stdin.
//!
//! One flat record for all events: the client itself builds them from a common head and a few fields, and a tagged enum
//! would have to buffer the whole payload before it knew its own tag. Fields that baton does not read (`tool_input`,
//! `tool_response` above all) are skipped undecoded; `known` lists them all.

pub mod known;
pub mod output;
pub mod permission;
pub mod statusline;

use std::borrow::Cow;

use serde::Deserialize;

use super::lax::{self, Later};

/// The client's events, as found in its binary (2.1.325).
pub const EVENTS: [&str; 33] = [
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PostToolBatch",
    "Notification",
    "UserPromptSubmit",
    "UserPromptExpansion",
    "SessionStart",
    "SessionEnd",
    "Stop",
    "StopFailure",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
    "PostCompact",
    "PreModelSwitch",
    "PostModelSwitch",
    "PermissionRequest",
    "PermissionDenied",
    "Setup",
    "TeammateIdle",
    "TaskCreated",
    "TaskCompleted",
    "Elicitation",
    "ElicitationResult",
    "ConfigChange",
    "WorktreeCreate",
    "WorktreeRemove",
    "InstructionsLoaded",
    "CwdChanged",
    "FileChanged",
    "DirectoryAdded",
    "MessageDisplay",
];

/// The input is not a payload of the client.
#[derive(Debug, thiserror::Error)]
pub enum NotAPayload {
    #[error("this is not a payload of Claude Code: it does not begin with an object")]
    NoObject,
    #[error("this is not a payload of Claude Code: {0}")]
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
    pub transcript_path: Option<Cow<'a, str>>,
    #[serde(default, borrow, deserialize_with = "lax::text")]
    pub cwd: Option<Cow<'a, str>>,
    #[serde(default, borrow, deserialize_with = "lax::text")]
    pub prompt_id: Option<Cow<'a, str>>,
    #[serde(default, borrow, deserialize_with = "lax::text")]
    pub permission_mode: Option<Cow<'a, str>>,
    /// Present only on a subagent's events.
    #[serde(default, borrow, deserialize_with = "lax::text")]
    pub agent_id: Option<Cow<'a, str>>,
    #[serde(default, borrow, deserialize_with = "lax::text")]
    pub agent_type: Option<Cow<'a, str>>,

    /// SessionStart, and others that baton does not read.
    #[serde(default, borrow, deserialize_with = "lax::text")]
    pub source: Option<Cow<'a, str>>,
    #[serde(default, borrow, deserialize_with = "lax::text")]
    pub model: Option<Cow<'a, str>>,
    /// SessionStart(resume, fork): the size of the resumed conversation.
    #[serde(default, deserialize_with = "lax::count")]
    pub context_tokens: Option<u64>,
    #[serde(default, borrow, deserialize_with = "lax::text")]
    pub session_title: Option<Cow<'a, str>>,
    /// `PostModelSwitch`.
    #[serde(default, borrow, deserialize_with = "lax::text")]
    pub to_model: Option<Cow<'a, str>>,

    /// UserPromptSubmit.
    #[serde(default, borrow)]
    pub prompt: Option<Later<'a>>,
    /// Every tool event.
    #[serde(default, borrow, deserialize_with = "lax::text")]
    pub tool_name: Option<Cow<'a, str>>,
    /// `PostToolUseFailure`: the human pressed Esc.
    #[serde(default, deserialize_with = "lax::truth")]
    pub is_interrupt: bool,

    /// `Stop` and `SubagentStop`.
    #[serde(default, deserialize_with = "lax::truth")]
    pub stop_hook_active: bool,
    #[serde(default, borrow)]
    pub last_assistant_message: Option<Later<'a>>,
    #[serde(default, borrow)]
    pub background_tasks: Option<Later<'a>>,
    #[serde(default, borrow)]
    pub session_crons: Option<Later<'a>>,
    #[serde(default, borrow, deserialize_with = "lax::text")]
    pub agent_transcript_path: Option<Cow<'a, str>>,

    /// `StopFailure`: the kind of failure. `PostToolUseFailure`: the tool's error text.
    #[serde(default, borrow)]
    pub error: Option<Later<'a>>,
    #[serde(default, borrow)]
    pub error_details: Option<Later<'a>>,

    /// PreCompact, PostCompact, Setup.
    #[serde(default, borrow, deserialize_with = "lax::text")]
    pub trigger: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub custom_instructions: Option<Later<'a>>,
    #[serde(default, borrow)]
    pub compact_summary: Option<Later<'a>>,

    /// SessionEnd; `stop_reason` in some versions.
    #[serde(default, borrow, deserialize_with = "lax::text")]
    pub reason: Option<Cow<'a, str>>,
    #[serde(default, borrow, deserialize_with = "lax::text")]
    pub stop_reason: Option<Cow<'a, str>>,

    /// Notification.
    #[serde(default, borrow, deserialize_with = "lax::text")]
    pub notification_type: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub message: Option<Later<'a>>,
}

/// A task that continues after the turn has ended.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct BackgroundTask<'a> {
    #[serde(default, borrow, deserialize_with = "lax::text")]
    pub id: Option<Cow<'a, str>>,
    #[serde(default, borrow, rename = "type", deserialize_with = "lax::text")]
    pub kind: Option<Cow<'a, str>>,
    #[serde(default, borrow, deserialize_with = "lax::text")]
    pub status: Option<Cow<'a, str>>,
    #[serde(default, borrow, deserialize_with = "lax::text")]
    pub description: Option<Cow<'a, str>>,
    #[serde(default, borrow, deserialize_with = "lax::text")]
    pub agent_type: Option<Cow<'a, str>>,
}

/// Parses one payload. Accepts unknown fields and events; treats fields of an unexpected type as absent.
pub fn parse_hook(bytes: &[u8]) -> Result<HookPayload<'_>, NotAPayload> {
    parse(bytes)
}

/// Derived deserializers also accept an array of fields in order, which the client never means.
fn parse<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, NotAPayload> {
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(NotAPayload::NoObject);
    }
    Ok(serde_json::from_slice(bytes)?)
}

impl<'a> HookPayload<'a> {
    /// The tasks that Stop reports as still running; empty if there are none or they cannot be parsed.
    pub fn tasks(&self) -> Vec<BackgroundTask<'a>> {
        self.background_tasks.and_then(|t| serde_json::from_str(t.json()).ok()).unwrap_or_default()
    }

    /// The number of the session's scheduled prompts.
    pub fn crons(&self) -> usize {
        self.session_crons
            .and_then(|c| serde_json::from_str::<Vec<serde::de::IgnoredAny>>(c.json()).ok())
            .map_or(0, |c| c.len())
    }
}
