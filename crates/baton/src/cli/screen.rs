//! What people see: colours only where they help, tables that line up, a closed pipe that is no error.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};

use anyhow::Context as _;
use jiff::{SignedDuration, Timestamp};

/// Colours for standard output: off without a terminal, with `NO_COLOR`, or on a dumb one.
#[derive(Debug, Clone, Copy)]
pub struct Paint {
    on: bool,
}

impl Paint {
    pub fn stdout() -> Self {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty())
            || std::env::var_os("TERM").is_some_and(|t| t == "dumb");
        Self { on: !plain && io::stdout().is_terminal() }
    }

    /// No colours at all.
    pub fn plain() -> Self {
        Self { on: false }
    }

    fn wrap(self, code: &str, text: &str) -> String {
        if self.on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    pub fn bold(self, text: &str) -> String {
        self.wrap("1", text)
    }

    pub fn dim(self, text: &str) -> String {
        self.wrap("2", text)
    }

    pub fn green(self, text: &str) -> String {
        self.wrap("32", text)
    }

    pub fn yellow(self, text: &str) -> String {
        self.wrap("33", text)
    }

    pub fn cyan(self, text: &str) -> String {
        self.wrap("36", text)
    }

    pub fn red(self, text: &str) -> String {
        self.wrap("31", text)
    }
}

/// Writes to standard output; the caller's error says so when the reader has gone.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .context("could not write to standard output; see where it leads and try again")
}

/// Writes to standard output, through `$PAGER` or `less` where that is a terminal too small for it.
pub fn page(text: &str, paged: bool) -> anyhow::Result<()> {
    let rows = if paged { crate::sys::terminal::size().map(|(_, rows)| usize::from(rows)) } else { None };
    match rows {
        Some(rows) if text.lines().count() >= rows && through_pager(text) => Ok(()),
        _ => print(text),
    }
}

/// `false` if there is no pager and nothing was shown.
fn through_pager(text: &str) -> bool {
    use std::process::{Command, Stdio};
    let pager = std::env::var("PAGER").unwrap_or_else(|_| "less".to_owned());
    if pager.trim().is_empty() || pager.trim() == "cat" {
        return false;
    }
    // With arguments it is a command line, as for every program that reads this variable.
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &pager]).stdin(Stdio::piped());
    if std::env::var_os("LESS").is_none() {
        command.env("LESS", "FRX");
    }
    // Ctrl+C belongs to the pager: if it ended us, the shell and the pager would fight over the terminal.
    let interrupted = std::sync::Arc::default();
    let held = signal_hook::flag::register(signal_hook::consts::SIGINT, interrupted);
    let Ok(mut child) = command.spawn() else { return false };
    if let Some(mut stdin) = child.stdin.take() {
        // Whoever leaves it early has read enough.
        let _ = stdin.write_all(text.as_bytes());
    }
    let ended = child.wait();
    if let Ok(id) = held {
        signal_hook::low_level::unregister(id);
    }
    // The shell's own code for a program that is not there.
    ended.is_ok_and(|status| status.code() != Some(127) && status.code() != Some(126))
}

/// `12k`, `1.2M`: a number of tokens.
pub fn tokens(count: u64) -> String {
    let mut out = String::new();
    put_tokens(&mut out, count);
    out
}

/// The same, put at the end of `out`.
pub fn put_tokens(out: &mut String, count: u64) {
    let _ = match count {
        0..1_000 => return put_number(out, count),
        1_000..1_000_000 => {
            put_number(out, count / 1_000);
            out.write_char('k')
        }
        _ => write!(out, "{:.1}M", count as f64 / 1_000_000.0),
    };
}

/// A plain number at the end of `out`; formatting one costs ten times as much, which shows in thousands of rows.
pub fn put_number(out: &mut String, number: u64) {
    if number >= 10 {
        put_number(out, number / 10);
    }
    out.push(char::from(b'0' + u8::try_from(number % 10).unwrap_or_default()));
}

pub fn print_json<T: serde::Serialize>(value: &T) -> anyhow::Result<()> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    print(&text)
}

/// Did the reader of our output go away (`baton … | head`)?
pub fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .any(|e| e.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe))
}

/// Rows under a heading, columns padded to the widest cell. Cells may carry colour codes in the last column.
pub fn table(paint: Paint, head: &[&str], rows: &[Vec<String>]) -> String {
    let mut table = Table::new(head);
    for cell in rows.iter().flatten() {
        table.text.push_str(cell);
        table.end_cell();
    }
    table.finish(paint, 0, |_, _| ())
}

/// A table of many rows: all cells lie in one text, each is measured once.
pub struct Table<'h> {
    head: &'h [&'h str],
    /// The cell that is being written stands at its end.
    pub text: String,
    /// How long each cell is, and how wide.
    cells: Vec<(u32, u32)>,
    /// Where the one that is being written begins.
    start: usize,
    /// Of the cell that is being written.
    column: usize,
    widths: Vec<usize>,
}

