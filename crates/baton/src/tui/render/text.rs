//! Lines of styled text, wrapped to a width.

use baton_core::plain::{columns, plain_line};
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::Style;

/// A line of pieces, each with its style.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct StyledLine(pub Vec<(String, Style)>);

impl StyledLine {
    pub(crate) fn new(text: impl Into<String>, style: Style) -> Self {
        Self(vec![(text.into(), style)])
    }

    #[must_use]
    pub(crate) fn with(mut self, text: impl Into<String>, style: Style) -> Self {
        self.0.push((text.into(), style));
        self
    }
}

/// The width of a text in columns.
pub(crate) fn width(text: &str) -> usize {
    text.chars().map(columns).sum()
}

/// As much of the beginning as fits, with `…` where it was cut.
pub(crate) fn cut(text: &str, most: usize) -> String {
    plain_line(text, most)
}

/// The text cut or padded to exactly this many columns.
pub(crate) fn fit(text: &str, columns: usize) -> String {
    let cut = cut(text, columns);
    let room = columns.saturating_sub(width(&cut));
    cut + &" ".repeat(room)
}

/// Breaks a text at words into lines of at most `most` columns. Empty lines stay.
pub(crate) fn wrap(text: &str, most: usize) -> Vec<String> {
    let most = most.max(1);
    let mut lines = Vec::new();
    for paragraph in text.lines() {
        let indent: String = paragraph.chars().take_while(|c| *c == ' ').take(most / 2).collect();
        let mut line = String::new();
        let mut used = 0;
        for word in paragraph.split_inclusive(' ') {
            let needed = width(word.trim_end());
            if used + needed > most && used > indent.len() {
                lines.push(line.trim_end().to_owned());
                line.clone_from(&indent);
                used = indent.len();
            }
            for c in word.chars() {
                let c = if c == '\t' { ' ' } else { c };
                if used + columns(c) > most && !line.is_empty() {
                    lines.push(std::mem::take(&mut line));
                    used = 0;
                }
                line.push(c);
                used += columns(c);
            }
        }
        lines.push(line.trim_end().to_owned());
    }
    lines
}

/// Draws a line into one row of `area`; the part that does not fit is left out.
pub(crate) fn put(buffer: &mut Buffer, area: Rect, row: u16, line: &StyledLine) {
    if row >= area.height {
        return;
    }
    let (mut x, y) = (area.x, area.y + row);
    for (text, style) in &line.0 {
        let room = usize::from((area.x + area.width).saturating_sub(x));
        if room == 0 {
            break;
        }
        (x, _) = buffer.set_stringn(x, y, text, room, *style);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_kept_whole_where_they_fit_and_broken_where_they_do_not() {
        assert_eq!(wrap("one two three", 8), ["one two", "three"]);
        assert_eq!(wrap("abcdefghij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(wrap("a\n\nb", 9), ["a", "", "b"]);
        assert_eq!(wrap("  - an item of a list", 12), ["  - an item", "  of a list"]);
        assert_eq!(wrap("漢字漢字", 5), ["漢字", "漢字"]);
        for most in 1..20 {
            assert!(wrap("a bb ccc dddd 漢字 éé  ffffffff", most).iter().all(|l| width(l) <= most.max(2)));
        }
    }

    #[test]
    fn a_text_takes_exactly_the_columns_it_is_given() {
        assert_eq!(fit("ab", 4), "ab  ");
        assert_eq!(width(&fit("漢字漢字", 5)), 5);
    }
}
