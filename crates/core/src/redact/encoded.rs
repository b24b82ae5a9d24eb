//! Secrets inside base64: private keys, URLs with passwords, the data of Kubernetes secrets.

use std::ops::Range;
use std::sync::LazyLock;

use memchr::memmem::{Finder, FinderRev};

use super::reader::{Class, Reader, alphanumeric_and, slots};
use super::{block, judge};

static BASE64: Class = alphanumeric_and(b"+/-_");
static PADDING: Class = super::reader::class(b"=");

/// The base64 of an armoured private key, or the body of an OpenSSH key.
pub(super) fn private_key(reader: &Reader<'_>, keyword: Range<usize>) -> Option<(usize, Range<usize>)> {
    if !is_start(reader, keyword.start) {
        return None;
    }
    let run = reader.run_end(slots::BASE64, &BASE64, keyword.start);
    let head = &reader.text[keyword.start..run.min(keyword.start + 64)];
    let is_key = head.starts_with('b')
        || judge::decode_base64(head)
            .is_some_and(|bytes| memchr::memmem::find(&bytes, b"PRIVATE KEY").is_some());
    let end = wrapped_end(reader, keyword.start, run);
    (is_key && end - keyword.start >= 64).then_some((0, keyword.start..end))
}

/// The end of base64 wrapped into lines of the first line's width; the last line is shorter.
fn wrapped_end(reader: &Reader<'_>, start: usize, first_end: usize) -> usize {
    const MOST: usize = 16 * 1024;
    let width = first_end - start;
    let mut end = reader.skip(&PADDING, first_end, 2);
    if !matches!(width, 64 | 76) {
        return end;
    }
    while end - start < MOST {
        let Some(from) = block::next_line(reader, end) else { break };
        let run = reader.skip(&BASE64, from, width + 1);
        let padded = reader.skip(&PADDING, run, 2);
        if run - from > width || run == from || !(padded - from).is_multiple_of(4) {
            break;
        }
        end = padded;
        if run - from < width {
            break;
        }
    }
    end
}

/// Words that announce secrets, in base64: three spellings each, depending on where in a group of three bytes the word
/// begins. Letters that depend on neighbouring bytes are left out.
pub(super) const TEXT_KEYWORDS: &[&str] = &[
    "Oi8v",
    "ovL",
    "6Ly", // ://
    "cGFzc3dvcm",
    "Bhc3N3b3Jk",
    "wYXNzd29yZ", // password
    "UGFzc3dvcm",
    "QYXNzd29yZ", // Password
    "UEFTU1dPUk",
    "BBU1NXT1JE",
    "QQVNTV09SR", // PASSWORD
    "cGFzc3dk",
    "Bhc3N3Z",
    "wYXNzd2", // passwd
    "c2VjcmV0",
    "NlY3Jld",
    "zZWNyZX", // secret
    "U0VDUkVU",
    "NFQ1JFV",
    "TRUNSRV", // SECRET
    "dG9rZW",
    "Rva2Vu",
    "0b2tlb", // token
    "VE9LRU",
    "RPS0VO",
    "UT0tFT", // TOKEN
    "X0tFWT",
    "9LRVk9",
    "fS0VZP", // _KEY=
    "YXBpX2tle",
    "FwaV9rZX",
    "hcGlfa2V5", // api_key
    "YXBpS2V5",
    "FwaUtle",
    "hcGlLZX", // apiKey
    "UFJJVkFURSBLRV",
    "BSSVZBVEUgS0VZ",
    "QUklWQVRFIEtFW", // PRIVATE KEY
    "ImF1dGgiO",
    "JhdXRoIj",
    "iYXV0aCI6", // "auth":
];

/// A text in base64 that holds a secret: a settings file, a URL with a password.
pub(super) fn text(reader: &Reader<'_>, keyword: Range<usize>) -> Option<(usize, Range<usize>)> {
    /// How much of a text is read, before the keyword and from it on.
    const BEFORE: usize = 512;
    const LONGEST: usize = 8 * 1024;
    const SHORTEST: usize = 28;
    let group = |at: usize| reader.bytes.get(at..at + 4).and_then(text_of);
    // Groups begin zero, two or three letters before the keyword.
    [0, 2, 3].into_iter().find_map(|lead| {
        let at = keyword.start.checked_sub(lead).filter(|at| group(*at).is_some())?;
        let mut end = at;
        let mut inner = Vec::new();
        while let Some(bytes) = group(end).filter(|_| end - at < LONGEST) {
            inner.extend(bytes);
            end += 4;
        }
        reader.read_to.set(end);
        let mut first = at;
        while first >= 4 && at - first < BEFORE && group(first - 4).is_some() {
            first -= 4;
        }
        // Most candidates at this point are only a word or two.
        if end - first < SHORTEST {
            return None;
        }
        let before = reader.bytes[first..at].chunks_exact(4).filter_map(text_of).flatten();
        let mut text: Vec<u8> = before.chain(inner).collect();
        let run = reader.skip(&BASE64, end, 4);
        if run - end < 4 {
            // What is left of the last group.
            text.extend(judge::decode_base64(&reader.text[end..run]).unwrap_or_default());
            end = reader.skip(&PADDING, run, 2);
        }
        let text = String::from_utf8(text).ok()?;
        (!super::find(&text).is_empty()).then_some((0, first..end))
    })
}

