//! Literal scoring, with white space folded.

use std::sync::LazyLock;

use baton_core::handoff::frame::HEAD;
use regex::Regex;

use super::probes::{KINDS, Probe, fold};
use super::story::{Cut, Story};

/// Cases and hits by kind.
#[derive(Debug, Clone, Default)]
pub struct Score {
    pub hits: [usize; KINDS.len()],
    pub cases: [usize; KINDS.len()],
    pub statements: usize,
    pub unsupported: Vec<String>,
}

impl Score {
    pub fn add(&mut self, text: &str, probes: &[Probe]) -> Vec<Probe> {
        let whole = fold(text);
        let lines: Vec<String> = text.lines().map(fold).collect();
        let mut missed = Vec::new();
        for probe in probes {
            self.cases[probe.kind] += 1;
            let has =
                |hay: &str, part: &Vec<String>| part.iter().any(|spelling| hay.contains(spelling.as_str()));
            let hit = match probe.parts.as_slice() {
                [one] => has(&whole, one),
                // The other parts must occur outside the first part.
                [first, about @ ..] => lines.iter().any(|line| {
                    has(line, first) && {
                        let rest =
                            first.iter().fold(line.clone(), |line, spelling| line.replace(spelling, ""));
                        let rest = rest.to_lowercase();
                        about.iter().all(|part| has(&rest, part))
                    }
                }),
                [] => true,
            };
            if hit {
                self.hits[probe.kind] += 1;
            } else {
                missed.push(probe.clone());
            }
        }
        missed
    }

    pub fn share(&self, kind: usize) -> Option<f64> {
        (self.cases[kind] > 0).then(|| self.hits[kind] as f64 / self.cases[kind] as f64)
    }

    pub fn mean(&self) -> f64 {
        let shares: Vec<f64> = (0..KINDS.len()).filter_map(|kind| self.share(kind)).collect();
        shares.iter().sum::<f64>() / shares.len().max(1) as f64
    }

    /// Counts statements of our document that are not literally in the transcript. A statement is a line without its
    /// labels, counts and stamps: code spans, quoted lines and names separately, then the rest without labels.
    pub fn check(&mut self, text: &str, transcript: &str) {
        for statement in statements(text) {
            self.statements += 1;
            if !transcript.contains(&statement) {
                self.unsupported.push(statement);
            }
        }
    }

    /// A process that is reported as running must have been running when it was last checked.
    pub fn check_running(&mut self, text: &str, story: &Story, cut: &Cut) {
        for line in text.lines() {
            let Some(rest) = line.strip_prefix("- running background process `") else { continue };
            let id = rest.split('`').next().unwrap_or_default();
            self.statements += 1;
            if !story.shows_running(id, cut.at) {
                self.unsupported.push(line.to_owned());
            }
        }
    }
}

/// Our labels, as patterns at the beginning of the rest of a line.
static LABEL: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"(?x)^(?:
        exit\ 0,\ but\ its\ output\ complains | resolved\ since | replaced\ (?:since|by) | exit\ status\ not\ seen
        | ok\ \(exit\ 0\) | failed\ \(exit\ \d+\) | failed\b
        | First\ request\ of\ this\ context: | First\ request: | First\ request\b | Last\ message\ of\ the\ agent:
        | Latest\ request\ \([^“”():]*(?:,\ to\ )?
        | in\ part\ \(\d+\ more\ characters(?:\ between)?\) | \(\d+\ more\ characters\)
        | in\ flight\ at\ the\ end: | plan\ file: | question\ left\ open:
        | (?:running|its\ end\ was\ not\ seen:)\ (?:background\ process|subagent) | said: | refused\ by\ the\ user: | refusing\ a\ call: | with\ the\ command | with\b
        | said\ in\ the\ session(?:\ by\ [^:]*)?: | asked\b | assistant: | user:
        | earlier\ branch: | branch: | folder: | working\ in: | link: | commit\b
        | working\ tree\ as\ last\ seen: | working\ tree\ before\ the\ last\ commit:
        | (?:created | edited | deleted | read | searched | seen | at | test | build | lint | run)\b | lines\ [-\d,\ ]+
        | \[in\ progress\] | \[pending\] | \[done\] | \#\d+\b | ×\d+ | \):
        )";
    Regex::new(pattern).expect("a fixed pattern")
});
/// A file's change, alone in its part of a line of the map.
static DONE: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"^(?:(?:created|edited|deleted|read|searched|seen)(?: ×\d+)?(?:, )?)+$";
    Regex::new(pattern).expect("a fixed pattern")
});
/// Placeholders for text left out of a quotation.
static LEFT_OUT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\[… \d+ more lines pasted, \d+ characters\]|\[REDACTED:[a-z_-]+\]").expect("a fixed pattern")
});

