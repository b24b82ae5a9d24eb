//! Past conversations of every client: found where the clients keep them, listed from the two ends of their
//! transcripts, searched whole.

pub mod cache;
pub mod catalogue;
pub mod ends;
pub mod links;
pub mod mirrors;
mod packed;
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
    // Runs of answers, each with the number of its first.
    let gathered = gather(count, piece, |runs: &mut Vec<(usize, Vec<T>)>, n| {
        if runs.last().is_none_or(|(start, run)| start + run.len() != n) {
            runs.push((n, Vec::with_capacity(piece)));
        }
        if let Some((_, run)) = runs.last_mut() {
            run.push(work(n));
        }
    });
    let mut runs = gathered.into_iter().flatten().collect::<Vec<_>>();
    runs.sort_unstable_by_key(|(start, _)| *start);
    runs.into_iter().flat_map(|(_, run)| run).collect()
}

/// The same where the order does not matter: what each thread has gathered.
pub(crate) fn gather<T: Default + Send>(
    count: usize,
    piece: usize,
    work: impl Fn(&mut T, usize) + Sync,
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let run = || {
        let mut mine = T::default();
        loop {
            let start = next.fetch_add(piece, Ordering::Relaxed);
            if start >= count {
                return mine;
            }
            for n in start..count.min(start + piece) {
                work(&mut mine, n);
            }
        }
    };
    let others = processors().min(count / piece + 1) - 1;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..others).map(|_| scope.spawn(run)).collect();
        let mut gathered = vec![run()];
        gathered.extend(
            threads.into_iter().map(|t| t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))),
        );
        gathered
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_done_once_and_answers_come_in_order() {
        for count in [0, 1, 2, 15, 16, 17, 999, 7777] {
            let made = on_all_processors(count, 16, |n| n * 2);
            assert!(made.into_iter().eq((0..count).map(|n| n * 2)), "{count}");
        }
    }
}
