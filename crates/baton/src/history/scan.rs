//! Finds the lines of a transcript that may match a query, about as fast as the file can be read: searches the raw
//! bytes for a piece of the query that JSON stores verbatim.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use baton_core::search::any_case::AnyCase;
use baton_core::search::{Needle, Query};
use baton_core::transcript::lines::MAX_LINE;
use memchr::{memchr, memmem, memrchr};

/// Fits into a processor's cache together with the rest of its working set.
const CHUNK: usize = 256 << 10;

/// A cheap test of whether a line is worth parsing.
pub(crate) struct Prefilter {
    /// Rarest piece first; empty if any line may match.
    pieces: Vec<Piece>,
}

enum Piece {
    Exact(Box<memmem::Finder<'static>>),
    AnyCase(AnyCase),
    /// Letters beyond ASCII, whose other case is not one bit away.
    Unicode(regex::bytes::Regex),
}

impl Piece {
    fn of(needle: &Needle) -> Option<Self> {
        if !needle.any_case || !needle.text.chars().any(char::is_alphabetic) {
            return Some(Self::Exact(Box::new(memmem::Finder::new(needle.text.as_bytes()).into_owned())));
        }
        if let Some(finder) = AnyCase::new(&needle.text) {
            return Some(Self::AnyCase(finder));
        }
        let regex =
            regex::bytes::RegexBuilder::new(&regex::escape(&needle.text)).case_insensitive(true).build();
        regex.ok().map(Self::Unicode)
    }

    fn find(&self, bytes: &[u8]) -> Option<usize> {
        match self {
            Self::Exact(finder) => finder.find(bytes),
            Self::AnyCase(finder) => finder.find(bytes),
            Self::Unicode(regex) => regex.find(bytes).map(|m| m.start()),
        }
    }
}

impl Prefilter {
    pub(crate) fn new(query: &Query) -> Self {
        Self { pieces: query.needles().into_iter().filter_map(Piece::of).collect() }
    }

    /// Calls `each` with every line of `whole` that may match, and with everything before it.
    fn lines<'b>(&self, whole: &'b [u8], mut each: impl FnMut(usize, &'b [u8], &'b [u8])) {
        let Some((first, others)) = self.pieces.split_first() else {
            let mut at = 0;
            for line in whole.split_inclusive(|b| *b == b'\n') {
                each(at, line, &whole[..at]);
                at += line.len();
            }
            return;
        };
        let mut from = 0;
        while let Some(found) = first.find(&whole[from..]).map(|n| from + n) {
            let start = memrchr(b'\n', &whole[from..found]).map_or(from, |n| from + n + 1);
            let end = memchr(b'\n', &whole[found..]).map_or(whole.len(), |n| found + n + 1);
            let line = &whole[start..end];
            if others.iter().all(|piece| piece.find(line).is_some()) {
                each(start, line, &whole[..start]);
            }
            from = end;
        }
    }
}

/// How far a search has got, and whether it should stop.
#[derive(Debug, Default)]
pub(crate) struct SearchProgress {
    pub bytes: AtomicU64,
    pub stop: Arc<AtomicBool>,
}

/// Reads `reader` to its end. `each` gets the offset of a line that may match, the line, and the bytes just before it.
/// Returns how many lines were skipped for being longer than any record.
pub(crate) fn scan(
    mut reader: impl Read,
    prefilter: &Prefilter,
    buffer: &mut Vec<u8>,
    progress: &SearchProgress,
    mut each: impl FnMut(u64, &[u8], &[u8]),
) -> io::Result<u64> {
    if buffer.len() != CHUNK {
        buffer.clear();
        buffer.resize(CHUNK, 0);
    }
    // The buffer's offset in the file, and how many of its bytes begin an unfinished line.
    let (mut base, mut held) = (0_u64, 0_usize);
    let (mut skipping, mut too_long) = (false, 0);
    while !progress.stop.load(Ordering::Relaxed) {
        if held == buffer.len() {
            if held > MAX_LINE {
                (skipping, base, held) = (true, base + held as u64, 0);
                too_long += 1;
                buffer.truncate(CHUNK);
            } else {
                buffer.resize(held * 2, 0);
            }
        }
        let got = match reader.read(&mut buffer[held..]) {
            Ok(got) => got,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        };
        progress.bytes.fetch_add(got as u64, Ordering::Relaxed);
        if got == 0 {
            // Parse a last line without a newline like any other; it counts if it is complete.
            prefilter.lines(&buffer[..held], |at, line, before| each(base + at as u64, line, before));
            return Ok(too_long);
        }
        let mut end = held + got;
        if skipping {
            let Some(newline) = memchr(b'\n', &buffer[..end]) else {
                base += end as u64;
                continue;
            };
            buffer.copy_within(newline + 1..end, 0);
            (skipping, base, held, end) = (false, base + newline as u64 + 1, 0, end - newline - 1);
        }
        let Some(last) = memrchr(b'\n', &buffer[held..end]).map(|n| held + n + 1) else {
            held = end;
            continue;
        };
        prefilter.lines(&buffer[..last], |at, line, before| each(base + at as u64, line, before));
        buffer.copy_within(last..end, 0);
        (base, held) = (base + last as u64, end - last);
        if buffer.len() > CHUNK && held < CHUNK {
            buffer.truncate(CHUNK);
        }
    }
    Ok(too_long)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a few bytes at a time, as a slow disk does.
    struct Slow<'a>(&'a [u8], usize);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let n = self.1.min(self.0.len()).min(buffer.len());
            buffer[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    fn found(text: &[u8], step: usize, query: &str) -> (Vec<(u64, String)>, u64) {
        let mut hits = Vec::new();
        let prefilter = Prefilter::new(&Query::words(query).unwrap());
        let each =
            |at: u64, line: &[u8], _: &[u8]| hits.push((at, String::from_utf8_lossy(line).trim().to_owned()));
        let too_long =
            scan(Slow(text, step), &prefilter, &mut Vec::new(), &SearchProgress::default(), each).unwrap();
        (hits, too_long)
    }

    #[test]
    fn every_matching_line_is_found_once_with_its_offset_however_the_bytes_arrive() {
        let text = b"one apple\n\npear Apple apple\nplum\ntorn APPLE";
        for step in [1, 2, 7, 100] {
            let (hits, _) = found(text, step, "apple");
            let want = [(0, "one apple"), (11, "pear Apple apple"), (33, "torn APPLE")];
            assert_eq!(hits, want.map(|(n, t)| (n, t.to_owned())), "{step}");
        }
        assert_eq!(found(text, 9, "apple pear").0.len(), 1, "all pieces must be in the line");
        assert_eq!(found(text, 9, "Apple").0.len(), 1, "a capital letter matches only itself");
    }

    #[test]
    fn a_line_longer_than_any_record_is_skipped_and_what_follows_is_found() {
        let mut text = b"first apple\n".to_vec();
        text.extend(std::iter::repeat_n(b'x', MAX_LINE * 2 + 5));
        text.extend_from_slice(b" apple\nlast apple\n");
        let (hits, too_long) = found(&text, 100_000, "apple");
        assert_eq!(hits.iter().map(|(_, t)| t.as_str()).collect::<Vec<_>>(), ["first apple", "last apple"]);
        assert_eq!(hits[1].0, text.len() as u64 - 11);
        assert_eq!(too_long, 1);
        let mut long = std::iter::repeat_n(b'x', CHUNK * 3).collect::<Vec<_>>();
        long.extend_from_slice(b" apple\n");
        assert_eq!(found(&long, 100_000, "apple").0.len(), 1, "a long line is still a line");
    }
}
