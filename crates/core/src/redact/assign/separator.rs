//! What stands between a name and its value, and where the value begins.

use std::ops::Range;

use super::{BLANK, NAME_END};
use crate::redact::apart;
use crate::redact::reader::{Class, Reader, alphanumeric_and, but, class};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::redact) enum Separator {
    /// `=` without blanks around it.
    Tight,
    Spaced,
    Colon,
    /// `--password value`, "the password is value".
    Space,
    /// `<password>value<`
    Tag,
    /// `%3D`, `\u003d`
    Escaped,
    /// See `apart`.
    Apart,
    /// The value follows its name in a list: `'X-Api-Key', '…'`.
    Pair,
}

static SIGNS: Class = class(b":=!?>");
static PROSE: Class = class(b" \t:");
pub(super) static BACKSLASH: Class = class(b"\\");
static STAR: Class = class(b"*");
static LINE_START: Class = class(b" \t\r\n");

/// The separator between the name and its value, and where the value begins.
pub(super) fn separator(reader: &Reader<'_>, name: Range<usize>) -> Option<(Separator, usize)> {
    if let Some(content) = tag_content(reader, &name) {
        return Some((Separator::Tag, content));
    }
    let quote = escaped_quote(reader, name.end).map_or(0, str::len);
    if let Some(value_at) = escaped_sign(reader, name.end + quote) {
        return Some((Separator::Escaped, value_at));
    }
    // Skip the quote and bracket that close the name: `"name":`, `\"name\":`, `env["NAME"] =`.
    let mut at = if quote > 0 { name.end + quote } else { reader.skip(&BACKSLASH, name.end, MAX_SLASHES) };
    at += usize::from(matches!(reader.byte(at), b'"' | b'\'' | b'`'));
    at += usize::from(reader.byte(at) == b']');
    at = dimension_end(reader, at);
    let quoted_name = at > name.end;
    // `**Password:** value`, `**Password**: value`
    let is_bold = name.start > 0 && reader.byte(name.start - 1) == b'*';
    let stars = |at: usize| if is_bold { reader.skip(&STAR, at, 2) } else { at };
    at = stars(at);
    let sign_at = reader.skip(&BLANK, at, BLANKS);
    // The wide colon of East Asian text.
    if reader.starts_with(sign_at, "\u{ff1a}") {
        return Some((Separator::Colon, reader.skip(&BLANK, sign_at + "\u{ff1a}".len(), BLANKS)));
    }
    // R assigns with an arrow, Visual Basic names the type first.
    if reader.starts_with(sign_at, "<- ") {
        return Some((Separator::Spaced, reader.skip(&BLANK, sign_at + 3, BLANKS)));
    }
    if reader.starts_with(sign_at, "As String = ") {
        return Some((Separator::Spaced, sign_at + "As String = ".len()));
    }
    // The fallback of a variable: `env.PASSWORD || '…'`.
    if ["|| ", "?? "].iter().any(|or| reader.starts_with(sign_at, or)) {
        let literal = matches!(reader.byte(sign_at + 3), b'"' | b'\'' | b'`');
        return (sign_at > at && literal).then_some((Separator::Spaced, sign_at + 3));
    }
    // In `=!…` and `=?…` the value begins with the second sign.
    let sign_end = match &reader.bytes[sign_at..reader.skip(&SIGNS, sign_at, 4)] {
        [b'=', b'!' | b'?', ..] => sign_at + 1,
        signs => sign_at + signs.len(),
    };
    let mut value_at = reader.skip(&BLANK, stars(sign_end), BLANKS);
    if reader.starts_with(value_at, "\u{a0}") {
        value_at += "\u{a0}".len();
    }
    match &reader.bytes[sign_at..sign_end] {
        b"=" if reader.starts_with(value_at, "<<") => apart::next_line(reader, heredoc(reader, value_at)),
        b"=" if sign_at == at && value_at == sign_end => Some((Separator::Tight, value_at)),
        b"=" | b":=" | b"=>" | b"==" | b"===" | b"!=" | b"!==" | b"?=" => Some((Separator::Spaced, value_at)),
        b":" if matches!(reader.byte(value_at), b'\n' | b'\r') => apart::next_line(reader, value_at),
        b":" if matches!(reader.byte(value_at), b'|' | b'>') => {
            Some((Separator::Colon, block_scalar(reader, value_at)?))
        }
        b":" if matches!(reader.byte(value_at), b'&' | b'!') => {
            Some((Separator::Colon, tagged_value(reader, value_at)))
        }
        // `name: type = "value"`
        b":" => {
            Some((Separator::Colon, typed_value(reader, value_at).map_or(value_at, |skip| value_at + skip)))
        }
        b"" if quoted_name || sign_at == at => None,
        b"" if is_option(reader, name.start) => Some((Separator::Space, value_at)),
        // A keyword of Clojure.
        b"" if name.start > 0 && reader.byte(name.start - 1) == b':' && reader.byte(value_at) == b'"' => {
            Some((Separator::Space, value_at))
        }
        b"" if reader.starts_with(value_at, "is ") || reader.starts_with(value_at, "is: ") => {
            Some((Separator::Space, reader.skip(&PROSE, value_at + 2, BLANKS)))
        }
        _ => None,
    }
}

/// Tables are not indented deeper than this.
pub(in crate::redact) const BLANKS: usize = 80;

