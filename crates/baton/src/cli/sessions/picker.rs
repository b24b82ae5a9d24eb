//! `baton sessions` in a terminal: choose a conversation. Type to filter, Enter resumes, Esc leaves.

use std::fmt::Write as _;
use std::time::Duration;

use baton_core::plain::plain_line;

use super::super::args::WhoseArgs;
use super::super::screen::Paint;
use super::super::{App, Outcome};
use super::list::{Telling, state};
use super::{Scope, read, resume, say_skipped};
use crate::sys::terminal::{self, Raw};

/// How soon a changed window is noticed.
const LOOK: Duration = Duration::from_millis(250);

pub fn run(app: &App) -> anyhow::Result<Outcome> {
    let catalogue = read(app);
    let scope = Scope::new(app, &WhoseArgs::default())?;
    let telling = Telling::new(app, &catalogue);
    let choices = catalogue.rows().map(|row| {
        let project = telling.project(row);
        let title = telling.title(row);
        Choice {
            here: scope.holds(row),
            line: format!(
                "{:<8}  {:>4}  {:<12}",
                row.source.id.short(),
                telling.when(row),
                state(Paint::plain(), row)
            ),
            hay: format!("{title} {project} {}", row.source.id).to_lowercase(),
            title,
            project,
        }
    });
    let mut picker = Picker::new(choices.collect());
    if picker.choices.is_empty() {
        say_skipped(app, &catalogue.skipped);
        eprintln!("baton: there is no session yet");
        return Ok(Outcome::Nothing);
    }
    let Some(chosen) = ask(&mut picker)? else { return Ok(Outcome::Done) };
    resume::start(app, &scope, &catalogue.rows[chosen], &[])
}

