//! Lines of a growing file, with bounded memory: a line longer than the limit is skipped and counted, and a last line
//! without its newline is only taken when it is complete.

use std::io::{self, BufRead};

/// Longest line that is kept in memory. Images in a record reach a few megabytes; anything longer is not a
/// conversation.
pub const MAX_LINE: usize = 8 << 20;

/// One line as the driver found it.
#[derive(Debug)]
pub enum Line<'a> {
    /// A whole line without its newline.
    Whole(&'a [u8]),
    /// The end of the file without a newline: still being written, or cut by a crash.
    Torn(&'a [u8]),
    /// Longer than the limit; its bytes are gone.
    TooLong(u64),
}

/// Calls `each` for every line from `start` on with the offset of its first byte, and returns the offset after the last
/// line that ended with a newline.
pub fn for_each(
    mut reader: impl BufRead,
    start: u64,
    limit: usize,
    mut each: impl FnMut(Line<'_>, u64),
) -> io::Result<u64> {
    let mut held: Vec<u8> = Vec::new();
    let mut at = start;
    // Bytes of the current line seen so far, kept or not.
    let mut seen: u64 = 0;
    loop {
        let chunk = match reader.fill_buf() {
            Ok(chunk) => chunk,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        };
        if chunk.is_empty() {
            if seen > limit as u64 {
                each(Line::TooLong(seen), at);
            } else if seen > 0 {
                each(Line::Torn(&held), at);
            }
            return Ok(at);
        }
        let newline = memchr::memchr(b'\n', chunk);
        let (part, used) = newline.map_or((chunk, chunk.len()), |i| (&chunk[..i], i + 1));
        seen += part.len() as u64;
        if newline.is_some() {
            if seen > limit as u64 {
                each(Line::TooLong(seen), at);
            } else if held.is_empty() {
                each(Line::Whole(part), at);
            } else {
                held.extend_from_slice(part);
                each(Line::Whole(&held), at);
            }
            at += seen + 1;
            seen = 0;
            held.clear();
        } else if seen <= limit as u64 {
            held.extend_from_slice(part);
        } else {
            held = Vec::new();
        }
        reader.consume(used);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(bytes: &[u8], start: u64, limit: usize, buffer: usize) -> (Vec<(String, u64)>, u64) {
        let mut seen = Vec::new();
        let reader = io::BufReader::with_capacity(buffer, bytes);
        let end = for_each(reader, start, limit, |line, at| {
            let text = match line {
                Line::Whole(b) => format!("whole {}", String::from_utf8_lossy(b)),
                Line::Torn(b) => format!("torn {}", String::from_utf8_lossy(b)),
                Line::TooLong(n) => format!("too long {n}"),
            };
            seen.push((text, at));
        })
        .unwrap();
        (seen, end)
    }

    #[test]
    fn every_line_comes_with_its_offset_whatever_the_buffer() {
        for buffer in 1..12 {
            let (seen, end) = run(b"ab\n\ncdefg\nh", 100, 4, buffer);
            let want = [("whole ab", 100), ("whole ", 103), ("too long 5", 104), ("torn h", 110)]
                .map(|(t, o)| (t.to_owned(), o));
            assert_eq!(seen, want, "buffer {buffer}");
            assert_eq!(end, 110, "a torn tail is read again next time");
        }
    }
}
