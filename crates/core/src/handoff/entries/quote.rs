//! Somebody's words in an entry: a document shows them once.

use crate::ledger::text::{fits, fold};
use crate::transcript::Origin;

/// Words that an entry shows, and the record that they come from.
#[derive(Debug)]
pub(in crate::handoff) struct Quote {
    /// Each line with its white space folded.
    pub words: String,
    pub origin: Origin,
    /// A sentence taken from a message; another message that contains it repeats it.
    pub is_rule: bool,
}

/// Only a sentence of at least this length counts as repeated: "no" occurs everywhere.
const TELLING: usize = 20;

impl Quote {
    pub(in crate::handoff) fn of(words: &str, origin: &Origin, is_rule: bool) -> Self {
        Self { words: fold_lines(words), origin: origin.clone(), is_rule }
    }

    /// Whether `shown`, folded lines with words of the message at `origin`, already contains this quote.
    pub(in crate::handoff) fn is_in(&self, shown: &str, origin: &Origin) -> bool {
        if self.origin == *origin {
            return found(shown, &self.words, is_word_end);
        }
        self.is_rule && !fits(&self.words, TELLING - 1) && found(shown, &self.words, is_sentence_end)
    }
}

/// `text` with the white space of each line folded, and without blank lines.
pub(in crate::handoff) fn fold_lines(text: &str) -> String {
    text.lines().map(fold).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

/// Whether `text` contains `words` between two boundaries that `is_end` accepts, given the text before and after each.
fn found(text: &str, words: &str, is_end: fn(&str, &str) -> bool) -> bool {
    !words.is_empty()
        && text.match_indices(words).any(|(at, _)| {
            let end = at + words.len();
            is_end(&text[..at], &text[at..]) && is_end(&text[..end], &text[end..])
        })
}

fn is_word_end(before: &str, after: &str) -> bool {
    let part = |c: char| c.is_alphanumeric();
    !(before.ends_with(part) && after.starts_with(part))
}

fn is_sentence_end(before: &str, after: &str) -> bool {
    const ENDS: [char; 13] =
        ['.', '!', '?', ':', '-', '*', '\u{2022}', '"', '\u{201d}', ')', '。', '！', '？'];
    before.is_empty()
        || before.ends_with('\n')
        || after.starts_with('\n')
        || after.is_empty()
        || before.trim_end().ends_with(ENDS)
}
