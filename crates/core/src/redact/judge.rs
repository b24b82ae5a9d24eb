//! The final judgement on a match: placeholders, names and words are not secrets, whatever comes before them.
//!
//! Random text is random from its beginning, so only the head of a long value is examined. That bounds the cost of each
//! judgement, however often hostile text asks for one.

use std::sync::LazyLock;

/// How much of a value is examined.
pub(super) const HEAD: usize = 128;

/// The part of `value` that is examined.
pub(super) fn head(value: &str) -> &str {
    if value.len() <= HEAD { value } else { &value[..value.floor_char_boundary(HEAD)] }
}

/// The kinds of bytes in a value.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Bytes {
    pub lower: bool,
    pub upper: bool,
    pub digit: bool,
    pub symbol: bool,
    pub dash: bool,
    /// Characters of paths, versions and times.
    pub path: bool,
    pub space: bool,
    other: bool,
}

impl Bytes {
    pub(super) fn of(value: &str) -> Self {
        let mut seen = 0;
        head(value).bytes().for_each(|b| seen |= KINDS[usize::from(b)]);
        let has = |bit: u8| seen & bit != 0;
        Self {
            lower: has(1),
            upper: has(2),
            digit: has(4),
            symbol: has(8),
            dash: has(16),
            path: has(32),
            space: has(64) && head(value).contains(char::is_whitespace),
            other: has(128),
        }
    }

    pub(super) fn letter(self) -> bool {
        self.lower || self.upper
    }

    pub(super) fn only_lower(self) -> bool {
        self.lower
            && !(self.upper
                || self.digit
                || self.symbol
                || self.dash
                || self.path
                || self.space
                || self.other)
    }
}

static KINDS: [u8; 256] = {
    let mut kinds = [128; 256];
    let mut b = 0u8;
    loop {
        kinds[b as usize] = match b {
            b'a'..=b'z' => 1,
            b'A'..=b'Z' => 2,
            b'0'..=b'9' => 4,
            b'-' => 16,
            b'.' | b':' | b'/' | b',' => 32,
            b' ' | b'\t' | b'\r' | 0x0b | 0x0c => 64,
            // White space outside ASCII begins with these bytes.
            0xc2 | 0xe1..=0xe3 => 128 | 64,
            b if is_symbol(b) => 8,
            _ => 128,
        };
        if b == 255 {
            break kinds;
        }
        b += 1;
    }
};

/// Symbols that people use in passwords and programmers do not use in names.
pub(super) const fn is_symbol(b: u8) -> bool {
    matches!(b, b'!' | b'@' | b'#' | b'$' | b'%' | b'^' | b'&' | b'*' | b'+' | b'~' | b'?')
}

/// A vendor's key, unless it is a placeholder.
pub(super) fn is_key(secret: &str) -> bool {
    !is_placeholder(secret)
}

/// Letters and digits in one run, as in random keys and not in words joined by dashes.
pub(super) fn is_mixed(secret: &str) -> bool {
    let has_mixed_run = head(secret).split(|c: char| !c.is_ascii_alphanumeric()).any(|run| {
        run.len() >= 6
            && run.bytes().any(|b| b.is_ascii_digit())
            && run.bytes().any(|b| b.is_ascii_alphabetic())
    });
    has_mixed_run && !is_placeholder(secret)
}

/// Has digits among its parts, as ids do.
pub(super) fn is_numbered(secret: &str) -> bool {
    head(secret).bytes().filter(u8::is_ascii_digit).count() >= 4 && !is_placeholder(secret)
}

/// Has both cases, for shapes of letters only that would otherwise match an identifier.
pub(super) fn is_mixed_case(secret: &str) -> bool {
    let body = head(secret).rsplit('_').next().unwrap_or(secret);
    body.bytes().filter(u8::is_ascii_uppercase).count() >= 3
        && body.bytes().filter(u8::is_ascii_lowercase).count() >= 3
        && !is_placeholder(secret)
}

/// A random token without a vendor's shape: long, letters and digits mixed, neither words nor a path.
pub(super) fn is_token(value: &str) -> bool {
    value.len() >= 16 && is_named_key(value)
}

/// A key of a known length, identified by the name before it.
pub(super) fn is_named_key(value: &str) -> bool {
    is_random(value) && !is_placeholder(value)
}

