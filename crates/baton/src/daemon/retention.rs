//! Housekeeping: once a day, removes what has not changed for a long time. Handoffs in a manifest, live agents and
//! waiting mail stay, however old they are.

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, SystemTime};

use baton_core::handoff::Status;
use baton_core::ids::SessionId;
use baton_core::session::Session;
use serde_json::json;

use crate::daemon::Daemon;
use crate::mail::maildir::Mail;
use crate::store::Store;
use crate::store::mirror::{MirrorError, MirrorOrigin};
use crate::sys::process;

/// How often it runs.
pub(crate) const INTERVAL: Duration = Duration::from_hours(24);

pub(crate) fn run(daemon: &Daemon) {
    let days = daemon.config().retention_days;
    let Some(before) = SystemTime::now().checked_sub(Duration::from_hours(24 * days)) else { return };
    compress_mirrors(daemon);
    let removed = clean(daemon, before);
    if removed > 0 {
        daemon.log("retention", json!({ "removed": removed, "older_than_days": days }));
    }
}

/// Completes and compresses the mirrors of sessions that ended more than a day ago.
fn compress_mirrors(daemon: &Daemon) {
    let (store, mirror) = (&daemon.store, daemon.store.mirror());
    let Some(yesterday) = SystemTime::now().checked_sub(Duration::from_hours(24)) else { return };
    for id in mirror.sessions() {
        if daemon.shutdown.is_requested() {
            return;
        }
        let record = store.sessions().path(&id);
        let quiet = std::fs::metadata(&record).and_then(|m| m.modified()).map_or(true, |at| at < yesterday);
        let over = match store.sessions().get(&id) {
            Ok(Some(session)) => is_over(&session),
            Ok(None) => true,
            // An unreadable session may be live.
            Err(_) => false,
        };
        if quiet
            && over
            && let Err(e) = compress(store, &id, &mut |_| !daemon.shutdown.is_requested())
        {
            daemon.fault("compress a mirror", &format!("{id}: {e}"));
        }
    }
}

fn is_over(session: &Session) -> bool {
    session.ended.is_some() || !session.process.as_ref().is_some_and(process::is_alive)
}

/// `go_on` is polled for whether to continue.
fn compress(store: &Store, id: &SessionId, go_on: &mut dyn FnMut(u64) -> bool) -> Result<(), MirrorError> {
    let mirror = store.mirror();
    let Some(found) = mirror.of(id)? else { return Ok(()) };
    let transcript = Path::new(&found.meta.transcript);
    // A compressed mirror is complete, and the client may have shortened the transcript since.
    if found.newest().is_some_and(|(_, generation)| generation.live) && transcript.is_file() {
        let meta = &found.meta;
        let origin = MirrorOrigin { session: id, provider: &meta.provider, transcript, cwd: &meta.cwd };
        mirror.catch_up(&origin, Duration::from_mins(1))?;
    }
    mirror.rest(id, go_on)?;
    Ok(())
}

fn clean(daemon: &Daemon, before: SystemTime) -> usize {
    let (store, mail) = (&daemon.store, Mail::of(&daemon.store));
    let mut removed = remove_old_files(store.log().folder(), before, |name| has_extension(name, "jsonl"));
    removed += remove_old_files(&store.state.join("notices"), before, |_| true);
    removed += remove_old_files(store.rotations().folder(), before, |name| has_extension(name, "json"));
    removed += remove_old_files(store.requests().folder(), before, |name| has_extension(name, "md"));
    // Both are recreated if somebody still needs them.
    for place in ["ledgers", "files"] {
        let place = store.state.join(place);
        removed += remove_old_files(&place, before, |name| has_extension(name, "json"));
    }
    removed += remove_old_approvals(daemon, before);
    for agent in mail.boxes() {
        for place in ["cur", "keys", "expired", "failed"] {
            removed += remove_old_files(&mail.dir(&agent, place), before, |_| true);
        }
    }
    removed += remove_old_records(&daemon.store, before);
    removed + remove_old_handoffs(daemon, before)
}

