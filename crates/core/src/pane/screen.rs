//! Reads from a client's terminal only what we must know before typing: whether the composer is there and empty. The
//! hooks report what the agent does.

/// The appearance of a provider's screen.
#[derive(Debug, Clone, Copy)]
pub struct Face {
    /// The beginning of the composer's first line.
    pub prompt: &'static str,
    /// The composer is between two lines drawn across the screen.
    pub ruled: bool,
    /// Texts that only an open dialog shows, for dialogs that look like a composer.
    pub dialogs: &'static [&'static str],
    /// What it shows when it refuses to clear its context and drops the typed text, because a turn has not quite ended.
    pub refusal: Option<&'static str>,
}

/// The pane as tmux reports it: styled lines and the cursor's position.
#[derive(Debug, Clone, Default)]
pub struct PaneCapture<'a> {
    /// `capture-pane -p -e`.
    pub text: &'a str,
    pub cursor: (usize, usize),
    /// Copy mode or another mode that takes the keys.
    pub in_mode: bool,
}

/// The state of the composer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Composer {
    Empty,
    /// A draft, as far as visible: all its lines if the composer's end is visible.
    Draft(String),
    /// A dialog, a menu or something else is in its place.
    #[default]
    Hidden,
}

/// One look at the pane.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Screen {
    pub composer: Composer,
    pub in_mode: bool,
    /// It shows that it refused to clear its context; a cleared screen does not.
    pub refused: bool,
}

/// One character with the style attributes that matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cell {
    c: char,
    /// Drawn faint: a placeholder, a hint.
    faint: bool,
    reversed: bool,
}

impl Face {
    pub fn read(&self, shown: &PaneCapture<'_>) -> Screen {
        let mut style = Style::default();
        let lines: Vec<Vec<Cell>> = shown.text.split('\n').map(|line| style.cells(line)).collect();
        let plain: Vec<String> = lines.iter().map(|cells| cells.iter().map(|c| c.c).collect()).collect();
        let refused = self.refusal.is_some_and(|mark| plain.iter().any(|line| line.contains(mark)));
        Screen { composer: self.composer(shown, &lines, &plain), in_mode: shown.in_mode, refused }
    }

    fn composer(&self, shown: &PaneCapture<'_>, lines: &[Vec<Cell>], plain: &[String]) -> Composer {
        if self.dialogs.iter().any(|mark| plain.iter().any(|line| line.contains(mark))) {
            return Composer::Hidden;
        }
        let is_composer = |at: usize| {
            begins_with(&plain[at], self.prompt)
                && (!self.ruled || at.checked_sub(1).is_some_and(|above| is_rule(&plain[above])))
        };
        let Some(at) = (0..lines.len()).rev().find(|at| is_composer(*at)) else { return Composer::Hidden };
        let width = self.prompt.chars().count();
        let (column, line) = shown.cursor;
        let end = (at + 1..lines.len()).find(|below| is_rule(&plain[*below])).unwrap_or(lines.len());
        // Keys go to the cursor; elsewhere, it belongs to something that covers the composer.
        if line < at || (self.ruled && line >= end) {
            return Composer::Hidden;
        }
        let text = &lines[at][width.min(lines[at].len())..];
        // A placeholder is faint, but the cursor may be on its first letter.
        let is_hint =
            |(n, cell): (usize, &Cell)| cell.c.is_whitespace() || cell.faint || (n == 0 && cell.reversed);
        let no_text = text.iter().all(|cell| cell.c.is_whitespace());
        if line == at && column == width && (no_text || text.iter().enumerate().all(is_hint)) {
            return Composer::Empty;
        }
        let mut draft: String = text.iter().map(|cell| cell.c).collect();
        if self.ruled {
            for more in &plain[at + 1..end] {
                draft.truncate(draft.trim_end().len());
                draft.push('\n');
                draft.push_str(more.trim());
            }
        }
        Composer::Draft(draft.trim_end().to_owned())
    }
}

/// Matches any whitespace for the prompt's last blank, which may be a no-break space.
fn begins_with(line: &str, prompt: &str) -> bool {
    let mut chars = line.chars();
    prompt.chars().all(|p| match chars.next() {
        Some(c) => c == p || (c.is_whitespace() && p.is_whitespace()),
        // tmux strips blanks at the end of a line.
        None => p.is_whitespace(),
    })
}

fn is_rule(line: &str) -> bool {
    line.chars().filter(|c| *c == '─').count() >= 20
}

#[derive(Debug, Clone, Copy, Default)]
struct Style {
    faint: bool,
    reversed: bool,
    grey: bool,
}

impl Style {
    /// The characters of a line. Escape sequences change the style of the text after them, also on later lines.
    fn cells(&mut self, line: &str) -> Vec<Cell> {
        let mut cells = Vec::new();
        let mut chars = line.chars();
        while let Some(c) = chars.next() {
            if c != '\u{1b}' {
                cells.push(Cell { c, faint: self.faint || self.grey, reversed: self.reversed });
                continue;
            }
            if chars.next() != Some('[') {
                continue;
            }
            let mut codes = String::new();
            for c in chars.by_ref() {
                if c.is_ascii_alphabetic() {
                    if c == 'm' {
                        self.apply(&codes);
                    }
                    break;
                }
                codes.push(c);
            }
        }
        cells
    }

