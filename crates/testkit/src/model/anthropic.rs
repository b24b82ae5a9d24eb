//! A turn in the format of the Messages API.

use std::io::{self, Write};
use std::thread;

use serde_json::{Value, json};

use super::http::{EventStream, write_json};
use super::request::Request;
use super::script::{Block, Failure, Turn, Usage};
use super::server::Answer;

pub(super) fn write(output: &mut impl Write, answer: &Answer<'_>) -> io::Result<()> {
    let Answer { request, turn, id } = answer;
    if let Some(failure) = &turn.failure {
        let (status, body) = refusal(failure);
        return write_json(output, status, &turn.headers, &body);
    }
    if request.body["stream"] == true {
        stream(output, answer)
    } else {
        let content: Vec<Value> = blocks(turn, id).collect();
        let mut message = envelope(request, id, &turn.usage);
        message["content"] = content.into();
        message["stop_reason"] = stop_reason(turn).into();
        write_json(output, 200, &turn.headers, &message)
    }
}

fn stream(output: &mut impl Write, Answer { request, turn, id }: &Answer<'_>) -> io::Result<()> {
    let mut events = EventStream::start(output, &turn.headers)?;
    // The real service reports one output token at the start and the true count at the end.
    let at_start = Usage { output: 1, ..turn.usage };
    events.event(&json!({"type": "message_start", "message": envelope(request, id, &at_start)}))?;
    for (index, block) in blocks(turn, id).enumerate() {
        let mut empty = block.clone();
        let deltas: Vec<Value> = if let Some(text) = block["text"].as_str() {
            empty["text"] = "".into();
            pieces(text, turn).map(|word| json!({"type": "text_delta", "text": word})).collect()
        } else {
            empty["input"] = json!({});
            vec![json!({"type": "input_json_delta", "partial_json": block["input"].to_string()})]
        };
        events.event(&json!({"type": "content_block_start", "index": index, "content_block": empty}))?;
        for delta in deltas {
            events.event(&json!({"type": "content_block_delta", "index": index, "delta": delta}))?;
            thread::sleep(turn.pace);
        }
        events.event(&json!({"type": "content_block_stop", "index": index}))?;
    }
    events.event(&json!({
        "type": "message_delta",
        "delta": {"stop_reason": stop_reason(turn), "stop_sequence": null},
        "usage": usage(&turn.usage),
    }))?;
    events.event(&json!({"type": "message_stop"}))?;
    events.finish()
}

/// The text word by word if it should come slowly, else in one piece.
pub(super) fn pieces<'a>(text: &'a str, turn: &Turn) -> Box<dyn Iterator<Item = &'a str> + 'a> {
    if turn.pace.is_zero() { Box::new(std::iter::once(text)) } else { Box::new(text.split_inclusive(' ')) }
}

fn envelope(request: &Request, id: &str, figures: &Usage) -> Value {
    json!({
        "id": format!("msg_{id}"), "type": "message", "role": "assistant", "model": request.body["model"],
        "content": [], "stop_reason": null, "stop_sequence": null, "usage": usage(figures),
    })
}

fn blocks<'a>(turn: &'a Turn, id: &'a str) -> impl Iterator<Item = Value> + 'a {
    turn.blocks.iter().enumerate().map(move |(at, block)| {
        let call = |name: &str, input: &Value| json!({"type": "tool_use", "id": format!("toolu_{id}_{at}"), "name": name, "input": input});
        match block {
            Block::Text(text) => json!({"type": "text", "text": text}),
            Block::Tool { name, input } => call(name, input),
            Block::Shell(command) => call("Bash", &json!({"command": command})),
        }
    })
}

fn stop_reason(turn: &Turn) -> &'static str {
    if turn.has_tools() { "tool_use" } else { "end_turn" }
}

fn usage(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.input,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation_input_tokens": usage.cache_write,
        "output_tokens": usage.output,
    })
}

fn refusal(failure: &Failure) -> (u16, Value) {
    let (status, kind, message) = match failure {
        Failure::TooLong => {
            (400, "invalid_request_error", "prompt is too long: 1000001 tokens > 1000000 maximum")
        }
        Failure::Status(status, message) => {
            let kind = match status {
                400 => "invalid_request_error",
                401 => "authentication_error",
                403 => "permission_error",
                404 => "not_found_error",
                413 => "request_too_large",
                429 => "rate_limit_error",
                529 => "overloaded_error",
                _ => "api_error",
            };
            (*status, kind, message.as_str())
        }
    };
    (status, json!({"type": "error", "error": {"type": kind, "message": message}}))
}
