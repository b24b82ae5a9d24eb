//! The fence around other people's text: a word in our first and last line that the text between them cannot know.
//!
//! The word is a keyed hash of the framed id (a message's or a handoff's), so we can recognise our own frames later.

use sha2::{Digest as _, Sha256};

const BLOCK: usize = 64;

/// The secret of one installation.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; 32]);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(..)")
    }
}

impl Key {
    pub const LEN: usize = 32;

    pub fn new(secret: [u8; Self::LEN]) -> Self {
        Self(secret)
    }

    /// The word for `id`: sixteen digits of an HMAC-SHA256, far more than anybody can guess.
    pub fn word(&self, id: &str) -> String {
        let pad = |byte: u8| {
            let mut block = [byte; BLOCK];
            for (b, k) in block.iter_mut().zip(&self.0) {
                *b ^= k;
            }
            block
        };
        let inner = Sha256::new().chain_update(pad(0x36)).chain_update(id).finalize();
        let hash = Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize();
        hash[..8].iter().fold(String::with_capacity(16), |word, byte| format!("{word}{byte:02x}"))
    }
}

/// Removes `word` from `body`. The text cannot know the word, but may contain it by accident.
pub fn without(word: &str, body: &str) -> String {
    let mut body = body.replace(word, "");
    // Removing the word may form it again.
    while body.contains(word) {
        body = body.replace(word, "");
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_is_hmac_sha256() {
        // RFC 4231 has no key of 32 bytes; its second case padded with zeros is the same by definition.
        let mut key = [0; Key::LEN];
        key[..4].copy_from_slice(b"Jefe");
        assert_eq!(Key::new(key).word("what do ya want for nothing?"), "5bdcc146bf60754e");
    }

    #[test]
    fn other_installations_and_other_ids_have_other_words() {
        let (a, b) = (Key::new([7; 32]), Key::new([8; 32]));
        assert_ne!(a.word("m1"), b.word("m1"));
        assert_ne!(a.word("m1"), a.word("m2"));
        assert_eq!(a.word("m1").len(), 16);
        assert_eq!(format!("{a:?}"), "Key(..)");
    }

    #[test]
    fn no_word_is_left_behind() {
        assert_eq!(without("abc", "aabcbc ababcc abc"), "  ");
    }
}
