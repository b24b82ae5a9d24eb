//! Keeps what the conversation says: each hook takes what the transcript grew by. What goes wrong here is noted in
//! the log and costs the agent nothing.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, SystemTime};

use baton_core::event::{Event, HookEvent};
use baton_core::session::Session;

use super::scene::Scene;
use crate::store::mirror::{CATCH_UP, MirrorError, Origin, PER_HOOK, Took, take};
use crate::sys::fs;

/// How much of a file that was put in the place of another is compared before it counts as the same conversation.
const COMPARED: u64 = 8 << 20;
/// The same at the end of a session, when there is time.
const COMPARED_AT_END: u64 = 128 << 20;
/// A subagent's file that has not changed for so long was taken by the Stop before.
const RECENT: Duration = Duration::from_mins(10);
/// So many subagents are looked at by one Stop; the end of the session looks at all.
const SUBAGENTS: usize = 64;

fn origin(session: &Session) -> Option<Origin<'_>> {
    let transcript = Path::new(session.transcript.as_deref()?);
    Some(Origin { session: &session.id, provider: &session.provider, transcript, cwd: &session.cwd })
}

fn note(scene: &Scene, took: Result<Took, MirrorError>) {
    if let Err(e) = took {
        scene.fault("mirror the transcript", &e);
    }
}

/// Takes what grew. `replaced`: the file is not the one that was there before.
pub fn grown(scene: &Scene, session: &Session, file: &File, replaced: bool) {
    if !scene.config.mirror.enabled {
        return;
    }
    let Some(origin) = origin(session) else { return };
    let mirror = scene.store.mirror();
    if replaced {
        note(scene, mirror.compare(&origin, file, COMPARED));
    }
    note(scene, mirror.take(&origin, file, PER_HOOK));
}

/// A turn has ended: subagents have written too.
pub fn turn_ended(scene: &Scene, session: &Session) {
    if !scene.config.mirror.enabled {
        return;
    }
    let Some(origin) = origin(session) else { return };
    // Not the library's clock: looking for it costs a Stop more than all the rest of this.
    let since = SystemTime::from(scene.now).checked_sub(RECENT);
    for path in take::subagents(origin.transcript, since).iter().take(SUBAGENTS) {
        note(scene, scene.store.mirror().take_file(&origin, path, PER_HOOK));
    }
}

/// A subagent did something: its own file is taken, nothing else of the session is touched.
pub fn subagent(scene: &Scene, event: &HookEvent<'_>) {
    let Some(transcript) = event.transcript.as_deref().map(Path::new) else { return };
    if !scene.config.mirror.enabled || !transcript.is_absolute() {
        return;
    }
    let path = match (&event.event, event.subagent.as_deref()) {
        (Event::SubagentStop { transcript: Some(path) }, _) => Path::new(&**path).to_owned(),
        (_, Some(id)) => take::subagent_path(transcript, &format!("agent-{id}")),
        _ => return,
    };
    let cwd = scene.cwd.display().to_string();
    let origin = Origin { session: &event.session, provider: scene.provider.name, transcript, cwd: &cwd };
    note(scene, scene.store.mirror().take_file(&origin, &path, PER_HOOK));
}

/// A session begins, ends or is about to be compacted: whatever was left behind is taken now.
pub fn everything(scene: &Scene, session: &Session) {
    if !scene.config.mirror.enabled {
        return;
    }
    let Some(origin) = origin(session) else { return };
    note(scene, scene.store.mirror().catch_up(&origin, CATCH_UP));
}

/// The session is over: once more everything, and nothing may differ in the middle either.
pub fn ended(scene: &Scene, session: &Session) {
    if !scene.config.mirror.enabled {
        return;
    }
    let Some(origin) = origin(session) else { return };
    let mirror = scene.store.mirror();
    if let Ok(file) = fs::open_read(origin.transcript) {
        note(scene, mirror.compare(&origin, &file, COMPARED_AT_END));
    }
    note(scene, mirror.catch_up(&origin, CATCH_UP));
}
