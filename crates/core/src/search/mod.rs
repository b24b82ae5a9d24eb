//! Search queries over conversations: words that must all occur, phrases, or a regular expression; and how well a text
//! matches.

pub mod any_case;

use std::ops::Range;

use regex::{Regex, RegexBuilder};

/// The longest accepted query; a longer one is a mistake, not a search.
const MAX_QUERY: usize = 2_000;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadQuery {
    #[error("there is nothing to look for; write a word, a \"phrase\", or --regex PATTERN")]
    Empty,
    #[error("the query is longer than {MAX_QUERY} characters; shorten it")]
    TooLong,
    #[error("the regular expression cannot be used: {0}")]
    Regex(String),
}

/// A parsed query.
#[derive(Debug, Clone)]
pub struct Query {
    terms: Vec<Term>,
    /// All words in order, if there are several: the best kind of match.
    together: Option<Regex>,
}

#[derive(Debug, Clone)]
struct Term {
    regex: Regex,
    needle: Option<Needle>,
}

/// A piece of the query that occurs verbatim in the stored JSON of every matching text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needle {
    pub text: String,
    /// Ignore case.
    pub any_case: bool,
}

/// Where and how well a text matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match {
    /// The first occurrence.
    pub at: Range<usize>,
    pub score: u32,
}

impl Query {
    /// Words and `"phrases"`; each must occur. A term with a capital letter is case-sensitive.
    pub fn words(text: &str) -> Result<Self, BadQuery> {
        let pieces = split(bounded(text)?);
        if pieces.is_empty() {
            return Err(BadQuery::Empty);
        }
        let together = (pieces.len() > 1).then(|| {
            let any_case = !pieces.iter().any(|p| has_capital(p));
            let pattern = pieces.iter().map(|p| regex::escape(p)).collect::<Vec<_>>().join(r"\W+");
            build(&pattern, any_case)
        });
        let term = |piece: &String| {
            let any_case = !has_capital(piece);
            let regex = build(&regex::escape(piece), any_case)?;
            Ok(Term { regex, needle: safe_run(piece).map(|text| Needle { text, any_case }) })
        };
        let terms = pieces.iter().map(term).collect::<Result<_, BadQuery>>()?;
        Ok(Self { terms, together: together.transpose()? })
    }

    /// A regular expression over the text as it was written.
    pub fn regex(pattern: &str) -> Result<Self, BadQuery> {
        let pattern = bounded(pattern)?;
        if pattern.is_empty() {
            return Err(BadQuery::Empty);
        }
        let regex = build(pattern, false)?;
        let needle = literal(pattern).and_then(safe_run).map(|text| Needle { text, any_case: false });
        Ok(Self { terms: vec![Term { regex, needle }], together: None })
    }

    /// What every matching line must contain, longest first. Empty: any line may match.
    pub fn needles(&self) -> Vec<&Needle> {
        let mut needles: Vec<_> = self.terms.iter().filter_map(|t| t.needle.as_ref()).collect();
        needles.sort_by_key(|needle| std::cmp::Reverse(needle.text.len()));
        needles
    }

    /// Matches `text` if it contains every term.
    pub fn find(&self, text: &str) -> Option<Match> {
        let mut first: Option<Range<usize>> = None;
        let mut score = 0;
        for term in &self.terms {
            let mut found = term.regex.find_iter(text);
            let at = found.next()?.range();
            // A few more occurrences are better; many only mean a longer text.
            score += 10 + u32::try_from(found.take(4).count()).unwrap_or(0) * 2;
            if is_word(text, &at) {
                score += 5;
            }
            if first.as_ref().is_none_or(|f| at.start < f.start) {
                first = Some(at);
            }
        }
        if let Some(at) = self.together.as_ref().and_then(|r| r.find(text)) {
            (first, score) = (Some(at.range()), score + 40);
        }
        first.map(|at| Match { at, score })
    }

    /// Everything in `line` to highlight, in order and without overlaps.
    pub fn marks(&self, line: &str) -> Vec<Range<usize>> {
        let mut all: Vec<Range<usize>> = self
            .terms
            .iter()
            .flat_map(|t| t.regex.find_iter(line).take(50).map(|m| m.range()))
            .filter(|r| !r.is_empty())
            .collect();
        all.sort_by_key(|r| (r.start, r.end));
        let mut end = 0;
        all.retain(|r| {
            let apart = r.start >= end;
            if apart {
                end = r.end;
            }
            apart
        });
        all
    }
}

fn bounded(text: &str) -> Result<&str, BadQuery> {
    if text.chars().count() > MAX_QUERY { Err(BadQuery::TooLong) } else { Ok(text.trim()) }
}

