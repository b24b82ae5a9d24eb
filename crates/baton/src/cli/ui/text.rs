//! Numbers and times for people, and the width of text on screen.

use std::borrow::Cow;

use baton_core::plain::columns;
use jiff::Timestamp;

pub(crate) use crate::sys::clock::{age, clock};

/// `820`, `12k`, `1.2M`: a number of tokens.
pub(crate) fn tokens(count: u64) -> String {
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => format!("{}k", count / 1_000),
        _ => format!("{:.1}M", count as f64 / 1_000_000.0),
    }
}

/// `820 B`, `4.2 kB`, `31 MB`: in the unit that needs at most four characters.
pub(crate) fn size(bytes: u64) -> String {
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
pub(crate) fn local(at: Timestamp) -> String {
    at.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// The columns of `text` on screen. Our own colour codes take none.
pub(crate) fn width(text: &str) -> usize {
    let simple = ascii_len(text);
    simple + pieces(&text[simple..]).map(|piece| piece.columns).sum::<usize>()
}

/// The beginning of `text` that fits into `most` columns, with `…` where it was cut. Resets colours at the cut.
pub(crate) fn cut(text: &str, most: usize) -> Cow<'_, str> {
    if width(text) <= most {
        return Cow::Borrowed(text);
    }
    // Reserve one column for the mark.
    let room = most.saturating_sub(1);
    let mut end = ascii_len(text).min(room);
    let mut used = end;
    for piece in pieces(&text[end..]) {
        used += piece.columns;
        if used > room {
            break;
        }
        end += piece.text.len();
    }
    let kept = text[..end].trim_end_matches([' ', '\u{200c}', '\u{200d}']);
    let mark = if most > 0 { "…" } else { "" };
    let reset = if kept.contains('\x1b') { "\x1b[0m" } else { "" };
    Cow::Owned([kept, mark, reset].concat())
}

/// Breaks lines that are longer than `columns` between words. Continuation lines align with the line's text: after its
/// indent, and after a mark or a first column that two spaces set off. A word that is longer than a line stays whole.
pub(crate) fn wrap(text: &str, columns: usize) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    for line in text.split_inclusive('\n') {
        let fits = width(line.trim_end_matches(['\n', ' '])) <= columns;
        if fits {
            out.push_str(line);
            continue;
        }
        let start = text_start(line, columns / 2);
        let from = out.len();
        let mut used = 0;
        for word in line.split_inclusive(' ') {
            let needed = width(word.trim_end());
            if needed > 0 && used > start && used + needed > columns {
                out.truncate(from + out[from..].trim_end_matches(' ').len());
                out.push('\n');
                out.extend(std::iter::repeat_n(' ', start));
                used = start;
            }
            out.push_str(word);
            used += width(word.trim_end_matches('\n'));
        }
    }
    out
}

/// The column where a line's text begins, at most `most`.
fn text_start(line: &str, most: usize) -> usize {
    let body = line.trim_start_matches(' ');
    let indent = line.len() - body.len();
    let mut start = (indent + if body.starts_with("→ ") { 2 } else { 0 }).min(most);
    let mut seen = 0;
    for (at, gap) in line.match_indices("  ") {
        let behind = &line[at + gap.len()..];
        let column = width(&line[..at]) + gap.len() + behind.len() - behind.trim_start_matches(' ').len();
        if at >= seen && column <= most && at > indent {
            (start, seen) = (column, at);
        }
    }
    start
}

/// How many bytes at the beginning are printable ASCII, one column each. Most output is like that.
fn ascii_len(text: &str) -> usize {
    text.bytes().take_while(|b| matches!(b, b' '..=b'~')).count()
}

/// A character, or one of our colour codes.
struct Piece<'t> {
    text: &'t str,
    columns: usize,
}

fn pieces(text: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let len = match first {
            '\x1b' => rest.find('m').map_or(rest.len(), |end| end + 1),
            first => first.len_utf8(),
        };
        let (text, after) = rest.split_at(len);
        rest = after;
        Some(Piece { text, columns: if first == '\x1b' { 0 } else { columns(first) } })
    })
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    #[test]
    fn width_counts_columns_and_no_colours() {
        assert_eq!(width("plain"), 5);
        assert_eq!(width("日本語"), 6, "two columns each");
        assert_eq!(width("e\u{301}"), 1, "an accent stands on its letter");
        assert_eq!(width("\x1b[31mred\x1b[0m"), 3);
    }

    #[test]
    fn cut_text_fits_and_its_colour_ends() {
        assert_eq!(cut("short", 5), "short");
        assert_eq!(cut("longer", 5), "long…");
        assert_eq!(cut("one two", 5), "one…", "no space before the mark");
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("日本語", 4), "日…", "half a character does not fit");
        assert_eq!(cut("\x1b[31mred\x1b[0m and more", 5), "\x1b[31mred\x1b[0m…\x1b[0m");
        assert_eq!(cut("any", 0), "");
        for most in 0..12 {
            assert!(width(&cut("\x1b[2m字 a字b\x1b[0m字字", most)) <= most, "{most}");
        }
    }

    #[test]
    fn long_lines_break_between_words_and_keep_their_indent() {
        assert_eq!(wrap("one two three\nfour\n", 8), "one two\nthree\nfour\n");
        assert_eq!(wrap("  one two three\n", 9), "  one two\n  three\n");
        assert_eq!(wrap("\n\nunbreakable word\n", 4), "\n\nunbreakable\nword\n");
        assert_eq!(wrap("Do it? [y/N] ", 13), "Do it? [y/N] ");
    }

    #[test]
    fn a_broken_line_continues_after_its_mark_or_first_column() {
        let mark = "\x1b[32m✓\x1b[0m";
        assert_eq!(wrap(&format!("{mark}  one two three\n"), 11), format!("{mark}  one two\n   three\n"));
        assert_eq!(wrap("  run   one two three four\n", 18), "  run   one two\n        three four\n");
        assert_eq!(wrap("one two three four  five\n", 10), "one two\nthree four\nfive\n");
    }

    #[test]
    fn numbers_and_times_are_shown_in_the_largest_unit() {
        assert_eq!([0, 999, 1_000, 41_999, 1_250_000].map(tokens), ["0", "999", "1k", "41k", "1.2M"]);
        assert_eq!([0, 999, 4_200, 31_000_000].map(size), ["0 B", "999 B", "4.2 kB", "31 MB"]);
        let now: Timestamp = "2026-11-16T12:00:00Z".parse().unwrap();
        let ago = |seconds: i64| age(now - SignedDuration::from_secs(seconds), now);
        assert_eq!(
            [0, 59, 60, 3_599, 3_600, 86_400, -5].map(ago),
            ["0s", "59s", "1m", "59m", "1h", "1d", "0s"]
        );
    }
}
