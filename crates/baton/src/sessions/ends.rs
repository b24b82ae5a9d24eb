//! Reads the two ends of a transcript, and more of either only where a few kilobytes do not tell enough.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use baton_core::transcript::Provider;
use baton_core::transcript::summary::Summary;

use crate::sys::fs;

/// The first read of the end: four of five transcripts need no more.
const FIRST: usize = 4 << 10;
/// What is no longer is read at once.
const SHORT: usize = 16 << 10;
/// Beyond this a conversation is listed with what is known of it.
const MOST: usize = 1 << 20;
/// So much of each end is kept of what comes as a stream.
const STREAM: u64 = 256 << 10;

/// Why a file is no transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct No {
    pub why: String,
    /// It may be one the next time, though it has not changed.
    pub passing: bool,
}

impl From<io::Error> for No {
    fn from(e: io::Error) -> Self {
        let is_gone = e.kind() == io::ErrorKind::NotFound;
        Self { why: if is_gone { "it has vanished".to_owned() } else { e.to_string() }, passing: true }
    }
}

/// What the ends of the transcript at `path` tell.
pub fn read(path: &Path, provider: Provider) -> Result<Summary, No> {
    let (file, about) = fs::open_regular(path)?;
    let size = about.len();
    let no = |why: &str| No { why: why.to_owned(), passing: false };
    if size == 0 {
        return Err(no("it is empty"));
    }
    let summary = BUFFER.with_borrow_mut(|buffer| {
        buffer.clear();
        of(&file, size, provider, buffer)
    });
    summary?.ok_or_else(|| no("no record in it can be read"))
}

/// The same of bytes that can only be read from the first to the last.
pub fn stream(mut reader: impl Read) -> Result<Summary, No> {
    let mut head = Vec::new();
    Read::by_ref(&mut reader).take(STREAM).read_to_end(&mut head)?;
    let mut tail = head.clone();
    loop {
        let kept = tail.len().saturating_sub(usize::try_from(STREAM).unwrap_or(usize::MAX));
        tail.drain(..kept);
        if Read::by_ref(&mut reader).take(STREAM).read_to_end(&mut tail)? == 0 {
            break;
        }
    }
    let mut summary = Summary::default();
    summary.head(&head);
    summary.tail(&tail);
    let no = || No { why: "no record in it can be read".to_owned(), passing: false };
    if summary.provider.is_some() { Ok(summary) } else { Err(no()) }
}

thread_local! {
    /// For thousands of files, one after the other.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

fn of(file: &File, size: u64, provider: Provider, buffer: &mut Vec<u8>) -> io::Result<Option<Summary>> {
    let mut summary = Summary::default();
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    let mut want = if size <= SHORT { SHORT } else { provider.head() };
    loop {
        let held = buffer.len();
        extend(file, buffer, held as u64, want.min(size))?;
        let whole = buffer.len() >= size || buffer.len() < want;
        if summary.head(buffer) || whole || want >= MOST {
            break;
        }
        want *= 4;
    }
    if buffer.len() >= size {
        summary.tail(buffer);
        return Ok(summary.provider.is_some().then_some(summary));
    }
    let mut want = FIRST;
    loop {
        let from = size.saturating_sub(want) as u64;
        buffer.clear();
        extend(file, buffer, from, want.min(size))?;
        if summary.tail(buffer) || from == 0 || want >= MOST {
            return Ok(summary.provider.is_some().then_some(summary));
        }
        want *= 4;
    }
}

/// Reads from `at` until `buffer` holds `want` bytes or more, or the file ends, which may have been cut meanwhile.
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
