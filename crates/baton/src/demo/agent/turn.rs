//! One prompt's work: the script's steps, the handoff if one was asked for, and the hooks around it all.

use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::client::{Client, Go, Halt, Task};
use super::inbox::Event;
use super::payload::Payload;
use super::script::Step;
use super::transcript::uuid;

/// What every answer reports as output.
const OUTPUT: u64 = 200;
/// However often hooks block, the turn ends after this many Stops: seen of the client.
const MOST_STOPS: usize = 9;

impl Client {
    pub fn turn(&mut self, prompt: &str) -> Go<()> {
        self.prompt_id = Some(uuid()?);
        self.note("prompt", json!({ "text": prompt }));
        self.first_prompt.get_or_insert_with(|| prompt.to_owned());
        let answers = self.hooks(&Payload::prompt(prompt));
        if let Some(reason) = answers.block {
            self.screen.line(&format!("  ⎿ The prompt was held back: {reason}"));
            return Ok(());
        }
        self.transcript.open()?;
        let human = !prompt.starts_with("<task-notification>");
        let origin = if human { "human" } else { "task-notification" };
        self.record(
            "user",
            json!({
                "promptId": self.prompt_id, "message": { "role": "user", "content": prompt },
                "permissionMode": self.options.permission_mode, "origin": { "kind": origin },
            }),
        )?;
        self.take_in("UserPromptSubmit", &answers.contexts)?;
        self.working = true;
        self.screen.working(true);
        let outcome = self.work();
        self.working = false;
        self.screen.working(false);
        self.transcript.open()?;
        let outcome = match outcome {
            Err(Halt::Escape) => {
                // No Stop comes after Esc: only this record tells.
                let content = json!([{ "type": "text", "text": "[Request interrupted by user]" }]);
                self.record("user", json!({ "message": { "role": "user", "content": content } }))?;
                self.screen.line("  ⎿ Interrupted");
                Ok(())
            }
            Err(Halt::Refused { error, text }) => {
                self.refused(&error, &text)?;
                if self.options.print { Err(Halt::Refused { error, text }) } else { Ok(()) }
            }
            other => other,
        };
        self.status_line();
        outcome
    }

    fn work(&mut self) -> Go<()> {
        let turn = self.turns.pop_front().unwrap_or_default();
        let mut spoke = false;
        for (n, step) in turn.steps.iter().enumerate() {
            if turn.lag && n + 1 == turn.steps.len() {
                self.transcript.hold();
            }
            match step {
                Step::Say(_) | Step::Recall => spoke = true,
                Step::Bash(_) | Step::Write { .. } | Step::Subagent(_) => spoke = false,
                _ => {}
            }
            self.step(step)?;
        }
        if self.ask.is_some() {
            self.hand_over_if_asked()?;
            spoke = false;
        }
        if !spoke {
            self.say("Done.")?;
        }
        self.stop()
    }

    fn step(&mut self, step: &Step) -> Go<()> {
        match step {
            Step::Tokens(n) => self.tokens = *n,
            Step::Grow(n) => self.tokens += n,
            Step::Say(text) => self.say(text)?,
            Step::Recall => {
                let text = self.recall();
                self.say(&text)?;
            }
            Step::Bash(command) => self.bash(command)?,
            Step::Write { path, text } => self.write(path, text)?,
            Step::Wait(path) => self.wait(path)?,
            Step::Task { until, name } => {
                let id = format!("b{}", &uuid()?[..8]);
                self.tasks.push(Task { id, name: name.clone(), until: until.clone() });
            }
            Step::Ask(text) => self.ask(text)?,
            Step::Subagent(command) => self.subagent(command)?,
            Step::Note(text) => self.notes.push(text.clone()),
            Step::Fail { error, text } => {
                return Err(Halt::Refused { error: error.clone(), text: text.clone() });
            }
        }
        Ok(())
    }

