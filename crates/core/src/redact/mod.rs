//! Removes secrets: replaces known shapes of keys, tokens and passwords by `[REDACTED:kind]` and keeps the text around
//! them.
//!
//! One automaton searches for the keywords of all rules; a rule is tried only where one of its keywords is, anchored
//! there. So a text without keywords costs one scan. What a rule reads beyond its keyword is remembered for the next
//! keyword (see `reader`), so that no text costs more than a few scans.

mod apart;
mod assign;
mod block;
mod command;
mod encoded;
mod judge;
mod reader;
mod rules;
mod shape;
mod web;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use memchr::memmem;
use serde_json::Value;

use reader::{Reader, slots};
use rules::{How, RULES, Rule};
use shape::{Classes, Shape};

/// A text without its secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redacted<'t> {
    pub text: Cow<'t, str>,
    /// In order, without overlaps.
    pub hits: Vec<RemovedSecret>,
}

/// One removed secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovedSecret {
    pub kind: &'static str,
    /// Its position in the original text.
    pub range: Range<usize>,
}

/// `text` with every known secret replaced. Redacting the result again changes nothing. Takes linear time for any text.
pub fn redact(text: &str) -> Redacted<'_> {
    let mut found = find(text);
    if found.is_empty() {
        return Redacted { text: Cow::Borrowed(text), hits: Vec::new() };
    }
    // Removing a secret can expose a new edge of its neighbour, so search again until nothing is found; the second
    // search is nearly always the last. The bound limits the cost of hostile text.
    let mut out = replace(text, &found);
    for _ in 0..MAX_LOOKS {
        let more = find(&out);
        if more.is_empty() {
            break;
        }
        let original = Original::of(&found);
        let more: Vec<SecretMatch> =
            more.into_iter().map(|f| SecretMatch { range: original.range(&f.range), ..f }).collect();
        found.extend(more);
        found = merge(found);
        out = replace(text, &found);
    }
    let hits = found.into_iter().map(|f| RemovedSecret { kind: f.kind(), range: f.range }).collect();
    Redacted { text: Cow::Owned(out), hits }
}

/// The kinds that can appear in `[REDACTED:kind]`, in order of precedence.
pub fn kinds() -> impl Iterator<Item = &'static str> {
    RULES.iter().flat_map(|rule| rule.kinds.iter().copied())
}

