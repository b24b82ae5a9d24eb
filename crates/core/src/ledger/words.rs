//! The user's own words: requests, standing rules, corrections. Always verbatim.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use serde::{Deserialize, Serialize};

use super::capped::Capped;
use super::text;
use crate::transcript::Origin;

/// Longest request that is kept whole; a longer one (a pasted plan or log) keeps its beginning and says so.
const KEPT: usize = 12_000;
const RECENT: usize = 80;
const RULES: usize = 160;
/// A sentence longer than this is pasted material, not a rule.
const RULE_CHARS: usize = 700;
/// A message longer than this was not typed.
const PASTED: usize = 1_500;

/// How words reached the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    Prompt,
    /// Typed while the agent worked.
    Queued,
    /// Arguments of a slash command.
    Command,
    /// The reason given when a tool call was refused.
    Refusal,
    /// An answer to the agent's question.
    Answer,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    pub text: String,
    pub way: Way,
    /// Characters that were not kept; 0 when `text` is whole.
    pub left_out: usize,
    /// How many compactions stand before it.
    pub stretch: u32,
    pub origin: Origin,
}

/// A sentence of the user that sets a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    pub text: String,
    /// `must`, `never`, `don't`, `only`… as opposed to a wish.
    pub strong: bool,
    pub stretch: u32,
    pub origin: Origin,
}

/// What happened after the latest request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answered {
    /// Nothing yet.
    #[default]
    No,
    /// The agent was at work when the transcript ended.
    Working,
    /// The agent's last act was to speak.
    Yes,
    /// The user stopped the turn.
    Interrupted,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Words {
    pub first: Option<Said>,
    /// The first request after the latest compaction.
    pub first_of_stretch: Option<Said>,
    pub recent: Capped<Said>,
    pub rules: Capped<Rule>,
    /// Commands that the user did not let the agent run.
    pub refused: Capped<Said>,
    pub answered: Answered,
}

impl Words {
    pub fn refuse(&mut self, tried: String, stretch: u32, origin: &Origin) {
        let said = Said { text: tried, way: Way::Refusal, left_out: 0, stretch, origin: origin.clone() };
        self.refused.push(said, 20);
    }

    pub fn say(&mut self, words: &str, way: Way, stretch: u32, origin: &Origin) {
        let whole = words.trim();
        if whole.is_empty() {
            return;
        }
        // A queued prompt is written when it is typed and again when it is taken up.
        let again =
            |said: &&mut Said| said.way == Way::Queued && said.stretch == stretch && said.text == whole;
        if let Some(said) = self.recent.items.iter_mut().rev().take(8).find(again) {
            said.way = way;
            self.answered = Answered::No;
            return;
        }
        let kept = text::clip(whole, KEPT).unwrap_or_else(|| text::clip_lines(whole, KEPT));
        let said = Said {
            text: kept.to_owned(),
            way,
            left_out: whole.chars().count().saturating_sub(kept.chars().count()),
            stretch,
            origin: origin.clone(),
        };
        self.find_rules(whole, way, stretch, origin);
        // A refusal or an answer belongs to a request; it is not one.
        if matches!(way, Way::Prompt | Way::Queued | Way::Command) {
            self.answered = Answered::No;
            if self.first.is_none() {
                self.first = Some(said.clone());
            }
            if self.first_of_stretch.as_ref().is_none_or(|f| f.stretch != stretch) {
                self.first_of_stretch = Some(said.clone());
            }
        }
        self.recent.push(said, RECENT);
    }

    /// The request the agent was last asked to do.
    pub fn latest(&self) -> Option<&Said> {
        self.recent.iter().rev().find(|s| matches!(s.way, Way::Prompt | Way::Queued | Way::Command))
    }

    fn find_rules(&mut self, words: &str, way: Way, stretch: u32, origin: &Origin) {
        let pasted = !text::fits(words, PASTED);
        for sentence in text::sentences(words) {
            let strength = rule_strength(sentence);
            // What is said when refusing a call is a correction, whatever its words.
            let strong = strength == Some(true) || way == Way::Refusal;
            // In pasted material a wish is somebody else's, and so is a row of a table.
            let counts =
                if pasted { strong && !sentence.starts_with('|') } else { strong || strength.is_some() };
            let marked = ["- ", "* ", "• "].iter().find_map(|mark| sentence.strip_prefix(mark));
            let sentence = marked.unwrap_or(sentence).trim_start();
            if !counts || sentence.is_empty() || !text::fits(sentence, RULE_CHARS) {
                continue;
            }
            let same = |rule: &Rule| rule.text == sentence;
            if let Some(at) = self.rules.items.iter().position(same) {
                self.rules.items.remove(at);
            }
            let rule = Rule { text: sentence.to_owned(), strong, stretch, origin: origin.clone() };
            self.rules.push(rule, RULES);
        }
    }
}

/// Words that set a rule, and words that only utter a preference.
const STRONG: [&str; 25] = [
    "must",
    "never",
    "don't",
    "don\u{2019}t",
    "dont",
    "do not",
    "always",
    "only",
    "instead of",
    "mustn't",
    "mustn\u{2019}t",
    "not allowed",
    "forbidden",
    "required",
    "should not",
    "shouldn't",
    "shouldn\u{2019}t",
    "avoid",
    "make sure",
    "rather than",
    "no longer",
    "under no",
    "at all times",
    "mandatory",
    "let's not",
];
const WEAK: [&str; 17] = [
    "should",
    "ensure",
    "prefer",
    "instead",
    "without",
    "keep",
    "stop",
    "can't",
    "cannot",
    "won't",
    "need to",
    "needs to",
    "have to",
    "has to",
    "unless",
    "not",
    "let\u{2019}s not",
];

static RULE_WORDS: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    AhoCorasick::builder().ascii_case_insensitive(true).build(STRONG.iter().chain(&WEAK)).ok()
});

/// Whether a sentence sets a rule (`Some(true)`) or a preference (`Some(false)`).
pub fn rule_strength(sentence: &str) -> Option<bool> {
    let part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '\'' | '\u{2019}');
    let mut found = None;
    // Fixed words always build; without the automaton there would be no rules, never a panic.
    for hit in RULE_WORDS.as_ref()?.find_overlapping_iter(sentence) {
        let before = sentence[..hit.start()].chars().next_back();
        let after = sentence[hit.end()..].chars().next();
        if before.is_some_and(part) || after.is_some_and(part) {
            continue;
        }
        if hit.pattern().as_usize() < STRONG.len() {
            return Some(true);
        }
        found = Some(false);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_known_by_whole_words_in_any_case() {
        for strong in ["Never do that", "you must", "DON\u{2019}T push", "use a instead of b", "Only here."] {
            assert_eq!(rule_strength(strong), Some(true), "{strong}");
        }
        assert_eq!(rule_strength("it should work"), Some(false));
        for none in ["the mustard", "nevertheless", "read_only_flag", "hello there"] {
            assert_eq!(rule_strength(none), None, "{none}");
        }
    }
}
