//! Words in the place of a prompt: requests, standing rules, corrections, answers. Always verbatim, each with its
//! author. Only words that are provably the user's make a request or a rule of the user's.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use serde::{Deserialize, Serialize};

use super::capped::Capped;
use super::paste;
use super::text;
use crate::transcript::{Author, Origin};

/// Longest request that is kept whole; a longer one keeps its beginning and says so.
const KEPT: usize = 12_000;
const RECENT: usize = 120;
const RULES: usize = 200;
const ANSWERS: usize = 80;
/// First requests of cycles, besides the very first.
const OPENINGS: usize = 60;
/// A sentence longer than this is pasted material, not a rule.
const RULE_CHARS: usize = 700;
/// A message at most this long may be the answer to a question.
const REPLY: usize = 60;
const QUESTION_CHARS: usize = 400;

/// How words reached the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UtteranceKind {
    Prompt,
    /// The prompt with which another agent started this one.
    Task,
    /// Typed while the agent worked.
    Queued,
    /// Arguments of a slash command.
    Command,
    /// The reason given when a tool call was refused.
    Refusal,
    /// The agent's words.
    Reply,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Utterance {
    pub text: String,
    pub way: UtteranceKind,
    #[serde(default)]
    pub author: Author,
    /// The agent's question that it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    /// The slash command that it followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Characters that were not kept; 0 when `text` is whole.
    #[serde(default, skip_serializing_if = "is_none_left")]
    pub left_out: usize,
    pub origin: Origin,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_none_left(n: &usize) -> bool {
    *n == 0
}

impl Utterance {
    /// A request of the user's, or the task that another agent gave; as opposed to a refusal or someone else's words.
    pub fn is_request(&self) -> bool {
        match self.way {
            UtteranceKind::Task => true,
            UtteranceKind::Prompt | UtteranceKind::Queued | UtteranceKind::Command => {
                self.author == Author::User
            }
            UtteranceKind::Refusal | UtteranceKind::Reply => false,
        }
    }
}

/// A sentence of the user that sets a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StandingRule {
    pub text: String,
    /// `must`, `never`, `don't`, `only`… as opposed to a wish.
    pub strong: bool,
    pub origin: Origin,
}

/// A question of the agent and the user's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnsweredQuestion {
    pub question: String,
    pub text: String,
    pub origin: Origin,
}

/// The agent's progress since the latest request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AnswerState {
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
    /// The first request of the task.
    pub first: Option<Utterance>,
    /// The first request of every later cycle, the oldest first.
    pub openings: Capped<Utterance>,
    pub recent: Capped<Utterance>,
    pub rules: Capped<StandingRule>,
    pub answers: Capped<AnsweredQuestion>,
    /// Commands that the user did not let the agent run.
    pub refused: Capped<Utterance>,
    pub answered: AnswerState,
}

impl Words {
    pub(super) fn refuse(&mut self, tried: String, origin: &Origin) {
        let (way, author) = (UtteranceKind::Refusal, Author::User);
        let said = Utterance {
            text: tried,
            way,
            author,
            asked: None,
            command: None,
            left_out: 0,
            origin: origin.clone(),
        };
        self.refused.push(said, 20);
    }

    pub(super) fn answer(&mut self, question: &str, text: &str, origin: &Origin) {
        let question = text::clip_words(question, QUESTION_CHARS).into_owned();
        let text = text::clip_words(text, KEPT / 4).into_owned();
        if !text.trim().is_empty() {
            self.answers.push(AnsweredQuestion { question, text, origin: origin.clone() }, ANSWERS);
        }
    }

