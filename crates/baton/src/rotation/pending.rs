//! Carries out a pending handoff: seals the document that an agent handed over, and requests a fresh context.
//!
//! A turn can end in many ways, and several parties may notice: the Stop hook, the hook of an API error, an
//! interruption that only the transcript shows, an attendant, a person's command. The process that marks the session as
//! `sealing`, under its record's lock, carries the handoff out, and the others leave it alone. The request stays in the
//! record until the handoff is sealed: if that process is killed, another one retries once the mark is old.

use std::path::Path;

use baton_core::agent::Agent;
use baton_core::halt::Audience;
use baton_core::handoff::{HandoffId, Kind};
use baton_core::notice::{self, Notice};
use baton_core::pending::{LEASE, Pending, TRIES};
use baton_core::session::{PendingHandoff, Session, Turn};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::handoffs::seal::{self, Sealing};
use crate::mail::{announce, notify};
use crate::rotation::request::{self, When, Wish};
use crate::sessions::claim;
use crate::sessions::context::Context;
use crate::sessions::turn::{self, Settler};
use crate::store::Store;
use crate::sys::process;

/// The result of carrying out a pending handoff.
#[derive(Debug)]
pub(crate) enum SealOutcome {
    Sealed {
        handoff: HandoffId,
        /// An actuator other than the user gives the fresh context.
        rotatable: bool,
    },
    /// Sealing failed. It is tried again unless the document is gone or there were too many tries.
    Failed(String),
}

/// Since when the agent's handoff is pending, and the event that it waits for.
pub(crate) fn text(store: &Store, agent: &Agent, session: &Session, audience: Audience) -> Option<String> {
    let request = session.request.as_ref()?;
    let pending = session.pending(store.presence(agent).is_braked())?;
    let since = request.at.to_zoned(TimeZone::system()).strftime("%H:%M").to_string();
    Some(pending.text(&since, audience))
}

/// Carries out the session's pending handoff if it is due. `None` if there is none, if it still waits, or if someone
/// else was faster.
pub(crate) fn carry_out(ctx: &Context, session: &Session, braked: bool, by: &str) -> Option<SealOutcome> {
    session.request.as_ref()?;
    let request = ctx.update(session, |s| {
        let is_due = s.pending(braked) == Some(Pending::Due);
        is_due.then(|| take(s, ctx.now)).flatten()
    });
    request.flatten().map(|request| seal(ctx, session, &request, by, When::EndOfTurn, None))
}

/// Carries out a handoff that the agent's previous conversation left pending, because it ended while nothing could be
/// sealed. The context that begins loads it. Returns a message for the user if it fails again.
pub(crate) fn carry_out_left_behind(ctx: &Context, session: &Session) -> Option<String> {
    let agent = ctx.agent(&session.agent)?;
    let before = agent.sessions.iter().rev().find(|id| **id != session.id)?;
    let before = ctx.store.sessions().get(before).unwrap_or_else(|e| {
        ctx.fault("read the record of the conversation before", &e);
        None
    })?;
    // Its end was not reported, or nothing could be written then.
    let before = turn::settled(ctx, &before, Settler::Last);
    if claim::has_acted(&before) {
        claim::consume(ctx, &before);
    }
    let copy = before.request.as_ref()?.copy.clone();
    // A client that was killed in its turn reports no end of it.
    let is_dead = before.process.as_ref().is_some_and(|client| !process::is_alive(client));
    let outcome = if is_dead {
        carry_out_at_once(ctx, &before, "the agent")
    } else {
        carry_out(ctx, &before, false, "the agent")
    };
    match outcome? {
        SealOutcome::Sealed { .. } => None,
        SealOutcome::Failed(why) => Some(format!(
            "baton: the handoff of the conversation before was not sealed: {why}; its words are in {copy}"
        )),
    }
}

/// Carries out the session's pending handoff now, whatever it waits for. `None` if there is none.
pub(crate) fn carry_out_at_once(ctx: &Context, session: &Session, by: &str) -> Option<SealOutcome> {
    session.request.as_ref()?;
    let request = ctx.update(session, |s| take(s, ctx.now)).flatten();
    Some(match request {
        Some(request) => seal(ctx, session, &request, by, When::AtOnce, None),
        None => SealOutcome::Failed("someone else is sealing it at this moment".to_owned()),
    })
}

/// Records that the turn ended without a hook, and carries out the pending handoff. A prompt that came meanwhile wins.
pub(crate) fn turn_ended(ctx: &Context, session: &Session, by: &str) -> Option<SealOutcome> {
    session.request.as_ref()?;
    let request = ctx.update(session, |s| {
        if s.turn_since != session.turn_since || s.turn == Turn::Limit {
            return None;
        }
        (s.turn, s.turn_since) = (Turn::Idle, Some(ctx.now));
        take(s, ctx.now)
    });
    request.flatten().map(|request| seal(ctx, session, &request, by, When::EndOfTurn, None))
}

