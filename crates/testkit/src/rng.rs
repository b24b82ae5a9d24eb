//! Reproducible random numbers: every test prints its seed, and `BATON_SEED` repeats it.

use std::ops::Range;

/// `SplitMix64`: small, good enough to choose instants and sizes, the same on every machine.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// From `BATON_SEED`, else from the clock; printed, so that a failure can be repeated.
    pub fn announced(what: &str) -> Self {
        let seed = std::env::var("BATON_SEED")
            .ok()
            .and_then(|s| s.parse().ok())
            .unwrap_or_else(|| jiff::Timestamp::now().as_microsecond().unsigned_abs());
        eprintln!("{what}: BATON_SEED={seed}");
        Self(seed)
    }

    /// Another generator, independent of this one's later output.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self(self.roll())
    }

    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `range`, which must not be empty.
    pub fn pick(&mut self, range: Range<u64>) -> u64 {
        range.start + self.roll() % (range.end - range.start)
    }

    /// `len` characters as in documents, including line ends.
    pub fn text(&mut self, len: usize) -> String {
        const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz .-#`\n";
        (0..len).map(|_| char::from(LETTERS[(self.roll() >> 59) as usize])).collect()
    }
}