/// The three characters of a group, if it is of a text. At another offset, the letters are those of control characters.
fn text_of(group: &[u8]) -> Option<[u8; 3]> {
    let bits =
        group.iter().try_fold(0u32, |bits, b| Some((bits << 6) | u32::from(judge::base64_digit(*b)?)))?;
    let [_, bytes @ ..] = bits.to_be_bytes();
    let is_text = |b: &u8| matches!(b, b' '..=b'~' | b'\n' | b'\r' | b'\t');
    bytes.iter().all(is_text).then_some(bytes)
}

/// Whether base64 begins here rather than continues.
fn is_start(reader: &Reader<'_>, at: usize) -> bool {
    let before = &reader.bytes[..at];
    match before {
        [] | [.., b'\\', b'n' | b'r' | b't'] | [.., b'%', _, _] => true,
        [.., last] => !BASE64[usize::from(*last)],
    }
}

static KIND: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("kind:"));
static KIND_BACK: LazyLock<FinderRev<'_>> = LazyLock::new(|| FinderRev::new("kind:"));
static DOCUMENT: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("\n---"));
static DOCUMENT_BACK: LazyLock<FinderRev<'_>> = LazyLock::new(|| FinderRev::new("\n---"));

/// The values under `data:` and `stringData:` of a Kubernetes secret. `floor` is the end of the last one read.
pub(super) fn kubernetes_secret(
    reader: &Reader<'_>,
    keyword: Range<usize>,
    floor: usize,
    found: &mut Vec<(usize, Range<usize>)>,
) {
    const REACH: usize = 8 * 1024;
    // Skip `kind: SecretStore` and the like.
    if reader.byte(keyword.end).is_ascii_alphanumeric() {
        return;
    }
    // Tools write the data before the kind, people after it; another kind or document ends it.
    let from = reader.text.floor_char_boundary(floor.max(keyword.start.saturating_sub(REACH)));
    let before = &reader.bytes[from..keyword.start];
    let begin = KIND_BACK.rfind(before).max(DOCUMENT_BACK.rfind(before)).map_or(from, |at| from + at);
    data(reader, begin..keyword.start, found);
    if !found.is_empty() {
        reader.read_to.set(keyword.end);
        return;
    }
    let to = reader.text.floor_char_boundary(keyword.end + REACH);
    let after = &reader.bytes[keyword.end..to];
    let end = KIND.find(after).unwrap_or(after.len());
    let end = keyword.end + DOCUMENT.find(&after[..end]).unwrap_or(end);
    data(reader, keyword.end..end, found);
    reader.read_to.set(end);
}

fn data(reader: &Reader<'_>, range: Range<usize>, found: &mut Vec<(usize, Range<usize>)>) {
    let mut at = range.start;
    let mut inside: Option<usize> = None;
    for line in reader.bytes[range].split_inclusive(|b| *b == b'\n') {
        let (start, indent) = (at, line.len() - line.trim_ascii_start().len());
        at += line.len();
        let words = line.trim_ascii();
        let Some(last) = words.last() else { continue };
        if inside.is_some_and(|outer| indent <= outer) {
            inside = None;
        }
        let colon = memchr::memchr(b':', line);
        if inside.is_none() {
            let name = colon.map_or(words, |colon| line[..colon].trim_ascii());
            let name = name.strip_prefix(b"\"").unwrap_or(name);
            let name = name.strip_suffix(b"\"").unwrap_or(name);
            let opens = matches!(last, b':' | b'{');
            inside = (opens && matches!(name, b"data" | b"stringData")).then_some(indent);
            continue;
        }
        // `key: value`, `"key": "value",`, or a line of a block.
        let rest = colon.map_or(0, |colon| colon + 1);
        let skipped = line[rest..].iter().position(|b| !matches!(b, b' ' | b'\t' | b'"' | b'\''));
        let rest = skipped.map_or(line.len(), |skipped| rest + skipped);
        let is_end = |b: &u8| matches!(b, b',' | b'"' | b'\'' | b' ' | b'\r' | b'\n');
        let end = line[rest..].iter().rposition(|b| !is_end(b)).map_or(rest, |last| rest + last + 1);
        let value = &reader.text[start + rest..start + end];
        if value.len() >= 8 && !value.starts_with(['|', '>', '{']) && !judge::is_placeholder(value) {
            found.push((0, start + rest..start + end));
        }
    }
}
