//! `GET /events`: the log as it grows, as server-sent events. `GET /sessions/{id}/log`: its lines about an agent.
//!
//! An event's id is its position in the log, so a reader resumes there after losing its connection.
//!
//! With `?changes=true` the stream also has `agent-changed` with the agent as in `GET /sessions/{id}`, `agent-gone`
//! with its name, and `agents-changed` for a reader that fell behind and should fetch all of them. They have no id: a
//! reader that reconnects fetches all agents first.

use std::convert::Infallible;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use baton_core::ids::AgentId;
use hyper::StatusCode;
use hyper::body::{Body, Bytes, Frame};
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::mpsc;

use crate::daemon::Daemon;
use crate::daemon::api::{ApiRequest, HttpReply, on_agent, query, resolve, unprocessable};
use crate::store::log::{Log, LogLine};
use crate::views::log;

/// The maximum number of readers; each holds a connection.
pub(crate) const MAX_READERS: usize = 32;
/// A comment is sent after this much silence, so that proxies keep the connection.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// Bytes read at once.
const CHUNK: u64 = 64 << 10;

/// The body of the answer; ends when its sender is dropped.
pub(crate) struct EventStream(mpsc::Receiver<Bytes>);

impl Body for EventStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|next| next.map(|bytes| Ok(Frame::data(bytes))))
    }
}

pub(crate) async fn list(daemon: &Arc<Daemon>, request: ApiRequest) -> HttpReply {
    let Ok(limit) = query(&request.query, "limit").map(str::parse::<usize>).transpose() else {
        return unprocessable("`limit` is a number");
    };
    on_agent(daemon, request, move |daemon, _, agent| {
        let lines = log::recent(&daemon.store, &agent.id, limit.unwrap_or(log::USUAL));
        HttpReply::ok(&serde_json::json!({ "lines": lines }))
    })
    .await
}

pub(crate) fn follow(daemon: &Arc<Daemon>, request: &ApiRequest) -> HttpReply {
    let agent = match query(&request.query, "agent") {
        None => None,
        Some(name) => match resolve(daemon, name) {
            Ok(agent) => Some(agent),
            Err(reply) => return reply,
        },
    };
    let Ok(place) = Arc::clone(&daemon.readers).try_acquire_owned() else {
        return HttpReply::error(StatusCode::SERVICE_UNAVAILABLE, "too many readers of the events");
    };
    let last = request.headers.get("last-event-id").and_then(|v| v.to_str().ok());
    let cursor = last.and_then(Cursor::parse).unwrap_or_else(|| Cursor::end(&daemon.store.state));
    let changes = match query(&request.query, "changes") {
        None | Some("false") => None,
        Some("true") => Some(daemon.shown.subscribe()),
        Some(_) => return unprocessable("`changes` is true or false"),
    };
    let (events, stream) = mpsc::channel(8);
    let daemon = Arc::clone(daemon);
    tokio::spawn(async move {
        tokio::select! {
            () = send_events(&daemon, cursor, changes, agent.as_ref(), &events) => {}
            () = events.closed() => {}
            () = daemon.shutdown.requested() => {}
        }
        drop(place);
    });
    HttpReply::Events(EventStream(stream))
}

/// Sends the log after the cursor and whatever is added. Returns when the reader is gone.
async fn send_events(
    daemon: &Daemon,
    mut cursor: Cursor,
    mut changes: Option<broadcast::Receiver<Arc<[AgentId]>>>,
    agent: Option<&AgentId>,
    events: &mpsc::Sender<Bytes>,
) {
    let mut log_grew = daemon.log_grew.subscribe();
    if events.send(Bytes::from_static(b": baton events\n\n")).await.is_err() {
        return;
    }
    loop {
        log_grew.mark_unchanged();
        let mut text = String::new();
        let more = cursor.read(&daemon.store.state, |line, id| {
            let wanted = agent.is_none_or(|agent| line.agent.as_ref() == Some(agent));
            if let (true, Ok(json)) = (wanted, serde_json::to_string(line)) {
                use std::fmt::Write as _;
                // A line break in the name would begin another field.
                let name: String = line.event.chars().filter(|c| !c.is_control()).collect();
                let _ = write!(text, "id: {id}\nevent: {name}\ndata: {json}\n\n");
            }
        });
        if !text.is_empty() && events.send(text.into()).await.is_err() {
            return;
        }
        if more {
            continue;
        }
        let next = tokio::select! {
            _ = log_grew.changed() => continue,
            ids = next_change(&mut changes) => changed_agents(daemon, ids, agent),
            () = tokio::time::sleep(KEEP_ALIVE) => ": still here\n\n".to_owned(),
        };
        if !next.is_empty() && events.send(next.into()).await.is_err() {
            return;
        }
    }
}

