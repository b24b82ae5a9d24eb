//! Private keys in PEM and PGP armour: the whole block, also when it is indented, quoted, numbered or cut off.

use std::ops::Range;

/// Longer than any real key; keeps a lost BEGIN from taking the rest of a document.
const MAX_BYTES: usize = 16 * 1024;
/// Less than this is a mention in prose or code, not a key.
const MIN_BODY: usize = 32;

/// The block that begins at the keyword: up to its END line, or as far as the lines look like a key.
pub(super) fn private_key(text: &str, keyword: Range<usize>) -> Option<(usize, Range<usize>)> {
    let label_len =
        text[keyword.end..].bytes().take_while(|b| matches!(b, b'A'..=b'Z' | b'0'..=b'9' | b' ')).count();
    let label = &text[keyword.end..keyword.end + label_len];
    if !matches!(label.strip_suffix(" BLOCK").unwrap_or(label), l if l.ends_with("PRIVATE KEY")) {
        return None;
    }
    let body_start =
        keyword.end + label_len + text[keyword.end + label_len..].starts_with("-----").then_some(5)?;
    let (mut end, mut body) = (body_start, 0);
    let mut at = body_start;
    while at < text.len() && at - body_start < MAX_BYTES {
        let (line, next) = next_line(text, at);
        if let Some(tail) = line.find("-----END ") {
            let close = at + tail + "-----END ".len();
            let label_end = text[close..].find("-----").filter(|&len| len <= 40);
            // Between BEGIN and END on one line stands base64 as well.
            body += base64_len(&line[..tail]).unwrap_or(0);
            end = label_end.map_or(close, |len| close + len + 5);
            break;
        }
        match base64_len(line) {
            Some(len) => body += len,
            None if is_header(line) => {}
            None => break,
        }
        end = at + line.trim_end().len();
        at = next;
    }
    (body >= MIN_BODY).then_some((0, keyword.start..end))
}

/// The line at `at` and where the next begins. In quoted text a line can end in a written-out `\n`.
fn next_line(text: &str, at: usize) -> (&str, usize) {
    let rest = &text[at..];
    let (mut len, mut next) = rest.find('\n').map_or((rest.len(), rest.len()), |i| (i, i + 1));
    for written in ["\\n", "\\r"] {
        if let Some(i) = rest[..len].find(written) {
            (len, next) = (i, i + 2);
        }
    }
    (&rest[..len], at + next)
}

/// How much base64 the line holds, if it holds nothing else but the marks of quoting, diffs and line numbers.
fn base64_len(line: &str) -> Option<usize> {
    let line = line.trim_end_matches(['\\', '"', '\'', '`', ',', ';', ' ', '\t', '\r', '+', ')']);
    let line = line.trim_start_matches([' ', '\t', '"', '\'', '`', '>', '|', '#', '*', '+', '-', '\\']);
    // `cat -n` and the clients' file views write a number before the line.
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let line = match line[digits..].chars().next() {
        Some('\t' | '→' | '|' | ':') => line[digits..].trim_start_matches(['\t', '→', '|', ':', ' ']),
        _ => line,
    };
    line.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=')).then_some(line.len())
}

fn is_header(line: &str) -> bool {
    ["Proc-Type:", "DEK-Info:", "Version:", "Comment:", "Charset:", "Hash:"].iter().any(|h| line.contains(h))
}