/// The number of the row that was chosen.
fn ask(picker: &mut Picker) -> anyhow::Result<Option<usize>> {
    let Some(raw) = Raw::enter()? else { return Ok(None) };
    let mut buffer = [0; 256];
    let mut drawn = None;
    loop {
        let size = terminal::size().unwrap_or((80, 24));
        if drawn != Some(size) {
            raw.show(picker.draw(usize::from(size.0), usize::from(size.1)).as_bytes())?;
            drawn = Some(size);
        }
        // A terminal that is gone, or a signal, is a way to leave.
        let Ok(typed) = raw.read(&mut buffer, LOOK) else { return Ok(None) };
        for key in keys(typed) {
            drawn = None;
            match picker.press(key, usize::from(size.1)) {
                Step::Stay => {}
                Step::Leave => return Ok(None),
                Step::Choose(n) => return Ok(Some(n)),
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
    /// The whole line, as in a shell.
    Clear,
    Tab,
}

/// What was typed. A sequence we do not know, and the rest of one that was cut, mean nothing.
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
                // Alt and a key.
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

enum Step {
    Stay,
    Leave,
    Choose(usize),
}

struct Choice {
    here: bool,
    line: String,
    title: String,
    project: String,
    hay: String,
}

/// What is shown and chosen from: this project's first, all with Tab.
struct Picker {
    choices: Vec<Choice>,
    filter: String,
    all: bool,
    /// The choices that match, and which of them is chosen.
    shown: Vec<usize>,
    at: usize,
}

/// Lines that are not choices: the question above, the keys below.
const FRAME: usize = 3;

impl Picker {
    fn new(choices: Vec<Choice>) -> Self {
        let all = !choices.iter().any(|c| c.here);
        let mut picker = Self { choices, filter: String::new(), all, shown: Vec::new(), at: 0 };
        picker.refilter();
        picker
    }

    fn refilter(&mut self) {
        let words: Vec<String> = self.filter.split_whitespace().map(str::to_lowercase).collect();
        let matches = |c: &Choice| (self.all || c.here) && words.iter().all(|w| c.hay.contains(w));
        self.shown = (0..self.choices.len()).filter(|n| matches(&self.choices[*n])).collect();
        self.at = 0;
    }

    fn press(&mut self, key: Key, rows: usize) -> Step {
        let page = rows.saturating_sub(FRAME).max(1);
        let last = self.shown.len().saturating_sub(1);
        match key {
            Key::Leave => return Step::Leave,
            Key::Enter => return self.shown.get(self.at).map_or(Step::Stay, |n| Step::Choose(*n)),
            Key::Up => self.at = self.at.saturating_sub(1),
            Key::Down => self.at = (self.at + 1).min(last),
            Key::PageUp => self.at = self.at.saturating_sub(page),
            Key::PageDown => self.at = (self.at + page).min(last),
            Key::Home => self.at = 0,
            Key::End => self.at = last,
            Key::Tab => {
                self.all = !self.all;
                self.refilter();
            }
            Key::Backspace => {
                self.filter.pop();
                self.refilter();
            }
            Key::Clear => {
                self.filter.clear();
                self.refilter();
            }
            Key::Char(c) => {
                if self.filter.len() < 200 {
                    self.filter.push(c);
                }
                self.refilter();
            }
        }
        Step::Stay
    }

    /// The whole screen, from its first line.
    fn draw(&self, columns: usize, rows: usize) -> String {
        let page = rows.saturating_sub(FRAME).max(1);
        let top = self.at.saturating_sub(page - 1);
        let mut out = String::from("\x1b[?25l\x1b[H");
        let line = |out: &mut String, text: &str| {
            let _ = write!(out, "{text}\x1b[0m\x1b[K\r\n");
        };
        let whose = if self.all { "all projects" } else { "this project" };
        let head = plain_line(
            &format!("Resume which session of {whose}? ({} of {})", self.shown.len(), self.choices.len()),
            columns,
        );
        line(&mut out, &format!("\x1b[1m{head}"));
        line(&mut out, &format!("> {}", plain_line(&self.filter, columns.saturating_sub(3))));
        for n in top..top + page {
            let Some(choice) = self.shown.get(n).map(|n| &self.choices[*n]) else {
                line(&mut out, "");
                continue;
            };
            let project = if self.all { format!("{}  ", choice.project) } else { String::new() };
            let text = cut(&format!("{}  {project}{}", choice.line, choice.title), columns.saturating_sub(3));
            line(&mut out, &if n == self.at { format!("\x1b[7m> {text}") } else { format!("  {text}") });
        }
        let keys = "type to filter · ↑↓ choose · Enter resume · Tab all projects · Esc leave";
        let _ = write!(out, "\x1b[2m{}\x1b[0m\x1b[K", plain_line(keys, columns.saturating_sub(1)));
        // Behind what was typed.
        let typed = plain_line(&self.filter, columns.saturating_sub(3)).chars().count();
        let _ = write!(out, "\x1b[2;{}H\x1b[?25h", typed + 3);
        out
    }
}

/// At most so many columns, with the spaces inside as they are; the text is plain already.
fn cut(text: &str, columns: usize) -> String {
    let mut width = 0;
    let fits = |c: &char| {
        width += unicode_width::UnicodeWidthChar::width(*c).unwrap_or(0);
        width <= columns
    };
    text.chars().take_while(fits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(title: &str, here: bool) -> Choice {
        let (title, hay) = (title.to_owned(), title.to_lowercase());
        Choice { here, line: "id".into(), title, project: "~/p".into(), hay }
    }

    #[test]
    fn keys_are_told_apart_whole_sequences_from_a_lone_escape() {
        assert_eq!(keys(b"a\x1b[B\r"), [Key::Char('a'), Key::Down, Key::Enter]);
        assert_eq!(keys(b"\x1b"), [Key::Leave]);
        assert_eq!(keys(b"\x1b[5~\x1bOA\x1b[H"), [Key::PageUp, Key::Up, Key::Home]);
        assert_eq!(keys(b"\x1b[200~\xc3\xa9\x1b[99;5u"), [Key::Char('é')], "unknown ones mean nothing");
        assert_eq!(keys(b"\x7f\x15\t\x03"), [Key::Backspace, Key::Clear, Key::Tab, Key::Leave]);
    }

    #[test]
    fn typing_narrows_the_choice_and_enter_takes_what_is_marked() {
        let mut picker = Picker::new(vec![
            choice("Port the parser", true),
            choice("Fix the parser", true),
            choice("Elsewhere", false),
        ]);
        for c in "PARSER".chars() {
            picker.press(Key::Char(c), 24);
        }
        assert_eq!(picker.shown, [0, 1]);
        picker.press(Key::Down, 24);
        picker.press(Key::Down, 24);
        assert!(matches!(picker.press(Key::Enter, 24), Step::Choose(1)));
        picker.press(Key::Clear, 24);
        assert_eq!(picker.shown, [0, 1], "others' sessions come with Tab");
        picker.press(Key::Tab, 24);
        assert_eq!(picker.shown, [0, 1, 2]);
        picker.press(Key::Char('z'), 24);
        assert!(matches!(picker.press(Key::Enter, 24), Step::Stay), "nothing is nothing");
    }

    #[test]
    fn the_marked_line_is_always_on_the_screen_and_no_line_is_too_long() {
        let mut picker =
            Picker::new((0..100).map(|n| choice(&format!("{n} {}", "字".repeat(200)), true)).collect());
        picker.press(Key::End, 10);
        for (columns, rows) in [(80, 10), (20, 4), (1, 1)] {
            let screen = picker.draw(columns, rows);
            assert!(screen.contains("\x1b[7m> "), "{columns} × {rows}");
            assert_eq!(screen.matches("\r\n").count(), rows.saturating_sub(FRAME).max(1) + 2);
        }
    }
}
