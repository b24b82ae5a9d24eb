//! Codex's hook payload (0.166), as the client writes it on a hook's stdin, and what a hook may answer beyond what
//! Claude Code's hooks may.
//!
//! No payload tells how full the context is; each names the rollout, which does. A subagent's event carries the root
//! thread's `session_id` with an `agent_id` of its own.

pub mod app;
pub mod known;

use std::borrow::Cow;

use serde::Deserialize;

use super::lax::{self, Later};
use crate::event::{Event, HookEvent, NotAnEvent, StartSource, Trigger};
use crate::ids::SessionId;

/// The events of the client, as its schemas name them.
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

/// What the client takes off total and window before it shows a percentage: its own instructions and tools.
pub const BASE_TOKENS: u64 = 12_000;

/// What arrived was not a payload of the client.
#[derive(Debug, thiserror::Error)]
pub enum NotAPayload {
    #[error("this is not a payload of Codex: it does not begin with an object")]
    NoObject,
    #[error("this is not a payload of Codex: {0}")]
    Json(#[from] serde_json::Error),
}

/// One event, borrowed from the bytes it came in.
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
    /// Present on the events of a subagent, and only there.
    #[serde(default, borrow, deserialize_with = "lax::text")]
    pub agent_id: Option<Cow<'a, str>>,
    /// SessionStart: startup, resume, clear, compact. It comes with the first prompt, not at the start.
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

/// Reads one payload. Unknown fields and events pass; fields of an unexpected type count as absent.
pub fn parse_hook(bytes: &[u8]) -> Result<HookPayload<'_>, NotAPayload> {
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(NotAPayload::NoObject);
    }
    Ok(serde_json::from_slice(bytes)?)
}

impl<'a> TryFrom<HookPayload<'a>> for HookEvent<'a> {
    type Error = NotAnEvent;

    fn try_from(p: HookPayload<'a>) -> Result<Self, NotAnEvent> {
        let session = SessionId::new(p.session_id.ok_or(NotAnEvent::NoSession)?)?;
        let name = p.hook_event_name.ok_or(NotAnEvent::NoName)?;
        let event = match &*name {
            "SessionStart" => Event::SessionStart {
                source: StartSource::from(p.source.unwrap_or_default()),
                model: p.model,
                context_tokens: None,
            },
            "UserPromptSubmit" => {
                Event::UserPromptSubmit { prompt: p.prompt.and_then(Later::text).unwrap_or_default() }
            }
            // A tool that failed comes as this event, too.
            "PostToolUse" => Event::ToolUsed { tool: p.tool_name, failed: false, interrupted: false },
            "Stop" => Event::Stop {
                hook_active: p.stop_hook_active,
                last_message: p.last_assistant_message.and_then(Later::text),
                tasks: Vec::new(),
                crons: 0,
            },
            "Interrupt" => Event::Interrupted,
            "PreCompact" => Event::PreCompact {
                trigger: Trigger::from(p.trigger.unwrap_or_default()),
                instructions: None,
            },
            "PostCompact" => {
                Event::PostCompact { trigger: Trigger::from(p.trigger.unwrap_or_default()), summary: None }
            }
            "SessionEnd" => Event::SessionEnd { reason: p.reason.unwrap_or(Cow::Borrowed("other")) },
            "PermissionRequest" => Event::PermissionRequest { tool: p.tool_name },
            "SubagentStart" => Event::SubagentStart,
            "SubagentStop" => Event::SubagentStop { transcript: p.agent_transcript_path },
            _ => Event::Other(name),
        };
        Ok(Self {
            session,
            transcript: p.transcript_path,
            cwd: p.cwd,
            subagent: p.agent_id,
            prompt_id: p.turn_id,
            permission_mode: p.permission_mode,
            event,
        })
    }
}

/// The answer to PreCompact that holds the compaction back. It aborts the turn: an Interrupt follows and no Stop, and
/// while the context is over its limit every further prompt meets the same compaction first.
pub fn veto(reason: &str) -> String {
    serde_json::json!({ "continue": false, "stopReason": reason, "systemMessage": reason }).to_string()
}
