//! Gives a session its handoff: claimed when the session starts, consumed at its first sign of life.

use baton_core::event::StartSource;
use baton_core::handoff::attach::within;
use baton_core::handoff::{Claimant, HandoffId, Kind, Refusal};
use baton_core::ids::SessionId;
use baton_core::latch::Rearm;
use baton_core::say;
use baton_core::session::{Duty, Session};

use crate::handoffs::attach::{self, PendingFiles};
use crate::handoffs::frame;
use crate::project::channel;
use crate::sessions::context::Context;
use crate::sessions::{SEAL_PATIENCE, crash, gauge};
use crate::store::handoffs::LoadedHandoff;

/// The context for a starting session.
#[derive(Default)]
pub(crate) struct StartContext {
    pub context: Option<String>,
    pub message: Option<String>,
    pub handoff: Option<String>,
    /// The session that the handoff carries over.
    pub from: Option<SessionId>,
    /// Something went wrong, and it may succeed later.
    failed: bool,
}

/// Loads this session's handoff, or mentions one that waits.
fn give(ctx: &Context, session: &Session, source: &StartSource<'_>) -> StartContext {
    let mut handoffs = ctx.store.handoffs(&ctx.config);
    handoffs.patience = SEAL_PATIENCE;
    let dir = channel::real(&ctx.cwd).display().to_string();
    let who = Claimant {
        session: &session.id,
        agent: Some(&session.agent),
        process: session.process.as_ref(),
        working_dir: &dir,
        // If another tool loads unaddressed handoffs, give only those addressed to this agent.
        own_only: session.leaves(Duty::Load)
            || ctx.agent(&session.agent).is_some_and(|agent| agent.keeps_to_itself()),
    };
    let answer = match source {
        StartSource::Startup | StartSource::Clear if may_load(ctx, session) => {
            let answer = handoffs.claim(&session.channel, &who, ctx.now);
            let nothing = matches!(&answer, Ok(Err(refusal)) if !matches!(refusal, Refusal::Claimed(..)));
            // No handoff waits, but a session may have died before it could leave one.
            if nothing && !session.leaves(Duty::Seal) && crash::seal(ctx, session) {
                handoffs.claim(&session.channel, &who, ctx.now)
            } else {
                answer
            }
        }
        StartSource::Compact => return after_compaction(ctx, session),
        StartSource::Resume | StartSource::Fork => {
            // The conversation is already there, so mention the handoff instead of loading it.
            return match handoffs.peek(&session.channel, &who, ctx.now) {
                Ok(Ok(loaded)) if loaded.entry.session_id != session.id => {
                    StartContext { message: Some(waits(&loaded.entry.id)), ..StartContext::default() }
                }
                _ => StartContext::default(),
            };
        }
        _ => return StartContext::default(),
    };
    match answer {
        Ok(Ok(loaded)) => loaded_into(ctx, session, &loaded),
        Ok(Err(refusal)) => StartContext { message: mention(&refusal), ..StartContext::default() },
        Err(e) => {
            ctx.fault("load the handoff", &e);
            StartContext {
                failed: true,
                message: Some(format!("baton: the handoff could not be loaded: {e}")),
                ..StartContext::default()
            }
        }
    }
}

/// Loads the handoff for a session that begins. If that fails, as on a full disk, the session's prompts try again.
pub(crate) fn give_at_start(ctx: &Context, session: &Session, source: &StartSource<'_>) -> StartContext {
    let is_awaited = is_awaited(ctx, session);
    let given = give(ctx, session, source);
    if given.handoff.is_none() && (given.failed || is_awaited) {
        ctx.update(session, |s| s.unloaded = true);
    }
    given
}

