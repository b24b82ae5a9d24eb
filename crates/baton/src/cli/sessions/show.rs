//! `baton sessions show`: a summary of one conversation, or all of it.

use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use baton_core::handoff::render::render;
use baton_core::ledger::Ledger;
use baton_core::plain::{plain, plain_line};
use baton_core::redact::{redact, redact_json};
use baton_core::session::Session;
use baton_core::transcript::entries::action_words;
use baton_core::transcript::lines::{self, Line, MAX_LINE};
use baton_core::transcript::{Item, Parser, Record};
use serde_json::json;

use crate::cli::sessions::Output;
use crate::cli::ui::{Paint, local, page, print_json};
use crate::cli::{App, Outcome};
use crate::handoffs::transcripts;
use crate::store::mirror::Mirror;
use crate::sys::fs;

pub(super) fn run(app: &App, id: &str, turns: bool, raw: bool, output: Output) -> anyhow::Result<Outcome> {
    let Some(mut found) = open(app, id)? else {
        eprintln!("baton: no session {id:?} was found here, in the clients' folders or in a mirror");
        return Ok(Outcome::Nothing);
    };
    let place = plain_line(&found.path.display().to_string(), 500);
    let doing = || format!("could not read {place}");
    if raw {
        std::io::copy(&mut found.reader, &mut std::io::stdout().lock())?;
        return Ok(Outcome::Done);
    }
    let paint = Paint::stdout();
    if turns {
        let rows = turns_of(found.reader).with_context(doing)?;
        if output.json {
            print_json(
                &rows.iter().map(|(who, what)| json!({ "who": who, "what": what })).collect::<Vec<_>>(),
            )?;
        } else {
            let text: String = rows.iter().map(|(who, what)| turn_line(paint, who, what)).collect();
            page(&text, output.paged)?;
        }
        return Ok(Outcome::Done);
    }
    let ledger = Ledger::of(BufReader::with_capacity(256 << 10, found.reader)).with_context(doing)?;
    if output.json {
        let mut shown = json!({ "transcript": found.path, "session": found.session, "ledger": ledger });
        redact_json(&mut shown);
        print_json(&shown)?;
        return Ok(Outcome::Done);
    }
    let head = found.session.as_ref().map_or_else(String::new, |s| {
        let cwd = plain_line(&app.paths.short(Path::new(&s.cwd)), 300);
        format!("Session {} of {} in {cwd}, begun {}\n", s.id, s.agent, local(s.started))
    });
    let body = render(&ledger, None);
    let body = plain(&body);
    let mut out = paint.dim(&format!("{head}Transcript {place}")) + "\n\n";
    for line in redact(&body).text.trim_end().lines() {
        let line = if line.starts_with('#') { paint.bold(line) } else { line.to_owned() };
        out.push_str(&line);
        out.push('\n');
    }
    page(&out, output.paged)?;
    Ok(Outcome::Done)
}

/// A conversation, opened wherever it still exists.
struct Open {
    path: PathBuf,
    session: Option<Session>,
    reader: Box<dyn Read + Send>,
}

/// Opens the transcript, or else its mirror.
fn open(app: &App, id: &str) -> anyhow::Result<Option<Open>> {
    let store = app.store();
    if let Some(found) = transcripts::find(&store, &app.paths, &app.channel()?, Some(id))? {
        let doing = || format!("could not read {}", found.path.display());
        let reader = Box::new(fs::open_read(&found.path).with_context(doing)?);
        return Ok(Some(Open { path: found.path, session: found.session, reader }));
    }
    let mirror = Mirror::new(&app.paths.state);
    let mut matching = mirror.sessions().into_iter().filter(|s| s.as_str().starts_with(id));
    let (Some(session), None) = (matching.next(), matching.next()) else { return Ok(None) };
    let Some(kept) = mirror.of(&session)? else { return Ok(None) };
    let Some((part, generation)) = kept.newest() else { return Ok(None) };
    let doing = || format!("could not read {}", generation.path.display());
    let reader = part.open(generation).with_context(doing)?;
    let session = store.sessions().get(&session).unwrap_or_else(|e| {
        eprintln!("baton: {e}");
        None
    });
    Ok(Some(Open { path: generation.path.clone(), session, reader }))
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

/// Who said and did what, in order. Keeps only the displayed part in memory.
pub(super) fn turns_of(reader: impl Read) -> std::io::Result<Vec<(&'static str, String)>> {
    let mut parser = Parser::default();
    let mut rows = Vec::new();
    lines::for_each(BufReader::with_capacity(256 << 10, reader), 0, MAX_LINE, |line, offset| match line {
        Line::Whole(bytes) | Line::Torn(bytes) => {
            if let Some(record) = parser.feed(bytes, offset)
                && !record.sidechain
            {
                rows.extend(record_rows(&record));
            }
        }
        Line::TooLong(bytes) => rows.push(("?", format!("a line of {bytes} bytes was skipped"))),
    })?;
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
            Item::Call { action, .. } => Some(("tool", clean(&action_words(action)))),
            Item::Told { text, .. } => Some(("—", clean(text))),
            Item::Outcome { outcome, .. } | Item::Ran { outcome, .. } if outcome.failed => {
                Some(("failed", clean(&outcome.body.text())))
            }
            Item::Interrupted => Some(("user", "interrupted the turn".to_owned())),
            Item::Boundary => Some(("—", "compacted here".to_owned())),
            Item::Outcome { .. }
            | Item::Ran { .. }
            | Item::Patched { .. }
            | Item::AgentStarted { .. }
            | Item::TaskEnded { .. }
            | Item::Loaded(_)
            | Item::TurnEnded
            | Item::Link(_)
            | Item::Branch(_) => None,
        })
        .collect()
}
