//! Where `scripts/test-clients` puts the clients, and what happens if one is missing.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use crate::tools;

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
    /// Below `node_modules`, with `*` for the parts that differ between machines.
    program: String,
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
        let pin = self.pin()?;
        match self {
            Client::ClaudeBeforeMods => pin.before_mods.context("clients.toml names no older client"),
            Client::Claude | Client::Codex => Ok(pin.version),
        }
    }

    fn pin(self) -> Result<Pin> {
        let pins: Pins = toml::from_str(include_str!("../../clients.toml"))
            .context("reading the pinned versions in clients.toml")?;
        Ok(match self {
            Client::Claude | Client::ClaudeBeforeMods => pins.claude,
            Client::Codex => pins.codex,
        })
    }
}

/// The client's program. If it is not installed, the caller returns and the test is skipped; in CI and with
/// `BATON_CLIENTS=1` that is a failure. `BATON_CLIENTS=0` runs no client at all.
pub fn installed(client: Client) -> Result<Option<PathBuf>> {
    let wanted = env::var("BATON_CLIENTS").ok();
    let version = client.version()?;
    let name = client.name();
    let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/clients");
    let home = cache.join(name).join(&version);
    // The link is made last, so it proves that the install is complete. Its target lies among other files that the
    // client needs and that a copy would lack (Codex starts no daemon without them).
    let inside =
        home.join(name).exists().then(|| matching(&home.join("node_modules"), &client.pin().ok()?.program));
    let program = inside.flatten().unwrap_or_else(|| home.join(name));
    match wanted.as_deref() {
        // The user asked for this, so report nothing.
        Some("0") => {}
        _ if program.exists() => {
            let program = program.canonicalize();
            return program.map(Some).with_context(|| format!("looking for {name} {version}"));
        }
        Some("1") if client != Client::ClaudeBeforeMods => {
            bail!("{name} {version} is not installed: run ./scripts/test-clients {name}")
        }
        _ => {
            tools::missing(&format!(
                "{name} {version} is not installed: ./scripts/test-clients {name} installs it"
            ));
        }
    }
    Ok(None)
}

/// The first file below `dir` whose path matches `pattern`, in which `*` matches any part of a name.
fn matching(dir: &Path, pattern: &str) -> Option<PathBuf> {
    let (part, rest) = pattern.split_once('/').unwrap_or((pattern, ""));
    let (before, after) = part.split_once('*').unwrap_or((part, ""));
    let fits = |name: &str| {
        if part.contains('*') {
            name.len() >= before.len() + after.len() && name.starts_with(before) && name.ends_with(after)
        } else {
            name == part
        }
    };
    let mut found: Vec<PathBuf> = std::fs::read_dir(dir)
        .ok()?
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(fits))
        .map(|entry| entry.path())
        .collect();
    found.sort();
    if rest.is_empty() {
        return found.into_iter().find(|path| path.is_file());
    }
    found.iter().find_map(|path| matching(path, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_found_inside_its_package() {
        let dir = tempfile::tempdir().unwrap();
        for file in ["@x/tool/bin/tool", "@x/tool-linux/vendor/musl/bin/tool", "@x/tool-linux/vendor/a"] {
            let path = dir.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let found = matching(dir.path(), "@x/tool-*/vendor/*/bin/tool").unwrap();
        assert_eq!(found, dir.path().join("@x/tool-linux/vendor/musl/bin/tool"));
        assert_eq!(matching(dir.path(), "@x/tool-*/vendor/*/bin/other"), None);
        assert_eq!(matching(dir.path(), "@x/tool/bin"), None, "a folder is no program");
    }
}
