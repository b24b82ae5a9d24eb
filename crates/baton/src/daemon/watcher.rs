//! Waits for changed files, ended processes and deadlines, and acts on them.

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

use crate::daemon::{Daemon, notices, retention};
use crate::mail::remind;
use crate::sys::handle::Handle;
use crate::sys::process;
use crate::sys::ready::readable;

/// The shortest wait for a due notice, so that several that are due together are handled together.
const SHORTEST_WAIT: Duration = Duration::from_millis(50);
/// How often to poll where the system does not report changed files or ended processes.
const POLL: Duration = Duration::from_secs(5);
/// How often to check for our own socket: moving away its folder causes no event.
const LONGEST_WAIT: Duration = Duration::from_mins(1);
/// How many processes to watch. Each takes a descriptor; the rest are polled.
const MAX_PROCESSES: usize = 256;

pub(crate) async fn run(daemon: Arc<Daemon>) {
    let opened = daemon.roster().wakeups();
    let wakeups = match opened {
        Ok(wakeups) => wakeups,
        Err(e) => return daemon.fault("watch the records", &e),
    };
    let wakes = daemon.roster().wakes();
    let (ended, mut ended_processes) = mpsc::channel(64);
    let mut watched = HashSet::new();
    let mut due: BTreeMap<AgentId, Timestamp> = BTreeMap::new();
    let mut next_reminder: Option<Timestamp> = None;
    let mut next_retention = tokio::time::Instant::now();
    let mut waited_in_vain = false;
    loop {
        let changed = {
            let mut roster = daemon.roster();
            roster.refresh();
            roster.take_changes()
        };
        if (changed.run_dir || std::mem::take(&mut waited_in_vain)) && !daemon.socket.is_ours() {
            // Nobody can reach us any more, and a successor may have started.
            return daemon.shutdown.request();
        }
        if changed.run_dir {
            // `baton fleet join` creates a file there and removes it.
            daemon.attend_fleet();
        }
        if !changed.shown.is_empty() && daemon.shown.receiver_count() > 0 {
            let shown: Vec<AgentId> = changed.shown.into_iter().collect();
            let _ = daemon.shown.send(shown.into());
        }
        if changed.log {
            daemon.log_grew.send_replace(());
        }
        let now = Timestamp::now();
        for id in changed.agents {
            // Even if a later check was planned: what it waits for may have happened.
            due.insert(id, now);
        }
        let rotations = if changed.everything { failed_rotations(&daemon) } else { changed.rotations };
        let ready: Vec<AgentId> =
            due.iter().filter(|(_, at)| **at <= now).map(|(id, _)| id.clone()).collect();
        due.retain(|_, at| *at > now);
        if !ready.is_empty() || !rotations.is_empty() || changed.approvals {
            let noticer = Arc::clone(&daemon);
            let later = tokio::task::spawn_blocking(move || {
                if changed.approvals {
                    notices::check_approvals(&noticer);
                }
                for id in &rotations {
                    notices::check_rotation(&noticer, id);
                }
                let check = |id: AgentId| notices::check_agent(&noticer, &id).map(|at| (id, at));
                ready.into_iter().filter_map(check).collect::<Vec<_>>()
            });
            due.extend(later.await.unwrap_or_default());
        }
        if changed.reminders || next_reminder.is_some_and(|at| at <= now) {
            let sender = Arc::clone(&daemon);
            let fired =
                tokio::task::spawn_blocking(move || remind::fire(&sender.store, None, Timestamp::now()));
            next_reminder = fired.await.unwrap_or_default();
        }
        let some_unwatched = watch_processes(&daemon, &mut watched, &ended);
        if tokio::time::Instant::now() >= next_retention {
            next_retention += retention::INTERVAL;
            let daemon = Arc::clone(&daemon);
            tokio::task::spawn_blocking(move || retention::run(&daemon));
        }
        let mut wait =
            next_retention.saturating_duration_since(tokio::time::Instant::now()).min(LONGEST_WAIT);
        if some_unwatched || !wakes {
            wait = wait.min(POLL);
        }
        if let Some(next) = due.values().copied().chain(next_reminder).min() {
            let left = Duration::try_from(next.duration_since(Timestamp::now())).unwrap_or_default();
            wait = wait.min(left.max(SHORTEST_WAIT));
        }
        tokio::select! {
            () = wakeups.next() => {}
            Some(process) = ended_processes.recv() => {
                watched.remove(&process);
                daemon.roster().process_ended(&process);
            }
            () = daemon.shutdown.requested() => return,
            () = tokio::time::sleep(wait) => {
                waited_in_vain = true;
                if some_unwatched {
                    daemon.roster().check_alive();
                }
            }
        }
    }
}

/// All rotations on record that failed: when the daemon starts, and when changes were lost.
fn failed_rotations(daemon: &Daemon) -> Vec<String> {
    let failed = daemon.store.rotations().which(|r| r.step == Step::Failed);
    failed.into_iter().map(|r| r.id).collect()
}

/// Watches each living process that is not watched yet. `true` if some must be polled.
fn watch_processes(
    daemon: &Arc<Daemon>,
    watched: &mut HashSet<Process>,
    ended: &mpsc::Sender<Process>,
) -> bool {
    let new: Vec<Process> = daemon.roster().alive().difference(watched).cloned().collect();
    let mut some_unwatched = false;
    for process in new {
        if watched.len() >= MAX_PROCESSES {
            return true;
        }
        match end_of(&process) {
            Some(end) => {
                watched.insert(process.clone());
                let ended = ended.clone();
                tokio::spawn(async move {
                    let _ = end.readable().await;
                    let _ = ended.send(process).await;
                });
            }
            None if process::is_alive(&process) => some_unwatched = true,
            None => daemon.roster().process_ended(&process),
        }
    }
    some_unwatched
}

/// A descriptor that becomes readable when a living process ends.
fn end_of(process: &Process) -> Option<AsyncFd<OwnedFd>> {
    let pid = i32::try_from(process.pid).ok().and_then(rustix::process::Pid::from_raw)?;
    let handle = Handle::open(pid).ok()??;
    // Check after opening the handle: from here on it refers to this very process.
    if !process::is_alive(process) {
        return None;
    }
    let fd = handle.fd()?.try_clone_to_owned().ok()?;
    readable(fd).ok()
}
