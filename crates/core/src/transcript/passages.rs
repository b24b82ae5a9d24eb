//! The full words in one line of a transcript, for the search: who said them, with which tool, about which files.
//! Includes everything that a person or an agent wrote, and nothing that the client wrote for itself.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::parser::Dialect;
use super::record::Item;
use super::{claude, codex};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    User,
    Assistant,
    /// A tool's input and output.
    Tool,
}

impl Role {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

/// One text of one speaker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passage {
    pub role: Role,
    /// The tool's name; a result does not carry it, only the id of its call.
    pub tool: Option<String>,
    pub call: Option<String>,
    pub files: Vec<String>,
    pub text: String,
}

/// The line that they are in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinePassages {
    pub time: Option<String>,
    pub uuid: Option<String>,
    pub sidechain: bool,
    pub passages: Vec<Passage>,
}

/// The words of `line`; `None` if it is damaged or has none.
pub fn passages(provider: Dialect, line: &[u8]) -> Option<LinePassages> {
    let line = line.trim_ascii();
    // Lines are nearly always valid UTF-8, and checking is much faster than repairing.
    let text = std::str::from_utf8(line).map_or_else(|_| String::from_utf8_lossy(line), Cow::Borrowed);
    let turn = match provider {
        Dialect::Claude => of_claude(serde_json::from_str(&text).ok()?),
        Dialect::Codex => of_codex(&mut serde_json::from_str(&text).ok()?),
    };
    turn.filter(|turn| !turn.passages.is_empty())
}

/// The fields of a record that are searched, whatever is in them; the others, some as long as a file, are skipped.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClaudeLine {
    is_meta: Value,
    is_compact_summary: Value,
    is_api_error_message: Value,
    is_sidechain: Value,
    r#type: Value,
    timestamp: Value,
    uuid: Value,
    message: Value,
    operation: Value,
    content: Value,
    attachment: Value,
}

/// Which provider wrote a transcript that begins with `line`.
pub fn provider_of(line: &[u8]) -> Option<Dialect> {
    let value: Value = serde_json::from_slice(line.trim_ascii()).ok()?;
    let object = value.as_object()?;
    let is_rollout = object.get("payload").is_some_and(Value::is_object);
    object.get("type")?.as_str()?;
    Some(if is_rollout { Dialect::Codex } else { Dialect::Claude })
}

fn taken(value: &mut Value, key: &str) -> Option<String> {
    match value.get_mut(key)?.take() {
        Value::String(text) => Some(text),
        _ => None,
    }
}

