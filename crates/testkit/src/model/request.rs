//! What the model received, in a form that tests can query.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Kind;

/// The protocol of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// `POST /v1/messages`
    Anthropic,
    /// `POST /v1/responses`
    OpenAi,
    /// Any other request of a client to its server.
    Other,
}

/// One message of the conversation: its role and all its text, including tool results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub role: String,
    pub text: String,
}

/// One recorded request.
#[derive(Debug, Clone)]
pub struct Request {
    /// Arrival order among all requests of this server, from 0.
    pub order: usize,
    pub protocol: Protocol,
    pub kind: Kind,
    /// The client's conversation, from its headers.
    pub session: Option<String>,
    pub method: String,
    pub path: String,
    /// Names in lower case.
    pub headers: BTreeMap<String, String>,
    pub body: Value,
}

impl Request {
    pub(super) fn new(
        method: String,
        path: String,
        headers: BTreeMap<String, String>,
        body: Value,
        order: usize,
    ) -> Self {
        let protocol = match path.split('?').next().unwrap_or_default() {
            "/v1/messages" | "/v1/messages/count_tokens" => Protocol::Anthropic,
            "/v1/responses" => Protocol::OpenAi,
            _ => Protocol::Other,
        };
        let session = ["x-claude-code-session-id", "thread-id", "session-id"]
            .iter()
            .find_map(|name| headers.get(*name))
            .cloned();
        let mut request =
            Request { order, protocol, kind: Kind::Other, session, method, path, headers, body };
        request.kind = Kind::of(&request);
        request
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// The instructions outside the conversation.
    pub fn system_text(&self) -> String {
        let field = if self.protocol == Protocol::OpenAi { "instructions" } else { "system" };
        text_of(&self.body[field])
    }

    /// The conversation, in order.
    pub fn messages(&self) -> Vec<Message> {
        let field = if self.protocol == Protocol::OpenAi { "input" } else { "messages" };
        let items = self.body[field].as_array().map(Vec::as_slice).unwrap_or_default();
        items.iter().filter_map(message_of).collect()
    }

    /// Everything that the model read: instructions, messages of every role, tool results.
    pub fn text(&self) -> String {
        let mut parts = vec![self.system_text()];
        parts.extend(self.messages().into_iter().map(|message| message.text));
        parts.retain(|part| !part.is_empty());
        parts.join("\n")
    }

    /// The text of the newest message from the user's side: a prompt, or tool results.
    pub fn last_user_text(&self) -> String {
        let mut messages = self.messages();
        messages.retain(|message| matches!(message.role.as_str(), "user" | "tool"));
        messages.pop().map(|message| message.text).unwrap_or_default()
    }

    /// The names of the client's tools.
    pub fn tools(&self) -> Vec<&str> {
        let tools = self.body["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
        tools.iter().filter_map(|tool| tool["name"].as_str().or(tool["type"].as_str())).collect()
    }
}

/// A message of either protocol. Items of the Responses API that are not messages (tool calls, reasoning) are left out;
/// tool outputs have the role `tool`.
fn message_of(item: &Value) -> Option<Message> {
    let text = match item["type"].as_str() {
        Some("function_call_output" | "custom_tool_call_output") => {
            return Some(Message { role: "tool".into(), text: text_of(&item["output"]) });
        }
        _ => text_of(&item["content"]),
    };
    Some(Message { role: item["role"].as_str()?.to_owned(), text })
}

/// Text as the protocols nest it: a string, or a list of parts with text or, in tool results, more parts.
fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts: Vec<String> = parts
                .iter()
                .map(|part| match part["type"].as_str() {
                    Some("tool_result") => text_of(&part["content"]),
                    _ => part["text"].as_str().unwrap_or_default().to_owned(),
                })
                .filter(|text| !text.is_empty())
                .collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}
