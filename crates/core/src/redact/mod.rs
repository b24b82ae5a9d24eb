//! Secrets out: known shapes of keys, tokens and passwords are replaced by `[REDACTED:kind]`, what stands around stays.
//!
//! One automaton looks for the keywords of all rules; only where a keyword stands, its rule is compiled and tried,
//! anchored there. So a text without keywords costs one scan, and a rule that is never met costs nothing.

mod assign;
mod block;
mod judge;
mod rules;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{LazyLock, OnceLock};

use aho_corasick::AhoCorasick;
use memchr::memmem;
use regex::Regex;

use rules::{How, RULES, Rule};

/// A text without its secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redacted<'t> {
    pub text: Cow<'t, str>,
    /// In order, none touching another.
    pub hits: Vec<Hit>,
}

/// One secret that was taken out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    pub kind: &'static str,
    /// Where the secret stood in the text that was given.
    pub range: Range<usize>,
}

/// `text` with every known secret replaced. Redacting the result again changes nothing.
pub fn redact(text: &str) -> Redacted<'_> {
    let mut found = find(text);
    if found.is_empty() {
        return Redacted { text: Cow::Borrowed(text), hits: Vec::new() };
    }
    // A secret taken out can give its neighbour a new edge, so look again until nothing is found; the second look
    // is nearly always the last. The bound keeps hostile text from costing more than a few.
    let mut out = replace(text, &found);
    for _ in 0..MAX_LOOKS {
        let more = find(&out);
        if more.is_empty() {
            break;
        }
        let more = more.into_iter().map(|f| Found { range: in_original(&found, f.range), ..f });
        found = merge(more.chain(found.clone()).collect());
        out = replace(text, &found);
    }
    let hits =
        found.into_iter().map(|f| Hit { kind: RULES[f.rule].kind(f.variant), range: f.range }).collect();
    Redacted { text: Cow::Owned(out), hits }
}

/// The kinds that can stand in `[REDACTED:kind]`, in the order in which they win over each other.
pub fn kinds() -> impl Iterator<Item = &'static str> {
    RULES.iter().flat_map(|rule| rule.kinds.iter().copied())
}

const MAX_LOOKS: usize = 8;
const MARKER: &str = "[REDACTED:";

/// A secret, and which of the rule's kinds it is.
#[derive(Debug, Clone)]
struct Found {
    rule: usize,
    variant: usize,
    range: Range<usize>,
}

