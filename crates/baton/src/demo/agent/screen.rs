//! A small screen: events, status line, prompt. Restores the terminal when it leaves.

use std::io::{IsTerminal as _, Write as _};

use baton_core::plain::plain;
use rustix::termios::{self, LocalModes, OptionalActions, Termios};
use serde_json::json;

use crate::demo::agent::client::Client;
use crate::demo::agent::errand::{self, Errand};
use crate::demo::agent::inbox::Event;

/// Like the client: alternate screen, mouse reports, bracketed paste, hidden cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?1000h\x1b[?1006h\x1b[?2004h\x1b[?25l\x1b[H\x1b[2J";
const LEAVE: &str = "\x1b[?25h\x1b[?2004l\x1b[?1006l\x1b[?1000l\x1b[?1049l";
/// Bracketed paste, also without the alternate screen.
const PASTES: &str = "\x1b[?2004h";
const NO_PASTES: &str = "\x1b[?2004l";

pub(super) struct Screen {
    /// The terminal's original settings, if there is a terminal.
    found: Option<Termios>,
    alternate: bool,
    quiet: bool,
    draft: String,
    status: String,
    working: bool,
    dialog: Option<String>,
    /// How many lines of the bottom block are on screen.
    drawn: usize,
}

impl Screen {
    /// Shows nothing, for headless runs.
    pub(super) fn quiet() -> Self {
        Self {
            found: None,
            alternate: false,
            quiet: true,
            draft: String::new(),
            status: String::new(),
            working: false,
            dialog: None,
            drawn: 0,
        }
    }

    /// Takes over the terminal if standard input and output are one; otherwise prints plain lines.
    pub(super) fn enter(alternate: bool) -> Self {
        let mut screen = Self::quiet();
        (screen.quiet, screen.alternate) = (false, alternate);
        if std::io::stdin().is_terminal() && std::io::stdout().is_terminal() {
            screen.found = termios::tcgetattr(std::io::stdin()).ok();
            screen.take_over();
        }
        screen
    }

    fn take_over(&mut self) {
        let Some(found) = &self.found else { return };
        let mut raw = found.clone();
        raw.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN;
        raw.input_modes -= termios::InputModes::ICRNL | termios::InputModes::IXON;
        // A terminal that refuses still shows lines.
        let _ = termios::tcsetattr(std::io::stdin(), OptionalActions::Now, &raw);
        put(if self.alternate { ENTER } else { PASTES });
        self.draw();
    }

    /// Restores the terminal.
    pub(super) fn leave(&mut self) {
        let Some(found) = self.found.take() else { return };
        self.erase();
        put(if self.alternate { LEAVE } else { NO_PASTES });
        let _ = termios::tcsetattr(std::io::stdin(), OptionalActions::Now, &found);
    }

    /// Ctrl-Z: restores the terminal for the shell, and takes it over again on resume.
    pub(super) fn suspend(&mut self) {
        let Some(found) = self.found.clone() else { return };
        self.leave();
        let _ = rustix::process::kill_current_process_group(rustix::process::Signal::TSTP);
        self.found = Some(found);
        self.take_over();
    }

    /// Columns and lines of the terminal.
    pub(super) fn size(&self) -> Option<(u16, u16)> {
        self.found.as_ref()?;
        let size = termios::tcgetwinsize(std::io::stdout()).ok()?;
        Some((size.ws_col, size.ws_row))
    }

    /// Prints one line of events.
    pub(super) fn line(&mut self, text: &str) {
        if self.quiet {
            return;
        }
        self.erase();
        put(&format!("{}\n", plain(text)));
        self.draw();
    }

    pub(super) fn draft(&mut self, draft: String) {
        self.erase();
        self.draft = draft;
        self.draw();
    }

    pub(super) fn working(&mut self, working: bool) {
        self.erase();
        self.working = working;
        self.draw();
    }

    pub(super) fn dialog(&mut self, text: Option<String>) {
        self.erase();
        self.dialog = text;
        self.draw();
    }

