//! What is used today: the client's summary, the last fifteen messages, the tail of the conversation.

use serde_json::Value;

use super::corpus::Cut;

pub fn summary(cut: &Cut, budget: usize) -> String {
    cut.summary.chars().take(budget).collect()
}

/// `role: text` of the last fifteen messages that have text, each at most 500 characters, as the first seed's
/// script writes them.
pub fn last_fifteen(cut: &Cut, budget: usize) -> String {
    let all: Vec<String> = cut.before.iter().filter_map(said).collect();
    let last: Vec<String> =
        all[all.len().saturating_sub(15)..].iter().map(|m| m.chars().take(500).collect()).collect();
    last.join("\n").chars().take(budget).collect()
}

/// The end of the conversation, tool calls and results included.
pub fn tail(cut: &Cut, budget: usize) -> String {
    let mut pieces = Vec::new();
    let mut size = 0;
    for record in cut.before.iter().rev() {
        if !matches!(record["type"].as_str(), Some("user" | "assistant")) {
            continue;
        }
        let text = everything(&record["message"]["content"]);
        size += text.chars().count() + 1;
        pieces.push(text);
        if size > budget {
            break;
        }
    }
    pieces.reverse();
    let text = pieces.join("\n");
    let skip = text.chars().count().saturating_sub(budget);
    text.chars().skip(skip).collect()
}

fn said(record: &Value) -> Option<String> {
    let role = record["type"].as_str().filter(|t| matches!(*t, "user" | "assistant"))?;
    if record["isMeta"] == true || record["isSidechain"] == true {
        return None;
    }
    let content = &record["message"]["content"];
    let text = match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            blocks.iter().filter_map(|b| b["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
        _ => return None,
    };
    (!text.trim().is_empty()).then(|| format!("{role}: {text}"))
}

fn everything(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(everything).collect::<Vec<_>>().join("\n"),
        Value::Object(fields) => {
            let shown = fields
                .iter()
                .filter(|(k, _)| !matches!(k.as_str(), "signature" | "id" | "type" | "tool_use_id"));
            shown.map(|(_, v)| everything(v)).filter(|t| !t.is_empty()).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}
