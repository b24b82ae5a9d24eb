//! Secrets in headers, URLs and connection strings.

use std::ops::Range;

use super::judge;
use super::reader::{Class, Reader, alphanumeric_and, but, class, slots};

static BLANK: Class = class(b" \t");
static WORD: Class = but(b" \t\n\r");

/// `scheme://user:password@host`, even if the password has a `/`, `@`, `?` or `#` that should have been escaped.
pub(super) fn url_password(reader: &Reader<'_>, keyword: Range<usize>) -> Option<(usize, Range<usize>)> {
    static USER: Class = but(b" \t\n\r/?#@:\"'`<>\\%");
    static URL: Class = but(b" \t\n\r\"'`<>\\");
    let encoded = keyword.len() > 3;
    let mut colon = reader.run_end(slots::USER, &USER, keyword.end);
    // In a URL that is itself a parameter, the colon and the `@` are escaped.
    let mut start = colon + 1;
    if reader.byte(colon) == b'%' && encoded {
        if !reader.starts_with(colon, "%3A") && !reader.starts_with(colon, "%3a") {
            return None;
        }
        start = colon + 3;
    } else {
        while reader.byte(colon) == b'%' && colon - keyword.end < 200 {
            colon = reader.run_end(slots::USER, &USER, colon + 1);
        }
        start = start.max(colon + 1);
        if reader.byte(colon) == b'@' || reader.starts_with(colon, ":@") {
            return token_user(reader, keyword.end..colon);
        }
        if reader.byte(colon) != b':' {
            return None;
        }
    }
    let end = reader.run_end(slots::URL, &URL, start).min(start + MAX_PASSWORD);
    let at = if encoded {
        let hay = reader.bytes.get(start..end)?;
        start + memchr::memmem::find(hay, b"%40")?
    } else {
        host_at(reader, start, end)?
    };
    let password = reader.get(start..at)?;
    judge::is_url_password(password).then_some((0, start..at))
}

/// A token in the place of the user: `https://…@git.example.org`. For Sentry, that part names a project.
fn token_user(reader: &Reader<'_>, user: Range<usize>) -> Option<(usize, Range<usize>)> {
    const SHORTEST: usize = 20;
    let text = reader.get(user.clone())?;
    let host = &reader.bytes[user.end..reader.bytes.len().min(user.end + 80)];
    let is_public = memchr::memmem::find(host, b"sentry").is_some();
    (text.len() >= SHORTEST && !is_public && judge::is_token(text)).then_some((0, user))
}

/// Passwords in URLs are not longer.
const MAX_PASSWORD: usize = 256;

/// The `@` before the host: the first one followed by something like a host.
fn host_at(reader: &Reader<'_>, start: usize, end: usize) -> Option<usize> {
    static HOST: Class = alphanumeric_and(b"_.-[]${}%");
    let mut at = start;
    for _ in 0..4 {
        at = reader.next(slots::AT, b'@', at);
        if at >= end {
            return None;
        }
        let host_end = reader.skip(&HOST, at + 1, 255);
        let ends = matches!(reader.byte(host_end), b':' | b'/' | b'?' | b'#' | b',' | 0)
            || !reader.bytes[host_end].is_ascii_graphic();
        let closes = matches!(
            reader.byte(host_end),
            b'"' | b'\'' | b'`' | b'<' | b'>' | b'\\' | b')' | b'|' | b';' | b'&'
        );
        if host_end > at + 1 && (ends || closes) {
            return Some(at);
        }
        at += 1;
    }
    None
}

/// `user:password@tcp(host:3306)/db`, the format of Go's `MySQL` driver.
pub(super) fn dsn_password(reader: &Reader<'_>, keyword: Range<usize>) -> Option<(usize, Range<usize>)> {
    static DSN: Class = but(b" \t\n\r\"'`(),;=<>");
    let start = reader.skip_back(&DSN, keyword.start, 128);
    let word = reader.get(start..keyword.start)?;
    let colon = word.find(':')?;
    let password = &word[colon + 1..];
    let named = colon > 0 && !password.starts_with("//");
    (named && password.len() >= 3 && judge::is_password_word(password))
        .then_some((0, start + colon + 1..keyword.start))
}

