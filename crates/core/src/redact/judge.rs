//! The last word on a find: placeholders, names and words are no secrets, whatever stands before them.

/// A vendor's key, unless it only shows where one would go.
pub(super) fn is_key(secret: &str) -> bool {
    !is_placeholder(secret)
}

/// Letters and digits in one run, as random keys have and words joined by dashes have not.
pub(super) fn is_mixed(secret: &str) -> bool {
    let has_mixed_run = secret.split(|c: char| !c.is_ascii_alphanumeric()).any(|run| {
        run.len() >= 6
            && run.bytes().any(|b| b.is_ascii_digit())
            && run.bytes().any(|b| b.is_ascii_alphabetic())
    });
    has_mixed_run && !is_placeholder(secret)
}

/// Numbers among its parts, as ids have.
pub(super) fn is_numbered(secret: &str) -> bool {
    secret.bytes().filter(u8::is_ascii_digit).count() >= 4 && !is_placeholder(secret)
}

/// Small and capital letters: for shapes that are letters only and would else be an identifier.
pub(super) fn is_mixed_case(secret: &str) -> bool {
    let body = secret.rsplit('_').next().unwrap_or(secret);
    body.bytes().filter(u8::is_ascii_uppercase).count() >= 3
        && body.bytes().filter(u8::is_ascii_lowercase).count() >= 3
        && !is_placeholder(secret)
}

/// A random token of no vendor's shape: long, letters and digits mixed, neither words nor a path.
pub(super) fn is_token(value: &str) -> bool {
    value.len() >= 16 && is_random(value) && !is_placeholder(value) && !is_sequence(value)
}

/// `user:password` in base64.
pub(super) fn is_basic_credential(value: &str) -> bool {
    decode_base64(value).is_some_and(|bytes| {
        bytes.iter().all(|b| (b' '..=b'~').contains(b))
            && bytes.iter().position(|&b| b == b':').is_some_and(|colon| colon + 3 < bytes.len())
    })
}

/// A cookie header of which at least one value is not a word.
pub(super) fn is_cookie(header: &str) -> bool {
    header.split(';').filter_map(|pair| pair.split_once('=')).any(|(_, value)| {
        value.len() >= 8
            && value.bytes().any(|b| b.is_ascii_digit())
            && !is_placeholder(value)
            && !is_code(value)
    })
}

/// The password of a URL, unless it is a default that everybody knows or only a place for one.
pub(super) fn is_url_password(value: &str) -> bool {
    value.len() >= 3 && !is_port(value) && is_password_word(value)
}

/// A password that stands where only a password can stand.
pub(super) fn is_password_word(value: &str) -> bool {
    !is_placeholder(value) && !is_default(value) && !is_code(value)
}

/// Says "put yours here", or shows that somebody took it out already.
pub(super) fn is_placeholder(value: &str) -> bool {
    const WORDS: [&str; 20] = [
        "example",
        "placeholder",
        "your",
        "changeme",
        "change_me",
        "change-me",
        "redacted",
        "dummy",
        "xxxx",
        "****",
        "....",
        "…",
        "insert",
        "replace",
        "fake",
        "sample",
        "${",
        "{{",
        "<",
        "todo",
    ];
    let mut counts = [0usize; 128];
    value
        .bytes()
        .filter(u8::is_ascii_alphanumeric)
        .for_each(|b| counts[usize::from(b.to_ascii_lowercase())] += 1);
    let distinct = counts.iter().filter(|&&n| n > 0).count();
    let most = counts.iter().max().copied().unwrap_or(0);
    // `xxx`, `0000-0000`, or a prefix with such a body.
    if distinct <= 3 || most * 2 > value.len() {
        return true;
    }
    // A word stands in one case; in long random text even that happens by chance.
    value.len() <= 100 && {
        let lower = value.to_ascii_lowercase();
        WORDS.iter().any(|word| {
            lower.match_indices(word).any(|(at, _)| {
                let rest = &value.as_bytes()[at + 1..at + word.len()];
                !rest.iter().any(u8::is_ascii_uppercase) || !rest.iter().any(u8::is_ascii_lowercase)
            })
        })
    }
}

/// What development databases are set up with everywhere; the next session needs to read it.
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
    DEFAULTS.iter().any(|word| value.eq_ignore_ascii_case(word))
}

/// An expression that leads to the value at run time, not the value.
pub(super) fn is_code(value: &str) -> bool {
    const PARTS: [&str; 6] = ["()", "://", "->", "::", "{", "}"];
    is_reference(value) || PARTS.iter().any(|part| value.contains(part))
}

/// A variable, a path, a pattern: by how it begins.
pub(super) fn is_reference(value: &str) -> bool {
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
    value.starts_with(['$', '%', '{', '[', '(', '<', '&', '*', '@', '!', '/', '~', '\\', '^'])
        || NAMESPACES.iter().any(|start| value.starts_with(start))
}

/// Every part is a word or a small number, as in identifiers, paths, versions and sentences joined by dashes.
pub(super) fn is_wordy(value: &str) -> bool {
    value.split(|c: char| !c.is_ascii_alphanumeric()).all(|part| {
        part.bytes().all(|b| b.is_ascii_alphabetic()) || (part.len() <= 4 && part.bytes().all(|b| b.is_ascii_digit()))
            // `oauth2`, `v1`, `utf8`, `sha256`: a word with its number.
            || (part.len() <= 12 && part.trim_end_matches(|c: char| c.is_ascii_digit()).bytes().all(|b| b.is_ascii_alphabetic())
                && part.bytes().filter(u8::is_ascii_digit).count() <= 3)
    })
}

fn is_random(value: &str) -> bool {
    let letters = value.bytes().filter(u8::is_ascii_alphabetic).count();
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    if letters == 0 || digits == 0 {
        // Without any digit only a long run of both cases is more likely random than named.
        return digits == 0
            && value.len() >= 32
            && is_mixed_case(value)
            && !value.contains(['.', '/'])
            && entropy(value) > 4.0;
    }
    !is_wordy(value) && entropy(value) >= 3.0
}

/// Bits per byte.
fn entropy(value: &str) -> f64 {
    let mut counts = [0u32; 256];
    value.bytes().for_each(|b| counts[usize::from(b)] += 1);
    let len = value.len() as f64;
    counts.iter().filter(|&&n| n > 0).map(|&n| f64::from(n) / len).map(|p| -p * p.log2()).sum()
}

/// `1234567890abcdef…`: typed along the keyboard or the alphabet.
fn is_sequence(value: &str) -> bool {
    let bytes = value.as_bytes();
    let steps =
        bytes.windows(2).filter(|w| w[1] == w[0].wrapping_add(1) || (w[0], w[1]) == (b'9', b'0')).count();
    steps * 10 >= bytes.len().saturating_sub(1) * 7
}

fn is_port(value: &str) -> bool {
    value.len() <= 5 && value.bytes().all(|b| b.is_ascii_digit())
}

fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let body = text.trim_end_matches('=');
    if body.len() % 4 == 1 {
        return None;
    }
    let (mut out, mut bits, mut held) = (Vec::with_capacity(body.len() * 3 / 4), 0u32, 0);
    for b in body.bytes() {
        let six = match b {
            b'A'..=b'Z' => b - b'A',
            b'a'..=b'z' => b - b'a' + 26,
            b'0'..=b'9' => b - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(six);
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push(u8::try_from((bits >> held) & 0xff).ok()?);
        }
    }
    Some(out)
}
