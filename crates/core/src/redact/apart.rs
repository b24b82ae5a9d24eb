//! Secrets that stand apart from their name: `name: X` and `value: …` in a list, two arguments of a call, cells of a
//! table, `ENV X …`, `PASSWORD '…'`.
//!
//! Prose and code join words in these ways too, so only a value that is not made of words is a secret here.

use std::ops::Range;

use super::assign::{BLANKS, Separator};
use super::reader::{Class, Reader, alphanumeric_and, but, class};

static BLANK: Class = class(b" \t");
static SIGN: Class = class(b":=");
static BACKSLASH: Class = class(b"\\");
/// What is between a name and the word `value`, as YAML, JSON, HCL and XML write it.
static GAP: Class = class(b" \t\r\n\\\"',;:={");
/// The decoration of a cell.
static CELL: Class = class(b" \t`*");

/// A name and its value in a list or a table are at most this far apart.
const WIDEST: usize = 80;

/// Where the value of this name begins. A value without quotes ends with its word.
pub(super) fn value_at(reader: &Reader<'_>, name: &Range<usize>) -> Option<(Separator, usize)> {
    let at = match reader.byte(name.end) {
        b'"' | b'\'' | b'\\' => match listed(reader, name.end) {
            Some(at) => at,
            None => return argument(reader, name),
        },
        b'\n' | b'\r' => listed(reader, name.end)?,
        // See `is_call`.
        b'(' | b',' => name.end + 1 + usize::from(reader.byte(name.end + 1) == b' '),
        b' ' | b'\t' | b'`' | b'*' => {
            cell(reader, name).or_else(|| declared(reader, name)).or_else(|| column(reader, name))?
        }
        _ => return None,
    };
    Some((Separator::Apart, at))
}

/// `- name: DB_PASSWORD⏎  value: …`, `{"name": "DB_PASSWORD", "value": "…"}`, `variable "password" { default = "…" }`.
/// A few other fields of the same object may come first.
fn listed(reader: &Reader<'_>, from: usize) -> Option<usize> {
    const VALUES: [&[u8]; 3] = [b"value", b"default", b"computed"];
    const OTHERS: usize = 3;
    static KEY: Class = alphanumeric_and(b"_-");
    let mut at = from;
    for n in 0..=OTHERS {
        let word = reader.skip(&GAP, at, WIDEST);
        let end = reader.skip(&KEY, word, 32);
        let is_value = VALUES.iter().any(|known| reader.bytes[word..end].eq_ignore_ascii_case(known));
        // After a colon comes the value itself, unless it is an object.
        let gap = &reader.bytes[at..word];
        let is_inside = n > 0 || gap.contains(&b'{') || !gap.iter().any(|b| matches!(b, b':' | b'='));
        if end == word || !(is_value || is_inside) {
            return None;
        }
        let mut sign = reader.skip(&BACKSLASH, end, 8);
        sign += usize::from(matches!(reader.byte(sign), b'"' | b'\''));
        sign = reader.skip(&BLANK, sign, WIDEST);
        let value = reader.skip(&SIGN, sign, 2);
        if value == sign {
            return None;
        }
        let value = reader.skip(&BLANK, value, WIDEST);
        if is_value {
            return Some(value);
        }
        at = scalar_end(reader, value)?;
    }
    None
}

/// The end of a short text, number or word.
fn scalar_end(reader: &Reader<'_>, at: usize) -> Option<usize> {
    const LONGEST: usize = 120;
    static TEXT: Class = but(b"\"'\\\r\n");
    static BARE: Class = alphanumeric_and(b"_-.");
    let open = reader.skip(&BACKSLASH, at, 8);
    if matches!(reader.byte(open), b'"' | b'\'') {
        let close = reader.skip(&BACKSLASH, reader.skip(&TEXT, open + 1, LONGEST), 8);
        return (reader.byte(close) == reader.byte(open)).then_some(close + 1);
    }
    let end = reader.skip(&BARE, at, LONGEST);
    (end > at).then_some(end)
}

/// Whether the name is that of a call whose first argument is a text, or of a tuple: `.password("…")`,
/// `setPassword("…")`, `PASSWORD('…')`, `{password, "…"}`.
pub(super) fn is_call(reader: &Reader<'_>, name: &Range<usize>) -> bool {
    const METHODS: [&[u8]; 6] = [b"password", b"passwd", b"token", b"secret", b"apiKey", b"api_key"];
    let is_tuple = reader.byte(name.end) == b',';
    let at = name.end + 1 + usize::from(is_tuple && reader.byte(name.end + 1) == b' ');
    if !matches!(reader.byte(reader.skip(&BACKSLASH, at, 8)), b'"' | b'\'') {
        return false;
    }
    if is_tuple {
        return name.start > 0 && reader.byte(name.start - 1) == b'{';
    }
    let whole = &reader.bytes[name.clone()];
    let own = whole.iter().rposition(|b| *b == b'.').map_or(whole, |dot| &whole[dot + 1..]);
    let sets = own.len() > 3 && (own[..3].eq_ignore_ascii_case(b"set") || own.starts_with(b"with"));
    let is_method = (own.len() < whole.len() || (name.start > 0 && reader.byte(name.start - 1) == b'.'))
        && METHODS.contains(&own);
    sets || is_method || whole == b"PASSWORD"
}

