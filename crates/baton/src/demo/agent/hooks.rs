//! Runs the hooks of an event side by side, waits until each has closed its output, and reads the answers.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::demo::agent::client::Client;
use crate::demo::agent::errand::{self, Errand, Outcome};
use crate::demo::agent::payload::Payload;
use crate::demo::agent::settings::Hook;

/// Longer output is replaced by a preview: the client's limit per hook.
const LIMIT: usize = 10_000;
const PREVIEW: usize = 2_000;
const USUAL_TIMEOUT: Duration = Duration::from_mins(1);
/// How long an exiting client waits for a hook without a configured timeout.
const LAST_TIMEOUT: Duration = Duration::from_millis(1_500);

/// The combined answers of an event's hooks.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// Texts for the model.
    pub contexts: Vec<String>,
    /// Why the event is blocked, if it is.
    pub block: Option<String>,
    /// Plain output, which some events interpret.
    pub plain: Vec<String>,
}

impl Client {
    pub(super) fn hooks(&mut self, payload: &Payload) -> Answers {
        self.hooks_of(payload, None)
    }

    /// Starts the hooks, each with its deadline.
    pub(super) fn start_hooks(
        &mut self,
        payload: &Payload,
        subagent: Option<(&str, &str)>,
    ) -> Vec<(Errand, Instant)> {
        let input = payload.to_json(&self.head(), subagent);
        let began = Instant::now();
        let mut running = Vec::new();
        for (n, hook) in self.sources.hooks(payload.event, &payload.subject).into_iter().enumerate() {
            let number = self.inbox.number();
            let started = self
                .hook_command(&hook, payload.event, n)
                .and_then(|command| Errand::start(command, input.clone(), number, self.inbox.sender()));
            // Ignore a missing command, as the client does.
            if let Ok(errand) = started {
                let usual = if payload.event == "SessionEnd" { LAST_TIMEOUT } else { USUAL_TIMEOUT };
                running.push((errand, began + hook.timeout.unwrap_or(usual)));
            }
        }
        running
    }

    /// Runs the hooks; `subagent` is the id and type of the subagent that caused the event.
    pub(super) fn hooks_of(&mut self, payload: &Payload, subagent: Option<(&str, &str)>) -> Answers {
        let began = Instant::now();
        let mut running = self.start_hooks(payload, subagent);
        let mut answers = Answers::default();
        while !running.is_empty() {
            let deadline = running.iter().map(|(_, until)| *until).min().unwrap_or(began);
            if let Some((number, outcome)) = self.inbox.next_done(deadline) {
                if running.iter().any(|(errand, _)| errand.number == number) {
                    running.retain(|(errand, _)| errand.number != number);
                    self.take(payload.event, &outcome, began.elapsed(), &mut answers);
                }
            } else {
                let now = Instant::now();
                for (errand, _) in running.iter().filter(|(_, until)| *until <= now) {
                    errand.kill();
                    self.note("hook", json!({ "event": payload.event, "timeout": true }));
                }
                running.retain(|(_, until)| *until > now);
            }
        }
        for text in &answers.contexts {
            self.note("context", json!({ "event": payload.event, "text": text }));
        }
        answers
    }

    fn hook_command(&self, hook: &Hook, event: &str, n: usize) -> std::io::Result<std::process::Command> {
        let root = hook.root.as_ref().map(|r| r.display().to_string());
        let fill = |text: &str| match &root {
            Some(root) => text.replace("${CLAUDE_PLUGIN_ROOT}", root),
            None => text.to_owned(),
        };
        let mut command = match &hook.args {
            Some(args) => {
                let args: Vec<String> = args.iter().map(|a| fill(a)).collect();
                errand::command(&fill(&hook.command), &args)?
            }
            None => errand::command("/bin/sh", &["-c".to_owned(), fill(&hook.command)])?,
        };
        self.dress(&mut command);
        command.env("CLAUDE_PROJECT_DIR", &self.cwd);
        if let Some(root) = root {
            command.env("CLAUDE_PLUGIN_ROOT", root);
        }
        if event == "SessionStart" {
            command.env("CLAUDE_ENV_FILE", self.env_file(n));
        }
        Ok(command)
    }

    /// Interprets one hook's output as the client does.
    fn take(&mut self, event: &'static str, outcome: &Outcome, took: Duration, answers: &mut Answers) {
        let code = outcome.code();
        self.note("hook", json!({ "event": event, "code": code, "ms": took.as_millis() }));
        if code == 2 {
            answers.block.get_or_insert_with(|| outcome.err.trim().to_owned());
            return;
        }
        let text = outcome.out.trim();
        if code != 0 || text.is_empty() {
            return;
        }
        let Ok(answer @ Value::Object(_)) = serde_json::from_str(text) else {
            self.take_plain(event, text, answers);
            return;
        };
        if let Some(message) = answer.get("systemMessage").and_then(Value::as_str) {
            self.note("message", json!({ "event": event, "text": message }));
            self.screen.line(&format!("  ⎿ {event} says: {message}"));
        }
        let blocks = answer.get("decision").is_some_and(|d| d == "block");
        if blocks {
            let reason = answer.get("reason").and_then(Value::as_str).unwrap_or_default();
            answers.block.get_or_insert_with(|| reason.to_owned());
            self.note("block", json!({ "event": event, "text": reason }));
        }
        match answer.get("hookSpecificOutput") {
            // The client rejects these, and an answer for another event, with an error on the screen.
            Some(own) if matches!(event, "PreCompact" | "SessionEnd") || own["hookEventName"] != event => {
                self.note("invalid", json!({ "event": event, "text": text }));
                self.screen.line(&format!("  ⎿ {event} hook error: its output does not fit the event"));
            }
            Some(own) => {
                if own["permissionDecision"] == "deny" {
                    let reason = own["permissionDecisionReason"].as_str().unwrap_or("denied by a hook");
                    answers.block.get_or_insert_with(|| reason.to_owned());
                }
                if let Some(context) = own.get("additionalContext").and_then(Value::as_str) {
                    answers.contexts.push(limited(context));
                }
            }
            None if event == "PreCompact" && !blocks => answers.plain.push(text.to_owned()),
            None => {}
        }
    }

    /// Handles output that is not a JSON object: context for some events, instructions for one, ignored for the rest.
    fn take_plain(&mut self, event: &'static str, text: &str, answers: &mut Answers) {
        match event {
            "SessionStart" | "UserPromptSubmit" => answers.contexts.push(limited(text)),
            "PreCompact" => answers.plain.push(text.to_owned()),
            _ => self.note("invalid", json!({ "event": event, "text": text })),
        }
    }
}

/// The part of a hook's text that reaches the model.
fn limited(text: &str) -> String {
    if text.chars().count() <= LIMIT {
        return text.to_owned();
    }
    let begin: String = text.chars().take(PREVIEW).collect();
    format!("<persisted-output>\nOutput too large. Preview (first 2KB):\n{begin}\n</persisted-output>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_ten_thousand_characters_become_a_preview() {
        let whole = "é".repeat(10_000);
        assert_eq!(limited(&whole), whole);
        assert!(limited(&"é".repeat(10_001)).chars().count() < 2_200);
    }
}
