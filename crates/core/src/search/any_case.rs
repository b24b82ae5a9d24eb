//! A piece of ASCII text found in bytes whatever its case, about as fast as they can be read: blocks in which two rare
//! bytes of it do not stand at their distance are passed over without looking at single bytes.

/// Bytes of stored conversations, lower case and upper case together, the most frequent first; all others are rarer.
const FREQUENT: &[u8] = b" tensir\\oa\"cldmpuhfg,:/.-bk1w2y0()4v_356=9x87{}`jqz*+[]!%|&#';>";

/// So many places are looked at together; a multiple of what any processor compares at once.
const BLOCK: usize = 64;

#[derive(Debug, Clone)]
pub struct AnyCase {
    /// In lower case.
    needle: Vec<u8>,
    /// The rarest first; one again and again where there are fewer.
    rare: [Rare; 4],
}

/// One byte of the needle and where it stands there.
#[derive(Debug, Clone, Copy)]
struct Rare {
    at: usize,
    byte: u8,
    /// What makes a letter of either case the lower one; nothing for any other byte.
    fold: u8,
}

impl AnyCase {
    /// `None` for text that is not all ASCII, or empty.
    pub fn new(text: &str) -> Option<Self> {
        let needle = text.to_ascii_lowercase().into_bytes();
        if needle.is_empty() || !needle.is_ascii() {
            return None;
        }
        let rarity = |b: u8| FREQUENT.iter().position(|f| *f == b).unwrap_or(FREQUENT.len());
        let mut order: Vec<usize> = (0..needle.len()).collect();
        order.sort_by_key(|at| std::cmp::Reverse(rarity(needle[*at])));
        // The same byte again tells less than another one.
        let mut seen = [false; 128];
        order.sort_by_cached_key(|at| std::mem::replace(&mut seen[usize::from(needle[*at])], true));
        let rare = std::array::from_fn(|n| {
            let at = order[n % order.len()];
            let byte = needle[at];
            Rare { at, byte, fold: if byte.is_ascii_lowercase() { 0x20 } else { 0 } }
        });
        Some(Self { needle, rare })
    }

    /// Where it stands first in `bytes`.
    #[inline]
    pub fn find(&self, bytes: &[u8]) -> Option<usize> {
        let places = (bytes.len() + 1).checked_sub(self.needle.len())?;
        let [a, b, c, d] = self.rare;
        let mut at = 0;
        // The last places, where a block would reach past the end, are looked at one by one.
        while at + self.needle.len() + BLOCK <= bytes.len() {
            let block = &bytes[at..at + self.needle.len() + BLOCK];
            if stand_in(block, a, b) && stand_in(block, c, d) {
                let found = (at..at + BLOCK).find(|at| self.is_at(bytes, *at));
                if found.is_some() {
                    return found;
                }
            }
            at += BLOCK;
        }
        (at..places).find(|at| self.is_at(bytes, *at))
    }

    fn is_at(&self, bytes: &[u8], at: usize) -> bool {
        bytes[at + self.rare[0].at] | self.rare[0].fold == self.rare[0].byte
            && bytes[at..at + self.needle.len()].eq_ignore_ascii_case(&self.needle)
    }
}

/// Do the two stand at their distance, at any place of the block? Without a branch, so that the compiler makes of it a
/// handful of wide instructions.
#[inline]
fn stand_in(block: &[u8], a: Rare, b: Rare) -> bool {
    let Some(left) = block[a.at..].first_chunk::<BLOCK>() else { return true };
    let Some(right) = block[b.at..].first_chunk::<BLOCK>() else { return true };
    let is_at = |n: usize| u8::from(left[n] | a.fold == a.byte) & u8::from(right[n] | b.fold == b.byte);
    (0..BLOCK).fold(0, |any, n| any | is_at(n)) != 0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn plainly(needle: &str, bytes: &[u8]) -> Option<usize> {
        bytes.windows(needle.len()).position(|w| w.eq_ignore_ascii_case(needle.as_bytes()))
    }

    #[test]
    fn it_is_found_at_every_place_of_every_length_and_in_either_case() {
        for needle in ["k", "ab", "zz", "worktree", "a-b_c 1", &"checkpoint ".repeat(12)] {
            let finder = AnyCase::new(needle).unwrap();
            for len in 0..3 * BLOCK {
                let mut bytes = vec![b'.'; len];
                assert_eq!(finder.find(&bytes), None, "{needle} in {len} dots");
                bytes.extend_from_slice(needle.to_ascii_uppercase().as_bytes());
                assert_eq!(finder.find(&bytes), Some(len), "{needle} after {len} dots");
                bytes.extend(std::iter::repeat_n(b'.', 2 * BLOCK));
                assert_eq!(finder.find(&bytes), Some(len), "{needle} between dots");
                bytes[len] = b'\n';
                assert_eq!(finder.find(&bytes), None, "{needle} without its first byte");
            }
        }
        assert!(AnyCase::new("").is_none() && AnyCase::new("größe").is_none());
    }

    proptest! {
        #[test]
        fn it_finds_what_a_plain_look_at_every_place_finds(
            needle in "[aAbB@`\\[{ 1-]{1,6}",
            bytes in proptest::collection::vec(prop::sample::select(b"aAbB@`[{ 1-\n\xe2".to_vec()), 0..400),
        ) {
            prop_assert_eq!(AnyCase::new(&needle).unwrap().find(&bytes), plainly(&needle, &bytes));
        }
    }
}
