//! The shapes of keys, in a small subset of regular expressions, matched without backtracking.
//!
//! A shape is a sequence of literal characters and classes (`[0-9a-f]`, `\w`), each with a count (`{40}`, `{20,}`,
//! `{27,300}`, `+`, `*`, `?`). A class takes as much as its count allows and gives nothing back, so matching takes as
//! many steps as the shape has parts. `|` separates whole alternatives, of which the first match wins; parentheses mark
//! the secret. Bytes outside ASCII are only in negated classes.

use std::ops::Range;

use super::reader::{Class, Reader, Slot};

/// A parsed shape.
pub(super) struct Shape {
    alternatives: Vec<Vec<Part>>,
}

enum Part {
    Byte(u8),
    Run { class: usize, slot: Slot, min: usize, max: usize },
    Open,
    Close,
}

/// The classes of all shapes, and the slots of their runs. Runs near the keyword share one slot per class; after an
/// unbounded run they get their own.
pub(super) struct Classes {
    classes: Vec<(Set, Class, Slot)>,
    slots: usize,
}

/// A class as a bit set, quick to build and compare.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Set([u64; 4]);

impl Set {
    fn add(&mut self, byte: u8) {
        self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }

    fn of(bytes: impl IntoIterator<Item = u8>) -> Self {
        let mut set = Self::default();
        bytes.into_iter().for_each(|b| set.add(b));
        set
    }

    fn join(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(all, one)| *all |= one);
    }

    fn holds(self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] & (1 << (byte & 63)) != 0
    }

    fn negated(self) -> Self {
        Self(self.0.map(|word| !word))
    }
}

impl Classes {
    pub(super) fn new(taken: usize) -> Self {
        Self { classes: Vec::new(), slots: taken }
    }

    /// How many slots a reader must have.
    pub(super) fn slots(&self) -> usize {
        self.slots
    }

    fn take_slot(&mut self) -> Slot {
        self.slots += 1;
        Slot(self.slots - 1)
    }

    fn intern(&mut self, set: Set) -> usize {
        if let Some(at) = self.classes.iter().position(|(known, ..)| *known == set) {
            return at;
        }
        let slot = self.take_slot();
        let mut class = [false; 256];
        class.iter_mut().zip(0..=255).for_each(|(there, b)| *there = set.holds(b));
        self.classes.push((set, class, slot));
        self.classes.len() - 1
    }
}

/// How far from the keyword a run may begin and still count as near.
const NEAR: usize = 1024;

impl Shape {
    /// Parses a shape from the table of rules.
    ///
    /// # Panics
    /// If the shape is malformed. The table is constant, and a test parses all of it.
    pub(super) fn new(text: &str, classes: &mut Classes) -> Self {
        let alternatives = split_alternatives(text)
            .into_iter()
            .map(|alternative| Parser { rest: alternative.as_bytes(), reach: 0 }.parts(classes))
            .collect();
        Self { alternatives }
    }

    /// Matches at `start`; returns the marked secret, or the whole match without a mark.
    pub(super) fn find(&self, reader: &Reader<'_>, classes: &Classes, start: usize) -> Option<Range<usize>> {
        self.alternatives.iter().find_map(|parts| find(parts, reader, classes, start))
    }
}

fn find(parts: &[Part], reader: &Reader<'_>, classes: &Classes, start: usize) -> Option<Range<usize>> {
    let (mut at, mut open, mut close) = (start, start, None);
    for part in parts {
        match *part {
            Part::Byte(b) if reader.bytes.get(at) == Some(&b) => at += 1,
            Part::Byte(_) => return None,
            Part::Run { class, slot, min, max } => {
                let end = reader.run_end(slot, &classes.classes[class].1, at);
                if end - at < min {
                    return None;
                }
                at = end.min(at.saturating_add(max));
            }
            Part::Open => open = at,
            Part::Close => close = Some(at),
        }
    }
    Some(open..close.unwrap_or(at))
}