fn build(pattern: &str, any_case: bool) -> Result<Regex, BadQuery> {
    RegexBuilder::new(pattern)
        .case_insensitive(any_case)
        .multi_line(true)
        .size_limit(4 << 20)
        .build()
        .map_err(|e| BadQuery::Regex(e.to_string()))
}

fn has_capital(text: &str) -> bool {
    text.chars().any(char::is_uppercase)
}

/// `fix "old parser" now` has three pieces. An unclosed quote is an ordinary character.
fn split(text: &str) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find('"') {
        let Some(len) = rest[start + 1..].find('"') else { break };
        pieces.extend(rest[..start].split_whitespace().map(str::to_owned));
        let phrase = rest[start + 1..start + 1 + len].trim();
        if !phrase.is_empty() {
            pieces.push(phrase.to_owned());
        }
        rest = &rest[start + len + 2..];
    }
    pieces.extend(rest.split_whitespace().map(str::to_owned));
    pieces
}

/// The longest run of `text` that JSON stores verbatim. A single character tells too little to search for.
fn safe_run(text: &str) -> Option<String> {
    let escaped = |c: char| c.is_control() || matches!(c, '"' | '\\' | '/' | '<' | '>' | '&' | '\'');
    text.split(escaped).max_by_key(|run| run.len()).filter(|run| run.len() > 1).map(str::to_owned)
}

/// The literal text at the beginning of a pattern, if every match begins with it.
fn literal(pattern: &str) -> Option<&str> {
    const SPECIAL: &[char] = &['.', '^', '$', '*', '+', '?', '(', ')', '[', ']', '{', '}', '|', '\\'];
    if pattern.contains('|') {
        return None;
    }
    let end = pattern.find(SPECIAL).unwrap_or(pattern.len());
    let plain = &pattern[..end];
    // In `ab*` the last character may be missing.
    let optional = pattern[end..].starts_with(['*', '?', '{']);
    let plain = if optional { &plain[..plain.char_indices().next_back()?.0] } else { plain };
    (!plain.is_empty()).then_some(plain)
}

/// Whether the match is not part of a longer word.
fn is_word(text: &str, at: &Range<usize>) -> bool {
    let inside = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    !inside(text[..at.start].chars().next_back()) && !inside(text[at.end..].chars().next())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(query: &str, text: &str) -> Option<u32> {
        Query::words(query).unwrap().find(text).map(|m| m.score)
    }

    #[test]
    fn all_words_must_be_there_in_any_order_and_together_is_best() {
        assert!(score("fix parser", "the Parser: a fix").is_some());
        assert_eq!(score("fix parser", "the parser"), None);
        assert!(score("fix parser", "fix parser") > score("fix parser", "parser … much later … fix"));
        assert!(score("parse", "parse it") > score("parse", "reparsed"), "a whole word is better");
    }

    #[test]
    fn a_phrase_is_one_piece_and_a_capital_letter_is_meant() {
        assert_eq!(score("\"old parser\"", "the parser is old"), None);
        assert!(score("\"old parser\"", "the old parser").is_some());
        assert_eq!(score("Parser", "the parser"), None);
        assert_eq!(split("a \"b c\" d \"e"), ["a", "b c", "d", "\"e"]);
    }

    #[test]
    fn the_needle_stands_in_the_stored_form_of_whatever_matches() {
        for (query, text) in [
            ("say", "say"),
            ("\"say it\"", "he: say it"),
            ("a/b.rs", "x a/b.rs"),
            ("\"line one\"", "line one\nline two"),
            ("größe", "die größe"),
            ("\"tab\there\"", "tab\there"),
        ] {
            let query = Query::words(query).unwrap();
            assert!(query.find(text).is_some(), "{text}");
            let stored = serde_json::to_string(text).unwrap();
            for needle in query.needles() {
                assert!(stored.contains(&needle.text), "{needle:?} is not in {stored}");
            }
        }
        assert!(Query::words("\"\\\"").unwrap().needles().is_empty(), "nothing of it is stored as it is");
    }

    #[test]
    fn a_regular_expression_gives_a_needle_only_where_every_match_has_it() {
        let needle = |p: &str| Query::regex(p).unwrap().needles().first().map(|n| n.text.clone());
        assert_eq!(needle("error: .*").as_deref(), Some("error: "));
        assert_eq!(needle("colou?r").as_deref(), Some("colo"));
        assert_eq!(needle("one|two"), None);
        assert_eq!(needle("(?i)one"), None);
        assert_eq!(needle(r"\d+"), None);
        assert!(matches!(Query::regex("("), Err(BadQuery::Regex(_))));
        assert_eq!(Query::words("  ").err(), Some(BadQuery::Empty));
    }

    #[test]
    fn marks_do_not_overlap() {
        let query = Query::words("parse parser").unwrap();
        assert_eq!(query.marks("a parser").first(), Some(&(2..7)));
        assert_eq!(query.marks("a parser").len(), 1);
    }
}