fn of_claude(mut line: ClaudeLine) -> Option<LinePassages> {
    let text = |value: Value| if let Value::String(text) = value { Some(text) } else { None };
    let is = |value: &Value| *value == Value::Bool(true);
    if is(&line.is_meta) || is(&line.is_compact_summary) || is(&line.is_api_error_message) {
        return None;
    }
    let mut turn = LinePassages { sidechain: is(&line.is_sidechain), ..LinePassages::default() };
    let kind = text(line.r#type)?;
    (turn.time, turn.uuid) = (text(line.timestamp), text(line.uuid));
    match kind.as_str() {
        "user" | "assistant" => {
            let role = if kind == "user" { Role::User } else { Role::Assistant };
            match line.message.get_mut("content")?.take() {
                Value::String(text) => turn.passages.extend(said(role, text)),
                Value::Array(blocks) => {
                    turn.passages.extend(blocks.into_iter().filter_map(|block| claude_block(role, block)));
                }
                _ => {}
            }
        }
        "queue-operation" if line.operation == "enqueue" => {
            turn.passages.extend(said(Role::User, text(line.content)?));
        }
        "attachment" if line.attachment["type"] == "queued_command" => {
            turn.passages.extend(said(Role::User, taken(&mut line.attachment, "prompt")?));
        }
        _ => {}
    }
    Some(turn)
}

fn claude_block(role: Role, mut block: Value) -> Option<Passage> {
    match taken(&mut block, "type")?.as_str() {
        "text" => said(role, taken(&mut block, "text")?),
        "tool_use" => {
            let input = block.get_mut("input").map(Value::take).unwrap_or_default();
            Some(called(taken(&mut block, "name"), taken(&mut block, "id"), &input))
        }
        "tool_result" => {
            let text = all_text(block.get("content").unwrap_or(&Value::Null));
            gave(taken(&mut block, "tool_use_id"), text)
        }
        _ => None,
    }
}

/// The user's own words or the agent's; words that the client writes in the user's place are dropped.
fn said(role: Role, text: String) -> Option<Passage> {
    let text = match role {
        Role::User => match claude::prompt(text.into(), false)? {
            Item::Prompt(text) | Item::Queued(text) => text.into_owned(),
            Item::Command { name, args } => format!("{name} {args}").trim_end().to_owned(),
            _ => return None,
        },
        Role::Assistant | Role::Tool => text,
    };
    (!text.trim().is_empty()).then_some(Passage { role, tool: None, call: None, files: Vec::new(), text })
}

fn called(tool: Option<String>, call: Option<String>, input: &Value) -> Passage {
    const PATHS: [&str; 4] = ["file_path", "notebook_path", "path", "workdir"];
    let files = PATHS.iter().filter_map(|key| Some(input.get(key)?.as_str()?.to_owned())).collect();
    Passage { role: Role::Tool, tool, call, files, text: all_text(input) }
}

fn gave(call: Option<String>, text: String) -> Option<Passage> {
    let passage = Passage { role: Role::Tool, tool: None, call, files: Vec::new(), text };
    (!passage.text.trim().is_empty()).then_some(passage)
}

fn of_codex(line: &mut Value) -> Option<LinePassages> {
    if line["type"] != "response_item" {
        return None;
    }
    let mut turn = LinePassages { time: taken(line, "timestamp"), ..LinePassages::default() };
    let it = line.get_mut("payload")?;
    turn.uuid = taken(it, "id");
    match taken(it, "type")?.as_str() {
        "message" => {
            let role = match it["role"].as_str()? {
                "user" => Role::User,
                "assistant" => Role::Assistant,
                _ => return None,
            };
            let texts = it["content"].as_array()?.iter().filter_map(|part| part["text"].as_str());
            let clients = |t: &str| role == Role::User && codex::from_client(t);
            let own = texts.filter(|t| !t.trim().is_empty() && !clients(t));
            turn.passages.extend(own.map(|text| Passage {
                role,
                tool: None,
                call: None,
                files: Vec::new(),
                text: text.to_owned(),
            }));
        }
        "function_call" => {
            let arguments = taken(it, "arguments").unwrap_or_default();
            let input = serde_json::from_str(&arguments).unwrap_or(Value::String(arguments));
            turn.passages.push(called(taken(it, "name"), taken(it, "call_id"), &input));
        }
        "custom_tool_call" => {
            let text = taken(it, "input").unwrap_or_default();
            let mut passage = called(taken(it, "name"), taken(it, "call_id"), &Value::Null);
            passage.files = patched(&text);
            passage.text = text;
            turn.passages.push(passage);
        }
        "local_shell_call" => {
            let input = it.get_mut("action").map(Value::take).unwrap_or_default();
            turn.passages.push(called(Some("local_shell".to_owned()), taken(it, "call_id"), &input));
        }
        "function_call_output" | "custom_tool_call_output" => {
            let text = all_text(it.get("output").unwrap_or(&Value::Null));
            turn.passages.extend(gave(taken(it, "call_id"), text));
        }
        _ => {}
    }
    Some(turn)
}

/// The files that a patch names.
fn patched(text: &str) -> Vec<String> {
    const MARKS: [&str; 3] = ["*** Add File: ", "*** Update File: ", "*** Delete File: "];
    let named =
        |line: &str| MARKS.iter().find_map(|mark| line.strip_prefix(mark)).map(|p| p.trim().to_owned());
    text.lines().filter_map(named).collect()
}

/// Every string in `value`, a line each; pictures are not text.
fn all_text(value: &Value) -> String {
    let mut out = String::new();
    gather(value, &mut out);
    out
}

fn gather(value: &Value, out: &mut String) {
    match value {
        Value::String(text) => {
            if !out.is_empty() && !text.is_empty() {
                out.push('\n');
            }
            out.push_str(text);
        }
        Value::Array(items) => items.iter().for_each(|item| gather(item, out)),
        Value::Object(map) if map.get("type").is_some_and(|t| t == "image") => {}
        Value::Object(map) => {
            let is_block = map.get("type").is_some_and(|t| t == "text");
            map.iter().filter(|(key, _)| !is_block || *key != "type").for_each(|(_, v)| gather(v, out));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claude(line: &str) -> Vec<(Role, Option<String>, String)> {
        let turn = passages(Dialect::Claude, line.as_bytes()).unwrap_or_default();
        turn.passages.into_iter().map(|p| (p.role, p.tool, p.text)).collect()
    }

    #[test]
    fn passages_show_who_said_what_with_which_tool() {
        let asked = r#"{"type":"user","message":{"content":"Say \"hi\"\n"}}"#;
        assert_eq!(claude(asked), [(Role::User, None, "Say \"hi\"\n".to_owned())]);
        let did = r#"{"type":"assistant","message":{"content":[{"type":"text","text":"I edit."},{"type":"tool_use","id":"t","name":"Edit","input":{"file_path":"/a.rs","new_string":"fn x() {}"}}]}}"#;
        assert_eq!(
            claude(did),
            [
                (Role::Assistant, None, "I edit.".to_owned()),
                (Role::Tool, Some("Edit".to_owned()), "/a.rs\nfn x() {}".to_owned())
            ]
        );
        let turn = passages(Dialect::Claude, did.as_bytes()).unwrap();
        assert_eq!(turn.passages[1].files, ["/a.rs"]);
        let gave = r#"{"type":"user","toolUseResult":{"originalFile":"hidden"},"message":{"content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"ok"}]}]}}"#;
        assert_eq!(claude(gave), [(Role::Tool, None, "ok".to_owned())]);
    }

    #[test]
    fn text_that_the_client_wrote_for_itself_is_dropped() {
        for line in [
            r#"{"type":"user","isMeta":true,"message":{"content":"caveat"}}"#,
            r#"{"type":"user","isCompactSummary":true,"message":{"content":"a summary"}}"#,
            r#"{"type":"user","message":{"content":"<system-reminder>x</system-reminder>"}}"#,
            r#"{"type":"api-request-blob","message":{"role":"user","content":"x"}}"#,
            "not json",
            "[]",
        ] {
            assert_eq!(claude(line), [], "{line}");
        }
    }

    #[test]
    fn a_rollout_has_the_same_passages() {
        let of = |line: &str| passages(Dialect::Codex, line.as_bytes()).unwrap_or_default().passages;
        let call = r#"{"type":"response_item","payload":{"type":"function_call","name":"exec_command","arguments":"{\"cmd\":\"echo \\\"x\\\"\"}","call_id":"c"}}"#;
        assert_eq!(of(call)[0].text, "echo \"x\"");
        let patch = r#"{"type":"response_item","payload":{"type":"custom_tool_call","name":"apply_patch","call_id":"c","input":"*** Begin Patch\n*** Add File: src/a.rs\n+x"}}"#;
        assert_eq!(of(patch)[0].files, ["src/a.rs"]);
        let gave = r#"{"type":"response_item","payload":{"type":"function_call_output","call_id":"c","output":"done"}}"#;
        assert_eq!((of(gave)[0].call.as_deref(), of(gave)[0].text.as_str()), (Some("c"), "done"));
        let client = r#"{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"<environment_context>x"}]}}"#;
        assert_eq!(of(client), []);
    }
}
