//! Finds sessions that died without an end when the next one begins, and offers their facts once.

use std::time::{Duration, SystemTime};

use baton_core::agent::Agent;
use baton_core::handoff::{Entry, HandoffId, Kind, Status};
use baton_core::session::{Session, SessionEnd};
use jiff::Timestamp;

use crate::handoffs::seal;
use crate::handoffs::seal::Sealing;
use crate::mail::notify;
use crate::project::memory::backups::BackupReason;
use crate::sessions::context::Context;
use crate::sessions::turn::{self, Settler};
use crate::sessions::{SEAL_PATIENCE, backup, claim, mirror};
use crate::sys::process;

/// Sessions that died earlier are history; `baton sessions` lists them.
const RECENT: Duration = Duration::from_hours(72);

/// Seals what dead sessions of this channel left: for the dead agent itself if it can come back, else for the session
/// that begins. Returns whether there is something for that session.
pub(crate) fn seal(ctx: &Context, session: &Session) -> bool {
    let since = SystemTime::now().checked_sub(RECENT).unwrap_or(SystemTime::UNIX_EPOCH);
    let mut dead: Vec<Session> = ctx
        .store
        .sessions()
        .changed_since(since)
        .into_iter()
        .filter(|s| s.channel == session.channel && s.id != session.id && is_dead(ctx, s))
        .collect();
    dead.sort_by_key(|s| std::cmp::Reverse(s.turn_since.unwrap_or(s.started)));
    let mut sealed = false;
    for one in dead {
        // The start that records the end also offers the handoff; of two concurrent starts only one does.
        let first = ctx.store.sessions().update(&one.id, SEAL_PATIENCE, |s| {
            let open = s.ended.is_none();
            if open {
                s.ended = Some(SessionEnd { at: ctx.now, reason: "crash".to_owned() });
            }
            open
        });
        if !matches!(first, Ok(Some(true))) {
            continue;
        }
        let agent = agent_of(ctx, &one);
        notify::death(&ctx.store, &agent, Some(&one), notify::UNSEEN, ctx.now);
        mirror::everything(ctx, &one);
        if one.headless
            || one.taken_back
            || was_carried_over(ctx, &one)
            || !seal::has_words(&ctx.store, &ctx.config, &one)
        {
            continue;
        }
        backup::back_up(ctx, &one, BackupReason::Crash);
        let for_self = agent.keeps_to_itself();
        // Offer only the newest of the plain clients; every other agent returns to its own handoff.
        if sealed && !for_self {
            continue;
        }
        // A handoff in its own words waits already, and a second one would replace it.
        if for_self
            && let Some(entry) = last_handoff(ctx, &one).filter(|entry| entry.status != Status::Cleared)
        {
            keep_for(ctx, &one, &entry.id);
            continue;
        }
        // A new handoff would clear the one that it was given. If no turn has begun, or its transcript never shows that
        // handoff, there is nothing new. Otherwise its hook may have recorded the turn and not yet the use of the handoff.
        let settled = turn::settled(ctx, &one, Settler::Last);
        if one.claim.is_some() && settled.claim.is_none() {
            continue;
        }
        if claim::has_acted(&one) {
            claim::consume(ctx, &one);
        } else if let Some(id) = &one.claim {
            claim::give_back(ctx, &one, id);
            continue;
        }
        let sealing = Sealing { session: &one, kind: Kind::Crash, narrative: None, for_self };
        match seal::seal(&ctx.store, &ctx.config, &sealing, ctx.now) {
            Ok(kept) if for_self => keep_for(ctx, &one, &kept.entry.id),
            Ok(_) => sealed = true,
            Err(e) => ctx.fault("seal what a dead session left", &e),
        }
        let mut line = ctx.line("session-died", &one);
        line.detail = serde_json::json!({ "found_by": session.id });
        ctx.log(&line);
    }
    sealed
}

/// The agent of the session. Its name may belong to another agent by now, which must not be mistaken for it.
fn agent_of(ctx: &Context, session: &Session) -> Agent {
    let known = ctx.agent(&session.agent).filter(|agent| agent.sessions.contains(&session.id));
    known.unwrap_or_else(|| {
        let (id, channel) = (session.agent.clone(), session.channel.clone());
        Agent::new(id, &session.provider, channel, session.cwd.clone(), session.started)
    })
}

/// Notes the handoff in the agent's record, so that a restart uses it and does not seal a second one.
fn keep_for(ctx: &Context, session: &Session, id: &HandoffId) {
    let noted = ctx.store.agents().update(&session.agent, SEAL_PATIENCE, |agent| {
        agent.last_handoff = Some(id.clone());
    });
    if let Err(e) = noted {
        ctx.fault("note the handoff of an agent that died", &e);
    }
}

fn is_dead(ctx: &Context, session: &Session) -> bool {
    session.ended.is_none()
        && session.process.as_ref().is_some_and(|p| !process::is_alive(p))
        && !is_left_to(ctx, session)
}

/// Whether its agent runs and looks after it. Another agent with the same name does not count.
fn is_left_to(ctx: &Context, session: &Session) -> bool {
    ctx.store.is_running(&session.agent)
        && ctx.agent(&session.agent).is_none_or(|agent| agent.sessions.contains(&session.id))
}

/// Whether its last handoff was loaded, so that its work continues elsewhere.
fn was_carried_over(ctx: &Context, session: &Session) -> bool {
    last_handoff(ctx, session).is_some_and(|entry| entry.status == Status::Consumed)
}

/// The handoff sealed at the end of its last turn.
fn last_handoff(ctx: &Context, session: &Session) -> Option<Entry> {
    let id = session.last_handoff.as_ref()?;
    // Handoffs are dated in whole seconds.
    let since = session.turn_since.map(Timestamp::as_second);
    match ctx.store.handoffs(&ctx.config).entry(&session.channel, id) {
        Ok(entry) => entry.filter(|entry| Some(entry.created_at.as_second()) >= since),
        Err(e) => {
            ctx.fault("look for the handoff of a session that died", &e);
            None
        }
    }
}
