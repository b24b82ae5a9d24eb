//! `baton memory`: saves a session, and finds the way back into one.

mod context;
mod save;

use std::fmt::Write as _;
use std::path::Path;

use anyhow::bail;
use baton_core::plain::plain_line;
use jiff::Timestamp;
use serde_json::json;

use self::context::{context, update};
use self::save::save;
use crate::cli::args::{Memory as Verb, MemoryArgs};
use crate::cli::trust::refuse_foreign_channel;
use crate::cli::ui::{Paint, age, print, print_json, size, table};
use crate::cli::{App, Outcome};
use crate::project::memory::backups::{self, PendingBackup};
use crate::project::memory::{MemoryDir, documents, project};
use crate::project::trust::Trust;
use crate::setup::install::project_of;
use crate::store::Store;
use crate::sys::terminal;

/// Separates the two parts of the input of `save`.
pub(super) const DIVIDER: &str = "=== session document ===";

pub(super) fn run(app: &App, args: MemoryArgs) -> anyhow::Result<Outcome> {
    let store = app.store();
    let place = MemoryDir::of(&app.paths, &app.cwd, &app.channel()?);
    let json = args.json;
    match args.command {
        Verb::Init { remove: false } => init(app, json),
        Verb::Init { remove: true } => remove(app, json),
        Verb::Save { file, to } => save(app, &store, &place, &file, to.as_deref(), json),
        Verb::Pending { agent } => pending(app, &store, &place, agent, json),
        Verb::Discard { all, which, agent } => discard(&store, &place, all || which.is_some(), agent, json),
        Verb::List { agent } => list(app, &store, &place, agent, json),
        Verb::Context { from, update: Some(file), .. } => {
            let _ = from;
            update(&store, &place, &file, json)
        }
        Verb::Context { from, update: None, budget, agent } => {
            context(app, &store, &place, from.as_deref(), budget, agent, json)
        }
    }
}

/// A skill's command must always succeed: the model would take an exit code for a failure.
fn nothing(agent: bool, text: &str) -> anyhow::Result<Outcome> {
    print(&format!("{text}\n"))?;
    Ok(if agent { Outcome::Done } else { Outcome::Nothing })
}

fn init(app: &App, json: bool) -> anyhow::Result<Outcome> {
    let dir = project_of(&app.paths, &app.cwd);
    if dir == app.paths.home {
        bail!("{} is your home folder, not a project; change to one", dir.display());
    }
    let is_accepted = Trust::read(&app.paths).accepts(&dir);
    if !is_accepted && let Some(outcome) = app.refuse_agent("accept a project's memory") {
        return Ok(outcome);
    }
    if let Some(outcome) = refuse_foreign_channel(&app.store(), &app.paths, &dir)? {
        return Ok(outcome);
    }
    let done = project::init(&app.paths.state, &dir)?;
    // Only the user may trust settings that have changed since.
    if !app.caller().is_agent() {
        Trust::accept(&app.paths, &dir, &dir, "memory init", Timestamp::now())?;
    }
    if json {
        print_json(&json!({ "project": dir, "written": done }))?;
        return Ok(Outcome::Done);
    }
    let mut out = String::new();
    for path in &done {
        let _ = writeln!(out, "{}  {}", Paint::stdout().green("✓"), app.paths.short(path));
    }
    out.push_str(if done.is_empty() {
        "Everything is in place already; nothing was changed.\n"
    } else {
        "Sessions that begin here from now on read it. `baton memory init --remove` undoes it.\n"
    });
    print(&out)?;
    Ok(Outcome::Done)
}

fn remove(app: &App, json: bool) -> anyhow::Result<Outcome> {
    let dir = project_of(&app.paths, &app.cwd);
    let removed = project::remove(&app.paths.state, &dir)?;
    if json {
        print_json(&json!({ "project": dir, "taken_back": removed.done, "stays": removed.stays }))?;
        return Ok(Outcome::Done);
    }
    let mut out = String::new();
    for path in &removed.done {
        let _ = writeln!(out, "{}  {} (as it was)", Paint::stdout().green("✓"), app.paths.short(path));
    }
    for path in &removed.stays {
        let _ = writeln!(out, "{} stays: it holds what was saved", app.paths.short(path));
    }
    if removed.done.is_empty() {
        out.push_str("There was nothing to undo.\n");
    }
    print(&out)?;
    Ok(Outcome::Done)
}

