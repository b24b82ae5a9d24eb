//! The command line: one file per verb.

mod args;
mod channel;
mod config;
mod demo;
mod handoffs;
mod screen;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use baton_core::handoff::Entry;
use baton_core::ids::{ChannelName, SessionId};
use clap::Parser;

use crate::config::Resolved;
use crate::paths::Paths;
use crate::store::handoffs::Handoffs;

/// How a command ended, when it did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Done,
    /// There was nothing to act on.
    Nothing,
    /// A part could not be done, and was told on standard error.
    Partly,
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Done => ExitCode::SUCCESS,
            Outcome::Partly => ExitCode::from(1),
            Outcome::Nothing => ExitCode::from(3),
        }
    }
}

/// Parses, runs, reports. Wrong usage exits with 2 (clap's own code), a failure with 1.
pub fn main() -> ExitCode {
    let cli = args::Cli::parse();
    match run(cli) {
        Ok(outcome) => outcome.into(),
        Err(error) if screen::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("baton: {error:#}");
            ExitCode::from(1)
        }
    }
}

fn run(cli: args::Cli) -> anyhow::Result<Outcome> {
    let app = App::new(cli.channel)?;
    match cli.command {
        args::Command::Handoffs(args) => handoffs::run(&app, args),
        args::Command::Channel(args) => channel::run(&app, &args),
        args::Command::Config(args) => config::run(&app, &args),
        args::Command::Demo(args) => demo::run(&args),
    }
}

/// What every verb needs: where it runs and what is configured.
struct App {
    paths: Paths,
    cwd: PathBuf,
    resolved: Resolved,
    channel_flag: Option<String>,
}

impl App {
    fn new(channel_flag: Option<String>) -> anyhow::Result<Self> {
        let cwd = std::env::current_dir()
            .context("the current folder cannot be read; change to one that exists")?;
        Self::at(cwd, channel_flag)
    }

    /// As if started in `cwd`.
    fn at(cwd: PathBuf, channel_flag: Option<String>) -> anyhow::Result<Self> {
        let paths = Paths::from_env()?;
        let env =
            std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
        let resolved = crate::config::resolve(&paths, &cwd, env)?;
        Ok(Self { paths, cwd, resolved, channel_flag })
    }

    fn channel(&self) -> anyhow::Result<ChannelName> {
        Ok(self.channel_of(&self.cwd)?.name)
    }

    fn channel_of(&self, dir: &std::path::Path) -> anyhow::Result<baton_core::channel::Channel> {
        let env = std::env::var("BATON_CHANNEL").ok();
        let config = &self.resolved.config;
        Ok(crate::channel::of(dir, self.channel_flag.as_deref(), env, config, &self.paths)?)
    }

    fn handoffs(&self) -> Handoffs<'static> {
        let config = &self.resolved.config.handoff;
        Handoffs::new(config.dir.clone(), config.expiry, &Entry::is_addressed)
    }
}

/// The session this command runs in, as the clients tell their child processes.
fn session_from_env() -> SessionId {
    ["CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID"]
        .iter()
        .find_map(|name| SessionId::new(std::env::var(name).ok()?).ok())
        .unwrap_or_else(|| SessionId::new("manual").expect("a plain word is a valid id"))
}

/// The client this command runs in, else whoever started it.
fn client_pid() -> u32 {
    std::env::var("CLAUDE_PID")
        .ok()
        .and_then(|pid| pid.parse().ok())
        .unwrap_or_else(crate::sys::process::parent_pid)
}
