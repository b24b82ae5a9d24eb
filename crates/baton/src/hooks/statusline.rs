//! `baton statusline`: reads the client's numbers, stores them, prints one line.

use std::io::Write as _;
use std::time::Duration;

use baton_core::compaction::{CompactionSettings, Observations, compaction_point};
use baton_core::gauge::{Gauge, Report};
use baton_core::handoff::Status;
use baton_core::ids::SessionId;
use baton_core::plain::plain;
use baton_core::reading::{Reading, ReadingSource};
use baton_core::session::Session;
use baton_core::statusline::{Inputs, LineStyle, render};
use baton_core::wire::claude::statusline::{StatusLine, parse_statusline};

use crate::mail::maildir::Mail;
use crate::project::checkpoints;
use crate::providers;
use crate::sessions::context::Context;
use crate::sessions::gauge;
use crate::setup::delegate;
use crate::sys::clock;
use crate::sys::deadline::{self, Deadline};
use crate::sys::stdin;

#[inline(never)]
pub(super) fn run(args: &[&str]) {
    deadline::exit_after(Deadline::HOT);
    let Ok((payload, bytes)) = stdin::payload(Duration::from_millis(50), parse_statusline) else { return };
    let cwd = payload
        .workspace
        .as_ref()
        .and_then(|w| w.current_dir.as_deref())
        .or(payload.cwd.as_deref())
        .filter(|cwd| cwd.starts_with('/'))
        .unwrap_or("/");
    let session = payload.session_id.as_deref().and_then(|id| SessionId::new(id).ok());
    let guard = delegate::Guard::from_env(session.as_ref());
    if guard == delegate::Guard::Nested {
        return;
    }
    let Some(ctx) = Context::at(cwd, providers::usual()) else { return };
    let line = line(&ctx, &payload);
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}");
    if guard == delegate::Guard::Open
        && let Some(key) = delegate::key(args)
    {
        let theirs = delegate::output(&ctx.store.state, key, session.as_ref(), bytes);
        let _ = out.write_all(&theirs.unwrap_or_default());
    }
    let _ = out.flush();
}

fn line(ctx: &Context, payload: &StatusLine<'_>) -> String {
    let id = payload.session_id.as_deref().and_then(|id| SessionId::new(id).ok());
    let session = id.as_ref().and_then(|id| ctx.store.sessions().readable(id));
    let gauge = match (&session, &id) {
        (Some(session), _) => keep(ctx, session, payload),
        // No hook has registered this session: show what the client says, and store nothing.
        (None, _) => unheard(ctx, payload),
    };
    // A cleared context is over, although the client names its session for a moment longer.
    let is_over = session.as_ref().is_some_and(|s| s.ended.is_some());
    let gauge = if is_over { gauge.emptied(ctx.now) } else { gauge };
    let reading = gauge.shown(ctx.config.context.default_window);
    let point = match (&session, reading) {
        (Some(session), Some(reading)) => Some(ctx.compaction_point(session, &gauge, reading.window)),
        _ => None,
    };
    let left = point.zip(reading).map(|(point, reading)| point.distance(reading.total()));
    let turns_left = session.as_ref().zip(left).and_then(|(s, left)| s.turn_ends.turns_left(left));
    let checkpoint = session.as_ref().and_then(|s| checkpoints::shown_cached(&ctx.store, s, &ctx.cwd));
    let (goal, now) = checkpoint.unwrap_or_default();
    let (goal, now) = (plain(&goal), plain(&now));
    let parked = session.as_ref().and_then(|s| parked(ctx, s));
    let inputs = Inputs {
        reading,
        level: gauge.level,
        left,
        turns_left,
        goal: Some(&*goal).filter(|g| !g.is_empty()),
        now: Some(&*now).filter(|n| !n.is_empty()),
        unread: Mail::of(&ctx.store).unread(),
        mail: session.as_ref().map_or(0, |s| Mail::of(&ctx.store).waiting(&s.agent)),
        sealed: session.as_ref().is_some_and(|s| is_sealed(ctx, s)),
        parked_until: parked.as_deref(),
    };
    render(&inputs, look())
}

/// The client's own figures, for a session without a record.
fn unheard(ctx: &Context, payload: &StatusLine<'_>) -> Gauge {
    let reading = Reading::from_statusline(payload, ctx.config.context.default_window, ctx.now);
    let level = reading.map(|reading| {
        let model = payload.model.as_ref().and_then(|m| m.id.as_deref());
        let seen = Observations::default();
        let point = compaction_point(model, reading.window, &CompactionSettings::default(), None, &seen);
        let thresholds = ctx.config.context.thresholds();
        thresholds.limits_from(reading.base, reading.window, point.end()).level(&reading)
    });
    Gauge { reading, level: level.unwrap_or_default(), ..Gauge::default() }
}

/// Joins the client's present report with the gauge.
fn keep(ctx: &Context, session: &Session, payload: &StatusLine<'_>) -> Gauge {
    let report = Report {
        source: ReadingSource::StatusLine,
        reading: Reading::from_statusline(payload, ctx.config.context.default_window, ctx.now),
        window: payload.context_window.and_then(|c| c.context_window_size),
        model: payload.model.as_ref().and_then(|m| m.id.as_deref()),
        tail: None,
    };
    gauge::take(ctx, session, &report)
}

/// Whether a handoff from this very session waits for a fresh context.
fn is_sealed(ctx: &Context, session: &Session) -> bool {
    let Some(id) = &session.last_handoff else { return false };
    let manifest = ctx.store.handoffs(&ctx.config).manifest(&session.channel);
    manifest.is_ok_and(|m| m.find(id).is_some_and(|e| e.status == Status::Active))
}

/// Until when a usage limit parks the agent, in the user's own time.
fn parked(ctx: &Context, session: &Session) -> Option<String> {
    let parked = session.parked()?;
    let (time, left) = (clock::clock(parked.until, ctx.now), clock::left(parked.until, ctx.now));
    Some(format!("{time} (in {left}{})", if parked.guess { ", a guess" } else { "" }))
}

fn look() -> LineStyle {
    let env = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
    let locale = env("LC_ALL").or_else(|| env("LC_CTYPE")).or_else(|| env("LANG"));
    LineStyle {
        width: env("COLUMNS").and_then(|c| c.parse().ok()).filter(|w| *w >= 10).unwrap_or(80),
        colour: env("NO_COLOR").is_none() && env("TERM").is_none_or(|t| t != "dumb"),
        // If the locale is unknown, the clients themselves draw boxes, and so do we.
        unicode: locale.is_none_or(|l| l.to_lowercase().contains("utf")),
    }
}