/// A token whose header is the base64 of `{"…`, encoded in base64 once more.
pub(super) fn is_encoded_jwt(value: &str) -> bool {
    let outer = decode_base64(&value[..64.min(value.len())]);
    let inner = outer.as_deref().and_then(|bytes| std::str::from_utf8(bytes).ok());
    inner
        .and_then(|text| decode_base64(&text[..16.min(text.len())]))
        .is_some_and(|head| head.starts_with(b"{\""))
}

/// `user:password` in base64.
pub(super) fn is_basic_credential(value: &str) -> bool {
    let whole = if value.len() <= HEAD { value } else { &value[..HEAD] };
    decode_base64(whole).is_some_and(|bytes| {
        bytes.iter().all(|b| (b' '..=b'~').contains(b))
            && bytes.iter().position(|&b| b == b':').is_some_and(|colon| colon + 3 < bytes.len())
    })
}

/// A chosen password in base64, as secrets of Kubernetes hold it: often without a digit.
pub(super) fn encodes_password(value: &str) -> bool {
    const SHORTEST: usize = 12;
    let is_mixed =
        || value.bytes().any(|b| b.is_ascii_uppercase()) && value.bytes().any(|b| b.is_ascii_lowercase());
    value.len() >= SHORTEST
        && value.len().is_multiple_of(4)
        && value.len() <= HEAD
        && is_mixed()
        && decode_base64(value).is_some_and(|bytes| {
            let is_text = bytes.iter().all(|b| (b'!'..=b'~').contains(b));
            is_text && std::str::from_utf8(&bytes).is_ok_and(is_chosen)
        })
}

/// Printable characters of every kind.
pub(super) fn is_salt(value: &str) -> bool {
    const SYMBOLS: usize = 8;
    value.bytes().filter(u8::is_ascii_punctuation).count() >= SYMBOLS
}

/// What SMTP and IMAP clients send for `AUTH PLAIN`: a user and a password, each after a zero byte, in base64.
pub(super) fn is_sasl_plain(value: &str) -> bool {
    decode_base64(head(value)).is_some_and(|bytes| memchr::memchr_iter(0, &bytes).count() == 2)
}

/// A cookie value that is not just a word.
pub(super) fn is_cookie_value(value: &str) -> bool {
    value.len() >= 8
        && head(value).bytes().any(|b| b.is_ascii_digit())
        && !is_placeholder(value)
        && !is_code(value)
}

/// A session cookie's value. A UUID names a session and does not open it.
pub(super) fn is_session(value: &str) -> bool {
    is_token(value) && !(value.len() == 36 && value.split('-').map(str::len).eq([8, 4, 4, 4, 12]))
}

/// A URL's password, unless it is a well-known default or a placeholder.
pub(super) fn is_url_password(value: &str) -> bool {
    // In `host:8080/path@2x` a port is in the password's place.
    let before_slash = head(value).split(['/', '?', '#']).next().unwrap_or_default();
    value.len() >= 3 && !is_port(before_slash) && is_password_word(value)
}

/// A value where only a password can be.
pub(super) fn is_password_word(value: &str) -> bool {
    !is_placeholder(value) && !is_default(value) && !is_code(value)
}

/// Says "put yours here", or was redacted already.
pub(super) fn is_placeholder(value: &str) -> bool {
    // Long random text contains words by chance.
    const LONGEST: usize = 100;
    let bytes = head(value).as_bytes();
    let mut counts = [0u8; 128];
    let (mut distinct, mut most) = (0, 0);
    for b in bytes.iter().filter(|b| b.is_ascii_alphanumeric()) {
        let count = &mut counts[usize::from(b.to_ascii_lowercase())];
        distinct += u32::from(*count == 0);
        *count += 1;
        most = most.max(usize::from(*count));
    }
    // `xxx`, `0000-0000`, or a prefix with such a body.
    distinct <= 3
        || most * 2 > bytes.len()
        || (value.len() <= LONGEST && (0..bytes.len()).any(|at| is_placeholder_word(&bytes[at..])))
}

/// Whether it begins with one of the words, in a consistent case.
fn is_placeholder_word(rest: &[u8]) -> bool {
    let words: &[&[u8]] = match rest[0].to_ascii_lowercase() {
        b'e' => &[b"example"],
        b'p' => &[b"placeholder"],
        b'y' => &[b"your"],
        b'c' => &[b"changeme", b"change_me", b"change-me"],
        b'r' => &[b"redacted", b"replace"],
        b'd' => &[b"dummy"],
        b'x' => &[b"xxxx"],
        b'*' => &[b"****"],
        b'.' => &[b"...."],
        b'i' => &[b"insert"],
        b'f' => &[b"fake"],
        b's' => &[b"sample"],
        b't' => &[b"todo"],
        b'$' => &[b"${"],
        b'{' => &[b"{{"],
        b'<' => return true,
        // The ellipsis.
        0xe2 => return rest.starts_with("…".as_bytes()),
        _ => return false,
    };
    words.iter().any(|word| {
        rest.get(..word.len()).is_some_and(|there| {
            let tail = &there[1..];
            there.eq_ignore_ascii_case(word)
                && !(tail.iter().any(u8::is_ascii_uppercase) && tail.iter().any(u8::is_ascii_lowercase))
        })
    })
}