    pub(super) fn clear(&mut self) {
        if self.found.is_some() {
            self.drawn = 0;
            put("\x1b[H\x1b[2J");
            self.draw();
        }
    }

    /// The bottom block: an activity sign, the prompt, the status line.
    fn draw(&mut self) {
        if self.found.is_none() {
            return;
        }
        let width = usize::from(self.size().map_or(80, |(columns, _)| columns)).saturating_sub(3).max(10);
        let draft: Vec<char> = plain(&self.draft).chars().map(|c| if c == '\n' { '⏎' } else { c }).collect();
        let shown: String = draft[draft.len().saturating_sub(width)..].iter().collect();
        let mut block = String::new();
        let mut lines = 1;
        if let Some(asked) = &self.dialog {
            put(&format!("  {}\nDo you want to proceed?\n ❯ 1. Yes (y)\n   2. No (esc)", plain(asked)));
            self.drawn = 4;
            return;
        }
        if self.working {
            block.push_str("✻ Working…\n");
            lines += 1;
        }
        if !self.status.is_empty() {
            // Above the prompt, so that the cursor stays in the prompt.
            block.push_str(&self.status);
            block.push_str("\x1b[0m\n");
            lines += 1;
        }
        block.push_str("❯\u{a0}");
        block.push_str(&shown);
        put(&block);
        self.drawn = lines;
    }

    fn erase(&mut self) {
        if self.found.is_some() && self.drawn > 0 {
            let up = self.drawn - 1;
            put(&if up > 0 { format!("\r\x1b[{up}A\x1b[J") } else { "\r\x1b[J".to_owned() });
            self.drawn = 0;
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.leave();
    }
}

/// The terminal may be gone; that must not stop the rest.
fn put(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

impl Client {
    /// Runs the status line command and shows its first line. Not in headless runs.
    pub(super) fn status_line(&mut self) {
        if self.options.print {
            return;
        }
        let Some(line) = self.sources.status_line() else { return };
        let Ok(mut command) = errand::command("/bin/sh", &["-c".to_owned(), line.command]) else { return };
        self.dress(&mut command);
        command.env("CLAUDE_PROJECT_DIR", &self.cwd);
        let number = self.inbox.number();
        let input = self.status_payload();
        let Ok(errand) = Errand::start(command, input, number, self.inbox.sender()) else { return };
        let patience = std::time::Duration::from_secs(5);
        let shown = self.inbox.next_done(std::time::Instant::now() + patience);
        match shown {
            Some((n, outcome)) if n == number && outcome.code() == 0 => {
                let text = outcome.out.lines().find(|l| !l.trim().is_empty()).unwrap_or_default().to_owned();
                self.note("statusline", json!({ "text": text }));
                self.screen.erase();
                if self.screen.found.is_none() && !text.is_empty() {
                    self.screen.line(&text);
                }
                self.screen.status = text;
                self.screen.draw();
            }
            Some((n, outcome)) if n != number => {
                // Something else ended; pass it on to its waiter.
                let _ = self.inbox.sender().send(Event::Done(n, outcome));
            }
            Some(_) => {}
            None => errand.kill(),
        }
    }

    fn status_payload(&self) -> Vec<u8> {
        let window = self.script.window;
        let known = self.reported > 0;
        let percentage = (self.tokens * 100 + window / 2) / window.max(1);
        json!({
            "session_id": self.session,
            "transcript_path": self.transcript.path,
            "cwd": self.cwd,
            "model": { "id": self.script.model, "display_name": self.script.model },
            "workspace": { "current_dir": self.cwd, "project_dir": self.cwd, "added_dirs": [] },
            "version": crate::demo::agent::transcript::VERSION,
            "context_window": {
                "total_input_tokens": self.tokens,
                "context_window_size": window,
                "current_usage": known.then(|| self.usage()),
                "used_percentage": known.then_some(percentage),
                "remaining_percentage": known.then(|| 100u64.saturating_sub(percentage)),
            },
            "exceeds_200k_tokens": self.tokens > 200_000,
        })
        .to_string()
        .into_bytes()
    }
}
