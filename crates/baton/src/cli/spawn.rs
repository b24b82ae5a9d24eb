//! `baton spawn NAME`: an agent in a tmux pane of its own.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use baton_core::ids::AgentId;
use baton_core::message::MAX_TEXT;
use serde_json::json;

use super::args::SpawnArgs;
use super::screen::{print, print_json};
use super::{App, Outcome, run as running};
use crate::offer;
use crate::panes::launch::{self, MAX_PROMPT, Spec};
use crate::sys::fs::{self, PRIVATE, Sync};

pub fn run(app: &App, args: &SpawnArgs) -> anyhow::Result<Outcome> {
    let store = app.store();
    let mut cwd = match &args.cwd {
        Some(dir) => app.cwd.join(dir),
        None => app.cwd.clone(),
    };
    ensure!(cwd.is_dir(), "{} is not a folder; name one with --cwd", cwd.display());
    if args.worktree {
        cwd = worktree(&cwd, &args.name)?;
    }
    let provider = running::named_or_usual(app, args.provider.as_deref())?;
    let parent = match &args.parent {
        Some(parent) => {
            if store.agents().get(parent)?.is_none() {
                eprintln!(
                    "baton: there is no agent {parent} that could be the parent; `baton agents` names them"
                );
                return Ok(Outcome::Nothing);
            }
            Some(parent.clone())
        }
        None => app.current_session().map(|session| session.agent),
    };
    let prompt = prompt(app, args)?;
    let prompt = match prompt {
        Some(text) if text.len() > MAX_PROMPT => Some(by_file(&cwd, &args.name, &text)?),
        other => other,
    };
    let client_args = match &prompt {
        Some(text) => launch::with_prompt(args.args.clone(), text),
        None => args.args.clone(),
    };
    let socket = args.socket.clone().unwrap_or_else(|| app.resolved.config.panes.socket.clone());
    let channel = app.channel_of(&cwd)?.name;
    let spec = Spec { name: args.name.clone(), provider, channel, cwd, parent, args: client_args, socket };
    let agent = launch::start(&store, &spec)?;
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

/// What no command line takes lies in a file that the agent may read without asking.
fn by_file(cwd: &Path, name: &AgentId, text: &str) -> anyhow::Result<String> {
    offer::prepare(cwd);
    let path = Path::new(&offer::handoff_path(cwd, name)).with_file_name(format!("task-{name}.md"));
    fs::replace(&cwd.join(&path), text.as_bytes(), PRIVATE, Sync::No)?;
    Ok(format!("Read {} and do what it says.", path.display()))
}

/// The first prompt, from wherever it was given.
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

/// A checkout of its own below the project, on a branch of the agent's name. One that is there is used again.
fn worktree(cwd: &Path, name: &AgentId) -> anyhow::Result<PathBuf> {
    let git = |args: &[&str]| -> anyhow::Result<(bool, String)> {
        let output =
            Command::new("git").arg("-C").arg(cwd).args(args).output().context("could not start git")?;
        let said = if output.status.success() { output.stdout } else { output.stderr };
        Ok((output.status.success(), String::from_utf8_lossy(&said).trim().to_owned()))
    };
    let (found, root) = git(&["rev-parse", "--show-toplevel"])?;
    ensure!(found, "--worktree needs a git repository, and {} is in none", cwd.display());
    let path = Path::new(&root).join(".baton/worktrees").join(name.as_str());
    if path.join(".git").exists() {
        return Ok(path);
    }
    offer::prepare(Path::new(&root));
    let target = path.display().to_string();
    let branch = format!("refs/heads/{name}");
    let (known, _) = git(&["rev-parse", "--verify", "--quiet", &branch])?;
    let add: &[&str] = if known {
        &["worktree", "add", &target, name.as_str()]
    } else {
        &["worktree", "add", "-b", name.as_str(), &target]
    };
    let (made, said) = git(add)?;
    ensure!(made, "git made no worktree {target}: {said}");
    Ok(path)
}
