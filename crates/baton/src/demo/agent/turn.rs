//! One prompt's work: the script's steps, a requested handoff, and the hooks around it all.

use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::demo::agent::client::{Client, Go, Halt, Task};
use crate::demo::agent::errand::Outcome;
use crate::demo::agent::inbox::Event;
use crate::demo::agent::payload::Payload;
use crate::demo::agent::script::ScriptStep;
use crate::demo::agent::transcript::uuid;

/// The output size that every answer reports.
const OUTPUT: u64 = 200;
/// The turn ends after this many Stops however often hooks block, as seen with the client.
const MOST_STOPS: usize = 9;

/// The source of a dialog's answer.
enum Reply {
    Key(bool),
    Hook(Outcome),
}

/// A dialog's answer.
#[derive(Default)]
struct Decided {
    allowed: bool,
    reason: Option<String>,
    /// Replaces the requested input.
    input: Option<Value>,
}

impl Decided {
    /// The decision in a hook's output; `None` if it leaves the dialog alone.
    fn by_hook(out: &str) -> Option<Self> {
        let answer: Value = serde_json::from_str(out.trim()).ok()?;
        let decision = &answer["hookSpecificOutput"]["decision"];
        Some(Self {
            allowed: match decision["behavior"].as_str()? {
                "allow" => true,
                "deny" => false,
                _ => return None,
            },
            reason: decision["message"].as_str().map(str::to_owned),
            input: decision.get("updatedInput").cloned(),
        })
    }
}

impl Client {
    pub(super) fn turn(&mut self, prompt: &str) -> Go<()> {
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
                // No Stop follows Esc; only this record shows it.
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
                ScriptStep::Say(_) | ScriptStep::Recall => spoke = true,
                ScriptStep::Bash(_) | ScriptStep::Write { .. } | ScriptStep::Subagent(_) => spoke = false,
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

    fn step(&mut self, step: &ScriptStep) -> Go<()> {
        match step {
            ScriptStep::Tokens(n) => self.tokens = *n,
            ScriptStep::Grow(n) => self.tokens += n,
            ScriptStep::Say(text) => self.say(text)?,
            ScriptStep::Recall => {
                let text = self.recall();
                self.say(&text)?;
            }
            ScriptStep::Bash(command) => self.bash(command)?,
            ScriptStep::Write { path, text } => self.write(path, text)?,
            ScriptStep::Wait(path) => self.wait(path)?,
            ScriptStep::Task { until, name } => {
                let id = format!("b{}", &uuid()?[..8]);
                self.tasks.push(Task { id, name: name.clone(), until: until.clone() });
            }
            ScriptStep::Ask(text) => self.ask(text)?,
            ScriptStep::Subagent(command) => self.subagent(command)?,
            ScriptStep::Note(text) => self.notes.push(text.clone()),
            ScriptStep::Fail { error, text } => {
                return Err(Halt::Refused { error: error.clone(), text: text.clone() });
            }
        }
        Ok(())
    }

    /// Runs the Stop hooks; each that blocks keeps the turn going with its reason.
    fn stop(&mut self) -> Go<()> {
        for n in 0..MOST_STOPS {
            let tasks: Vec<Value> = self
                .tasks
                .iter()
                .map(|t| json!({ "id": t.id, "type": "shell", "status": "running", "description": t.name }))
                .collect();
            let answers = self.hooks(&Payload::stop(n > 0, &self.last_text, &tasks));
            if answers.block.is_some() {
                self.screen.line("  ⎿ Stop hook error");
            }
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

    pub(super) fn say(&mut self, text: &str) -> Go<()> {
        self.answer(&json!({ "type": "text", "text": text }))?;
        text.clone_into(&mut self.last_text);
        if text != "Done." {
            self.said.push(text.to_owned());
        }
        self.note("said", json!({ "text": text }));
        self.screen.line(&format!("● {text}"));
        Ok(())
    }

    /// One request to the "model" and the block that it answers with.
    pub(super) fn answer(&mut self, block: &Value) -> Go<()> {
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

    pub(super) fn usage(&self) -> Value {
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

    /// A dialog in place of the composer. The first answer counts: a key, or a hook that decides. Later ones are
    /// ignored.
    fn ask(&mut self, command: &str) -> Go<()> {
        self.screen.dialog(Some(command.to_owned()));
        let began = Instant::now();
        let mut hooks: Vec<u64> = Vec::new();
        for (errand, _) in self.start_hooks(&Payload::permission(command), None) {
            hooks.push(errand.number);
        }
        let (decided, by) = loop {
            let answer = self.attend(None, |event| match event {
                Event::Input(bytes) if bytes.contains(&b'y') => Some(Reply::Key(true)),
                Event::Input(bytes) if bytes.contains(&0x1b) => Some(Reply::Key(false)),
                // A dialog discards all other keys.
                Event::Input(bytes) => {
                    bytes.clear();
                    None
                }
                Event::Done(number, outcome) if hooks.contains(number) => Some(Reply::Hook(outcome.clone())),
                _ => None,
            })?;
            match answer {
                Some(Reply::Key(yes)) => break (Decided { allowed: yes, ..Decided::default() }, "key"),
                Some(Reply::Hook(outcome)) => {
                    let took = began.elapsed().as_millis();
                    self.note(
                        "hook",
                        json!({ "event": "PermissionRequest", "code": outcome.code(), "ms": took }),
                    );
                    if let Some(decided) = Decided::by_hook(&outcome.out) {
                        break (decided, "hook");
                    }
                }
                None => {}
            }
        };
        self.screen.dialog(None);
        self.note("answered", json!({ "yes": decided.allowed, "by": by, "reason": decided.reason }));
        if decided.allowed {
            // Run the requested command: its event shows others that the dialog is gone.
            let input = decided.input.unwrap_or_else(|| json!({ "command": command }));
            self.note("ran", json!({ "input": input }));
            let id = format!("toolu_ask_{}", began.elapsed().as_nanos());
            self.hooks(&Payload::post_tool("Bash", &input, &json!({ "stdout": "" }), &id, 1));
            return Ok(());
        }
        // After a hook's denial the model reads the reason and continues; a person's denial ends the turn.
        if by == "hook" { Ok(()) } else { Err(Halt::Escape) }
    }

    /// Blocks until the file exists or the pipe was written.
    fn wait(&mut self, path: &Path) -> Go<()> {
        let path = crate::demo::agent::script::resolve(&self.cwd, path);
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
