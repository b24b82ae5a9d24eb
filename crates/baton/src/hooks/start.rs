//! A session begins or ends: recognises it, gives it its handoff and mail, and takes back what it did not use.

use baton_core::event::{HookEvent, StartSource};
use baton_core::say;
use baton_core::session::{Duty, Session, SessionEnd, Turn};
use serde_json::json;

use crate::hooks::answer::{Answer, output};
use crate::hooks::window;
use crate::mail::deliver::{self, Occasion};
use crate::project::memory::backups::BackupReason;
use crate::providers::Integration;
use crate::rotation::pending;
use crate::sessions::claim::StartContext;
use crate::sessions::context::Context;
use crate::sessions::turn::{self, Settler};
use crate::sessions::{SEAL_PATIENCE, backup, claim, clear, done, gauge, mirror, register};
use crate::setup::migrate::{self, find};
use crate::store::published;
use crate::sys::process;

/// SessionStart: recognises the session, loads its handoff, delivers mail.
#[cold]
pub(super) fn session_start(
    ctx: &Context,
    event: &HookEvent<'_>,
    source: &StartSource<'_>,
    model: Option<&str>,
) -> Answer {
    crate::sys::fs::tighten(&ctx.store.state);
    let session = match register::try_register(ctx, event, source_name(source), model) {
        Ok(session) => session,
        Err(e) => {
            ctx.fault("register the session", &e);
            return Answer::say(output("SessionStart", None, Some(unwatched(&e))));
        }
    };
    let (session, beside) = stand_back(ctx, session, source_name(source));
    mirror::everything(ctx, &session);
    if matches!(source, StartSource::Clear | StartSource::Compact) {
        gauge::empty(ctx, &session);
    }
    let begins = matches!(source, StartSource::Startup | StartSource::Clear);
    let left = if begins { pending::carry_out_left_behind(ctx, &session) } else { None };
    // A context that was ordered to be empty gets no handoff.
    let is_emptied = begins && is_emptied(ctx, &session);
    let given =
        if is_emptied { StartContext::default() } else { claim::give_at_start(ctx, &session, source) };
    if matches!(source, StartSource::Compact) {
        window::note(ctx, &session, given.handoff.as_deref());
    }
    let waiting = backup::waiting(ctx, &session, source, given.from.as_ref());
    let primer = primer(ctx, &session, source, is_emptied);
    let mut parts: Vec<String> = primer.into_iter().chain(given.context).collect();
    let mut messages: Vec<String> = left.into_iter().chain(given.message).chain(beside).collect();
    if let Some((context, message)) = waiting {
        parts.push(context);
        messages.push(message);
    }
    // Nobody acts on the context of a start. If the pane attendant can type, mail comes with the first prompt or as
    // one.
    let mail = if ctx.is_typed_to(&session.agent) {
        Vec::new()
    } else {
        let used: usize = parts.iter().map(|p| p.chars().count()).sum();
        let room = ctx.provider.hooks.budget.saturating_sub(used);
        deliver::claim(&ctx.store, &session, Occasion::Pause, room, ctx.now)
    };
    parts.extend(deliver::framed(&ctx.store, &mail));

    let mut line = ctx.line("session-start", &session);
    line.detail = json!({ "source": source_name(source), "handoff": given.handoff, "mail": mail.len() });
    ctx.log(&line);
    let context = (!parts.is_empty()).then(|| parts.join("\n\n"));
    let message = (!messages.is_empty()).then(|| messages.join("\n"));
    Answer { text: output("SessionStart", context, message), mail }
}