/// The next agents whose view changed; pending forever if the reader did not ask for changes.
async fn next_change(
    changes: &mut Option<broadcast::Receiver<Arc<[AgentId]>>>,
) -> Result<Arc<[AgentId]>, RecvError> {
    match changes {
        Some(changes) => changes.recv().await,
        None => std::future::pending().await,
    }
}

fn changed_agents(
    daemon: &Daemon,
    changed: Result<Arc<[AgentId]>, RecvError>,
    agent: Option<&AgentId>,
) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    let Ok(ids) = changed else { return "event: agents-changed\ndata: {}\n\n".to_owned() };
    let mut roster = daemon.roster();
    for id in ids.iter().filter(|id| agent.is_none_or(|agent| agent == *id)) {
        let _ = match roster.as_json(id, &|cwd| daemon.thresholds(cwd)) {
            Some(json) => {
                write!(text, "event: agent-changed\ndata: {}\n\n", String::from_utf8_lossy(&json))
            }
            None => write!(text, "event: agent-gone\ndata: {{\"id\":\"{id}\"}}\n\n"),
        };
    }
    text
}

/// A position in the log: a day's file and an offset in it.
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

    /// The current end of the log.
    fn end(state: &Path) -> Self {
        let day = days(state).pop().unwrap_or_default();
        let offset = std::fs::metadata(path(state, &day)).map_or(0, |m| m.len());
        Self { day, offset }
    }

    /// Passes whole lines to `each`, with the position after each; `true` if more may be available at once.
    fn read(&mut self, state: &Path, mut each: impl FnMut(&LogLine, String)) -> bool {
        let mut bytes = Vec::new();
        if let Ok(mut file) = crate::sys::fs::open_read(&path(state, &self.day)) {
            let _ = file.seek(SeekFrom::Start(self.offset));
            let _ = file.take(CHUNK).read_to_end(&mut bytes);
        }
        let whole = memchr::memrchr(b'\n', &bytes).map_or(0, |at| at + 1);
        for line in bytes[..whole].split_inclusive(|b| *b == b'\n') {
            self.offset += line.len() as u64;
            if let Ok(parsed) = serde_json::from_slice::<LogLine>(line) {
                each(&parsed, format!("{}:{}", self.day, self.offset));
            }
        }
        if whole > 0 {
            return true;
        }
        if bytes.len() as u64 == CHUNK {
            // No line of ours is that long, so skip it.
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
    Log::new(state).folder().join(format!("{day}.jsonl"))
}

fn days(state: &Path) -> Vec<String> {
    let stem = |path: &PathBuf| Some(path.file_stem()?.to_str()?.to_owned());
    Log::new(state).days().iter().filter_map(stem).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_continues_over_midnight_and_never_sees_half_a_line() {
        let dir = tempfile::tempdir().unwrap();
        let log = Log::new(dir.path()).folder().to_owned();
        std::fs::create_dir_all(&log).unwrap();
        let line = |n: u32| format!("{{\"at\":\"2026-11-16T00:00:00Z\",\"event\":\"e{n}\"}}\n");
        std::fs::write(log.join("2026-11-15.jsonl"), line(1) + "torn").unwrap();
        let mut cursor = Cursor::parse("2026-11-15:0").unwrap();
        let mut events = Vec::new();
        while cursor.read(dir.path(), |line, _| events.push(line.event.clone())) {}
        assert_eq!(events, ["e1"]);
        std::fs::write(log.join("2026-11-16.jsonl"), line(2) + &line(3)).unwrap();
        while cursor.read(dir.path(), |line, _| events.push(line.event.clone())) {}
        assert_eq!(events, ["e1", "e2", "e3"]);
        assert_eq!(cursor, Cursor::end(dir.path()));
        assert!(Cursor::parse("../../etc:0").is_none());
    }
}
