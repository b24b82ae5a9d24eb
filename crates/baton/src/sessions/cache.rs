//! `cache/sessions`: what was read of transcripts, records and handoffs, so that a listing reads only what changed
//! since. It may be deleted at any time; one that is damaged, or of another version, is thrown away.
//!
//! Below its heading is what `packed` writes: a listing of thousands takes it as it lies in memory.

use std::path::{Path, PathBuf};

use baton_core::ids::SessionId;
use baton_core::process::Process;
use baton_core::transcript::summary::Ending;

use super::catalogue::{Failed, Row, Seen};
use super::packed::{self, Transcripts};
use super::sources::Stamp;
use crate::sys::fs::{self, PRIVATE, Sync};

/// A hundred thousand sessions take some thirty megabytes; more is not ours.
const MAX: u64 = 256 << 20;

/// Changes with the shape of what is kept and with the rules by which titles are made safe.
const SHAPE: u32 = 5;

#[derive(Debug, Default)]
pub struct Cache {
    pub transcripts: Transcripts,
    pub others: Others,
}

/// What is not kept with a transcript.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Others {
    /// When the folder of the records last changed, if it had been still for a while when it was read.
    pub records_changed: Option<i64>,
    pub links: super::links::Links,
    pub orphans: super::mirrors::Orphans,
}

/// One transcript, and our record of its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    pub stamp: Stamp,
    pub facts: Result<Facts, &'static str>,
    pub record: Recorded,
}

/// Our own record of a session, as far as it was looked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Recorded {
    #[default]
    NotLookedFor,
    None,
    Is(Stamp, Known),
}

/// What a transcript tells of itself. Texts are plain and redacted: they are shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    pub cwd: &'static str,
    pub branch: Option<&'static str>,
    pub title: &'static str,
    /// The title is only the order to continue from a handoff.
    pub continued: bool,
    /// Milliseconds.
    pub begun: Option<i64>,
    pub last: Option<i64>,
    pub tokens: Option<u64>,
    pub model: Option<&'static str>,
    pub ending: Ending,
    /// The id inside differs from the file's name, or the records are a subagent's.
    pub foreign: bool,
}

/// What our own record of a session says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    pub agent: &'static str,
    pub channel: &'static str,
    pub provider: &'static str,
    pub ended: Option<&'static str>,
    /// Only while it has not ended: whether it runs is asked of the system.
    pub process: Option<Box<Process>>,
}

/// A handoff, from the session that wrote it to the one that loaded it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    pub handoff: &'static str,
    pub from: SessionId,
    pub to: Option<SessionId>,
    pub kind: &'static str,
    pub status: &'static str,
    pub at: i64,
}

pub fn path(state: &Path) -> PathBuf {
    state.join("cache/sessions")
}

/// The cache as it was left; an empty one if there is none or it cannot be trusted.
pub fn load(state: &Path) -> Cache {
    // Whoever lists conversations does so once, and every row is made of it.
    let Ok(Some(bytes)) = fs::read_for_good(&path(state), MAX) else { return Cache::default() };
    let Some(newline) = memchr::memchr(b'\n', bytes) else { return Cache::default() };
    let (found, body) = (&bytes[..newline], &bytes[newline + 1..]);
    if found != heading(body).as_bytes() {
        return Cache::default();
    }
    packed::read(body).unwrap_or_default()
}

/// Keeps this for the next time. What cannot be written makes that slower, and nothing else.
pub fn store(state: &Path, rows: &[Box<Row>], failed: &[Failed], folders: &[Seen], others: &Others) {
    let path = path(state);
    let body = packed::write(rows, failed, folders, others);
    let mut bytes = heading(&body).into_bytes();
    bytes.push(b'\n');
    bytes.extend_from_slice(&body);
    let write = || fs::replace(&path, &bytes, PRIVATE, Sync::Later);
    if write().is_err() && fs::private_dir(path.parent().unwrap_or(Path::new("/"))).is_ok() {
        let _ = write();
    }
}

/// Tells a damaged file from a whole one; nobody has a reason to forge it. Four sums side by side, so that none waits for
/// the one before it.
fn checksum(bytes: &[u8]) -> u64 {
    const MIX: u64 = 0x517c_c1b7_2722_0a95;
    let step = |sum: u64, word: u64| (sum.rotate_left(5) ^ word).wrapping_mul(MIX);
    let (blocks, rest) = bytes.as_chunks::<32>();
    let mut sums = [1, 2, 3, 4];
    for block in blocks {
        for (sum, word) in sums.iter_mut().zip(block.as_chunks::<8>().0) {
            *sum = step(*sum, u64::from_le_bytes(*word));
        }
    }
    let sum = sums.into_iter().fold(bytes.len() as u64, step);
    rest.iter().fold(sum, |sum, byte| step(sum, u64::from(*byte)))
}

/// Says what follows, so that a torn or changed file is told apart from a whole one.
fn heading(body: &[u8]) -> String {
    format!("baton sessions {SHAPE} {} {:016x}", env!("CARGO_PKG_VERSION"), checksum(body))
}
