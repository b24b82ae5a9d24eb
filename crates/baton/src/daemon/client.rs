//! How our own commands talk to the daemon: one request through the unix socket. Starts a daemon if needed.
//!
//! Our commands never use the HTTP port, so another program that listens there gets no token from us.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;

use crate::daemon::RunDir;
use crate::sys::paths::Paths;

/// Printed by a daemon in the background once it listens.
pub(crate) const LISTENING: &str = "listening";
const PATIENCE: Duration = Duration::from_secs(10);
/// The daemon's answers are not longer.
const MAX_ANSWER: u64 = 64 << 20;

/// Sends one request to the running daemon. `None` if none runs.
pub(crate) fn ask(
    paths: &Paths,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> anyhow::Result<Option<(u16, Value)>> {
    let socket = RunDir::new(&paths.state).socket();
    let mut stream = match UnixStream::connect(&socket) {
        Ok(stream) => stream,
        Err(e)
            if matches!(e.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::ConnectionRefused) =>
        {
            return Ok(None);
        }
        Err(e) => {
            return Err(e).with_context(|| format!("could not reach the daemon at {}", socket.display()));
        }
    };
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let body = body.map_or_else(String::new, Value::to_string);
    let kind = if method == "POST" { "content-type: application/json\r\n" } else { "" };
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{kind}content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let slow = "the daemon does not answer; `baton serve --status` shows its process";
    stream.write_all(request.as_bytes()).context(slow)?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER).read_to_end(&mut answer).context(slow)?;
    let (head, body) = memchr::memmem::find(&answer, b"\r\n\r\n")
        .map(|at| (&answer[..at], &answer[at + 4..]))
        .context("the daemon closed the connection in the middle of its answer; try again")?;
    let status = std::str::from_utf8(head)
        .ok()
        .and_then(|head| head.split(' ').nth(1)?.parse().ok())
        .context("could not understand the daemon's answer; restart it (`baton serve --stop`)")?;
    Ok(Some((status, serde_json::from_slice(body).unwrap_or(Value::Null))))
}

/// A stream of events that does not end by itself.
pub(crate) struct EventReader {
    stream: BufReader<UnixStream>,
    /// Unread bytes of the current chunk.
    left: usize,
}

/// The daemon sends something at least this often, if only a keep-alive.
const SILENCE: Duration = Duration::from_secs(90);

/// Opens a stream of events from the running daemon.
pub(crate) fn follow(paths: &Paths, path: &str) -> anyhow::Result<EventReader> {
    let socket = RunDir::new(&paths.state).socket();
    let mut stream = UnixStream::connect(&socket)
        .with_context(|| format!("could not reach the daemon at {}", socket.display()))?;
    stream.set_read_timeout(Some(SILENCE))?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").as_bytes())?;
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        anyhow::ensure!(stream.read_line(&mut head)? > 0, "the daemon closed the stream of events");
        anyhow::ensure!(head.len() < 64 << 10, "the daemon's answer makes no sense");
    }
    anyhow::ensure!(head.split(' ').nth(1) == Some("200"), "the daemon refused the stream of events");
    Ok(EventReader { stream, left: 0 })
}

impl EventReader {
    /// The next event's name and data.
    pub(crate) fn next_event(&mut self) -> anyhow::Result<(String, String)> {
        let (mut name, mut data) = (String::new(), String::new());
        loop {
            let line = self.line()?;
            match line.split_once(": ") {
                Some(("event", value)) => value.clone_into(&mut name),
                Some(("data", value)) => value.clone_into(&mut data),
                _ if line.is_empty() && !data.is_empty() => return Ok((name, data)),
                _ => {}
            }
        }
    }

    /// One line, reassembled from its chunks.
    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = Vec::new();
        loop {
            if self.left == 0 {
                let mut size = String::new();
                while size.trim().is_empty() {
                    size.clear();
                    anyhow::ensure!(self.stream.read_line(&mut size)? > 0, "the daemon closed the stream");
                }
                self.left = usize::from_str_radix(size.trim(), 16).context("could not understand a chunk")?;
                anyhow::ensure!(self.left > 0, "the daemon ended the stream of events");
            }
            let held = self.stream.fill_buf()?;
            anyhow::ensure!(!held.is_empty(), "the daemon closed the stream of events");
            let part = &held[..held.len().min(self.left)];
            let end = memchr::memchr(b'\n', part);
            let taken = end.map_or(part.len(), |at| at + 1);
            line.extend_from_slice(&part[..taken]);
            self.left -= taken;
            self.stream.consume(taken);
            if end.is_some() {
                return Ok(String::from_utf8_lossy(&line).trim_end().to_owned());
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Startup {
    /// A daemon was running already.
    NotNeeded,
    Done,
}

/// Makes sure that a daemon listens. Concurrent commands that need one start only one.
pub(crate) fn ensure(paths: &Paths, args: &[String]) -> anyhow::Result<Startup> {
    if is_up(paths) {
        return Ok(Startup::NotNeeded);
    }
    // One that was killed a moment ago may not be gone yet.
    let was_locked = RunDir::new(&paths.state).is_locked();
    match start(paths, args) {
        Err(_) if was_locked && !RunDir::new(&paths.state).is_locked() => start(paths, args),
        started => started,
    }
}

fn start(paths: &Paths, args: &[String]) -> anyhow::Result<Startup> {
    let program = std::env::current_exe().context("could not find our own program to start the daemon")?;
    let mut child = Command::new(program)
        .args(["serve", "--detached"])
        .args(args)
        // The daemon must not keep the current folder busy.
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("could not start the daemon")?;
    let (mut out_text, mut err_text) = (String::new(), String::new());
    // Both pipes end when the daemon closes them or exits.
    if let Some(out) = child.stdout.take() {
        out.take(64 << 10)
            .read_to_string(&mut out_text)
            .context("could not read whether the daemon listens")?;
    }
    if out_text.trim() == LISTENING {
        return Ok(Startup::Done);
    }
    if let Some(err) = child.stderr.take() {
        let _ = err.take(64 << 10).read_to_string(&mut err_text);
    }
    let _ = child.wait();
    // Another command may have been faster.
    let run_dir = RunDir::new(&paths.state);
    let until = std::time::Instant::now() + PATIENCE;
    while run_dir.is_locked() && std::time::Instant::now() < until {
        if is_up(paths) {
            return Ok(Startup::NotNeeded);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let why = err_text.trim();
    let why = why.strip_prefix("baton: ").unwrap_or(why);
    anyhow::bail!("the daemon did not start: {}", if why.is_empty() { "it said nothing" } else { why })
}

fn is_up(paths: &Paths) -> bool {
    UnixStream::connect(RunDir::new(&paths.state).socket()).is_ok()
}
