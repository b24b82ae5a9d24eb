//! Writes the effects of a reading in a separate thread: the gauge, and the files that other tools' scripts read. Each
//! of these writes blocks while a process syncs the disk (measured: up to 20 ms), and no API answer should wait for
//! that.
//!
//! Until a gauge is written, the roster shows it from memory. A daemon killed in between loses a reading, which the
//! next one replaces. If a hook changed the gauge meanwhile, leave it alone: the hook saw more than the script.

use std::collections::{HashMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_core::gauge::Gauge;
use baton_core::ids::SessionId;
use jiff::Timestamp;

use crate::daemon::Daemon;
use crate::sessions::gauge::{self, News};

/// Readings within this time are written together: waking a thread for each costs more than the answer.
const BATCH: Duration = Duration::from_millis(10);

/// The newest unwritten gauge of each session.
#[derive(Debug, Default)]
pub(crate) struct PendingGauges(HashMap<SessionId, PendingGauge>);

#[derive(Debug, Clone)]
struct PendingGauge {
    gauge: Gauge,
    /// The file's content when the gauge was made.
    before: Gauge,
    /// Write the published status of all sessions too.
    status: bool,
    /// Write this session's published percentage too.
    percentage: bool,
}

impl PendingGauges {
    pub(crate) fn get(&self, session: &SessionId) -> Option<&Gauge> {
        self.0.get(session).map(|pending| &pending.gauge)
    }

    /// `true` if no gauge of this session was waiting.
    pub(crate) fn put(&mut self, session: &SessionId, before: &Gauge, gauge: &Gauge, news: News) -> bool {
        let (status, percentage) = (news.status, news.percentage.is_some());
        if let Some(pending) = self.0.get_mut(session) {
            gauge.clone_into(&mut pending.gauge);
            pending.status |= status;
            pending.percentage |= percentage;
            return false;
        }
        let (before, gauge) = (before.clone(), gauge.clone());
        self.0.insert(session.clone(), PendingGauge { gauge, before, status, percentage });
        true
    }

    /// Records that this gauge was written. `true` if a newer one waits by now.
    fn written(&mut self, session: &SessionId, gauge: &Gauge) -> bool {
        match self.0.get_mut(session) {
            Some(pending) if pending.gauge != *gauge => {
                gauge.clone_into(&mut pending.before);
                true
            }
            _ => {
                self.0.remove(session);
                false
            }
        }
    }

    /// Drops this session's unwritten gauge.
    pub(crate) fn discard(&mut self, session: &SessionId) {
        self.0.remove(session);
    }
}

/// The sessions whose gauges wait in the roster to be written.
#[derive(Default)]
pub(crate) struct GaugeWriter {
    queue: Mutex<WriteQueue>,
    filled: Condvar,
}

#[derive(Default)]
struct WriteQueue {
    sessions: VecDeque<SessionId>,
    /// The writer sleeps until something is queued.
    is_idle: bool,
    /// Nothing more will be queued.
    is_closed: bool,
}

impl GaugeWriter {
    fn queue(&self) -> MutexGuard<'_, WriteQueue> {
        // No code panics while it holds this lock.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues this session's gauge for writing.
    pub(crate) fn enqueue(&self, session: SessionId) {
        let mut queue = self.queue();
        queue.sessions.push_back(session);
        if std::mem::take(&mut queue.is_idle) {
            self.filled.notify_one();
        }
    }

    /// Lets the thread write everything queued and end.
    pub(crate) fn finish(&self) {
        self.queue().is_closed = true;
        self.filled.notify_one();
    }

    fn next(&self) -> Option<SessionId> {
        let mut queue = self.queue();
        loop {
            if let Some(session) = queue.sessions.pop_front() {
                return Some(session);
            }
            if queue.is_closed {
                return None;
            }
            queue.is_idle = true;
            let woken = self.filled.wait_while(queue, |queue| queue.sessions.is_empty() && !queue.is_closed);
            drop(woken.unwrap_or_else(PoisonError::into_inner));
            std::thread::sleep(BATCH);
            queue = self.queue();
        }
    }
}

/// Writes until told to finish and the queue is empty.
pub(crate) fn run(daemon: &Daemon) {
    while let Some(session) = daemon.gauge_writer.next() {
        if write(daemon, &session) {
            daemon.gauge_writer.enqueue(session);
        }
    }
}

/// Writes this session's gauge if one waits. `true` if a newer one waits by now.
pub(crate) fn write(daemon: &Daemon, session: &SessionId) -> bool {
    let Some(pending) = daemon.roster().pending.0.get(session).cloned() else { return false };
    let open = daemon.store.sessions().open_gauge(session);
    if open.before != pending.before {
        daemon.roster().discard_gauge(session);
        return false;
    }
    if let Err(e) = open.keep(&pending.gauge) {
        daemon.fault("store a reading", &e);
        daemon.roster().discard_gauge(session);
        return false;
    }
    // A hook may have replaced the file between our check and our write; then the hook wins.
    if daemon.store.sessions().gauge(session) != pending.gauge {
        daemon.roster().discard_gauge(session);
        return false;
    }
    publish(daemon, session, &pending);
    let mut roster = daemon.roster();
    let newer = roster.pending.written(session, &pending.gauge);
    if !newer {
        // A hook may have written while we published, and the roster then still showed ours.
        roster.discard_gauge(session);
    }
    newer
}

fn publish(daemon: &Daemon, session: &SessionId, pending: &PendingGauge) {
    let PendingGauge { gauge, status, percentage, .. } = pending;
    let news = News { status: *status, percentage: gauge.percentage.filter(|_| *percentage) };
    let goes_on = || matches!(daemon.store.sessions().get(session), Ok(Some(s)) if s.ended.is_none());
    gauge::publish(&daemon.store, session, gauge, news, goes_on, Timestamp::now());
}
