//! The line that a person types: keys in, prompts out. Takes pastes whole; Ctrl-S stashes the draft.

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Key {
    Submit(String),
    Escape,
    Interrupt,
    End,
    Suspend,
}

#[derive(Debug, Default)]
pub(super) struct Composer {
    draft: Vec<u8>,
    stash: Option<Vec<u8>>,
    pasting: bool,
    /// The bytes of an incomplete escape sequence.
    escape: Vec<u8>,
}

/// Ctrl-S.
pub(super) const STASH: u8 = 0x13;
const PASTE_BEGINS: &[u8] = b"\x1b[200~";
const PASTE_ENDS: &[u8] = b"\x1b[201~";

impl Composer {
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<Key> {
        let mut keys = Vec::new();
        for &byte in bytes {
            if !self.escape.is_empty() {
                self.escaped(byte, &mut keys);
            } else if byte == 0x1b {
                self.escape.push(byte);
            } else if self.pasting {
                self.draft.push(if byte == b'\r' { b'\n' } else { byte });
            } else {
                self.key(byte, &mut keys);
            }
        }
        // A lone Esc at the end of the input is the key itself; sequences arrive in one piece.
        if self.escape == [0x1b] {
            self.escape.clear();
            keys.push(Key::Escape);
        }
        keys
    }

    fn key(&mut self, byte: u8, keys: &mut Vec<Key>) {
        match byte {
            b'\r' | b'\n' => {
                let line = String::from_utf8_lossy(&std::mem::take(&mut self.draft)).into_owned();
                keys.push(Key::Submit(line));
                self.draft = self.stash.take().unwrap_or_default();
            }
            0x03 if self.draft.is_empty() => keys.push(Key::Interrupt),
            0x03 => self.draft.clear(),
            0x04 if self.draft.is_empty() => keys.push(Key::End),
            STASH if self.draft.is_empty() => self.draft = self.stash.take().unwrap_or_default(),
            STASH => self.stash = Some(std::mem::take(&mut self.draft)),
            0x1a => keys.push(Key::Suspend),
            0x7f | 0x08 => {
                // Remove the last character, however many bytes it has.
                while self.draft.pop().is_some_and(|b| b & 0xc0 == 0x80) {}
            }
            byte if byte >= 0x20 => self.draft.push(byte),
            _ => {}
        }
    }

    fn escaped(&mut self, byte: u8, keys: &mut Vec<Key>) {
        self.escape.push(byte);
        match self.escape.as_slice() {
            sequence if sequence == PASTE_BEGINS => self.pasting = true,
            sequence if sequence == PASTE_ENDS => self.pasting = false,
            [_, b'[' | b'O'] => return,
            [_, b'[' | b'O', .., last] if !(0x40..=0x7e).contains(last) => return,
            // Ignore arrows and the like.
            [_, b'[' | b'O', ..] => {}
            [_, other] => {
                let other = *other;
                self.escape.clear();
                keys.push(Key::Escape);
                return self.key(other, keys);
            }
            _ => {}
        }
        self.escape.clear();
    }

    pub(super) fn draft(&self) -> String {
        String::from_utf8_lossy(&self.draft).into_owned()
    }

    /// The Enter was lost, so the text stays.
    pub(super) fn keep(&mut self, line: &str) {
        line.as_bytes().clone_into(&mut self.draft);
    }

    /// The last line without a line end, when the input is over.
    pub(super) fn rest(&mut self) -> Option<String> {
        let rest = String::from_utf8_lossy(&std::mem::take(&mut self.draft)).into_owned();
        (!rest.is_empty()).then_some(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn submit(text: &str) -> Key {
        Key::Submit(text.to_owned())
    }

    #[test]
    fn lines_are_submitted_and_pastes_are_taken_whole() {
        let mut c = Composer::default();
        assert_eq!(c.feed("añ\u{7f}b\r".as_bytes()), [submit("ab")]);
        assert_eq!(c.feed(b"\x1b[200~one\rtwo\x1b[201~"), []);
        assert_eq!(c.draft(), "one\ntwo");
        assert_eq!(c.feed(b"\r"), [submit("one\ntwo")]);
    }

    #[test]
    fn a_stashed_draft_comes_back_after_the_next_submit() {
        let mut c = Composer::default();
        assert_eq!(c.feed(b"half a th\x13/clear\r"), [submit("/clear")]);
        assert_eq!(c.draft(), "half a th");
    }

    #[test]
    fn ctrl_c_clears_a_draft_first_and_esc_is_a_key_unless_a_sequence_follows() {
        let mut c = Composer::default();
        assert_eq!(c.feed(b"x\x03"), []);
        assert_eq!(c.feed(b"\x03"), [Key::Interrupt]);
        assert_eq!(c.feed(b"\x1b"), [Key::Escape]);
        assert_eq!(c.feed(b"\x1b[Aq"), []);
        assert_eq!(c.draft(), "q");
    }
}
