//! `baton sessions show`: what one conversation was about, or all of it.

use std::io::BufReader;
use std::path::Path;

use anyhow::Context as _;
use baton_core::handoff::render::render;
use baton_core::plain::{plain, plain_line};
use baton_core::redact::redact;
use baton_core::transcript::lines::{self, Line, MAX_LINE};
use baton_core::transcript::{Action, Item, Parser, Record};
use serde_json::json;

use super::super::screen::{Paint, page, print_json};
use super::super::{App, Outcome};
use super::Look;
use crate::sys::fs;
use crate::transcripts;

pub fn run(app: &App, id: &str, turns: bool, raw: bool, look: Look) -> anyhow::Result<Outcome> {
    let Some(found) = transcripts::find(&app.store(), &app.paths, &app.channel()?, Some(id))? else {
        eprintln!("baton: no session {id:?} was found here or in the clients' folders");
        return Ok(Outcome::Nothing);
    };
    if raw {
        let mut file =
            fs::open_read(&found.path).with_context(|| format!("could not read {}", found.path.display()))?;
        std::io::copy(&mut file, &mut std::io::stdout().lock())?;
        return Ok(Outcome::Done);
    }
    let paint = Paint::stdout();
    if turns {
        let rows = turns_of(&found.path)?;
        if look.json {
            print_json(
                &rows.iter().map(|(who, what)| json!({ "who": who, "what": what })).collect::<Vec<_>>(),
            )?;
        } else {
            let text: String = rows.iter().map(|(who, what)| turn_line(paint, who, what)).collect();
            page(&text, look.paged)?;
        }
        return Ok(Outcome::Done);
    }
    let ledger = found.ledger()?;
    if look.json {
        print_json(&json!({ "transcript": found.path, "session": found.session, "ledger": ledger }))?;
        return Ok(Outcome::Done);
    }
    let head = found.session.as_ref().map_or_else(String::new, |s| {
        let cwd = plain_line(&app.paths.short(Path::new(&s.cwd)), 300);
        format!("Session {} of {} in {cwd}, begun {}\n", s.id, s.agent, s.started)
    });
    let place = plain_line(&found.path.display().to_string(), 500);
    let body = render(&ledger, None);
    let body = plain(&body);
    let mut out = paint.dim(&format!("{head}Transcript {place}")) + "\n\n";
    for line in redact(&body).text.trim_end().lines() {
        let line = if line.starts_with('#') { paint.bold(line) } else { line.to_owned() };
        out.push_str(&line);
        out.push('\n');
    }
    page(&out, look.paged)?;
    Ok(Outcome::Done)
}

fn turn_line(paint: Paint, who: &str, what: &str) -> String {
    let what = plain_line(what, 200);
    let name = format!("{who:<8}");
    match who {
        "user" => format!("{} {}\n", paint.cyan(&name), paint.bold(&what)),
        "agent" => format!("{} {what}\n", paint.green(&name)),
        "failed" => format!("{} {what}\n", paint.red(&name)),
        _ => format!("{} {}\n", paint.dim(&name), paint.dim(&what)),
    }
}

/// Who said and did what, in order, in memory bounded by what is shown.
fn turns_of(path: &Path) -> anyhow::Result<Vec<(&'static str, String)>> {
    let file = fs::open_read(path).with_context(|| format!("could not read {}", path.display()))?;
    let mut parser = Parser::default();
    let mut rows = Vec::new();
    lines::for_each(BufReader::with_capacity(256 << 10, file), 0, MAX_LINE, |line, offset| match line {
        Line::Whole(bytes) | Line::Torn(bytes) => {
            if let Some(record) = parser.feed(bytes, offset)
                && !record.sidechain
            {
                rows.extend(record_rows(&record));
            }
        }
        Line::TooLong(bytes) => rows.push(("?", format!("a line of {bytes} bytes was passed over"))),
    })
    .with_context(|| format!("could not read {}", path.display()))?;
    Ok(rows)
}

fn record_rows(record: &Record<'_>) -> Vec<(&'static str, String)> {
    let clean = |text: &str| redact(&plain(text)).text.into_owned();
    record
        .items
        .iter()
        .filter_map(|item| match item {
            Item::Prompt(text) | Item::Queued(text) => Some(("user", clean(text))),
            Item::Command { name, args } => Some(("user", clean(&format!("{name} {args}")))),
            Item::Reply(text) => Some(("agent", clean(text))),
            Item::Call { action, .. } => Some(("tool", clean(&action_line(action)))),
            Item::Outcome { failed: true, body, .. } => Some(("failed", clean(&body.text()))),
            Item::Interrupted => Some(("user", "interrupted the turn".to_owned())),
            Item::Boundary => Some(("—", "compacted here".to_owned())),
            Item::Outcome { .. } | Item::TaskEnded { .. } | Item::TurnEnded | Item::Link(_) => None,
        })
        .collect()
}

fn action_line(action: &Action<'_>) -> String {
    match action {
        Action::Shell { command, .. } => format!("$ {command}"),
        Action::Files(files) => {
            let parts: Vec<String> = files
                .iter()
                .map(|(touch, path)| format!("{} {path}", format!("{touch:?}").to_lowercase()))
                .collect();
            parts.join(", ")
        }
        Action::Todos(todos) => format!("todo list of {}", todos.len()),
        Action::TaskCreated { subject } => format!("task: {subject}"),
        Action::TaskUpdated { id, .. } => format!("task {id} updated"),
        Action::Agent { description, .. } => format!("subagent: {description}"),
        Action::Stopped { id } => format!("stopped {id}"),
        Action::Asked(questions) => format!("asked: {}", questions.join(" / ")),
        Action::Plan(text) => format!("plan: {text}"),
        Action::Other(name) => name.to_string(),
    }
}
