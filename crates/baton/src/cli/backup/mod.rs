//! `baton backup`: the user's view of the mirrored conversations.

mod export;
mod import;
mod prune;
pub(super) mod restore;
mod tar;

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, bail};
use baton_core::ids::SessionId;
use jiff::Timestamp;
use serde_json::json;

use crate::cli::args::{Backup as Verb, BackupArgs};
use crate::cli::ui::progress::ProgressLine;
use crate::cli::ui::{Paint, age, print, print_json, size, table_ranked};
use crate::cli::{App, Outcome};
use crate::history::catalogue::Titles;
use crate::store::Store;
use crate::store::mirror::{MirrorOrigin, MirroredSession};
use crate::store::verified::Verification;
use crate::views::backups::is_live;

pub(super) fn run(app: &App, args: BackupArgs) -> anyhow::Result<Outcome> {
    let store = app.store();
    store.mirror().sweep();
    match args.command.unwrap_or(Verb::List { here: false }) {
        Verb::List { here } => list(app, &store, here, args.json),
        Verb::Verify { session } => verify(&store, session.as_deref(), args.json),
        Verb::Restore { session, generation, to, force, dry_run, max_size, max_files } => {
            let bounds = Some(import::Bounds { bytes: max_size.saturating_mul(1 << 30), files: max_files });
            let wish = restore::RestoreOptions {
                what: &session,
                generation,
                to: to.as_deref(),
                force,
                dry_run,
                bounds,
            };
            restore::run(app, &store, &wish, args.json)
        }
        Verb::Export { session, to } => export::run(&store, &session, &to, args.json),
        Verb::Prune { dry_run, keep_days, max_mb } => {
            let keep = keep_days.unwrap_or(app.resolved.config.mirror.keep_days);
            let most = max_mb.unwrap_or(app.resolved.config.mirror.max_mb);
            prune::run(
                app,
                &store,
                &prune::PruneOptions { dry_run, keep_days: keep, max_mb: most },
                args.json,
            )
        }
        Verb::Compress { session } => compress(&store, session.as_deref(), args.json),
        Verb::Pin { session } => pin(&store, &session, true),
        Verb::Unpin { session } => pin(&store, &session, false),
    }
}

/// Every mirrored conversation, newest bytes first. Reports and skips unreadable ones.
fn all(store: &Store) -> Vec<MirroredSession> {
    let mirror = store.mirror();
    let mut all: Vec<MirroredSession> = mirror
        .sessions()
        .into_iter()
        .filter_map(|id| match mirror.of(&id) {
            Ok(found) => found,
            Err(e) => {
                eprintln!("baton: skipped: {e}");
                None
            }
        })
        .collect();
    all.sort_by(|a, b| b.modified().cmp(&a.modified()).then_with(|| a.session.cmp(&b.session)));
    all
}

/// The one whose id begins with `what`.
fn find(store: &Store, what: &str) -> anyhow::Result<Option<MirroredSession>> {
    let ids: Vec<SessionId> =
        store.mirror().sessions().into_iter().filter(|id| id.as_str().starts_with(what)).collect();
    match ids.as_slice() {
        [] => Ok(None),
        [one] => Ok(store.mirror().of(one)?),
        [a, b, ..] => bail!("{what:?} matches several sessions, {a} and {b}; write more of it"),
    }
}

fn not_there(what: &str) -> Outcome {
    eprintln!("baton: no session {what:?} was mirrored; `baton backup list` shows what there is");
    Outcome::Nothing
}

fn stamp(at: Option<SystemTime>) -> Option<Timestamp> {
    at.and_then(|t| Timestamp::try_from(t).ok())
}

const BACKUPS: &[(&str, u8)] =
    &[("SESSION", 0), ("AGE", 0), ("SIZE", 0), ("ON DISK", 3), ("PROJECT", 1), ("NOTES", 2), ("ABOUT", 0)];

