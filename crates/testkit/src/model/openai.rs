//! A turn in the format of the Responses API.

use std::io::{self, Write};
use std::thread;

use serde_json::{Value, json};

use super::anthropic::pieces;
use super::http::{EventStream, write_json};
use super::script::{Block, Failure, Turn, Usage};
use super::server::Answer;

pub(super) fn write(output: &mut impl Write, answer: &Answer<'_>) -> io::Result<()> {
    let Answer { request, turn, id } = answer;
    if let Some(Failure::Status(status, message)) = &turn.failure {
        let kind = if *status == 429 { "rate_limit_exceeded" } else { "server_error" };
        let body = json!({"error": {"message": message, "type": kind, "code": kind}});
        return write_json(output, *status, &turn.headers, &body);
    }
    let id = format!("resp_{id}");
    let items = items(turn, &id, &request.tools());
    if request.body["stream"] != true {
        let body = json!({"id": id, "object": "response", "status": "completed", "output": items, "usage": usage(&turn.usage)});
        return write_json(output, 200, &turn.headers, &body);
    }
    let mut events = EventStream::start(output, &turn.headers)?;
    events.event(&json!({"type": "response.created", "response": {"id": id}}))?;
    if turn.failure.is_some() {
        // Codex recognises a full window by this code, and only inside the stream.
        let error = json!({"code": "context_length_exceeded", "message": "Your input exceeds the context window of this model."});
        events.event(
            &json!({"type": "response.failed", "response": {"id": id, "status": "failed", "error": error}}),
        )?;
        return events.finish();
    }
    for (index, item) in items.iter().enumerate() {
        if let Some(text) = item["content"][0]["text"].as_str() {
            let mut empty = item.clone();
            empty["content"] = json!([]);
            events.event(
                &json!({"type": "response.output_item.added", "output_index": index, "item": empty}),
            )?;
            for word in pieces(text, turn) {
                events.event(&json!({"type": "response.output_text.delta", "item_id": item["id"], "output_index": index, "content_index": 0, "delta": word}))?;
                thread::sleep(turn.pace);
            }
        }
        events.event(&json!({"type": "response.output_item.done", "output_index": index, "item": item}))?;
    }
    let response = json!({"id": id, "status": "completed", "output": items, "usage": usage(&turn.usage)});
    events.event(&json!({"type": "response.completed", "response": response}))?;
    events.finish()
}

fn items(turn: &Turn, id: &str, tools: &[&str]) -> Vec<Value> {
    let call = |at: usize, name: &str, input: &Value| {
        json!({"type": "function_call", "id": format!("fc_{id}_{at}"), "call_id": format!("call_{id}_{at}"),
            "name": name, "arguments": input.to_string()})
    };
    let item = |(at, block): (usize, &Block)| match block {
        Block::Text(text) => json!({"type": "message", "id": format!("msg_{id}_{at}"), "role": "assistant",
            "content": [{"type": "output_text", "text": text}]}),
        Block::Tool { name, input } => call(at, name, input),
        Block::Shell(command) => {
            let (name, input) = shell_call(tools, command);
            call(at, name, &input)
        }
    };
    turn.blocks.iter().enumerate().map(item).collect()
}

/// Codex has had several shell tools; which one it offers depends on the version and the model.
fn shell_call(tools: &[&str], command: &str) -> (&'static str, Value) {
    if tools.contains(&"shell_command") {
        ("shell_command", json!({"command": command}))
    } else if tools.contains(&"shell") {
        ("shell", json!({"command": ["bash", "-lc", command]}))
    } else {
        ("exec_command", json!({"cmd": command}))
    }
}

/// Here the cached tokens are part of the input, not separate.
fn usage(usage: &Usage) -> Value {
    let input = usage.input + usage.cache_read + usage.cache_write;
    json!({
        "input_tokens": input,
        "input_tokens_details": {"cached_tokens": usage.cache_read},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": input + usage.output,
    })
}
