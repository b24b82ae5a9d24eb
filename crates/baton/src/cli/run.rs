//! `baton run [PROVIDER] [ARGS…]`: an agent that goes on for ever in this terminal.

use super::args::RunArgs;
use super::{App, Outcome};
use crate::install::codex;
use crate::providers::{self, Integration, PROVIDERS, Provider};
use crate::supervisor::{self, Options};
use crate::sys::child::end_like;

pub fn run(app: &App, args: RunArgs) -> anyhow::Result<Outcome> {
    let (provider, rest) = choose(app, &args.command);
    if provider.integration == Integration::HooksFile {
        warn(app, provider, &rest);
    }
    let options =
        Options { provider, args: rest, name: args.name, keep_alive: args.keep_alive, cwd: app.cwd.clone() };
    let change = supervisor::run(app.store(), app.resolved.config.clone(), options)?;
    end_like(change)
}

/// The provider of this name; without one, the configured one, else the first that is there.
pub fn named_or_usual(app: &App, name: Option<&str>) -> anyhow::Result<&'static Provider> {
    match name {
        Some(name) => providers::find(name).ok_or_else(|| {
            let known: Vec<_> = PROVIDERS.iter().map(|p| p.name).collect();
            anyhow::anyhow!("there is no provider {name}; name one of {}", known.join(", "))
        }),
        None => Ok(choose(app, &[]).0),
    }
}

/// An agent whose hooks do not speak cannot be watched; better said before than found out after hours.
fn warn(app: &App, provider: &Provider, args: &[String]) {
    let standing = codex::standing(&app.paths);
    let (title, name) = (provider.title, provider.name);
    let bypassed = args.iter().any(|arg| arg == "--dangerously-bypass-hook-trust");
    if !standing.is_registered() {
        eprintln!(
            "baton: {title} has no hooks of baton's, so this agent is neither watched nor rotated; \
             `baton install --provider {name}` adds them"
        );
    } else if !standing.skipped.is_empty() && !bypassed {
        eprintln!(
            "baton: {title} does not run {} of baton's {} hooks, because they are not trusted: accept them in its \
             dialog (headless there is none), or run `baton install --provider {name} --trust`",
            standing.skipped.len(),
            codex::EVENTS.len()
        );
    }
}

/// The provider named first, else the configured one, else the first that is there.
fn choose(app: &App, command: &[String]) -> (&'static Provider, Vec<String>) {
    if let Some(provider) = command.first().and_then(|name| providers::find(name)) {
        return (provider, command[1..].to_vec());
    }
    let configured = app.resolved.config.run.provider.as_deref().and_then(providers::find);
    if let Some(provider) = configured {
        return (provider, command.to_vec());
    }
    let found = PROVIDERS.iter().find(|p| p.locate().is_some());
    let provider = found.unwrap_or(&PROVIDERS[PROVIDERS.len() - 1]);
    if !provider.is_client() {
        let how: Vec<_> = PROVIDERS.iter().filter(|p| p.is_client()).map(|p| p.install).collect();
        eprintln!("baton: no client is on the PATH ({}); this is the scripted agent", how.join(", or "));
    }
    (provider, command.to_vec())
}