fn list(app: &App, store: &Store, here: bool, json: bool) -> anyhow::Result<Outcome> {
    let mut found = all(store);
    if here {
        found.retain(|m| Path::new(&m.meta.cwd).starts_with(&app.cwd));
    }
    let now = Timestamp::now();
    if json {
        let rows: Vec<_> = found.iter().map(|m| row_json(store, m)).collect();
        print_json(&rows)?;
        return Ok(Outcome::Done);
    }
    if found.is_empty() {
        print("No conversation has been copied yet. baton copies every session whose hooks run.\n")?;
        return Ok(Outcome::Nothing);
    }
    let catalogue = crate::history::catalogue::read(&app.paths, &app.resolved.config);
    let titles = Titles::new(&catalogue);
    let title = |session: &SessionId| {
        let row = catalogue.rows.iter().find(|row| row.source.id == *session);
        row.map(|row| titles.of(row).to_owned()).unwrap_or_default()
    };
    // In a terminal a short id is enough; programs get the whole id.
    let is_short = crate::sys::terminal::size().is_some();
    let rows: Vec<Vec<String>> = found
        .iter()
        .map(|m| {
            let newest = m.newest();
            let mut notes = Vec::new();
            if is_live(store, &m.session) {
                notes.push("running".to_owned());
            }
            if m.pinned {
                notes.push("pinned".to_owned());
            }
            if newest.is_some_and(|(_, g)| g.compressed) {
                notes.push("compressed".to_owned());
            }
            let (others, subagents) = (m.main().map_or(0, |p| p.generations.len()), m.parts.len());
            if others > 1 {
                notes.push(format!("{} earlier generations", others - 1));
            }
            if subagents > 1 {
                notes.push(format!("{} subagents", subagents - 1));
            }
            if !Path::new(&m.meta.transcript).exists() {
                notes.push("the client's own is gone".to_owned());
            }
            vec![
                if is_short { m.session.short().to_owned() } else { m.session.to_string() },
                stamp(m.modified()).map_or_else(|| "?".to_owned(), |at| age(at, now)),
                size(newest.map_or(0, |(_, g)| g.bytes)),
                size(m.stored()),
                baton_core::plain::plain_line(&app.paths.short(Path::new(&m.meta.cwd)), 40),
                notes.join(", "),
                title(&m.session),
            ]
        })
        .collect();
    let mut out = table_ranked(Paint::stdout(), BACKUPS, &rows);
    let total: u64 = found.iter().map(MirroredSession::stored).sum();
    let _ = writeln!(out, "{} sessions, {} on disk", found.len(), size(total));
    print(&out)?;
    Ok(Outcome::Done)
}

fn row_json(store: &Store, m: &MirroredSession) -> serde_json::Value {
    let parts: Vec<_> = m
        .parts
        .iter()
        .map(|part| {
            let generations: Vec<_> = part
                .generations
                .iter()
                .map(|g| {
                    json!({ "number": g.number, "path": g.path, "live": g.live, "compressed": g.compressed,
                    "bytes": g.bytes, "stored": g.stored, "base": g.base })
                })
                .collect();
            json!({ "name": part.name, "generations": generations })
        })
        .collect();
    json!({
        "session": m.session, "transcript": m.meta.transcript, "cwd": m.meta.cwd, "provider": m.meta.provider,
        "pinned": m.pinned, "running": is_live(store, &m.session), "modified": stamp(m.modified()),
        "stored": m.stored(), "parts": parts,
    })
}

