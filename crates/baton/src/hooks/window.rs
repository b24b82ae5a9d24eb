//! An agent begins a fresh window itself, by a tool of its client: not before it has handed over, and journaled as the
//! rotation that it is.

use baton_core::agent::RotationRequest;
use baton_core::rotation::{Actuator, Rotation};
use baton_core::say;
use baton_core::session::Session;

use crate::hooks::answer::Answer;
use crate::providers::Provider;
use crate::rotation::{journal, request};
use crate::sessions::context::Context;
use crate::sessions::gauge::measure;
use crate::sessions::nudge::{self, Surroundings};
use crate::store::record::RecordError;
use crate::sys::process;

/// Whether this is the tool that begins a fresh window; others do not concern us.
pub(super) fn is_its_tool(provider: &Provider, tool: Option<&str>) -> bool {
    provider.hooks.window.is_some_and(|window| tool == Some(window.tool))
}

/// PreToolUse: the gate before the tool.
#[cold]
pub(super) fn gate(ctx: &Context, session: &Session) -> Option<Answer> {
    let window = ctx.provider.hooks.window?;
    // If nothing is sealed here, the fresh window would have nothing to begin with.
    if !ctx.seals(session) {
        return None;
    }
    let agent = ctx.agent(&session.agent);
    let wanted = agent.as_ref().and_then(|agent| agent.rotation.as_ref());
    let has_handed_over =
        session.request.is_some() || wanted.is_some_and(|wanted| wanted.session == session.id);
    let refused = agent.as_ref().and_then(|agent| {
        request::permit(&ctx.store, agent, Some(session), ctx.config.run.max_restarts).err()
    });
    let reason = match refused {
        Some(refused) => format!("[baton] No fresh context now: {refused}"),
        None if has_handed_over => return None,
        None => {
            nudge::prepare_folder(ctx, session);
            let gauge = measure(ctx, session).gauge;
            Surroundings::new(ctx, session, &gauge).with(|s| say::handoff_first(s, window.tool))
        }
    };
    let mut line = ctx.line("window-refused", session);
    line.detail = serde_json::json!({ "handed_over": has_handed_over });
    ctx.log(&line);
    Some(Answer::say(Some((window.refuse)(&reason))))
}

/// SessionStart after the agent began the window: the rotation is complete.
#[cold]
pub(super) fn note(ctx: &Context, session: &Session, handoff: Option<&str>) {
    let began = session.precompact.as_ref().filter(|p| p.window).and_then(|p| p.handoff.clone());
    let Some(handoff) = began.filter(|began| handoff == Some(began.as_str())) else { return };
    let (Some(agent), Some(me)) = (ctx.agent(&session.agent), process::identify(std::process::id())) else {
        return;
    };
    let wanted = RotationRequest {
        at: ctx.now,
        handoff,
        session: session.id.clone(),
        by: "the agent".to_owned(),
        path: None,
        wait_for_idle: false,
        at_once: false,
    };
    let rotation = Rotation::new(&agent, &wanted, Actuator::Window, &me, ctx.now);
    let noted = journal::begin_stopped(&ctx.store, rotation).map_err(RecordError::from);
    if let Err(e) = noted.and_then(|rotation| journal::loaded(&ctx.store, rotation)) {
        ctx.fault("note a fresh window", &e);
    }
    let mut line = ctx.line("rotated", session);
    line.detail = serde_json::json!({ "by": Actuator::Window.as_str() });
    ctx.log(&line);
}
