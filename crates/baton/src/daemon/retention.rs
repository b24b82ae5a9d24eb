//! Housekeeping: what nobody has asked for in a long time goes, day by day. Handoffs that are still wanted, agents that
//! live and mail that waits stay however old they are.

use std::path::Path;
use std::time::{Duration, SystemTime};

use baton_core::ids::SessionId;
use serde_json::json;

use super::Daemon;
use crate::store::Store;
use crate::store::mirror::{MirrorError, Origin};
use crate::sys::process;

/// How often it looks.
pub const EVERY: Duration = Duration::from_hours(24);

pub fn run(daemon: &Daemon) {
    let days = daemon.config().retention_days;
    let Some(before) = SystemTime::now().checked_sub(Duration::from_hours(24 * days)) else { return };
    rest_mirrors(daemon);
    let removed = clean(daemon, before);
    if removed > 0 {
        daemon.log("retention", json!({ "removed": removed, "older_than_days": days }));
    }
}

/// Mirrors of conversations that have been over for a day are completed and compressed.
fn rest_mirrors(daemon: &Daemon) {
    let (store, mirror) = (&daemon.store, daemon.store.mirror());
    let Some(yesterday) = SystemTime::now().checked_sub(Duration::from_hours(24)) else { return };
    for id in mirror.sessions() {
        if daemon.stop.said() {
            return;
        }
        let record = store.state.join("sessions").join(format!("{id}.json"));
        let quiet = std::fs::metadata(&record).and_then(|m| m.modified()).map_or(true, |at| at < yesterday);
        let session = store.sessions().get(&id).ok().flatten();
        let over =
            session.is_none_or(|s| s.ended.is_some() || !s.process.as_ref().is_some_and(process::is_alive));
        if quiet
            && over
            && let Err(e) = rest(store, &id, &mut |_| !daemon.stop.said())
        {
            daemon.fault("compress a mirror", &format!("{id}: {e}"));
        }
    }
}

fn rest(store: &Store, id: &SessionId, told: &mut dyn FnMut(u64) -> bool) -> Result<(), MirrorError> {
    let mirror = store.mirror();
    let Some(found) = mirror.of(id)? else { return Ok(()) };
    let transcript = Path::new(&found.meta.transcript);
    // One that rests is complete, and what the client keeps may be shorter by now.
    if found.newest().is_some_and(|(_, generation)| generation.live) && transcript.is_file() {
        let meta = &found.meta;
        let origin = Origin { session: id, provider: &meta.provider, transcript, cwd: &meta.cwd };
        mirror.catch_up(&origin, Duration::from_mins(1))?;
    }
    mirror.rest(id, told)?;
    Ok(())
}

fn clean(daemon: &Daemon, before: SystemTime) -> usize {
    let state = &daemon.store.state;
    let mut removed = old_files(&state.join("log"), before, |name| is(name, "jsonl"));
    removed += old_files(&state.join("notices"), before, |_| true);
    removed += old_files(&state.join("rotations"), before, |name| is(name, "json"));
    removed += old_files(&state.join("requests"), before, |name| is(name, "md"));
    for agent in daemon.store.mail().boxes() {
        let home = state.join("mail").join(agent.as_str());
        for place in ["cur", "keys", "expired", "failed"] {
            removed += old_files(&home.join(place), before, |_| true);
        }
    }
    removed += records(&daemon.store, before);
    removed + archive(daemon, before)
}

fn is(name: &str, extension: &str) -> bool {
    Path::new(name).extension().is_some_and(|e| e == extension)
}

/// Removes files of `dir` that were last changed before then and that `ours` knows.
fn old_files(dir: &Path, before: SystemTime, ours: impl Fn(&str) -> bool) -> usize {
    let mut removed = 0;
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let old = entry.metadata().is_ok_and(|m| m.is_file() && m.modified().is_ok_and(|at| at < before));
        if old && entry.file_name().to_str().is_some_and(&ours) && std::fs::remove_file(entry.path()).is_ok()
        {
            removed += 1;
        }
    }
    removed
}

/// Sessions and agents that are over. An agent's record holds its name, so it goes last.
fn records(store: &Store, before: SystemTime) -> usize {
    let mut removed = 0;
    let old = |path: &Path| std::fs::metadata(path).and_then(|m| m.modified()).is_ok_and(|at| at < before);
    let sessions = store.state.join("sessions");
    for session in store.sessions().all() {
        let path = sessions.join(format!("{}.json", session.id));
        let over = session.ended.is_some() || !session.process.as_ref().is_some_and(process::is_alive);
        if !over || !old(&path) || store.agents().is_live(&session.agent) {
            continue;
        }
        removed += usize::from(std::fs::remove_file(&path).is_ok());
        for beside in ["gauge", "lock"] {
            let _ = std::fs::remove_file(sessions.join(format!("{}.{beside}", session.id)));
        }
    }
    for agent in store.agents().all() {
        let path = store.state.join("agents").join(format!("{}.json", agent.id));
        let waits = store.mail().waiting(&agent.id) > 0 || agent.rotation.is_some();
        if old(&path) && !waits && !store.agents().is_live(&agent.id) {
            removed += usize::from(std::fs::remove_file(&path).is_ok());
            let _ = std::fs::remove_file(path.with_extension("lock"));
        }
    }
    removed
}

/// Documents that no manifest names any more.
fn archive(daemon: &Daemon, before: SystemTime) -> usize {
    let config = daemon.config();
    let handoffs = daemon.store.handoffs(&config);
    let Ok(channels) = handoffs.channels() else { return 0 };
    let mut wanted = std::collections::HashSet::new();
    for channel in channels {
        // What a damaged manifest names is not known, so nothing of the archive is old.
        let Ok(manifest) = handoffs.manifest(&channel) else { return 0 };
        wanted.extend(manifest.entries().map(|e| format!("{}.md", e.id)));
    }
    old_files(&config.handoff.dir.join("archive"), before, |name| {
        name.starts_with("HO-") && is(name, "md") && !wanted.contains(name)
    })
}
