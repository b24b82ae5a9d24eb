//! Private keys in PEM and PGP armour: the whole block, even if it is indented, quoted, numbered, found by grep, joined
//! on one line, encoded for a URL or a page, or cut off at either end.

use std::ops::Range;

use super::reader::{Class, Reader, class};

/// Longer than any real key; keeps a stray BEGIN from consuming the rest of a document.
const MAX_BYTES: usize = 16 * 1024;
/// Less than this is a mention in prose or code, not a key.
const MIN_BODY: usize = 32;
/// In text joined by spaces, a shorter piece may be a word.
const MIN_PIECE: usize = 40;
/// Proc-Type and DEK-Info, or PGP's own headers.
const MAX_HEADERS: usize = 4;

/// The block that begins or ends at the keyword.
pub(super) fn private_key(reader: &Reader<'_>, keyword: Range<usize>) -> Option<(usize, Range<usize>)> {
    let label_end = label(reader, keyword.end)?;
    let range = if reader.bytes[keyword.clone()].ends_with(b"N") {
        let name = line_prefix(reader, keyword.start);
        // The text before BEGIN need not be a file name: like the next lines, it may be the end of another key.
        let end = body(reader, label_end, name, MIN_BODY).max(if name.is_empty() {
            None
        } else {
            body(reader, label_end, b"", MIN_BODY)
        })?;
        keyword.start..end
    } else {
        beginning(reader, keyword.start)?..label_end
    };
    Some((0, range))
}

/// Skips ` RSA PRIVATE KEY-----` if it names a private key. URLs encode the spaces in two other ways.
fn label(reader: &Reader<'_>, from: usize) -> Option<usize> {
    static LABEL: Class = super::reader::alphanumeric_and(b" +%_");
    if !matches!(reader.byte(from), b' ' | b'+' | b'%') {
        return None;
    }
    let end = reader.skip(&LABEL, from, 60);
    let words = &reader.bytes[from..end];
    let words = strip_word(words, b"BLOCK").unwrap_or(words);
    let is_private = strip_word(words, b"KEY").and_then(|rest| strip_word(rest, b"PRIVATE")).is_some();
    (is_private && reader.starts_with(end, "-----")).then_some(end + 5)
}

/// `label` without its last word, if that is `word`.
fn strip_word<'t>(label: &'t [u8], word: &[u8]) -> Option<&'t [u8]> {
    let rest = label.strip_suffix(word)?;
    let spaces: [&[u8]; 3] = [b" ", b"+", b"%20"];
    spaces.iter().find_map(|space| rest.strip_suffix(*space))
}

/// The file name that grep prints before each line, taken from the BEGIN line.
fn line_prefix<'t>(reader: &Reader<'t>, begin: usize) -> &'t [u8] {
    const MAX_NAME: usize = 200;
    let from = begin.saturating_sub(MAX_NAME);
    let before = &reader.bytes[from..begin];
    let Some(line) = before.iter().rposition(|b| *b == b'\n').map(|at| &before[at + 1..]) else {
        return if from == 0 { name_in(before) } else { b"" };
    };
    name_in(line)
}

/// `key.pem` from `key.pem:12:`.
fn name_in(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b":").or(line.strip_suffix(b"-")).unwrap_or(b"");
    let digits = line.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    match &line[..line.len() - digits] {
        [name @ .., b':' | b'-'] if digits > 0 => name,
        _ => line,
    }
}

/// What separates the pieces of a body.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gap {
    None,
    Space,
    Line,
}

/// The end of the block whose body begins at `from`: after its END line, or where it stops looking like a key. `None`
/// if the key has fewer than `least` bytes.
fn body(reader: &Reader<'_>, from: usize, name: &[u8], least: usize) -> Option<usize> {
    let limit = from + MAX_BYTES;
    let (mut at, mut end, mut len, mut headers) = (from, from, 0, 0);
    let mut gap = Gap::Line;
    while at < limit {
        let (next, found) = skip_gap(reader, at, name);
        if found != Gap::None {
            gap = found;
        }
        at = next;
        if reader.starts_with(at, "-----END") {
            end = label(reader, at + 8).unwrap_or(at + 8);
            break;
        }
        let piece = piece_end(reader, at);
        let size = piece - at;
        if size == 0 || !ends_piece(reader, piece) {
            // Headers such as `Proc-Type: 4,ENCRYPTED` come before the body, on separate lines.
            let line = header_end(reader, at).filter(|_| len == 0 && headers < MAX_HEADERS);
            let Some(line) = line else { break };
            headers += 1;
            at = line;
            continue;
        }
        // A short piece must end its line or be the last; otherwise it is a word.
        let alone = gap != Gap::Space && ends_line(&reader.bytes[piece..]);
        if size < MIN_PIECE && !alone && !is_last(reader, piece) {
            break;
        }
        len += size;
        at = piece;
        end = piece;
        gap = Gap::None;
    }
    (len >= least).then_some(end)
}

