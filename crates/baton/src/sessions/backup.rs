//! Backs transcripts up into the project's memory and tells a starting session about pending backups. Failures go to
//! the log and never disturb the agent.

use std::fmt::Write as _;

use baton_core::event::StartSource;
use baton_core::ids::SessionId;
use baton_core::session::{Duty, Session};

use crate::project::memory::MemoryDir;
use crate::project::memory::backups::{self, BackupReason, PendingBackup};
use crate::project::memory::saved;
use crate::sessions::context::Context;

fn place(ctx: &Context, session: &Session) -> MemoryDir {
    MemoryDir::of(&ctx.paths, &ctx.cwd, &session.channel)
}

/// Backs up the transcript, because the session ends or its context is about to be replaced by a summary.
pub(crate) fn back_up(ctx: &Context, session: &Session, why: BackupReason<'_>) -> Option<PendingBackup> {
    if session.leaves(Duty::Backups) {
        return None;
    }
    let place = place(ctx, session);
    let made = match backups::make(&ctx.store, &place, session, why, ctx.now) {
        Err(e) if place.project.is_some() => {
            // The project is not writable: keep the backup's record in our own folder; the mirror has the bytes.
            ctx.fault("write to the project's memory", &e);
            let ours = MemoryDir::without_project(&ctx.paths, &ctx.cwd, &session.channel);
            backups::make(&ctx.store, &ours, session, why, ctx.now)
        }
        other => other,
    };
    let made = made.unwrap_or_else(|e| {
        ctx.fault("back up the transcript", &e);
        None
    })?;
    // The user saved everything by hand already, so nobody has to look at this backup.
    if saved::covers(&ctx.store, session)
        && let Err(e) = backups::settle(&place, "saved", |p| p.path == made.path)
    {
        ctx.fault("settle a backup", &e);
    }
    Some(made)
}

/// Settles the backups of a session whose work a loaded handoff carries on.
pub(crate) fn settle_carried(ctx: &Context, session: &Session) {
    let place = place(ctx, session);
    if let Err(e) = backups::settle(&place, "processed", |p| p.session.as_ref() == Some(&session.id)) {
        ctx.fault("settle a backup", &e);
    }
}

/// The path to show to the agent. Hides file names that could carry instructions.
fn spoken(backup: &PendingBackup, place: &MemoryDir) -> String {
    if place.project.is_none() || backup.has_plain_name(place) {
        backup.path.display().to_string()
    } else {
        format!("the path in {}", backups::marker_path(place).display())
    }
}

/// Returns the texts for the agent and the user about pending backups when a session starts. `carried` is the session
/// whose handoff was loaded; its backups have nothing to add.
pub(crate) fn waiting(
    ctx: &Context,
    session: &Session,
    source: &StartSource<'_>,
    carried: Option<&SessionId>,
) -> Option<(String, String)> {
    let place = place(ctx, session);
    // A resumed conversation already has everything that its backup would restore.
    let resumed = matches!(source, StartSource::Resume | StartSource::Fork);
    let settled = backups::settle(&place, "processed", |p| {
        p.session.is_some()
            && (p.session.as_ref() == carried || (resumed && p.session.as_ref() == Some(&session.id)))
    });
    if let Err(e) = settled {
        ctx.fault("settle a backup", &e);
    }
    if session.leaves(Duty::Backups) {
        return None;
    }
    let pending = backups::pending(&ctx.store, &place);
    let newest = pending.first()?;
    // Do not remind projects that have no memory folder; `baton memory pending` lists their backups.
    if place.project.is_none() || session.headless || !ctx.config.memory.announce {
        return None;
    }
    let path = spoken(newest, &place);
    let mut context = format!(
        "SESSION_BACKUP_PENDING: A previous session backup exists at {path}\n\
         User should run /resume-latest to restore context, or /discard-backup to discard."
    );
    let count = pending.len();
    if count == 1 {
        let message = "baton: a backup of an earlier session is pending; /resume-latest restores it, \
                       /discard-backup drops it";
        return Some((context, message.to_owned()));
    }
    let _ = write!(
        context,
        "\n{count} backups are pending; this is the newest. Either command settles the older ones too; \
         /discard-backup all deletes every one."
    );
    let message = format!(
        "baton: {count} backups of earlier sessions are pending; /resume-latest restores the newest, \
         /discard-backup drops it, /discard-backup all drops every one"
    );
    Some((context, message))
}
