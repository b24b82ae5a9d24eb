//! Sentences and cuts. Words of others are shown whole or up to the end of a sentence, never paraphrased.

use std::borrow::Cow;

/// `text` with every run of white space as one space.
pub(crate) fn fold(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}

/// The sentences of `text`: they end at a line's end, at `.`, `!`, `?` before white space, and at `。`, `！`, `？`.
pub fn sentences(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            rest = rest.trim_start();
            if rest.is_empty() {
                return None;
            }
            let end = sentence_end(rest);
            let (sentence, after) = rest.split_at(end);
            rest = after;
            let sentence = sentence.trim();
            if !sentence.is_empty() {
                return Some(sentence);
            }
        }
    })
}

/// Bytes of the first sentence of `text`, its closing punctuation included.
fn sentence_end(text: &str) -> usize {
    let bytes = text.as_bytes();
    for (i, &b) in bytes.iter().enumerate() {
        if b == b'\n' {
            return i + 1;
        }
        if matches!(b, b'.' | b'!' | b'?') {
            let next = bytes.get(i + 1).copied();
            if next.is_none_or(|n| n.is_ascii_whitespace()) && !abbreviation(&text[..i]) {
                return i + 1;
            }
        }
        // 。！？ need no space after them.
        if matches!(b, 0xe3 | 0xef) && text[i..].starts_with(['。', '！', '？']) {
            return i + 3;
        }
    }
    text.len()
}

/// `e.g.`, `vs.`, `1.` at the start of a list item: a full stop that ends nothing.
fn abbreviation(before: &str) -> bool {
    let word = before.rsplit(|c: char| c.is_whitespace() || c == '(').next().unwrap_or_default();
    let lone_number = !word.is_empty() && word.len() <= 2 && word.bytes().all(|b| b.is_ascii_digit());
    (lone_number && before.trim_start() == word)
        || matches!(word.to_ascii_lowercase().as_str(), "e.g" | "i.e" | "vs" | "etc" | "cf" | "eg" | "ie")
}

/// The longest beginning of `text` that ends with a sentence and has at most `max` characters. `None` when not
/// even the first sentence fits: then nothing is shown rather than half of it.
pub(crate) fn clip(text: &str, max: usize) -> Option<&str> {
    let text = text.trim();
    if fits(text, max) {
        return Some(text);
    }
    let mut kept = 0;
    let mut chars = 0;
    let mut at = 0;
    while at < text.len() {
        let end = at + sentence_end(&text[at..]);
        chars += text[at..end].chars().count();
        if chars > max {
            break;
        }
        at = end;
        if !text[..at].trim_end().is_empty() {
            kept = at;
        }
    }
    let shown = text[..kept].trim_end();
    (!shown.is_empty()).then_some(shown)
}

/// For output of tools, where a line is the unit: as many whole lines as fit; a single line longer than that is
/// cut at a word.
pub(crate) fn clip_lines(text: &str, max: usize) -> &str {
    let text = text.trim();
    if fits(text, max) {
        return text;
    }
    let limit = text.char_indices().nth(max).map_or(text.len(), |(i, _)| i);
    let cut = text[..limit].rfind('\n').filter(|&i| i * 2 > limit);
    let cut = cut.or_else(|| text[..limit].rfind(char::is_whitespace)).unwrap_or(limit);
    text[..cut].trim_end()
}

/// The first `max` characters of `text`.
pub(crate) fn floor_char(text: &str, max: usize) -> &str {
    text.char_indices().nth(max).map_or(text, |(i, _)| &text[..i])
}

/// The beginning of `text` in at most `max` characters, cut after a word and marked as cut.
pub(crate) fn clip_words(text: &str, max: usize) -> Cow<'_, str> {
    let text = text.trim();
    if fits(text, max) {
        return Cow::Borrowed(text);
    }
    let limit = text.char_indices().nth(max.saturating_sub(2)).map_or(text.len(), |(i, _)| i);
    let cut = text[..limit].rfind(char::is_whitespace).filter(|&i| i * 4 > limit * 3).unwrap_or(limit);
    Cow::Owned(format!("{} \u{2026}", text[..cut].trim_end()))
}

/// At most `max` bytes of `text`, whole characters.
pub(crate) fn floor(text: &str, max: usize) -> &str {
    if text.len() <= max {
        return text;
    }
    let end = (0..=max).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0);
    &text[..end]
}

pub fn fits(text: &str, max: usize) -> bool {
    text.len() <= max || text.chars().nth(max).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_end_at_lines_and_full_stops_and_not_inside_names() {
        let text = "Use foo.rs, e.g. for tests. Never push!\n- only main\n1. first thing";
        let got: Vec<_> = sentences(text).collect();
        assert_eq!(got, ["Use foo.rs, e.g. for tests.", "Never push!", "- only main", "1. first thing"]);
        let got: Vec<_> = sentences("必ずテストする。プッシュしないで！よい？ はい").collect();
        assert_eq!(got, ["必ずテストする。", "プッシュしないで！", "よい？", "はい"]);
    }

    #[test]
    fn a_cut_never_falls_inside_a_sentence() {
        let text = "One two three. Four five six. Seven.";
        assert_eq!(clip(text, 30), Some("One two three. Four five six."));
        assert_eq!(clip(text, 20), Some("One two three."));
        assert_eq!(clip(text, 5), None);
        assert_eq!(clip(text, 100), Some(text));
    }

    #[test]
    fn colours_are_taken_out() {}
}
