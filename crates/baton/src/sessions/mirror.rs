//! Copies what the transcript grew by into its mirror, at every hook. Failures go to the log and never disturb the
//! agent.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, SystemTime};

use baton_core::event::{Event, HookEvent};
use baton_core::session::Session;

use crate::sessions::context::Context;
use crate::store::mirror::{CATCH_UP, CopyProgress, MirrorError, MirrorOrigin, PER_HOOK, take};
use crate::sys::fs;

/// How much of a replaced file to compare before treating it as the same conversation.
const COMPARED: u64 = 8 << 20;
/// The same at the end of a session, when there is time.
const COMPARED_AT_END: u64 = 128 << 20;
/// The Stop before has already copied a subagent's file that has not changed for this long.
const RECENT: Duration = Duration::from_mins(10);
/// How many subagents one Stop looks at; the end of the session looks at all of them.
const SUBAGENTS: usize = 64;

fn origin(session: &Session) -> Option<MirrorOrigin<'_>> {
    let transcript = Path::new(session.transcript.as_deref()?);
    Some(MirrorOrigin { session: &session.id, provider: &session.provider, transcript, cwd: &session.cwd })
}

fn note(ctx: &Context, took: Result<CopyProgress, MirrorError>) {
    if let Err(e) = took {
        ctx.fault("mirror the transcript", &e);
    }
}

/// Copies what was appended to the transcript, which has `len` bytes. `replaced` means that another file took the transcript's place.
pub(crate) fn grown(ctx: &Context, session: &Session, file: &File, len: u64, replaced: bool) {
    if !ctx.config.mirror.enabled {
        return;
    }
    let Some(origin) = origin(session) else { return };
    let mirror = ctx.store.mirror();
    if replaced {
        note(ctx, mirror.compare(&origin, file, COMPARED));
    }
    note(ctx, mirror.take_of(&origin, file, len, PER_HOOK));
}

/// Copies what subagents wrote during the turn that has ended.
pub(crate) fn turn_ended(ctx: &Context, session: &Session) {
    if !ctx.config.mirror.enabled {
        return;
    }
    let Some(origin) = origin(session) else { return };
    // Use the hook's own time: the library's clock costs a Stop more than the rest of this function.
    let since = SystemTime::from(ctx.now).checked_sub(RECENT);
    for path in take::subagents(origin.transcript, since).iter().take(SUBAGENTS) {
        note(ctx, ctx.store.mirror().take_file(&origin, path, PER_HOOK));
    }
}

/// Copies a subagent's own file and touches nothing else of the session.
pub(crate) fn subagent(ctx: &Context, event: &HookEvent<'_>) {
    let Some(transcript) = event.transcript.as_deref().map(Path::new) else { return };
    if !ctx.config.mirror.enabled || !transcript.is_absolute() {
        return;
    }
    let path = match (&event.event, event.subagent.as_deref()) {
        (Event::SubagentStop { transcript: Some(path) }, _) => Path::new(&**path).to_owned(),
        (_, Some(id)) => take::subagent_path(transcript, &format!("agent-{id}")),
        _ => return,
    };
    let cwd = ctx.cwd.display().to_string();
    let origin = MirrorOrigin { session: &event.session, provider: ctx.provider.name, transcript, cwd: &cwd };
    note(ctx, ctx.store.mirror().take_file(&origin, &path, PER_HOOK));
}

/// Copies everything left behind when a session begins, ends or is about to be compacted.
pub(crate) fn everything(ctx: &Context, session: &Session) {
    if !ctx.config.mirror.enabled {
        return;
    }
    let Some(origin) = origin(session) else { return };
    note(ctx, ctx.store.mirror().catch_up(&origin, CATCH_UP));
}

/// Copies everything once more at the end of a session, and compares the middle of the file too.
pub(crate) fn ended(ctx: &Context, session: &Session) {
    if !ctx.config.mirror.enabled {
        return;
    }
    let Some(origin) = origin(session) else { return };
    let mirror = ctx.store.mirror();
    if let Ok(file) = fs::open_read(origin.transcript) {
        note(ctx, mirror.compare(&origin, &file, COMPARED_AT_END));
    }
    note(ctx, mirror.catch_up(&origin, CATCH_UP));
}