/// Whether END follows a short piece.
fn is_last(reader: &Reader<'_>, at: usize) -> bool {
    let (next, _) = skip_gap(reader, at, b"");
    reader.starts_with(next, "-----END")
}

/// A piece of a key ends at white space, quotes, an escape or the end of the text; words in prose or code end
/// otherwise.
fn ends_piece(reader: &Reader<'_>, at: usize) -> bool {
    static ENDS: Class = class(b" \t\n\r\\\"'`,;)%&<|");
    reader.bytes.get(at).is_none_or(|b| ENDS[usize::from(*b)]) || reader.starts_with(at, "-----END")
}

static BASE64: Class = super::reader::alphanumeric_and(b"+/=");

/// The end of the base64 at `at`; URLs escape three of its characters.
fn piece_end(reader: &Reader<'_>, at: usize) -> usize {
    let mut end = at;
    loop {
        end = reader.skip(&BASE64, end, MAX_BYTES);
        match reader.bytes.get(end..end + 3) {
            Some([b'%', b'2', b'B' | b'b' | b'F' | b'f'] | [b'%', b'3', b'D' | b'd']) => end += 3,
            _ => return end,
        }
    }
}

/// Skips line ends in any notation and whatever surrounds lines: quotes, diff and quotation marks, numbers, file names.
fn skip_gap(reader: &Reader<'_>, from: usize, name: &[u8]) -> (usize, Gap) {
    static MARKS: Class = class(b"\"'`,;+|>#*()");
    let (mut at, mut gap) = (from, Gap::None);
    loop {
        let rest = &reader.bytes[at..];
        if let Some(len) = line_end_len(rest) {
            at += len;
            gap = Gap::Line;
            at += after_line(&reader.bytes[at..], name);
        } else if matches!(rest, [b' ' | b'\t', ..]) {
            at += 1;
            if gap == Gap::None {
                gap = Gap::Space;
            }
        } else if rest.first().is_some_and(|b| MARKS[usize::from(*b)])
            && (gap != Gap::None || ends_line(rest))
        {
            at += 1;
        } else if gap == Gap::Line && matches!(rest, [b'-', next, ..] if *next != b'-') {
            // A line that a diff removes.
            at += 1;
        } else {
            return (at, gap);
        }
        if at - from > 400 {
            return (at, gap);
        }
    }
}

/// The start of the next line, if a line ends at `at`.
pub(super) fn next_line(reader: &Reader<'_>, at: usize) -> Option<usize> {
    let (next, gap) = skip_gap(reader, at, b"");
    (gap == Gap::Line).then_some(next)
}

/// Marks at the end of a line: `"MII…" +`, `MII…",`.
fn ends_line(rest: &[u8]) -> bool {
    let marks = rest
        .iter()
        .take(8)
        .take_while(|b| matches!(b, b'"' | b'\'' | b'`' | b',' | b';' | b'+' | b' ' | b')'));
    let rest = &rest[marks.count()..];
    rest.is_empty() || line_end_len(rest).is_some()
}

/// The length of a line end, literal or escaped, at the beginning of `rest`.
fn line_end_len(rest: &[u8]) -> Option<usize> {
    match rest {
        [b'\n' | b'\r', ..] => Some(1),
        [b'\\', ..] => {
            let slashes = rest.iter().take(8).take_while(|b| **b == b'\\').count();
            match &rest[slashes..] {
                [b'n' | b'r', ..] => Some(slashes + 1),
                [b'u', b'0', b'0', b'0', b'a' | b'A' | b'd' | b'D', ..] => Some(slashes + 5),
                [b'x', b'0', b'a' | b'A' | b'd' | b'D', ..] => Some(slashes + 3),
                // A continued shell line.
                [b'\n', ..] => Some(slashes),
                _ => None,
            }
        }
        [b'%', b'0', b'a' | b'A' | b'd' | b'D', ..] | [b'%', b'2', b'0', ..] => Some(3),
        [b'&', b'#', b'1', b'0' | b'3', b';', ..]
        | [b'&', b'#', b'x' | b'X', b'a' | b'A' | b'd' | b'D', b';', ..]
        | [b'<', b'b', b'r', b'/', b'>', ..] => Some(5),
        [b'<', b'b', b'r', b'>', ..] => Some(4),
        _ => None,
    }
}

/// The length of a viewer's or grep's prefix of a line: `   12→`, `12:`, `key.pem:12:`, `key.pem-13-`.
fn after_line(line: &[u8], name: &[u8]) -> usize {
    let blanks = line.iter().take(80).take_while(|b| matches!(b, b' ' | b'\t')).count();
    let mut at = blanks;
    if !name.is_empty()
        && line[at..].starts_with(name)
        && matches!(line.get(at + name.len()), Some(b':' | b'-'))
    {
        at += name.len() + 1;
    }
    let digits = line[at..].iter().take(8).take_while(|b| b.is_ascii_digit()).count();
    match &line[at + digits..] {
        [b'\t' | b'|' | b':' | b'-', ..] if digits > 0 => at + digits + 1,
        rest if digits > 0 && rest.starts_with("→".as_bytes()) => at + digits + 3,
        _ => at,
    }
}

