//! A session that died without an end: found when the next one begins, its facts offered once.

use std::time::{Duration, SystemTime};

use baton_core::handoff::{Kind, Status};
use baton_core::session::{Ended, Session};

use super::scene::Scene;
use super::{SEAL_PATIENCE, memory, mirror};
use crate::memory::backups::Why;
use crate::sealing::{self, Sealing};
use crate::sys::process;

/// One that died before this is history: `baton sessions` finds it.
const RECENT: Duration = Duration::from_hours(72);

/// Seals what a dead session of this channel has left, so that the one that begins can load it. `true` if it did.
pub fn seal(scene: &Scene, session: &Session) -> bool {
    let since = SystemTime::now().checked_sub(RECENT).unwrap_or(SystemTime::UNIX_EPOCH);
    let mut dead: Vec<Session> = scene
        .store
        .sessions()
        .changed_since(since)
        .into_iter()
        .filter(|s| s.channel == session.channel && s.id != session.id && is_dead(scene, s))
        .collect();
    dead.sort_by_key(|s| std::cmp::Reverse(s.turn_since.unwrap_or(s.started)));
    let mut sealed = false;
    for one in dead {
        // Whoever writes down its end offers it; of two starts at once only one does.
        let first = scene.store.sessions().update(&one.id, SEAL_PATIENCE, |s| {
            let open = s.ended.is_none();
            if open {
                s.ended = Some(Ended { at: scene.now, reason: "crash".to_owned() });
            }
            open
        });
        if !matches!(first, Ok(Some(true))) {
            continue;
        }
        mirror::everything(scene, &one);
        if one.headless || was_carried_over(scene, &one) || !sealing::has_words(&scene.store, &one) {
            continue;
        }
        memory::back_up(scene, &one, Why::Crash);
        if sealed {
            continue;
        }
        let sealing = Sealing { session: &one, kind: Kind::Crash, narrative: None, for_self: false };
        match sealing::seal(&scene.store, &scene.config, &sealing, scene.now) {
            Ok(_) => sealed = true,
            Err(e) => scene.fault("seal what a dead session left", &e),
        }
        let mut line = scene.line("session-died", &one);
        line.detail = serde_json::json!({ "found_by": session.id });
        scene.log(&line);
    }
    sealed
}

fn is_dead(scene: &Scene, session: &Session) -> bool {
    session.ended.is_none()
        && session.process.as_ref().is_some_and(|p| !process::is_alive(p))
        && !scene.store.agents().is_live(&session.agent)
}

/// Was its last handoff loaded? Then its work goes on elsewhere already.
fn was_carried_over(scene: &Scene, session: &Session) -> bool {
    let Some(id) = &session.last_handoff else { return false };
    let found = scene.store.handoffs(&scene.config).find(&session.channel, id).ok().flatten();
    found
        .is_some_and(|l| l.entry.status == Status::Consumed && Some(l.entry.created_at) >= session.turn_since)
}
