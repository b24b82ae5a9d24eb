//! Names in running text: paths, addresses, identifiers, numbers and hashes. Words of prose do not count, and neither
//! does anything that looks like a secret.

/// A name and its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Find<'t> {
    /// An identifier, a number or a hash.
    Word(&'t str),
    /// As in the text: absolute or not, with either slash.
    Path(&'t str),
    Url(&'t str),
}

const SHORTEST: usize = 8;
const LONGEST: usize = 64;
const LONGEST_PATH: usize = 200;

/// The role of a byte in a name.
const WORD: u8 = 1;
const RUN: u8 = 2;
const CLASS: [u8; 256] = {
    let mut class = [0; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        if byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' {
            class[byte as usize] = WORD | RUN;
        } else if matches!(byte, b'.' | b'/' | b'@' | b'~' | b'+' | b':' | b'-' | b'\\') {
            class[byte as usize] = RUN;
        }
        byte += 1;
    }
    class
};

fn is(byte: u8, class: u8) -> bool {
    CLASS[usize::from(byte)] & class != 0
}

/// Calls `found` for every name of `text`, in order.
pub(super) fn scan<'t>(text: &'t str, mut found: impl FnMut(Find<'t>)) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if !is(bytes[at], RUN) {
            at += 1;
            continue;
        }
        let start = at;
        while at < bytes.len() && is(bytes[at], RUN) {
            at += 1;
        }
        if at - start < 7 {
            continue;
        }
        let run = &text[start..at];
        if memchr::memchr(b'/', run.as_bytes()).is_some() || run.contains('\\') {
            if let Some(scheme) = run.find("://") {
                let end = url_end(bytes, at);
                let from = scheme_start(&run[..scheme]);
                let url =
                    text[start + from..end].trim_end_matches(['.', ',', ':', ';', '!', '?', '*', '/', '\\']);
                if url.contains("://") && url.len() <= LONGEST_PATH && !url.contains('@') {
                    found(Find::Url(url));
                }
                at = end;
                continue;
            }
            if let Some(path) = path(run) {
                found(Find::Path(path));
                continue;
            }
        }
        if !is_secret_value(text, start) {
            words(run, &mut found);
        }
    }
}

/// Where the scheme begins at the end of `text`; a colour code before it leaves its last letter there.
fn scheme_start(text: &str) -> usize {
    let known = ["https", "http", "wss", "ws", "ssh", "git", "ftp", "file"]
        .iter()
        .find(|known| text.ends_with(**known));
    match known {
        Some(known) => text.len() - known.len(),
        None => text.rfind(|c: char| !c.is_ascii_alphabetic()).map_or(0, |i| i + 1),
    }
}

fn url_end(bytes: &[u8], from: usize) -> usize {
    let ends = |b: &u8| {
        b.is_ascii_whitespace()
            || b.is_ascii_control()
            || matches!(b, b'"' | b'\'' | b'<' | b'>' | b'(' | b')' | b'[' | b']' | b'`' | b'\\')
    };
    bytes[from..].iter().position(ends).map_or(bytes.len(), |n| from + n)
}

/// A run with slashes as a path, without the line number after it.
fn path(run: &str) -> Option<&str> {
    let drive = run.as_bytes().get(1) == Some(&b':') && matches!(run.as_bytes().get(2), Some(b'\\' | b'/'));
    let from = if drive { 2 } else { 0 };
    let end = run[from..].find(':').map_or(run.len(), |i| from + i);
    let path = run[..end].trim_end_matches(['.', '-', '+', '\\', '/']).trim_start_matches(['+', '-', ':']);
    if !(SHORTEST..=LONGEST_PATH).contains(&path.len()) {
        return None;
    }
    let mut parts = path.rsplit(['/', '\\']);
    let file = parts.next()?;
    let depth = parts.filter(|part| !part.is_empty()).count();
    let named = file.rsplit_once('.').is_some_and(|(stem, ext)| {
        !stem.is_empty() && (1..=10).contains(&ext.len()) && ext.bytes().all(|b| b.is_ascii_alphanumeric())
    });
    // A regular expression has backslashes too; a path of Windows has a drive or a file's name at its end.
    let escaped = path.contains('\\') && !drive && !named;
    let absolute = drive || path.starts_with('/');
    (depth > 0 && !escaped && (named || absolute || depth > 1)).then_some(path)
}

fn words<'t>(run: &'t str, found: &mut impl FnMut(Find<'t>)) {
    let bytes = run.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if !is(bytes[at], WORD) {
            // `\b` and its like take their letter with them.
            let escape = bytes[at] == b'\\' && bytes.get(at + 1).is_some_and(|b| b"bntrswdBSWD".contains(b));
            at += if escape { 2 } else { 1 };
            continue;
        }
        let start = at;
        while at < bytes.len() && is(bytes[at], WORD) {
            at += 1;
        }
        let word = &run[start..at];
        if is_name(word) {
            found(Find::Word(word));
        }
    }
}