/// The end of a header line at `at`, if it is one.
fn header_end(reader: &Reader<'_>, at: usize) -> Option<usize> {
    const HEADERS: [&str; 6] = ["Proc-Type:", "DEK-Info:", "Version:", "Comment:", "Charset:", "Hash:"];
    let word = HEADERS.iter().find(|word| reader.starts_with(at, word))?;
    let line = &reader.bytes[at..reader.bytes.len().min(at + 120)];
    let end = (word.len()..line.len()).find(|i| line_end_len(&line[*i..]).is_some())?;
    // A line with another key in it is not a header.
    memchr::memmem::find(&line[..end], b"-----").is_none().then_some(at + end)
}

/// The start of a block that lost its head: where the lines before END stop looking like a key.
fn beginning(reader: &Reader<'_>, end: usize) -> Option<usize> {
    let floor = end.saturating_sub(MAX_BYTES);
    let (mut at, mut start, mut len) = (end, end, 0);
    loop {
        let gap = skip_gap_back(&reader.bytes[floor..at]);
        at -= gap;
        let run = reader.bytes[floor..at].iter().rev().take_while(|b| BASE64[usize::from(**b)]).count();
        let piece = &reader.bytes[at - run..at];
        // The letters of an escape are base64 letters too.
        let escape = match (reader.bytes[floor..at - run].last(), piece) {
            (Some(b'\\'), [b'u', b'0', b'0', b'0', _, ..]) => 5,
            (Some(b'\\'), [b'n' | b'r', ..]) => 1,
            (Some(b'%'), [b'0' | b'2', _, ..]) => 2,
            _ => 0,
        };
        let size = run - escape.min(run);
        // The last line may be short; the ones before it are full.
        if size == 0 || (len > 0 && (size < MIN_PIECE || gap == 0)) {
            break;
        }
        len += size;
        start = at - size;
        at -= run;
    }
    (len >= 2 * MIN_BODY).then_some(start)
}

/// The length of the separator between two lines, at the end of `before`.
fn skip_gap_back(before: &[u8]) -> usize {
    const ESCAPES: [&[u8]; 14] = [
        b"\\n", b"\\r", b"\\u000a", b"\\u000A", b"\\u000d", b"\\u000D", b"%0A", b"%0a", b"%0D", b"%0d",
        b"&#10;", b"&#13;", b"&#xA;", b"<br>",
    ];
    let mut rest = before;
    while before.len() - rest.len() < 100 {
        if let Some(escape) = ESCAPES.iter().find(|escape| rest.ends_with(escape)) {
            rest = &rest[..rest.len() - escape.len()];
        } else if rest.ends_with("→".as_bytes()) {
            rest = digits_before(&rest[..rest.len() - 3]);
        } else if let Some(shorter) = strip_place(rest) {
            rest = shorter;
        } else if let [
            shorter @ ..,
            b' ' | b'\t' | b'\n' | b'\r' | b'"' | b'\'' | b'`' | b',' | b'+' | b'>' | b'|' | b'\\',
        ] = rest
        {
            rest = shorter;
        } else {
            break;
        }
    }
    before.len() - rest.len()
}

/// Strips the `key.pem:12:` that grep printed at the beginning of the last line.
fn strip_place(text: &[u8]) -> Option<&[u8]> {
    let near = &text[text.len().saturating_sub(200)..];
    let line = near.iter().rposition(|b| *b == b'\n').map(|at| &near[at + 1..])?;
    let is_place = matches!(line, [first, .., b':' | b'-'] if !matches!(first, b'-' | b' '))
        && !line.contains(&b' ')
        && line.iter().any(u8::is_ascii_digit);
    is_place.then(|| &text[..text.len() - line.len()])
}

fn digits_before(text: &[u8]) -> &[u8] {
    &text[..text.len() - text.iter().rev().take(8).take_while(|b| b.is_ascii_digit()).count()]
}

/// The private part of a `PuTTY` key: as many lines of base64 as its header declares.
pub(super) fn putty(reader: &Reader<'_>, keyword: Range<usize>) -> Option<(usize, Range<usize>)> {
    static DIGITS: Class = class(b"0123456789");
    let digits = reader.skip(&class(b" "), keyword.end, 4);
    let from = reader.skip(&DIGITS, digits, 4);
    let count: usize = reader.get(digits..from)?.parse().ok()?;
    let (mut at, mut end) = (from, from);
    for _ in 0..count.min(MAX_BYTES / 64) {
        let Some(len) = line_end_len(&reader.bytes[at..]) else { break };
        at += len + usize::from(reader.byte(at) == b'\r' && reader.byte(at + 1) == b'\n');
        let piece = piece_end(reader, at);
        if piece == at || !ends_piece(reader, piece) {
            break;
        }
        (at, end) = (piece, piece);
    }
    (end - from >= 16).then_some((0, from..end))
}
