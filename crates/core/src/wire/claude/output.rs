//! A hook's answer in the client's own format; no output is always a valid answer.

use serde::Serialize;
use serde_json::json;

use crate::approval::{Answer, Verdict};

/// The client silently replaces a hook entry's text of more than 10,000 characters by a preview of 2 KB. This leaves some
/// margin. Characters, not bytes.
pub const BUDGET: usize = 9_500;

/// Events whose answer may carry `additionalContext`. At Stop it continues the turn, like a block but without an error
/// on the user's screen. PreCompact refuses it and takes any other output as summary instructions.
const HEARS_CONTEXT: [&str; 8] = [
    "Stop",
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PostToolBatch",
    "SubagentStart",
];
const CAN_BLOCK: [&str; 2] = ["Stop", "PreCompact"];

/// The answer to one event, built up and printed once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HookOutput<'a> {
    #[serde(skip)]
    event: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    decision: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(rename = "systemMessage", skip_serializing_if = "Option::is_none")]
    system_message: Option<String>,
    #[serde(rename = "hookSpecificOutput", skip_serializing_if = "Option::is_none")]
    specific: Option<Specific<'a>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Specific<'a> {
    #[serde(rename = "hookEventName")]
    event: &'a str,
    #[serde(rename = "additionalContext")]
    context: String,
}

impl<'a> HookOutput<'a> {
    pub fn new(event: &'a str) -> Self {
        Self { event, decision: None, reason: None, system_message: None, specific: None }
    }

    /// Adds text for the model. Omitted if the event cannot carry it.
    #[must_use]
    pub fn context(mut self, text: impl Into<String>) -> Self {
        if HEARS_CONTEXT.contains(&self.event) {
            self.specific = Some(Specific { event: self.event, context: text.into() });
        }
        self
    }

    /// A line for the user that the model does not see.
    #[must_use]
    pub fn system_message(mut self, text: impl Into<String>) -> Self {
        if self.event != "PreCompact" {
            self.system_message = Some(text.into());
        }
        self
    }

    /// Blocks the event, with a reason for the model (Stop) or the user (PreCompact).
    #[must_use]
    pub fn block(mut self, reason: impl Into<String>) -> Self {
        if CAN_BLOCK.contains(&self.event) {
            self.decision = Some("block");
            self.reason = Some(reason.into());
        }
        self
    }

    /// One line of JSON, or `None` if there is nothing to say.
    pub fn to_json(&self) -> Option<String> {
        if self.decision.is_none() && self.system_message.is_none() && self.specific.is_none() {
            return None;
        }
        serde_json::to_string(self).ok()
    }
}

/// The answer to a permission request; `None` leaves the decision to its dialog.
pub fn permission(answer: &Answer) -> Option<String> {
    let decision = match &answer.verdict {
        Verdict::Allow { input, permissions } => {
            let mut decision = json!({ "behavior": "allow" });
            if let Some(input) = input {
                decision["updatedInput"] = input.clone();
            }
            if !permissions.is_empty() {
                decision["updatedPermissions"] = json!(permissions);
            }
            decision
        }
        Verdict::Deny { reason } => json!({ "behavior": "deny", "message": answer.words(reason) }),
        Verdict::Closed { .. } => return None,
    };
    let output = json!({ "hookEventName": "PermissionRequest", "decision": decision });
    Some(json!({ "hookSpecificOutput": output }).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn context_and_a_word_to_the_user_are_written_as_the_client_wants_them() {
        let out = HookOutput::new("PostToolUse").context("a \"b\"\n").system_message("hello");
        insta::assert_snapshot!(out.to_json().unwrap(), @r#"{"systemMessage":"hello","hookSpecificOutput":{"hookEventName":"PostToolUse","additionalContext":"a \"b\"\n"}}"#);
        let out = HookOutput::new("Stop").block("write it down");
        insta::assert_snapshot!(out.to_json().unwrap(), @r#"{"decision":"block","reason":"write it down"}"#);
    }

    #[test]
    fn nothing_to_say_prints_nothing() {
        assert_eq!(HookOutput::new("PostToolUse").to_json(), None);
    }

    #[test]
    fn precompact_prints_a_block_or_nothing_because_all_else_becomes_summary_instructions() {
        assert_eq!(HookOutput::new("PreCompact").context("x").system_message("y").to_json(), None);
        assert!(HookOutput::new("PreCompact").block("rotating").to_json().is_some());
    }

    #[test]
    fn an_event_that_cannot_carry_a_text_or_be_held_back_leaves_it_out() {
        assert_eq!(HookOutput::new("Notification").context("x").to_json(), None);
        assert_eq!(HookOutput::new("PostToolUse").block("x").to_json(), None);
    }
}
