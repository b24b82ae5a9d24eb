//! Takes readings, decides the level, and publishes what changed. Every source goes through [`joined`].

use std::os::unix::fs::MetadataExt as _;

use baton_core::gauge::{Gauge, Report};
use baton_core::ids::SessionId;
use baton_core::level::{Level, context_status, last_resort};
use baton_core::reading::Reading;
use baton_core::session::{Duty, Session};
use baton_core::transcript::tail::{REACH, Tail};
use jiff::Timestamp;

use crate::sessions::context::Context;
use crate::sessions::mirror;
use crate::store::{Store, published};
use crate::sys::fs;
use crate::sys::positioned::Positioned;

/// The result of a measurement.
pub(crate) struct Measurement {
    pub gauge: Gauge,
    /// Length of the transcript, 0 if there is none yet.
    pub transcript_len: u64,
    /// What the end of the transcript says, if there is one.
    pub tail: Option<Tail>,
}

/// Measures from the transcript.
pub(crate) fn measure(ctx: &Context, session: &Session) -> Measurement {
    let open = ctx.store.sessions().open_gauge(&session.id);
    let mut before = open.before.clone();
    let (tail, transcript_len) = tail(ctx, session, &mut before);
    let is_first = before.reading.is_none();
    let limits = ctx.config.context.byte_limits();
    let by_bytes = tail.as_ref().and_then(|tail| last_resort(tail, transcript_len, &limits));
    let (window, base) = (ctx.config.context.default_window, ctx.provider.hooks.base);
    let seen = tail.as_ref().unwrap_or(&Tail::Nothing);
    let report = Report::of_tail(seen, before.window, window, base, ctx.now);
    let (gauge, news) = joined(ctx, session, &before, &report, by_bytes, transcript_len);
    publish(&ctx.store, &session.id, &gauge, news, || session.ended.is_none(), ctx.now);
    if is_first {
        log_clamps(ctx, session, &gauge);
    }
    if let Err(e) = open.keep(&gauge) {
        ctx.fault("store a reading", &e);
    }
    Measurement { gauge, transcript_len, tail }
}

/// Takes a reading that the client itself reported.
pub(crate) fn take(ctx: &Context, session: &Session, report: &Report<'_>) -> Gauge {
    let open = ctx.store.sessions().open_gauge(&session.id);
    let (gauge, news) = joined(ctx, session, &open.before, report, None, transcript_len(session));
    publish(&ctx.store, &session.id, &gauge, news, || session.ended.is_none(), ctx.now);
    if let Err(e) = open.keep(&gauge) {
        ctx.fault("store a reading", &e);
    }
    gauge
}

/// Resets the gauge for a fresh context and ignores late readings of the old one.
pub(crate) fn empty(ctx: &Context, session: &Session) {
    let open = ctx.store.sessions().open_gauge(&session.id);
    let mut gauge = open.before.emptied(ctx.now);
    let status = context_status(gauge.level, transcript_len(session));
    let news = News {
        status: gauge.status != status && !session.leaves(Duty::Levels),
        percentage: (gauge.percentage != Some(0)).then_some(0),
    };
    (gauge.status, gauge.percentage) = (status, Some(0));
    publish(&ctx.store, &session.id, &gauge, news, || session.ended.is_none(), ctx.now);
    if let Err(e) = open.keep(&gauge) {
        ctx.fault("store a reading", &e);
    }
}

/// Computes the gauge after a report, and what the published files do not show yet. Writes nothing. `by_bytes` is the
/// level to use when no token count is known.
pub(crate) fn joined(
    ctx: &Context,
    session: &Session,
    before: &Gauge,
    report: &Report<'_>,
    by_bytes: Option<Level>,
    transcript_len: u64,
) -> (Gauge, News) {
    let mut gauge = before.join(report, ctx.now);
    gauge.level = level(ctx, session, &gauge, by_bytes);
    let mut news = news(&mut gauge, transcript_len);
    news.status &= !session.leaves(Duty::Levels);
    (gauge, news)
}

/// Length of the transcript, 0 if there is none yet.
pub(crate) fn transcript_len(session: &Session) -> u64 {
    session.transcript.as_deref().and_then(|t| std::fs::metadata(t).ok()).map_or(0, |m| m.len())
}

/// Logs thresholds that would never have fired, once per session, when its window is first known.
fn log_clamps(ctx: &Context, session: &Session, gauge: &Gauge) {
    let Some(reading) = &gauge.reading else { return };
    let end = ctx.compaction_point(session, gauge, reading.window).end();
    for clamp in ctx.config.context.thresholds().clamps(reading.base, reading.window, end) {
        let mut line = ctx.line("threshold-lowered", session);
        line.detail = serde_json::json!({ "note": clamp.to_string() });
        ctx.log(&line);
    }
}

fn tail(ctx: &Context, session: &Session, gauge: &mut Gauge) -> (Option<Tail>, u64) {
    let Some(path) = session.transcript.as_deref() else { return (None, 0) };
    // A dotfile manager may link the client's folder, but the transcript itself must be a regular file.
    let Ok((file, about)) = fs::open_regular(std::path::Path::new(path)) else { return (None, 0) };
    let (len, inode) = (about.len(), Some(about.ino()));
    let replaced = gauge.inode.is_some() && gauge.inode != inode;
    gauge.inode = inode;
    mirror::grown(ctx, session, &file, len, replaced);
    ((ctx.provider.hooks.tail)(&mut Positioned::new(&file, len), REACH).ok(), len)
}

fn level(ctx: &Context, session: &Session, gauge: &Gauge, by_bytes: Option<Level>) -> Level {
    let Some(reading) = &gauge.reading else { return by_bytes.unwrap_or_default() };
    let end = ctx.compaction_point(session, gauge, reading.window).end();
    let limits = ctx.config.context.thresholds().limits_from(reading.base, reading.window, end);
    session.latches.level(Some(reading), &limits)
}

/// What the files for other people's scripts do not show yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct News {
    pub status: bool,
    pub percentage: Option<u8>,
}

/// Updates the gauge's published values and returns which of them changed.
fn news(gauge: &mut Gauge, len: u64) -> News {
    let status = context_status(gauge.level, len);
    let percentage = gauge.reading.as_ref().map(Reading::percentage).filter(|p| gauge.percentage != Some(*p));
    let news = News { status: gauge.status != status, percentage };
    gauge.status = status;
    gauge.percentage = percentage.or(gauge.percentage);
    news
}

/// Writes the files that other people's scripts read. A session's percentage file is removed when the session ends and
/// must not come back, so `goes_on` is asked before the file is created.
pub(crate) fn publish(
    store: &Store,
    session: &SessionId,
    gauge: &Gauge,
    news: News,
    goes_on: impl FnOnce() -> bool,
    now: Timestamp,
) {
    if news.status
        && !gauge.status.is_empty()
        && let Err(e) = store.published().context_status(&gauge.status)
    {
        store.log().fault(now, "publish the context status", &e);
    }
    if let Some(percentage) = news.percentage
        && !published::percentage_over(session, percentage)
        && goes_on()
        && let Err(e) = published::percentage(session, percentage)
    {
        store.log().fault(now, "publish the percentage", &e);
    }
}
