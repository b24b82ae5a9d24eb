//! One connection to the server that runs threads: WebSocket over its unix socket, without waiting for more than asked.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use baton_core::wire::codex::app::{self, Heard};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;
use tungstenite::protocol::WebSocketConfig;
use tungstenite::{Error, Message, WebSocket};

/// A server on this machine answers within milliseconds; one that does not is not waited for.
const ANSWER: Duration = Duration::from_secs(5);
/// A message may hold what a tool printed; nothing of that is for us.
const MOST: usize = 16 << 20;

pub struct Link {
    socket: WebSocket<UnixStream>,
    next: u64,
    /// Heard while an answer was waited for.
    heard: VecDeque<Heard>,
}

impl Link {
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let doing = || format!("could not connect to {}", path.display());
        let owner = std::fs::metadata(path).with_context(doing)?.uid();
        ensure!(owner == rustix::process::geteuid().as_raw(), "{} belongs to somebody else", path.display());
        let stream = UnixStream::connect(path).with_context(doing)?;
        stream.set_read_timeout(Some(ANSWER))?;
        stream.set_write_timeout(Some(ANSWER))?;
        let limits = WebSocketConfig::default().max_message_size(Some(MOST)).max_frame_size(Some(MOST));
        let (socket, _) = tungstenite::client::client_with_config("ws://localhost/", stream, Some(limits))
            .map_err(|e| anyhow::anyhow!("{} does not speak WebSocket: {e}", path.display()))?;
        socket.get_ref().set_nonblocking(true)?;
        let mut link = Self { socket, next: 0, heard: VecDeque::new() };
        link.ask(&app::initialize(env!("CARGO_PKG_VERSION")))?;
        link.send(app::INITIALIZED.to_owned())?;
        Ok(link)
    }

    /// Readable when the server has said something.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.get_ref().as_fd()
    }

    /// Asks, and waits for the answer.
    pub fn ask(&mut self, (method, params): &(&'static str, Value)) -> anyhow::Result<Value> {
        self.next += 1;
        let id = self.next;
        self.send(app::request(id, method, params))?;
        let until = Instant::now() + ANSWER;
        loop {
            match self.read()? {
                Some(Heard::Answer { id: to, result }) if to == id => {
                    return result.map_err(|why| anyhow::anyhow!("{method} was refused: {why}"));
                }
                Some(other) => self.heard.push_back(other),
                None => self.ready(PollFlags::IN, until, method)?,
            }
        }
    }

    /// What was said meanwhile; nothing if the server is silent.
    pub fn hear(&mut self) -> anyhow::Result<Option<Heard>> {
        match self.heard.pop_front() {
            Some(heard) => Ok(Some(heard)),
            None => self.read(),
        }
    }

    fn read(&mut self) -> anyhow::Result<Option<Heard>> {
        match self.socket.read() {
            Ok(Message::Text(text)) => Ok(Some(app::read(&text))),
            Ok(_) => Ok(Some(Heard::Other)),
            Err(Error::Io(e)) if e.kind() == std::io::ErrorKind::WouldBlock => Ok(None),
            Err(e) => Err(anyhow::Error::from(e).context("the server of the threads hung up")),
        }
    }

    fn send(&mut self, text: String) -> anyhow::Result<()> {
        let until = Instant::now() + ANSWER;
        let mut sent = self.socket.send(Message::text(text));
        loop {
            match sent {
                Ok(()) => return Ok(()),
                Err(Error::Io(e)) if e.kind() == std::io::ErrorKind::WouldBlock => {
                    self.ready(PollFlags::OUT, until, "a request")?;
                    sent = self.socket.flush();
                }
                Err(e) => return Err(anyhow::Error::from(e).context("the server of the threads hung up")),
            }
        }
    }

    fn ready(&self, what: PollFlags, until: Instant, doing: &str) -> anyhow::Result<()> {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            bail!("the server of the threads did not answer {doing} within {ANSWER:?}");
        }
        let timeout = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        let mut fds = [PollFd::from_borrowed_fd(self.fd(), what)];
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(e) => Err(std::io::Error::from(e).into()),
        }
    }
}
