//! The value that is assigned to a name, and whether it can be what the name promises.

use std::ops::Range;

use super::separator::{BACKSLASH, BLANKS, MAX_SLASHES, Separator, escaped_quote};
use super::{BLANK, Form, Meaning};
use crate::redact::judge;
use crate::redact::reader::{Class, Reader, alphanumeric_and, but, slots};

/// Values of this kind are not longer.
const MAX_VALUE: usize = 2048;

/// Characters that do not end an unquoted value.
static ENV_VALUE: Class = but(b" \t\n\r\x0b\x0c\"'`\\<");
static BARE_VALUE: Class = but(b" \t\n\r\x0b\x0c\"'`\\<,;&|>(){}[]");

/// The value at `at`, without its quotes.
pub(super) fn value(
    reader: &Reader<'_>,
    at: usize,
    separator: Separator,
    name: &[u8],
) -> Option<(Form, Range<usize>)> {
    let env = separator == Separator::Tight && !name.iter().any(u8::is_ascii_lowercase);
    let form = if env { Form::Env } else { Form::Quoted };
    let at = unwrapped(reader, at);
    if let Some(quote) = escaped_quote(reader, at) {
        // Whatever escapes quotes does so on one line, where values are short.
        const LONGEST: usize = 256;
        let start = at + quote.len();
        let rest = &reader.bytes[start..reader.bytes.len().min(start + LONGEST)];
        let len = memchr::memmem::find(rest, quote.as_bytes())?;
        return (len > 0).then_some((form, start..start + len));
    }
    let open = reader.skip(&BACKSLASH, at, MAX_SLASHES);
    let quote = match reader.byte(open) {
        b'"' => Some(0),
        b'\'' => Some(1),
        b'`' => Some(2),
        _ => None,
    };
    if let Some(quote) = quote {
        let byte = reader.byte(open);
        let is_triple = reader.byte(open + 1) == byte && reader.byte(open + 2) == byte;
        let start = if is_triple { open + 3 } else { open + 1 };
        let end = quoted_end(reader, start, open - at, quote);
        return (end > start).then_some((form, start..end));
    }
    let end = if separator == Separator::Escaped {
        parameter_end(reader, at)
    } else if env {
        reader.run_end(slots::ENV_VALUE, &ENV_VALUE, at)
    } else {
        reader.run_end(slots::BARE_VALUE, &BARE_VALUE, at)
    };
    // A call, an index or a block follows, so this is an expression.
    if !env && matches!(reader.byte(end), b'(' | b'[' | b'{') {
        return None;
    }
    let mut end = cap(reader, at, end);
    while end > at && matches!(reader.bytes[end - 1], b'.' | b',' | b':' | b';') {
        end -= 1;
    }
    (end > at).then_some((if env { Form::Env } else { Form::Bare }, at..end))
}

/// The end of a parameter in a URL that is itself a parameter.
fn parameter_end(reader: &Reader<'_>, at: usize) -> usize {
    static UNRESERVED: Class = alphanumeric_and(b"-_.~!*@$+/=%");
    let end = reader.skip(&UNRESERVED, at, MAX_VALUE);
    let text = &reader.bytes[at..end];
    let separators: [&[u8]; 4] = [b"%26", b"%3B", b"%22", b"%0A"];
    let len = memchr::memchr_iter(b'%', text)
        .find(|i| separators.iter().any(|separator| text[*i..].starts_with(separator)));
    at + len.unwrap_or(text.len())
}

/// Skips wrappers around literals: `Some("`, `["`, `[]byte("`, the prefixes of strings, the list that Go prints a
/// header as, a format whose argument is the value.
fn unwrapped(reader: &Reader<'_>, at: usize) -> usize {
    const WRAPPERS: [&str; 10] = [
        "Some(",
        "String::from(",
        "[]byte(",
        "Buffer.from(",
        "SecretStr(",
        "SecretString::from(",
        "Secret::new(",
        "new String(",
        "[ ",
        "[",
    ];
    static FORMAT: Class = but(b" \t\n\r\"'");
    let is_quote = |at: usize| {
        let at = reader.skip(&BACKSLASH, at, MAX_SLASHES);
        matches!(reader.byte(at), b'"' | b'\'' | b'`')
    };
    let inner = |wrapper: &&str| {
        let inner = at + wrapper.len();
        (reader.starts_with(at, wrapper) && (is_quote(inner) || *wrapper == "[")).then_some(inner)
    };
    let at = WRAPPERS.iter().find_map(inner).unwrap_or(at);
    if matches!(reader.byte(at), b'b' | b'r' | b'u' | b'f' | b'L' | b'N' | b'$' | b'@')
        && matches!(reader.byte(at + 1), b'"' | b'\'')
    {
        return at + 1;
    }
    if reader.starts_with(at, "%s") {
        let close = reader.skip(&FORMAT, at, 8);
        let next = reader.skip(&BLANK, close + 1, BLANKS);
        if is_quote(close) && next > close + 1 && is_quote(next) {
            return next;
        }
    }
    at
}