/// Records the end of a turn that no hook reported: Esc interrupted it, or took its prompt back before it began. Queues
/// what came with that prompt again, and carries out the handoff that waited for the end. Whoever finds such a session
/// does this, because nothing else may ever happen there. Returns whether the record has changed.
pub(crate) fn end_untold(store: &Store, session: &Session, now: Timestamp) -> bool {
    if !turn::has_ended_untold(session, now) {
        return false;
    }
    let Some(ctx) = Context::of(session) else { return false };
    let ended = ctx.update(session, |s| {
        let is_same = s.turn == session.turn && s.turn_since == session.turn_since;
        if is_same {
            (s.turn, s.turn_since, s.blocked_on) = (Turn::Idle, Some(now), None);
        }
        is_same
    });
    if ended != Some(true) {
        return false;
    }
    ctx.log(&ctx.line("turn-ended-untold", session));
    turn::settled(&ctx, session, Settler::Calm);
    carry_out(&ctx, session, ctx.is_braked(&session.agent), "the agent");
    announce::wake_listeners(&store.state, &session.agent);
    true
}

/// The session after [`end_untold`], for those who look at it only now and then.
pub(crate) fn caught_up(store: &Store, session: Session) -> Session {
    if !end_untold(store, &session, Timestamp::now()) {
        return session;
    }
    // What was read before is better than nothing.
    store.sessions().readable(&session.id).unwrap_or(session)
}

/// Marks the session, so that nobody else carries out its request. [`seal`] must follow.
pub(crate) fn take(session: &mut Session, now: Timestamp) -> Option<PendingHandoff> {
    let request = session.request.clone()?;
    if session.sealing.is_some_and(|at| now.duration_since(at) < LEASE) {
        return None;
    }
    session.sealing = Some(now);
    session.latches = session.latches.handed_off();
    Some(request)
}

/// Seals the document with the agent's words, and requests the fresh context. `last_message` is the last one of the
/// turn, if the client reported it.
#[cold]
pub(crate) fn seal(
    ctx: &Context,
    session: &Session,
    handed_over: &PendingHandoff,
    by: &str,
    when: When,
    last_message: Option<&str>,
) -> SealOutcome {
    let words = seal::requested_text(&ctx.store, handed_over);
    // Try a readable document again: a disk that is full now may have room later.
    let again = (words.is_ok() && handed_over.tries < TRIES)
        .then(|| PendingHandoff { tries: handed_over.tries + 1, ..handed_over.clone() });
    let outcome = words.and_then(|words| {
        let kind = Kind::Manual;
        let sealing = Sealing { session, kind, narrative: Some(&words), for_self: true };
        Ok(seal::seal_at_stop(&ctx.store, &ctx.config, &sealing, last_message, ctx.now)?.entry.id)
    });
    let failed = outcome.is_err();
    ctx.update(session, |s| {
        s.latches.handed_off &= !failed;
        // A request that was made meanwhile is carried out at the end of its own turn.
        if s.request.as_ref() == Some(handed_over) {
            s.request = again.clone().filter(|_| failed);
        }
    });
    // Clear the mark last: a process that sees the session idle and unmarked must also see its rotation request.
    if let Ok(handoff) = &outcome {
        ask_for_fresh_context(ctx, session, handed_over, handoff, (by, when));
    }
    ctx.update(session, |s| s.sealing = None);
    match outcome {
        Ok(handoff) => SealOutcome::Sealed { handoff, rotatable: ctx.is_rotatable(&session.agent) },
        Err(e) => {
            let why = format!("{e:#}");
            ctx.fault("carry out a pending handoff", &why);
            if again.is_none() {
                tell_parent(ctx, session, &why);
            } else {
                // The actuator that serves the agent tries again.
                announce::wake_listeners(&ctx.store.state, &session.agent);
            }
            SealOutcome::Failed(why)
        }
    }
}

/// Runs after the request is gone from the record, because a handoff sealed twice would be loaded twice.
fn ask_for_fresh_context(
    ctx: &Context,
    session: &Session,
    handed_over: &PendingHandoff,
    handoff: &HandoffId,
    (by, when): (&str, When),
) {
    // If the agent's own file is still there, the prompt of the fresh context names it.
    let file = handed_over.path.as_deref().filter(|path| Path::new(path).is_file());
    let wish = Wish { by, when, file };
    if let Err(e) = request::request(&ctx.store, &ctx.config, session, handoff, &wish, ctx.now) {
        ctx.fault("ask for a fresh context", &e);
    }
}

/// Tells the parent or the user that the handoff failed; the agent is idle and continues.
pub(crate) fn tell_parent(ctx: &Context, session: &Session, error: &str) {
    let Some(agent) = ctx.agent(&session.agent) else { return };
    let kind = notice::NoticeKind::HandoffFailed;
    let text = kind.text(agent.id.as_str(), error);
    let notice = Notice { kind, stamp: ctx.now.as_nanosecond() };
    notify::tell(&ctx.store, &ctx.config.notify, &agent, notice, &text, ctx.now);
}

/// Notifies once that the pending handoff waits for a person.
pub(crate) fn tell_waiting(ctx: &Context, session: &Session) {
    let Some(agent) = ctx.agent(&session.agent) else { return };
    let braked = ctx.store.presence(&agent).is_braked();
    let Some(request) =
        session.request.as_ref().filter(|_| session.pending(braked) == Some(Pending::NextPrompt))
    else {
        return;
    };
    let kind = notice::NoticeKind::HandoffPending;
    let Some(text) = text(&ctx.store, &agent, session, notify::audience(&ctx.store, &agent)) else { return };
    let notice = Notice { kind, stamp: request.at.as_nanosecond() };
    notify::tell(
        &ctx.store,
        &ctx.config.notify,
        &agent,
        notice,
        &kind.text(agent.id.as_str(), &text),
        ctx.now,
    );
}
