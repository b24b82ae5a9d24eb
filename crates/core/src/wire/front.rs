//! Finds the end of the one JSON object that a hook receives, without waiting for the end of its input.
//!
//! A client may leave a hook's stdin open for minutes. The scanner keeps its position between reads, so a payload in
//! many pieces is still scanned once.

use crate::scan::Either;

/// The state after scanning everything that has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Front {
    /// The object ends before this index; ignore whatever follows.
    Complete(usize),
    Incomplete,
    /// The input does not begin with an object and never will.
    Garbage,
}

/// Looks for the end of the first object in a growing buffer.
#[derive(Debug, Clone, Copy, Default)]
pub struct FrontScanner {
    at: usize,
    depth: u32,
    in_string: bool,
    escaped: bool,
}

impl FrontScanner {
    /// `buffer` has everything read so far, including the input of earlier calls.
    pub fn feed(&mut self, buffer: &[u8]) -> Front {
        let ends = Either::new(b'"', b'\\');
        while let Some(&b) = buffer.get(self.at) {
            if self.escaped {
                self.escaped = false;
            } else if self.in_string {
                match ends.find(&buffer[self.at..]) {
                    None => {
                        self.at = buffer.len();
                        return Front::Incomplete;
                    }
                    Some(skip) => {
                        self.at += skip;
                        if buffer[self.at] == b'"' {
                            self.in_string = false;
                        } else {
                            self.escaped = true;
                        }
                    }
                }
            } else {
                match b {
                    b'{' | b'[' if self.depth > 0 || b == b'{' => self.depth += 1,
                    b'}' | b']' if self.depth > 0 => {
                        self.depth -= 1;
                        if self.depth == 0 {
                            return Front::Complete(self.at + 1);
                        }
                    }
                    b'"' if self.depth > 0 => self.in_string = true,
                    _ if self.depth > 0 || b.is_ascii_whitespace() => {}
                    _ => return Front::Garbage,
                }
            }
            self.at += 1;
        }
        Front::Incomplete
    }
}

/// The same for a complete buffer.
pub fn front(buffer: &[u8]) -> Front {
    FrontScanner::default().feed(buffer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_object_ends_where_its_brace_closes_and_what_follows_is_left() {
        assert_eq!(front(b"{\"a\":1}"), Front::Complete(7));
        assert_eq!(front(b" \n{\"a\":[{}]}\ntrailing {"), Front::Complete(12));
        assert_eq!(front(br#"{"a":"} \" }"}x"#), Front::Complete(14));
        assert_eq!(front(br#"{"a":"\\"}"#), Front::Complete(10));
    }

    #[test]
    fn less_than_an_object_is_incomplete_and_anything_else_is_garbage() {
        for part in ["", "  \n", "{", "{\"a", "{\"a\\", "{\"a\":[1,2]", "{\"a\":\"}"] {
            assert_eq!(front(part.as_bytes()), Front::Incomplete, "{part:?}");
        }
        for bad in ["x", "[1]", "\"{}\"", "null", "}", "\u{feff}{}", "\0"] {
            assert_eq!(front(bad.as_bytes()), Front::Garbage, "{bad:?}");
        }
    }

    proptest! {
        /// However the bytes are cut into reads, the scanner finds the same end, which is where a JSON parser stops.
        #[test]
        fn pieces_find_the_same_end_as_the_whole(text in "[\\PC\"\\\\{}\\[\\]]{0,40}", cut in 1usize..7, junk in "[ -~]{0,8}") {
            let mut bytes = serde_json::to_vec(&serde_json::json!({ text.clone(): [text, {"n": 1}] })).unwrap();
            let end = bytes.len();
            bytes.extend_from_slice(junk.as_bytes());
            let mut scanner = FrontScanner::default();
            let mut seen = 0;
            let found = loop {
                seen = (seen + cut).min(bytes.len());
                match scanner.feed(&bytes[..seen]) {
                    Front::Incomplete if seen < bytes.len() => {}
                    other => break other,
                }
            };
            prop_assert_eq!(found, Front::Complete(end));
        }

        #[test]
        fn no_bytes_make_it_panic_or_point_outside(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Front::Complete(end) = front(&bytes) {
                prop_assert!(end <= bytes.len());
            }
        }
    }
}