/// An identifier, a long number, or the beginning of a hash.
fn is_name(word: &str) -> bool {
    let bytes = word.as_bytes();
    if !(7..=LONGEST).contains(&bytes.len()) {
        return false;
    }
    let (mut digits, mut lower, mut upper, mut marks, mut turns, mut humps) = (0, 0, 0, 0, 0, 0);
    let mut before = 0_u8;
    for &b in bytes {
        match b {
            b'0'..=b'9' => {
                digits += 1;
                turns += usize::from(before.is_ascii_alphabetic());
            }
            b'a'..=b'z' => {
                lower += 1;
                turns += usize::from(before.is_ascii_digit());
            }
            b'A'..=b'Z' => {
                upper += 1;
                turns += usize::from(before.is_ascii_digit());
                humps += usize::from(before.is_ascii_lowercase());
            }
            _ => marks += 1,
        }
        before = b;
    }
    if digits == bytes.len() {
        return (SHORTEST..=15).contains(&digits);
    }
    let hex = || bytes.iter().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(b));
    if digits > 0 && marks == 0 && upper == 0 && hex() {
        return bytes.len() <= 12 && lower > 0;
    }
    if bytes.len() < SHORTEST || bytes[0].is_ascii_digit() {
        return false;
    }
    // Ids of GitHub's nodes look random and are needed to answer a review.
    if word.contains("_kwDO") {
        return true;
    }
    // Random strings change between letters and digits all the time; names do so once or twice.
    if turns > 3 && marks == 0 || turns > 6 || (digits > 0 && marks == 0 && humps * 3 > bytes.len()) {
        return false;
    }
    if digits * 2 > bytes.len() {
        return false;
    }
    let shaped = (marks > 0 && marks < bytes.len() / 2) || digits > 0 || humps > 0;
    let acronym = upper >= 2 && lower >= 2;
    shaped || acronym
}

/// Whether the text at `start` follows `password=` or the like.
fn is_secret_value(text: &str, start: usize) -> bool {
    const SECRETS: [&str; 9] =
        ["passw", "pwd", "secret", "token", "api_key", "apikey", "access_key", "private_key", "credential"];
    let before = text[..start].trim_end_matches(['"', '\'', ' ', '`']);
    let Some(key) = before.strip_suffix(['=', ':']) else { return false };
    let key = key.trim_end_matches(['"', '\'', ' ', ':']);
    let from =
        key.rfind(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))).map_or(0, |i| i + 1);
    // Check only the end of a long line.
    let Some(word) = key.get(from..).filter(|word| word.len() <= 60) else { return false };
    let word = word.to_ascii_lowercase();
    SECRETS.iter().any(|secret| word.contains(secret))
}

/// Files whose text must not be carried over.
pub(crate) fn holds_secrets(path: &str) -> bool {
    let name = path.rsplit(['/', '\\']).next().unwrap_or(path).to_ascii_lowercase();
    name.starts_with(".env")
        || [".pem", ".key", ".p12", ".pfx", ".jks", ".keystore"].iter().any(|end| name.ends_with(end))
        || ["id_rsa", "id_ed25519", ".netrc", ".pgpass", ".npmrc", ".htpasswd", "shadow"]
            .contains(&name.as_str())
        || ["credential", "secret"].iter().any(|word| name.contains(word))
}

/// Whether a command names such a file, so that its output may be the text of that file.
pub(crate) fn names_secrets(command: &str) -> bool {
    let words = command.split(|c: char| c.is_whitespace() || "'\"`=<>|;&(){}$".contains(c));
    words.filter(|word| word.contains(['.', '/', '\\'])).any(holds_secrets)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<&str> {
        let mut out = Vec::new();
        scan(text, |find| {
            let (Find::Word(name) | Find::Path(name) | Find::Url(name)) = find;
            out.push(name);
        });
        out
    }

    #[test]
    fn names_are_told_from_words_of_prose() {
        let text = "The parseToken function in src/auth/login.rs:42 calls HTTPServer.listen_on(port) with MAX_RETRIES=3.";
        assert_eq!(
            found(text),
            ["parseToken", "src/auth/login.rs", "HTTPServer", "listen_on", "MAX_RETRIES"]
        );
        assert_eq!(found("Something IMPORTANT happened yesterday and/or today, nevertheless."), [""; 0]);
        assert_eq!(
            found(r"C:\Users\me\app\Models\Currency.cs(12) and tests\Unit\CurrencyTests.cs"),
            [r"C:\Users\me\app\Models\Currency.cs", r"tests\Unit\CurrencyTests.cs"]
        );
        assert_eq!(
            found("see https://github.com/acme/app/pull/17?x=1, commit 1a2b3c4d, run 28512345678"),
            ["https://github.com/acme/app/pull/17?x=1", "1a2b3c4d", "28512345678"]
        );
        assert_eq!(found("resolve PRRT_kwDOQ6DXvM5v7dg6"), ["PRRT_kwDOQ6DXvM5v7dg6"]);
        assert_eq!(found(r"rg '\bFoo_barBaz\b' src"), ["Foo_barBaz"]);
        assert_eq!(
            found("\u{1b}[36mhttp://localhost:3000\u{1b}[39m/"),
            ["http://localhost:3000"],
            "a colour ends it"
        );
    }

    #[test]
    fn text_that_looks_like_a_secret_is_not_a_name() {
        for text in [
            "sk-ant-api03-Xk39fjQ0zL2mNq8vR4tY6uB1cE5gH7jK",
            "DB_PASSWORD=hunter2_hunter2",
            "\"api_key\": \"aB3dE6gH9jK2\"",
            "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        ] {
            let names = found(text);
            assert!(names.iter().all(|name| matches!(*name, "DB_PASSWORD" | "api_key")), "{text}: {names:?}");
        }
        assert!(holds_secrets("/app/.env.local") && !holds_secrets("src/environment.rs"));
        for command in
            ["cat .env; ls", "ls && cat 'config/.env.local'", "openssl x509 <server.pem", r"type C:\app\.env"]
        {
            assert!(names_secrets(command), "{command}");
        }
        for command in ["rg secret_key src/main.rs", "kubectl get secret", "ls src"] {
            assert!(!names_secrets(command), "{command}");
        }
    }
}
