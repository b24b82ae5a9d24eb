//! Every field that the recorded client (2.1.325) sends, so that we notice a newer client's additions by name.
//!
//! Cold: used by the suite and by `doctor`, never by a hook. A path without children is opaque (tool inputs and answers
//! belong to the tools).

use serde_json::Value;

use super::EVENTS;

const COMMON: &[&str] = &[
    "session_id",
    "transcript_path",
    "cwd",
    "prompt_id",
    "permission_mode",
    "agent_id",
    "agent_type",
    "effort.level",
    "hook_event_name",
];

const MODEL_SWITCH: &[&str] = &[
    "from_model",
    "to_model",
    "requested_model",
    "source",
    "context_tokens",
    "prompt_cache_warm",
    "cache_ttl",
    "estimated_cache_write_usd",
    "pricing",
];

const STOP: &[&str] = &[
    "stop_hook_active",
    "last_assistant_message",
    "background_tasks[].id",
    "background_tasks[].type",
    "background_tasks[].status",
    "background_tasks[].description",
    "background_tasks[].agent_type",
    "session_crons",
    "agent_transcript_path",
];

/// The fields of one event beyond the common ones; empty for events that were never recorded.
fn of_event(event: &str) -> &'static [&'static str] {
    match event {
        "SessionStart" => &[
            "source",
            "model",
            "session_title",
            "seconds_since_last_response",
            "context_tokens",
            "prompt_cache_likely_expired",
            "estimated_cache_write_usd",
        ],
        "UserPromptSubmit" => &["prompt", "session_title"],
        "UserPromptExpansion" => {
            &["expansion_type", "command_name", "command_args", "command_source", "prompt"]
        }
        "PreToolUse" => &["tool_name", "tool_input", "tool_use_id"],
        "PostToolUse" => &["tool_name", "tool_input", "tool_response", "tool_use_id", "duration_ms"],
        "PostToolUseFailure" => {
            &["tool_name", "tool_input", "tool_use_id", "error", "is_interrupt", "duration_ms"]
        }
        "PostToolBatch" => &["tool_calls"],
        "PermissionRequest" => &["tool_name", "tool_input", "permission_suggestions"],
        "Stop" | "SubagentStop" => STOP,
        "StopFailure" => &["error", "error_details", "last_assistant_message"],
        "PreCompact" => &["trigger", "custom_instructions"],
        "PostCompact" => &["trigger", "compact_summary"],
        "PreModelSwitch" | "PostModelSwitch" => MODEL_SWITCH,
        "SessionEnd" => &["reason"],
        "Setup" => &["trigger"],
        "Notification" => &["message", "notification_type"],
        "ConfigChange" => &["source", "file_path"],
        "CwdChanged" => &["old_cwd", "new_cwd"],
        "DirectoryAdded" => &["directory", "source"],
        "FileChanged" => &["file_path", "event"],
        "InstructionsLoaded" => &["file_path", "memory_type", "load_reason", "parent_file_path"],
        "MessageDisplay" => &["turn_id", "message_id", "index", "final", "delta"],
        _ => &[],
    }
}

const STATUSLINE: &[&str] = &[
    "session_id",
    "session_name",
    "transcript_path",
    "cwd",
    "prompt_id",
    "effort.level",
    "model.id",
    "model.display_name",
    "workspace.current_dir",
    "workspace.project_dir",
    "workspace.added_dirs",
    "version",
    "output_style.name",
    "cost.total_cost_usd",
    "cost.total_duration_ms",
    "cost.total_api_duration_ms",
    "cost.total_lines_added",
    "cost.total_lines_removed",
    "context_window.total_input_tokens",
    "context_window.total_output_tokens",
    "context_window.context_window_size",
    "context_window.current_usage.input_tokens",
    "context_window.current_usage.output_tokens",
    "context_window.current_usage.cache_creation_input_tokens",
    "context_window.current_usage.cache_read_input_tokens",
    "context_window.used_percentage",
    "context_window.remaining_percentage",
    "exceeds_200k_tokens",
    "prompt_cache",
    "fast_mode",
    "thinking.enabled",
];

/// The unknown fields of a hook payload: `Event.path.to.field`, or `Event` itself.
///
/// Reports a payload that is not a JSON object as such.
pub fn unknown_fields(event_json: &str) -> Vec<String> {
    let Ok(payload @ Value::Object(_)) = serde_json::from_str::<Value>(event_json) else {
        return vec!["not a JSON object".to_owned()];
    };
    let event = payload["hook_event_name"].as_str().unwrap_or("(no hook_event_name)");
    if !EVENTS.contains(&event) {
        return vec![event.to_owned()];
    }
    collect(&payload, event, &[COMMON, of_event(event)])
}

/// The same for the status line.
pub fn unknown_statusline_fields(json: &str) -> Vec<String> {
    match serde_json::from_str::<Value>(json) {
        Ok(payload @ Value::Object(_)) => collect(&payload, "statusline", &[STATUSLINE]),
        _ => vec!["not a JSON object".to_owned()],
    }
}

fn collect(payload: &Value, name: &str, tables: &[&[&str]]) -> Vec<String> {
    let mut unknown = Vec::new();
    walk(payload, "", tables, &mut unknown);
    unknown.into_iter().map(|path| format!("{name}.{path}")).collect()
}

fn walk(value: &Value, path: &str, tables: &[&[&str]], unknown: &mut Vec<String>) {
    let listed = || tables.iter().copied().flatten().copied();
    let children: Vec<(String, &Value)> = match value {
        Value::Object(map) => map
            .iter()
            .map(|(k, v)| (if path.is_empty() { k.clone() } else { format!("{path}.{k}") }, v))
            .collect(),
        Value::Array(items) => items.iter().map(|v| (format!("{path}[]"), v)).collect(),
        _ => return,
    };
    for (child, value) in children {
        if listed().any(|known| known == child) {
            continue;
        }
        let below = |known: &str| known.strip_prefix(&child).is_some_and(|rest| rest.starts_with(['.', '[']));
        if listed().any(below) {
            walk(value, &child, tables, unknown);
        } else if !unknown.contains(&child) {
            unknown.push(child);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_later_client_are_reported_by_name() {
        let json = r#"{"hook_event_name":"Stop","session_id":"a","mood":1,"effort":{"level":"high","why":"x"},
            "background_tasks":[{"id":"1","eta":5},{"id":"2","eta":6}],"session_crons":[]}"#;
        let mut found = unknown_fields(json);
        found.sort();
        assert_eq!(found, ["Stop.background_tasks[].eta", "Stop.effort.why", "Stop.mood"]);
        assert_eq!(unknown_fields(r#"{"hook_event_name":"PreDream"}"#), ["PreDream"]);
        assert_eq!(unknown_fields("[]"), ["not a JSON object"]);
        assert_eq!(
            unknown_statusline_fields(r#"{"context_window":{"current_usage":{"dream_tokens":1}}}"#),
            ["statusline.context_window.current_usage.dream_tokens"]
        );
    }
}
