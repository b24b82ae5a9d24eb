//! `cache/sessions.json`: what was read of transcripts, records and handoffs, so that a listing reads only what changed
//! since. It may be deleted at any time; one that is damaged, or of another version, is thrown away.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use baton_core::ids::SessionId;
use baton_core::process::Process;
use baton_core::transcript::summary::Ending;
use serde::{Deserialize, Serialize};

use super::sources::Stamp;
use crate::sys::fs::{self, PRIVATE, Sync};

/// A hundred thousand sessions take some forty megabytes; more is not ours.
const MAX: u64 = 256 << 20;

/// Changes with the shape of what is kept and with the rules by which titles are made safe.
const SHAPE: u32 = 2;

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Cache {
    /// By the path of the transcript.
    #[serde(rename = "t")]
    pub transcripts: HashMap<String, Kept>,
    /// By the id of the session.
    #[serde(rename = "r")]
    pub records: HashMap<SessionId, (Stamp, Known)>,
    /// When the folder of the records last changed, if it had been still for a while when it was read.
    #[serde(rename = "d")]
    pub records_changed: Option<i64>,
    /// By channel; the stamps of its manifest and its history.
    #[serde(rename = "h")]
    pub links: HashMap<String, ([Option<Stamp>; 2], Vec<Link>)>,
    #[serde(rename = "o")]
    pub orphans: super::mirrors::Orphans,
}

/// One transcript.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Kept {
    #[serde(rename = "k")]
    pub stamp: Stamp,
    #[serde(rename = "f")]
    pub facts: Result<Facts, String>,
}

/// What a transcript tells of itself. Texts are plain and redacted: they are shown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    #[serde(rename = "c", default, skip_serializing_if = "String::is_empty")]
    pub cwd: String,
    #[serde(rename = "g", default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    #[serde(rename = "t", default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// The title is only the order to continue from a handoff.
    #[serde(rename = "o", default, skip_serializing_if = "std::ops::Not::not")]
    pub continued: bool,
    /// Milliseconds.
    #[serde(rename = "b", default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<i64>,
    #[serde(rename = "l", default, skip_serializing_if = "Option::is_none")]
    pub last: Option<i64>,
    #[serde(rename = "n", default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    #[serde(rename = "m", default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(rename = "e", default)]
    pub ending: Ending,
    /// The id inside differs from the file's name, or the records are a subagent's.
    #[serde(rename = "x", default, skip_serializing_if = "std::ops::Not::not")]
    pub foreign: bool,
}

/// What our own record of a session says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    #[serde(rename = "a")]
    pub agent: String,
    #[serde(rename = "c")]
    pub channel: String,
    #[serde(rename = "p")]
    pub provider: String,
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// Only while it has not ended: whether it runs is asked of the system.
    #[serde(rename = "q", default, skip_serializing_if = "Option::is_none")]
    pub process: Option<Process>,
}

/// A handoff, from the session that wrote it to the one that loaded it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    #[serde(rename = "i")]
    pub handoff: String,
    #[serde(rename = "f")]
    pub from: SessionId,
    #[serde(rename = "t", default, skip_serializing_if = "Option::is_none")]
    pub to: Option<SessionId>,
    #[serde(rename = "k")]
    pub kind: String,
    #[serde(rename = "s")]
    pub status: String,
    #[serde(rename = "a")]
    pub at: i64,
}

pub fn path(state: &Path) -> PathBuf {
    state.join("cache/sessions.json")
}

/// The cache as it was left; an empty one if there is none or it cannot be trusted.
pub fn load(state: &Path) -> Cache {
    let path = path(state);
    let Ok(Some(bytes)) = fs::read(&path, MAX) else { return Cache::default() };
    let Some(newline) = memchr::memchr(b'\n', &bytes) else { return Cache::default() };
    let (head, body) = (&bytes[..newline], &bytes[newline + 1..]);
    if head != heading(body).as_bytes() {
        return Cache::default();
    }
    serde_json::from_slice(body).unwrap_or_default()
}

/// Keeps `cache` for the next time. One that cannot be written makes that slower, and nothing else.
pub fn store(state: &Path, cache: &Cache) {
    let path = path(state);
    let Ok(body) = serde_json::to_vec(cache) else { return };
    let mut bytes = heading(&body).into_bytes();
    bytes.push(b'\n');
    bytes.extend_from_slice(&body);
    let write = || fs::replace(&path, &bytes, PRIVATE, Sync::Later);
    if write().is_err() && fs::private_dir(path.parent().unwrap_or(Path::new("/"))).is_ok() {
        let _ = write();
    }
}

/// Tells a damaged file from a whole one, eight bytes at a step; nobody has a reason to forge it.
fn checksum(bytes: &[u8]) -> u64 {
    const MIX: u64 = 0x517c_c1b7_2722_0a95;
    let (words, rest) = bytes.as_chunks::<8>();
    let step = |sum: u64, word: u64| (sum.rotate_left(5) ^ word).wrapping_mul(MIX);
    let sum = words.iter().fold(bytes.len() as u64, |sum, word| step(sum, u64::from_le_bytes(*word)));
    rest.iter().fold(sum, |sum, byte| step(sum, u64::from(*byte)))
}

/// Says what follows, so that a torn or changed file is told apart from a whole one.
fn heading(body: &[u8]) -> String {
    format!("baton sessions {SHAPE} {} {:016x}", env!("CARGO_PKG_VERSION"), checksum(body))
}
