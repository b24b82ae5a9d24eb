//! Before the client compacts: seals the facts of the transcript, and records the reading at which the compaction
//! happens.

use baton_core::event::Trigger;
use baton_core::handoff::{HandoffId, Kind};
use baton_core::latch::Rearm;
use baton_core::notice::{self, Notice};
use baton_core::session::{PreCompact, Session};
use serde_json::json;

use crate::handoffs::seal::{self, Sealing};
use crate::mail::notify;
use crate::project::memory::backups::BackupReason;
use crate::sessions::backup;
use crate::sessions::context::Context;
use crate::sessions::gauge::Measurement;

/// Who announced the compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Witness {
    /// The client itself, by its hook or its mod.
    Client,
    /// A report posted through the API.
    Report,
}

/// Seals, backs up, opens the latches for the next cycle and tells the parent.
pub(crate) fn before(
    ctx: &Context,
    session: &Session,
    measured: &Measurement,
    trigger: &Trigger<'_>,
    instructions: Option<&str>,
    witness: Witness,
) {
    // One compaction fires this two to four times, without any growth of the transcript in between.
    let repeated = session.precompact.as_ref().is_some_and(|p| p.transcript_len == measured.transcript_len);
    if repeated {
        return;
    }
    // An agent that has handed over begins a fresh window by a compaction without a summary.
    let window = session.opens_window && session.request.is_some();
    // The handoff is sealed already, and the fresh window was requested for it.
    let mut handoff = ordered(ctx, session);
    let is_ordered = handoff.is_some();
    // A document that was handed over and is in no sealed handoff stays pending until the turn ends.
    let mut carried = None;
    if (window || ctx.seals(session)) && !is_ordered {
        // The agent's own words, if it has just handed some over, follow what the user asked to keep.
        let words =
            session.request.as_ref().and_then(|request| match seal::requested_text(&ctx.store, request) {
                Ok(words) => Some(words),
                Err(e) => {
                    ctx.fault("read the handoff that was handed over", &e);
                    None
                }
            });
        let has_words = words.is_some();
        let wish = instructions.map(str::trim).filter(|words| !words.is_empty()).map(wished);
        let parts: Vec<String> = wish.into_iter().chain(words).collect();
        let narrative = (!parts.is_empty()).then(|| parts.join("\n\n"));
        let sealing =
            Sealing { session, kind: Kind::Precompact, narrative: narrative.as_deref(), for_self: true };
        match seal::seal(&ctx.store, &ctx.config, &sealing, ctx.now) {
            Ok(sealed) => {
                handoff = Some(sealed.entry.id);
                carried = session.request.clone().filter(|_| has_words);
            }
            Err(e) => ctx.fault("seal before compaction", &e),
        }
    }
    backup::back_up(ctx, session, BackupReason::PreCompact);
    let mark = PreCompact {
        at: ctx.now,
        transcript_len: measured.transcript_len,
        handoff: handoff.clone(),
        answered: false,
        window,
    };
    ctx.update(session, |s| {
        s.latches = s.latches.rearm(Rearm::PreCompact, measured.gauge.reading.as_ref());
        s.precompact = Some(mark);
        if carried.is_some() && s.request == carried {
            s.request = None;
        }
    });
    let is_rotation = window || is_ordered;
    // Where an agent can begin a window whenever it likes, the client calls that automatic too.
    if *trigger == Trigger::Auto && !is_rotation && !session.opens_window {
        observe(ctx, session, measured, witness);
    }
    if !is_rotation {
        tell(ctx, session, trigger, handoff.as_ref());
    }
    let mut line = ctx.line("pre-compact", session);
    line.detail = json!({
        "trigger": match trigger { Trigger::Auto => "auto", Trigger::Manual => "manual", Trigger::Other(t) => t },
        "tokens": measured.gauge.reading.map(|r| r.tokens),
        "handoff": handoff,
    });
    ctx.log(&line);
}

/// The sealed handoff for which somebody wants a fresh window of this very conversation.
fn ordered(ctx: &Context, session: &Session) -> Option<HandoffId> {
    if !session.opens_window || session.request.is_some() {
        return None;
    }
    let wanted = ctx.agent(&session.agent)?.rotation.filter(|wanted| wanted.session == session.id);
    wanted.map(|wanted| wanted.handoff)
}

/// The text that the user typed after `/compact`, as a section of the handoff.
pub(crate) fn wished(words: &str) -> String {
    format!("## What the user asked to keep\n\n{words}")
}

/// Tells the parent or the user that the client compacted the agent.
fn tell(ctx: &Context, session: &Session, trigger: &Trigger<'_>, handoff: Option<&HandoffId>) {
    let Some(agent) = ctx.agent(&session.agent) else { return };
    if agent.parent.is_none() && *trigger == Trigger::Manual {
        // The user has just asked for it.
        return;
    }
    let kind = notice::NoticeKind::Compacted;
    let text = kind.text(agent.id.as_str(), handoff.map_or("", HandoffId::as_str));
    let notice = Notice { kind, stamp: ctx.now.as_nanosecond() };
    notify::tell(&ctx.store, &ctx.config.notify, &agent, notice, &text, ctx.now);
}

/// Remembers the reading at an automatic compaction as the compaction point. If we do not know what moved the point, or
/// somebody other than the client announced it, it applies to this session alone.
pub(crate) fn observe(ctx: &Context, session: &Session, measured: &Measurement, witness: Witness) {
    let Some(reading) = measured.gauge.reading else { return };
    if witness == Witness::Report || session.compaction.unknown {
        ctx.update(session, |s| s.compacts_at = Some(reading.total()));
        return;
    }
    let model = measured.gauge.model.as_deref().or(session.model.as_deref());
    let noted = ctx.store.compactions().observe(model, reading.window, &session.compaction, reading.total());
    if let Err(e) = noted {
        ctx.fault("remember the compaction point", &e);
    }
}
