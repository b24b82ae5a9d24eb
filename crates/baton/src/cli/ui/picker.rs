//! Chooses one of many rows in a terminal: type to filter, Enter takes the marked row, Esc leaves. `/` and words search
//! the conversations; a preview of the marked row is below the list.

use std::fmt::Write as _;
use std::io;
use std::time::Duration;

use baton_core::plain::plain;

use crate::cli::ui::text::{cut, width};
use crate::sys::terminal::{self, RawMode};

/// How soon a resized window is noticed.
const POLL: Duration = Duration::from_millis(250);
/// Lines that are not choices: the question and the filter above, the keys below.
const FRAME: usize = 3;
/// Lines of the preview, with its separator, if the screen has room.
const PREVIEW: usize = 7;
/// The number of rows from which there is room.
const ROOMY: usize = 20;

/// A row to choose. Its text is plain.
pub(crate) trait Choice {
    /// The row on one line; the picker cuts it to the screen. `all`: rows from everywhere are shown.
    fn line(&self, all: bool) -> String;
    /// The text that the filter searches, in lower case.
    fn haystack(&self) -> &str;
    /// Whether it is shown before Tab is pressed.
    fn is_near(&self) -> bool;
    /// Its preview, one plain line each. Called for the marked row only.
    fn preview(&self) -> Vec<String>;
}

/// The words around the choices.
pub(crate) struct Wording {
    /// Followed by `near` or `all`, and a question mark.
    pub question: &'static str,
    /// The common property of the near choices.
    pub near: &'static str,
    pub all: &'static str,
    /// The action of Enter.
    pub action: &'static str,
}

