//! Where `scripts/test-clients` has put the clients, and what a missing one means.

use std::env;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

/// A client that the suite can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Client {
    Claude,
    /// Claude Code as it was before mods.
    ClaudeBeforeMods,
    Codex,
}

#[derive(Deserialize)]
struct Pins {
    claude: Pin,
    codex: Pin,
}

#[derive(Deserialize)]
struct Pin {
    version: String,
    before_mods: Option<String>,
}

impl Client {
    pub fn name(self) -> &'static str {
        match self {
            Client::Claude | Client::ClaudeBeforeMods => "claude",
            Client::Codex => "codex",
        }
    }

    /// The pinned version, unless `BATON_CLAUDE_VERSION` or `BATON_CODEX_VERSION` names another.
    pub fn version(self) -> Result<String> {
        let variable = format!("BATON_{}_VERSION", self.name().to_uppercase());
        if let Ok(version) = env::var(variable)
            && self != Client::ClaudeBeforeMods
        {
            return Ok(version);
        }
        let pins: Pins = toml::from_str(include_str!("../../clients.toml"))
            .context("reading the pinned versions in clients.toml")?;
        Ok(match self {
            Client::Claude => pins.claude.version,
            Client::ClaudeBeforeMods => {
                pins.claude.before_mods.context("clients.toml names no older client")?
            }
            Client::Codex => pins.codex.version,
        })
    }
}

/// The client's program. `None`, and a line that says so, when it is not installed; with `BATON_CLIENTS=1` that
/// is an error, with `BATON_CLIENTS=0` no client is run at all.
pub fn installed(client: Client) -> Result<Option<PathBuf>> {
    let wanted = env::var("BATON_CLIENTS").ok();
    let version = client.version()?;
    let name = client.name();
    let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/clients");
    let program = cache.join(name).join(&version).join(name);
    match wanted.as_deref() {
        Some("0") => skip(&format!("{name}: BATON_CLIENTS=0")),
        _ if program.exists() => {
            let program = program.canonicalize();
            return program.map(Some).with_context(|| format!("looking for {name} {version}"));
        }
        Some("1") if client != Client::ClaudeBeforeMods => {
            bail!("{name} {version} is not installed: run ./scripts/test-clients {name}")
        }
        _ => {
            skip(&format!("{name} {version} is not installed: ./scripts/test-clients {name} installs it"));
        }
    }
    Ok(None)
}

/// Straight to the descriptor: the test harness hides what a passing test prints through the macros.
fn skip(why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}
