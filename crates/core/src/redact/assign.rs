//! Secrets that only their name reveals: `password=…`, `"api_key": "…"`, `--token …`, `X-Auth-Token: …`.
//!
//! The name says what the value may be, and the value must look like it. Code that only names a variable, types, labels
//! and placeholders stay.

use std::ops::Range;

use super::apart;
use super::judge;
use super::reader::{Class, Reader, alphanumeric_and, but, class, slots};

pub(super) const KINDS: &[&str] = &["password", "secret", "token", "api-key"];
pub(super) const KEYWORDS: &[&str] = &["pass", "pwd", "secret", "token", "key", "credential"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Password,
    Secret,
    Token,
    Key,
}

/// How the value is written, which decides what it can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Quoted,
    /// `NAME=value` or `NAME="value"` as in environment files: the value is literal.
    Env,
    /// Anything else, where a bare word may be a variable.
    Bare,
}

static NAME: Class = alphanumeric_and(b"_-.");
static NAME_END: Class = alphanumeric_and(b"_-");
static BLANK: Class = class(b" \t");

/// The value assigned to the name that contains the keyword.
pub(super) fn assignment(reader: &Reader<'_>, keyword: Range<usize>) -> Option<(usize, Range<usize>)> {
    // Cheap checks first: nearly all keywords are words of prose and code that assign nothing.
    let keyword = keyword.start..word_end(reader, &keyword);
    let name_end = reader.skip(&NAME_END, keyword.end, 24);
    let is_pass = keyword.len() == 4;
    if name_end > keyword.end && (is_pass || !is_end_of_name(&reader.bytes[keyword.end..name_end])) {
        return None;
    }
    if matches!(reader.byte(name_end), b'.' | b')' | b';') {
        return None;
    }
    let name_start = spaced_start(reader, &keyword, reader.skip_back(&NAME, keyword.start, 64));
    let name = name_start..name_end;
    // The name of a secret in AWS is part of a longer one: `arn:aws:secretsmanager:…:secret:prod/db-AbC1dE`.
    if name_start > 0 && reader.bytes[name_start - 1] == b':' && reader.byte(name_end) == b':' {
        return None;
    }
    if matches!(reader.byte(name_end), b',' | b'(') && !apart::is_call(reader, &name) {
        return None;
    }
    let (separator, value_at) = match apart::value_at(reader, &name) {
        Some(apart) => apart,
        None => separator(reader, name.clone())?,
    };
    let (form, value) = value(reader, value_at, separator, &reader.bytes[name.clone()])?;
    let word = reader.get(value.clone())?;
    // `password=password1` only passes a variable on.
    if form == Form::Bare
        && separator != Separator::Tag
        && word
            .as_bytes()
            .get(..keyword.len())
            .is_some_and(|w| w.eq_ignore_ascii_case(&reader.bytes[keyword.clone()]))
    {
        return None;
    }
    let meaning = meaning(&reader.bytes[name_start..keyword.start], &reader.bytes[keyword])?;
    // In a list of names, another name follows.
    let is_listed = separator == Separator::Pair && meaning == Meaning::Password;
    if matches!(separator, Separator::Apart | Separator::Pair) && (is_listed || !judge::is_chosen(word)) {
        return None;
    }
    if !looks_right(meaning, form, word) || judge::is_default(word) || judge::is_placeholder(word) {
        // Nothing that begins in the first half of the judged text needs another look.
        if word.len() > judge::HEAD {
            reader.read_to.set(value.start + judge::HEAD / 2);
        }
        return None;
    }
    Some((meaning as usize, value))
}

/// The start of a name of two words: `API key`.
fn spaced_start(reader: &Reader<'_>, keyword: &Range<usize>, name_start: usize) -> usize {
    const WORDS: [&[u8]; 7] = [b"api", b"secret", b"access", b"license", b"master", b"encryption", b"auth"];
    let is_key = name_start == keyword.start && reader.bytes[name_start].eq_ignore_ascii_case(&b'k');
    let Some(blank) = name_start.checked_sub(1).filter(|at| is_key && reader.bytes[*at] == b' ') else {
        return name_start;
    };
    let word = reader.skip_back(&NAME, blank, 16);
    let is_known = WORDS.iter().any(|known| reader.bytes[word..blank].eq_ignore_ascii_case(known));
    if is_known { word } else { name_start }
}

/// The end of `password`, `passwd` or `passphrase`, which begin with the keyword.
fn word_end(reader: &Reader<'_>, keyword: &Range<usize>) -> usize {
    if keyword.len() == 4 {
        for rest in ["word", "wd", "phrase"] {
            let end = keyword.end + rest.len();
            let there = reader.bytes.get(keyword.end..end);
            if there.is_some_and(|there| there.eq_ignore_ascii_case(rest.as_bytes())) {
                return end;
            }
        }
    }
    keyword.end
}

/// Whether a name may end in these letters after the keyword; otherwise it names a count, a type, a file, a plural.
fn is_end_of_name(after: &[u8]) -> bool {
    const ENDS: &[&[u8]] = &[
        b"",
        b"key",
        b"base",
        b"keybase",
        b"value",
        b"string",
        b"prod",
        b"production",
        b"dev",
        b"test",
        b"live",
        b"staging",
    ];
    const LONGEST: usize = 10;
    let mut letters = [0; LONGEST];
    let mut len = 0;
    for b in after.iter().filter(|b| b.is_ascii_alphabetic()) {
        if len == LONGEST {
            return false;
        }
        letters[len] = b.to_ascii_lowercase();
        len += 1;
    }
    ENDS.contains(&&letters[..len])
}