struct Engine {
    keywords: AhoCorasick,
    /// For each keyword its text and its rule.
    owners: Vec<(&'static str, usize)>,
    shapes: Vec<OnceLock<Regex>>,
}

static ENGINE: LazyLock<Engine> = LazyLock::new(|| {
    let owners: Vec<_> = RULES
        .iter()
        .enumerate()
        .flat_map(|(i, rule)| rule.keywords.iter().map(move |&word| (word, i)))
        .collect();
    let keywords = AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .build(owners.iter().map(|(word, _)| word))
        .expect("a few hundred short keywords stay far below the automaton's limits");
    Engine { keywords, owners, shapes: RULES.iter().map(|_| OnceLock::new()).collect() }
});

impl Engine {
    fn try_rule(&self, at: usize, text: &str, keyword: Range<usize>) -> Option<Found> {
        let rule: &Rule = &RULES[at];
        let (variant, range) = match rule.how {
            How::Code(find) => find(text, keyword)?,
            How::Shape(shape) => {
                let start = keyword.start.checked_sub(rule.lead)?;
                let rest = text.get(start..)?;
                if rule.whole_word && !is_edge_before(&text[..start]) {
                    return None;
                }
                // Every shape is compiled by a test.
                let regex = self.shapes[at].get_or_init(|| {
                    Regex::new(&format!(r"\A(?-u:{shape})")).expect("the shapes are constants that compile")
                });
                let groups = regex.captures(rest)?;
                let secret = groups.get(1).or_else(|| groups.get(0))?;
                if !is_edge_after(&rest[secret.end()..]) || !(rule.is_secret)(secret.as_str()) {
                    return None;
                }
                (0, start + secret.start()..start + secret.end())
            }
        };
        Some(Found { rule: at, variant, range })
    }
}

/// All secrets of `text`, in order and apart from each other; what is already redacted is left alone.
fn find(text: &str) -> Vec<Found> {
    let engine = &*ENGINE;
    let markers = markers(text);
    let mut found: Vec<Found> = Vec::new();
    // How far each rule has found already: a chain of keywords inside one find costs one try, not one each.
    let mut done = [0; RULES.len()];
    for keyword in engine.keywords.find_overlapping_iter(text) {
        let (word, rule) = engine.owners[keyword.pattern().as_usize()];
        if keyword.start() < done[rule] || (RULES[rule].exact_case && text[keyword.range()] != *word) {
            continue;
        }
        // A kind names what was there: the word is not the name of another secret.
        if touching(&markers, keyword.range()).is_some() {
            continue;
        }
        let Some(hit) = engine.try_rule(rule, text, keyword.range()) else { continue };
        // What holds a marker and more is a find; what only cuts into one is an accident of its letters.
        let holds =
            |m: &Range<usize>| hit.range.start <= m.start && m.end <= hit.range.end && hit.range != *m;
        if touching(&markers, hit.range.clone()).is_none_or(holds) {
            done[rule] = hit.range.end;
            found.push(hit);
        }
    }
    merge(found)
}

/// Where `[REDACTED:kind]` already stands.
fn markers(text: &str) -> Vec<Range<usize>> {
    memmem::find_iter(text.as_bytes(), MARKER)
        .filter_map(|start| {
            let kind = &text.as_bytes()[start + MARKER.len()..];
            let len = kind
                .iter()
                .take_while(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || **b == b'-')
                .count();
            (kind.get(len) == Some(&b']')).then(|| start..start + MARKER.len() + len + 1)
        })
        .collect()
}

/// The first marker that shares a byte with `range`.
fn touching(markers: &[Range<usize>], range: Range<usize>) -> Option<&Range<usize>> {
    markers.get(markers.partition_point(|m| m.end <= range.start)).filter(|m| m.start < range.end)
}

/// Overlapping finds become one that covers them all; its kind is that of the rule that stands first in the table.
fn merge(mut found: Vec<Found>) -> Vec<Found> {
    found.sort_by_key(|f| (f.range.start, f.range.end, f.rule, f.variant));
    let mut apart: Vec<Found> = Vec::with_capacity(found.len());
    for f in found {
        match apart.last_mut() {
            Some(last) if f.range.start < last.range.end => {
                last.range.end = last.range.end.max(f.range.end);
                (last.rule, last.variant) = (last.rule, last.variant).min((f.rule, f.variant));
            }
            _ => apart.push(f),
        }
    }
    apart
}

fn replace(text: &str, found: &[Found]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for f in found {
        out.push_str(&text[done..f.range.start]);
        out.push_str(MARKER);
        out.push_str(RULES[f.rule].kind(f.variant));
        out.push(']');
        done = f.range.end;
    }
    out.push_str(&text[done..]);
    out
}

/// A range of the replaced text, both ends outside of the markers, as a range of the text it was made from.
fn in_original(found: &[Found], range: Range<usize>) -> Range<usize> {
    let original = |at: usize| {
        let (mut from, mut to) = (0, 0);
        for f in found {
            let marker_start = to + (f.range.start - from);
            if at <= marker_start {
                break;
            }
            from = f.range.end;
            to = marker_start + MARKER.len() + RULES[f.rule].kind(f.variant).len() + 1;
        }
        from + (at - to)
    };
    original(range.start)..original(range.end)
}

/// Whether a word can begin here: the start, after a character that belongs to no word, after an escape such as
/// `\n` or `%3D`. A marker counts as the word that it replaced.
fn is_edge_before(before: &str) -> bool {
    match before.as_bytes() {
        [.., b']'] => !ends_in_marker(before.as_bytes()),
        [] | [.., b'\\', b'n' | b'r' | b't'] => true,
        [.., b'%', a, b] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => true,
        [.., last] => !last.is_ascii_alphanumeric(),
    }
}

fn ends_in_marker(before: &[u8]) -> bool {
    let near = &before[before.len().saturating_sub(40)..];
    memmem::rfind(near, MARKER.as_bytes()).is_some_and(|at| !near[at..near.len() - 1].contains(&b']'))
}

fn is_edge_after(after: &str) -> bool {
    !after.starts_with(|c: char| c.is_ascii_alphanumeric()) && !after.starts_with(MARKER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_compiles() {
        for rule in RULES {
            if let How::Shape(shape) = rule.how {
                Regex::new(&format!(r"\A(?-u:{shape})")).unwrap_or_else(|e| panic!("{:?}: {e}", rule.kinds));
            }
        }
    }

    #[test]
    fn overlapping_finds_become_one_under_the_first_rule() {
        let found = |rule, range| Found { rule, variant: 0, range };
        let merged = merge(vec![found(7, 5..9), found(3, 8..12), found(9, 0..2), found(1, 2..5)]);
        let seen: Vec<_> = merged.into_iter().map(|f| (f.rule, f.range)).collect();
        assert_eq!(seen, [(9, 0..2), (1, 2..5), (3, 5..12)]);
    }

    #[test]
    fn ranges_of_a_second_look_lead_back_to_the_first_text() {
        let found = [Found { rule: 0, variant: 0, range: 2..4 }, Found { rule: 0, variant: 0, range: 6..30 }];
        let text = "abSScdTTTTTTTTTTTTTTTTTTTTTTTTef";
        let out = replace(text, &found);
        for (piece, range) in [("ab", 0..2), ("cd", 4..6), ("ef", 30..32)] {
            let at = out.find(piece).unwrap();
            assert_eq!(in_original(&found, at..at + 2), range);
        }
    }
}
