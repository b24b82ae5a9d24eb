//! Runs the scripted agent with a script and collects what reached it.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::home::{CommandOutput, Home};

/// A scripted agent, ready to start.
pub struct Script<'a> {
    home: &'a Home,
    seen: PathBuf,
    command: Command,
}

impl<'a> Script<'a> {
    /// `text` has the format that `baton::demo::agent` describes.
    pub fn new(home: &'a Home, text: &str) -> Self {
        let path = home.write("agent.script", text);
        let seen = home.path().join("seen.jsonl");
        let mut command = home.baton(["demo-agent"]);
        command.env("BATON_AGENT_SCRIPT", path).env("BATON_AGENT_SEEN", &seen);
        Self { home, seen, command }
    }

    #[must_use]
    pub fn arg(mut self, arg: &str) -> Self {
        self.command.arg(arg);
        self
    }

    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// The command, for tests that start and signal it themselves.
    pub fn command(self) -> Command {
        self.command
    }

    /// Types `prompts`, one after the other, and waits for the end.
    pub fn play(mut self, prompts: &[&str]) -> Played {
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn().expect("the scripted agent starts");
        let mut typed = prompts.join("\n");
        typed.push('\n');
        // It may exit before it reads them.
        let _ = child.stdin.take().expect("it was asked for").write_all(typed.as_bytes());
        let ran = CommandOutput::of(&child.wait_with_output().expect("a child can be waited for"));
        Played { ran, seen: seen(self.home, &self.seen) }
    }
}

/// Everything in the seen file.
pub fn seen(home: &Home, path: &std::path::Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .map(|line| serde_json::from_str(&home.tidy(line)).unwrap_or_else(|e| panic!("{e} in {line}")))
        .collect()
}

/// The result of a run.
#[derive(Debug)]
pub struct Played {
    pub ran: CommandOutput,
    /// One object per thing seen, said or done, in order.
    pub seen: Vec<Value>,
}

impl Played {
    /// The texts of one kind: `context`, `prompt`, `said`, `message`, …
    pub fn texts(&self, kind: &str) -> Vec<&str> {
        self.seen.iter().filter(|s| s["kind"] == kind).filter_map(|s| s["text"].as_str()).collect()
    }

    /// The exit codes of the hooks.
    pub fn hook_codes(&self) -> Vec<i64> {
        self.seen.iter().filter(|s| s["kind"] == "hook").map(|s| s["code"].as_i64().unwrap_or(-1)).collect()
    }
}