/// The kind of value that the name promises, or `None` if it names something else.
fn meaning(before: &[u8], keyword: &[u8]) -> Option<Meaning> {
    // `bypass` and `COMPASS` only end like one; `pass`, `DB_PASS` and `dbPass` really name a password.
    let own_word = match before.last() {
        Some(last) if last.is_ascii_lowercase() => keyword[0] == b'P',
        last => !last.is_some_and(u8::is_ascii_alphanumeric),
    };
    Some(match keyword[0].to_ascii_lowercase() {
        b'p' if keyword.len() == 4 => own_word.then_some(Meaning::Password)?,
        b'p' => Meaning::Password,
        b's' => Meaning::Secret,
        b't' | b'c' => Meaning::Token,
        b'k' => is_kind_of_key(before).then_some(Meaning::Key)?,
        _ => return None,
    })
}

/// Whether `name`, the letters before `key`, says that the key is a secret: `api`, `private`, a vendor.
fn is_kind_of_key(name: &[u8]) -> bool {
    const LONGEST: usize = 12;
    let mut letters = [0; LONGEST];
    let mut from = LONGEST;
    for b in name.iter().rev().filter(|b| b.is_ascii_alphabetic()).take(LONGEST) {
        from -= 1;
        letters[from] = b.to_ascii_lowercase();
    }
    let letters = &letters[from..];
    // Grouped by last letter.
    let words: &[&[u8]] = match letters.last() {
        Some(b'a') => &[b"algolia"],
        Some(b'b') => &[b"github", b"gitlab"],
        Some(b'c') => &[b"anthropic", b"hmac"],
        Some(b'd') => &[b"shared", b"sendgrid"],
        Some(b'e') => &[
            b"private",
            b"service",
            b"role",
            b"license",
            b"storage",
            b"azure",
            b"google",
            b"stripe",
            b"cohere",
            b"pinecone",
        ],
        Some(b'g') => &[b"signing"],
        Some(b'h') => &[b"auth"],
        Some(b'i') => &[b"api", b"openai", b"gemini"],
        Some(b'k') => &[b"webhook"],
        Some(b'l') => &[b"mistral"],
        Some(b'n') => &[b"encryption", b"admin", b"subscription", b"integration", b"mailgun"],
        Some(b'o') => &[b"twilio"],
        Some(b'p') => &[b"app", b"gcp"],
        Some(b'r') => &[b"master"],
        Some(b's') => &[b"access", b"aes", b"aws"],
        Some(b't') => &[b"secret", b"account", b"jwt"],
        Some(b'y') => &[b"deploy"],
        _ => &[],
    };
    words.iter().any(|word| letters.ends_with(word))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Separator {
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
static BACKSLASH: Class = class(b"\\");
static STAR: Class = class(b"*");
static LINE_START: Class = class(b" \t\r\n");

/// The separator between the name and its value, and where the value begins.
fn separator(reader: &Reader<'_>, name: Range<usize>) -> Option<(Separator, usize)> {
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
pub(super) const BLANKS: usize = 80;

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
const MAX_SLASHES: usize = 8;

/// A quote in the escapes of JSON, HTML or a URL.
fn escaped_quote<'t>(reader: &Reader<'t>, at: usize) -> Option<&'t str> {
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

/// Values of this kind are not longer.
const MAX_VALUE: usize = 2048;

/// Characters that do not end an unquoted value.
static ENV_VALUE: Class = but(b" \t\n\r\x0b\x0c\"'`\\<");
static BARE_VALUE: Class = but(b" \t\n\r\x0b\x0c\"'`\\<,;&|>(){}[]");

/// The value at `at`, without its quotes.
fn value(reader: &Reader<'_>, at: usize, separator: Separator, name: &[u8]) -> Option<(Form, Range<usize>)> {
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
fn looks_right(meaning: Meaning, form: Form, value: &str) -> bool {
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

/// The start of the value assigned to a name that contains a vendor's name: `ALGOLIA_ADMIN_KEY="…"`, `"algolia": "…"`,
/// `Algolia API key: …`, a call with both, a row of a table.
pub(super) fn named_value(reader: &Reader<'_>, keyword: Range<usize>) -> Option<usize> {
    static REST: Class = alphanumeric_and(b"_-. ");
    static CLOSING: Class = class(b"\\\"'`])");
    static OPENING: Class = class(b"\\\"'`(");
    // `myAlgoliaKey` contains the name, `slobber` does not.
    let before = keyword.start.checked_sub(1).map_or(b' ', |at| reader.bytes[at]);
    let camel = before.is_ascii_lowercase() && reader.bytes[keyword.start].is_ascii_uppercase();
    if before.is_ascii_alphabetic() && !camel {
        return None;
    }
    let mut at = reader.skip(&REST, keyword.end, 28);
    at = reader.skip(&CLOSING, at, 4);
    at = reader.skip(&BLANK, at, BLANKS);
    at += match &reader.bytes[at..reader.bytes.len().min(at + 3)] {
        [b'=', b'>', ..] | [b':' | b'?' | b'=', b'=', ..] | [b'|', b'|', ..] => 2,
        [b':', b':', b'='] => 3,
        [b'=' | b':' | b',' | b'|' | b'>', ..] => 1,
        _ => return None,
    };
    at = reader.skip(&BLANK, at, BLANKS);
    Some(reader.skip(&OPENING, at, 4))
}