/// Catches up with the transcripts, then reads everything once.
fn verify(store: &Store, what: Option<&str>, json: bool) -> anyhow::Result<Outcome> {
    let found = match what {
        Some(what) => match find(store, what)? {
            Some(one) => vec![one],
            None => return Ok(not_there(what)),
        },
        None => all(store),
    };
    let generations = || found.iter().flat_map(|m| &m.parts).flat_map(|p| &p.generations);
    let mut progress = ProgressLine::new("verifying", generations().map(|g| g.bytes).sum());
    let (mut damaged, mut rows) = (0, Vec::new());
    let sessions = found.len();
    for m in found {
        if let Err(e) = catch_up(store, &m) {
            eprintln!("baton: could not copy the new part of the transcript of {}: {e:#}", m.session);
        }
        // Catching up may have started a new generation.
        let m = store.mirror().of(&m.session)?.unwrap_or(m);
        for part in &m.parts {
            for generation in &part.generations {
                let checked = m.check(part, generation, &mut |bytes| {
                    progress.add(bytes);
                    true
                });
                damaged += usize::from(checked.is_err());
                rows.push((m.session.clone(), part.name.clone(), generation.clone(), checked.err()));
            }
        }
    }
    drop(progress);
    if what.is_none() {
        let verification = Verification { at: Timestamp::now(), sessions, generations: rows.len(), damaged };
        if let Err(e) = store.verified().note(&verification) {
            eprintln!("baton: could not record the verification: {e}");
        }
    }
    if json {
        let rows: Vec<_> = rows
            .iter()
            .map(|(session, part, g, error)| {
                json!({ "session": session, "part": part, "generation": g.number, "path": g.path,
                "bytes": g.bytes, "error": error })
            })
            .collect();
        print_json(&rows)?;
    } else {
        for (session, part, g, error) in &rows {
            if let Some(error) = error {
                eprintln!("baton: {part} of session {session}, {}: {error}", g.path.display());
            }
        }
        let copies = if rows.len() == 1 { "copy" } else { "copies" };
        let of = if sessions == 1 { "session" } else { "sessions" };
        let damaged = if damaged == 0 { "none".to_owned() } else { damaged.to_string() };
        print(&format!("{} {copies} of {sessions} {of}, {damaged} damaged\n", rows.len()))?;
    }
    Ok(if damaged > 0 { Outcome::Failed } else { Outcome::Done })
}

/// Copies the part of the transcript that the mirror lacks.
fn catch_up(store: &Store, m: &MirroredSession) -> anyhow::Result<()> {
    let transcript = Path::new(&m.meta.transcript);
    // A compressed one is complete, and the client's file may be shorter by now.
    if m.newest().is_none_or(|(_, g)| !g.live) || !transcript.is_file() {
        return Ok(());
    }
    let origin =
        MirrorOrigin { session: &m.session, provider: &m.meta.provider, transcript, cwd: &m.meta.cwd };
    store.mirror().catch_up(&origin, Duration::from_mins(10)).context("could not catch up")?;
    Ok(())
}

/// Compresses ended conversations, as the daemon does.
fn compress(store: &Store, what: Option<&str>, json: bool) -> anyhow::Result<Outcome> {
    let found = match what {
        Some(what) => match find(store, what)? {
            Some(one) => vec![one],
            None => return Ok(not_there(what)),
        },
        None => all(store),
    };
    if let (Some(_), [one]) = (what, found.as_slice())
        && is_live(store, &one.session)
    {
        bail!("session {} is still running; end it first", one.session);
    }
    let waiting: Vec<&MirroredSession> = found.iter().filter(|m| !is_live(store, &m.session)).collect();
    let plain = |m: &&MirroredSession| -> u64 {
        m.parts.iter().flat_map(|p| &p.generations).filter(|g| !g.compressed).map(|g| g.stored).sum()
    };
    let mut progress = ProgressLine::new("compressing", waiting.iter().map(plain).sum());
    let (mut sessions, mut before, mut after) = (0, 0, 0);
    for m in waiting {
        if let Err(e) = catch_up(store, m) {
            eprintln!("baton: {} was left as it is: {e:#}", m.session);
            continue;
        }
        let rested = store.mirror().rest(&m.session, &mut |bytes| {
            progress.add(bytes);
            true
        })?;
        sessions += usize::from(rested.generations > 0);
        before += rested.before;
        after += rested.after;
    }
    drop(progress);
    if json {
        print_json(&json!({ "sessions": sessions, "before": before, "after": after }))?;
    } else {
        print(&format!("{sessions} sessions compressed, {} → {}\n", size(before), size(after)))?;
    }
    Ok(Outcome::Done)
}

fn pin(store: &Store, what: &str, pinned: bool) -> anyhow::Result<Outcome> {
    let Some(m) = find(store, what)? else { return Ok(not_there(what)) };
    let changed = store.mirror().pin(&m.session, pinned)?;
    let text = match (pinned, changed) {
        (true, true) => "is pinned: prune leaves it alone",
        (true, false) => "was pinned already",
        (false, true) => "is no longer pinned",
        (false, false) => "was not pinned",
    };
    print(&format!("{} {text}\n", m.session))?;
    Ok(Outcome::Done)
}
