//! Codex without a login and without its daemon.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use super::{Client, ClientHome, Finished, Launch, installed};
use crate::model::ScriptedModel;
use crate::tmux::{Pane, Tmux};

/// The window that the configuration below announces.
pub const WINDOW: u64 = 100_000;

const MODEL: &str = "scripted-model";

const START: Duration = Duration::from_secs(30);

/// Codex in a home, ready to start as often as a test needs it.
pub struct Codex {
    launch: Launch,
}

impl Codex {
    /// Sets up Codex in a home; `None` if it is not installed (see [`installed`]).
    pub fn new(place: &ClientHome, model: &ScriptedModel) -> Result<Option<Self>> {
        Self::with_config(place, model, "")
    }

    /// The same with more configuration: tables, or keys of the last table `[features]`.
    pub fn with_config(place: &ClientHome, model: &ScriptedModel, more: &str) -> Result<Option<Self>> {
        let Some(program) = installed(Client::Codex)? else { return Ok(None) };
        place.link("codex", &program)?;
        place.write_home(".codex/config.toml", config(&place.project(), &model.url()) + more)?;
        let launch = place
            .launch(place.bin().join("codex"))
            .env("CODEX_HOME", place.home().join(".codex"))
            .env("SCRIPTED_MODEL_KEY", "not-a-key");
        Ok(Some(Codex { launch }))
    }

    /// Sets a variable for every later start.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.launch = self.launch.env(name, value.as_ref());
        self
    }

    /// The launch without arguments, for tests that change, wrap or start it themselves.
    pub fn launch(&self) -> Launch {
        self.launch.clone()
    }

    /// `codex exec`: one prompt, no terminal.
    pub fn exec(&self, prompt: &str, deadline: Duration) -> Result<Finished> {
        self.launch().args(&["exec", "--skip-git-repo-check", "--", prompt]).run(deadline)
    }

    /// Starts the client in a terminal and waits until it takes input.
    pub fn start<'a>(&self, tmux: &'a Tmux, name: &str) -> Result<Pane<'a>> {
        let pane = tmux.run(name, &self.launch().arg("--no-daemon"))?;
        pane.wait_until("the input line of Codex", START, takes_input)?;
        Ok(pane)
    }
}

/// Whether the screen shows the input line and, below it, the model. The line alone is drawn earlier, and text typed
/// then is partly lost.
pub fn takes_input(screen: &str) -> bool {
    let mut lines = screen.lines().skip_while(|line| !line.starts_with("› "));
    lines.any(|line| line.trim_start().starts_with(MODEL))
}

fn config(project: &Path, url: &str) -> String {
    format!(
        r#"model = "{MODEL}"
model_provider = "scripted"
model_context_window = {WINDOW}
model_auto_compact_token_limit = 80000
check_for_update_on_startup = false
approval_policy = "never"
sandbox_mode = "danger-full-access"

[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "SCRIPTED_MODEL_KEY"
requires_openai_auth = false

[analytics]
enabled = false

[tui]
screen_reader_detection_done = true
status_line = ["model-with-reasoning", "context-used"]

[projects."{project}"]
trust_level = "trusted"

[features]
# Each start would ask the network for plugins.
plugins = false
daemon_auto_start = false
"#,
        project = project.display()
    )
}