fn statements(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut fence: Option<String> = None;
    let mut section = "";
    // The frame's own lines describe the document's origin.
    let body =
        if text.starts_with(HEAD) { text.split_once("\n\n").map_or("", |(_, body)| body) } else { text };
    for line in body.lines() {
        let line = line.trim();
        match &fence {
            Some(mark) if line == mark => {
                fence = None;
                continue;
            }
            Some(_) => {
                quoted(line, &mut out);
                continue;
            }
            None if line.starts_with("```") && line.bytes().all(|b| b == b'`') => {
                fence = Some(line.to_owned());
                continue;
            }
            None => {}
        }
        if let Some(title) = line.strip_prefix("## ") {
            section = title;
            continue;
        }
        let ours = ["Whole: ", "Left out", "In context ", "Sealed in context ", "=== END HANDOFF"];
        if line.is_empty() || ours.iter().any(|start| line.starts_with(start)) {
            continue;
        }
        // These sections are about unreadable files and instructions to the reader, not about the session.
        if section.starts_with("Not read") || section.starts_with("Instructions for") {
            continue;
        }
        let line = line.strip_prefix("- ").unwrap_or(line);
        if section.starts_with("Working set") || section.starts_with("Names used") {
            listed(line, &mut out);
        } else {
            labelled(line, &mut out);
        }
    }
    out.retain(|statement| !statement.is_empty());
    out
}

/// A quotation, possibly with a gap or a cut end.
fn quoted(text: &str, out: &mut Vec<String>) {
    for piece in LEFT_OUT.split(text) {
        out.push(fold(piece.trim_end_matches('…')));
    }
}

/// A line of the map: actions, file, places in it, searches, names.
fn listed(line: &str, out: &mut Vec<String>) {
    for part in line.split(" · ") {
        if part.starts_with('`') || part.starts_with("searched `") {
            labelled(part, out);
        } else if let Some(places) = part.strip_prefix("at ") {
            out.extend(places.split(", ").map(|place| without_line(place).to_owned()));
        } else if !part.starts_with("lines ") && !DONE.is_match(part) {
            out.extend(part.split(' ').map(|name| without_line(name).to_owned()));
        }
    }
}

fn labelled(line: &str, out: &mut Vec<String>) {
    let mut left = line;
    loop {
        left = left.trim_start_matches([' ', '·', ',', '→', ':']);
        if let Some(found) = LABEL.find(left) {
            left = &left[found.end()..];
        } else if let Some(rest) = left.strip_prefix('“') {
            let Some(end) = rest.find('”') else { break };
            quoted(&rest[..end], out);
            left = &rest[end + '”'.len_utf8()..];
        } else if left.starts_with('`') {
            let fence = left.len() - left.trim_start_matches('`').len();
            let mark = "`".repeat(fence);
            let Some(end) = left[fence..].find(&mark) else { break };
            quoted(without_line(&left[fence..fence + end]), out);
            left = &left[fence + end + fence..];
        } else {
            break;
        }
    }
    quoted(left, out);
}

/// `name:40` is the name and its line.
fn without_line(name: &str) -> &str {
    match name.rsplit_once(':') {
        Some((before, line)) if !line.is_empty() && line.bytes().all(|b| b.is_ascii_digit()) => before,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_begins_like_a_label_is_a_statement() {
        let text = "## Working set: files\n- edited ×2, deleted · `src/a.rs` · at load:40 · runMyAppTarget read_wiki:7";
        assert_eq!(statements(text), ["src/a.rs", "load", "runMyAppTarget", "read_wiki"]);
    }

    #[test]
    fn frame_steps_and_pointer_are_no_statements() {
        let text = format!(
            "{HEAD}HO-1) === ab\nChannel: x\n\n## Goal\nFirst request: Port it.\n\nWhole: /x.md\n\n\
             ## Instructions for Claude\n\n1. Announce\n=== END HANDOFF === ab"
        );
        assert_eq!(statements(&text), ["Port it."]);
    }

    #[test]
    fn a_word_inside_a_path_does_not_say_what_happened_to_the_file() {
        let created = vec!["created".to_owned(), "new".to_owned()];
        let probe = Probe { kind: 9, parts: vec![vec!["src/new.rs".to_owned()], created] };
        let hits = |text: &str| {
            let mut score = Score::default();
            score.add(text, std::slice::from_ref(&probe));
            score.hits[9]
        };
        assert_eq!(hits("- edited · `src/new.rs`"), 0);
        assert_eq!(hits("- created · `src/new.rs`"), 1);
    }
}
