//! How our own commands talk to the daemon: one request through the unix socket. Starts it where one is needed.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;

use super::Place;
use crate::paths::Paths;

/// What a daemon in the background says on its output when it listens.
pub const LISTENING: &str = "listening";
const PATIENCE: Duration = Duration::from_secs(10);
/// No answer of ours is longer.
const MAX_ANSWER: u64 = 64 << 20;

/// Asks the daemon that runs. `None` if none does.
pub fn ask(
    paths: &Paths,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> anyhow::Result<Option<(u16, Value)>> {
    let socket = Place::new(&paths.state).socket();
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
    let slow = "the daemon does not answer; `baton serve --status` tells its process";
    stream.write_all(request.as_bytes()).context(slow)?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER).read_to_end(&mut answer).context(slow)?;
    let (head, body) = memchr::memmem::find(&answer, b"\r\n\r\n")
        .map(|at| (&answer[..at], &answer[at + 4..]))
        .context("the daemon broke off in the middle of its answer; try again")?;
    let status = std::str::from_utf8(head)
        .ok()
        .and_then(|head| head.split(' ').nth(1)?.parse().ok())
        .context("the daemon gave no answer that can be understood; restart it (`baton serve --stop`)")?;
    Ok(Some((status, serde_json::from_slice(body).unwrap_or(Value::Null))))
}

/// What became of an order to start it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ensured {
    Running,
    Started,
}

/// Makes sure that a daemon listens: for commands that need one. Several at once start one.
pub fn ensure(paths: &Paths, args: &[String]) -> anyhow::Result<Ensured> {
    if is_up(paths) {
        return Ok(Ensured::Running);
    }
    let program = std::env::current_exe().context("could not find our own program to start the daemon")?;
    let mut child = Command::new(program)
        .args(["serve", "--detached"])
        .args(args)
        // A folder that is always there: it must not keep the current one busy.
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("could not start the daemon")?;
    let (mut said, mut complaint) = (String::new(), String::new());
    // Both end when it lets go of its output, or when it ends.
    if let Some(out) = child.stdout.take() {
        out.take(64 << 10).read_to_string(&mut said).context("could not hear whether the daemon listens")?;
    }
    if said.trim() == LISTENING {
        return Ok(Ensured::Started);
    }
    if let Some(err) = child.stderr.take() {
        let _ = err.take(64 << 10).read_to_string(&mut complaint);
    }
    let _ = child.wait();
    // Another command may have been faster.
    let place = Place::new(&paths.state);
    let until = std::time::Instant::now() + PATIENCE;
    while place.is_taken() && std::time::Instant::now() < until {
        if is_up(paths) {
            return Ok(Ensured::Running);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let why = complaint.trim();
    let why = why.strip_prefix("baton: ").unwrap_or(why);
    anyhow::bail!("the daemon did not start: {}", if why.is_empty() { "it said nothing" } else { why })
}

fn is_up(paths: &Paths) -> bool {
    UnixStream::connect(Place::new(&paths.state).socket()).is_ok()
}