/// Default credentials of development databases everywhere; the next session needs to read them.
pub(super) fn is_default(value: &str) -> bool {
    const DEFAULTS: [&str; 28] = [
        "postgres",
        "root",
        "admin",
        "password",
        "passwd",
        "pass",
        "pwd",
        "secret",
        "test",
        "testing",
        "guest",
        "mysql",
        "redis",
        "mongo",
        "rabbitmq",
        "minioadmin",
        "user",
        "username",
        "token",
        "none",
        "null",
        "undefined",
        "true",
        "false",
        "required",
        "optional",
        "string",
        "pw",
    ];
    value.len() <= 10 && DEFAULTS.iter().any(|word| value.eq_ignore_ascii_case(word))
}

/// An expression that yields the value at run time: calls, paths, members, blocks.
pub(super) fn is_code(value: &str) -> bool {
    let bytes = head(value).as_bytes();
    let pairs = bytes.iter().zip(bytes.get(1..).unwrap_or_default());
    is_reference(value)
        || bytes.iter().any(|b| matches!(b, b'{' | b'}'))
        || pairs.into_iter().any(|pair| matches!(pair, (b'(', b')') | (b'-', b'>') | (b':', b':')))
        || value.contains("://")
}

/// Begins with the name of a place where values are kept.
fn is_namespace(value: &str) -> bool {
    const NAMESPACES: [&str; 10] = [
        "process.env",
        "os.environ",
        "os.getenv",
        "env.",
        "env(",
        "import.meta",
        "secrets.",
        "vars.",
        "self.",
        "this.",
    ];
    value.starts_with(['p', 'o', 'e', 'i', 's', 'v', 't'])
        && NAMESPACES.iter().any(|start| value.starts_with(start))
}

/// A variable, a path, a pattern or a YAML tag, judged by its beginning.
pub(super) fn is_reference(value: &str) -> bool {
    match value.as_bytes() {
        [b'$', ..] => is_variable(&value[1..]),
        [b'!', tag @ ..] => tag.iter().all(|b| b.is_ascii_alphabetic() || matches!(b, b'.' | b'!' | b':')),
        [b'%' | b'{' | b'[' | b'(' | b'<' | b'&' | b'*' | b'@' | b'/' | b'~' | b'\\' | b'^', ..] => true,
        _ => is_namespace(value),
    }
}

/// The same where everything is literal except what a shell or a deployment substitutes: passwords may begin with
/// anything.
pub(super) fn is_env_reference(value: &str) -> bool {
    const ROOTS: [&str; 15] = [
        "/app/",
        "/bin/",
        "/dev/",
        "/etc/",
        "/home/",
        "/mnt/",
        "/opt/",
        "/proc/",
        "/root/",
        "/run/",
        "/secrets/",
        "/srv/",
        "/tmp/",
        "/usr/",
        "/var/",
    ];
    match value.as_bytes() {
        [b'$', ..] => is_variable(&value[1..]),
        [b'%', .., b'%']
        | [b'{', .., b'}']
        | [b'[', .., b']']
        | [b'<' | b'(', ..]
        | [b'~' | b'.', b'/', ..]
        | [b'.', b'.', b'/', ..] => true,
        [b'/', ..] => ROOTS.iter().any(|root| value.starts_with(root)) || is_wordy(value),
        [b'@', ..] => value.contains(['/', '(']),
        _ => value.contains("://") || is_namespace(value),
    }
}

/// Whether a name follows `$`: `DB_PASSWORD`, `password`, `{…}`, `(…)`, `1`, but not `ecret123!`.
fn is_variable(rest: &str) -> bool {
    let name = rest.split(['/', ':', '-', '$']).next().unwrap_or_default();
    let is_upper = || name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
    let is_lower = || name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    let is_camel =
        || name.bytes().all(|b| b.is_ascii_alphabetic()) && name.bytes().any(|b| b.is_ascii_lowercase());
    rest.is_empty() || rest.starts_with(['{', '(', '$']) || is_upper() || is_lower() || is_camel()
}

