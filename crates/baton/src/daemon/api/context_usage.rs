//! `POST /hooks/context-usage`: a script reports how full an agent is. Decisions and latches are shared with the hooks,
//! so whoever comes first sends the nudge, once per cycle.

use std::sync::Arc;

use baton_core::event::Trigger;
use baton_core::gauge::{Gauge, Report};
use baton_core::ids::{AgentId, SessionId};
use baton_core::latch::{Latches, Say};
use baton_core::message::{Cycle, Urgency};
use baton_core::reading::{Reading, ReadingSource, resolve_window};
use baton_core::say;
use baton_core::session::Session;
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::{Number, Value, json};

use crate::daemon::api::{ApiRequest, HttpReply, blocking, failed, parse, unprocessable};
use crate::daemon::{Daemon, gauge_writer};
use crate::mail;
use crate::mail::keyed::Key;
use crate::mail::maildir::Draft;
use crate::sessions::compaction::Witness;
use crate::sessions::context::Context;
use crate::sessions::gauge;
use crate::sessions::nudge::Surroundings;
use crate::sessions::{compaction, mirror};
use crate::sys::fs::FileError;

/// A script's report. Before the model's first answer the numbers are null: unknown, not zero.
#[derive(Debug, Deserialize)]
struct UsageReport {
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

pub(crate) async fn post(daemon: &Arc<Daemon>, request: ApiRequest) -> HttpReply {
    let usage: UsageReport = match parse(&request) {
        Ok(usage) => usage,
        Err(reply) => return reply,
    };
    let id = usage.session_id.as_deref().unwrap_or_default();
    if !id.is_empty() && AgentId::new(id).is_err() && SessionId::new(id).is_err() {
        return unprocessable("`session_id` is neither an agent's name nor a session's id");
    }
    let (session, gauge) = match current(daemon, id) {
        Ok(Some(current)) => current,
        // Not an error: the scripts run for every session of the client, and many are not ours.
        Ok(None) => return HttpReply::ok(&json!({ "status": "unknown_session" })),
        Err(e) => return failed(&e),
    };
    let ctx = daemon.ctx(&session);
    if usage.event.as_deref() == Some("compaction") {
        return blocking(daemon, move |daemon| {
            // The last reading shows at which fill the client compacts.
            gauge_writer::write(daemon, &session.id);
            compacted(&ctx, &session, usage.trigger.as_deref())
        })
        .await;
    }
    let Some(reading) = reading(&usage, &gauge, &ctx) else {
        return HttpReply::ok(&json!({ "status": "ok", "used_percentage": usage.used_percentage }));
    };
    let gauge = take_reading(daemon, &ctx, &session, &gauge, reading);
    if session.latches.at_level(gauge.level, ctx.voice(&session)).1.is_some() {
        let nudged = blocking(daemon, move |_| nudge(&ctx, &session, &gauge)).await;
        if let HttpReply::Json { status: StatusCode::INTERNAL_SERVER_ERROR, .. } = nudged {
            return nudged;
        }
    }
    HttpReply::ok(&json!({ "status": "ok", "used_percentage": usage.used_percentage }))
}

/// The current session of the agent. Ignores reports about a session that its agent has left.
fn current(daemon: &Daemon, id: &str) -> Result<Option<(Session, Gauge)>, FileError> {
    let mut roster = daemon.roster();
    roster.refresh();
    let Some(agent) = roster.resolve(id)? else { return Ok(None) };
    let Some(entry) = roster.get(&agent) else { return Ok(None) };
    let Some(session) = &entry.session else { return Ok(None) };
    let is_current = id == agent.as_str() || id == session.id.as_str();
    Ok(is_current.then(|| (session.clone(), entry.gauge.clone())))
}

/// The report as a reading. Uses the total only if it agrees with the percentage: some clients sum it over the whole
/// session.
fn reading(usage: &UsageReport, gauge: &Gauge, ctx: &Context) -> Option<Reading> {
    let percentage = usage.used_percentage.as_ref()?.as_f64().filter(|p| *p > 0.0 && p.is_finite())?;
    let reported = usage.context_window_size.map(whole).filter(|w| *w > 0).or(gauge.window);
    let window = resolve_window(reported, gauge.model.as_deref(), ctx.config.context.default_window);
    let (total, base) = (usage.total_input_tokens.map_or(0, whole), ctx.provider.hooks.base);
    let output = usage.total_output_tokens.map_or(0, whole).min(window);
    let by_total =
        Reading { tokens: total, output, window, base, at: ctx.now, source: ReadingSource::StatusLine };
    if total > 0 && (f64::from(by_total.percentage()) - percentage.min(100.0)).abs() <= 0.5 {
        return Some(by_total);
    }
    let room = window.saturating_sub(base) as f64;
    let tokens = base.saturating_add(whole((percentage.min(100.0) * room / 100.0).ceil()));
    Some(Reading { tokens, output: 0, ..by_total })
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded on the line before")]
fn whole(number: f64) -> u64 {
    let number = if number.is_finite() { number.clamp(0.0, 1e12) } else { 0.0 };
    number as u64
}

/// Joins the reading with the gauge. The gauge writer writes a changed gauge after the answer.
fn take_reading(
    daemon: &Daemon,
    ctx: &Context,
    session: &Session,
    before: &Gauge,
    reading: Reading,
) -> Gauge {
    let len = gauge::transcript_len(session);
    let (gauge, news) = gauge::joined(ctx, session, before, &Report::of(reading), None, len);
    if gauge != *before {
        let is_first = daemon.roster().put_gauge(session, before, &gauge, news);
        if is_first {
            daemon.gauge_writer.enqueue(session.id.clone());
        }
    }
    gauge
}

/// Sends the due nudge by mail. Queues it before the latch closes, under a key of this cycle, so that a crash in
/// between neither loses nor repeats it.
fn nudge(ctx: &Context, session: &Session, gauge: &Gauge) -> HttpReply {
    let voice = ctx.voice(session);
    let surroundings = Surroundings::new(ctx, session, gauge);
    let patience = std::time::Duration::from_secs(1);
    let Some(agent) = ctx.agent(&session.agent) else { return HttpReply::ok(&Value::Null) };
    let nudged = ctx.store.sessions().update(&session.id, patience, |s| -> Result<(), String> {
        let (latches, Some(say)) = s.latches.at_level(gauge.level, voice) else { return Ok(()) };
        let text = match say {
            Say::Advisory => surroundings.with(say::advisory),
            Say::Request => surroundings.with(say::request),
        };
        // Delivered at the next tool call, without interrupting a turn. It means nothing to the next context.
        let urgency = Urgency::Important;
        let cycle = Cycle { session: s.id.clone(), n: s.latches.cycle };
        let key = format!("context-{}-{}-{say:?}", s.id.short(), s.latches.cycle).to_lowercase();
        let key = Key::new(key).map_err(|e| e.to_string())?;
        let draft = Draft { urgency, cycle: Some(&cycle), ..Draft::new("baton", &text) };
        mail::send(&ctx.store, &agent, &draft, Some(&key), ctx.now).map_err(|e| e.to_string())?;
        s.latches = latches;
        let mut line = ctx.line("context-usage", s);
        let tokens = gauge.reading.map(|r| r.tokens);
        line.detail =
            json!({ "tokens": tokens, "level": gauge.level, "said": format!("{say:?}").to_lowercase() });
        ctx.log(&line);
        Ok(())
    });
    match nudged {
        Ok(Some(Ok(())) | None) => HttpReply::ok(&Value::Null),
        Ok(Some(Err(e))) => failed(&e),
        Err(e) => failed(&e),
    }
}

/// The client is about to compact: seals a handoff from the transcript, re-arms the latches and tells the parent.
fn compacted(ctx: &Context, session: &Session, trigger: Option<&str>) -> HttpReply {
    let fresh =
        Latches { cycle: session.latches.cycle, before: session.latches.before, ..Latches::default() };
    let mut session = session.clone();
    // Hooks and scripts report one compaction two to four times; after a nudge of ours it is a new one.
    if session.latches != fresh {
        session.precompact = None;
    }
    let trigger = match trigger {
        Some("auto") | None => Trigger::Auto,
        Some("manual") => Trigger::Manual,
        Some(other) => Trigger::Other(other.into()),
    };
    let measured = gauge::measure(ctx, &session);
    mirror::everything(ctx, &session);
    compaction::before(ctx, &session, &measured, &trigger, None, Witness::Report);
    HttpReply::ok(&json!({ "status": "compaction_logged" }))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn usage(text: &str) -> UsageReport {
        serde_json::from_str(text).unwrap()
    }

    /// Tokens and window of this report's reading.
    fn read(text: &str) -> Option<(u64, u64)> {
        let paths = crate::sys::paths::Paths {
            home: "/nowhere".into(),
            claude: "/nowhere".into(),
            state: "/nowhere".into(),
            config: "/nowhere".into(),
        };
        let config = crate::config::Config::defaults(&paths);
        let session: Session = serde_json::from_value(json!({ "id": "s", "provider": "claude", "agent": "a",
            "channel": "c", "cwd": "/", "started": "2026-11-16T00:00:00Z", "source": "startup" }))
        .unwrap();
        let ctx = Context::with(&paths, config, &session, Timestamp::UNIX_EPOCH);
        reading(&usage(text), &Gauge::default(), &ctx).map(|r| (r.tokens, r.window))
    }

    #[test]
    fn the_percentage_counts_and_the_total_only_if_it_agrees() {
        assert_eq!(
            read(r#"{"used_percentage":52,"total_input_tokens":104400,"context_window_size":200000}"#),
            Some((104_400, 200_000))
        );
        // A total over the whole session says nothing about the context.
        assert_eq!(
            read(r#"{"used_percentage":52,"total_input_tokens":904400,"context_window_size":200000}"#),
            Some((104_000, 200_000))
        );
        assert_eq!(read(r#"{"used_percentage":50}"#), Some((100_000, 200_000)));
        assert_eq!(read(r#"{"used_percentage":64.6,"context_window_size":1000}"#), Some((646, 1000)));
        for nothing in
            [r#"{"used_percentage":null}"#, "{}", r#"{"used_percentage":0,"total_input_tokens":5}"#]
        {
            assert_eq!(read(nothing), None, "{nothing}");
        }
        assert_eq!(
            read(r#"{"used_percentage":1e300,"context_window_size":1e300}"#).unwrap().0,
            1_000_000_000_000
        );
    }
}