/// Loads the handoff that the hook of the session's start could not, with a prompt. Another failure leaves it to the next
/// prompt. The claim stays one until the transcript shows the handoff: Esc may take the prompt back.
#[cold]
pub(crate) fn give_late(ctx: &Context, session: &mut Session) -> StartContext {
    ctx.update(session, |s| s.unloaded = false);
    session.unloaded = false;
    // Once it has sealed its own handoff, that one would be loaded.
    if session.last_handoff.is_some() {
        return StartContext::default();
    }
    let given = give_at_start(ctx, session, &StartSource::Clear);
    session.claim = given.handoff.as_deref().and_then(|id| HandoffId::new(id).ok());
    if let Some(id) = &given.handoff {
        let len = gauge::transcript_len(session);
        session.give([id.clone()], len);
        ctx.update(session, |s| s.give([id.clone()], len));
    }
    given
}

/// Gives back a handoff that the context has never seen. Returns whether that could be recorded.
pub(crate) fn give_back(ctx: &Context, session: &Session, id: &HandoffId) -> bool {
    // Drop the files that wait with it; the next session that loads it reads them again.
    PendingFiles::take(&ctx.store, &session.id);
    let mut handoffs = ctx.store.handoffs(&ctx.config);
    handoffs.patience = SEAL_PATIENCE;
    let released = handoffs.release(&session.channel, id, &session.id, ctx.now);
    if let Err(e) = &released {
        ctx.fault("give back the handoff", e);
    }
    released.is_ok()
}

/// Whether the agent's rotation waits for this context to load the handoff.
fn is_awaited(ctx: &Context, session: &Session) -> bool {
    let request = ctx.agent(&session.agent).and_then(|agent| agent.rotation);
    request.is_some_and(|request| request.session != session.id)
}

fn waits(id: &HandoffId) -> String {
    format!("baton: handoff {id} of this project waits; `baton handoffs load {id}` loads it")
}

/// A headless run that baton did not start must not take the work away from a person's session.
fn may_load(ctx: &Context, session: &Session) -> bool {
    !session.headless || ctx.config.handoff.headless || ctx.is_rotatable(&session.agent)
}

fn loaded_into(ctx: &Context, session: &Session, loaded: &LoadedHandoff) -> StartContext {
    let id = loaded.entry.id.clone();
    let claimed = ctx.update(session, |s| {
        s.claim = Some(id.clone());
        s.continues = Some(id.clone());
        s.latches = s.latches.rearm(Rearm::Rotation, None);
    });
    if claimed.is_none() {
        // Nothing will ever consume this claim, but the agent still gets the text. Its request stays, because the
        // record does not show that it was fulfilled: the actuator prompts the agent and ends the rotation.
        ctx.fault("remember the claim", &"the session's record could not be changed");
    } else {
        finish_rotation(ctx, session, &id);
    }
    PendingFiles::prepare(&ctx.store, &ctx.config, &session.id, &id);
    let message = match loaded.entry.kind {
        Kind::Crash => say::user_loaded_crash(id.as_str(), loaded.entry.session_id.short()),
        _ => say::user_loaded(id.as_str()),
    };
    StartContext {
        from: Some(loaded.entry.session_id.clone()),
        context: Some(frame::loaded(
            &ctx.store,
            loaded,
            ctx.now,
            frame::budget(&ctx.config),
            &archived(ctx, loaded),
        )),
        message: Some(message),
        handoff: Some(id.to_string()),
        failed: false,
    }
}

fn archived(ctx: &Context, loaded: &LoadedHandoff) -> String {
    ctx.store.handoffs(&ctx.config).archived_path(&loaded.entry.id).display().to_string()
}

/// The fresh context is there: drop the fulfilled request and the restart signal for other people's scripts.
fn finish_rotation(ctx: &Context, session: &Session, id: &HandoffId) {
    let done = ctx.store.agents().update(&session.agent, SEAL_PATIENCE, |agent| {
        agent.rotation.take_if(|r| &r.handoff == id).map(|r| r.session)
    });
    match done {
        Ok(Some(Some(old))) => {
            if let Err(e) = ctx.store.published().clear_restart(&old) {
                ctx.fault("remove the restart signal", &e);
            }
        }
        Ok(_) => {}
        Err(e) => ctx.fault("finish the rotation", &e),
    }
}

