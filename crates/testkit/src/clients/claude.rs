//! Claude Code without a login.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use super::{Client, ClientHome, Finished, Launch, installed};
use crate::model::ScriptedModel;
use crate::tmux::{Pane, Tmux};

/// Nobody's key; the client only wants one that its configuration approves.
const FAKE_KEY: &str = "not-a-key-only-for-the-scripted-model";

/// Real answers take less than a second; a machine under load may need far more.
const START: Duration = Duration::from_secs(30);

/// Claude Code in a home, ready to start as often as a test needs it.
pub struct Claude {
    launch: Launch,
}

impl Claude {
    /// Sets up Claude Code in a home; `None` if it is not installed (see [`installed`]).
    pub fn new(place: &ClientHome, model: &ScriptedModel) -> Result<Option<Self>> {
        Self::settle(Client::Claude, place, model)
    }

    /// The same with the pinned version from before mods.
    pub fn before_mods(place: &ClientHome, model: &ScriptedModel) -> Result<Option<Self>> {
        Self::settle(Client::ClaudeBeforeMods, place, model)
    }

    fn settle(client: Client, place: &ClientHome, model: &ScriptedModel) -> Result<Option<Self>> {
        let Some(program) = installed(client)? else { return Ok(None) };
        place.link("claude", &program)?;
        place.write_home(".claude.json", first_run_done(&place.project()).to_string())?;
        let launch = place
            .launch(place.bin().join("claude"))
            .env("ANTHROPIC_API_KEY", FAKE_KEY)
            .env("ANTHROPIC_BASE_URL", model.url())
            .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
            .env("CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL", "1")
            .env("DISABLE_TELEMETRY", "1")
            .env("DISABLE_AUTOUPDATER", "1")
            .env("DISABLE_ERROR_REPORTING", "1")
            // The client's own default mode asks the service whether a tool call is safe, which no script can answer.
            .args(&["--permission-mode", "default"]);
        Ok(Some(Claude { launch }))
    }

    /// Sets a variable for every later start.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.launch = self.launch.env(name, value.as_ref());
        self
    }

    /// Adds arguments for every later start.
    #[must_use]
    pub fn args<S: AsRef<OsStr>>(mut self, args: &[S]) -> Self {
        self.launch = self.launch.args(args);
        self
    }

    /// Permission rules, such as `Bash` or `Bash(ls:*)`, so that no dialog opens.
    #[must_use]
    pub fn allow(self, rules: &[&str]) -> Self {
        self.args(&[&format!("--allowedTools={}", rules.join(","))])
    }

    /// The launch, for tests that change, wrap or start it themselves.
    pub fn launch(&self) -> Launch {
        self.launch.clone()
    }

    /// `claude -p`: one prompt, no terminal.
    pub fn print(&self, prompt: &str, deadline: Duration) -> Result<Finished> {
        self.launch().args(&["-p", "--", prompt]).run(deadline)
    }

    /// Starts the client in a terminal and waits until it takes input.
    pub fn start<'a>(&self, tmux: &'a Tmux, name: &str) -> Result<Pane<'a>> {
        let pane = tmux.run(name, &self.launch)?;
        pane.wait_until("the input line of Claude Code", START, takes_input)?;
        Ok(pane)
    }
}

/// Whether the screen shows the input line: its mark and a no-break space.
pub fn takes_input(screen: &str) -> bool {
    screen.lines().any(|line| line.starts_with("❯\u{a0}"))
}

/// The minimum that suppresses the dialogs of a first run: theme, approval of the key, trust in the folder.
fn first_run_done(project: &Path) -> Value {
    let approved = &FAKE_KEY[FAKE_KEY.len() - 20..];
    json!({
        "hasCompletedOnboarding": true,
        "customApiKeyResponses": {"approved": [approved], "rejected": []},
        "projects": {project.to_string_lossy(): {"hasTrustDialogAccepted": true}},
    })
}
