//! One line on the error output while long work goes on, where a person looks on.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use super::screen::size;

/// Shown after this long, and changed as often: short work says nothing.
const PACE: Duration = Duration::from_millis(150);

pub struct Progress {
    doing: &'static str,
    total: u64,
    done: u64,
    shown: Option<Instant>,
    began: Instant,
    on: bool,
}

impl Progress {
    /// `total` bytes lie ahead, as far as is known.
    pub fn new(doing: &'static str, total: u64) -> Self {
        Self { doing, total, done: 0, shown: None, began: Instant::now(), on: io::stderr().is_terminal() }
    }

    /// So many bytes more are done.
    pub fn add(&mut self, bytes: u64) {
        self.done += bytes;
        if self.on && self.shown.unwrap_or(self.began).elapsed() >= PACE {
            self.shown = Some(Instant::now());
            let percent = (self.done.min(self.total) * 100).checked_div(self.total).unwrap_or(0);
            let line = format!("{} {} of {} ({percent} %)", self.doing, size(self.done), size(self.total));
            let _ = write!(io::stderr(), "\r\x1b[2K{line}");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown.is_some() {
            let _ = write!(io::stderr(), "\r\x1b[2K");
        }
    }
}