/// "2 older backups are", to be completed by what happened to them.
fn counted_older(n: usize) -> String {
    format!("{} {}", counted(n, "older backup"), if n == 1 { "is" } else { "are" })
}

fn counted(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

fn short_in(place: &MemoryDir, path: &Path) -> String {
    let project = place.project.as_deref().unwrap_or(Path::new("/"));
    path.strip_prefix(project).unwrap_or(path).display().to_string()
}

fn pending(app: &App, store: &Store, place: &MemoryDir, agent: bool, json: bool) -> anyhow::Result<Outcome> {
    let all = backups::pending(store, place);
    if json {
        print_json(&all)?;
        return Ok(Outcome::Done);
    }
    if all.is_empty() {
        return nothing(agent, "No backup is pending.");
    }
    print(&pending_table(app, &all))?;
    Ok(Outcome::Done)
}

/// /resume-from takes the document's name, so in a narrow terminal drop age and size instead.
fn documents_table(rows: &[Vec<String>]) -> String {
    let is_narrow = terminal::size().is_some_and(|(columns, _)| columns < 80);
    if !is_narrow {
        return table(Paint::stdout(), &["AGE", "SIZE", "DOCUMENT", "ABOUT"], rows);
    }
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row[2..].to_vec()).collect();
    table(Paint::stdout(), &["DOCUMENT", "ABOUT"], &rows)
}

fn pending_table(app: &App, all: &[PendingBackup]) -> String {
    let now = Timestamp::now();
    let rows: Vec<Vec<String>> = all
        .iter()
        .map(|p| {
            vec![
                age(p.at, now),
                p.session.as_ref().map_or("?", |s| s.short()).to_owned(),
                p.why.clone(),
                size(p.bytes),
                plain_line(&app.paths.short(&p.path), 120),
            ]
        })
        .collect();
    table(Paint::stdout(), &["AGE", "SESSION", "WHY", "SIZE", "BACKUP"], &rows)
}

fn discard(store: &Store, place: &MemoryDir, all: bool, agent: bool, json: bool) -> anyhow::Result<Outcome> {
    let waiting = backups::pending(store, place);
    let Some(newest) = waiting.first() else {
        return nothing(agent, "No backup is pending; nothing was discarded.");
    };
    let gone = backups::settle(place, "discarded", |p| all || p.path == newest.path)?;
    let older = backups::settle_up_to(place, "settled", newest)?;
    let mut removed = Vec::new();
    for one in &gone {
        if backups::remove_file(place, one)? {
            removed.push(one.path.clone());
        }
    }
    if json {
        print_json(&json!({ "discarded": gone, "removed": removed, "settled": older }))?;
        return Ok(Outcome::Done);
    }
    let mut out = String::new();
    for one in &gone {
        let _ = writeln!(out, "Discarded: the backup {}", one.path.display());
    }
    if !older.is_empty() {
        let _ = writeln!(
            out,
            "{} settled with it; their files stay in {}.",
            counted_older(older.len()),
            place.raw().display()
        );
    }
    out.push_str("The mirrored conversation stays: `baton backup list` shows it.\n");
    print(&out)?;
    Ok(Outcome::Done)
}

fn list(app: &App, store: &Store, place: &MemoryDir, agent: bool, json: bool) -> anyhow::Result<Outcome> {
    let waiting = backups::pending(store, place);
    let (found, skipped) = documents::list(place);
    if json {
        print_json(&json!({ "pending": waiting, "documents": found, "skipped": skipped }))?;
        return Ok(Outcome::Done);
    }
    let mut out = String::new();
    if !waiting.is_empty() {
        let _ = writeln!(
            out,
            "Pending backups (/resume-latest restores the newest, /discard-backup drops it; both settle the older ones):"
        );
        out.push_str(&pending_table(app, &waiting));
        out.push('\n');
    }
    let now = Timestamp::now();
    let rows: Vec<Vec<String>> = found
        .iter()
        .map(|d| {
            vec![
                d.saved.map_or_else(|| "?".to_owned(), |at| age(at, now)),
                size(d.bytes),
                short_in(place, &d.path),
                d.title.clone(),
            ]
        })
        .collect();
    if !rows.is_empty() {
        out.push_str(&documents_table(&rows));
    }
    for why in &skipped {
        let _ = writeln!(out, "skipped: {}", plain_line(why, 200));
    }
    if out.is_empty() {
        return nothing(agent, "No session was saved here yet; /document-and-save saves one.");
    }
    print(&out)?;
    Ok(Outcome::Done)
}
