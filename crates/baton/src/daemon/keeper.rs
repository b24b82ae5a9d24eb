//! Writes what a reading changes, in a thread of its own: the gauge, and the files that other people's scripts read. Any
//! of it waits for the disk while somebody syncs (measured: up to 20 ms), and nobody's answer should wait behind that.
//!
//! Until it is written the roster shows what was told. A daemon that is killed in between loses a reading, which the
//! next one replaces.

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
    pub fn put(&mut self, session: &SessionId, gauge: &Gauge, news: News) -> bool {
        let (status, percentage) = (news.status, news.percentage.is_some());
        if let Some(told) = self.0.get_mut(session) {
            gauge.clone_into(&mut told.gauge);
            told.status |= status;
            told.percentage |= percentage;
            return false;
        }
        self.0.insert(session.clone(), Told { gauge: gauge.clone(), status, percentage });
        true
    }

    /// This much of it has been written. `true` if there is more by now.
    fn take(&mut self, session: &SessionId, written: &Gauge) -> bool {
        let is_newer = self.gauge(session).is_some_and(|gauge| gauge != written);
        if !is_newer {
            self.0.remove(session);
        }
        is_newer
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
        let Some(told) = daemon.roster().unwritten.0.get(&session).cloned() else { continue };
        write(daemon, &session, &told);
        if daemon.roster().unwritten.take(&session, &told.gauge) {
            daemon.keeper.tell(session);
        }
    }
}

fn write(daemon: &Daemon, session: &SessionId, told: &Told) {
    let Told { gauge, status, percentage } = told;
    let sessions = daemon.store.sessions();
    if let Err(e) = sessions.put_gauge(session, gauge) {
        daemon.fault("store a reading", &e);
    }
    if *status
        && !gauge.status.is_empty()
        && let Err(e) = daemon.store.published().context_status(&gauge.status)
    {
        daemon.fault("publish the context status", &e);
    }
    // Of a session that is over the file has been removed.
    let goes_on = || sessions.get(session).ok().flatten().is_some_and(|s| s.ended.is_none());
    if *percentage
        && let Some(percentage) = gauge.percentage
        && !published::percentage_over(session, percentage)
        && goes_on()
        && let Err(e) = published::percentage(session, percentage)
    {
        daemon.fault("publish the percentage", &e);
    }
}
