//! A door's open connections: limits their number and the memory of their answers, and decides which one is closed when
//! there is too much of either.
//!
//! A peer that keeps us waiting, for its request or until it reads its answer, must not keep others out. So close the
//! connection that has waited longest for its peer. A request that we are working on is never cut off.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, oneshot};

/// The maximum number of connections.
pub(crate) const MAX_CONNECTIONS: usize = 128;
/// The maximum of unread answer bytes.
const MAX_UNREAD: usize = 32 << 20;
/// Smaller answers are not counted: all peers together cannot accumulate much of them.
const SMALL_ANSWER: usize = 64 << 10;
/// A peer that answers faster than this keeps its slot.
const PATIENCE: Duration = Duration::from_millis(250);

/// The bytes of an answer that its peer has not read.
pub(crate) type UnreadBytes = Arc<AtomicUsize>;

/// The open connections of one door.
pub(crate) struct Connections {
    max: usize,
    open: Mutex<OpenConnections>,
    /// A connection was closed, or now waits for its peer.
    changed: Notify,
}

#[derive(Default)]
struct OpenConnections {
    next: u64,
    slots: HashMap<u64, Slot>,
}

struct Slot {
    /// Since when the connection waits for its peer; `None` while we work on a request.
    waiting_since: Option<Instant>,
    unread: UnreadBytes,
    evict: oneshot::Sender<()>,
}

impl OpenConnections {
    /// Among the connections that `may_go`, the one that has waited longest for its peer, and since when.
    fn longest_waiting(&self, may_go: impl Fn(u64, &Slot) -> bool) -> Option<(Instant, u64)> {
        let may_go = |(id, slot): &(&u64, &Slot)| may_go(**id, slot);
        let waiting = self.slots.iter().filter(may_go);
        waiting.filter_map(|(id, slot)| Some((slot.waiting_since?, *id))).min()
    }

    fn evict(&mut self, id: u64) {
        if let Some(slot) = self.slots.remove(&id) {
            // It may just have ended by itself.
            let _ = slot.evict.send(());
        }
    }
}

impl Connections {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, open: Mutex::default(), changed: Notify::new() })
    }

    /// A slot for a new connection as soon as there is one, and a receiver that fires when the slot is evicted.
    pub(crate) async fn admit(self: &Arc<Self>) -> (Connection, oneshot::Receiver<()>) {
        loop {
            match self.try_admit() {
                Ok(admitted) => return admitted,
                Err(Some(pause)) => {
                    let _ = tokio::time::timeout(pause, self.changed.notified()).await;
                }
                Err(None) => self.changed.notified().await,
            }
        }
    }

    /// On failure: when a slot can be taken from a connection that waits for its peer.
    fn try_admit(self: &Arc<Self>) -> Result<(Connection, oneshot::Receiver<()>), Option<Duration>> {
        let mut open = self.open();
        if open.slots.len() >= self.max {
            let (since, id) = open.longest_waiting(|_, _| true).ok_or(None)?;
            if let Some(left) = PATIENCE.checked_sub(since.elapsed()).filter(|left| !left.is_zero()) {
                return Err(Some(left));
            }
            open.evict(id);
        }
        let (evict, evicted) = oneshot::channel();
        let unread = UnreadBytes::default();
        let id = open.next;
        open.next += 1;
        let slot = Slot { waiting_since: Some(Instant::now()), unread: Arc::clone(&unread), evict };
        open.slots.insert(id, slot);
        Ok((Connection { id, unread, door: Arc::clone(self) }, evicted))
    }

    /// Closes connections until the unread answers fit, but never `newest`.
    fn limit_unread(&self, newest: u64) {
        let mut open = self.open();
        let unread = |slot: &Slot| slot.unread.load(Ordering::Relaxed);
        while open.slots.values().map(unread).sum::<usize>() > MAX_UNREAD {
            let behind = |id, slot: &Slot| id != newest && unread(slot) > 0;
            let Some((_, id)) = open.longest_waiting(behind) else { return };
            open.evict(id);
        }
    }

    /// Returns when no connection is open.
    pub(crate) async fn closed(&self) {
        while !self.open().slots.is_empty() {
            self.changed.notified().await;
        }
    }

    fn open(&self) -> MutexGuard<'_, OpenConnections> {
        // No code panics while it holds this lock.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection's slot, freed on drop.
pub(crate) struct Connection {
    id: u64,
    unread: UnreadBytes,
    door: Arc<Connections>,
}

impl Connection {
    /// Marks that we are working on a request.
    pub(crate) fn working(&self) {
        self.set_waiting_since(None);
    }

    /// Marks that we wait for the peer: to send a request, or to read an answer of this many bytes and ask again.
    pub(crate) fn waiting(&self, answer: usize) {
        self.set_waiting_since(Some(Instant::now()));
        self.unread.fetch_add(answer, Ordering::Relaxed);
        self.door.changed.notify_one();
        if answer > SMALL_ANSWER {
            self.door.limit_unread(self.id);
        }
    }

    /// The peer's unread bytes, counted down by the writer.
    pub(crate) fn unread(&self) -> UnreadBytes {
        Arc::clone(&self.unread)
    }

    fn set_waiting_since(&self, since: Option<Instant>) {
        if let Some(slot) = self.door.open().slots.get_mut(&self.id) {
            slot.waiting_since = since;
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.door.open().slots.remove(&self.id);
        self.door.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(test: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(test);
    }

    #[test]
    fn the_connection_that_waits_longest_for_its_peer_is_evicted() {
        run(async {
            let door = Connections::new(3);
            let (slow, slow_evicted) = door.admit().await;
            let (working, mut working_evicted) = door.admit().await;
            let (quick, mut quick_evicted) = door.admit().await;
            working.working();
            tokio::time::sleep(PATIENCE).await;
            quick.waiting(0);
            let (new, _) = door.admit().await;
            slow_evicted.await.unwrap();
            assert!(working_evicted.try_recv().is_err() && quick_evicted.try_recv().is_err());
            drop(slow);
            assert_eq!(door.open().slots.len(), 3, "a slot that was taken over is not freed again");
            drop((working, quick, new));
            door.closed().await;
        });
    }

    #[test]
    fn requests_that_are_worked_on_are_waited_for() {
        run(async {
            let door = Connections::new(1);
            let (working, mut evicted) = door.admit().await;
            working.working();
            let next = tokio::spawn({
                let door = Arc::clone(&door);
                async move { door.admit().await }
            });
            tokio::time::sleep(2 * PATIENCE).await;
            assert!(!next.is_finished() && evicted.try_recv().is_err());
            drop(working);
            next.await.unwrap();
        });
    }

    #[test]
    fn answers_that_nobody_reads_are_given_up_oldest_first_and_read_ones_cost_nothing() {
        run(async {
            let door = Connections::new(9);
            let half = MAX_UNREAD / 2;
            let (idle, mut idle_evicted) = door.admit().await;
            let (read, mut read_evicted) = door.admit().await;
            read.waiting(half);
            read.unread().store(0, Ordering::Relaxed);
            let (first, first_evicted) = door.admit().await;
            first.waiting(half);
            let (second, mut second_evicted) = door.admit().await;
            second.waiting(half);
            let (third, mut third_evicted) = door.admit().await;
            third.waiting(1 + SMALL_ANSWER);
            first_evicted.await.unwrap();
            for kept in [&mut idle_evicted, &mut read_evicted, &mut second_evicted, &mut third_evicted] {
                assert!(kept.try_recv().is_err());
            }
            drop((idle, read, first, second, third));
        });
    }
}
