//! Past conversations of every client: found where the clients keep them, listed from the two ends of their
//! transcripts, searched whole.

pub mod cache;
pub mod catalogue;
pub mod ends;
mod lines;
pub mod links;
pub mod mirrors;
pub mod scan;
pub mod search;
pub mod sources;

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

pub use catalogue::{Catalogue, Row};
pub use sources::Source;

/// By texts of our own user's making, which nobody chooses so that they collide.
pub(crate) type QuickMap<K, V> = HashMap<K, V, BuildHasherDefault<Quick>>;

/// The library's own hash withstands an attacker and takes ten times as long, which shows in thousands of rows.
#[derive(Default)]
pub(crate) struct Quick(u64);

impl Hasher for Quick {
    fn write(&mut self, bytes: &[u8]) {
        const MIX: u64 = 0x517c_c1b7_2722_0a95;
        let (words, rest) = bytes.as_chunks::<8>();
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        for word in words.iter().chain([&last]) {
            self.0 = (self.0.rotate_left(5) ^ u64::from_le_bytes(*word)).wrapping_mul(MIX);
        }
    }

    fn finish(&self) -> u64 {
        // A map looks at the highest bits and at the lowest, where a product has mixed little.
        self.0 ^ self.0 >> 32
    }
}

/// How many processors there are for us; asking costs a look at several files.
pub(crate) fn processors() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// `work` for each number below `count`, on all processors; the answers in their order. `piece` of them at a time, so
/// that the threads do not fight over who does what.
pub(crate) fn on_all_processors<T: Send>(
    count: usize,
    piece: usize,
    work: impl Fn(usize) -> T + Sync,
) -> Vec<T> {
    beside(|| (), count, piece, work).1
}

/// The same, while this thread does something else `first`.
pub(crate) fn beside<R, T: Send>(
    first: impl FnOnce() -> R,
    count: usize,
    piece: usize,
    work: impl Fn(usize) -> T + Sync,
) -> (R, Vec<T>) {
    let next = AtomicUsize::new(0);
    let run = || {
        let mut done = Vec::new();
        loop {
            let start = next.fetch_add(piece, Ordering::Relaxed);
            if start >= count {
                return done;
            }
            done.push((start, (start..count.min(start + piece)).map(&work).collect::<Vec<T>>()));
        }
    };
    let others = processors().min(count / piece + 1) - 1;
    let (answer, mut pieces) = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..others).map(|_| scope.spawn(run)).collect();
        let answer = first();
        let mut pieces = run();
        for thread in threads {
            pieces.extend(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        (answer, pieces)
    });
    pieces.sort_unstable_by_key(|(start, _)| *start);
    (answer, pieces.into_iter().flat_map(|(_, done)| done).collect())
}

/// As many parts as there are processors, if they are many, in their order.
pub(crate) fn parts<T>(mut items: Vec<T>) -> Vec<Vec<T>> {
    // Fewer are done before a thread has started.
    const FEW: usize = 500;
    let count = processors().min(items.len() / FEW + 1);
    let size = items.len().div_ceil(count);
    let mut parts = Vec::new();
    while items.len() > size {
        parts.push(items.split_off(items.len() - size));
    }
    parts.push(items);
    parts.reverse();
    parts
}

/// `work` on each of a few parts in a thread of its own, on the first in this one; what it made, in their order.
pub(crate) fn on_threads<T: Send, R: Send>(parts: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let work = &work;
    std::thread::scope(|scope| {
        let mut parts = parts.into_iter();
        let first = parts.next();
        let threads: Vec<_> = parts.map(|part| scope.spawn(move || work(part))).collect();
        let mut made: Vec<R> = first.into_iter().map(work).collect();
        made.extend(
            threads.into_iter().map(|t| t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))),
        );
        made
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_whole_and_in_order() {
        for count in [0, 1, 2, 999, 1000, 1001, 7777] {
            let made = on_threads(parts((0..count).collect()), |part| part);
            assert!(made.concat().into_iter().eq(0..count), "{count}");
        }
    }
}
