//! `baton spawn NAME`: starts an agent in a new tmux pane.

use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, ensure};
use baton_core::message::MAX_TEXT;
use serde_json::json;

use crate::cli::args::SpawnArgs;
use crate::cli::ui::{print, print_json};
use crate::cli::{App, Outcome, refused};
use crate::rotation::verbs::spawn::{SpawnOrder, spawn};

pub(super) fn run(app: &App, args: &SpawnArgs) -> anyhow::Result<Outcome> {
    let order = SpawnOrder {
        provider: args.provider.clone(),
        cwd: args.cwd.as_ref().map_or_else(|| app.cwd.clone(), |dir| app.cwd.join(dir)),
        worktree: args.worktree,
        prompt: prompt(app, args)?,
        parent: args.parent.clone(),
        otherwise: app.current_session()?.map(|session| session.agent),
        approver: args.approver.clone(),
        role: args.role.clone(),
        args: args.args.clone(),
        socket: args.socket.clone(),
    };
    let channel_of = |dir: &Path| Ok(app.channel_of(dir)?.name);
    let (store, config) = (app.store(), &app.resolved.config);
    let agent = match spawn(&store, config, &app.caller(), &args.name, order, channel_of) {
        Ok(agent) => agent,
        Err(refusal) => return refused(refusal),
    };
    let attended = app.ensure_attendant();
    if args.json {
        print_json(&json!({ "agent": agent, "attended": attended }))?;
    } else {
        let pane = agent.pane.as_ref().map_or("?", |p| p.id.as_str());
        let note = if attended { "" } else { "\nNobody attends to its pane: nothing will be typed into it." };
        print(&format!("{} runs in pane {pane}; `baton attach {}` shows it.{note}\n", agent.id, agent.id))?;
    }
    Ok(Outcome::Done)
}

/// The first prompt, from any of its sources.
fn prompt(app: &App, args: &SpawnArgs) -> anyhow::Result<Option<String>> {
    let text = match (&args.prompt, &args.prompt_file) {
        (Some(dash), _) if dash == "-" => Some(read(std::io::stdin(), "standard input")?),
        (Some(text), _) => Some(text.clone()),
        (None, Some(file)) if file == Path::new("-") => Some(read(std::io::stdin(), "standard input")?),
        (None, Some(file)) => {
            let path = app.cwd.join(file);
            let opened = std::fs::File::open(&path);
            let opened = opened.with_context(|| format!("could not open the prompt {}", path.display()))?;
            Some(read(opened, &path.display().to_string())?)
        }
        (None, None) => None,
    };
    ensure!(
        text.as_ref().is_none_or(|t| !t.trim().is_empty()),
        "the prompt is empty; leave it out or write one"
    );
    Ok(text)
}

fn read(from: impl std::io::Read, name: &str) -> anyhow::Result<String> {
    let mut text = String::new();
    from.take(MAX_TEXT as u64 + 1)
        .read_to_string(&mut text)
        .with_context(|| format!("could not read the prompt from {name}"))?;
    ensure!(
        text.len() <= MAX_TEXT,
        "the prompt from {name} is longer than {MAX_TEXT} bytes; put it into a file and name that"
    );
    Ok(text)
}
