//! Aligned tables with a heading.

use crate::cli::ui::Paint;
use crate::cli::ui::text::{cut, width};
use crate::sys::terminal;

/// Spaces between two columns.
const GAP: usize = 2;
/// The last column shrinks down to this width to make room for the others.
const LAST_LEAST: usize = 12;
/// The width that a column of prose gets before others are dropped for it.
const PROSE_LEAST: usize = 24;

/// A table no wider than the terminal; unlimited in a pipe.
pub(crate) fn table(paint: Paint, head: &[&str], rows: &[Vec<String>]) -> String {
    let columns = terminal::size().map_or(usize::MAX, |(columns, _)| usize::from(columns));
    table_within(columns, paint, head, rows)
}

/// A table whose columns have ranks: if the terminal is too narrow for all of them, the lowest ranks come first, then
/// whatever else fits. Rank 0 always stays; a last column of rank 0 holds prose and is cut. Columns that are empty in
/// every row are left out.
pub(crate) fn table_ranked(paint: Paint, head: &[(&str, u8)], rows: &[Vec<String>]) -> String {
    match terminal::size() {
        Some((columns, _)) => ranked_within(usize::from(columns), paint, head, rows),
        None => ranked_within(usize::MAX, paint, head, rows),
    }
}

fn ranked_within(columns: usize, paint: Paint, head: &[(&str, u8)], rows: &[Vec<String>]) -> String {
    let is_empty = |n: usize| rows.iter().all(|row| row.get(n).is_none_or(String::is_empty));
    let needed = |n: usize| {
        let widest = rows.iter().filter_map(|row| row.get(n)).map(|cell| width(cell)).max();
        let widest = widest.unwrap_or(0).max(width(head[n].0));
        let is_prose = n + 1 == head.len() && head[n].1 == 0;
        GAP + if is_prose { widest.min(PROSE_LEAST) } else { widest }
    };
    let mut order: Vec<usize> = (0..head.len()).collect();
    order.sort_by_key(|n| head[*n].1);
    let mut kept = Vec::new();
    // The first column has no gap before it.
    let mut room = columns.saturating_add(GAP);
    for n in order {
        let fits = columns == usize::MAX || (needed(n) <= room && !is_empty(n));
        if head[n].1 == 0 || fits {
            room = room.saturating_sub(needed(n));
            kept.push(n);
        }
    }
    kept.sort_unstable();
    let names: Vec<&str> = kept.iter().map(|n| head[*n].0).collect();
    let pick = |row: &Vec<String>| kept.iter().map(|n| row.get(*n).cloned().unwrap_or_default()).collect();
    let rows: Vec<Vec<String>> = rows.iter().map(pick).collect();
    table_within(columns, paint, &names, &rows)
}

/// A table of at most `columns` columns.
pub(crate) fn table_within(columns: usize, paint: Paint, head: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = head.iter().map(|cell| width(cell)).collect();
    for row in rows {
        for (widest, cell) in widths.iter_mut().zip(row) {
            *widest = width(cell).max(*widest);
        }
    }
    shrink(&mut widths, columns);
    let mut out = paint.dim(&line(head, &widths, columns));
    out.push('\n');
    for row in rows {
        out.push_str(&line(row, &widths, columns));
        out.push('\n');
    }
    out
}

/// Shrinks columns to fit: the last one first, which has prose in most tables, then the widest.
fn shrink(widths: &mut [usize], columns: usize) {
    let room = columns.saturating_sub(GAP * widths.len().saturating_sub(1));
    let over = |widths: &[usize]| widths.iter().sum::<usize>().saturating_sub(room);
    let surplus = over(widths);
    if let Some(last) = widths.last_mut() {
        *last -= surplus.min(last.saturating_sub(LAST_LEAST));
    }
    for _ in 0..over(widths) {
        if let Some(widest) = widths.iter_mut().max() {
            *widest = widest.saturating_sub(1).max(1);
        }
    }
}

fn line(cells: &[impl AsRef<str>], widths: &[usize], columns: usize) -> String {
    let mut line = String::new();
    for (cell, most) in cells.iter().zip(widths) {
        // A folder's name may have a line break, but a row is one line.
        let cell = cell.as_ref().replace(['\n', '\r'], " ");
        let cell = cut(&cell, *most);
        let padding = most.saturating_sub(width(&cell)) + GAP;
        line.push_str(&cell);
        line.extend(std::iter::repeat_n(' ', padding));
    }
    line.truncate(line.trim_end().len());
    // The gaps alone may exceed a very narrow terminal.
    if widths.len() * (GAP + 1) > columns { cut(&line, columns).into_owned() } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Vec<String>> {
        let cell = |text: &str| text.to_owned();
        vec![
            vec![
                cell("日本語"),
                cell("\x1b[31mdied\x1b[0m"),
                cell("a long text about the parser and its tests"),
            ],
            vec![cell("abc"), cell("done"), cell("short")],
        ]
    }

    #[test]
    fn a_narrow_terminal_leaves_out_what_matters_least_and_what_says_nothing() {
        let head = [("ID", 0), ("STATE", 1), ("ABOUT", 2)];
        let within = |columns| ranked_within(columns, Paint::plain(), &head, &rows());
        assert!(within(usize::MAX).contains("ABOUT"));
        assert_eq!(within(20).lines().next(), Some("ID      STATE"));
        assert_eq!(within(8).lines().next(), Some("ID"));
        let wide_first = [("ID", 0), ("ABOUT", 1), ("STATE", 2)];
        let swapped: Vec<Vec<String>> =
            rows().into_iter().map(|row| [0, 2, 1].map(|n| row[n].clone()).to_vec()).collect();
        let narrow = ranked_within(20, Paint::plain(), &wide_first, &swapped);
        assert_eq!(narrow.lines().next(), Some("ID      STATE"), "what fits is shown in its place");
        let silent = [vec!["abc".to_owned(), String::new(), "short".to_owned()]];
        assert_eq!(ranked_within(80, Paint::plain(), &head, &silent).lines().next(), Some("ID   ABOUT"));
        assert!(
            ranked_within(usize::MAX, Paint::plain(), &head, &silent).contains("STATE"),
            "whole in a pipe"
        );
    }

    #[test]
    fn columns_line_up_by_what_is_seen() {
        let text = table_within(usize::MAX, Paint::plain(), &["ID", "STATE", "ABOUT"], &rows());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "ID      STATE  ABOUT");
        assert_eq!(lines[1], "日本語  \x1b[31mdied\x1b[0m   a long text about the parser and its tests");
        assert_eq!(lines[2], "abc     done   short");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_and_the_last_column_gives_way_first() {
        let within = |columns| table_within(columns, Paint::plain(), &["ID", "STATE", "ABOUT"], &rows());
        assert_eq!(
            within(40).lines().nth(1),
            Some("日本語  \x1b[31mdied\x1b[0m   a long text about the pa…")
        );
        for columns in 0..60 {
            for line in within(columns).lines() {
                assert!(width(line) <= columns, "{columns}: {line:?}");
            }
        }
    }
}
