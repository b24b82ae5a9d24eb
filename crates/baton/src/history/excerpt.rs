//! Excerpts of hits.

use std::ops::Range;

use baton_core::plain::{columns, plain};
use baton_core::redact::redact;
use baton_core::search::Query;

use crate::history::search::SearchHit;

/// Longest line shown of a hit.
const LINE: usize = 400;

/// A displayed hit, plain and without secrets: the matching line and its context.
pub(crate) struct Excerpt {
    pub before: Vec<String>,
    pub line: String,
    pub after: Vec<String>,
}

pub(crate) fn excerpt(hit: &SearchHit, query: &Query, context: usize) -> Excerpt {
    let plain = plain(&hit.text);
    let safe = redact(&plain).text;
    let lines: Vec<&str> = safe.lines().collect();
    // If the match itself is a secret, show its mark.
    let at = query.find(&safe).map(|m| m.at.start).or_else(|| safe.find("[REDACTED:")).unwrap_or(0);
    let n = safe[..at].matches('\n').count().min(lines.len().saturating_sub(1));
    let cut = |line: &&str| cut_around(line, query.marks(line).first(), LINE);
    Excerpt {
        before: lines[n.saturating_sub(context).min(lines.len())..n].iter().map(cut).collect(),
        line: lines.get(n).map(cut).unwrap_or_default(),
        after: lines.iter().skip(n + 1).take(context).map(cut).collect(),
    }
}

/// At most `most` columns of `line`, with `mark` among them.
fn cut_around(line: &str, mark: Option<&Range<usize>>, most: usize) -> String {
    let line = line.trim_end();
    let total = width(line);
    if total <= most {
        return line.to_owned();
    }
    let at = mark.map_or(0, |m| width(&line[..m.start]));
    let from = at.saturating_sub(most / 3).min(total - most);
    // The columns before each character.
    let mut before = 0;
    let placed = line.char_indices().map(|(at, c)| {
        let column = before;
        before += columns(c);
        (column, at, c)
    });
    let shown: Vec<_> =
        placed.filter(|(column, _, c)| *column >= from && column + columns(*c) <= from + most).collect();
    let (Some((_, begin, _)), Some((_, last, c))) = (shown.first(), shown.last()) else {
        return String::new();
    };
    let end = last + c.len_utf8();
    let (left, right) = (if *begin > 0 { "…" } else { "" }, if end < line.len() { "…" } else { "" });
    format!("{left}{}{right}", &line[*begin..end])
}

fn width(text: &str) -> usize {
    text.chars().map(columns).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_cut_around_what_was_found() {
        let line = format!("{}here{}", "x".repeat(1000), "é".repeat(1000));
        let shown = cut_around(&line, Some(&(1000..1004)), 100);
        assert!(shown.contains("here") && shown.chars().count() <= 102, "{shown}");
        assert_eq!(cut_around("short", None, 100), "short");
        let wide = format!("{}NEEDLE{}", "字".repeat(300), "字".repeat(300));
        let shown = cut_around(&wide, Some(&(900..906)), 100);
        assert!(width(&shown) <= 102 && shown.contains("NEEDLE"), "{shown}");
    }
}
