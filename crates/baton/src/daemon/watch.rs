//! Waits for files to change, for processes to end and for moments to come, and does what follows from them.

use std::collections::{BTreeMap, HashSet};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use baton_core::ids::AgentId;
use baton_core::process::Process;
use baton_core::rotation::Step;
use jiff::Timestamp;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;

use super::rt::{First, first};
use super::{Daemon, notices, retention};
use crate::store::rotations;
use crate::sys::changes::Changes;
use crate::sys::handle::Handle;
use crate::sys::process;
use crate::sys::ready::readable;

/// Changes that come together are looked at together.
const TOGETHER: Duration = Duration::from_millis(50);
/// Where the system tells neither of changes nor of ends, or we may not watch more of them.
const FROM_TIME_TO_TIME: Duration = Duration::from_secs(5);
/// A folder that was moved away with everything in it tells nobody.
const STILL_HERE: Duration = Duration::from_mins(1);
/// Processes whose end is waited for at once; more are asked from time to time. Each costs a descriptor.
const MOST: usize = 256;

pub async fn watch(daemon: Arc<Daemon>) {
    let opened = daemon.roster().changes().and_then(readable);
    let changes = match opened {
        Ok(changes) => changes,
        Err(e) => return daemon.fault("watch the records", &e),
    };
    let (tell, mut ended) = mpsc::channel(64);
    let mut watched = HashSet::new();
    let mut due: BTreeMap<AgentId, Timestamp> = BTreeMap::new();
    let mut keep_house = tokio::time::Instant::now();
    // What happened while nobody watched.
    let mut fresh = true;
    let mut waited = false;
    loop {
        let seen = {
            let mut roster = daemon.roster();
            roster.refresh();
            roster.take_seen()
        };
        if (seen.place || std::mem::take(&mut waited)) && !daemon.address.is_ours() {
            // Nobody can reach us any more, and a successor may have been started in our place.
            return daemon.stop.say();
        }
        if seen.log {
            daemon.grown.send_replace(());
        }
        let now = Timestamp::now();
        for id in seen.agents {
            // Also where a later look was planned: what it waited for may have come.
            due.insert(id, now);
        }
        let rotations = if std::mem::take(&mut fresh) { recent_rotations(&daemon) } else { seen.rotations };
        let ready: Vec<AgentId> =
            due.iter().filter(|(_, at)| **at <= now).map(|(id, _)| id.clone()).collect();
        due.retain(|_, at| *at > now);
        if !ready.is_empty() || !rotations.is_empty() {
            let looker = Arc::clone(&daemon);
            let again = tokio::task::spawn_blocking(move || {
                for id in &rotations {
                    notices::look_at_rotation(&looker, id);
                }
                let look = |id: AgentId| notices::look(&looker, &id).map(|at| (id, at));
                ready.into_iter().filter_map(look).collect::<Vec<_>>()
            });
            due.extend(again.await.unwrap_or_default());
        }
        let unwatched = watch_processes(&daemon, &mut watched, &tell);
        if tokio::time::Instant::now() >= keep_house {
            keep_house += retention::EVERY;
            let keeper = Arc::clone(&daemon);
            tokio::task::spawn_blocking(move || retention::run(&keeper));
        }
        let mut wait = keep_house.saturating_duration_since(tokio::time::Instant::now()).min(STILL_HERE);
        if unwatched || !Changes::TOLD {
            wait = wait.min(FROM_TIME_TO_TIME);
        }
        if let Some(next) = due.values().min() {
            let left = Duration::try_from(next.duration_since(Timestamp::now())).unwrap_or_default();
            wait = wait.min(left.max(TOGETHER));
        }
        let told = async {
            if let Ok(mut ready) = changes.readable().await {
                ready.clear_ready();
            }
        };
        match first(first(told, ended.recv()), first(daemon.stop.heard(), tokio::time::sleep(wait))).await {
            First::Left(First::Left(())) => tokio::time::sleep(TOGETHER).await,
            First::Left(First::Right(gone)) => {
                if let Some(gone) = gone {
                    watched.remove(&gone);
                    daemon.roster().ended(&gone);
                }
            }
            First::Right(First::Left(())) => return,
            First::Right(First::Right(())) => {
                waited = true;
                if unwatched {
                    daemon.roster().check_alive();
                }
            }
        }
    }
}

/// Failures that came while no daemon ran.
fn recent_rotations(daemon: &Daemon) -> Vec<String> {
    let failed = rotations::which(&daemon.store.state, |r| r.step == Step::Failed);
    failed.into_iter().map(|r| r.id).collect()
}

/// Waits for the end of each living process that is not waited for yet. `true` if some are not.
fn watch_processes(
    daemon: &Arc<Daemon>,
    watched: &mut HashSet<Process>,
    tell: &mpsc::Sender<Process>,
) -> bool {
    // Of ours that have ended and were told so, none is watched any more.
    let new: Vec<Process> = daemon.roster().alive().difference(watched).cloned().collect();
    let mut left_out = false;
    for process in new {
        if watched.len() >= MOST {
            return true;
        }
        match handle(&process) {
            Some(handle) => {
                watched.insert(process.clone());
                let tell = tell.clone();
                tokio::spawn(async move {
                    let _ = handle.readable().await;
                    let _ = tell.send(process).await;
                });
            }
            None if process::is_alive(&process) => left_out = true,
            None => {
                daemon.roster().ended(&process);
            }
        }
    }
    left_out
}

/// A living process as something that is readable when it has ended.
fn handle(process: &Process) -> Option<AsyncFd<OwnedFd>> {
    let pid = i32::try_from(process.pid).ok().and_then(rustix::process::Pid::from_raw)?;
    let handle = Handle::open(pid).ok()??;
    // Checked after the handle is ours: from here on it means one process.
    if !process::is_alive(process) {
        return None;
    }
    let fd = handle.fd()?.try_clone_to_owned().ok()?;
    readable(fd).ok()
}
