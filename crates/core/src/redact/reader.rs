//! Looks ahead in a text so that each byte is read a bounded number of times, however many keywords there are.
//!
//! A rule that reads on from a keyword may read over the next keyword, and the one after that: on hostile text, each of
//! a million keywords would read the same megabytes. So the end of a run, once found, is cached, and a query from
//! within the run is answered from the cache. Queries come from left to right and near the keyword, so one cached run
//! per class of characters is enough; queries far ahead have separate slots.

use std::cell::Cell;
use std::ops::Range;

/// A set of bytes.
pub(super) type Class = [bool; 256];

pub(super) const fn class(bytes: &[u8]) -> Class {
    let mut class = [false; 256];
    let mut i = 0;
    while i < bytes.len() {
        class[bytes[i] as usize] = true;
        i += 1;
    }
    class
}

pub(super) const fn but(bytes: &[u8]) -> Class {
    let mut class = class(bytes);
    let mut i = 0;
    while i < 256 {
        class[i] = !class[i];
        i += 1;
    }
    class
}

/// ASCII letters and digits, plus `others`.
pub(super) const fn alphanumeric_and(others: &[u8]) -> Class {
    let mut class = class(others);
    let mut b = 0u8;
    while b < 128 {
        class[b as usize] |= b.is_ascii_alphanumeric();
        b += 1;
    }
    class
}

/// The cache slot of one kind of query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot(pub usize);

/// The slots of rules with code; those of shapes come after them.
pub(super) mod slots {
    use super::Slot;

    pub(crate) const LINE: Slot = Slot(0);
    pub(crate) const QUOTES: [Slot; 3] = [Slot(1), Slot(2), Slot(3)];
    pub(crate) const ENV_VALUE: Slot = Slot(4);
    pub(crate) const BARE_VALUE: Slot = Slot(5);
    pub(crate) const USER: Slot = Slot(6);
    pub(crate) const URL: Slot = Slot(7);
    pub(crate) const AT: Slot = Slot(8);
    pub(crate) const BASE64: Slot = Slot(9);
    pub(crate) const WORDS: [Slot; 4] = [Slot(10), Slot(11), Slot(12), Slot(13)];
    pub(crate) const COOKIE: Slot = Slot(14);
    pub(crate) const CREDENTIAL: Slot = Slot(15);
    pub(crate) const COUNT: usize = 16;
}

pub(super) struct Reader<'t> {
    pub text: &'t str,
    pub bytes: &'t [u8],
    /// The last run found, per slot.
    runs: Vec<Cell<(usize, usize)>>,
    /// How far the current rule has read everything it needs.
    pub read_to: Cell<usize>,
}

impl<'t> Reader<'t> {
    pub(super) fn new(text: &'t str, slots: usize) -> Self {
        Self { text, bytes: text.as_bytes(), runs: vec![Cell::new((0, 0)); slots], read_to: Cell::new(0) }
    }

    /// The end of the run of `class` bytes that begins at `from`.
    pub(super) fn run_end(&self, slot: Slot, class: &Class, from: usize) -> usize {
        let run = &self.runs[slot.0];
        let (start, end) = run.get();
        if start <= from && from < end {
            return end;
        }
        let mut at = from;
        while let Some(&b) = self.bytes.get(at) {
            if at == start && at < end {
                at = end;
                break;
            }
            if !class[usize::from(b)] {
                break;
            }
            at += 1;
        }
        if at > from {
            run.set((from, at));
        }
        at
    }

    /// The first `byte` at or after `from`, or the end.
    pub(super) fn next(&self, slot: Slot, byte: u8, from: usize) -> usize {
        let run = &self.runs[slot.0];
        let (start, end) = run.get();
        if start <= from && from < end {
            return end;
        }
        let known = if from < start { start } else { self.bytes.len() };
        let at = match memchr::memchr(byte, &self.bytes[from..known]) {
            Some(i) => from + i,
            None if from < start => end,
            None => self.bytes.len(),
        };
        if at > from {
            run.set((from, at));
        }
        at
    }

    /// The byte at `at`; 0 past the end, which no rule searches for.
    pub(super) fn byte(&self, at: usize) -> u8 {
        self.bytes.get(at).copied().unwrap_or(0)
    }

    pub(super) fn starts_with(&self, at: usize, word: &str) -> bool {
        self.bytes.get(at..).is_some_and(|rest| rest.starts_with(word.as_bytes()))
    }

    /// Skips at most `most` bytes of `class`.
    pub(super) fn skip(&self, class: &Class, from: usize, most: usize) -> usize {
        let rest = self.bytes.get(from..).unwrap_or_default();
        from + rest.iter().take(most).take_while(|b| class[usize::from(**b)]).count()
    }

    /// Skips back over at most `most` bytes of `class` that end at `to`.
    pub(super) fn skip_back(&self, class: &Class, to: usize, most: usize) -> usize {
        to - self.bytes[..to].iter().rev().take(most).take_while(|b| class[usize::from(**b)]).count()
    }

    /// The text of `range`, whose ends must lie on ASCII bytes or on the ends of runs of them.
    pub(super) fn get(&self, range: Range<usize>) -> Option<&'t str> {
        self.text.get(range)
    }
}
