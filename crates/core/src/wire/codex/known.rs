//! Every field that the recorded client (0.166) sends, so that we notice a newer client's additions by name.
//!
//! Cold: used by the suite, never by a hook.

use serde_json::Value;

use super::EVENTS;

const COMMON: &[&str] = &[
    "session_id",
    "turn_id",
    "transcript_path",
    "cwd",
    "hook_event_name",
    "model",
    "permission_mode",
    "agent_id",
    "agent_type",
];

fn of_event(event: &str) -> &'static [&'static str] {
    match event {
        "SessionStart" => &["source"],
        "UserPromptSubmit" => &["prompt"],
        "PreToolUse" => &["tool_name", "tool_input", "tool_use_id"],
        "PostToolUse" => &["tool_name", "tool_input", "tool_response", "tool_use_id"],
        "PermissionRequest" => &["tool_name", "tool_input"],
        "PreCompact" | "PostCompact" => &["trigger"],
        "Stop" | "SubagentStop" => &["stop_hook_active", "last_assistant_message", "agent_transcript_path"],
        "SessionEnd" => &["reason"],
        _ => &[],
    }
}

/// The unknown fields of a hook payload: `Event.field`, or `Event` itself.
pub fn unknown_fields(json: &str) -> Vec<String> {
    let Ok(Value::Object(payload)) = serde_json::from_str(json) else {
        return vec!["not a JSON object".to_owned()];
    };
    let event = payload.get("hook_event_name").and_then(Value::as_str).unwrap_or("(no hook_event_name)");
    if !EVENTS.contains(&event) {
        return vec![event.to_owned()];
    }
    let known = |key: &&String| COMMON.contains(&key.as_str()) || of_event(event).contains(&key.as_str());
    payload.keys().filter(|key| !known(key)).map(|key| format!("{event}.{key}")).collect()
}