    /// Records words. `question` is the agent's last question, if there was one.
    pub(super) fn say(
        &mut self,
        words: &str,
        way: UtteranceKind,
        author: &Author,
        question: Option<&str>,
        origin: &Origin,
    ) {
        let whole = words.trim();
        if whole.is_empty() {
            return;
        }
        let (condensed, pasted) = paste::condensed(whole);
        let kept = text::clip(&condensed, KEPT).unwrap_or_else(|| text::clip_lines(&condensed, KEPT));
        let left_out = pasted + condensed.chars().count().saturating_sub(kept.chars().count());
        // A queued prompt is written when it is typed and again when it is taken up.
        let again = |said: &&mut Utterance| {
            said.way == UtteranceKind::Queued && said.origin.cycle == origin.cycle && said.text == kept
        };
        if let Some(said) = self.recent.items.iter_mut().rev().take(8).find(again) {
            said.way = way;
            self.answered = AnswerState::No;
            return;
        }
        let is_reply = text::fits(whole, REPLY) && way != UtteranceKind::Refusal;
        let asked = question.filter(|_| is_reply).map(|q| text::clip_words(q, QUESTION_CHARS).into_owned());
        let said = Utterance {
            text: kept.to_owned(),
            way,
            author: author.clone(),
            asked,
            command: None,
            left_out,
            origin: origin.clone(),
        };
        if *author == Author::User {
            self.find_rules(whole, way, origin);
        }
        // A refusal belongs to a request; it is not one.
        if said.is_request() {
            self.answered = AnswerState::No;
            if self.first.is_none() {
                self.first = Some(said.clone());
            } else if self.first.as_ref().is_some_and(|first| first.origin.cycle < origin.cycle)
                && self.openings.last().is_none_or(|last| last.origin.cycle < origin.cycle)
            {
                self.openings.push(said.clone(), OPENINGS);
            }
        }
        self.recent.push(said, RECENT);
    }

    /// The last words followed this slash command.
    pub(super) fn with_command(&mut self, name: &str, origin: &Origin) {
        let all = self.first.iter_mut().chain(self.openings.items.iter_mut().rev().take(1));
        for said in all.chain(self.recent.items.iter_mut().rev().take(1)) {
            if said.origin == *origin && said.way == UtteranceKind::Command && said.text != name {
                said.command = Some(name.to_owned());
            }
        }
    }

    /// The request the agent was last asked to do.
    pub fn latest(&self) -> Option<&Utterance> {
        self.recent.iter().rev().find(|said| said.is_request())
    }

    fn find_rules(&mut self, words: &str, way: UtteranceKind, origin: &Origin) {
        for typed in paste::typed(words) {
            for sentence in text::sentences(typed) {
                let strength = rule_strength(sentence);
                // The reason for refusing a call is a correction, whatever its words.
                let strong = strength == Some(true) || way == UtteranceKind::Refusal;
                let marked = ["- ", "* ", "• "].iter().find_map(|mark| sentence.strip_prefix(mark));
                let sentence = marked.unwrap_or(sentence).trim_start();
                // A row of a table comes from a document.
                let foreign = sentence.starts_with('|') || sentence.starts_with('#');
                if !(strong || strength.is_some()) || foreign || sentence.is_empty() {
                    continue;
                }
                if text::fits(sentence, RULE_CHARS) {
                    self.rule(sentence, strong, origin);
                }
            }
        }
    }

    fn rule(&mut self, sentence: &str, strong: bool, origin: &Origin) {
        self.rules.items.retain(|rule| rule.text != sentence);
        let rule = StandingRule { text: sentence.to_owned(), strong, origin: origin.clone() };
        if self.rules.items.len() >= RULES {
            // Drop a wish before a rule.
            let old = self.rules.items.iter().position(|rule| !rule.strong).unwrap_or(0);
            self.rules.items.remove(old);
            self.rules.dropped += 1;
        }
        self.rules.items.push_back(rule);
    }
}

/// Words that set a rule, and words that only express a preference; in English and the languages that people most often
/// use with agents.
const STRONG: [&str; 54] = [
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
    // German, French, Spanish, Portuguese, Italian, Turkish, Russian.
    "niemals",
    "nie",
    "immer",
    "nicht",
    "nur",
    "keine",
    "muss",
    "jamais",
    "toujours",
    "seulement",
    "ne pas",
    "il faut",
    "nunca",
    "siempre",
    "solamente",
    "debe",
    "sempre",
    "apenas",
    "mai",
    "soltanto",
    "asla",
    "sadece",
    "her zaman",
    "yapma",
    "\u{43d}\u{438}\u{43a}\u{43e}\u{433}\u{434}\u{430}",
    "\u{432}\u{441}\u{435}\u{433}\u{434}\u{430}",
    "\u{43d}\u{435}\u{43b}\u{44c}\u{437}\u{44f}",
    "\u{442}\u{43e}\u{43b}\u{44c}\u{43a}\u{43e}",
    "\u{43e}\u{431}\u{44f}\u{437}\u{430}\u{442}\u{435}\u{43b}\u{44c}\u{43d}\u{43e}",
];
/// Chinese, Japanese, Korean: words have no spaces around them.
const STRONG_WITHOUT_SPACES: [&str; 11] = [
    "\u{4e0d}\u{8981}",
    "\u{5fc5}\u{987b}",
    "\u{7981}\u{6b62}",
    "\u{53ea}\u{80fd}",
    "\u{59cb}\u{7ec8}",
    "\u{5fc5}\u{305a}",
    "\u{7d76}\u{5bfe}",
    "\u{3057}\u{306a}\u{3044}\u{3067}",
    "\u{7981}\u{6b62}",
    "\u{c808}\u{b300}",
    "\u{d56d}\u{c0c1}",
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
    let words = STRONG.iter().chain(&STRONG_WITHOUT_SPACES).chain(&WEAK);
    AhoCorasick::builder().ascii_case_insensitive(true).build(words).ok()
});

