//! `baton sessions search`: who said it, when and where.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Context as _;
use baton_core::ids::SessionId;
use baton_core::plain::plain_line;
use baton_core::search::Query;
use baton_core::transcript::passages::Role;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::cli::args::{ConversationScope, RoleArg, SearchArgs};
use crate::cli::sessions::list::Listing;
use crate::cli::sessions::{Output, read, report_skipped, scope};
use crate::cli::ui::progress::ProgressLine;
use crate::cli::ui::{Paint, local, page, print_json};
use crate::cli::{App, Outcome};
use crate::history::excerpt::excerpt;
use crate::history::moment::moment;
use crate::history::scan::SearchProgress;
use crate::history::search::{MOST, Results, SearchHit, SearchRequest, Target, TargetKind, search, targets};
use crate::history::{Catalogue, Row};
use crate::sys::child::{Change, end_like};

pub(super) fn run(app: &App, args: &SearchArgs, output: Output) -> anyhow::Result<Outcome> {
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
    let request = SearchRequest {
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
    let scope = scope(app, &args.whose)?;
    let (targets, mut skipped) = targets(&app.paths.state, &catalogue, &scope, since);
    let mut found = search_visibly(&targets, &request)?;
    skipped.append(&mut found.skipped);
    report_skipped(app, &skipped);
    if found.too_long > 0 {
        eprintln!("baton: {} lines are longer than any record and were skipped", found.too_long);
    }
    let listing = Listing::new(app, &catalogue);
    let shown = &found.hits[..found.hits.len().min(limit)];
    if output.json {
        let hits: Vec<_> =
            shown.iter().map(|hit| hit_json(&listing, &catalogue, hit, &query, args.context)).collect();
        print_json(&hits)?;
    } else if !shown.is_empty() {
        let paint = Paint::stdout();
        let mut out = grouped(&listing, &catalogue, shown, &query, args.context, paint);
        let more = found.hits.len() - shown.len();
        if more > 0 || found.cut {
            let least = if found.cut { "at least " } else { "" };
            let _ = writeln!(
                out,
                "… and {least}{more} more; `-n {}` shows more of them",
                limit.saturating_mul(5)
            );
        }
        page(&out, output.paged)?;
    }
    if shown.is_empty() && !output.json {
        match targets.len() {
            0 => eprintln!("baton: there are no sessions of {} to search yet", scope.name()),
            1 => eprintln!("baton: no match in the one session of {}", scope.name()),
            n => eprintln!("baton: no match in {n} sessions of {}", scope.name()),
        }
        return Ok(Outcome::Nothing);
    }
    Ok(if shown.is_empty() { Outcome::Nothing } else { Outcome::Done })
}

/// The conversations of all projects that contain these words, ignoring case.
pub(super) fn sessions_with(app: &App, catalogue: &Catalogue, words: &str) -> HashSet<SessionId> {
    let all = ConversationScope { all: true, ..ConversationScope::default() };
    let (Ok(query), Ok(scope)) = (Query::words(&words.to_lowercase()), scope(app, &all)) else {
        return HashSet::new();
    };
    let (role, tool, file, since, until) = (None, None, None, None, None);
    let request =
        SearchRequest { query: &query, role, tool, file, since, until, most: MOST, now: Timestamp::now() };
    let (targets, _) = targets(&app.paths.state, catalogue, &scope, None);
    let found = search(&targets, &request, &SearchProgress::default());
    found.hits.into_iter().map(|hit| hit.session).collect()
}

/// Searches with a line of progress in a terminal. Ctrl+C ends the search and leaves the terminal clean.
fn search_visibly(targets: &[Target], request: &SearchRequest<'_>) -> anyhow::Result<Results> {
    let progress = SearchProgress::default();
    let interrupt = signal_hook::flag::register(signal_hook::consts::SIGINT, progress.stop.clone())
        .context("could not listen for Ctrl+C")?;
    let found = std::thread::scope(|scope| {
        let caller = std::thread::current();
        let progress = &progress;
        let work = scope.spawn(move || {
            let found = search(targets, request, progress);
            caller.unpark();
            found
        });
        let mut line = ProgressLine::new("searching:", targets.iter().map(|target| target.size).sum());
        while !work.is_finished() {
            std::thread::park_timeout(Duration::from_millis(200));
            line.set(progress.bytes.load(Ordering::Relaxed));
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

fn grouped(
    listing: &Listing<'_>,
    catalogue: &Catalogue,
    hits: &[SearchHit],
    query: &Query,
    context: usize,
    paint: Paint,
) -> String {
    let mut out = String::new();
    let mut order: Vec<&SearchHit> = Vec::new();
    for hit in hits {
        if !order.iter().any(|h| h.session == hit.session) {
            order.push(hit);
        }
    }
    for first in order {
        let row = catalogue.rows.iter().find(|row| row.source.id == first.session);
        let head = row.map_or_else(String::new, |row| {
            let (title, project) = (plain_line(&listing.title(row), 100), listing.project(row));
            format!("{}  {}", paint.bold(&title), paint.dim(&format!("{project}  {}", listing.age(row))))
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
                TargetKind::Live => "",
                TargetKind::Subagent => " (subagent)",
                TargetKind::Mirror => " (mirror)",
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

fn hit_json(
    listing: &Listing<'_>,
    catalogue: &Catalogue,
    hit: &SearchHit,
    query: &Query,
    context: usize,
) -> Value {
    let row: Option<&Row> = catalogue.rows.iter().find(|row| row.source.id == hit.session);
    let shown = excerpt(hit, query, context);
    json!({
        "session": hit.session,
        "provider": hit.provider,
        "title": row.map(|row| listing.title(row)),
        "project": row.map(|row| &row.facts.cwd),
        "transcript": hit.path,
        "mirror": hit.kind == TargetKind::Mirror,
        "subagent": hit.kind == TargetKind::Subagent,
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
