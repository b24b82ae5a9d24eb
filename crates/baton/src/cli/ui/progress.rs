//! A progress line on standard error during long work, if a person watches.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use crate::cli::ui::size;

/// When the line first appears, and how often it updates. Short work shows nothing.
const PACE: Duration = Duration::from_millis(150);

pub(crate) struct ProgressLine {
    doing: &'static str,
    total: u64,
    done: u64,
    shown: Option<Instant>,
    began: Instant,
    on: bool,
}

impl ProgressLine {
    /// `total` is the expected number of bytes.
    pub(crate) fn new(doing: &'static str, total: u64) -> Self {
        Self { doing, total, done: 0, shown: None, began: Instant::now(), on: io::stderr().is_terminal() }
    }

    /// Adds `bytes` done.
    pub(crate) fn add(&mut self, bytes: u64) {
        self.set(self.done + bytes);
    }

    /// Sets the total done to `done` bytes.
    pub(crate) fn set(&mut self, done: u64) {
        self.done = done;
        if self.on && self.shown.unwrap_or(self.began).elapsed() >= PACE {
            self.shown = Some(Instant::now());
            let percent = (done.min(self.total) * 100).checked_div(self.total).unwrap_or(0);
            let line = format!("{} {} of {} ({percent} %)", self.doing, size(done), size(self.total));
            let _ = write!(io::stderr(), "\r\x1b[2K{line}");
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if self.shown.is_some() {
            let _ = write!(io::stderr(), "\r\x1b[2K");
        }
    }
}