/// The value on the line below its name: `password:⏎  …`
pub(super) fn next_line(reader: &Reader<'_>, line_end: usize) -> Option<(Separator, usize)> {
    static BREAK: Class = class(b"\r\n");
    let line = reader.skip(&BREAK, line_end, 2);
    let value = reader.skip(&BLANK, line, BLANKS);
    is_line(reader, value).then_some((Separator::Apart, value))
}

/// Whether one word stands from `at` to the end of the line.
fn is_line(reader: &Reader<'_>, at: usize) -> bool {
    static WORD: Class = but(b" \t\r\n");
    const LONGEST: usize = 200;
    let end = reader.skip(&WORD, at, LONGEST);
    end > at && matches!(reader.byte(end), b'\n' | b'\r' | 0)
}

/// `password    …`, alone on its line, as tools print a requested value.
fn column(reader: &Reader<'_>, name: &Range<usize>) -> Option<usize> {
    let value = reader.skip(&BLANK, name.end, WIDEST);
    let begins =
        matches!(reader.bytes[..reader.skip_back(&BLANK, name.start, WIDEST)].last(), None | Some(b'\n'));
    let is_short = reader.bytes[name.clone()].eq_ignore_ascii_case(b"pass");
    let is_wide = value >= name.end + 2 || reader.byte(name.end) == b'\t';
    (begins && is_wide && !is_short && is_line(reader, value)).then_some(value)
}

/// `define('DB_PASSWORD', '…')`, in a list `'X-Api-Key', '…'`, in an argument list `"--password", "…"`, and where a form
/// is filled in: `fill('#password', '…')`, `getByLabel('Password').fill('…')`.
fn argument(reader: &Reader<'_>, name: &Range<usize>) -> Option<(Separator, usize)> {
    const FILLS: [&str; 4] = [").fill(", ").type(", ").send_keys(", ").sendKeys("];
    /// `#password`, `/prod/db/password`, `Db:Password`
    static PATH: Class = alphanumeric_and(b"#/:_-.");
    let close = reader.skip(&BACKSLASH, name.end, 8);
    let path = reader.skip_back(&PATH, name.start, 64);
    let open = path.checked_sub(1).filter(|open| reader.bytes[*open] == reader.byte(close))?;
    let is_text = |at: usize| matches!(reader.byte(reader.skip(&BACKSLASH, at, 8)), b'"' | b'\'');
    if let Some(fill) = FILLS.iter().find(|fill| reader.starts_with(close + 1, fill)) {
        let value = close + 1 + fill.len();
        return is_text(value).then_some((Separator::Apart, value));
    }
    let comma = reader.skip(&BLANK, close + 1, WIDEST);
    if comma > close + 1 && name.start > 0 && reader.bytes[name.start - 1] == b':' && is_text(comma) {
        return Some((Separator::Apart, comma));
    }
    if reader.byte(comma) != b',' {
        return None;
    }
    let value = reader.skip(&BLANK, comma + 1, WIDEST);
    if !is_text(value) {
        return None;
    }
    let before = reader.skip_back(&BLANK, reader.skip_back(&BACKSLASH, open, 8), 4);
    let is_first = matches!(reader.bytes[..before].last(), Some(b'('));
    let is_option = reader.bytes[path] == b'-';
    Some((if is_first || is_option { Separator::Apart } else { Separator::Pair }, value))
}

/// `| password | … |`, and in the first column of a table without a border.
fn cell(reader: &Reader<'_>, name: &Range<usize>) -> Option<usize> {
    const BARS: [&str; 3] = ["|", "│", "┃"];
    let before = reader.skip_back(&CELL, name.start, WIDEST);
    let bar = reader.skip(&CELL, name.end, WIDEST);
    let is_edge = |before: &[u8]| {
        before.is_empty()
            || before.ends_with(b"\n")
            || BARS.iter().any(|bar| before.ends_with(bar.as_bytes()))
    };
    let end = bar + BARS.iter().find(|known| reader.starts_with(bar, known))?.len();
    // Closures and "or" operators have no blank here.
    let is_cell =
        before < name.start && is_edge(&reader.bytes[..before]) && matches!(reader.byte(end), b' ' | b'\t');
    is_cell.then(|| reader.skip(&BLANK, end, WIDEST))
}

/// `ENV API_TOKEN …`, `set -x API_TOKEN …`, `#define API_KEY "…"`, `PASSWORD '…'`, `WITH some_password BY '…'`.
fn declared(reader: &Reader<'_>, name: &Range<usize>) -> Option<usize> {
    const WORDS: &[&str] = &[
        "ENV",
        "#define",
        "setx",
        "setenv",
        "SetEnv",
        "set -x",
        "set -gx",
        "set -Ux",
        "set -xg",
        "set -xU",
        "fastcgi_param",
        "uwsgi_param",
        "proxy_set_header",
    ];
    let value = reader.skip(&BLANK, name.end, WIDEST);
    if value == name.end {
        return None;
    }
    let before = reader.skip_back(&BLANK, name.start, WIDEST);
    if before < name.start && WORDS.iter().any(|word| reader.bytes[..before].ends_with(word.as_bytes())) {
        return Some(value);
    }
    let text = if reader.starts_with(value, "BY '") { value + 3 } else { value };
    let word = &reader.bytes[name.clone()];
    let is_sql = text > value || word.eq_ignore_ascii_case(b"password");
    // Groovy's build scripts call `storePassword` like this.
    let is_groovy = word.ends_with(b"Password") && word[0].is_ascii_lowercase();
    let quote = reader.byte(text);
    ((is_sql && quote == b'\'') || (is_groovy && matches!(quote, b'"' | b'\''))).then_some(text)
}
