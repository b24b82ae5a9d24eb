//! `POST /hooks/context-usage`: how full an agent is, told by a script. The same decisions as in the hooks, and the same
//! latches: whatever is said, by whomever, is said once per cycle.

use std::sync::Arc;

use baton_core::event::Trigger;
use baton_core::latch::{Latches, Say};
use baton_core::message::Urgency;
use baton_core::reading::{Reading, Source, resolve_window};
use baton_core::say;
use baton_core::session::{Gauge, Session};
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::{Number, Value, json};

use super::super::{Daemon, keeper};
use super::{Ask, Reply, blocking, parse};
use crate::hot::post::OwnedSituation;
use crate::hot::scene::Scene;
use crate::hot::{compact, measure};
use crate::store::once::{self, Keyed};

/// What a script tells. Before the first answer of a model the numbers are null: unknown, not zero.
#[derive(Debug, Deserialize)]
struct Usage {
    #[serde(default)]
    session_id: Option<String>,
    #[serde(default)]
    event: Option<String>,
    #[serde(default)]
    trigger: Option<String>,
    #[serde(default)]
    used_percentage: Option<Number>,
    #[serde(default)]
    total_input_tokens: Option<f64>,
    #[serde(default)]
    total_output_tokens: Option<f64>,
    #[serde(default)]
    context_window_size: Option<f64>,
}

pub async fn post(daemon: &Arc<Daemon>, ask: Ask) -> Reply {
    let usage: Usage = match parse(&ask) {
        Ok(usage) => usage,
        Err(reply) => return reply,
    };
    let Some((session, gauge)) = usage.session_id.as_deref().and_then(|id| current(daemon, id)) else {
        // As the scripts expect it: their session is simply not one of ours.
        return Reply::ok(&json!({ "status": "unknown_session" }));
    };
    let scene = daemon.scene(&session);
    if usage.event.as_deref() == Some("compaction") {
        return blocking(daemon, move |daemon| {
            // What was told last is where it compacts.
            keeper::keep(daemon, &session.id);
            compacted(&scene, &session, usage.trigger.as_deref())
        })
        .await;
    }
    let Some(reading) = reading(&usage, &gauge, &scene) else {
        return Reply::ok(&json!({ "status": "ok", "used_percentage": usage.used_percentage }));
    };
    let gauge = keep(daemon, &scene, &session, &gauge, reading);
    if session.latches.at_level(gauge.level, scene.config.context.voice()).1.is_some() {
        let said = blocking(daemon, move |_| tell(&scene, &session, &gauge)).await;
        if let Reply::Json { status: StatusCode::INTERNAL_SERVER_ERROR, .. } = said {
            return said;
        }
    }
    Reply::ok(&json!({ "status": "ok", "used_percentage": usage.used_percentage }))
}

/// The conversation that is meant: an agent's present one. Of one that the agent has left nothing is kept.
fn current(daemon: &Daemon, id: &str) -> Option<(Session, Gauge)> {
    let mut roster = daemon.roster();
    roster.refresh();
    let agent = roster.resolve(id)?;
    let entry = roster.get(&agent)?;
    let session = entry.session.clone()?;
    (id == agent.as_str() || id == session.id.as_str()).then(|| (session, entry.gauge.clone()))
}

