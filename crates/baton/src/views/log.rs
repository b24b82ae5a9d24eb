//! The log's lines about an agent.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use baton_core::ids::AgentId;
use jiff::{SignedDuration, Timestamp};
use memchr::memmem;

use crate::store::Store;
use crate::store::log::LogLine;
use crate::sys::fs;

/// The default number of lines in an answer.
pub(crate) const USUAL: usize = 200;
const DAY: SignedDuration = SignedDuration::from_hours(24);
/// Maximum bytes read from the end of the log; far more than a day of many agents.
const MAX_LOG: u64 = 64 << 20;
const CHUNK: u64 = 4 << 20;

/// The newest lines of the last day about an agent, oldest first.
pub(crate) fn recent(store: &Store, id: &AgentId, limit: usize) -> Vec<LogLine> {
    let mut lines = lines(store, id, Timestamp::now() - DAY);
    let more = lines.len().saturating_sub(limit);
    lines.drain(..more);
    lines
}

/// The log's lines about an agent, oldest first.
pub(crate) fn lines(store: &Store, id: &AgentId, since: Timestamp) -> Vec<LogLine> {
    let log = store.log();
    let folder = log.folder();
    let first = jiff::tz::Offset::UTC.to_datetime(since).date().to_string();
    let mut days: Vec<String> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|e| Some(e.file_name().to_str()?.strip_suffix(".jsonl")?.to_owned()))
        .filter(|day| *day >= first)
        .collect();
    days.sort();
    let needle = format!("\"agent\":\"{id}\"");
    let mut budget = MAX_LOG;
    let mut found: Vec<LogLine> = Vec::new();
    for day in days.iter().rev() {
        // Newest first, so that the budget goes to the displayed lines.
        let mut of_day = of_file(&folder.join(format!("{day}.jsonl")), needle.as_bytes(), since, &mut budget);
        of_day.append(&mut found);
        found = of_day;
        if budget == 0 {
            break;
        }
    }
    found
}

/// One day's lines that contain `needle`, read from the end until one is older than `since`.
fn of_file(path: &Path, needle: &[u8], since: Timestamp, budget: &mut u64) -> Vec<LogLine> {
    let Ok(mut file) = fs::open_read(path) else { return Vec::new() };
    let Ok(mut end) = file.seek(SeekFrom::End(0)) else { return Vec::new() };
    let finder = memmem::Finder::new(needle);
    let mut newest_first: Vec<LogLine> = Vec::new();
    let mut held: Vec<u8> = Vec::new();
    while end > 0 && *budget > 0 {
        let take = CHUNK.min(end).min(*budget);
        *budget -= take;
        end -= take;
        let mut bytes = Vec::with_capacity(usize::try_from(take).unwrap_or(0) + held.len());
        let read =
            file.seek(SeekFrom::Start(end)).and_then(|_| (&mut file).take(take).read_to_end(&mut bytes));
        if read.is_err() {
            break;
        }
        bytes.append(&mut held);
        // The first line is complete only at the beginning of the file.
        let whole = if end == 0 { 0 } else { memchr::memchr(b'\n', &bytes).map_or(bytes.len(), |n| n + 1) };
        for at in finder.find_iter(&bytes[whole..]).collect::<Vec<_>>().into_iter().rev() {
            let at = whole + at;
            let start = memchr::memrchr(b'\n', &bytes[..at]).map_or(0, |n| n + 1);
            let stop = memchr::memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |n| at + n);
            if let Ok(line) = serde_json::from_slice::<LogLine>(&bytes[start..stop]) {
                if line.at < since {
                    newest_first.reverse();
                    return newest_first;
                }
                newest_first.push(line);
            }
        }
        held = bytes[..whole].to_vec();
    }
    newest_first.reverse();
    newest_first
}