/// Closed requests, and drafts that were never published.
fn remove_old_approvals(daemon: &Daemon, before: SystemTime) -> usize {
    daemon.store.approvals().remove_older(before).unwrap_or_else(|e| {
        daemon.fault("remove old permission requests", &e);
        0
    })
}

fn has_extension(name: &str, extension: &str) -> bool {
    Path::new(name).extension().is_some_and(|e| e == extension)
}

/// Removes files of `dir` last changed before `before` whose names match `ours`.
fn remove_old_files(dir: &Path, before: SystemTime, ours: impl Fn(&str) -> bool) -> usize {
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

/// Removes the records of ended sessions and agents. An agent's record reserves its name, so it goes last.
fn remove_old_records(store: &Store, before: SystemTime) -> usize {
    let mut removed = 0;
    let old = |path: &Path| std::fs::metadata(path).and_then(|m| m.modified()).is_ok_and(|at| at < before);
    let sessions = store.sessions();
    for session in sessions.all() {
        let path = sessions.path(&session.id);
        if !is_over(&session) || !old(&path) || store.is_running(&session.agent) {
            continue;
        }
        removed += usize::from(std::fs::remove_file(&path).is_ok());
        for beside in ["gauge", "lock"] {
            let _ = std::fs::remove_file(path.with_extension(beside));
        }
    }
    for agent in store.agents().all() {
        let path = store.agents().path(&agent.id);
        let waits = Mail::of(store).may_wait(&agent.id) || agent.rotation.is_some();
        if old(&path) && !waits && !store.is_running(&agent.id) {
            removed += usize::from(std::fs::remove_file(&path).is_ok());
            let _ = std::fs::remove_file(path.with_extension("lock"));
        }
    }
    removed
}

/// Removes archived documents and ledgers that no manifest and no continuing session refers to.
fn remove_old_handoffs(daemon: &Daemon, before: SystemTime) -> usize {
    let config = daemon.config();
    let handoffs = daemon.store.handoffs(&config);
    let kept = |e: &dyn std::fmt::Display| {
        daemon.fault("remove old handoffs", e);
        0
    };
    let channels = match handoffs.channels() {
        Ok(channels) => channels,
        Err(e) => return kept(&e),
    };
    let (mut wanted, mut live) = (HashSet::new(), Vec::new());
    for channel in channels {
        let manifest = match handoffs.manifest(&channel) {
            Ok(manifest) => manifest,
            // It may name any of the documents, so remove none.
            Err(e) => return kept(&e),
        };
        wanted.extend(manifest.entries().map(|e| e.id.to_string()));
        live.extend(manifest.entries().filter(|e| e.status == Status::Active).map(|e| e.id.clone()));
    }
    // An unreadable session may continue any of them.
    let sessions = match daemon.store.sessions().every() {
        Ok(sessions) => sessions,
        Err(e) => return kept(&e),
    };
    let going_on = sessions.iter().filter(|session| !is_over(session));
    live.extend(going_on.filter_map(|session| session.continues.clone()));
    // A chain that somebody may continue keeps all its hops.
    for id in &live {
        wanted.insert(id.to_string());
        match handoffs.carried(id) {
            Ok(carried) => {
                let hops = carried.into_iter().flat_map(|carried| carried.ledger.hops);
                wanted.extend(hops.map(|hop| hop.handoff));
            }
            // An unreadable one may name any of them.
            Err(e) => return kept(&e),
        }
    }
    remove_old_files(&config.handoff.dir.join("archive"), before, |name| {
        let stem = name.strip_suffix(".md").or_else(|| name.strip_suffix(".json"));
        stem.is_some_and(|stem| stem.starts_with("HO-") && !wanted.contains(stem))
    })
}