/// Where the content of the tag with this name begins: `<name>`, `<x:name a="b">`, `<key>name</key><string>`, `<string
/// name="name">`.
fn tag_content(reader: &Reader<'_>, name: &Range<usize>) -> Option<usize> {
    static ATTRIBUTES: Class = but(b"<>\n\r");
    const LONGEST: usize = 200;
    const DATA: &str = "<![CDATA[";
    let before = |text: &str| reader.bytes[..name.start].ends_with(text.as_bytes());
    let content = if reader.starts_with(name.end, "</key>") && before("<key>") {
        let next = reader.skip(&LINE_START, name.end + "</key>".len(), BLANKS);
        reader.starts_with(next, "<string>").then_some(next + "<string>".len())?
    } else if reader.starts_with(name.end, "\">") && before(" name=\"") {
        name.end + 2
    } else {
        let prefix = if before(":") { reader.skip_back(&NAME_END, name.start - 1, 24) } else { name.start };
        let is_tag = prefix > 0 && reader.byte(prefix - 1) == b'<';
        if !is_tag || !matches!(reader.byte(name.end), b'>' | b' ') {
            return None;
        }
        let end = reader.skip(&ATTRIBUTES, name.end, LONGEST);
        (reader.byte(end) == b'>').then_some(end + 1)?
    };
    Some(if reader.starts_with(content, DATA) { content + DATA.len() } else { content })
}

/// Skips `[]` and `[32]` after the name of an array.
fn dimension_end(reader: &Reader<'_>, at: usize) -> usize {
    static DIGITS: Class = class(b"0123456789");
    if reader.byte(at) != b'[' {
        return at;
    }
    let close = reader.skip(&DIGITS, at + 1, 6);
    if reader.byte(close) == b']' { close + 1 } else { at }
}

/// The end of an equals sign as URLs and JSON escape it.
fn escaped_sign(reader: &Reader<'_>, at: usize) -> Option<usize> {
    let slashes = reader.skip(&BACKSLASH, at, MAX_SLASHES);
    let json = slashes > at && (reader.starts_with(slashes, "u003d") || reader.starts_with(slashes, "u003D"));
    if json {
        return Some(slashes + 5);
    }
    (["%3D", "%3d", "%3A", "%3a"].iter().any(|sign| reader.starts_with(at, sign))).then_some(at + 3)
}

/// Whether the name is that of a long option: `--password`, or `-Password` as in `PowerShell`.
fn is_option(reader: &Reader<'_>, name: usize) -> bool {
    reader.starts_with(name, "--")
        || (reader.byte(name) == b'-'
            && name.checked_sub(1).is_some_and(|at| matches!(reader.bytes[at], b' ' | b'\t')))
}

/// No quote is escaped by more backslashes; this is three levels of JSON in JSON.
pub(super) const MAX_SLASHES: usize = 8;

/// A quote in the escapes of JSON, HTML or a URL.
pub(super) fn escaped_quote<'t>(reader: &Reader<'t>, at: usize) -> Option<&'t str> {
    const QUOTES: [&str; 8] = ["&quot;", "&#34;", "&#39;", "&apos;", "&#x22;", "&#x27;", "%22", "%27"];
    let len = match reader.byte(at) {
        b'&' | b'%' => QUOTES.iter().find(|quote| reader.starts_with(at, quote))?.len(),
        b'\\' => {
            let end = reader.skip(&BACKSLASH, at, MAX_SLASHES);
            let is_quote = reader.starts_with(end, "u0022") || reader.starts_with(end, "u0027");
            is_quote.then_some(end + 5 - at)?
        }
        _ => return None,
    };
    reader.get(at..at + len)
}

/// The end of the line that begins a heredoc: `<<-EOT`
fn heredoc(reader: &Reader<'_>, at: usize) -> usize {
    static WORD: Class = alphanumeric_and(b"<-~_\"'");
    reader.skip(&WORD, at, 40)
}

/// Skips an anchor or a tag of YAML: `&pw value`, `!!str value`.
fn tagged_value(reader: &Reader<'_>, at: usize) -> usize {
    static TAG: Class = alphanumeric_and(b"&!_-");
    let is_tag = reader.byte(at) == b'&' || reader.starts_with(at, "!!");
    let end = reader.skip(&TAG, at, 40);
    let value = reader.skip(&BLANK, end, BLANKS);
    if is_tag && value > end && !matches!(reader.byte(value), b'\n' | b'\r' | 0) { value } else { at }
}

/// The text that a YAML block holds: `password: >-⏎  value`
fn block_scalar(reader: &Reader<'_>, at: usize) -> Option<usize> {
    let end = at + 1 + usize::from(matches!(reader.byte(at + 1), b'-' | b'+'));
    matches!(reader.byte(end), b'\n' | b'\r').then(|| reader.skip(&LINE_START, end, BLANKS))
}

/// Skips the type of an annotated variable if a literal is assigned to it.
fn typed_value(reader: &Reader<'_>, at: usize) -> Option<usize> {
    static TYPE: Class = alphanumeric_and(b"_&'<>[] |?.");
    let end = reader.skip(&TYPE, at, 48);
    let equals = reader.starts_with(end, "= ") && end > at && reader.byte(end - 1) == b' ';
    (equals && matches!(reader.byte(end + 2), b'"' | b'\'' | b'`' | b'\\')).then_some(end + 2 - at)
}
