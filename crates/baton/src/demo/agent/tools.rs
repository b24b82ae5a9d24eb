//! The agent's tools: a shell and file writing, actually executed, with hooks around them.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde_json::{Value, json};

use crate::demo::agent::client::{Client, Go, Halt};
use crate::demo::agent::errand::{self, Errand, Outcome};
use crate::demo::agent::inbox::Event;
use crate::demo::agent::payload::Payload;
use crate::demo::agent::transcript::uuid;

impl Client {
    /// Runs a shell command as the Bash tool: hooks before and after, records of both.
    pub(super) fn bash(&mut self, command: &str) -> Go<()> {
        let input = json!({ "command": command, "description": "A step of the script" });
        self.tool("Bash", &input, |client| {
            let outcome = client.shell(command)?;
            let response = json!({
                "stdout": outcome.out.trim_end(), "stderr": outcome.err.trim_end(), "interrupted": false,
                "isImage": false,
            });
            Ok(match outcome.code() {
                0 => Ok((response, outcome.out + &outcome.err)),
                code => {
                    Err(format!("Exit code {code}\n{}{}", outcome.err, outcome.out).trim_end().to_owned())
                }
            })
        })
    }

    pub(super) fn write(&mut self, path: &Path, text: &str) -> Go<()> {
        let path = crate::demo::agent::script::resolve(&self.cwd, path);
        let shown = path.display().to_string();
        let input = json!({ "file_path": shown, "content": text });
        let text = text.to_owned();
        self.tool("Write", &input, |_| {
            if let Some(dir) = path.parent() {
                let _ = std::fs::create_dir_all(dir);
            }
            let existed = path.exists();
            let kind = if existed { "update" } else { "create" };
            Ok(match std::fs::write(&path, &text) {
                Ok(()) => Ok((
                    json!({ "type": kind, "filePath": shown, "content": text, "structuredPatch": [] }),
                    format!("File {kind}d successfully at: {shown}"),
                )),
                Err(e) => Err(format!("{shown}: {e}")),
            })
        })
    }

    fn tool(
        &mut self,
        name: &str,
        input: &Value,
        act: impl FnOnce(&mut Self) -> Go<Result<(Value, String), String>>,
    ) -> Go<()> {
        let id = format!("toolu_{}", uuid()?.replace('-', ""));
        self.answer(&json!({ "type": "tool_use", "id": id, "name": name, "input": input }))?;
        let shown = input.get("command").or_else(|| input.get("file_path")).and_then(Value::as_str);
        self.screen.line(&format!("● {name}({})", shown.unwrap_or_default()));
        let before = self.hooks(&Payload::pre_tool(name, input, &id));
        self.take_in("PreToolUse", &before.contexts)?;
        let began = Instant::now();
        let result = match before.block {
            Some(reason) => Err(reason),
            None => act(self)?,
        };
        let ms = began.elapsed().as_millis();
        let ok = result.is_ok();
        let (text, answers) = match &result {
            Ok((response, text)) => {
                (text.clone(), self.hooks(&Payload::post_tool(name, input, response, &id, ms)))
            }
            Err(error) => {
                (error.clone(), self.hooks(&Payload::tool_failed(name, input, error, false, &id, ms)))
            }
        };
        self.note("tool", json!({ "name": name, "input": input, "ok": ok, "output": text }));
        for line in text.trim_end().lines().take(6) {
            self.screen.line(&format!("  ⎿ {line}"));
        }
        let response = result.map_or_else(Value::from, |(response, _)| response);
        self.record(
            "user",
            json!({
                "message": { "role": "user", "content": [
                    { "type": "tool_result", "content": text, "is_error": !ok, "tool_use_id": id },
                ]},
                "toolUseResult": response,
            }),
        )?;
        self.take_in(if ok { "PostToolUse" } else { "PostToolUseFailure" }, &answers.contexts)?;
        if let Some(reason) = answers.block {
            self.remember(&[reason]);
        }
        Ok(())
    }

    /// Runs a shell command with the environment of the client's tools; a signal or Esc ends it.
    pub(super) fn shell(&mut self, command: &str) -> Go<Outcome> {
        let mut script = String::new();
        for file in self.env_files() {
            let _ = writeln!(script, ". '{}'", file.display().to_string().replace('\'', r"'\''"));
        }
        script.push_str(command);
        let mut command = errand::command("/bin/bash", &["-c".to_owned(), script])?;
        self.dress(&mut command);
        // The client gives the project's folder to hooks only, not to tools.
        command.env_remove("CLAUDE_PROJECT_DIR");
        own_folder_first(&mut command);
        let number = self.inbox.number();
        let errand = Errand::start(command, Vec::new(), number, self.inbox.sender())?;
        let done = self.attend(None, |event| match event {
            Event::Done(n, outcome) if *n == number => Some(std::mem::take(outcome)),
            _ => None,
        });
        match done {
            Ok(Some(outcome)) => Ok(outcome),
            Ok(None) => Err(Halt::Failed(anyhow::anyhow!("the tool was lost"))),
            Err(halt) => {
                errand.kill();
                Err(halt)
            }
        }
    }

    /// A subagent that runs one command; its events carry its id, and it has its own transcript.
    pub(super) fn subagent(&mut self, command: &str) -> Go<()> {
        const KIND: &str = "general-purpose";
        let id = format!("a{}", &uuid()?.replace('-', "")[..16]);
        let own = self.transcript.path.with_extension("").join(format!("subagents/agent-{id}.jsonl"));
        if let Some(dir) = own.parent() {
            std::fs::create_dir_all(dir)?;
        }
        let record = json!({ "type": "user", "isSidechain": true, "agentId": id,
            "message": { "role": "user", "content": command } });
        std::fs::write(&own, format!("{record}\n"))?;
        let who = Some((id.as_str(), KIND));
        self.hooks_of(&Payload::subagent_start(KIND), who);
        let input = json!({ "command": command });
        self.hooks_of(&Payload::pre_tool("Bash", &input, "toolu_sub"), who);
        let outcome = self.shell(command)?;
        let response = json!({ "stdout": outcome.out, "stderr": outcome.err });
        self.hooks_of(&Payload::post_tool("Bash", &input, &response, "toolu_sub", 1), who);
        self.hooks_of(&Payload::subagent_stop(KIND, &own.display().to_string(), outcome.out.trim()), who);
        Ok(())
    }
}

/// Makes `baton` in a tool this very binary.
fn own_folder_first(command: &mut Command) {
    let Some(own) = std::env::current_exe().ok().and_then(|exe| exe.parent().map(Path::to_owned)) else {
        return;
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(own).chain(std::env::split_paths(&path));
    if let Ok(joined) = std::env::join_paths(folders) {
        command.env("PATH", joined);
    }
}
