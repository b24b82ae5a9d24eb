//! `baton statusline`: reads the client's numbers, keeps them, prints one line.

use std::io::Write as _;
use std::time::Duration;

use baton_core::handoff::Status;
use baton_core::ids::SessionId;
use baton_core::plain::plain;
use baton_core::reading::Reading;
use baton_core::session::{Gauge, Session, Turn};
use baton_core::statusline::{Inputs, Look, render};
use baton_core::wire::claude::statusline::{StatusLine, parse_statusline};

use super::scene::Scene;
use super::{delegate, input, measure};
use crate::store::checkpoints;

#[inline(never)]
pub fn run(args: &[&str]) {
    let Ok((payload, bytes)) = input::payload(Duration::from_millis(50), parse_statusline) else { return };
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
    let Some(scene) = Scene::at(cwd) else { return };
    let line = line(&scene, &payload);
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}");
    if guard == delegate::Guard::Open
        && let Some(key) = delegate::key(args)
    {
        let theirs = delegate::output(&scene.store.state, key, session.as_ref(), bytes);
        let _ = out.write_all(&theirs.unwrap_or_default());
    }
    let _ = out.flush();
}

fn line(scene: &Scene, payload: &StatusLine<'_>) -> String {
    let id = payload.session_id.as_deref().and_then(|id| SessionId::new(id).ok());
    let session = id.as_ref().and_then(|id| scene.store.sessions().get(id).ok().flatten());
    let gauge = match (&session, &id) {
        (Some(session), _) => keep(scene, session, payload),
        // No hook has spoken for this session: show what the client says, keep nothing.
        (None, _) => Gauge {
            reading: Reading::from_statusline(payload, scene.config.context.default_window, scene.now),
            ..Gauge::default()
        },
    };
    let point = match (&session, gauge.reading) {
        (Some(session), Some(reading)) => Some(scene.compaction_point(session, &gauge, reading.window)),
        _ => None,
    };
    let left = point.zip(gauge.reading).map(|(point, reading)| point.distance(reading.total()));
    let turns_left = session.as_ref().zip(left).and_then(|(s, left)| s.turn_ends.turns_left(left));
    let checkpoint = session
        .as_ref()
        .and_then(|s| checkpoints::latest_cached(&scene.store.state, s.channel.as_str(), &scene.cwd));
    let (goal, now) = checkpoint.unwrap_or_default();
    let (goal, now) = (plain(&goal), plain(&now));
    let parked = session.as_ref().and_then(|s| parked(scene, s));
    let inputs = Inputs {
        reading: gauge.reading,
        level: gauge.level,
        left,
        turns_left,
        goal: Some(&*goal).filter(|g| !g.is_empty()),
        now: Some(&*now).filter(|n| !n.is_empty()),
        mail: session.as_ref().map_or(0, |s| scene.store.mail().waiting(&s.agent)),
        sealed: session.as_ref().is_some_and(|s| is_sealed(scene, s)),
        parked_until: parked.as_deref(),
    };
    render(&inputs, look())
}

/// Joins what the client says now with what is known, and remembers what changed.
fn keep(scene: &Scene, session: &Session, payload: &StatusLine<'_>) -> Gauge {
    let open = scene.store.sessions().open_gauge(&session.id);
    let mut gauge = open.before.clone();
    if let Some(window) = payload.context_window.and_then(|c| c.context_window_size) {
        gauge.window = Some(window);
    }
    if let Some(model) = payload.model.as_ref().and_then(|m| m.id.as_deref()) {
        gauge.model = Some(model.to_owned());
    }
    let said = Reading::from_statusline(payload, scene.config.context.default_window, scene.now);
    gauge.reading = match (gauge.reading, said) {
        // The same numbers again are no news: nothing is written for them.
        (Some(old), Some(new))
            if old.tokens == new.tokens && old.output == new.output && old.window == new.window =>
        {
            Some(old)
        }
        (old, new) => measure::later(scene, old, new),
    };
    let len = session.transcript.as_deref().and_then(|t| std::fs::metadata(t).ok()).map_or(0, |m| m.len());
    gauge.level = measure::level(scene, session, &gauge, None);
    measure::publish(scene, session, &mut gauge, len);
    if let Err(e) = open.keep(&gauge) {
        scene.fault("store a reading", &e);
    }
    gauge
}

/// A handoff from this very session waits for a fresh context.
fn is_sealed(scene: &Scene, session: &Session) -> bool {
    let Some(id) = &session.last_handoff else { return false };
    let manifest = scene.store.handoffs(&scene.config).manifest(&session.channel);
    manifest.is_ok_and(|m| m.find(id).is_some_and(|e| e.status == Status::Active))
}

/// Until when the agent waits for a usage limit, in the user's own time.
fn parked(scene: &Scene, session: &Session) -> Option<String> {
    if session.turn != Turn::Limit {
        return None;
    }
    let parked = scene.store.agents().get(&session.agent).ok()??.parked?;
    let left = parked.until.duration_since(scene.now).as_mins().max(0);
    let time = parked.until.to_zoned(jiff::tz::TimeZone::system()).strftime("%H:%M").to_string();
    Some(format!("{time} (in {left} min{})", if parked.guess { ", a guess" } else { "" }))
}

fn look() -> Look {
    let env = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
    let locale = env("LC_ALL").or_else(|| env("LC_CTYPE")).or_else(|| env("LANG"));
    Look {
        width: env("COLUMNS").and_then(|c| c.parse().ok()).filter(|w| *w >= 10).unwrap_or(80),
        colour: env("NO_COLOR").is_none() && env("TERM").is_none_or(|t| t != "dumb"),
        // Without any word on the locale the clients themselves draw boxes; so do we.
        unicode: locale.is_none_or(|l| l.to_lowercase().contains("utf")),
    }
}
