//! A hook's standard input as the client writes it: the recorded fields in the recorded order.

use serde_json::{Map, Value, json};

/// The fields that all payloads share.
#[derive(Debug, Clone)]
pub(super) struct Head {
    pub session: String,
    pub transcript: String,
    pub cwd: String,
    pub prompt_id: Option<String>,
    pub permission_mode: String,
}

/// An event with its own fields.
pub(super) struct Payload {
    pub event: &'static str,
    /// The text that matchers match against.
    pub subject: String,
    fields: Map<String, Value>,
}

impl Payload {
    fn new(event: &'static str, subject: impl Into<String>, fields: Value) -> Self {
        let Value::Object(fields) = fields else { unreachable!("fields are written as objects below") };
        Self { event, subject: subject.into(), fields }
    }

    pub(super) fn session_start(source: &str, model: Option<&str>, resumed: Option<(i64, u64)>) -> Self {
        let mut fields = json!({ "source": source });
        match resumed {
            Some((seconds, tokens)) => {
                fields["seconds_since_last_response"] = json!(seconds);
                fields["context_tokens"] = json!(tokens);
                fields["prompt_cache_likely_expired"] = json!(seconds > 300);
            }
            None => {
                if let Some(model) = model {
                    fields["model"] = json!(model);
                }
            }
        }
        Self::new("SessionStart", source, fields)
    }

    pub(super) fn prompt(text: &str) -> Self {
        Self::new("UserPromptSubmit", "", json!({ "prompt": text }))
    }

    pub(super) fn pre_tool(tool: &str, input: &Value, id: &str) -> Self {
        Self::new("PreToolUse", tool, json!({ "tool_name": tool, "tool_input": input, "tool_use_id": id }))
    }

    pub(super) fn post_tool(tool: &str, input: &Value, response: &Value, id: &str, ms: u128) -> Self {
        let fields = json!({
            "tool_name": tool, "tool_input": input, "tool_response": response, "tool_use_id": id, "duration_ms": ms,
        });
        Self::new("PostToolUse", tool, fields)
    }

    pub(super) fn tool_failed(
        tool: &str,
        input: &Value,
        error: &str,
        interrupt: bool,
        id: &str,
        ms: u128,
    ) -> Self {
        let fields = json!({
            "tool_name": tool, "tool_input": input, "tool_use_id": id, "error": error, "is_interrupt": interrupt,
            "duration_ms": ms,
        });
        Self::new("PostToolUseFailure", tool, fields)
    }

    pub(super) fn stop(active: bool, last: &str, tasks: &[Value]) -> Self {
        let fields = json!({
            "stop_hook_active": active, "last_assistant_message": last, "background_tasks": tasks,
            "session_crons": [],
        });
        Self::new("Stop", "", fields)
    }

    pub(super) fn stop_failure(error: &str, text: &str) -> Self {
        Self::new("StopFailure", error, json!({ "error": error, "last_assistant_message": text }))
    }

    pub(super) fn pre_compact(trigger: &str, instructions: Option<&str>) -> Self {
        // A manual compaction without instructions sends an empty text, an automatic one null.
        let instructions =
            if trigger == "manual" { Some(instructions.unwrap_or_default()) } else { instructions };
        Self::new("PreCompact", trigger, json!({ "trigger": trigger, "custom_instructions": instructions }))
    }

    pub(super) fn post_compact(trigger: &str, summary: &str) -> Self {
        Self::new("PostCompact", trigger, json!({ "trigger": trigger, "compact_summary": summary }))
    }

    pub(super) fn session_end(reason: &str) -> Self {
        Self::new("SessionEnd", reason, json!({ "reason": reason }))
    }

    pub(super) fn permission(command: &str) -> Self {
        let fields = json!({ "tool_name": "Bash", "tool_input": { "command": command } });
        Self::new("PermissionRequest", "Bash", fields)
    }

    pub(super) fn idle() -> Self {
        let fields =
            json!({ "message": "Claude is waiting for your input", "notification_type": "idle_prompt" });
        Self::new("Notification", "idle_prompt", fields)
    }

    pub(super) fn subagent_start(kind: &str) -> Self {
        Self::new("SubagentStart", kind, json!({}))
    }

    pub(super) fn subagent_stop(kind: &str, transcript: &str, last: &str) -> Self {
        let fields = json!({
            "stop_hook_active": false, "agent_transcript_path": transcript, "last_assistant_message": last,
            "background_tasks": [], "session_crons": [],
        });
        Self::new("SubagentStop", kind, fields)
    }

    /// The whole payload as the client writes it. `subagent` is the id and type of the subagent that caused the event.
    pub(super) fn to_json(&self, head: &Head, subagent: Option<(&str, &str)>) -> Vec<u8> {
        let mut all = json!({
            "session_id": head.session,
            "transcript_path": head.transcript,
            "cwd": head.cwd,
        });
        if let Some(id) = &head.prompt_id {
            all["prompt_id"] = json!(id);
        }
        let has_mode = !matches!(
            self.event,
            "SessionStart" | "SessionEnd" | "PreCompact" | "PostCompact" | "Notification" | "StopFailure"
        );
        if has_mode {
            all["permission_mode"] = json!(head.permission_mode);
        }
        if let Some((id, kind)) = subagent {
            all["agent_id"] = json!(id);
            all["agent_type"] = json!(kind);
        }
        all["hook_event_name"] = json!(self.event);
        if let Value::Object(all) = &mut all {
            all.extend(self.fields.clone());
        }
        all.to_string().into_bytes()
    }
}