/// Splits at `|` outside classes.
fn split_alternatives(text: &str) -> Vec<&str> {
    let (mut list, mut from, mut in_class, mut escaped) = (Vec::new(), 0, false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '[' => in_class = true,
            ']' => in_class = false,
            '|' if !in_class => {
                list.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    list.push(&text[from..]);
    list
}

struct Parser<'t> {
    rest: &'t [u8],
    /// How far from the keyword the current part can begin.
    reach: usize,
}

impl Parser<'_> {
    fn parts(mut self, classes: &mut Classes) -> Vec<Part> {
        let mut parts = Vec::new();
        while let Some((&first, rest)) = self.rest.split_first() {
            self.rest = rest;
            let (class, literal) = match first {
                b'(' => {
                    parts.push(Part::Open);
                    continue;
                }
                b')' => {
                    parts.push(Part::Close);
                    continue;
                }
                b'[' => (self.class(), None),
                b'\\' => self.escape(),
                b => (Set::of([b]), Some(b)),
            };
            match (self.count(), literal) {
                (None, Some(b)) => {
                    parts.push(Part::Byte(b));
                    self.reach = self.reach.saturating_add(1);
                }
                (count, _) => {
                    let (min, max) = count.unwrap_or((1, 1));
                    let class = classes.intern(class);
                    let near = self.reach <= NEAR;
                    let slot = if near { classes.classes[class].2 } else { classes.take_slot() };
                    parts.push(Part::Run { class, slot, min, max });
                    self.reach = self.reach.saturating_add(max);
                }
            }
        }
        parts
    }

    fn next(&mut self) -> u8 {
        let (&first, rest) = self.rest.split_first().expect("the shape continues");
        self.rest = rest;
        first
    }

    /// `\w`, `\d`, `\s`, `\S`, or the character itself.
    fn escape(&mut self) -> (Set, Option<u8>) {
        let digits = Set::of(b'0'..=b'9');
        let spaces = Set::of(*b" \t\n\r\x0b\x0c");
        match self.next() {
            b'w' => {
                let mut set = digits;
                set.join(Set::of((b'a'..=b'z').chain(b'A'..=b'Z').chain([b'_'])));
                (set, None)
            }
            b'd' => (digits, None),
            b's' => (spaces, None),
            b'S' => (spaces.negated(), None),
            b'n' => (Set::of([b'\n']), Some(b'\n')),
            b't' => (Set::of([b'\t']), Some(b'\t')),
            b => (Set::of([b]), Some(b)),
        }
    }

    fn class(&mut self) -> Set {
        let negated = self.rest.first() == Some(&b'^');
        if negated {
            self.next();
        }
        let mut class = Set::default();
        loop {
            let (one, from) = match self.next() {
                b']' => break,
                b'\\' => self.escape(),
                b => (Set::of([b]), Some(b)),
            };
            match (from, self.rest) {
                (Some(from), [b'-', to, ..]) if *to != b']' => {
                    class.join(Set::of(from..=*to));
                    self.rest = &self.rest[2..];
                }
                _ => class.join(one),
            }
        }
        if negated { class.negated() } else { class }
    }

    fn count(&mut self) -> Option<(usize, usize)> {
        let count = match self.rest.first()? {
            b'+' => (1, usize::MAX),
            b'*' => (0, usize::MAX),
            b'?' => (0, 1),
            b'{' => {
                let end = self.rest.iter().position(|b| *b == b'}').expect("the count is closed");
                let text = std::str::from_utf8(&self.rest[1..end]).expect("shapes are ASCII");
                self.rest = &self.rest[end..];
                let number = |digits: &str| digits.parse().expect("a count is a number");
                match text.split_once(',') {
                    None => (number(text), number(text)),
                    Some((min, "")) => (number(min), usize::MAX),
                    Some((min, max)) => (number(min), number(max)),
                }
            }
            _ => return None,
        };
        self.next();
        Some(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(shape: &str, text: &str) -> Option<String> {
        let mut classes = Classes::new(0);
        let shape = Shape::new(shape, &mut classes);
        let reader = Reader::new(text, classes.slots());
        shape.find(&reader, &classes, 0).map(|range| text[range].to_owned())
    }

    #[test]
    fn counts_take_what_they_may_and_no_more() {
        assert_eq!(find("[0-9a-f]{4}", "12ab9"), Some("12ab".into()));
        assert_eq!(find("[0-9a-f]{4}", "12a-"), None);
        assert_eq!(find(r"[\w-]{2,}=*", "a-b==;"), Some("a-b==".into()));
        assert_eq!(find("a?b+c*", "bbx"), Some("bb".into()));
        assert_eq!(find("[0-9]{1,2}x", "123x"), None);
    }

    #[test]
    fn the_first_alternative_that_matches_counts_and_parentheses_mark_the_secret() {
        assert_eq!(find(r"v1_[a-z]{3}|v[0-9]_([a-z]+)\.", "v1_ab."), Some("ab".into()));
        assert_eq!(find(r"\$[^$|]+\$|x", "$a b$"), Some("$a b$".into()));
    }

    #[test]
    fn a_run_is_read_once_however_many_ask() {
        let text = "a".repeat(100_000);
        let mut classes = Classes::new(0);
        let shape = Shape::new("[a-z]{8,}[.]", &mut classes);
        let reader = Reader::new(&text, classes.slots());
        // Ten billion steps if each started over.
        for start in 0..text.len() {
            assert_eq!(shape.find(&reader, &classes, start), None);
        }
    }
}
