//! What the project's memory gets from hooks, and what a starting session is told of it. What goes wrong here is
//! noted in the log and costs the agent nothing.

use baton_core::event::StartSource;
use baton_core::ids::SessionId;
use baton_core::session::Session;

use super::scene::Scene;
use crate::memory::Place;
use crate::memory::backups::{self, Pending, Why};
use crate::memory::saved;

fn place(scene: &Scene, session: &Session) -> Place {
    Place::of(&scene.paths, &scene.cwd, &session.channel)
}

/// The transcript is set aside: the session ends, or its context is about to be replaced by a summary.
pub fn back_up(scene: &Scene, session: &Session, why: Why<'_>) -> Option<Pending> {
    let place = place(scene, session);
    let made = match backups::make(&scene.store, &place, session, why, scene.now) {
        Err(e) if place.project.is_some() => {
            // A project that cannot be written: what is known of the backup lies with us, its bytes in the mirror.
            scene.fault("write to the project's memory", &e);
            let ours = Place::without_project(&scene.paths, &session.channel);
            backups::make(&scene.store, &ours, session, why, scene.now)
        }
        other => other,
    };
    let made = made.unwrap_or_else(|e| {
        scene.fault("back up the transcript", &e);
        None
    })?;
    // Saved by hand, and nothing was said since: nobody has to look at it.
    if saved::covers(&scene.store, session)
        && let Err(e) = backups::settle(&place, "saved", |p| p.path == made.path)
    {
        scene.fault("settle a backup", &e);
    }
    Some(made)
}

/// What a session that begins is told: for the agent, and for its user. `carried` is the session whose handoff it has
/// been given; a backup of that one has nothing to add.
pub fn waiting(
    scene: &Scene,
    session: &Session,
    source: &StartSource<'_>,
    carried: Option<&SessionId>,
) -> Option<(String, String)> {
    let place = place(scene, session);
    // A resumed conversation is itself what the backup would restore.
    let resumed = matches!(source, StartSource::Resume | StartSource::Fork);
    let settled = backups::settle(&place, "processed", |p| {
        p.session.is_some()
            && (p.session.as_ref() == carried || (resumed && p.session.as_ref() == Some(&session.id)))
    });
    if let Err(e) = settled {
        scene.fault("settle a backup", &e);
    }
    let newest = backups::pending(&scene.store, &place).into_iter().next()?;
    // Projects that have no memory were not asked to be reminded; `baton memory pending` tells.
    if place.project.is_none() || session.headless || !scene.config.memory.announce {
        return None;
    }
    let path = baton_core::plain::plain_line(&newest.path.display().to_string(), 400);
    let context = format!(
        "SESSION_BACKUP_PENDING: A previous session backup exists at {path}\n\
         User should run /resume-latest to restore context, or /discard-backup to discard."
    );
    let message =
        "baton: a backup of an earlier session waits; /resume-latest restores it, /discard-backup drops it";
    Some((context, message.to_owned()))
}
