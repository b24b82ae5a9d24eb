//! The purpose of a request. Besides the conversation, the clients probe the key, ask for titles and summaries, and run
//! subagents. These must not use up turns, so they are told apart here.

use serde_json::Value;

use super::request::{Protocol, Request};

/// The purpose of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A step of the conversation itself; the only kind that uses up turns.
    Main,
    /// The client wants a summary of the conversation.
    Compaction,
    /// A name for the session.
    Title,
    /// One token, to check the key.
    Probe,
    CountTokens,
    /// A step of a subagent's conversation.
    Subagent,
    /// Whether a background session is done, working or waiting for its user.
    State,
    /// Any other request besides the conversation.
    Side,
    /// Not a request to a model at all.
    Other,
}

impl Kind {
    pub(super) fn of(request: &Request) -> Kind {
        if request.method != "POST" {
            return Kind::Other;
        }
        match request.protocol {
            Protocol::Anthropic => anthropic(request),
            Protocol::OpenAi => openai(request),
            Protocol::Other => Kind::Other,
        }
    }
}

fn anthropic(request: &Request) -> Kind {
    if request.path.starts_with("/v1/messages/count_tokens") {
        return Kind::CountTokens;
    }
    if request.body["max_tokens"] == 1 {
        return Kind::Probe;
    }
    let system = request.system_text();
    if asks_for_summary(request) || system.contains("tasked with summarizing conversations") {
        return Kind::Compaction;
    }
    if request.tools().is_empty() {
        return beside(request, &system);
    }
    if request.header("x-claude-code-agent-id").is_some() { Kind::Subagent } else { Kind::Main }
}

/// The request to summarise is the newest user message; the client may put system messages after it.
fn asks_for_summary(request: &Request) -> bool {
    let last = request.last_user_text();
    last.contains("CRITICAL: Respond with TEXT ONLY") && last.contains("detailed summary")
}

/// A conversation always offers tools; a request without tools is not part of it.
fn beside(request: &Request, system: &str) -> Kind {
    if request.body["output_config"]["format"]["schema"]["properties"]["title"].is_object() {
        Kind::Title
    } else if system.contains(r#"{"state":"<working|blocked|done|failed>""#) {
        Kind::State
    } else {
        Kind::Side
    }
}

fn openai(request: &Request) -> Kind {
    // Codex states the purpose of each request; the wording is for versions that do not.
    let metadata: Value = request
        .header("x-codex-turn-metadata")
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    let last = request.last_user_text();
    let source = metadata["thread_source"].as_str().unwrap_or_default();
    if metadata["request_kind"] == "compaction"
        || last.starts_with("You are performing a CONTEXT CHECKPOINT COMPACTION")
    {
        Kind::Compaction
    } else if source == "thread_title" || last.starts_with("Generate a concise, single-line task title") {
        Kind::Title
    } else if source.starts_with("subagent") {
        Kind::Subagent
    } else {
        Kind::Main
    }
}