/// After a compaction, loads only the session's own handoff: the one sealed just before it, else the last one it wrote.
fn after_compaction(ctx: &Context, session: &Session) -> StartContext {
    if session.precompact.as_ref().is_some_and(|p| p.answered) || session.leaves(Duty::Load) {
        // The handoff is the context already.
        return StartContext::default();
    }
    let mut handoffs = ctx.store.handoffs(&ctx.config);
    handoffs.patience = SEAL_PATIENCE;
    let Some(id) =
        session.precompact.as_ref().and_then(|p| p.handoff.clone()).or_else(|| session.last_handoff.clone())
    else {
        return StartContext::default();
    };
    let pid = session.process.as_ref().map_or(0, |p| p.pid);
    let loaded = match handoffs.load_id(&session.channel, &id, &session.id, pid, ctx.now) {
        Ok(Ok(loaded)) => Some(loaded),
        // It was loaded before; show it again, because the compaction has removed it from the context.
        Ok(Err(_)) => handoffs.find(&session.channel, &id).unwrap_or_else(|e| {
            ctx.fault("show the session's own handoff again", &e);
            None
        }),
        Err(e) => {
            ctx.fault("load the session's own handoff", &e);
            None
        }
    };
    let Some(loaded) = loaded else { return StartContext::default() };
    let is_window = session.precompact.as_ref().is_some_and(|p| p.window);
    let is_wanted = ctx.agent(&session.agent).and_then(|a| a.rotation).is_some_and(|r| r.handoff == id);
    if is_wanted {
        finish_rotation(ctx, session, &id);
    }
    let text =
        frame::loaded(&ctx.store, &loaded, ctx.now, frame::budget(&ctx.config), &archived(ctx, &loaded));
    // The turn continues without a prompt that could mention them.
    let files = if is_window { files_in_play(ctx, &id) } else { None };
    let parts: Vec<String> = [Some(text), files].into_iter().flatten().collect();
    StartContext {
        context: Some(parts.join("\n\n")),
        from: Some(loaded.entry.session_id.clone()),
        message: Some(if is_window || is_wanted {
            say::user_loaded(id.as_str())
        } else {
            say::user_compacted(id.as_str())
        }),
        handoff: Some(id.to_string()),
        failed: false,
    }
}

fn files_in_play(ctx: &Context, id: &HandoffId) -> Option<String> {
    let files = within(&attach::files(&ctx.store, &ctx.config, id), ctx.provider.hooks.files_budget);
    attach::note(&ctx.store, &ctx.config, id, &files);
    attach::shown(&ctx.store, id, &files)
}

/// The message for the user when nothing was loaded, if it is worth a line.
fn mention(refusal: &Refusal) -> Option<String> {
    match refusal {
        Refusal::NotItsOwn(id) => Some(waits(id)),
        Refusal::Expired(id) => {
            Some(format!("baton: handoff {id} has expired; `baton handoffs load {id}` loads it anyway"))
        }
        Refusal::Claimed(id, by) => {
            Some(format!("baton: handoff {id} is being loaded by session {by}; this one starts fresh"))
        }
        _ => None,
    }
}

/// Whether a turn has begun since it was given its handoff: that is a sign of life, even if its hook could not record
/// it.
pub(crate) fn has_acted(session: &Session) -> bool {
    session.turn_since.is_some_and(|at| at > session.started)
}

/// The first sign of life turns a claim into consumption.
pub(crate) fn consume(ctx: &Context, session: &Session) {
    let Some(id) = session.claim.as_ref().filter(|_| !session.is_claim_unsettled()) else { return };
    let mut handoffs = ctx.store.handoffs(&ctx.config);
    handoffs.patience = ctx.patience();
    let pid = session.process.as_ref().map_or(0, |p| p.pid);
    match handoffs.consume(&session.channel, id, &session.id, pid, ctx.now) {
        Ok(_) => {
            ctx.update(session, |s| s.claim = None);
        }
        // The lock was busy; the next sign of life tries again.
        Err(e) => ctx.fault("mark a handoff as consumed", &e),
    }
}
