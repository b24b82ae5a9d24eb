//! Reads one JSON value from standard input, without waiting for an end of input that may never come.

use std::fmt::Display;
use std::io;
use std::time::{Duration, Instant};

use baton_core::wire::front::{Front, FrontScanner};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Clients' payloads are smaller than this; reading more would only cost time.
const MAX: usize = 64 << 20;

/// Most payloads fit into this.
const CHUNK: usize = 8 << 10;

#[derive(Debug, thiserror::Error)]
pub(crate) enum InputError {
    #[error("nothing more came for {0:?}")]
    Silence(Duration),
    #[error("the input does not begin with a JSON object")]
    Garbage,
    #[error("the input ended after {0} bytes, before the JSON object did")]
    Torn(usize),
    #[error("the input is larger than 64 MiB")]
    TooLarge,
    #[error("standard input could not be read: {0}")]
    Io(#[from] io::Error),
}

/// The first JSON object on standard input. Gives up after `patience` of silence.
pub(crate) fn read_object(patience: Duration) -> Result<Vec<u8>, InputError> {
    object(read_some(patience)?, patience)
}

/// Like [`read_object`], parsed, with the bytes. They are leaked, because a hook ends when it has answered.
pub(crate) fn payload<T, E: Display>(
    patience: Duration,
    parse: impl Fn(&'static [u8]) -> Result<T, E>,
) -> Result<(T, &'static [u8]), String> {
    let first: &[u8] = read_some(patience).map_err(|e| e.to_string())?.leak();
    // Nearly every payload arrives in one piece, and parsing it shows that it is complete, so try that before scanning.
    let bytes = first.trim_ascii();
    if bytes.first() == Some(&b'{')
        && bytes.last() == Some(&b'}')
        && let Ok(parsed) = parse(bytes)
    {
        return Ok((parsed, bytes));
    }
    let bytes: &[u8] = object(first.to_vec(), patience).map_err(|e| e.to_string())?.leak();
    parse(bytes).map(|parsed| (parsed, bytes)).map_err(|e| e.to_string())
}

/// Reads the available bytes, at least one.
fn read_some(patience: Duration) -> Result<Vec<u8>, InputError> {
    let mut buffer = Vec::with_capacity(CHUNK);
    more(&mut buffer, patience)?;
    Ok(buffer)
}

fn more(buffer: &mut Vec<u8>, patience: Duration) -> Result<(), InputError> {
    let stdin = rustix::stdio::stdin();
    loop {
        wait(stdin, patience)?;
        // Grow the buffer only when it is full: a pipe gives 64 KiB at a time, however much room it is offered.
        if buffer.capacity() - buffer.len() < CHUNK {
            buffer.reserve(buffer.len().max(CHUNK));
        }
        match rustix::io::read(stdin, rustix::buffer::spare_capacity(buffer)) {
            Ok(0) => return Err(InputError::Torn(buffer.len())),
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            Err(e) => return Err(io::Error::from(e).into()),
        }
    }
}

/// Reads the rest of the object that begins with these bytes.
fn object(mut buffer: Vec<u8>, patience: Duration) -> Result<Vec<u8>, InputError> {
    let mut scanner = FrontScanner::default();
    loop {
        match scanner.feed(&buffer) {
            Front::Complete(end) => {
                buffer.truncate(end);
                return Ok(buffer);
            }
            Front::Incomplete if buffer.len() > MAX => return Err(InputError::TooLarge),
            Front::Incomplete => {}
            Front::Garbage => return Err(InputError::Garbage),
        }
        more(&mut buffer, patience)?;
    }
}

fn wait(stdin: rustix::fd::BorrowedFd<'_>, patience: Duration) -> Result<(), InputError> {
    let mut left = patience;
    // Read the clock only after an interruption.
    let mut began = None;
    loop {
        let timeout = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
        match poll(&mut fds, Some(&timeout)) {
            Ok(0) => return Err(InputError::Silence(patience)),
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {
                left = patience.saturating_sub(began.get_or_insert_with(Instant::now).elapsed());
            }
            Err(e) => return Err(io::Error::from(e).into()),
        }
    }
}
