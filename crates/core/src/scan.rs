//! Byte searches for the path that runs on every tool call.
//!
//! `memchr`'s own entry points first query the processor's features. That happens once per process, but a hook is a
//! process, and under a hypervisor each query traps: we measured ten of them at 44 µs, where a whole empty process
//! takes 160 µs. Every x86-64 processor has SSE2, so no query is needed there; on other architectures `memchr` does not
//! query.

#[cfg(target_arch = "x86_64")]
use memchr::arch::x86_64::sse2::{memchr as bytes, packedpair};

/// Repeatedly finds the first of two bytes.
#[derive(Clone, Copy)]
pub struct Either {
    bytes: (u8, u8),
    #[cfg(target_arch = "x86_64")]
    two: Option<bytes::Two>,
}

impl Either {
    pub fn new(a: u8, b: u8) -> Self {
        Self {
            bytes: (a, b),
            #[cfg(target_arch = "x86_64")]
            two: bytes::Two::new(a, b),
        }
    }

    pub fn find(&self, text: &[u8]) -> Option<usize> {
        #[cfg(target_arch = "x86_64")]
        if let Some(two) = &self.two {
            return two.find(text);
        }
        memchr::memchr2(self.bytes.0, self.bytes.1, text)
    }
}

/// The last position of `byte`.
pub fn last(byte: u8, text: &[u8]) -> Option<usize> {
    #[cfg(target_arch = "x86_64")]
    if let Some(one) = bytes::One::new(byte) {
        return one.rfind(text);
    }
    memchr::memrchr(byte, text)
}

/// Repeatedly finds one piece of text.
pub struct Needle {
    text: &'static [u8],
    #[cfg(target_arch = "x86_64")]
    finder: Option<packedpair::Finder>,
    #[cfg(not(target_arch = "x86_64"))]
    finder: memchr::memmem::Finder<'static>,
}

impl Needle {
    /// `text` must have at least two bytes.
    pub fn new(text: &'static [u8]) -> Self {
        #[cfg(target_arch = "x86_64")]
        return Self { text, finder: packedpair::Finder::new(text) };
        #[cfg(not(target_arch = "x86_64"))]
        return Self { text, finder: memchr::memmem::Finder::new(text) };
    }

    pub(crate) fn is_in(&self, hay: &[u8]) -> bool {
        #[cfg(target_arch = "x86_64")]
        return match &self.finder {
            Some(finder) if hay.len() >= finder.min_haystack_len() => finder.find(hay, self.text).is_some(),
            _ => hay.windows(self.text.len()).any(|part| part == self.text),
        };
        #[cfg(not(target_arch = "x86_64"))]
        return hay.len() >= self.text.len() && self.finder.find(hay).is_some();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn finds_what_a_plain_search_finds(text in "[ab\"\\\\usage ]{0,120}", cut in 0usize..40) {
            let bytes = &text.as_bytes()[cut.min(text.len())..];
            prop_assert_eq!(Either::new(b'"', b'\\').find(bytes), bytes.iter().position(|b| matches!(b, b'"' | b'\\')));
            prop_assert_eq!(last(b'a', bytes), bytes.iter().rposition(|b| *b == b'a'));
            for needle in [&b"\"a"[..], b"ab\"", b"\"usage\""] {
                let plain = bytes.windows(needle.len()).any(|part| part == needle);
                prop_assert_eq!(Needle::new(needle).is_in(bytes), plain);
            }
        }

        #[test]
        fn finds_it_anywhere(before in 0usize..70, after in 0usize..70) {
            let text = format!("{}\"usage\"{}", "x".repeat(before), "u".repeat(after));
            prop_assert!(Needle::new(b"\"usage\"").is_in(text.as_bytes()));
            prop_assert!(!Needle::new(b"\"usage!").is_in(text.as_bytes()));
        }
    }
}
