//! `baton sessions search`: who said it, when, and where it stands.

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Context as _;
use baton_core::plain::{plain, plain_line};
use baton_core::redact::redact;
use baton_core::search::Query;
use baton_core::transcript::passages::Role;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::super::args::{RoleArg, SearchArgs};
use super::super::screen::{Paint, local, page, print_json};
use super::super::{App, Outcome};
use super::list::Telling;
use super::{Look, Scope, read, say_skipped};
use crate::sessions::scan::Progress;
use crate::sessions::search::{Found, Hit, Kind, Request, Target, search};
use crate::sessions::{Catalogue, Row, Source, mirrors};
use crate::store::mirror::Mirror;
use crate::sys::child::{Change, end_like};

/// So many matches are looked at before the search ends: the newest transcripts come first.
const MOST: usize = 2_000;
/// Longest line that is shown of a hit.
const LINE: usize = 400;

pub fn run(app: &App, args: &SearchArgs, look: Look) -> anyhow::Result<Outcome> {
    let text = args.query.join(" ");
    let query = if args.regex { Query::regex(&text) } else { Query::words(&text) };
    let query = match query {
        Ok(query) => query,
        Err(e) => {
            eprintln!("baton: {e}");
            return Ok(Outcome::Usage);
        }
    };
    let now = Timestamp::now();
    let since = args.since.as_deref().map(|w| moment(w, now)).transpose()?;
    let until = args.until.as_deref().map(|w| moment(w, now)).transpose()?;
    let limit = if args.limit == 0 { usize::MAX } else { args.limit };
    let request = Request {
        query: &query,
        role: args.role.map(|role| match role {
            RoleArg::User => Role::User,
            RoleArg::Assistant => Role::Assistant,
            RoleArg::Tool => Role::Tool,
        }),
        tool: args.tool.as_deref(),
        file: args.file.as_deref(),
        since,
        until,
        most: MOST.max(args.limit.saturating_mul(4)),
        now,
    };
    let catalogue = read(app);
    let scope = Scope::new(app, &args.whose)?;
    let targets = targets(app, &catalogue, &scope, since);
    let found = watched(&targets, &request)?;
    say_skipped(app, &found.skipped);
    if found.too_long > 0 {
        eprintln!("baton: {} lines are longer than any record and were passed over", found.too_long);
    }
    let telling = Telling::new(app, &catalogue);
    let shown = &found.hits[..found.hits.len().min(limit)];
    if look.json {
        let hits: Vec<_> =
            shown.iter().map(|hit| hit_json(&telling, &catalogue, hit, &query, args.context)).collect();
        print_json(&hits)?;
    } else if !shown.is_empty() {
        let paint = Paint::stdout();
        let mut out = grouped(&telling, &catalogue, shown, &query, args.context, paint);
        let more = found.hits.len() - shown.len();
        if more > 0 || found.cut {
            let least = if found.cut { "at least " } else { "" };
            let _ = writeln!(
                out,
                "… and {least}{more} more; `-n {}` shows more of them",
                limit.saturating_mul(5)
            );
        }
        page(&out, look.paged)?;
    }
    if shown.is_empty() && !look.json {
        eprintln!("baton: nothing in {} sessions of {}", targets.len(), scope.name());
        return Ok(Outcome::Nothing);
    }
    Ok(if shown.is_empty() { Outcome::Nothing } else { Outcome::Done })
}

/// The files of the conversations in `scope`, the newest first.
fn targets(app: &App, catalogue: &Catalogue, scope: &Scope<'_>, since: Option<Timestamp>) -> Vec<Target> {
    let since = since.map_or(i64::MIN, |t| i64::try_from(t.as_nanosecond()).unwrap_or(i64::MIN));
    let mirror = Mirror::new(&app.paths.state);
    let mut targets: Vec<(i64, Target)> = Vec::new();
    for row in catalogue.rows().filter(|row| scope.holds(row)) {
        let Source { provider, id, stamp, .. } = &row.source;
        let (path, mirrored) = (row.source.path(), row.source.is_mirrored());
        let live = |path: PathBuf, kind, size| Target {
            session: id.clone(),
            provider: *provider,
            path,
            kind,
            size,
            mirror: None,
        };
        // A file that was last written before holds nothing written since.
        if !mirrored && stamp.modified >= since {
            targets.push((stamp.modified, live(path.clone(), Kind::Live, stamp.size)));
            for path in row.source.subagents() {
                let size = std::fs::metadata(&path).map_or(0, |m| m.len());
                targets.push((stamp.modified, live(path, Kind::Subagent, size)));
            }
        }
        if let Ok(Some(kept)) = mirror.of(id) {
            let parts = mirrors::targets(&kept, *provider, (!mirrored).then_some(path.as_path()));
            targets.extend(parts.into_iter().map(|target| (stamp.modified, target)));
        }
    }
    targets.sort_by_key(|(modified, _)| std::cmp::Reverse(*modified));
    targets.into_iter().map(|(_, target)| target).collect()
}

