//! Writes the files that other people's scripts read, beside the event loop: a file that is replaced leaves one to be
//! removed, and that waits for the disk while anybody syncs (measured: up to 10 ms, with everybody else behind it).
//!
//! A gauge is kept first and published from what its file says then, so the newest counts whoever wrote it. A daemon
//! that is killed in between leaves these files as they were, until the next percent or the next level.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton_core::ids::SessionId;

use super::Daemon;
use crate::hot::measure::News;
use crate::store::published;

/// What is to be written. Many changes of one file become one.
#[derive(Default)]
pub struct Publisher(Mutex<Due>);

#[derive(Default)]
struct Due {
    /// The session whose status was the last to change: there is one such file for all of them.
    status: Option<SessionId>,
    percentages: BTreeSet<SessionId>,
    /// The one whose percentage is being written.
    now: Option<SessionId>,
    /// Somebody is at work.
    busy: bool,
}

impl Publisher {
    fn due(&self) -> MutexGuard<'_, Due> {
        // Nothing panics while it is held; it would still be whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sees to it that what is new will be read by others. Replaces and removes no file itself.
pub fn publish(daemon: &Arc<Daemon>, session: &SessionId, news: News) {
    if !news.status && news.percentage.is_none() {
        return;
    }
    let mut due = daemon.publisher.due();
    if news.status {
        due.status = Some(session.clone());
    }
    if let Some(percentage) = news.percentage {
        // Written over behind the back of whoever replaces it, it would be the older one that stays.
        let waits = due.now.as_ref() == Some(session) || due.percentages.contains(session);
        if waits || !published::percentage_over(session, percentage) {
            due.percentages.insert(session.clone());
        }
    }
    let work = due.status.is_some() || !due.percentages.is_empty();
    if work && !std::mem::replace(&mut due.busy, true) {
        let daemon = Arc::clone(daemon);
        tokio::task::spawn_blocking(move || write(&daemon));
    }
}

/// Writes until nothing is left.
pub fn write(daemon: &Daemon) {
    loop {
        let mut due = daemon.publisher.due();
        due.now = None;
        if let Some(session) = due.status.take() {
            drop(due);
            let status = daemon.store.sessions().gauge(&session).status;
            // One that could not be kept says nothing.
            if !status.is_empty()
                && let Err(e) = daemon.store.published().context_status(&status)
            {
                daemon.fault("publish the context status", &e);
            }
        } else if let Some(session) = due.percentages.pop_first() {
            due.now = Some(session.clone());
            drop(due);
            write_percentage(daemon, &session);
        } else {
            due.busy = false;
            return;
        }
    }
}

fn write_percentage(daemon: &Daemon, session: &SessionId) {
    let sessions = daemon.store.sessions();
    // Of one that is over the file has been removed.
    let goes_on = sessions.get(session).ok().flatten().is_some_and(|s| s.ended.is_none());
    if goes_on
        && let Some(percentage) = sessions.gauge(session).percentage
        && let Err(e) = published::percentage(session, percentage)
    {
        daemon.fault("publish the percentage", &e);
    }
}
