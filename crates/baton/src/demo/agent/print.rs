//! Headless: one prompt, its answer on standard output.

use std::io::{Read as _, Write as _};
use std::time::Instant;

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::demo::agent::client::{Client, Go, Halt};
use crate::demo::agent::options::Output;

impl Client {
    pub(super) fn print_once(&mut self) -> Go<()> {
        let prompt = if let Some(prompt) = self.options.prompt.take() {
            prompt
        } else {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).context("could not read the prompt")?;
            text.trim().to_owned()
        };
        let began = Instant::now();
        self.begin_first()?;
        self.print_line(&json!({
            "type": "system", "subtype": "init", "cwd": self.cwd, "session_id": self.session,
            "tools": ["Bash", "Write"], "model": self.script.model,
            "permissionMode": self.options.permission_mode,
        }));
        let outcome = self.turn(&prompt);
        let failed = matches!(outcome, Err(Halt::Refused { .. }));
        if !failed && outcome.is_err() {
            return outcome;
        }
        if self.options.output == Output::Text {
            out(&self.last_text);
        } else {
            let result = json!({
                "type": "result",
                "subtype": "success",
                "is_error": failed,
                "duration_ms": began.elapsed().as_millis(),
                "num_turns": 1,
                "result": self.last_text,
                "session_id": self.session,
                "total_cost_usd": 0.0,
                "usage": self.usage(),
            });
            out(&result.to_string());
        }
        outcome
    }

    /// Prints a message if a stream is wanted.
    pub(super) fn print_message(&self, message: &Value) {
        self.print_line(&json!({ "type": "assistant", "message": message, "session_id": self.session }));
    }

    fn print_line(&self, line: &Value) {
        if self.options.print && self.options.output == Output::StreamJson {
            out(&line.to_string());
        }
    }
}

/// A closed reader is not an error.
fn out(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = writeln!(stdout, "{text}").and_then(|()| stdout.flush());
}