/// The rules for the documentation: vendor, kinds, and keywords.
pub fn rules() -> impl Iterator<Item = (&'static str, &'static [&'static str], &'static [&'static str])> {
    RULES.iter().map(|rule| (rule.of, rule.kinds, rule.keywords))
}

/// Redacts every string in a value.
pub fn redact_json(value: &mut Value) {
    match value {
        Value::String(text) => {
            let redacted = redact(text);
            if !redacted.hits.is_empty() {
                *text = redacted.text.into_owned();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(redact_json),
        Value::Object(fields) => fields.values_mut().for_each(redact_json),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

const MAX_LOOKS: usize = 8;
const MARKER: &str = "[REDACTED:";

/// A secret, and which of its rule's kinds it is.
#[derive(Debug, Clone)]
struct SecretMatch {
    rule: usize,
    variant: usize,
    range: Range<usize>,
}

impl SecretMatch {
    fn kind(&self) -> &'static str {
        RULES[self.rule].kind(self.variant)
    }

    fn marker_len(&self) -> usize {
        MARKER.len() + self.kind().len() + 1
    }
}

struct Engine {
    /// Finds the beginnings of keywords: for a long one that is enough, and makes the automaton smaller.
    beginnings: AhoCorasick,
    /// For each beginning, its keywords and their rules.
    owners: Vec<Vec<(&'static str, usize)>>,
    /// For each rule, its shape if it has one.
    shapes: Vec<Option<Shape>>,
    classes: Classes,
}

/// How many bytes of a keyword the automaton searches for.
const BEGINNING: usize = 6;

static ENGINE: LazyLock<Engine> = LazyLock::new(|| {
    let mut by_beginning: BTreeMap<String, Vec<(&str, usize)>> = BTreeMap::new();
    for (i, rule) in RULES.iter().enumerate() {
        for &word in rule.keywords {
            let beginning = word[..word.len().min(BEGINNING)].to_ascii_lowercase();
            by_beginning.entry(beginning).or_default().push((word, i));
        }
    }
    let beginnings = AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .dense_depth(1)
        .build(by_beginning.keys())
        .expect("a few hundred short words stay far below the automaton's limits");
    let owners = by_beginning.into_values().collect();
    let mut classes = Classes::new(slots::COUNT);
    let shapes = RULES
        .iter()
        .map(|rule| match rule.how {
            How::Key(shape) | How::After(shape) | How::Named(shape) => Some(Shape::new(shape, &mut classes)),
            How::Code(_) | How::Each(_) => None,
        })
        .collect();
    Engine { beginnings, owners, shapes, classes }
});

impl Engine {
    /// Tries a rule's shape; for rules without code.
    fn try_shape(&self, at: usize, reader: &Reader<'_>, keyword: &Range<usize>) -> Option<Range<usize>> {
        let rule: &Rule = &RULES[at];
        let start = match (rule.how, rule.lead) {
            (How::Named(_), _) => assign::named_value(reader, keyword.clone())?,
            (_, Some(lead)) => keyword.start.checked_sub(lead)?,
            (_, None) => keyword.end,
        };
        let edge = if matches!(rule.how, How::Key(_)) { start.min(keyword.start) } else { start };
        if rule.whole_word && !is_edge_before(&reader.bytes[..edge]) {
            return None;
        }
        let mut secret = self.shapes[at].as_ref()?.find(reader, &self.classes, start)?;
        if matches!(rule.how, How::Key(_)) && rule.lead.is_none() {
            secret.start = keyword.start;
        }
        if !is_edge_after(&reader.bytes[secret.end..]) {
            return None;
        }
        if (rule.is_secret)(reader.get(secret.clone())?) {
            return Some(secret);
        }
        // Nothing that begins in the first half of the judged text needs another look.
        reader.read_to.set(secret.start + secret.len().min(judge::HEAD) / 2);
        None
    }
}

/// All secrets in `text`, in order and without overlaps; ignores what is already redacted.
fn find(text: &str) -> Vec<SecretMatch> {
    let engine = &*ENGINE;
    let reader = Reader::new(text, engine.classes.slots());
    let mut markers = Markers::of(text);
    let mut found: Vec<SecretMatch> = Vec::new();
    let mut several = Vec::new();
    // How far each rule has read: a chain of keywords inside one match costs one try in all, not one per keyword.
    let mut done = [0; RULES.len()];
    let keywords = engine.beginnings.find_overlapping_iter(text).flat_map(|beginning| {
        let owners = &engine.owners[beginning.pattern().as_usize()];
        owners
            .iter()
            .map(move |&(word, rule)| (beginning.start()..beginning.start() + word.len(), word, rule))
    });
    for (keyword, word, rule) in keywords {
        if keyword.start < done[rule] {
            continue;
        }
        let Some(there) = reader.bytes.get(keyword.clone()) else { continue };
        let is_there = if RULES[rule].exact_case {
            *there == *word.as_bytes()
        } else {
            word.len() <= BEGINNING || there.eq_ignore_ascii_case(word.as_bytes())
        };
        if !is_there {
            continue;
        }
        // A keyword inside a marker's kind does not name another secret.
        if markers.touching(&keyword).is_some() {
            continue;
        }
        reader.read_to.set(0);
        match RULES[rule].how {
            How::Code(find) => several.extend(find(&reader, keyword)),
            How::Each(find) => find(&reader, keyword, done[rule], &mut several),
            How::Key(_) | How::After(_) | How::Named(_) => {
                several.extend(engine.try_shape(rule, &reader, &keyword).map(|secret| (0, secret)));
            }
        }
        done[rule] = done[rule].max(reader.read_to.get());
        for (variant, range) in several.drain(..) {
            // A match that contains a marker and more is real; one that only cuts into a marker is a coincidence of its
            // letters.
            let holds = |m: &Range<usize>| range.start <= m.start && m.end <= range.end && range != *m;
            if markers.touching(&range).is_none_or(holds) {
                done[rule] = done[rule].max(range.end);
                found.push(SecretMatch { rule, variant, range });
            }
        }
    }
    merge(found)
}

/// The existing `[REDACTED:kind]` markers.
struct Markers {
    ranges: Vec<Range<usize>>,
    /// The first that may still touch a queried range: queries come from left to right.
    next: usize,
}

impl Markers {
    fn of(text: &str) -> Self {
        let bytes = text.as_bytes();
        let ranges = memmem::find_iter(bytes, MARKER)
            .filter_map(|start| {
                let kind = &bytes[start + MARKER.len()..];
                let len = kind.iter().take(MAX_KIND).take_while(|b| is_kind(**b)).count();
                (kind.get(len) == Some(&b']')).then(|| start..start + MARKER.len() + len + 1)
            })
            .collect();
        Self { ranges, next: 0 }
    }

    /// The first marker that shares a byte with `range`.
    fn touching(&mut self, range: &Range<usize>) -> Option<&Range<usize>> {
        // A rule may have looked ahead or may look back, so move a few steps either way.
        while self.next > 0 && self.ranges[self.next - 1].end > range.start {
            self.next -= 1;
        }
        while self.ranges.get(self.next).is_some_and(|marker| marker.end <= range.start) {
            self.next += 1;
        }
        self.ranges.get(self.next).filter(|marker| marker.start < range.end)
    }
}

/// Kinds are not longer.
const MAX_KIND: usize = 40;

fn is_kind(b: u8) -> bool {
    b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'
}

/// Merges overlapping matches into one that covers them; the rule that comes first in the table gives its kind.
fn merge(mut found: Vec<SecretMatch>) -> Vec<SecretMatch> {
    found.sort_by_key(|f| (f.range.start, f.range.end, f.rule, f.variant));
    let mut apart: Vec<SecretMatch> = Vec::with_capacity(found.len());
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

fn replace(text: &str, found: &[SecretMatch]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for f in found {
        out.push_str(&text[done..f.range.start]);
        out.push_str(MARKER);
        out.push_str(f.kind());
        out.push(']');
        done = f.range.end;
    }
    out.push_str(&text[done..]);
    out
}

/// Maps positions in the replaced text, outside the markers, back to the original text.
struct Original<'f> {
    found: &'f [SecretMatch],
    /// Where each marker ends in the replaced text.
    ends: Vec<usize>,
}

impl<'f> Original<'f> {
    fn of(found: &'f [SecretMatch]) -> Self {
        let (mut from, mut to) = (0, 0);
        let ends = found
            .iter()
            .map(|f| {
                to += f.range.start - from + f.marker_len();
                from = f.range.end;
                to
            })
            .collect();
        Self { found, ends }
    }

    fn range(&self, range: &Range<usize>) -> Range<usize> {
        self.place(range.start)..self.place(range.end)
    }

    fn place(&self, at: usize) -> usize {
        match self.ends.partition_point(|end| *end <= at) {
            0 => at,
            n => self.found[n - 1].range.end + (at - self.ends[n - 1]),
        }
    }
}

/// Whether a word can begin here: at the start, after a non-word character, after an escape such as `\n` or `%3D`. A
/// marker counts as the word that it replaced.
fn is_edge_before(before: &[u8]) -> bool {
    match before {
        [.., b']'] => !ends_in_marker(before),
        [] | [.., b'\\', b'n' | b'r' | b't'] => true,
        [.., b'%', a, b] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => true,
        [.., last] => !last.is_ascii_alphanumeric(),
    }
}

fn ends_in_marker(before: &[u8]) -> bool {
    let kind = before[..before.len() - 1].iter().rev().take(MAX_KIND).take_while(|b| is_kind(**b)).count();
    before[..before.len() - 1 - kind].ends_with(MARKER.as_bytes())
}

fn is_edge_after(after: &[u8]) -> bool {
    !after.first().is_some_and(u8::is_ascii_alphanumeric) && !after.starts_with(MARKER.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_keyword_has_a_rule_and_every_shape_is_understood() {
        assert_eq!(ENGINE.shapes.len(), RULES.len());
        assert!(kinds().all(|kind| kind.len() <= MAX_KIND && kind.bytes().all(is_kind)));
        assert!(RULES.iter().all(|rule| !rule.keywords.is_empty()));
    }

    #[test]
    fn overlapping_finds_become_one_under_the_first_rule() {
        let found = |rule, range| SecretMatch { rule, variant: 0, range };
        let merged = merge(vec![found(7, 5..9), found(3, 8..12), found(9, 0..2), found(1, 2..5)]);
        let seen: Vec<_> = merged.into_iter().map(|f| (f.rule, f.range)).collect();
        assert_eq!(seen, [(9, 0..2), (1, 2..5), (3, 5..12)]);
    }

    #[test]
    fn ranges_of_a_second_look_lead_back_to_the_first_text() {
        let found = [
            SecretMatch { rule: 0, variant: 0, range: 2..4 },
            SecretMatch { rule: 0, variant: 0, range: 6..30 },
        ];
        let text = "abSScdTTTTTTTTTTTTTTTTTTTTTTTTef";
        let out = replace(text, &found);
        for (piece, range) in [("ab", 0..2), ("cd", 4..6), ("ef", 30..32)] {
            let at = out.find(piece).unwrap();
            assert_eq!(Original::of(&found).range(&(at..at + 2)), range);
        }
    }
}