impl<'h> Table<'h> {
    pub fn new(head: &'h [&'h str]) -> Self {
        let widths = head.iter().map(|h| h.chars().count()).collect();
        Self { head, text: String::new(), cells: Vec::new(), start: 0, column: 0, widths }
    }

    /// Makes room for so many rows at once.
    pub fn reserve(&mut self, rows: usize) {
        self.text.reserve(rows * 40);
        self.cells.reserve(rows * self.head.len());
    }

    /// What was put into `text` since the last one is a cell; they come row by row.
    pub fn end_cell(&mut self) {
        let width = visible(&self.text[self.start..]);
        self.end(width);
    }

    /// The same of a cell that is known to be of letters and digits: each is one column wide.
    pub fn end_plain_cell(&mut self) {
        self.end(self.text.len() - self.start);
    }

    fn end(&mut self, width: usize) {
        self.widths[self.column] = self.widths[self.column].max(width);
        self.column += 1;
        if self.column == self.head.len() {
            self.column = 0;
        }
        let count = |len| u32::try_from(len).unwrap_or(u32::MAX);
        self.cells.push((count(self.text.len() - self.start), count(width)));
        self.start = self.text.len();
    }

    /// The width of each column.
    pub fn widths(&self) -> &[usize] {
        &self.widths
    }

    /// The whole table, which takes about so many bytes. `more` puts what stands behind the last column of a row; of the
    /// heading it is asked without a number.
    pub fn finish(
        &self,
        paint: Paint,
        bytes: usize,
        mut more: impl FnMut(&mut String, Option<usize>),
    ) -> String {
        let mut heading = String::new();
        for (text, width) in self.head.iter().zip(&self.widths) {
            heading.push_str(text);
            pad(&mut heading, width.saturating_sub(text.chars().count()) + 2);
        }
        more(&mut heading, None);
        let mut out = String::with_capacity(bytes + 4 * heading.len());
        out.push_str(&paint.dim(heading.trim_end()));
        out.push('\n');
        let mut start = 0;
        for (n, row) in self.cells.chunks(self.head.len()).enumerate() {
            let line = out.len();
            for ((len, own), width) in row.iter().zip(&self.widths) {
                let end = start + *len as usize;
                out.push_str(&self.text[start..end]);
                pad(&mut out, width.saturating_sub(*own as usize) + 2);
                start = end;
            }
            more(&mut out, Some(n));
            let len = out[line..].trim_end().len();
            out.truncate(line + len);
            out.push('\n');
        }
        out
    }
}

/// So many spaces.
pub fn pad(out: &mut String, mut columns: usize) {
    const SPACES: &str = "                                ";
    while columns > 0 {
        let some = columns.min(SPACES.len());
        out.push_str(&SPACES[..some]);
        columns -= some;
    }
}

/// Characters that take room on the screen: everything but our own colour codes.
fn visible(text: &str) -> usize {
    // Most cells are a few plain bytes.
    if text.bytes().fold(true, |plain, b| plain & matches!(b, 0..=0x1a | 0x1c..=0x7f)) {
        return text.len();
    }
    let mut count = 0;
    let mut escape = false;
    for c in text.chars() {
        match (escape, c) {
            (true, 'm') => escape = false,
            (true, _) => {}
            (false, '\x1b') => escape = true,
            (false, _) => count += 1,
        }
    }
    count
}

/// `3m`, `2h`, `5d`: how long ago, in the largest whole unit.
pub fn age(then: Timestamp, now: Timestamp) -> String {
    let mut out = String::new();
    put_age(&mut out, then, now);
    out
}

/// The same, put at the end of `out`.
pub fn put_age(out: &mut String, then: Timestamp, now: Timestamp) {
    let seconds = now.duration_since(then).max(SignedDuration::ZERO).as_secs();
    let (count, unit) = match seconds {
        0..60 => (seconds, 's'),
        60..3600 => (seconds / 60, 'm'),
        3600..86400 => (seconds / 3600, 'h'),
        _ => (seconds / 86400, 'd'),
    };
    put_number(out, count.unsigned_abs());
    out.push(unit);
}

/// `820 B`, `4.2 kB`, `31 MB`: in the unit that needs no more than four characters.
pub fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "kB", "MB", "GB"] {
        if value < 999.5 {
            let places = usize::from(unit != "B" && value < 9.95);
            return format!("{value:.places$} {unit}");
        }
        value /= 1000.0;
    }
    format!("{value:.1} TB")
}

/// A time stamp in the reader's own time zone.
pub fn local(at: Timestamp) -> String {
    at.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}
