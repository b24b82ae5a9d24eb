//! Secrets that only their name gives away: `password=…`, `"api_key": "…"`, `--token …`, `X-Auth-Token: …`.
//!
//! The name says what a value may be, the value must look like one: code that only names a variable, types, labels
//! and placeholders stay.

use std::ops::Range;

use super::judge;

pub(super) const KINDS: &[&str] = &["password", "secret", "token", "api-key"];
pub(super) const KEYWORDS: &[&str] =
    &["password", "passwd", "passphrase", "pwd", "pass", "secret", "token", "key", "credential"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Password,
    Secret,
    Token,
    Key,
}

/// How the value is written, which decides what it can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Quoted,
    /// `NAME=value` as in environment files: the value is literal.
    Env,
    /// Anything else, where a bare word may be a variable.
    Bare,
}

/// The value assigned to the name that the keyword is part of.
pub(super) fn assignment(text: &str, keyword: Range<usize>) -> Option<(usize, Range<usize>)> {
    let bytes = text.as_bytes();
    let is_name = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    let name_start =
        keyword.start - bytes[..keyword.start].iter().rev().take(64).take_while(|b| is_name(b)).count();
    let name_end =
        keyword.end + bytes[keyword.end..].iter().take(24).take_while(|b| is_name(b) && **b != b'.').count();
    let class =
        classify(&text[name_start..keyword.start], &text[keyword.clone()], &text[keyword.end..name_end])?;

    let (separator, value_at) = separator(text, name_start..name_end)?;
    let (form, value) = value(text, value_at, separator, &text[name_start..name_end])?;
    let word = &text[value.clone()];
    // `password=password1` passes a variable on.
    if form == Form::Bare
        && word.get(..keyword.len()).is_some_and(|w| w.eq_ignore_ascii_case(&text[keyword.clone()]))
    {
        return None;
    }
    let secret = !judge::is_placeholder(word) && !judge::is_default(word) && looks_right(class, form, word);
    secret.then_some((class as usize, value))
}