/// Asks for one of `choices`. `search` finds those that contain words. Returns the index; `None` if the user left or
/// there is no terminal.
pub(crate) fn pick(
    wording: &Wording,
    choices: &[impl Choice],
    search: impl Fn(&str) -> Vec<usize>,
) -> io::Result<Option<usize>> {
    let Some(raw) = RawMode::enter()? else { return Ok(None) };
    let mut picker = Picker::new(wording, choices);
    let mut buffer = [0; 256];
    let mut drawn = None;
    loop {
        let size = terminal::size().unwrap_or((80, 24));
        if drawn != Some(size) {
            raw.show(picker.draw(usize::from(size.0), usize::from(size.1)).as_bytes())?;
            drawn = Some(size);
        }
        // Treat a lost terminal or a signal as leaving.
        let Ok(typed) = raw.read(&mut buffer, POLL) else { return Ok(None) };
        for key in keys(typed) {
            drawn = None;
            match picker.press(key, usize::from(size.1)) {
                PickerAction::Stay => {}
                PickerAction::Leave => return Ok(None),
                PickerAction::Search(words) => {
                    let found = search(&words);
                    picker.take(words, found);
                }
                PickerAction::Choose(n) => return Ok(Some(n)),
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    Char(char),
    Enter,
    Leave,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Backspace,
    /// Clears the line, as in a shell.
    Clear,
    Tab,
}

/// Decodes typed keys. Ignores unknown and incomplete sequences.
fn keys(bytes: &[u8]) -> Vec<Key> {
    let mut keys = Vec::new();
    let text = String::from_utf8_lossy(bytes);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let key = match c {
            '\r' | '\n' => Some(Key::Enter),
            '\t' => Some(Key::Tab),
            '\x03' | '\x04' => Some(Key::Leave),
            '\x7f' | '\x08' => Some(Key::Backspace),
            '\x15' => Some(Key::Clear),
            '\x10' => Some(Key::Up),
            '\x0e' => Some(Key::Down),
            '\x1b' => match rest.peek() {
                None => Some(Key::Leave),
                Some('[' | 'O') => {
                    rest.next();
                    let mut number = String::new();
                    while let Some(n) = rest.next_if(|c| matches!(c, '0'..='?')) {
                        number.push(n);
                    }
                    match (rest.next(), number.as_str()) {
                        (Some('A'), _) => Some(Key::Up),
                        (Some('B'), _) => Some(Key::Down),
                        (Some('H'), _) | (Some('~'), "1" | "7") => Some(Key::Home),
                        (Some('F'), _) | (Some('~'), "4" | "8") => Some(Key::End),
                        (Some('~'), "5") => Some(Key::PageUp),
                        (Some('~'), "6") => Some(Key::PageDown),
                        _ => None,
                    }
                }
                // Alt with a key.
                Some(_) => {
                    rest.next();
                    None
                }
            },
            c if c.is_control() || c == char::REPLACEMENT_CHARACTER => None,
            c => Some(Key::Char(c)),
        };
        keys.extend(key);
    }
    keys
}

enum PickerAction {
    Stay,
    Leave,
    /// Search the conversations for these words.
    Search(String),
    Choose(usize),
}

struct Picker<'p, C> {
    wording: &'p Wording,
    choices: &'p [C],
    filter: String,
    /// Show every choice, not only the near ones.
    all: bool,
    /// The choices that match.
    matching: Vec<usize>,
    /// The index of the marked one.
    marked: usize,
    /// The last searched words, and the choices that contain them.
    said: Option<(String, Vec<usize>)>,
}

impl<'p, C: Choice> Picker<'p, C> {
    fn new(wording: &'p Wording, choices: &'p [C]) -> Self {
        let all = !choices.iter().any(Choice::is_near);
        let mut picker = Self {
            wording,
            choices,
            filter: String::new(),
            all,
            matching: Vec::new(),
            marked: 0,
            said: None,
        };
        picker.update();
        picker
    }

    /// The words after `/` to search for.
    fn wanted(&self) -> Option<&str> {
        self.filter.trim_start().strip_prefix('/').map(str::trim)
    }

    /// The choices that contain the words after `/`; `None` until searched.
    fn said(&self) -> Option<&[usize]> {
        let (words, found) = self.said.as_ref()?;
        (self.wanted() == Some(words.as_str())).then_some(found)
    }

    fn take(&mut self, words: String, found: Vec<usize>) {
        self.said = Some((words, found));
        self.update();
    }

    /// Reapplies the filter and marks the first match.
    fn update(&mut self) {
        if self.wanted().is_some() {
            let shown = |n: &usize| self.all || self.choices[*n].is_near();
            self.matching = self.said().unwrap_or_default().iter().copied().filter(shown).collect();
            self.marked = 0;
            return;
        }
        let words: Vec<String> = self.filter.split_whitespace().map(str::to_lowercase).collect();
        let matches = |c: &C| {
            (self.all || c.is_near()) && words.iter().all(|word| c.haystack().contains(word.as_str()))
        };
        self.matching = (0..self.choices.len()).filter(|n| matches(&self.choices[*n])).collect();
        self.marked = 0;
    }

    fn press(&mut self, key: Key, rows: usize) -> PickerAction {
        let page = list_rows(rows);
        let last = self.matching.len().saturating_sub(1);
        match key {
            Key::Leave => return PickerAction::Leave,
            Key::Enter if self.wanted().is_some_and(|words| !words.is_empty()) && self.said().is_none() => {
                return PickerAction::Search(self.wanted().unwrap_or_default().to_owned());
            }
            Key::Enter => {
                return self
                    .matching
                    .get(self.marked)
                    .map_or(PickerAction::Stay, |n| PickerAction::Choose(*n));
            }
            Key::Up => self.marked = self.marked.saturating_sub(1),
            Key::Down => self.marked = (self.marked + 1).min(last),
            Key::PageUp => self.marked = self.marked.saturating_sub(page),
            Key::PageDown => self.marked = (self.marked + page).min(last),
            Key::Home => self.marked = 0,
            Key::End => self.marked = last,
            Key::Tab => {
                self.all = !self.all;
                self.update();
            }
            Key::Backspace => {
                self.filter.pop();
                self.update();
            }
            Key::Clear => {
                self.filter.clear();
                self.update();
            }
            Key::Char(c) => {
                self.filter.push(c);
                self.update();
            }
        }
        PickerAction::Stay
    }

    /// Draws the whole screen.
    fn draw(&self, columns: usize, rows: usize) -> String {
        let Wording { question, near, all, action } = self.wording;
        let page = list_rows(rows);
        let top = self.marked.saturating_sub(page - 1);
        // Clearing to the end of a full line would erase its last character.
        let columns = columns.saturating_sub(1);
        let mut out = String::from("\x1b[?25l\x1b[H");
        let mut line = |style: &str, text: &str| {
            let _ = write!(out, "{style}{}\x1b[0m\x1b[K\r\n", cut(text, columns));
        };
        let whose = if self.all { all } else { near };
        line("\x1b[1m", &format!("{question} {whose}? ({} of {})", self.matching.len(), self.choices.len()));
        let typed = format!("> {}", plain(&self.filter));
        line("", &typed);
        for n in top..top + page {
            let choice = self.matching.get(n).map(|n| self.choices[*n].line(self.all));
            match choice {
                Some(choice) if n == self.marked => line("\x1b[7m", &format!("> {choice}")),
                Some(choice) => line("", &format!("  {choice}")),
                None => line("", ""),
            }
        }
        if rows >= ROOMY {
            let about =
                self.matching.get(self.marked).map(|n| self.choices[*n].preview()).unwrap_or_default();
            line("\x1b[2m", &"─".repeat(columns));
            for n in 0..PREVIEW - 1 {
                line("\x1b[2m", about.get(n).map_or("", String::as_str));
            }
        }
        // Short enough for eighty columns.
        let keys = if self.wanted().is_some() && self.said().is_none() {
            format!("Enter search what was said · Tab {all} · Esc leave")
        } else {
            format!("type to filter · / what was said · Enter {action} · Tab {all} · Esc leave")
        };
        let _ = write!(out, "\x1b[2m{}\x1b[0m\x1b[K", cut(&keys, columns));
        // Put the cursor after the typed text.
        let _ = write!(out, "\x1b[2;{}H\x1b[?25h", width(&typed).min(columns) + 1);
        out
    }
}

/// The number of screen rows for choices.
fn list_rows(rows: usize) -> usize {
    let preview = if rows >= ROOMY { PREVIEW } else { 0 };
    rows.saturating_sub(FRAME + preview).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDING: Wording = Wording { question: "Which of", near: "here", all: "all", action: "take" };

    struct Row(String, bool);

    impl Choice for Row {
        fn line(&self, _all: bool) -> String {
            self.0.clone()
        }

        fn haystack(&self) -> &str {
            &self.0
        }

        fn is_near(&self) -> bool {
            self.1
        }

        fn preview(&self) -> Vec<String> {
            vec![format!("about {}", self.0)]
        }
    }

    #[test]
    fn keys_are_recognised_and_a_lone_escape_is_no_sequence() {
        assert_eq!(keys(b"a\x1b[B\r"), [Key::Char('a'), Key::Down, Key::Enter]);
        assert_eq!(keys(b"\x1b"), [Key::Leave]);
        assert_eq!(keys(b"\x1b[5~\x1bOA\x1b[H"), [Key::PageUp, Key::Up, Key::Home]);
        assert_eq!(keys(b"\x1b[200~\xc3\xa9\x1b[99;5u"), [Key::Char('é')], "unknown sequences are ignored");
        assert_eq!(keys(b"\x7f\x15\t\x03"), [Key::Backspace, Key::Clear, Key::Tab, Key::Leave]);
    }

    #[test]
    fn typing_narrows_the_choice_and_enter_takes_the_marked_row() {
        let choices = [("port the parser", true), ("fix the parser", true), ("elsewhere", false)]
            .map(|(title, near)| Row(title.to_owned(), near));
        let mut picker = Picker::new(&WORDING, &choices);
        for c in "PARSER".chars() {
            picker.press(Key::Char(c), 24);
        }
        assert_eq!(picker.matching, [0, 1]);
        picker.press(Key::Down, 24);
        picker.press(Key::Down, 24);
        assert!(matches!(picker.press(Key::Enter, 24), PickerAction::Choose(1)));
        picker.press(Key::Clear, 24);
        assert_eq!(picker.matching, [0, 1], "the others come with Tab");
        picker.press(Key::Tab, 24);
        assert_eq!(picker.matching, [0, 1, 2]);
        picker.press(Key::Char('z'), 24);
        assert!(matches!(picker.press(Key::Enter, 24), PickerAction::Stay), "nothing is marked");
    }

    #[test]
    fn what_was_said_is_looked_for_once_and_the_marked_row_is_previewed() {
        let choices = [("port the parser", true), ("fix the tests", true), ("elsewhere", false)]
            .map(|(title, near)| Row(title.to_owned(), near));
        let mut picker = Picker::new(&WORDING, &choices);
        assert!(picker.draw(80, 24).contains("about port the parser"));
        assert!(!picker.draw(80, 12).contains("about port"), "no room");
        for c in "/flaky".chars() {
            picker.press(Key::Char(c), 24);
        }
        assert!(picker.matching.is_empty() && picker.draw(80, 24).contains("Enter search what was said"));
        let PickerAction::Search(words) = picker.press(Key::Enter, 24) else {
            panic!("Enter looks for them first")
        };
        assert_eq!(words, "flaky");
        picker.take(words, vec![1, 2]);
        assert_eq!(picker.matching, [1], "the others come with Tab");
        assert!(matches!(picker.press(Key::Enter, 24), PickerAction::Choose(1)));
        picker.press(Key::Char('x'), 24);
        assert!(
            matches!(picker.press(Key::Enter, 24), PickerAction::Search(_)),
            "other words are another search"
        );
    }

    #[test]
    fn the_marked_row_is_always_on_the_screen_and_no_line_is_wider_than_it() {
        let choices: Vec<Row> = (0..100).map(|n| Row(format!("{n} {}", "字".repeat(200)), true)).collect();
        let mut picker = Picker::new(&WORDING, &choices);
        picker.press(Key::End, 10);
        for (columns, rows) in [(80, 10), (20, 4), (1, 1)] {
            let screen = picker.draw(columns, rows);
            assert!(screen.contains("\x1b[7m"), "{columns} × {rows}");
            assert_eq!(screen.matches("\r\n").count(), rows.saturating_sub(FRAME).max(1) + 2);
            let plain = baton_core::plain::plain(&screen).into_owned();
            for line in plain.lines() {
                assert!(width(line) <= columns, "{columns} × {rows}: {line:?}");
            }
        }
    }
}