/// The search, with its progress on a terminal; Ctrl+C ends it and leaves the line clean.
fn watched(targets: &[Target], request: &Request<'_>) -> anyhow::Result<Found> {
    let progress = Progress::default();
    let interrupt = signal_hook::flag::register(signal_hook::consts::SIGINT, progress.stop.clone())
        .context("could not listen for Ctrl+C")?;
    let total: u64 = targets.iter().map(|t| t.size).sum();
    let is_seen = std::io::stderr().is_terminal();
    let found = std::thread::scope(|scope| {
        let caller = std::thread::current();
        let progress = &progress;
        let work = scope.spawn(move || {
            let found = search(targets, request, progress);
            caller.unpark();
            found
        });
        let mut drawn = false;
        while !work.is_finished() {
            std::thread::park_timeout(Duration::from_millis(200));
            if is_seen && !work.is_finished() {
                let done = progress.bytes.load(Ordering::Relaxed);
                eprint!("\r\x1b[Ksearching: {} of {} MB", done >> 20, total >> 20);
                let _ = std::io::stderr().flush();
                drawn = true;
            }
        }
        if drawn {
            eprint!("\r\x1b[K");
        }
        work.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    signal_hook::low_level::unregister(interrupt);
    if progress.stop.load(Ordering::Relaxed) {
        eprintln!("baton: the search was interrupted; {} hits so far were dropped", found.hits.len());
        end_like(Change::Killed(signal_hook::consts::SIGINT));
    }
    Ok(found)
}

/// A hit as it may be shown: plain, without secrets, the line that matches and those around it.
struct Excerpt {
    before: Vec<String>,
    line: String,
    after: Vec<String>,
}

fn excerpt(hit: &Hit, query: &Query, context: usize) -> Excerpt {
    let plain = plain(&hit.text);
    let safe = redact(&plain).text;
    let lines: Vec<&str> = safe.lines().collect();
    // What was found may itself have been a secret: its mark is shown then.
    let at = query.find(&safe).map(|m| m.at.start).or_else(|| safe.find("[REDACTED:")).unwrap_or(0);
    let n = safe[..at].matches('\n').count().min(lines.len().saturating_sub(1));
    let cut = |line: &&str| cut_around(line, query.marks(line).first(), LINE);
    Excerpt {
        before: lines[n.saturating_sub(context).min(lines.len())..n].iter().map(cut).collect(),
        line: lines.get(n).map(cut).unwrap_or_default(),
        after: lines.iter().skip(n + 1).take(context).map(cut).collect(),
    }
}

/// At most `most` characters of `line`, with `mark` among them.
fn cut_around(line: &str, mark: Option<&Range<usize>>, most: usize) -> String {
    let line = line.trim_end();
    let count = line.chars().count();
    if count <= most {
        return line.to_owned();
    }
    let at = mark.map_or(0, |m| line[..m.start].chars().count());
    let from = at.saturating_sub(most / 3).min(count - most);
    let middle: String = line.chars().skip(from).take(most).collect();
    let (left, right) = (if from > 0 { "…" } else { "" }, if from + most < count { "…" } else { "" });
    format!("{left}{middle}{right}")
}

fn grouped(
    telling: &Telling<'_>,
    catalogue: &Catalogue,
    hits: &[Hit],
    query: &Query,
    context: usize,
    paint: Paint,
) -> String {
    let mut out = String::new();
    let mut order: Vec<&Hit> = Vec::new();
    for hit in hits {
        if !order.iter().any(|h| h.session == hit.session) {
            order.push(hit);
        }
    }
    for first in order {
        let row = catalogue.rows().find(|row| row.source.id == first.session);
        let head = row.map_or_else(String::new, |row| {
            let (title, project) = (plain_line(&telling.title(row), 100), telling.project(row));
            format!("{}  {}", paint.bold(&title), paint.dim(&format!("{project}  {}", telling.when(row))))
        });
        let _ = writeln!(out, "{} {head}", paint.yellow(first.session.short()));
        for hit in hits.iter().filter(|h| h.session == first.session) {
            let shown = excerpt(hit, query, context);
            let who = match &hit.tool {
                Some(tool) => plain_line(tool, 20),
                None => hit.role.as_str().to_owned(),
            };
            let when = hit.time.map(local).unwrap_or_default();
            let aside = match hit.kind {
                Kind::Live => "",
                Kind::Subagent => " (subagent)",
                Kind::Mirror => " (mirror)",
            };
            let times = if hit.times > 1 { format!(" ×{}", hit.times) } else { String::new() };
            let head = paint.cyan(&format!("{who}{aside}{times}"));
            for line in &shown.before {
                let _ = writeln!(out, "  {}", paint.dim(line));
            }
            let _ = writeln!(out, "  {} {head}: {}", paint.dim(&when), marked(&shown.line, query, paint));
            for line in &shown.after {
                let _ = writeln!(out, "  {}", paint.dim(line));
            }
        }
        out.push('\n');
    }
    out
}

fn marked(line: &str, query: &Query, paint: Paint) -> String {
    let mut out = String::new();
    let mut end = 0;
    for mark in query.marks(line) {
        out.push_str(&line[end..mark.start]);
        out.push_str(&paint.red(&line[mark.clone()]));
        end = mark.end;
    }
    out.push_str(&line[end..]);
    out
}

fn hit_json(telling: &Telling<'_>, catalogue: &Catalogue, hit: &Hit, query: &Query, context: usize) -> Value {
    let row: Option<&Row> = catalogue.rows().find(|row| row.source.id == hit.session);
    let shown = excerpt(hit, query, context);
    json!({
        "session": hit.session,
        "provider": hit.provider,
        "title": row.map(|row| telling.title(row)),
        "project": row.map(|row| &row.facts.cwd),
        "transcript": hit.path,
        "mirror": hit.kind == Kind::Mirror,
        "subagent": hit.kind == Kind::Subagent,
        "offset": hit.offset,
        "uuid": hit.uuid,
        "time": hit.time,
        "role": hit.role,
        "tool": hit.tool,
        "files": hit.files,
        "line": shown.line,
        "before": shown.before,
        "after": shown.after,
        "times": hit.times,
        "score": hit.score,
    })
}

/// `2026-11-01`, `2026-11-01T12:00`, a time stamp with its zone, or how long ago: `90m`, `3h`, `7d`, `2w`.
fn moment(text: &str, now: Timestamp) -> anyhow::Result<Timestamp> {
    let ago = || {
        let at = text.find(|c: char| !c.is_ascii_digit())?;
        let count: i64 = text[..at].parse().ok()?;
        let minutes = match &text[at..] {
            "m" => 1,
            "h" => 60,
            "d" => 24 * 60,
            "w" => 7 * 24 * 60,
            _ => return None,
        };
        now.checked_sub(SignedDuration::from_mins(count.checked_mul(minutes)?)).ok()
    };
    let zoned = |it: DateTime| it.to_zoned(TimeZone::system()).ok().map(|z| z.timestamp());
    ago()
        .or_else(|| text.parse::<Timestamp>().ok())
        .or_else(|| text.parse::<DateTime>().ok().and_then(zoned))
        .or_else(|| text.parse::<Date>().ok().and_then(|d| zoned(d.into())))
        .with_context(|| format!("{text:?} is no time; write 2026-11-01, 2026-11-01T12:00, or 3h, 7d"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_a_date_a_time_or_how_long_ago() {
        let now: Timestamp = "2026-11-16T12:00:00Z".parse().unwrap();
        assert_eq!(moment("3h", now).unwrap().to_string(), "2026-11-16T09:00:00Z");
        assert_eq!(moment("2w", now).unwrap().to_string(), "2026-11-02T12:00:00Z");
        assert_eq!(moment("2026-11-01T00:00:00Z", now).unwrap().to_string(), "2026-11-01T00:00:00Z");
        assert!(moment("2026-11-01", now).is_ok());
        for wrong in ["", "yesterday", "5x", "99999999999999999999d", "9223372036854775807w"] {
            assert!(moment(wrong, now).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_long_line_is_cut_around_what_was_found() {
        let line = format!("{}here{}", "x".repeat(1000), "é".repeat(1000));
        let shown = cut_around(&line, Some(&(1000..1004)), 100);
        assert!(shown.contains("here") && shown.chars().count() <= 102, "{shown}");
        assert_eq!(cut_around("short", None, 100), "short");
    }
}
