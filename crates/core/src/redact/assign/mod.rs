//! Secrets that only their name reveals: `password=…`, `"api_key": "…"`, `--token …`, `X-Auth-Token: …`.
//!
//! The name says what the value may be, and the value must look like it. Code that only names a variable, types, labels
//! and placeholders stay.

mod separator;
mod value;

use std::ops::Range;

use self::separator::separator;
pub(super) use self::separator::{BLANKS, Separator};
use self::value::{looks_right, value};
use super::reader::{Class, Reader, alphanumeric_and, class};
use super::{apart, judge};

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
