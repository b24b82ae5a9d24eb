//! `baton run [PROVIDER] [ARGS…]`: keeps an agent in this terminal going, context after context.

use std::path::PathBuf;

use anyhow::{Context as _, anyhow};
use baton_core::nearest::nearest;

use crate::cli::args::RunArgs;
use crate::cli::{App, Outcome, refused, trust};
use crate::providers::{self, Integration, PROVIDERS, Program, Provider};
use crate::rotation::actuators::restart::{self, RunOptions};
use crate::rotation::verbs::spawn::{ensure_approver, usual};
use crate::sessions::rights;
use crate::setup::install::codex;
use crate::setup::plugin_dir;
use crate::sys::child::end_like;

pub(super) fn run(app: &App, args: RunArgs) -> anyhow::Result<Outcome> {
    let accepted;
    let app = if trust::ask(app)? {
        accepted = App::new(app.channel_flag.clone())?;
        &accepted
    } else {
        app
    };
    if let Some(approver) = &args.approver {
        if let Some(outcome) = app.refuse_agent("make somebody an approver") {
            return Ok(outcome);
        }
        if let Err(refusal) = ensure_approver(&app.store(), approver) {
            return refused(refusal);
        }
    }
    if let Some(name) = &args.name
        && let Some(why) =
            rights::refuse_name(&app.store(), &app.resolved.config.approvals.rules, &app.caller(), name)
    {
        eprintln!("baton: {why}");
        return Ok(Outcome::Failed);
    }
    let Choice { provider, program, rest } = choose(app, &args.command, args.demo)?;
    if provider.integration == Integration::HooksFile {
        warn(app, provider, &rest);
    }
    let options = RunOptions {
        provider,
        program,
        args: rest,
        name: args.name,
        keep_alive: args.keep_alive,
        cwd: app.cwd.clone(),
        integrate: plugin_dir::args,
        approvals: args.approvals || args.approver.is_some(),
        approver: args.approver,
    };
    let change = restart::run(app.store(), app.resolved.config.clone(), options)?;
    end_like(change)
}

/// Without working hooks we cannot watch an agent; warn now rather than let the user find out hours later.
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

/// The program to start, and the client's own arguments.
struct Choice {
    provider: &'static Provider,
    /// The exact program, if a path was given.
    program: Option<PathBuf>,
    rest: Vec<String>,
}

/// The first word names a client: a provider, or a client's program. Without a word, or with only the client's own
/// options, take the default.
fn choose(app: &App, command: &[String], demo: bool) -> anyhow::Result<Choice> {
    let with = |provider, program, rest: &[String]| Choice { provider, program, rest: rest.to_vec() };
    if demo {
        let scripted = PROVIDERS.iter().find(|p| matches!(p.program, Program::Own(_)));
        return Ok(with(scripted.context("this build has no scripted agent")?, None, command));
    }
    match command.split_first() {
        Some((word, rest)) if !word.starts_with('-') => {
            if let Some(provider) = providers::find(word) {
                return Ok(with(provider, None, rest));
            }
            let (provider, program) = program_of(app, word).ok_or_else(|| unknown(word))?;
            Ok(with(provider, Some(program), rest))
        }
        _ => Ok(with(usual(&app.resolved.config)?, None, command)),
    }
}

/// A path or a program on the PATH whose file is named like a client, possibly behind links.
fn program_of(app: &App, word: &str) -> Option<(&'static Provider, PathBuf)> {
    let path = if word.contains('/') { app.cwd.join(word) } else { providers::on_path(word)? };
    let real = std::fs::canonicalize(&path).ok()?;
    let provider = [&path, &real].into_iter().find_map(|path| providers::of_program(path))?;
    Some((provider, path))
}

fn unknown(word: &str) -> anyhow::Error {
    let names: Vec<&str> =
        PROVIDERS.iter().filter(|p| p.locate().is_some() || p.is_client()).map(|p| p.name).collect();
    match nearest(word, names.iter().copied()) {
        Some(name) => anyhow!("there is no client {word}; did you mean {name}? Try `baton run {name}`"),
        None => anyhow!(
            "{word} is not a client that baton knows; name one first ({}): baton run CLIENT [ITS ARGUMENTS]",
            names.join(", ")
        ),
    }
}