    /// The Stop hooks; each that blocks keeps the turn going with its reason.
    fn stop(&mut self) -> Go<()> {
        for n in 0..MOST_STOPS {
            let tasks: Vec<Value> = self
                .tasks
                .iter()
                .map(|t| json!({ "id": t.id, "type": "shell", "status": "running", "description": t.name }))
                .collect();
            let answers = self.hooks(&Payload::stop(n > 0, &self.last_text, &tasks));
            let mut feedback = answers.contexts;
            feedback.extend(answers.block);
            if feedback.is_empty() {
                return Ok(());
            }
            self.transcript.open()?;
            for reason in &feedback {
                let content = format!("Stop hook feedback:\n{reason}");
                self.record("user", json!({ "message": { "role": "user", "content": content } }))?;
            }
            self.remember(&feedback);
            self.hand_over_if_asked()?;
            self.say("Done.")?;
        }
        Ok(())
    }

    pub fn say(&mut self, text: &str) -> Go<()> {
        self.answer(&json!({ "type": "text", "text": text }))?;
        text.clone_into(&mut self.last_text);
        if text != "Done." {
            self.said.push(text.to_owned());
        }
        self.note("said", json!({ "text": text }));
        self.screen.line(&format!("● {text}"));
        Ok(())
    }

    /// One request to the "model" and the block it answers with.
    pub fn answer(&mut self, block: &Value) -> Go<()> {
        self.compact_if_full()?;
        self.attend(Some(self.pace), |_| None::<()>)?;
        if self.tokens > self.script.window {
            let text = "API Error: 400 prompt is too long".to_owned();
            return Err(Halt::Refused { error: "invalid_request".to_owned(), text });
        }
        self.reported = self.tokens + OUTPUT;
        let stop_reason = if block["type"] == "tool_use" { "tool_use" } else { "end_turn" };
        let message = json!({
            "id": format!("msg_{}", &uuid()?.replace('-', "")[..22]),
            "type": "message",
            "role": "assistant",
            "model": self.script.model,
            "content": [block],
            "stop_reason": stop_reason,
            "stop_sequence": null,
            "usage": self.usage(),
        });
        self.print_message(&message);
        self.record("assistant", json!({ "message": message }))?;
        Ok(())
    }

    pub fn usage(&self) -> Value {
        let input = self.tokens.min(500);
        json!({
            "input_tokens": input,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": self.tokens - input,
            "output_tokens": OUTPUT,
        })
    }

    fn refused(&mut self, error: &str, text: &str) -> Go<()> {
        self.record(
            "assistant",
            json!({
                "isApiErrorMessage": true,
                "message": { "role": "assistant", "model": "<synthetic>",
                    "content": [{ "type": "text", "text": text }],
                    "usage": { "input_tokens": 0, "output_tokens": 0 } },
            }),
        )?;
        self.screen.line(&format!("  ⎿ {text}"));
        self.hooks(&Payload::stop_failure(error, text));
        text.clone_into(&mut self.last_text);
        Ok(())
    }

    /// A dialog in place of the composer: the next key decides.
    fn ask(&mut self, text: &str) -> Go<()> {
        self.screen.dialog(Some(text.to_owned()));
        self.hooks(&Payload::permission(text));
        let answer = self.attend(None, |event| match event {
            Event::Input(bytes) if bytes.contains(&b'y') => Some(true),
            Event::Input(bytes) if bytes.contains(&0x1b) => Some(false),
            // Whatever else is pressed means nothing to a dialog, and is gone.
            Event::Input(bytes) => {
                bytes.clear();
                None
            }
            _ => None,
        })?;
        self.screen.dialog(None);
        self.note("answered", json!({ "yes": answer }));
        if answer == Some(true) { Ok(()) } else { Err(Halt::Escape) }
    }

    /// Blocks until the file is there, or the pipe has been written.
    fn wait(&mut self, path: &Path) -> Go<()> {
        let path = super::script::resolve(&self.cwd, path);
        if std::fs::metadata(&path).is_ok_and(|m| m.file_type().is_fifo()) {
            let number = self.inbox.watch_pipe(&path);
            self.attend(None, |event| matches!(event, Event::Written(n) if *n == number).then_some(()))?;
            return Ok(());
        }
        while !path.exists() {
            self.attend(Some(Duration::from_millis(5)), |_| None::<()>)?;
        }
        Ok(())
    }
}
