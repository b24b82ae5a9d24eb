//! The last main-chain usage of a transcript, found from its end, so that a gigabyte costs as much as a megabyte. All
//! providers share the search; this file judges the lines of Claude Code, `rollout` those of Codex.
//!
//! Sidechains, synthetic answers and API errors say nothing about the context and are skipped. A compaction boundary
//! ends the search, because usage before it is not that of the present context.

use std::borrow::Cow;
use std::io::{self, Read, Seek, SeekFrom};

use jiff::Timestamp;
use serde::Deserialize;

use crate::scan::{self, Needle};
use crate::wire::claude::statusline::ApiUsage;
use crate::wire::lax;

/// How far back the search goes before it gives up.
pub const REACH: u64 = 8 * 1024 * 1024;
/// The first read: six of seven answers are in it, and a hook is a fresh process that pays for each page.
const FIRST: usize = 16 * 1024;
/// Each further read, or as much as is held already: a long line is then copied a bounded number of times.
const BLOCK: usize = 64 * 1024;

/// The result of searching the end of a transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tail {
    Usage(TailUsage),
    /// Nothing was answered since this compaction.
    Compacted(Compacted),
    /// The whole file was read and no answer was found.
    Nothing,
    /// There is neither usage nor boundary within `REACH`.
    OutOfReach,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TailUsage {
    /// Input and cache.
    pub tokens: u64,
    pub output: u64,
    /// As the record says; most clients do not.
    pub window: Option<u64>,
    pub model: Option<String>,
    pub at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compacted {
    /// The client compacted by itself; only then is `pre_tokens` where it does.
    pub auto: bool,
    /// The size of the context before it.
    pub pre_tokens: Option<u64>,
    /// The size after it; older clients do not say.
    pub post_tokens: Option<u64>,
    pub at: Option<Timestamp>,
}

/// Searches backward through a transcript of Claude Code, which may grow meanwhile, for at most `reach` bytes.
pub fn last_usage<R: Read + Seek>(transcript: &mut R, reach: u64) -> io::Result<Tail> {
    let judge = Judge::new();
    search(transcript, reach, |line| judge.line(line))
}

/// The first result of `judge` for the lines of `transcript`, from the last one backward.
pub(super) fn search<R: Read + Seek>(
    transcript: &mut R,
    reach: u64,
    judge: impl Fn(&[u8]) -> Option<Tail>,
) -> io::Result<Tail> {
    let mut start = transcript.seek(SeekFrom::End(0))?;
    let stop = start.saturating_sub(reach);
    // Bytes from `start` on that belong to no complete line yet.
    let mut held: Vec<u8> = Vec::new();
    let mut block = FIRST;
    while start > stop {
        let want = (start - stop).min(held.len().max(block) as u64);
        block = BLOCK;
        start -= want;
        let carried = held.len();
        let want = usize::try_from(want).unwrap_or(usize::MAX);
        held.resize(want + carried, 0);
        held.copy_within(..carried, want);
        transcript.seek(SeekFrom::Start(start))?;
        transcript.read_exact(&mut held[..want])?;

        // The carried bytes hold no newline, so only the new ones are searched for one.
        let mut end = held.len();
        let mut search = want;
        while let Some(newline) = scan::last(b'\n', &held[..search]) {
            if let Some(found) = judge(&held[newline + 1..end]) {
                return Ok(found);
            }
            (end, search) = (newline, newline);
        }
        held.truncate(end);
    }
    if start > 0 {
        return Ok(Tail::OutOfReach);
    }
    Ok(judge(&held).unwrap_or(Tail::Nothing))
}

/// The same for a transcript that is in memory.
pub fn last_usage_in(transcript: &[u8]) -> Tail {
    let judge = Judge::new();
    let mut rest = transcript;
    loop {
        let newline = scan::last(b'\n', rest);
        if let Some(found) = judge.line(&rest[newline.map_or(0, |n| n + 1)..]) {
            return found;
        }
        match newline {
            Some(newline) => rest = &rest[..newline],
            None => return Tail::Nothing,
        }
    }
}

/// Decides what one line means. Two substrings classify most lines before anything is parsed: they are keys in quotes,
/// which text inside a JSON string cannot imitate.
struct Judge {
    usage: Needle,
    boundary: Needle,
}

impl Judge {
    fn new() -> Self {
        Self { usage: Needle::new(b"\"usage\""), boundary: Needle::new(b"\"compact_boundary\"") }
    }

    fn line(&self, line: &[u8]) -> Option<Tail> {
        if !self.usage.is_in(line) && !self.boundary.is_in(line) {
            return None;
        }
        // An array would be read as a record whose fields come in order.
        if line.trim_ascii_start().first() != Some(&b'{') {
            return None;
        }
        // A torn last line does not parse and is skipped.
        let record: Record<'_> = serde_json::from_slice(line).ok()?;
        if record.is_sidechain {
            return None;
        }
        let at = record.timestamp.as_deref().and_then(|t| t.parse().ok());
        match record.kind.as_deref()? {
            "assistant" if !record.is_api_error => {
                let message = record.message?;
                let usage = message.usage.filter(|_| message.model.as_deref() != Some("<synthetic>"))?;
                Some(Tail::Usage(TailUsage {
                    tokens: usage.input()?,
                    output: usage.output_tokens.unwrap_or(0),
                    window: None,
                    model: message.model.map(Cow::into_owned),
                    at,
                }))
            }
            "system" if record.subtype.as_deref() == Some("compact_boundary") => {
                let metadata = record.compact_metadata.unwrap_or_default();
                Some(Tail::Compacted(Compacted {
                    auto: metadata.trigger.as_deref() == Some("auto"),
                    pre_tokens: metadata.pre_tokens,
                    post_tokens: metadata.post_tokens,
                    at,
                }))
            }
            _ => None,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record<'a> {
    #[serde(default, borrow, rename = "type", deserialize_with = "lax::text")]
    kind: Option<Cow<'a, str>>,
    #[serde(default, borrow, deserialize_with = "lax::text")]
    subtype: Option<Cow<'a, str>>,
    #[serde(default, deserialize_with = "lax::truth")]
    is_sidechain: bool,
    #[serde(default, rename = "isApiErrorMessage", deserialize_with = "lax::truth")]
    is_api_error: bool,
    #[serde(default, borrow, deserialize_with = "lax::text")]
    timestamp: Option<Cow<'a, str>>,
    #[serde(default, borrow, deserialize_with = "lax::object")]
    message: Option<Message<'a>>,
    #[serde(default, borrow, deserialize_with = "lax::object")]
    compact_metadata: Option<Metadata<'a>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(default, borrow, deserialize_with = "lax::text")]
    model: Option<Cow<'a, str>>,
    #[serde(default, deserialize_with = "lax::object")]
    usage: Option<ApiUsage>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(default, borrow, deserialize_with = "lax::text")]
    trigger: Option<Cow<'a, str>>,
    #[serde(default, deserialize_with = "lax::count")]
    pre_tokens: Option<u64>,
    #[serde(default, deserialize_with = "lax::count")]
    post_tokens: Option<u64>,
}
