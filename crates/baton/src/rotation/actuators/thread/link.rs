//! One connection to the server that runs threads: WebSocket over its unix socket. Blocks only while it awaits an
//! answer.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use baton_core::wire::codex::app::{self, ServerMessage};
use serde_json::Value;
use tungstenite::protocol::WebSocketConfig;
use tungstenite::{Error, Message, WebSocket};

use crate::sys::poll::{self, PollFd, PollFlags};

/// A server on this machine answers within milliseconds; give up on one that does not.
const ANSWER: Duration = Duration::from_secs(5);
/// Beginning a window makes no request to a model; the hooks on its way take at most a second each.
const TURN: Duration = Duration::from_secs(10);
/// A message may contain the output of a tool, which we do not need.
const MOST: usize = 16 << 20;

pub(super) struct ServerLink {
    socket: WebSocket<UnixStream>,
    next: u64,
    /// Messages that came while we waited for an answer.
    heard: VecDeque<ServerMessage>,
}

impl ServerLink {
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let doing = || format!("could not connect to {}", path.display());
        let owner = std::fs::metadata(path).with_context(doing)?.uid();
        ensure!(owner == rustix::process::geteuid().as_raw(), "{} belongs to someone else", path.display());
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

    /// Readable when the server has sent something.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.get_ref().as_fd()
    }

    /// Sends a request and waits for its answer.
    pub(super) fn ask(&mut self, (method, params): &(&'static str, Value)) -> anyhow::Result<Value> {
        self.next += 1;
        let id = self.next;
        self.send(app::request(id, method, params))?;
        let until = Instant::now() + ANSWER;
        loop {
            match self.read()? {
                Some(ServerMessage::Answer { id: to, result }) if to == id => {
                    return result.map_err(|why| anyhow::anyhow!("{method} was refused: {why}"));
                }
                Some(other) => self.heard.push_back(other),
                None => self.ready(PollFlags::IN, until, method)?,
            }
        }
    }

    /// Asks for something that is a turn of this thread, and waits until it has ended.
    pub(super) fn ask_for_turn(
        &mut self,
        request: &(&'static str, Value),
        thread: &str,
    ) -> anyhow::Result<()> {
        let is_it =
            |said: &ServerMessage| matches!(said, ServerMessage::TurnDone { thread: of } if of == thread);
        self.heard.retain(|said| !is_it(said));
        self.ask(request)?;
        // It may have come together with the answer.
        if let Some(at) = self.heard.iter().rposition(is_it) {
            self.heard.remove(at);
            return Ok(());
        }
        let until = Instant::now() + TURN;
        loop {
            match self.read()? {
                Some(said) if is_it(&said) => return Ok(()),
                Some(other) => self.heard.push_back(other),
                None => self.ready(PollFlags::IN, until, "the end of a turn")?,
            }
        }
    }

    /// Answers a question of the server's.
    pub(super) fn answer(&mut self, reply: String) -> anyhow::Result<()> {
        self.send(reply)
    }

    /// The next message of the server; `None` if there is none.
    pub(super) fn hear(&mut self) -> anyhow::Result<Option<ServerMessage>> {
        match self.heard.pop_front() {
            Some(heard) => Ok(Some(heard)),
            None => self.read(),
        }
    }

    fn read(&mut self) -> anyhow::Result<Option<ServerMessage>> {
        match self.socket.read() {
            Ok(Message::Text(text)) => Ok(Some(app::read(&text))),
            Ok(_) => Ok(Some(ServerMessage::Other)),
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
            bail!("the server of the threads did not answer {doing} in time");
        }
        Ok(poll::wait(&mut [PollFd::from_borrowed_fd(self.fd(), what)], Some(left))?)
    }
}
