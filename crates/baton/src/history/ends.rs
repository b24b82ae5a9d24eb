//! Reads the two ends of a transcript, and more of either only if a few kilobytes do not suffice.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use baton_core::transcript::Dialect;
use baton_core::transcript::summary::Summary;

use crate::sys::fs;

/// How much of the end to read first. It suffices for four of five transcripts.
const FIRST: usize = 4 << 10;
/// A file up to this size is read whole.
const SHORT: usize = 16 << 10;
/// Beyond this, list a conversation with what is known.
const MOST: usize = 1 << 20;
/// How much of each end to keep of a stream.
const STREAM: u64 = 256 << 10;

/// Why a file cannot be listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unreadable {
    pub why: String,
    /// The cause is outside the file: the next attempt may succeed even if the file does not change.
    pub passing: bool,
}

impl Unreadable {
    fn for_good(why: &str) -> Self {
        Self { why: why.to_owned(), passing: false }
    }
}

impl From<io::Error> for Unreadable {
    fn from(e: io::Error) -> Self {
        let is_gone = e.kind() == io::ErrorKind::NotFound;
        Self { why: if is_gone { "it has vanished".to_owned() } else { e.to_string() }, passing: true }
    }
}

const NO_RECORD: &str = "no record in it can be read";

/// Summarises the two ends of the transcript at `path`.
pub(crate) fn read(path: &Path, provider: Dialect) -> Result<Summary, Unreadable> {
    let (file, about) = fs::open_regular(path)?;
    if about.len() == 0 {
        return Err(Unreadable::for_good("it is empty"));
    }
    let summary = summarize(&file, usize::try_from(about.len()).unwrap_or(usize::MAX), provider)?;
    if summary.provider.is_some() { Ok(summary) } else { Err(Unreadable::for_good(NO_RECORD)) }
}

/// The same for bytes that can only be read in order.
pub(crate) fn read_stream(mut reader: impl Read) -> Result<Summary, Unreadable> {
    let mut head = Vec::new();
    Read::by_ref(&mut reader).take(STREAM).read_to_end(&mut head)?;
    let mut tail = head.clone();
    loop {
        let surplus = tail.len().saturating_sub(usize::try_from(STREAM).unwrap_or(usize::MAX));
        tail.drain(..surplus);
        if Read::by_ref(&mut reader).take(STREAM).read_to_end(&mut tail)? == 0 {
            break;
        }
    }
    let mut summary = Summary::default();
    summary.head(&head);
    summary.tail(&tail);
    if summary.provider.is_some() { Ok(summary) } else { Err(Unreadable::for_good(NO_RECORD)) }
}

fn summarize(file: &File, size: usize, provider: Dialect) -> io::Result<Summary> {
    let mut summary = Summary::default();
    let mut buffer = Vec::new();
    let mut want = if size <= SHORT { SHORT } else { provider.head() };
    loop {
        let held = buffer.len();
        extend(file, &mut buffer, held as u64, want.min(size))?;
        let is_whole = buffer.len() >= size || buffer.len() < want;
        if summary.head(&buffer) || is_whole || want >= MOST {
            break;
        }
        want *= 4;
    }
    if buffer.len() >= size {
        summary.tail(&buffer);
        return Ok(summary);
    }
    let mut want = FIRST;
    loop {
        let from = size.saturating_sub(want) as u64;
        buffer.clear();
        extend(file, &mut buffer, from, want.min(size))?;
        if summary.tail(&buffer) || from == 0 || want >= MOST {
            return Ok(summary);
        }
        want *= 4;
    }
}

/// Reads from `at` until `buffer` holds `want` bytes or the file ends; it may have been truncated meanwhile.
fn extend(file: &File, buffer: &mut Vec<u8>, at: u64, want: usize) -> io::Result<()> {
    let held = buffer.len();
    let mut end = held;
    buffer.resize(want.max(held), 0);
    while end < want {
        match file.read_at(&mut buffer[end..], at + (end - held) as u64) {
            Ok(0) => break,
            Ok(read) => end += read,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    buffer.truncate(end);
    Ok(())
}