/// What the name promises, or `None` if it names something else: a count, a type, a file, a plural.
fn classify(before: &str, keyword: &str, after: &str) -> Option<Class> {
    const AFTER: &[&str] = &[
        "",
        "key",
        "base",
        "keybase",
        "value",
        "string",
        "prod",
        "production",
        "dev",
        "test",
        "live",
        "staging",
    ];
    const BEFORE_KEY: &[&str] = &[
        "api",
        "access",
        "secret",
        "private",
        "signing",
        "encryption",
        "auth",
        "account",
        "master",
        "service",
        "role",
        "admin",
        "license",
        "storage",
        "shared",
        "deploy",
        "app",
        "webhook",
        "jwt",
        "hmac",
        "aes",
        "subscription",
        "integration",
        "openai",
        "anthropic",
        "stripe",
        "github",
        "gitlab",
        "sendgrid",
        "mailgun",
        "twilio",
        "azure",
        "aws",
        "gcp",
        "google",
        "gemini",
        "mistral",
        "cohere",
        "algolia",
        "pinecone",
    ];
    let letters =
        |s: &str| s.chars().filter(char::is_ascii_alphabetic).collect::<String>().to_ascii_lowercase();
    if !AFTER.contains(&letters(after).as_str()) {
        return None;
    }
    // `bypass` and `COMPASS` only end like one; `pass`, `DB_PASS` and `dbPass` are names of one.
    let own_word = match before.bytes().last() {
        Some(last) if last.is_ascii_lowercase() => keyword.starts_with('P'),
        last => !last.is_some_and(|b| b.is_ascii_alphanumeric()),
    };
    Some(match keyword.to_ascii_lowercase().as_str() {
        "password" | "passwd" | "passphrase" | "pwd" => Class::Password,
        "pass" if after.is_empty() && own_word => Class::Password,
        "secret" => Class::Secret,
        "token" | "credential" => Class::Token,
        "key" if BEFORE_KEY.iter().any(|word| letters(before).ends_with(word)) => Class::Key,
        _ => return None,
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Separator {
    /// `=` with nothing around.
    Tight,
    Spaced,
    Colon,
    /// `--password value`, "the password is value".
    Space,
    /// `<password>value<`
    Tag,
}

/// What stands between the name and its value, and where the value begins.
fn separator(text: &str, name: Range<usize>) -> Option<(Separator, usize)> {
    let rest = &text[name.end..];
    if rest.starts_with('>') && text[..name.start].ends_with('<') {
        return Some((Separator::Tag, name.end + 1));
    }
    // The quote and bracket that close the name: `"name":`, `\"name\":`, `env["NAME"] =`.
    let rest = rest.trim_start_matches('\\');
    let rest = rest.strip_prefix(['"', '\'', '`']).unwrap_or(rest);
    let rest = rest.strip_prefix(']').unwrap_or(rest);
    let quoted_name = rest.len() < text.len() - name.end;
    let trimmed = rest.trim_start_matches([' ', '\t']);
    let signs: &str =
        &trimmed[..trimmed.bytes().take_while(|b| matches!(b, b':' | b'=' | b'!' | b'?' | b'>')).count()];
    let after = &trimmed[signs.len()..];
    let value = after.trim_start_matches([' ', '\t']);
    let at = text.len() - value.len();
    match signs {
        "=" if trimmed.len() == rest.len() && value.len() == after.len() => Some((Separator::Tight, at)),
        "=" | ":=" | "=>" | "==" | "===" | "!=" | "!==" | "?=" => Some((Separator::Spaced, at)),
        // `name: type = "value"`
        ":" => Some((Separator::Colon, typed_value(value).map_or(at, |skip| at + skip))),
        "" if quoted_name || trimmed.len() == rest.len() => None,
        "" if text[..name.end]
            .rfind([' ', '\t', '\n', '"', '\''])
            .map_or(&text[..name.end], |i| &text[i + 1..name.end])
            .starts_with("--") =>
        {
            Some((Separator::Space, at))
        }
        "" => value.strip_prefix("is ").map(|word| (Separator::Space, text.len() - word.trim_start().len())),
        _ => None,
    }
}

/// Past the type of an annotated variable, if a literal is assigned to it.
fn typed_value(text: &str) -> Option<usize> {
    let line = &text[..text.bytes().take(48).take_while(|b| *b != b'\n' && b.is_ascii()).count()];
    let equals = line.find(" = ")?;
    let is_type = line[..equals].bytes().all(|b| b.is_ascii_alphanumeric() || b"_&'<>[] |?.".contains(&b));
    (is_type && line[equals + 3..].starts_with(['"', '\'', '`', '\\'])).then_some(equals + 3)
}

const MAX_VALUE: usize = 2048;

/// Where an unquoted value ends.
static ENV_ENDS: [bool; 256] = table(b" \t\n\r\x0b\x0c\"'`\\<");
static BARE_ENDS: [bool; 256] = table(b" \t\n\r\x0b\x0c\"'`\\<,;&|>(){}[]");

const fn table(bytes: &[u8]) -> [bool; 256] {
    let mut table = [false; 256];
    let mut i = 0;
    while i < bytes.len() {
        table[bytes[i] as usize] = true;
        i += 1;
    }
    table
}

/// The value at `at`, without its quotes.
fn value(text: &str, at: usize, separator: Separator, name: &str) -> Option<(Form, Range<usize>)> {
    // Longer is no value of this kind, and a hostile line must not be read to its end for each of its names.
    let rest = &text[at..text.floor_char_boundary(at + MAX_VALUE)];
    // Python's and Rust's byte and raw strings.
    let prefix = usize::from(rest.starts_with(['b', 'r']) && rest[1..].starts_with(['"', '\'']));
    let escapes = rest[prefix..].bytes().take_while(|&b| b == b'\\').count();
    let open = prefix + escapes;
    let line_len = rest.find('\n').unwrap_or(rest.len());
    if let Some(quote @ ('"' | '\'' | '`')) = rest[open..].chars().next() {
        let start = open + 1;
        let body = rest.get(start..line_len)?;
        let close = format!("{}{quote}", &rest[prefix..open]);
        // A quote that is never closed: the text was cut, the value goes as far as a word goes.
        let len = body.find(&close).or_else(|| body.find([' ', '\t'])).unwrap_or(body.len());
        return (len > 0).then_some((Form::Quoted, at + start..at + start + len));
    }
    let env = separator == Separator::Tight && !name.bytes().any(|b| b.is_ascii_lowercase());
    let ends = if env { &ENV_ENDS } else { &BARE_ENDS };
    let len = rest.bytes().position(|b| ends[usize::from(b)]).unwrap_or(rest.len());
    // A call, an index, a block: what stands here is an expression.
    if !env && rest[len..].starts_with(['(', '[', '{']) {
        return None;
    }
    let word = rest[..len].trim_end_matches(['.', ',', ':', ';']);
    (!word.is_empty()).then(|| (if env { Form::Env } else { Form::Bare }, at..at + word.len()))
}

/// What people put into passwords and programmers do not put into names.
const SYMBOLS: &[u8] = b"!@#$%^&*+~?";

fn looks_right(class: Class, form: Form, value: &str) -> bool {
    // A shell takes what stands after `=` as it is; elsewhere braces and calls are code.
    let is_code = if form == Form::Env { judge::is_reference(value) } else { judge::is_code(value) };
    if is_code || value.contains(char::is_whitespace) {
        return false;
    }
    let digit = value.bytes().any(|b| b.is_ascii_digit());
    let letter = value.bytes().any(|b| b.is_ascii_alphabetic());
    let symbol = value.bytes().any(|b| SYMBOLS.contains(&b));
    match (class, form) {
        // Words alone are a label or a rule; with a number, as a long chain, or as one long word in small letters they
        // are a password that people choose.
        (Class::Password, Form::Quoted) => {
            let inner_symbol = value.trim_end_matches(['!', '?', '*']).bytes().any(|b| SYMBOLS.contains(&b));
            let chosen = inner_symbol
                || (digit && !value.contains(['|', '.', ':', '/', ',']))
                || value.matches('-').count() >= 3
                || (value.len() >= 8
                    && value.bytes().all(|b| b.is_ascii_lowercase())
                    && !value.contains("pass"));
            value.len() >= 6 && (chosen || !judge::is_wordy(value))
        }
        (Class::Password, Form::Env) => value.len() >= 6,
        (Class::Password, Form::Bare) => {
            value.len() >= 6
                && letter
                && !value.contains('/')
                && (symbol || (digit && !value.contains(['.', '_'])))
        }
        (Class::Secret, Form::Quoted | Form::Env) => {
            judge::is_token(value) || (value.len() >= 12 && digit && letter && !judge::is_wordy(value))
        }
        (_, Form::Bare) => judge::is_token(value) && !is_member_path(value),
        _ => judge::is_token(value),
    }
}

/// `module.Type1`, `config.oauth2.key`: names joined by dots.
fn is_member_path(value: &str) -> bool {
    value.contains('.')
        && value.split('.').all(|part| {
            part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        })
}