    fn apply(&mut self, codes: &str) {
        let mut codes = codes.split([';', ':']).map(|code| code.parse::<u16>().unwrap_or(0));
        while let Some(code) = codes.next() {
            match code {
                0 => *self = Self::default(),
                2 => self.faint = true,
                22 => self.faint = false,
                7 => self.reversed = true,
                27 => self.reversed = false,
                38 | 48 => {
                    let grey = match codes.next() {
                        // The grey ramp of the 256 colours.
                        Some(5) => codes.next().is_some_and(|n| (238..=250).contains(&n)),
                        Some(2) => {
                            let [r, g, b] = [(); 3].map(|()| codes.next().unwrap_or(0));
                            r == g && g == b && (70..=190).contains(&r)
                        }
                        _ => false,
                    };
                    if code == 38 {
                        self.grey = grey;
                    }
                }
                90 => self.grey = true,
                30..=37 | 39 | 91..=97 => self.grey = false,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLAUDE: Face = Face { prompt: "❯\u{a0}", ruled: true, dialogs: &[], refusal: None };
    const RULE: &str = "\u{1b}[38;5;244m────────────────────────────────────────";

    fn claude(inside: &str, cursor: (usize, usize)) -> Composer {
        let text =
            format!("● First answer.\n\u{1b}[39m\n{RULE}\n\u{1b}[39m{inside}\n\u{1b}[0m{RULE}\n  hints");
        CLAUDE.read(&PaneCapture { text: &text, cursor, in_mode: false }).composer
    }

    #[test]
    fn an_empty_composer_is_the_prompt_and_the_cursor_after_it() {
        assert_eq!(claude("❯\u{a0}\u{1b}[7m ", (2, 3)), Composer::Empty);
        assert_eq!(claude("❯", (2, 3)), Composer::Empty);
        assert_eq!(claude("❯\u{a0}", (5, 3)), Composer::Draft(String::new()), "blanks are a draft too");
    }

    #[test]
    fn a_placeholder_is_no_draft_and_a_draft_with_the_cursor_at_its_beginning_is_one() {
        assert_eq!(claude("❯\u{a0}\u{1b}[7mT\u{1b}[27;2mry \"fix it\"", (2, 3)), Composer::Empty);
        assert_eq!(claude("❯\u{a0}\u{1b}[38;5;246mTry it\u{1b}[39m", (2, 3)), Composer::Empty);
        assert_eq!(claude("❯\u{a0}\u{1b}[7mh\u{1b}[27mello", (2, 3)), Composer::Draft("hello".into()));
        assert_eq!(claude("❯\u{a0}\u{1b}[38;5;231mhello", (2, 3)), Composer::Draft("hello".into()));
    }

    #[test]
    fn text_pasted_text_and_further_lines_are_drafts() {
        assert_eq!(claude("❯\u{a0}hello draft", (13, 3)), Composer::Draft("hello draft".into()));
        assert_eq!(claude("❯\u{a0}[Pasted text #1 +3 lines]", (27, 3)), {
            Composer::Draft("[Pasted text #1 +3 lines]".into())
        });
        assert_eq!(claude("❯\u{a0}first\n  second", (8, 4)), Composer::Draft("first\nsecond".into()));
        assert_eq!(claude("❯\u{a0}\n  second", (8, 4)), Composer::Draft("\nsecond".into()));
    }

    #[test]
    fn a_dialog_or_a_prompt_in_the_history_is_no_composer() {
        let dialog = format!("❯\u{a0}go on\n{RULE}\n Do you want to proceed?\n ❯ 1. Yes\n   2. No\n");
        let read = |face: Face, text: &str, cursor| {
            face.read(&PaneCapture { text, cursor, in_mode: false }).composer
        };
        assert_eq!(read(CLAUDE, &dialog, (1, 3)), Composer::Hidden);
        assert_eq!(claude("❯\u{a0}", (1, 0)), Composer::Hidden, "the cursor is elsewhere");
        let refusal = Some("'/clear' is disabled");
        let codex = Face { prompt: "› ", ruled: false, dialogs: &["Would you like to run"], refusal };
        let asks = "Would you like to run the following command?\n› 1. Yes, proceed (y)";
        assert_eq!(read(codex, asks, (2, 1)), Composer::Hidden);
        assert_eq!(read(codex, "› \u{1b}[2mAsk Codex to do anything", (2, 0)), Composer::Empty);
        let dropped = "• Handed over.\n\n\u{1b}[31m■ '/clear' is disabled while a task is in progress.\n\n› ";
        let shown = PaneCapture { text: dropped, cursor: (2, 4), in_mode: false };
        let screen = codex.read(&shown);
        assert_eq!((screen.composer, screen.refused), (Composer::Empty, true));
        assert!(!codex.read(&PaneCapture { text: "› ", cursor: (2, 0), in_mode: false }).refused);
    }

    proptest::proptest! {
        #[test]
        fn whatever_a_pane_shows_is_read(text: String, x in 0usize..300, y in 0usize..100) {
            let _ = CLAUDE.read(&PaneCapture { text: &text, cursor: (x, y), in_mode: false });
        }
    }
}
