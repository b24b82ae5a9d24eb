//! The terminal's state: saved before an agent gets it, restored after one was killed.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr};

use crate::sys::poll;

/// Modes that a killed full-screen program may have left on: alternate screen, mouse, focus and paste reporting,
/// extended keys, a hidden cursor, colours.
const UNDO: &[u8] =
    b"\x1b[?1049l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1005l\x1b[?1006l\x1b[?1015l\x1b[?1004l\
\x1b[?2004l\x1b[?2026l\x1b[<u\x1b[>4;0m\x1b[?7h\x1b[?25h\x1b[0m\r";

/// The settings of standard input's terminal, if it is one.
#[derive(Debug, Clone)]
pub(crate) struct SavedTerminal(Option<Termios>);

impl SavedTerminal {
    pub(crate) fn now() -> Self {
        let stdin = rustix::stdio::stdin();
        Self(if isatty(stdin) { tcgetattr(stdin).ok() } else { None })
    }

    /// Restores the line settings. After a kill, also switches off the screen modes that were left on.
    pub(crate) fn restore(&self, after_kill: bool) {
        let Some(termios) = &self.0 else { return };
        let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, termios);
        let mut out = std::io::stdout().lock();
        if after_kill && isatty(&out) {
            let _ = out.write_all(UNDO);
            let _ = out.flush();
        }
    }
}

/// The kernel records input in steps of eight seconds, so that nobody can time keys. Returns the start of the step of
/// `at`.
pub(crate) fn grain(at: SystemTime) -> SystemTime {
    const STEP: u64 = 8;
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    SystemTime::UNIX_EPOCH + Duration::from_secs(since - since % STEP)
}

/// When a person last typed into standard input's terminal, to about eight seconds; `None` if it is not a terminal.
pub(crate) fn last_input() -> Option<SystemTime> {
    let stdin = rustix::stdio::stdin();
    let stat = isatty(stdin).then(|| rustix::fs::fstat(stdin).ok()).flatten()?;
    let seconds = u64::try_from(stat.st_atime).ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

/// Columns of standard error's terminal, if it is one.
pub(crate) fn error_columns() -> Option<u16> {
    let size = tcgetwinsize(rustix::stdio::stderr()).ok()?;
    (size.ws_col > 0).then_some(size.ws_col)
}

/// Columns and rows of standard output's terminal, if it is one.
pub(crate) fn size() -> Option<(u16, u16)> {
    let size = tcgetwinsize(rustix::stdio::stdout()).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
}

/// Written before the user is asked something: the alternate screen, lines not wrapped.
const ASK: &[u8] = b"\x1b[?1049h\x1b[?7l";
const ASKED: &[u8] = b"\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l";

/// The terminal in raw mode, restored when dropped. Signals that would end the program end the question first.
pub(crate) struct RawMode {
    before: Termios,
    ended: Arc<AtomicBool>,
    signals: Vec<signal_hook::SigId>,
}

impl RawMode {
    /// `None` without a terminal, because there is nobody to ask.
    pub(crate) fn enter() -> io::Result<Option<Self>> {
        let (stdin, stdout) = (rustix::stdio::stdin(), rustix::stdio::stdout());
        if !isatty(stdin) || !isatty(stdout) {
            return Ok(None);
        }
        let before = tcgetattr(stdin)?;
        let ended = Arc::new(AtomicBool::new(false));
        let mut signals = Vec::new();
        for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP, signal_hook::consts::SIGINT]
        {
            signals.push(signal_hook::flag::register(signal, Arc::clone(&ended))?);
        }
        let mut raw = before.clone();
        raw.make_raw();
        let it = Self { before, ended, signals };
        tcsetattr(stdin, OptionalActions::Now, &raw)?;
        it.show(ASK)?;
        Ok(Some(it))
    }

    #[expect(clippy::unused_self, reason = "only a terminal that was asked for is written to")]
    pub(crate) fn show(&self, bytes: &[u8]) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(bytes)?;
        out.flush()
    }

    /// The next typed bytes; empty if none arrived in time. Fails if the terminal is gone or we were told to end.
    pub(crate) fn read<'b>(&self, buffer: &'b mut [u8], patience: Duration) -> io::Result<&'b [u8]> {
        let stdin = rustix::stdio::stdin();
        let ready = poll::readable(stdin, patience)?;
        if self.ended.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        if !ready {
            return Ok(&[]);
        }
        match rustix::io::read(stdin, &mut *buffer)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            n => Ok(&buffer[..n]),
        }
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        let _ = self.show(ASKED);
        let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &self.before);
        for id in self.signals.drain(..) {
            signal_hook::low_level::unregister(id);
        }
    }
}