fn cap(reader: &Reader<'_>, start: usize, end: usize) -> usize {
    if end - start > MAX_VALUE { reader.text.floor_char_boundary(start + MAX_VALUE) } else { end }
}

/// The end of the text that a quote opened before `start`: the next quote with as many backslashes. A quote with more
/// backslashes, a doubled quote, and a shell's way to write a quote inside quotes belong to the text. An unclosed quote
/// means that the text was cut, so take one word.
fn quoted_end(reader: &Reader<'_>, start: usize, escapes: usize, quote: usize) -> usize {
    /// Quotes inside a value.
    const MOST: usize = 8;
    let byte = b"\"'`"[quote];
    let line_end = reader.next(slots::LINE, b'\n', start);
    let mut from = start;
    for _ in 0..MOST {
        let close = reader.next(slots::QUOTES[quote], byte, from);
        if close >= line_end || close - start > MAX_VALUE {
            break;
        }
        let slashes = close - reader.skip_back(&BACKSLASH, close, MAX_SLASHES.min(close - start));
        let is_inner = if escapes == 0 { slashes % 2 == 1 } else { slashes > escapes };
        let rest = &reader.bytes[close + 1..];
        let is_shells = byte == b'\'' && (rest.starts_with(b"\\''") || rest.starts_with(b"\"'\"'"));
        from = if is_inner {
            close + 1
        } else if escapes == 0 && is_shells {
            close + if rest[0] == b'\\' { 4 } else { 5 }
        } else if escapes == 0 && close > start && rest.first() == Some(&byte) && rest.get(1) != Some(&byte) {
            close + 2
        } else if escapes == 0 || slashes == escapes {
            return close - if escapes == 0 { 0 } else { escapes };
        } else {
            break;
        };
    }
    let word_end = reader.run_end(slots::WORDS[3], &WORD, start);
    cap(reader, start, word_end.min(line_end))
}

static WORD: Class = but(b" \t\n\r");

/// Whether the value can be what its name promises. Checks the kinds of bytes first, to avoid a second read.
pub(super) fn looks_right(meaning: Meaning, form: Form, value: &str) -> bool {
    let has = judge::Bytes::of(value);
    let long = value.len();
    let value = judge::head(value);
    if has.space {
        // A passphrase: only quotes keep it together in an environment file.
        return (meaning, form) == (Meaning::Password, Form::Env)
            && !judge::is_wordy(value)
            && !judge::is_env_reference(value)
            && !value.contains("$(");
    }
    let fits = match (meaning, form) {
        // Words alone are a label or a rule. With a number, as a long chain, or as one long lower-case word they are a
        // password that people choose.
        (Meaning::Password, Form::Quoted) => {
            let is_chain = || has.dash && value.matches('-').count() >= 3;
            let is_numbered = || (!has.path && !value.contains('|')) || !judge::is_wordy(value);
            long >= 6
                && ((has.digit && is_numbered())
                    || (has.symbol && has_inner_symbol(value))
                    || (long >= 8 && has.only_lower() && !value.contains("pass"))
                    || is_chain()
                    || judge::encodes_password(value))
        }
        (Meaning::Password, Form::Env) => long >= 6,
        (Meaning::Password, Form::Bare) => {
            long >= 6
                && has.letter()
                && (has.symbol
                    || (has.digit && !value.contains(['.', '_']))
                    || judge::encodes_password(value))
                && !value.contains('/')
        }
        (Meaning::Secret, Form::Quoted | Form::Env) => {
            (long >= 16 && judge::is_random(value))
                || (long >= 12 && has.digit && has.letter() && !judge::is_wordy(value))
        }
        (_, Form::Bare) => {
            long >= 16 && (has.digit || long >= 32) && judge::is_random(value) && !is_member_path(value)
        }
        _ => long >= 16 && (has.digit || long >= 32) && judge::is_random(value),
    };
    // A shell takes everything after `=` literally; elsewhere braces and calls are code.
    fits && !(if form == Form::Env { judge::is_env_reference(value) } else { judge::is_code(value) })
}

/// Whether it has a symbol other than at the end of a sentence.
fn has_inner_symbol(value: &str) -> bool {
    value.trim_end_matches(['!', '?', '*']).bytes().any(judge::is_symbol)
}

/// `module.Type1`, `config.oauth2.key`: names joined by dots.
fn is_member_path(value: &str) -> bool {
    value.contains('.')
        && value.split('.').all(|part| {
            part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        })
}
