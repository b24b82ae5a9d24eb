//! Case-insensitive search for ASCII text, about as fast as memory can be read: skips whole blocks in which two rare
//! bytes of the needle do not occur at their distance.

/// Bytes of stored conversations, cases folded, most frequent first; all others are rarer.
const FREQUENT: &[u8] = b" tensir\\oa\"cldmpuhfg,:/.-bk1w2y0()4v_356=9x87{}`jqz*+[]!%|&#';>";

/// How many positions are checked together; a multiple of any processor's vector width.
const BLOCK: usize = 64;

#[derive(Debug, Clone)]
pub struct AnyCase {
    /// In lower case.
    needle: Vec<u8>,
    /// Rarest first, repeated if the needle has fewer.
    rare: [Rare; 4],
}

/// A byte of the needle and its offset.
#[derive(Debug, Clone, Copy)]
struct Rare {
    at: usize,
    byte: u8,
    /// The bit that folds a letter to lower case; zero for any other byte.
    fold: u8,
}

impl AnyCase {
    /// `None` if the text is empty or not all ASCII.
    pub fn new(text: &str) -> Option<Self> {
        let needle = text.to_ascii_lowercase().into_bytes();
        if needle.is_empty() || !needle.is_ascii() {
            return None;
        }
        let rarity = |b: u8| FREQUENT.iter().position(|f| *f == b).unwrap_or(FREQUENT.len());
        let mut order: Vec<usize> = (0..needle.len()).collect();
        order.sort_by_key(|at| std::cmp::Reverse(rarity(needle[*at])));
        // A repeated byte tells less than a different one.
        let mut seen = [false; 128];
        order.sort_by_cached_key(|at| std::mem::replace(&mut seen[usize::from(needle[*at])], true));
        let rare = std::array::from_fn(|n| {
            let at = order[n % order.len()];
            let byte = needle[at];
            Rare { at, byte, fold: if byte.is_ascii_lowercase() { 0x20 } else { 0 } }
        });
        Some(Self { needle, rare })
    }

    /// The first position in `bytes`.
    #[inline]
    pub fn find(&self, bytes: &[u8]) -> Option<usize> {
        let places = (bytes.len() + 1).checked_sub(self.needle.len())?;
        let [a, b, c, d] = self.rare;
        let mut at = 0;
        // The last positions, where a block would reach past the end, are checked one by one below.
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

/// Whether the two bytes occur at their distance anywhere in the block. Branch-free, so that the compiler emits a
/// handful of vector instructions.
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
        fn the_search_finds_what_a_naive_search_finds(
            needle in "[aAbB@`\\[{ 1-]{1,6}",
            bytes in proptest::collection::vec(prop::sample::select(b"aAbB@`[{ 1-\n\xe2".to_vec()), 0..400),
        ) {
            prop_assert_eq!(AnyCase::new(&needle).unwrap().find(&bytes), plainly(&needle, &bytes));
        }
    }
}
