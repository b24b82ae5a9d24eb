//! Writes what a reading changes, in a thread of its own: the gauge, and the files that other people's scripts read. Any
//! of it waits for the disk while somebody syncs (measured: up to 20 ms), and nobody's answer should wait behind that.
//!
//! Until it is written the roster shows what was told. A daemon that is killed in between loses a reading, which the
//! next one replaces. A gauge that a hook has changed meanwhile stays as it is: the hook saw more than the script.

use std::collections::{HashMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_core::ids::SessionId;
use baton_core::session::Gauge;

use super::Daemon;
use crate::hot::measure::News;
use crate::store::published;

/// What is told within this is written together: waking a thread for each costs more than the answer.
const TOGETHER: Duration = Duration::from_millis(10);

/// What was told and is not written yet: of each session the newest.
#[derive(Debug, Default)]
pub struct Unwritten(HashMap<SessionId, Told>);

#[derive(Debug, Clone)]
struct Told {
    gauge: Gauge,
    /// What its file said then.
    before: Gauge,
    /// The status of all sessions' one file is news.
    status: bool,
    /// So is the session's percentage.
    percentage: bool,
}

impl Unwritten {
    pub fn gauge(&self, session: &SessionId) -> Option<&Gauge> {
        self.0.get(session).map(|told| &told.gauge)
    }

    /// `true` if nothing of this session waited before.
    pub fn put(&mut self, session: &SessionId, before: &Gauge, gauge: &Gauge, news: News) -> bool {
        let (status, percentage) = (news.status, news.percentage.is_some());
        if let Some(told) = self.0.get_mut(session) {
            gauge.clone_into(&mut told.gauge);
            told.status |= status;
            told.percentage |= percentage;
            return false;
        }
        let (before, gauge) = (before.clone(), gauge.clone());
        self.0.insert(session.clone(), Told { gauge, before, status, percentage });
        true
    }

    /// This much of it has been written. `true` if there is more by now.
    fn take(&mut self, session: &SessionId, written: &Gauge) -> bool {
        match self.0.get_mut(session) {
            Some(told) if told.gauge != *written => {
                written.clone_into(&mut told.before);
                true
            }
            _ => {
                self.0.remove(session);
                false
            }
        }
    }

    /// It will not be written.
    pub fn drop(&mut self, session: &SessionId) {
        self.0.remove(session);
    }
}

/// Whose turn it is.
#[derive(Default)]
pub struct Keeper {
    due: Mutex<Due>,
    told: Condvar,
}

#[derive(Default)]
struct Due {
    sessions: VecDeque<SessionId>,
    /// Somebody waits for the first of them.
    waits: bool,
    /// Nothing more will come.
    over: bool,
}

impl Keeper {
    fn due(&self) -> MutexGuard<'_, Due> {
        // Nothing panics while it is held; it would still be whole.
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something of this session waits in the roster.
    pub fn tell(&self, session: SessionId) {
        let mut due = self.due();
        due.sessions.push_back(session);
        if std::mem::take(&mut due.waits) {
            self.told.notify_one();
        }
    }

    /// What is due is written, and no more.
    pub fn finish(&self) {
        self.due().over = true;
        self.told.notify_one();
    }

    fn next(&self) -> Option<SessionId> {
        let mut due = self.due();
        loop {
            if let Some(session) = due.sessions.pop_front() {
                return Some(session);
            }
            if due.over {
                return None;
            }
            due.waits = true;
            let heard = self.told.wait_while(due, |due| due.sessions.is_empty() && !due.over);
            drop(heard.unwrap_or_else(PoisonError::into_inner));
            std::thread::sleep(TOGETHER);
            due = self.due();
        }
    }
}

/// Writes until it is told to finish and nothing is left.
pub fn run(daemon: &Daemon) {
    while let Some(session) = daemon.keeper.next() {
        if keep(daemon, &session) {
            daemon.keeper.tell(session);
        }
    }
}

/// Writes what waits of this session. `true` if there is more by now.
pub fn keep(daemon: &Daemon, session: &SessionId) -> bool {
    let Some(told) = daemon.roster().unwritten.0.get(session).cloned() else { return false };
    let open = daemon.store.sessions().open_gauge(session);
    if open.before != told.before {
        daemon.roster().forget(session);
        return false;
    }
    if let Err(e) = open.keep(&told.gauge) {
        daemon.fault("store a reading", &e);
        daemon.roster().forget(session);
        return false;
    }
    publish(daemon, session, &told);
    daemon.roster().unwritten.take(session, &told.gauge)
}

fn publish(daemon: &Daemon, session: &SessionId, told: &Told) {
    let Told { gauge, status, percentage, .. } = told;
    if *status
        && !gauge.status.is_empty()
        && let Err(e) = daemon.store.published().context_status(&gauge.status)
    {
        daemon.fault("publish the context status", &e);
    }
    // Of a session that is over the file has been removed.
    let goes_on = || daemon.store.sessions().get(session).ok().flatten().is_some_and(|s| s.ended.is_none());
    if *percentage
        && let Some(percentage) = gauge.percentage
        && !published::percentage_over(session, percentage)
        && goes_on()
        && let Err(e) = published::percentage(session, percentage)
    {
        daemon.fault("publish the percentage", &e);
    }
}