/// Leaves other tools' scripts their duties in this session, and tells the user.
pub(super) fn stand_back(ctx: &Context, mut session: Session, source: &str) -> (Session, Option<String>) {
    if !matches!(ctx.provider.integration, Integration::PluginDir(_)) {
        return (session, None);
    }
    let found = find::duties(&ctx.paths, &ctx.cwd, source);
    let theirs = |duty: &Duty| *duty != Duty::StatusLine;
    let mut duties: Vec<Duty> = found.iter().map(|(_, duty)| *duty).filter(theirs).collect();
    duties.sort();
    duties.dedup();
    if duties != session.left_to_others {
        ctx.update(&session, |s| s.left_to_others.clone_from(&duties));
        session.left_to_others = duties;
    }
    let mut tools: Vec<&str> =
        found.iter().filter(|(_, duty)| theirs(duty)).map(|(tool, _)| tool.name).collect();
    tools.dedup();
    let message = (!tools.is_empty()).then(|| {
        format!(
            "baton: {} runs here too, so baton leaves {} to it; `baton install --migrate` moves it aside",
            tools.join(" and "),
            migrate::left(session.left_to_others.iter().copied())
        )
    });
    (session, message)
}

/// Whether this is the empty conversation that `baton clear` ordered.
fn is_emptied(ctx: &Context, session: &Session) -> bool {
    let Some(agent) = ctx.agent(&session.agent) else { return false };
    clear::carried_out(&ctx.store, &agent, ctx.now).unwrap_or_else(|e| {
        ctx.fault("begin an empty conversation", &format!("{e:#}"));
        false
    })
}

/// Tells a spawned agent who it is and how it reports: in its first context, and in an emptied one.
fn primer(ctx: &Context, session: &Session, source: &StartSource<'_>, is_emptied: bool) -> Option<String> {
    let agent = ctx.agent(&session.agent)?;
    let is_first = matches!(source, StartSource::Startup) && agent.since_anew().len() <= 1;
    let is_spawned = agent.pane.as_ref().is_some_and(|pane| pane.spawned);
    let parent = agent.parent.as_ref().map(baton_core::ids::AgentId::as_str);
    ((is_first || is_emptied) && is_spawned)
        .then(|| say::primer(agent.id.as_str(), parent, agent.role.as_deref()))
}

/// For the user, once at the start: baton does nothing in this session.
pub(super) fn unwatched(why: &dyn std::fmt::Display) -> String {
    format!("baton: this session is neither watched nor handed over: {why}; `baton doctor` says more")
}

fn source_name<'a>(source: &'a StartSource<'_>) -> &'a str {
    match source {
        StartSource::Startup => "startup",
        StartSource::Resume => "resume",
        StartSource::Fork => "fork",
        StartSource::Clear => "clear",
        StartSource::Compact => "compact",
        StartSource::Other(name) => name,
    }
}

/// SessionEnd: releases an unused handoff, and records the end.
#[cold]
pub(super) fn session_end(ctx: &Context, session: &Session, reason: &str) {
    mirror::ended(ctx, session);
    backup::back_up(ctx, session, BackupReason::End(reason));
    let settled = turn::settled(ctx, session, Settler::Last);
    let session = &*settled;
    if claim::has_acted(session) {
        // If none of its own hooks could record the use, consume it now, so that nobody else starts with it.
        claim::consume(ctx, session);
    } else if let Some(id) = &session.claim {
        // It was never prompted.
        claim::give_back(ctx, session, id);
    }
    // Carry out a handoff that is still pending, so that the next context begins with it.
    ctx.set_turn(session, Turn::Idle);
    pending::carry_out(ctx, session, false, "the agent");
    done::tell(ctx, session, None);
    ctx.update(session, |s| {
        s.claim = None;
        s.ended = Some(SessionEnd { at: ctx.now, reason: reason.to_owned() });
    });
    // After /clear the same client continues as the same agent.
    if reason != "clear" && !ctx.provider.hooks.end_is_late {
        let ended = ctx.store.agents().update(&session.agent, SEAL_PATIENCE, |agent| {
            if agent.session.as_ref() == Some(&session.id)
                && !agent.supervisor.as_ref().is_some_and(process::is_alive)
            {
                agent.ended = Some(ctx.now);
            }
        });
        if let Err(e) = ended {
            ctx.fault("note the agent's end", &e);
        }
    }
    let mut outcome = ctx.store.published().clear_current_session(&session.id);
    outcome = outcome.and(published::remove_percentage(&session.id));
    if let Err(e) = outcome {
        ctx.fault("tidy up after the session", &e);
    }
    let mut line = ctx.line("session-end", session);
    line.detail = json!({ "reason": reason });
    ctx.log(&line);
}