/// An AWS secret: after its name in a file, a table or a prompt (`AWS Secret Access Key [None]: …`), or after its key
/// id in a list.
pub(super) fn aws_secret(reader: &Reader<'_>, keyword: Range<usize>) -> Option<(usize, Range<usize>)> {
    static BETWEEN: Class = class(b" \t\\\"'`|:=,>]");
    static KEY_ID: Class = alphanumeric_and(b"");
    static STAMP: Class = alphanumeric_and(b"-:+.");
    static SECRET: Class = alphanumeric_and(b"/+");
    let mut at = keyword.end;
    if keyword.len() == 4 {
        if reader.skip(&KEY_ID, at, 17) != at + 16 {
            return None;
        }
        at += 16;
        // In a line of `aws --output text`, the expiry comes next.
        let stamp = reader.skip(&BETWEEN, at, 60);
        if reader.starts_with(stamp, "20") && reader.byte(stamp + 4) == b'-' {
            at = reader.skip(&STAMP, stamp, 40);
        }
    }
    at = reader.skip(&BETWEEN, at, 60);
    if reader.byte(at) == b'[' {
        at = reader.skip(&but(b"]\n"), at, 40) + 1;
        at = reader.skip(&BETWEEN, at, 60);
    }
    let end = reader.skip(&SECRET, at, 41);
    let secret = reader.get(at..end)?;
    // After its key id, nothing else has this length.
    let is_secret = judge::is_named_key(secret) || (keyword.len() == 4 && judge::is_mixed_case(secret));
    (end - at == 40 && is_secret).then_some((0, at..end))
}

/// `Authorization: …` with a scheme or without.
pub(super) fn authorization(reader: &Reader<'_>, keyword: Range<usize>) -> Option<(usize, Range<usize>)> {
    const SCHEMES: [&[u8]; 8] =
        [b"token", b"apikey", b"api-key", b"key", b"bot", b"digest", b"geniekey", b"splunk"];
    static QUOTES: Class = class(b"\\\"'");
    static CREDENTIAL: Class = alphanumeric_and(b"._~+/=-");
    static SCHEME: Class = alphanumeric_and(b"-");
    let mut at = reader.skip(&QUOTES, keyword.end, 4);
    at = reader.skip(&BLANK, at, 8);
    if !matches!(reader.byte(at), b':' | b'=' | b',') {
        return None;
    }
    at = reader.skip(&BLANK, at + 1, 8);
    at = reader.skip(&QUOTES, at, 4);
    let scheme = reader.skip(&SCHEME, at, 10);
    if reader.byte(scheme) == b' ' && SCHEMES.iter().any(|s| reader.bytes[at..scheme].eq_ignore_ascii_case(s))
    {
        at = reader.skip(&BLANK, scheme, 8);
    }
    let end = reader.run_end(slots::CREDENTIAL, &CREDENTIAL, at);
    let credential = reader.get(at..end)?;
    if judge::is_token(credential) {
        return Some((0, at..end));
    }
    reader.read_to.set(at + credential.len().min(judge::HEAD) / 2);
    None
}

