//! Secrets that stand apart from their name: `name: X` and `value: …` in a list, two arguments of a call, cells of a
//! table, `ENV X …`, `PASSWORD '…'`.
//!
//! Prose and code join words in these ways too, so only a value that is not made of words is a secret here.

use std::ops::Range;

use super::reader::{Class, Reader, class};

static BLANK: Class = class(b" \t");
static SIGN: Class = class(b":=");
static BACKSLASH: Class = class(b"\\");
/// What is between a name and the word `value`, as YAML, JSON, HCL and XML write it.
static GAP: Class = class(b" \t\r\n\\\"',;:={");
/// What decorates a cell.
static CELL: Class = class(b" \t`*");

/// Entries of lists and cells of tables are not further apart.
const WIDEST: usize = 80;

/// Where the value of this name begins. A value without quotes ends with its word.
pub(super) fn value_at(reader: &Reader<'_>, name: &Range<usize>) -> Option<usize> {
    match reader.byte(name.end) {
        b'"' | b'\'' | b'\\' => listed(reader, name.end).or_else(|| argument(reader, name)),
        b'\n' | b'\r' => listed(reader, name.end),
        b' ' | b'\t' | b'`' | b'*' => cell(reader, name).or_else(|| declared(reader, name)),
        _ => None,
    }
}

/// `- name: DB_PASSWORD⏎  value: …`, `{"name": "DB_PASSWORD", "value": "…"}`, `variable "password" { default = "…" }`.
fn listed(reader: &Reader<'_>, from: usize) -> Option<usize> {
    let word = reader.skip(&GAP, from, WIDEST);
    let there = reader.bytes.get(word..)?;
    let len = ["value", "default"].into_iter().map(str::as_bytes).find_map(|known| {
        let there = there.get(..known.len())?;
        there.eq_ignore_ascii_case(known).then_some(known.len())
    })?;
    let mut at = reader.skip(&BACKSLASH, word + len, 8);
    at += usize::from(matches!(reader.byte(at), b'"' | b'\''));
    let sign = reader.skip(&BLANK, at, WIDEST);
    let end = reader.skip(&SIGN, sign, 2);
    (end > sign).then(|| reader.skip(&BLANK, end, WIDEST))
}

/// `define('DB_PASSWORD', '…')`
fn argument(reader: &Reader<'_>, name: &Range<usize>) -> Option<usize> {
    let close = reader.skip(&BACKSLASH, name.end, 8);
    let quote = reader.byte(close);
    let open = name.start.checked_sub(1)?;
    let is_first = reader.bytes[open] == quote
        && matches!(reader.bytes[..reader.skip_back(&BACKSLASH, open, 8)].last(), Some(b'('));
    let comma = reader.skip(&BLANK, close + 1, WIDEST);
    if !is_first || reader.byte(comma) != b',' {
        return None;
    }
    let value = reader.skip(&BLANK, comma + 1, WIDEST);
    let is_text = matches!(reader.byte(reader.skip(&BACKSLASH, value, 8)), b'"' | b'\'');
    is_text.then_some(value)
}

/// `| password | … |`
fn cell(reader: &Reader<'_>, name: &Range<usize>) -> Option<usize> {
    let before = reader.skip_back(&CELL, name.start, WIDEST);
    let bar = reader.skip(&CELL, name.end, WIDEST);
    // A closure and an "or" have no blank here.
    let is_cell = before.checked_sub(1).is_some_and(|at| reader.bytes[at] == b'|')
        && before < name.start
        && reader.byte(bar) == b'|'
        && matches!(reader.byte(bar + 1), b' ' | b'\t');
    is_cell.then(|| reader.skip(&BLANK, bar + 1, WIDEST))
}

/// `ENV API_TOKEN …`, `set -x API_TOKEN …`, `#define API_KEY "…"`, `PASSWORD '…'`, `WITH some_password BY '…'`.
fn declared(reader: &Reader<'_>, name: &Range<usize>) -> Option<usize> {
    const WORDS: &[&str] =
        &["ENV", "#define", "setx", "setenv", "set -x", "set -gx", "set -Ux", "set -xg", "set -xU"];
    let value = reader.skip(&BLANK, name.end, WIDEST);
    if value == name.end {
        return None;
    }
    let before = reader.skip_back(&BLANK, name.start, WIDEST);
    if before < name.start && WORDS.iter().any(|word| reader.bytes[..before].ends_with(word.as_bytes())) {
        return Some(value);
    }
    let text = if reader.starts_with(value, "BY '") { value + 3 } else { value };
    let is_sql = text > value || reader.bytes[name.clone()].eq_ignore_ascii_case(b"password");
    (is_sql && reader.byte(text) == b'\'').then_some(text)
}
