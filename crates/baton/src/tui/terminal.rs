//! The terminal: taken over, drawn on, and restored however the screen ends.

use std::io::{self, BufWriter, Stdout, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::clipboard::CopyToClipboard;
use crossterm::cursor::{Hide, Show};
use crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use crossterm::execute;
use crossterm::style::Print;
use crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode, size,
};
use ratatui_core::backend::Backend;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_crossterm::CrosstermBackend;

use crate::tui::model::{Model, TerminalStyle};
use crate::tui::render::render;

/// Clicks and the wheel, with large coordinates. We do not ask for movements: each would wake us.
const MOUSE: &str = "\x1b[?1000h\x1b[?1006h";
const NO_MOUSE: &str = "\x1b[?1006l\x1b[?1000l";

/// Whether the terminal is ours at the moment.
static OURS: AtomicBool = AtomicBool::new(false);

/// The terminal and what is on it. Only cells that differ are written. We never query the terminal: over ssh an answer
/// may take long, or never come.
pub(crate) struct TerminalScreen {
    backend: CrosstermBackend<BufWriter<Stdout>>,
    shown: Buffer,
}

impl TerminalScreen {
    pub(crate) fn enter() -> io::Result<Self> {
        take()?;
        // Buffer enough that a frame is one write.
        let out = BufWriter::with_capacity(64 << 10, io::stdout());
        Ok(Self { backend: CrosstermBackend::new(out), shown: Buffer::empty(Rect::ZERO) })
    }

    pub(crate) fn draw(&mut self, model: &Model) -> io::Result<()> {
        let area = Rect::new(0, 0, model.width, model.height);
        let mut next = Buffer::empty(area);
        render(model, &mut next);
        if self.shown.area != area {
            self.backend.clear()?;
            self.shown = Buffer::empty(area);
        }
        let changed = self.shown.diff(&next);
        self.backend.draw(changed.into_iter())?;
        Backend::flush(&mut self.backend)?;
        self.shown = next;
        Ok(())
    }

    /// Lends the terminal to another program while `act` runs.
    pub(crate) fn lend<T>(&mut self, act: impl FnOnce() -> T) -> io::Result<T> {
        give_back();
        let done = act();
        take()?;
        // Nothing that we drew is left, so draw everything again.
        self.shown = Buffer::empty(Rect::ZERO);
        Ok(done)
    }

    pub(crate) fn copy(&mut self, text: &str) -> io::Result<()> {
        execute!(self.backend, CopyToClipboard::to_clipboard_from(text))
    }
}

impl Drop for TerminalScreen {
    fn drop(&mut self) {
        give_back();
    }
}

fn take() -> io::Result<()> {
    // Set this first, so that a signal from here on restores the terminal.
    OURS.store(true, Ordering::SeqCst);
    let entered = enable_raw_mode().and_then(|()| {
        execute!(io::stdout(), EnterAlternateScreen, Hide, Print(MOUSE), EnableBracketedPaste)
    });
    entered.inspect_err(|_| give_back())
}

/// Gives the terminal back, once. Errors are ignored: there is nobody to report them to.
pub(crate) fn give_back() {
    if OURS.swap(false, Ordering::SeqCst) {
        let mut out = io::stdout();
        let _ = execute!(out, DisableBracketedPaste, Print(NO_MOUSE), LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
        let _ = out.flush();
    }
}

pub(crate) fn is_ours() -> bool {
    OURS.load(Ordering::SeqCst)
}

/// Restores the terminal before a panic is reported, and draws nothing afterwards.
pub(crate) fn survive_panics() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        give_back();
        before(info);
        if std::thread::current().name() != Some("main") {
            std::process::exit(101);
        }
    }));
}

pub(crate) fn dimensions() -> (u16, u16) {
    size().unwrap_or((80, 24))
}

/// What this terminal can show.
pub(crate) fn look() -> TerminalStyle {
    let env = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = env("LC_ALL").or_else(|| env("LC_CTYPE")).or_else(|| env("LANG"));
    TerminalStyle {
        colour: env("NO_COLOR").is_none() && env("TERM").is_none_or(|term| term != "dumb"),
        // Without any locale setting the clients themselves draw boxes, so we do too.
        unicode: locale.is_none_or(|locale| locale.to_lowercase().contains("utf")),
    }
}
