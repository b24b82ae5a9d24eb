//! A session's events in provider-independent terms, converted once from the provider's payloads.

use std::borrow::Cow;

use crate::ids::{BadId, SessionId};
use crate::wire::claude::{BackgroundTask, HookPayload};
use crate::wire::codex;
use crate::wire::lax::Later;

/// An event, with the fields common to all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookEvent<'a> {
    pub session: SessionId,
    /// The file may not exist yet.
    pub transcript: Option<Cow<'a, str>>,
    pub cwd: Option<Cow<'a, str>>,
    /// Set when a subagent caused the event: such an event injects nothing, takes no latch and changes no turn state.
    pub subagent: Option<Cow<'a, str>>,
    pub prompt_id: Option<Cow<'a, str>>,
    pub permission_mode: Option<Cow<'a, str>>,
    pub event: Event<'a>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event<'a> {
    SessionStart {
        source: StartSource<'a>,
        model: Option<Cow<'a, str>>,
        /// The size of a resumed or forked conversation.
        context_tokens: Option<u64>,
    },
    UserPromptSubmit {
        prompt: Cow<'a, str>,
    },
    /// A tool is about to run.
    ToolWanted {
        tool: Option<Cow<'a, str>>,
    },
    /// A tool has run, well or not.
    ToolUsed {
        tool: Option<Cow<'a, str>>,
        failed: bool,
        interrupted: bool,
    },
    /// The turn ended. Background tasks may still run.
    Stop {
        hook_active: bool,
        last_message: Option<Cow<'a, str>>,
        tasks: Vec<BackgroundTask<'a>>,
        crons: usize,
    },
    /// The turn ended in an API error; no Stop follows.
    StopFailure {
        error: Cow<'a, str>,
        details: Option<Cow<'a, str>>,
        last_message: Option<Cow<'a, str>>,
    },
    /// The user stopped the turn; no Stop follows.
    Interrupted,
    PreCompact {
        trigger: Trigger<'a>,
        instructions: Option<Cow<'a, str>>,
    },
    PostCompact {
        trigger: Trigger<'a>,
        summary: Option<Cow<'a, str>>,
    },
    SessionEnd {
        reason: Cow<'a, str>,
    },
    Notification {
        kind: Cow<'a, str>,
        message: Option<Cow<'a, str>>,
    },
    PermissionRequest {
        tool: Option<Cow<'a, str>>,
    },
    ModelSwitched {
        to: Option<Cow<'a, str>>,
    },
    SubagentStart,
    SubagentStop {
        transcript: Option<Cow<'a, str>>,
    },
    /// Irrelevant to us, or unknown.
    Other(Cow<'a, str>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartSource<'a> {
    Startup,
    Resume,
    Fork,
    Clear,
    Compact,
    Other(Cow<'a, str>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trigger<'a> {
    Auto,
    Manual,
    Other(Cow<'a, str>),
}

/// A payload that cannot be attributed to a session.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAnEvent {
    #[error("the payload names no session")]
    NoSession,
    #[error("the payload names no event")]
    NoName,
    #[error(transparent)]
    BadSession(#[from] BadId),
}

impl<'a> TryFrom<HookPayload<'a>> for HookEvent<'a> {
    type Error = NotAnEvent;

    fn try_from(p: HookPayload<'a>) -> Result<Self, NotAnEvent> {
        let session = SessionId::new(p.session_id.clone().ok_or(NotAnEvent::NoSession)?)?;
        let name = p.hook_event_name.clone().ok_or(NotAnEvent::NoName)?;
        let tasks = if name == "Stop" { p.tasks() } else { Vec::new() };
        let crons = if name == "Stop" { p.crons() } else { 0 };
        let event = match &*name {
            "SessionStart" => Event::SessionStart {
                source: StartSource::from(p.source.unwrap_or_default()),
                model: p.model,
                context_tokens: p.context_tokens,
            },
            "UserPromptSubmit" => {
                Event::UserPromptSubmit { prompt: p.prompt.and_then(Later::text).unwrap_or_default() }
            }
            "PostToolUse" => Event::ToolUsed { tool: p.tool_name, failed: false, interrupted: false },
            "PostToolUseFailure" => {
                Event::ToolUsed { tool: p.tool_name, failed: true, interrupted: p.is_interrupt }
            }
            "Stop" => Event::Stop {
                hook_active: p.stop_hook_active,
                last_message: p.last_assistant_message.and_then(Later::text),
                tasks,
                crons,
            },
            "StopFailure" => Event::StopFailure {
                error: p.error.and_then(Later::text).unwrap_or_default(),
                details: p.error_details.and_then(Later::text),
                last_message: p.last_assistant_message.and_then(Later::text),
            },
            "PreCompact" => Event::PreCompact {
                trigger: Trigger::from(p.trigger.unwrap_or_default()),
                instructions: p.custom_instructions.and_then(Later::text).filter(|t| !t.is_empty()),
            },
            "PostCompact" => Event::PostCompact {
                trigger: Trigger::from(p.trigger.unwrap_or_default()),
                summary: p.compact_summary.and_then(Later::text).filter(|t| !t.is_empty()),
            },
            "SessionEnd" => {
                Event::SessionEnd { reason: p.reason.or(p.stop_reason).unwrap_or(Cow::Borrowed("other")) }
            }
            "Notification" => Event::Notification {
                kind: p.notification_type.unwrap_or_default(),
                message: p.message.and_then(Later::text),
            },
            "PermissionRequest" => Event::PermissionRequest { tool: p.tool_name },
            "PostModelSwitch" => Event::ModelSwitched { to: p.to_model },
            "SubagentStart" => Event::SubagentStart,
            "SubagentStop" => Event::SubagentStop { transcript: p.agent_transcript_path },
            _ => Event::Other(name),
        };
        Ok(Self {
            session,
            transcript: p.transcript_path,
            cwd: p.cwd,
            subagent: p.agent_id,
            prompt_id: p.prompt_id,
            permission_mode: p.permission_mode,
            event,
        })
    }
}

impl<'a> TryFrom<codex::HookPayload<'a>> for HookEvent<'a> {
    type Error = NotAnEvent;

    fn try_from(p: codex::HookPayload<'a>) -> Result<Self, NotAnEvent> {
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
            "PreToolUse" => Event::ToolWanted { tool: p.tool_name },
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

impl<'a> From<Cow<'a, str>> for StartSource<'a> {
    fn from(source: Cow<'a, str>) -> Self {
        match &*source {
            "startup" => Self::Startup,
            "resume" => Self::Resume,
            "fork" => Self::Fork,
            "clear" => Self::Clear,
            "compact" => Self::Compact,
            _ => Self::Other(source),
        }
    }
}

impl<'a> From<Cow<'a, str>> for Trigger<'a> {
    fn from(trigger: Cow<'a, str>) -> Self {
        match &*trigger {
            "auto" => Self::Auto,
            "manual" => Self::Manual,
            _ => Self::Other(trigger),
        }
    }
}
