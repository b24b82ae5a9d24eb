//! Takes a reading, decides the level, and publishes what changed.

use std::os::unix::fs::MetadataExt as _;

use baton_core::level::{Level, context_status, last_resort};
use baton_core::reading::{Reading, newest};
use baton_core::session::{Gauge, Session};
use baton_core::transcript::tail::{REACH, Tail};

use super::mirror;
use super::scene::Scene;
use crate::store::published;

/// What a session's gauge shows now.
pub struct Measured {
    pub gauge: Gauge,
    /// Length of the transcript, 0 if there is none yet.
    pub transcript_len: u64,
    /// What the end of the transcript says, if there is one.
    pub tail: Option<Tail>,
}

/// Measures by the transcript, joins it with what the status line told, and remembers it.
pub fn measure(scene: &Scene, session: &Session) -> Measured {
    let open = scene.store.sessions().open_gauge(&session.id);
    let mut gauge = open.before.clone();
    let (tail, transcript_len) = tail(scene, session, &mut gauge);
    let told = gauge.window;
    let reading = tail
        .as_ref()
        .and_then(|tail| Reading::from_tail(tail, told, scene.config.context.default_window, scene.now))
        .map(|reading| Reading { at: reading.at.min(scene.now), base: scene.provider.hooks.base, ..reading });
    if let Some(Tail::Usage(usage)) = &tail
        && gauge.model.is_none()
    {
        gauge.model.clone_from(&usage.model);
    }
    // Right after a compaction the older reading is of a context that no longer exists.
    let old = gauge.reading.filter(|old| !is_before_compaction(tail.as_ref(), old));
    gauge.reading = later(scene, old, reading);
    let resort =
        tail.as_ref().and_then(|tail| last_resort(tail, transcript_len, &scene.config.context.byte_limits()));
    gauge.level = level(scene, session, &gauge, resort);
    if open.before.reading.is_none() {
        log_clamps(scene, session, &gauge);
    }
    publish(scene, session, &mut gauge, transcript_len);
    if let Err(e) = open.keep(&gauge) {
        scene.fault("store a reading", &e);
    }
    Measured { gauge, transcript_len, tail }
}

/// Once per session, when its window is first known: thresholds that would never have fired.
fn log_clamps(scene: &Scene, session: &Session, gauge: &Gauge) {
    let Some(reading) = &gauge.reading else { return };
    let end = scene.compaction_point(session, gauge, reading.window).end();
    for clamp in scene.config.context.thresholds().clamps(reading.base, reading.window, end) {
        let mut line = scene.line("threshold-lowered", session);
        line.detail = serde_json::json!({ "note": clamp.to_string() });
        scene.log(&line);
    }
}

/// The newer of what is kept and what is said now. A stamp that lies ahead was given by a clock that has been set
/// back since: it is older than anything that is said now.
pub fn later(scene: &Scene, kept: Option<Reading>, said: Option<Reading>) -> Option<Reading> {
    newest(kept.filter(|k| said.is_none() || k.at <= scene.now), said)
}

fn is_before_compaction(tail: Option<&Tail>, reading: &Reading) -> bool {
    matches!(tail, Some(Tail::Compacted(c)) if c.at.is_none_or(|at| reading.at <= at))
}

fn tail(scene: &Scene, session: &Session, gauge: &mut Gauge) -> (Option<Tail>, u64) {
    let Some(path) = session.transcript.as_deref() else { return (None, 0) };
    // The client's own folder may be linked by a dotfile manager, but the file itself is a regular one.
    let Ok((mut file, about)) = crate::sys::fs::open_regular(std::path::Path::new(path)) else {
        return (None, 0);
    };
    let (len, inode) = (about.len(), Some(about.ino()));
    let replaced = gauge.inode.is_some() && gauge.inode != inode;
    gauge.inode = inode;
    mirror::grown(scene, session, &file, replaced);
    ((scene.provider.hooks.tail)(&mut file, REACH).ok(), len)
}

/// The level by tokens; `resort`, the level by bytes, only when no token count can be had at all.
pub fn level(scene: &Scene, session: &Session, gauge: &Gauge, resort: Option<Level>) -> Level {
    let Some(reading) = &gauge.reading else { return resort.unwrap_or_default() };
    let end = scene.compaction_point(session, gauge, reading.window).end();
    let limits = scene.config.context.thresholds().limits_from(reading.base, reading.window, end);
    session.latches.level(Some(reading), &limits)
}

/// Files that other people's scripts read; written when they change.
pub fn publish(scene: &Scene, session: &Session, gauge: &mut Gauge, len: u64) {
    let news = news(gauge, len);
    if news.status
        && let Err(e) = scene.store.published().context_status(&gauge.status)
    {
        scene.fault("publish the context status", &e);
    }
    if let Some(percentage) = news.percentage
        && let Err(e) = published::percentage(&session.id, percentage)
    {
        scene.fault("publish the percentage", &e);
    }
}

/// What those files do not say yet.
#[derive(Debug, Clone, Copy)]
pub struct News {
    pub status: bool,
    pub percentage: Option<u8>,
}

/// Takes into the gauge what is to be published from now on, and tells what of it is new.
pub fn news(gauge: &mut Gauge, len: u64) -> News {
    let status = context_status(gauge.level, len);
    let percentage = gauge.reading.as_ref().map(Reading::percentage).filter(|p| gauge.percentage != Some(*p));
    let news = News { status: gauge.status != status, percentage };
    gauge.status = status;
    gauge.percentage = percentage.or(gauge.percentage);
    news
}