/// Whether every part is a word or a small number, as in identifiers, paths, versions and dashed sentences. `oauth2`,
/// `v1`, `utf8` and `sha256` are words too.
pub(super) fn is_wordy(value: &str) -> bool {
    let (mut letters, mut digits, mut mixed) = (0, 0, false);
    for b in head(value).bytes().chain([b' ']) {
        if b.is_ascii_alphabetic() {
            letters += 1;
            mixed |= digits > 0;
        } else if b.is_ascii_digit() {
            digits += 1;
        } else {
            let numbered = !mixed && digits <= 3 && letters + digits <= 12;
            if digits > 0 && !numbered && !(letters == 0 && digits <= 4) {
                return false;
            }
            (letters, digits, mixed) = (0, 0, false);
        }
    }
    true
}

/// Not made of words, or of words with a number and a symbol, as password rules demand.
pub(super) fn is_chosen(value: &str) -> bool {
    let has = Bytes::of(value);
    let inner = head(value).trim_end_matches(['!', '?', '*']);
    // The date on which a secret was set, as in lists of secrets.
    if let [a, b, c, d, b'-', ..] = value.as_bytes()
        && [a, b, c, d].iter().all(|digit| digit.is_ascii_digit())
    {
        return false;
    }
    !is_wordy(value) || (has.digit && has.letter() && inner.bytes().any(is_symbol))
}

/// A word that somebody chose as a password, in a place that may also hold prose or a default.
pub(super) fn is_chosen_password(value: &str) -> bool {
    let has = Bytes::of(value);
    (has.digit || has.symbol) && is_password_word(value) && !is_env_reference(value)
}

pub(super) fn is_random(value: &str) -> bool {
    let value = head(value);
    let (mut letters, mut digits, mut steps, mut last) = (0, 0, 0, 0);
    for b in value.bytes() {
        letters += usize::from(b.is_ascii_alphabetic());
        digits += usize::from(b.is_ascii_digit());
        // `1234567890abcdef…`: keys in keyboard or alphabetical order.
        steps += usize::from(b == last + 1 || (last, b) == (b'9', b'0'));
        last = b & 0x7f;
    }
    if steps * 10 >= value.len().saturating_sub(1) * 7 {
        return false;
    }
    if letters == 0 || digits == 0 {
        // Without digits, only a long run of both cases is more likely random than a name.
        return digits == 0
            && value.len() >= 32
            && is_mixed_case(value)
            && !value.contains(['.', '/'])
            && entropy(value) > 4.0;
    }
    !is_wordy(value) && entropy(value) >= 3.0
}

/// Bits per byte of a value of at most `HEAD` bytes.
fn entropy(value: &str) -> f32 {
    static LOGARITHMS: LazyLock<[f32; HEAD + 1]> = LazyLock::new(|| {
        let mut logarithms = [0.0; HEAD + 1];
        for (n, logarithm) in (0u8..).zip(&mut logarithms).skip(1) {
            *logarithm = f32::from(n).log2();
        }
        logarithms
    });
    let logarithms = &*LOGARITHMS;
    let mut counts = [0u8; 256];
    value.bytes().for_each(|b| counts[usize::from(b)] += 1);
    let Ok(len) = u8::try_from(value.len()) else { return 0.0 };
    let together: f32 = value.bytes().map(|b| logarithms[usize::from(counts[usize::from(b)])]).sum();
    logarithms[usize::from(len)] - together / f32::from(len)
}

fn is_port(value: &str) -> bool {
    value.len() <= 5 && value.bytes().all(|b| b.is_ascii_digit())
}

/// Standard or URL-safe base64, padded or not.
pub(super) fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let body = text.trim_end_matches('=');
    if body.len() % 4 == 1 {
        return None;
    }
    let (mut out, mut bits, mut held) = (Vec::with_capacity(body.len() * 3 / 4), 0u32, 0);
    for b in body.bytes() {
        bits = ((bits << 6) | u32::from(base64_digit(b)?)) & 0xffff;
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push(u8::try_from((bits >> held) & 0xff).ok()?);
        }
    }
    Some(out)
}

#[inline]
pub(super) fn base64_digit(b: u8) -> Option<u8> {
    Some(match b {
        b'A'..=b'Z' => b - b'A',
        b'a'..=b'z' => b - b'a' + 26,
        b'0'..=b'9' => b - b'0' + 52,
        b'+' | b'-' => 62,
        b'/' | b'_' => 63,
        _ => return None,
    })
}