/// `Cookie: a=b; c=d`, `"cookie": "…"`, `--cookie '…'`, `document.cookie = "…"`: all of it, if one value is a secret.
pub(super) fn cookie(reader: &Reader<'_>, keyword: Range<usize>) -> Option<(usize, Range<usize>)> {
    static QUOTES: Class = class(b"\\\"'`");
    static NAME: Class = alphanumeric_and(b"_.-");
    static BETWEEN: Class = class(b"\\\"' \t:");
    let mut at = reader.skip(&QUOTES, keyword.end, 4);
    let closed = at;
    at = reader.skip(&BLANK, at, 8);
    let option = keyword.start >= 2 && reader.starts_with(keyword.start - 2, "--");
    match reader.byte(at) {
        b':' | b'=' | b',' => at += 1,
        _ if option && at > closed => {}
        _ => return None,
    }
    at = reader.skip(&BLANK, at, 8);
    at = reader.skip(&QUOTES, at + usize::from(reader.byte(at) == b'['), 4);
    // `{"name": "Cookie", "value": "…"}`
    if reader.starts_with(at, "value") {
        at = reader.skip(&BETWEEN, at + "value".len(), 12);
    }
    let start = at;
    let (mut end, mut secret) = (at, false);
    // Read pairs until something else follows. Keywords inside these pairs need no second look.
    loop {
        let name = reader.skip(&NAME, at, 128);
        if name == at || reader.byte(name) != b'=' {
            break;
        }
        let value_end = reader.run_end(slots::COOKIE, &COOKIE_VALUE, name + 1);
        let value = &reader.text.get(name + 1..value_end)?;
        secret |= judge::is_cookie_value(value);
        end = value_end;
        if reader.byte(end) != b';' || end - start > 16 * 1024 {
            break;
        }
        at = reader.skip(&BLANK, end + 1, 8);
    }
    reader.read_to.set(end);
    secret.then_some((0, start..end))
}

/// Characters of a cookie's value: no white space, quotes, semicolons, commas or backslashes.
static COOKIE_VALUE: Class = but(b" \t\n\r\"'`;,\\<>\x7f");

/// `machine host login user password secret`, on one line or several.
pub(super) fn netrc(reader: &Reader<'_>, keyword: Range<usize>) -> Option<(usize, Range<usize>)> {
    static SPACE: Class = class(b" \t\n\r");
    let mut at = reader.skip(&BLANK, keyword.end, 40);
    let [host, login, user, password] = slots::WORDS;
    if reader.bytes[keyword.clone()].eq_ignore_ascii_case(b"default login ") {
        at = reader.run_end(user, &WORD, at);
    } else {
        at = reader.run_end(host, &WORD, at);
        at = reader.skip(&SPACE, at, 80);
        let end = reader.run_end(login, &WORD, at);
        if &reader.bytes[at..end] != b"login" {
            return None;
        }
        at = reader.run_end(user, &WORD, reader.skip(&SPACE, end, 80));
    }
    at = reader.skip(&SPACE, at, 80);
    if reader.starts_with(at, "account ") {
        at = reader.skip(&but(b" \t\r\n"), reader.skip(&BLANK, at + 8, 80), 200);
        at = reader.skip(&SPACE, at, 80);
    }
    if !reader.starts_with(at, "password") || !BLANK[usize::from(reader.byte(at + 8))] {
        return None;
    }
    at = reader.skip(&BLANK, at + 8, 80);
    let end = reader.run_end(password, &WORD, at);
    let word = reader.get(at..end)?;
    (!word.is_empty() && judge::is_password_word(word)).then_some((0, at..end))
}

/// A bot's token within a few words of the name.
pub(super) fn discord_token(reader: &Reader<'_>, keyword: Range<usize>) -> Option<(usize, Range<usize>)> {
    static BETWEEN: Class = alphanumeric_and(b"_ .:=\"'\\(>-");
    static PART: Class = alphanumeric_and(b"_-");
    let between = reader.bytes[keyword.end..].iter().take(32).take_while(|b| BETWEEN[usize::from(**b)]);
    between.enumerate().find_map(|(skip, first)| {
        let at = keyword.end + skip;
        if !matches!(first, b'M' | b'N' | b'O') || reader.byte(at - 1).is_ascii_alphanumeric() {
            return None;
        }
        let id = reader.skip(&PART, at + 1, 28);
        let stamp = reader.skip(&PART, id + 1, 7);
        let end = reader.skip(&PART, stamp + 1, 41);
        let dots = reader.byte(id) == b'.' && reader.byte(stamp) == b'.';
        let sizes =
            (22..=27).contains(&(id - at - 1)) && stamp - id == 7 && (27..=40).contains(&(end - stamp - 1));
        let fits = dots && sizes && !reader.byte(end).is_ascii_alphanumeric();
        (fits && judge::is_mixed(reader.get(at..end)?)).then_some((0, at..end))
    })
}
