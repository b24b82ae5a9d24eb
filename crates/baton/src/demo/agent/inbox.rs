//! Everything that the agent waits for: signals, keys, ended children.

use std::collections::VecDeque;
use std::io::{IsTerminal as _, Read as _};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::demo::agent::errand::Outcome;

#[derive(Debug)]
pub(super) enum Event {
    Signal(i32),
    Input(Vec<u8>),
    InputEnd,
    Done(u64, Outcome),
    /// A pipe that a step waits for was written.
    Written(u64),
}

pub(super) struct Inbox {
    sender: Sender<Event>,
    receiver: Receiver<Event>,
    put_by: VecDeque<Event>,
    count: u64,
}

impl Inbox {
    pub(super) fn new() -> anyhow::Result<Self> {
        let (sender, receiver) = channel();
        let mut signals = signal_hook::iterator::Signals::new([SIGTERM, SIGHUP, SIGINT])?;
        let to = sender.clone();
        std::thread::spawn(move || {
            for signal in signals.forever() {
                if to.send(Event::Signal(signal)).is_err() {
                    return;
                }
            }
        });
        Ok(Self { sender, receiver, put_by: VecDeque::new(), count: 0 })
    }

    /// Starts reading standard input.
    pub(super) fn listen(&self) {
        let to = self.sender.clone();
        // Check now: a hung-up terminal no longer reports that it is one.
        let is_terminal = std::io::stdin().is_terminal();
        std::thread::spawn(move || {
            let mut stdin = std::io::stdin();
            let mut buffer = [0; 4096];
            loop {
                let event = match stdin.read(&mut buffer) {
                    Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                    // A terminal that ends was hung up, and the signal for it is on its way.
                    Ok(0) | Err(_) if is_terminal => return,
                    Ok(0) | Err(_) => Event::InputEnd,
                    Ok(n) => Event::Input(buffer[..n].to_vec()),
                };
                let ended = matches!(event, Event::InputEnd);
                if to.send(event).is_err() || ended {
                    return;
                }
            }
        });
    }

    pub(super) fn sender(&self) -> Sender<Event> {
        self.sender.clone()
    }

    pub(super) fn number(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    /// The next event within `patience`; without one, waits forever.
    pub(super) fn next(&mut self, patience: Option<Duration>) -> Option<Event> {
        if let Some(event) = self.put_by.pop_front() {
            return Some(event);
        }
        match patience {
            None => self.receiver.recv().ok(),
            Some(patience) => self.receiver.recv_timeout(patience).ok(),
        }
    }

    /// The next ended child before `deadline`; stashes other events.
    pub(super) fn next_done(&mut self, deadline: Instant) -> Option<(u64, Outcome)> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.receiver.recv_timeout(left).ok()? {
                Event::Done(number, outcome) => return Some((number, outcome)),
                other => self.put_by.push_back(other),
            }
        }
    }

    /// Sends an event when the pipe at `path` was written and closed.
    pub(super) fn watch_pipe(&mut self, path: &Path) -> u64 {
        let number = self.number();
        let (to, path) = (self.sender.clone(), path.to_owned());
        std::thread::spawn(move || {
            // Wake the waiting step even on an error, so that it does not hang.
            let _ = std::fs::read(path);
            let _ = to.send(Event::Written(number));
        });
        number
    }
}