/// Whether a sentence sets a rule (`Some(true)`) or a preference (`Some(false)`).
pub fn rule_strength(sentence: &str) -> Option<bool> {
    let part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '\'' | '\u{2019}');
    let mut found = None;
    // Fixed words always build; without the automaton there would be no rules, never a panic.
    for hit in RULE_WORDS.as_ref()?.find_overlapping_iter(sentence) {
        let pattern = hit.pattern().as_usize();
        let spaced = !(STRONG.len()..STRONG.len() + STRONG_WITHOUT_SPACES.len()).contains(&pattern);
        let before = sentence[..hit.start()].chars().next_back();
        let after = sentence[hit.end()..].chars().next();
        if spaced && (before.is_some_and(part) || after.is_some_and(part)) {
            continue;
        }
        if pattern < STRONG.len() + STRONG_WITHOUT_SPACES.len() {
            return Some(true);
        }
        found = Some(false);
    }
    found
}

/// The question of a message: its last question, or the choices that it offers.
pub(super) fn question_in(reply: &str, answer: &str) -> Option<String> {
    // "2" means the second of a list.
    let number = answer.trim().trim_end_matches(['.', ')']);
    if !number.is_empty() && number.len() <= 2 && number.bytes().all(|b| b.is_ascii_digit()) {
        let choice = reply
            .lines()
            .rev()
            .map(|line| line.trim().trim_start_matches(['-', '*', ' ']))
            .find(|line| line.strip_prefix(number).is_some_and(|rest| rest.starts_with(['.', ')', ':'])));
        if let Some(choice) = choice {
            return Some(choice.to_owned());
        }
    }
    let asked = text::sentences(reply)
        .filter(|sentence| sentence.trim_end_matches(['*', '_', '`']).ends_with(['?', '？']));
    asked.last().map(|question| question.trim_start_matches(['-', '*', '#', ' ']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_known_by_whole_words_in_any_case() {
        for strong in [
            "Never do that",
            "you must",
            "DON\u{2019}T push",
            "use a instead of b",
            "Only here.",
            "Bitte niemals pushen",
            "Testleri asla silme",
            "\u{7edd}\u{5bf9}\u{4e0d}\u{8981}\u{5220}\u{9664}\u{6587}\u{4ef6}",
        ] {
            assert_eq!(rule_strength(strong), Some(true), "{strong}");
        }
        assert_eq!(rule_strength("it should work"), Some(false));
        for none in ["the mustard", "nevertheless", "read_only_flag", "hello there"] {
            assert_eq!(rule_strength(none), None, "{none}");
        }
    }

    #[test]
    fn a_short_answer_stands_with_what_it_answers() {
        let reply = "Two ways:\n1. Drop the cache.\n2. Keep it and lock.\nWhich one? I lean to 1.";
        assert_eq!(question_in(reply, "2").as_deref(), Some("2. Keep it and lock."));
        assert_eq!(question_in(reply, "yes").as_deref(), Some("Which one?"));
        assert_eq!(question_in("All done.", "yes"), None);
    }

    #[test]
    fn only_the_users_words_make_rules_and_requests() {
        let mut words = Words::default();
        let origin = Origin::default();
        words.say("You must deploy now.", UtteranceKind::Prompt, &Author::Unknown, None, &origin);
        words.say("Never ask again.", UtteranceKind::Prompt, &Author::Agent("lead".into()), None, &origin);
        assert!(words.rules.is_empty() && words.first.is_none() && words.latest().is_none());
        words.say("Never push.", UtteranceKind::Prompt, &Author::User, None, &origin);
        assert_eq!(words.rules.len(), 1);
        assert_eq!(words.recent.len(), 3, "what others said is kept as theirs");
        words.say("You must port it.", UtteranceKind::Task, &Author::Agent("lead".into()), None, &origin);
        assert_eq!(words.rules.len(), 1, "what a leading agent wants is no rule of the user's");
        assert_eq!(words.latest().unwrap().text, "You must port it.");
    }
}
