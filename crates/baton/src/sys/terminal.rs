//! The terminal's state: kept before an agent gets it, put back after one was killed.

use std::io::Write as _;

use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcsetattr};

/// What a killed full-screen program may have left switched on: alternate screen, mouse, focus and paste
/// reporting, extended keys, a hidden cursor, colours.
const UNDO: &[u8] =
    b"\x1b[?1049l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1005l\x1b[?1006l\x1b[?1015l\x1b[?1004l\
\x1b[?2004l\x1b[?2026l\x1b[<u\x1b[>4;0m\x1b[?7h\x1b[?25h\x1b[0m\r";

/// The settings of standard input's terminal, if it is one.
#[derive(Debug, Clone)]
pub struct Kept(Option<Termios>);

impl Kept {
    pub fn now() -> Self {
        let stdin = rustix::stdio::stdin();
        Self(if isatty(stdin) { tcgetattr(stdin).ok() } else { None })
    }

    /// Puts the line settings back. After a kill also switches off what the screen was left in.
    pub fn restore(&self, after_kill: bool) {
        let Some(termios) = &self.0 else { return };
        let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, termios);
        let mut out = std::io::stdout().lock();
        if after_kill && isatty(&out) {
            let _ = out.write_all(UNDO);
            let _ = out.flush();
        }
    }

    pub fn is_terminal(&self) -> bool {
        self.0.is_some()
    }
}
