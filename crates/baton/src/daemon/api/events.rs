//! `GET /events`: what happens, as it happens, from the log (server-sent events).
//!
//! The id of an event is its place in the log, so a reader that lost its connection goes on where it was.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use hyper::body::Bytes;
use tokio::sync::mpsc;

use super::super::Daemon;
use super::super::rt::{First, first};
use super::{Ask, Reply, query};
use crate::store::log::{Line, folder};

/// Readers at once; each costs a connection.
pub const MOST: usize = 32;
/// A sign of life for whoever is between us and the reader.
const QUIET: Duration = Duration::from_secs(30);
/// Read at once.
const CHUNK: u64 = 64 << 10;

pub fn get(daemon: &Arc<Daemon>, ask: &Ask) -> Reply {
    let Ok(place) = Arc::clone(&daemon.readers).try_acquire_owned() else {
        return Reply::error(StatusCode::SERVICE_UNAVAILABLE, "too many read the events already");
    };
    let last = ask.headers.get("last-event-id").and_then(|v| v.to_str().ok());
    let cursor = last.and_then(Cursor::parse).unwrap_or_else(|| Cursor::end(&daemon.store.state));
    let agent = query(&ask.query, "agent").map(str::to_owned);
    let (tell, told) = mpsc::channel(8);
    let daemon = Arc::clone(daemon);
    tokio::spawn(async move {
        // Ends with the reader, or with us.
        first(follow(&daemon, cursor, agent, &tell), first(tell.closed(), daemon.stop.heard())).await;
        drop(place);
    });
    Reply::Events(told)
}

async fn follow(daemon: &Daemon, mut cursor: Cursor, agent: Option<String>, tell: &mpsc::Sender<Bytes>) {
    let mut grown = daemon.grown.subscribe();
    if tell.send(Bytes::from_static(b": baton events\n\n")).await.is_err() {
        return;
    }
    loop {
        grown.mark_unchanged();
        let mut text = String::new();
        let more = cursor.read(&daemon.store.state, |line, id| {
            let wanted = agent.as_ref().is_none_or(|a| line.agent.as_ref().is_some_and(|l| l.as_str() == a));
            if let (true, Ok(json)) = (wanted, serde_json::to_string(line)) {
                use std::fmt::Write as _;
                // Events are named by us; a line break in one would be a second field.
                let name: String = line.event.chars().filter(|c| !c.is_control()).collect();
                let _ = write!(text, "id: {id}\nevent: {name}\ndata: {json}\n\n");
            }
        });
        if !text.is_empty() && tell.send(text.into()).await.is_err() {
            return;
        }
        if more {
            continue;
        }
        if let First::Right(()) = first(grown.changed(), tokio::time::sleep(QUIET)).await
            && tell.send(Bytes::from_static(b": still here\n\n")).await.is_err()
        {
            return;
        }
    }
}

/// A place in the log: the day's file and how far.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Cursor {
    day: String,
    offset: u64,
}

impl Cursor {
    fn parse(text: &str) -> Option<Self> {
        let (day, offset) = text.split_once(':')?;
        let date = day.len() == 10 && day.bytes().all(|b| b.is_ascii_digit() || b == b'-');
        Some(Self { day: date.then(|| day.to_owned())?, offset: offset.parse().ok()? })
    }

    /// After everything that is there now.
    fn end(state: &Path) -> Self {
        let day = days(state).pop().unwrap_or_default();
        let offset = std::fs::metadata(path(state, &day)).map_or(0, |m| m.len());
        Self { day, offset }
    }

    /// Gives whole lines to `each`, with the place after them; `true` if there is more at once.
    fn read(&mut self, state: &Path, mut each: impl FnMut(&Line, String)) -> bool {
        let mut bytes = Vec::new();
        if let Ok(mut file) = crate::sys::fs::open_read(&path(state, &self.day)) {
            let _ = file.seek(SeekFrom::Start(self.offset));
            let _ = file.take(CHUNK).read_to_end(&mut bytes);
        }
        let whole = memchr::memrchr(b'\n', &bytes).map_or(0, |at| at + 1);
        for line in bytes[..whole].split_inclusive(|b| *b == b'\n') {
            self.offset += line.len() as u64;
            if let Ok(parsed) = serde_json::from_slice::<Line>(line) {
                each(&parsed, format!("{}:{}", self.day, self.offset));
            }
        }
        if whole > 0 {
            return true;
        }
        if bytes.len() as u64 == CHUNK {
            // A line longer than any of ours: passed over.
            self.offset += CHUNK;
            return true;
        }
        // This day is read; another may have begun.
        if let Some(next) = days(state).into_iter().find(|day| *day > self.day) {
            *self = Self { day: next, offset: 0 };
            return true;
        }
        false
    }
}

fn path(state: &Path, day: &str) -> PathBuf {
    folder(state).join(format!("{day}.jsonl"))
}

fn days(state: &Path) -> Vec<String> {
    let mut days: Vec<String> = std::fs::read_dir(folder(state))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|e| Some(e.file_name().to_str()?.strip_suffix(".jsonl")?.to_owned()))
        .collect();
    days.sort();
    days
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_goes_on_over_midnight_and_never_sees_half_a_line() {
        let dir = tempfile::tempdir().unwrap();
        let log = folder(dir.path());
        std::fs::create_dir_all(&log).unwrap();
        let line = |n: u32| format!("{{\"at\":\"2026-11-16T00:00:00Z\",\"event\":\"e{n}\"}}\n");
        std::fs::write(log.join("2026-11-15.jsonl"), line(1) + "torn").unwrap();
        let mut cursor = Cursor::parse("2026-11-15:0").unwrap();
        let mut seen = Vec::new();
        while cursor.read(dir.path(), |line, _| seen.push(line.event.clone())) {}
        assert_eq!(seen, ["e1"]);
        std::fs::write(log.join("2026-11-16.jsonl"), line(2) + &line(3)).unwrap();
        while cursor.read(dir.path(), |line, _| seen.push(line.event.clone())) {}
        assert_eq!(seen, ["e1", "e2", "e3"]);
        assert_eq!(cursor, Cursor::end(dir.path()));
        assert!(Cursor::parse("../../etc:0").is_none());
    }
}
