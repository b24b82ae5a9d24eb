//! Decides what to tell an agent about how full it is; each nudge is sent once per cycle.

use std::path::Path;

use baton_core::compaction::CompactionPoint;
use baton_core::gauge::Gauge;
use baton_core::latch::Say;
use baton_core::reading::{Reading, percent};
use baton_core::say::Situation;
use baton_core::session::Session;

use crate::handoffs::offer;
use crate::sessions::context::Context;
use crate::sessions::gauge;

/// Returns the nudge that the latches allow now. Checks without a lock first, because usually nothing is due.
pub(crate) fn due(ctx: &Context, session: &Session, gauge: &Gauge) -> Option<(Say, Surroundings)> {
    let voice = ctx.voice(session);
    session.latches.at_level(gauge.level, voice).1?;
    let say = ctx.update(session, |s| {
        let (latches, say) = s.latches.at_level(gauge.level, voice);
        s.latches = latches;
        say
    })??;
    Some((say, Surroundings::new(ctx, session, gauge)))
}

/// The values that a [`Situation`] borrows.
pub(crate) struct Surroundings {
    path: Option<String>,
    reading: Option<Reading>,
    transcript_bytes: u64,
    compaction: Option<u64>,
    turns_left: Option<u64>,
    critical_percentage: u8,
    rotatable: bool,
    asked_again: bool,
    window: Option<&'static str>,
}

impl Surroundings {
    pub(crate) fn new(ctx: &Context, session: &Session, gauge: &Gauge) -> Self {
        let window = gauge.reading.map_or(ctx.config.context.default_window, |r| r.window);
        let point = ctx.compaction_point(session, gauge, window);
        let base = gauge.reading.map_or(0, |r| r.base);
        let limits = ctx.config.context.thresholds().limits_from(base, window, point.end());
        let tool = ctx.provider.hooks.window.filter(|_| session.opens_window).map(|window| window.tool);
        let rotatable = tool.is_some() || ctx.is_rotatable(&session.agent);
        Self {
            path: offer::handoff_path(&ctx.store, Path::new(&session.cwd), &session.agent),
            reading: gauge.reading,
            transcript_bytes: gauge::transcript_len(session),
            compaction: match point {
                CompactionPoint::At { tokens, .. } => Some(tokens),
                CompactionPoint::Never { .. } => None,
            },
            turns_left: gauge.reading.and_then(|r| session.turn_ends.turns_left(point.distance(r.total()))),
            critical_percentage: percent(limits.critical.saturating_sub(base), window.saturating_sub(base)),
            rotatable,
            asked_again: rotatable && ctx.voice(session).block_stop,
            window: tool,
        }
    }

    pub(crate) fn with<T>(&self, act: impl FnOnce(&Situation<'_>) -> T) -> T {
        act(&Situation {
            reading: self.reading,
            transcript_bytes: self.transcript_bytes,
            compaction: self.compaction,
            turns_left: self.turns_left,
            critical_percentage: self.critical_percentage,
            path: self.path.as_deref(),
            rotatable: self.rotatable,
            asked_again: self.asked_again,
            window: self.window,
        })
    }
}

/// Makes the folder that the agent is about to be asked to write into. A failure only goes to the log.
pub(crate) fn prepare_folder(ctx: &Context, session: &Session) {
    if let Err(e) = offer::prepare(&ctx.store, Path::new(&session.cwd)) {
        ctx.fault("make a folder for the agent's handoff", &e);
    }
}
