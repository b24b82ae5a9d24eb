//! PreCompact and PostCompact. Prints nothing but vetoes, because the client would read anything else as instructions.

use baton_core::event::Trigger;
use baton_core::handoff::Kind;
use baton_core::session::{Session, Turn};

use crate::handoffs::seal::{self, Sealing};
use crate::hooks::answer::Answer;
use crate::rotation::request::{self, When, Wish};
use crate::sessions::compaction::Witness;
use crate::sessions::context::Context;
use crate::sessions::gauge::measure;
use crate::sessions::{compaction, gauge, mirror};

/// PreCompact: blocks the compaction if a fresh context is certain, else seals what it would destroy.
#[cold]
pub(super) fn pre(
    ctx: &Context,
    session: &Session,
    trigger: &Trigger<'_>,
    instructions: Option<&str>,
) -> Option<Answer> {
    let measured = measure(ctx, session);
    mirror::everything(ctx, session);
    let may_block = *trigger == Trigger::Auto && ctx.config.handoff.block_compaction;
    if may_block && !ctx.provider.hooks.veto_ends_turn && rotation_is_certain(ctx, session) {
        let reason = "baton: a fresh context with the sealed handoff follows at the end of this turn";
        return Some(Answer::say((ctx.provider.hooks.veto)(reason)));
    }
    if may_block && rotates_instead(ctx, session) {
        let reason = "baton: instead of a compaction, a fresh context with a sealed handoff follows at once";
        return Some(Answer::say((ctx.provider.hooks.veto)(reason)));
    }
    compaction::before(ctx, session, &measured, trigger, instructions, Witness::Client);
    None
}

/// A sealed rotation with a live actuator makes the compaction pointless.
fn rotation_is_certain(ctx: &Context, session: &Session) -> bool {
    ctx.agent(&session.agent)
        .is_some_and(|agent| agent.rotation.is_some() && ctx.store.presence(&agent).actuator().is_some())
}

/// For clients whose veto aborts the turn: seals now and requests the fresh context at once. Only in the middle of a
/// turn, when the transcript has its prompt; before that, the prompt would be lost.
fn rotates_instead(ctx: &Context, session: &Session) -> bool {
    if !ctx.provider.hooks.veto_ends_turn || session.turn != Turn::Working {
        return false;
    }
    if !ctx.agent(&session.agent).is_some_and(|agent| ctx.store.presence(&agent).is_supervised()) {
        return false;
    }
    let sealing = Sealing { session, kind: Kind::Auto, narrative: None, for_self: true };
    let asked = seal::seal(&ctx.store, &ctx.config, &sealing, ctx.now).and_then(|sealed| {
        let wish = Wish { by: "a compaction held back", when: When::AtOnce, file: None };
        Ok(request::request(&ctx.store, &ctx.config, session, &sealed.entry.id, &wish, ctx.now)?)
    });
    if let Err(e) = &asked {
        ctx.fault("rotate instead of a compaction", e);
    }
    asked.is_ok()
}

/// PostCompact: SessionStart(compact) came before it, but the client may have reported the old level in between.
#[cold]
pub(super) fn post(ctx: &Context, session: &Session) {
    gauge::empty(ctx, session);
    ctx.log(&ctx.line("post-compact", session));
}
