//! Which figures, commit hashes and file names occur in the user's words and the tools' output: a filter of fixed size,
//! so that an agent's claims can be checked against the whole transcript without keeping it. It may report something
//! that never occurred, but never misses something that did: a true claim is not doubted.

use serde::{Deserialize, Serialize};

const WORDS: usize = 1 << 11;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Filter {
    words: Vec<u64>,
}

impl Default for Filter {
    fn default() -> Self {
        Self { words: vec![0; WORDS] }
    }
}

/// A thing that can be looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckedName<'a> {
    Figure(&'a str),
    Hash(&'a str),
    File(&'a str),
}

impl Filter {
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Takes in every name in `text`, which may be a JSON string with its escapes.
    pub fn scan(&mut self, text: &str) {
        for_each_name(text, |name| self.insert(name));
    }

    pub(crate) fn insert(&mut self, name: CheckedName<'_>) {
        for bit in bits(name) {
            if let Some(word) = self.words.get_mut(bit / 64) {
                *word |= 1 << (bit % 64);
            }
        }
    }

    pub fn contains(&self, name: CheckedName<'_>) -> bool {
        bits(name)
            .iter()
            .all(|bit| self.words.get(bit / 64).is_some_and(|word| word & (1 << (bit % 64)) != 0))
    }
}

/// Three places for a name. A hash is known by its first seven digits, as people shorten it.
fn bits(name: CheckedName<'_>) -> [usize; 3] {
    let (sort, text) = match name {
        CheckedName::Figure(text) => (1, text),
        CheckedName::Hash(text) => (2, text.get(..7).unwrap_or(text)),
        CheckedName::File(text) => (3, text),
    };
    // FNV-1a: stable across builds, because the filter is stored.
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325 ^ sort, |h: u64, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    let mixed = (hash ^ (hash >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let most = WORDS as u64 * 64;
    [mixed, mixed >> 21, mixed >> 42].map(|h| usize::try_from(h % most).unwrap_or(0))
}

/// Whether a byte may be part of a name: letters, digits, `.`, `,`, `_` and `-`. A slash ends a name, so the last part
/// of a path counts.
const PART: [bool; 256] = {
    let mut part = [false; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        part[byte as usize] = byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b',' | b'_' | b'-');
        byte += 1;
    }
    part
};

/// Most words contain neither a digit nor a dot and do not matter, so search only for those bytes.
fn is_telling(byte: u8) -> bool {
    byte.is_ascii_digit() || byte == b'.'
}

/// The next telling byte from `at` on. Tests whole blocks, which the compiler turns into a few instructions.
fn next_telling(bytes: &[u8], mut at: usize) -> Option<usize> {
    const BLOCK: usize = 32;
    while let Some(block) = bytes.get(at..at + BLOCK) {
        if block.iter().fold(false, |any, byte| any | is_telling(*byte)) {
            break;
        }
        at += BLOCK;
    }
    bytes.get(at..)?.iter().position(|byte| is_telling(*byte)).map(|n| at + n)
}

fn for_each_name(text: &str, mut found: impl FnMut(CheckedName<'_>)) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(hit) = next_telling(bytes, at) {
        let before = bytes[at..hit].iter().rposition(|b| !PART[usize::from(*b)]).map_or(at, |n| at + n + 1);
        // An escape takes its letter with it: the n of `\n` belongs to no name.
        let slashes = bytes[..before].iter().rev().take_while(|b| **b == b'\\').count();
        let start = before + slashes % 2;
        if start > hit {
            at = start;
            continue;
        }
        let end = bytes[hit..].iter().position(|b| !PART[usize::from(*b)]).map_or(bytes.len(), |n| hit + n);
        if end - start > 1
            && let Some(name) = name(&text[start..end])
        {
            found(name);
        }
        at = end;
    }
}

/// Classifies a word, if it is one of the three.
pub fn name(word: &str) -> Option<CheckedName<'_>> {
    let is_edge = |b: &u8| matches!(b, b'.' | b',' | b'-' | b'_');
    let from = word.bytes().position(|b| !is_edge(&b))?;
    let to = word.bytes().rposition(|b| !is_edge(&b))? + 1;
    let word = word.get(from..to)?;
    let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    if (7..=40).contains(&word.len())
        && word.bytes().all(hex)
        && word.bytes().any(|b| b.is_ascii_digit())
        && word.bytes().any(|b| b.is_ascii_lowercase())
    {
        return Some(CheckedName::Hash(word));
    }
    if word.starts_with(|c: char| c.is_ascii_digit()) {
        let is_figure = |b: u8| b.is_ascii_digit() || matches!(b, b',' | b'.');
        let end = word.bytes().position(|b| !is_figure(b)).unwrap_or(word.len());
        return Some(CheckedName::Figure(word[..end].trim_end_matches(['.', ','])));
    }
    let (stem, extension) = word.rsplit_once('.')?;
    let plain = (1..=8).contains(&extension.len()) && extension.bytes().all(|b| b.is_ascii_alphanumeric());
    (plain && !stem.is_empty()).then_some(CheckedName::File(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_text_and_in_its_json_form() {
        let mut filter = Filter::default();
        filter.scan(r"see src/a/login.rs:42\nnext.go took 1,234ms (99.5%), commit 1a2b3c4d5e\t17 passed");
        for seen in ["login.rs", "42", "next.go", "1,234", "99.5", "1a2b3c4", "17"] {
            assert!(filter.contains(name(seen).unwrap()), "{seen}");
        }
        for never in ["logout.rs", "43", "nnext.go", "1a2b3c5", "98"] {
            assert!(!filter.contains(name(never).unwrap()), "{never}");
        }
    }

    #[test]
    fn a_name_is_found_at_any_place_of_a_block() {
        let names = |text: &str| {
            let mut out = Vec::new();
            for_each_name(text, |name| {
                let (CheckedName::Figure(text) | CheckedName::Hash(text) | CheckedName::File(text)) = name;
                out.push(text.to_owned());
            });
            out
        };
        for gap in 0..80 {
            let text = format!(
                "{}/main.rs\\nnext.go {}12 \\\\nine.py \\1\\22 {}",
                "x".repeat(gap),
                "y ".repeat(gap),
                "z".repeat(gap)
            );
            assert_eq!(names(&text), ["main.rs", "next.go", "12", "nine.py"], "{text}");
        }
    }
}
