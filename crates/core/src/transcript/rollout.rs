//! The last token count of a Codex rollout, found from its end.
//!
//! Only `last_token_usage` says how full the context is: `total_token_usage` adds up every request of the thread. A
//! count without figures (rate limits alone) is skipped; a compaction ends the search, because the count before it is
//! that of the compaction's own request. The count after it is the client's estimate, and the best there is.

use std::borrow::Cow;
use std::io::{self, Read, Seek};

use serde::Deserialize;

use super::tail::{Compacted, Tail, TailUsage, search};
use crate::scan::Needle;
use crate::wire::lax;

/// Searches backward through `rollout`, which may grow meanwhile, for at most `reach` bytes.
pub fn last_usage<R: Read + Seek>(rollout: &mut R, reach: u64) -> io::Result<Tail> {
    let judge = Judge::new();
    search(rollout, reach, |line| judge.line(line))
}

/// These are keys and values in quotes, which text inside a JSON string cannot imitate.
struct Judge {
    count: Needle,
    compacted: Needle,
}

impl Judge {
    fn new() -> Self {
        Self { count: Needle::new(b"\"token_count\""), compacted: Needle::new(b"\"compacted\"") }
    }

    fn line(&self, line: &[u8]) -> Option<Tail> {
        if !self.count.is_in(line) && !self.compacted.is_in(line) {
            return None;
        }
        // An array would be read as a record whose fields come in order.
        if line.trim_ascii_start().first() != Some(&b'{') {
            return None;
        }
        // A torn last line does not parse and is skipped.
        let record: Record<'_> = serde_json::from_slice(line).ok()?;
        let at = record.timestamp.as_deref().and_then(|t| t.parse().ok());
        match record.kind.as_deref()? {
            "event_msg" => {
                let payload = record.payload?;
                let info = payload.info.filter(|_| payload.kind.as_deref() == Some("token_count"))?;
                let tokens = info.last_token_usage?.total_tokens.filter(|&n| n > 0)?;
                let window = info.model_context_window.filter(|&w| w > 0);
                Some(Tail::Usage(TailUsage { tokens, output: 0, window, model: None, at }))
            }
            // The rollout does not say whether it was automatic; the hook before it does.
            "compacted" => {
                Some(Tail::Compacted(Compacted { auto: false, pre_tokens: None, post_tokens: None, at }))
            }
            _ => None,
        }
    }
}

#[derive(Deserialize)]
struct Record<'a> {
    #[serde(default, borrow, rename = "type", deserialize_with = "lax::text")]
    kind: Option<Cow<'a, str>>,
    #[serde(default, borrow, deserialize_with = "lax::text")]
    timestamp: Option<Cow<'a, str>>,
    #[serde(default, borrow, deserialize_with = "lax::object")]
    payload: Option<Payload<'a>>,
}

#[derive(Deserialize)]
struct Payload<'a> {
    #[serde(default, borrow, rename = "type", deserialize_with = "lax::text")]
    kind: Option<Cow<'a, str>>,
    #[serde(default, deserialize_with = "lax::object")]
    info: Option<Info>,
}

#[derive(Deserialize)]
struct Info {
    #[serde(default, deserialize_with = "lax::object")]
    last_token_usage: Option<Used>,
    #[serde(default, deserialize_with = "lax::count")]
    model_context_window: Option<u64>,
}

#[derive(Deserialize)]
struct Used {
    #[serde(default, deserialize_with = "lax::count")]
    total_tokens: Option<u64>,
}
