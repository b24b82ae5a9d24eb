//! `baton checkpoint`: the state of a workflow, for all its instances.

use std::fmt::Write as _;
use std::path::Path;

use baton_core::checkpoint::Checkpoint;
use baton_core::plain::{plain, plain_line};
use jiff::Timestamp;
use serde_json::json;

use crate::cli::args::{CheckpointArgs, CheckpointCommand};
use crate::cli::ui::{Paint, age, print, print_json, print_raw, table};
use crate::cli::{App, Outcome, session_from_env};
use crate::project::checkpoints;

pub(super) fn run(app: &App, args: CheckpointArgs) -> anyhow::Result<Outcome> {
    match args.command {
        Some(CheckpointCommand::List { name, limit, json }) => list(app, name.as_deref(), limit, json),
        Some(CheckpointCommand::Latest { name, json }) => latest(app, name.as_deref(), json),
        None => write(app, args),
    }
}

fn write(app: &App, args: CheckpointArgs) -> anyhow::Result<Outcome> {
    let (Some(goal), Some(next_now)) = (args.goal, args.now) else {
        eprintln!(
            "baton: a checkpoint needs both --goal and --now; `baton checkpoint --help` shows the rest"
        );
        return Ok(Outcome::Usage);
    };
    let now = Timestamp::now();
    let clean = |text: String| {
        let text = plain(&text).into_owned();
        baton_core::redact::redact(&text).text.into_owned()
    };
    let all = |texts: Vec<String>| texts.into_iter().map(clean).collect();
    let checkpoint = Checkpoint {
        event_type: "handoff".to_owned(),
        timestamp: Some(now),
        session_id: session_from_env().short().to_owned(),
        session_name: args.name.map(clean),
        goal: clean(goal),
        now: clean(next_now),
        done_this_session: all(args.done),
        blockers: all(args.blocker),
        next: all(args.next),
    };
    let project = checkpoints::project_of(&app.cwd);
    let path = checkpoints::publish(&project, &checkpoint, now)?;
    app.store().agents().show_again(|agent| Path::new(&agent.cwd).starts_with(&project))?;
    if args.json {
        print_json(&json!({ "path": path, "checkpoint": checkpoint }))?;
    } else {
        print_raw(&format!("{}\n", plain_line(&path.display().to_string(), 4096)))?;
    }
    Ok(Outcome::Done)
}

fn found(app: &App, name: Option<&str>) -> Vec<(std::path::PathBuf, Checkpoint)> {
    let (all, unread) = checkpoints::list(&checkpoints::project_of(&app.cwd));
    if unread > 0 {
        eprintln!("baton: {unread} event files could not be parsed and were skipped");
    }
    all.into_iter().filter(|(_, c)| name.is_none() || c.session_name.as_deref() == name).collect()
}

fn list(app: &App, name: Option<&str>, limit: usize, json: bool) -> anyhow::Result<Outcome> {
    let mut all = found(app, name);
    let more = all.len().saturating_sub(limit);
    all.truncate(limit);
    if json {
        let rows: Vec<_> = all.iter().map(|(path, c)| json!({ "path": path, "checkpoint": c })).collect();
        print_json(&rows)?;
        return Ok(Outcome::Done);
    }
    if all.is_empty() {
        print("No checkpoints yet. `baton checkpoint --goal … --now …` writes one.\n")?;
        return Ok(Outcome::Nothing);
    }
    let now = Timestamp::now();
    let rows: Vec<_> = all
        .iter()
        .map(|(_, c)| {
            vec![
                c.timestamp.map_or_else(|| "?".to_owned(), |at| age(at, now)),
                c.session_id.clone(),
                plain_line(&c.goal, 60),
                plain_line(&c.now, 60),
            ]
        })
        .collect();
    let mut out = table(Paint::stdout(), &["AGE", "SESSION", "GOAL", "NOW"], &rows);
    if more > 0 {
        let _ = writeln!(out, "… and {more} more");
    }
    print(&out)?;
    Ok(Outcome::Done)
}

fn latest(app: &App, name: Option<&str>, json: bool) -> anyhow::Result<Outcome> {
    let Some((path, checkpoint)) = found(app, name).into_iter().next() else {
        eprintln!("baton: there is no checkpoint yet");
        return Ok(Outcome::Nothing);
    };
    if json {
        print_json(&json!({ "path": path, "checkpoint": checkpoint }))?;
    } else {
        print_raw(&plain(&checkpoint.format()))?;
    }
    Ok(Outcome::Done)
}