/// What was told as a reading. The total counts where it agrees with the percentage; some clients add it up over the
/// whole session.
fn reading(usage: &Usage, gauge: &Gauge, scene: &Scene) -> Option<Reading> {
    let percentage = usage.used_percentage.as_ref()?.as_f64().filter(|p| *p > 0.0 && p.is_finite())?;
    let told = usage.context_window_size.map(whole).filter(|w| *w > 0).or(gauge.window);
    let window = resolve_window(told, gauge.model.as_deref(), scene.config.context.default_window);
    let (total, base) = (usage.total_input_tokens.map_or(0, whole), scene.provider.hooks.base);
    let output = usage.total_output_tokens.map_or(0, whole).min(window);
    let said = Reading { tokens: total, output, window, base, at: scene.now, source: Source::StatusLine };
    if total > 0 && (f64::from(said.percentage()) - percentage.min(100.0)).abs() <= 0.5 {
        return Some(said);
    }
    let room = window.saturating_sub(base) as f64;
    let tokens = base.saturating_add(whole((percentage.min(100.0) * room / 100.0).ceil()));
    Some(Reading { tokens, output: 0, ..said })
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded on the line before")]
fn whole(number: f64) -> u64 {
    let number = if number.is_finite() { number.clamp(0.0, 1e12) } else { 0.0 };
    number as u64
}

/// Joins it with what is known, as the status line does; written beside us, and only if it is news.
fn keep(daemon: &Daemon, scene: &Scene, session: &Session, before: &Gauge, told: Reading) -> Gauge {
    let mut gauge = before.clone();
    gauge.window = Some(told.window);
    gauge.reading = match gauge.reading {
        Some(old) if (old.tokens, old.output, old.window) == (told.tokens, told.output, told.window) => {
            Some(old)
        }
        old => measure::later(scene, old, Some(told)),
    };
    let transcript = session.transcript.as_deref();
    let len = transcript.and_then(|t| std::fs::metadata(t).ok()).map_or(0, |m| m.len());
    gauge.level = measure::level(scene, session, &gauge, None);
    let news = measure::news(&mut gauge, len);
    if gauge != *before {
        let is_first = daemon.roster().keep(session, before, &gauge, news);
        if is_first {
            daemon.keeper.tell(session.id.clone());
        }
    }
    gauge
}

/// Says what is due, by mail. Queued before the latch closes, under a key of this cycle: a crash in between makes it
/// neither lost nor twice.
fn tell(scene: &Scene, session: &Session, gauge: &Gauge) -> Reply {
    let voice = scene.config.context.voice();
    let situation = OwnedSituation::new(scene, session, gauge);
    let patience = std::time::Duration::from_secs(1);
    let told = scene.store.sessions().update(&session.id, patience, |s| -> Result<(), String> {
        let (latches, Some(say)) = s.latches.at_level(gauge.level, voice) else { return Ok(()) };
        let (text, urgency) = match say {
            Say::Advisory => (situation.with(say::advisory), Urgency::Sequential),
            // At the next tool call: a turn is not cut for it.
            Say::Request => (situation.with(say::request), Urgency::Important),
        };
        let key = format!("context-{}-{}-{say:?}", s.id.short(), s.latches.cycle).to_lowercase();
        let mail = Keyed { key: &key, to: &s.agent, from: "baton", text: &text, urgency };
        once::send(&scene.store.state, &mail, scene.now).map_err(|e| e.to_string())?;
        s.latches = latches;
        let mut line = scene.line("context-usage", s);
        let tokens = gauge.reading.map(|r| r.tokens);
        line.detail =
            json!({ "tokens": tokens, "level": gauge.level, "said": format!("{say:?}").to_lowercase() });
        scene.log(&line);
        Ok(())
    });
    match told {
        Ok(Some(Ok(())) | None) => {
            crate::poke::supervisor(&scene.store.state, &session.agent);
            Reply::ok(&Value::Null)
        }
        Ok(Some(Err(e))) => Reply::error(StatusCode::INTERNAL_SERVER_ERROR, &e),
        Err(e) => Reply::error(StatusCode::INTERNAL_SERVER_ERROR, &e.to_string()),
    }
}

/// The client compacts: a handoff is sealed from the transcript, the latches open again, the parent is told.
fn compacted(scene: &Scene, session: &Session, trigger: Option<&str>) -> Reply {
    let fresh =
        Latches { cycle: session.latches.cycle, before: session.latches.before, ..Latches::default() };
    let mut session = session.clone();
    // One compaction is told two to four times, by hooks and scripts; one that follows words of ours is another.
    if session.latches != fresh {
        session.precompact = None;
    }
    let trigger = match trigger {
        Some("auto") | None => Trigger::Auto,
        Some("manual") => Trigger::Manual,
        Some(other) => Trigger::Other(other.into()),
    };
    compact::pre(scene, &session, &trigger, None);
    Reply::ok(&json!({ "status": "compaction_logged" }))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn usage(text: &str) -> Usage {
        serde_json::from_str(text).unwrap()
    }

    fn told(text: &str) -> Option<(u64, u64)> {
        let paths = crate::paths::Paths {
            home: "/nowhere".into(),
            claude: "/nowhere".into(),
            state: "/nowhere".into(),
            config: "/nowhere".into(),
        };
        let config = crate::config::Config::defaults(&paths);
        let session: Session = serde_json::from_value(json!({ "id": "s", "provider": "claude", "agent": "a",
            "channel": "c", "cwd": "/", "started": "2026-11-16T00:00:00Z", "source": "startup" }))
        .unwrap();
        let scene = Scene::of(&paths, config, &session, Timestamp::UNIX_EPOCH);
        reading(&usage(text), &Gauge::default(), &scene).map(|r| (r.tokens, r.window))
    }

    #[test]
    fn the_percentage_counts_and_the_total_where_it_agrees() {
        assert_eq!(
            told(r#"{"used_percentage":52,"total_input_tokens":104400,"context_window_size":200000}"#),
            Some((104_400, 200_000))
        );
        // A total over the whole session says nothing of the context.
        assert_eq!(
            told(r#"{"used_percentage":52,"total_input_tokens":904400,"context_window_size":200000}"#),
            Some((104_000, 200_000))
        );
        assert_eq!(told(r#"{"used_percentage":50}"#), Some((100_000, 200_000)));
        assert_eq!(told(r#"{"used_percentage":64.6,"context_window_size":1000}"#), Some((646, 1000)));
        for nothing in
            [r#"{"used_percentage":null}"#, "{}", r#"{"used_percentage":0,"total_input_tokens":5}"#]
        {
            assert_eq!(told(nothing), None, "{nothing}");
        }
        assert_eq!(
            told(r#"{"used_percentage":1e300,"context_window_size":1e300}"#).unwrap().0,
            1_000_000_000_000
        );
    }
}
