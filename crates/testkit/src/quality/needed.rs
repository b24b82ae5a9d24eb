//! What comes next: the names that the agent uses in its next forty acts without being shown them again, whether a
//! handoff contains them, and whether it says where they belong.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use regex::Regex;

use super::story::{Call, Cut, Story, What};

/// How many acts after the cut are considered.
const ACTS: usize = 40;
/// A name is placed if it is this near to its file's name.
const NEAR: usize = 400;

/// The names needed after a cut.
pub struct Needed {
    pub names: Vec<Need>,
    /// All names that the agent uses in those acts, shown again or not.
    pub used: HashSet<String>,
}

pub struct Need {
    pub name: String,
    /// The file whose text last contained it before the cut, as people write its path.
    pub file: Option<String>,
}

macro_rules! rule {
    ($name:ident, $pattern:literal) => {
        static $name: LazyLock<Regex> = LazyLock::new(|| Regex::new($pattern).expect("a fixed pattern"));
    };
}

rule!(
    NAME,
    r#"https?://[^\s"'<>()\[\]`\\]+|[A-Za-z]:[\\/][\w@.+\\/-]+|[\w@~.+-]*(?:/[\w@.+-]+)+|[A-Za-z0-9_$]+"#
);
rule!(FOUND, r"^([\w@./\\:+-]*[\w-]\.\w{1,10})[:-](\d+)[:-]");
rule!(READS, r"^\s*(?:cd \S+ && )?(?:cat|sed|head|tail|nl|bat|less|type|Get-Content|gc)\b");

/// Paths, identifiers and numbers of eight characters or more that are not plain words, and hashes.
pub fn names(text: &str, story: &Story) -> Vec<String> {
    let found = NAME.find_iter(text).filter_map(|m| {
        let word = m.as_str().trim_matches(['.', '-', '+', '~', '@', ',', ':']);
        if word.contains("://") {
            return Some(word.trim_end_matches('/').to_owned());
        }
        if word.contains('/') || word.contains(":\\") {
            let path = story.relative(word);
            let file = path.rsplit('/').next().unwrap_or_default();
            let is_path = file.trim_matches('.').contains('.') || path.matches('/').count() > 1;
            return (is_path && path.len() >= 8).then_some(path);
        }
        (is_hash(word) || (word.len() >= 8 && !is_plain(word))).then(|| word.to_owned())
    });
    found.collect()
}

fn is_hash(word: &str) -> bool {
    (7..=40).contains(&word.len())
        && word.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        && word.bytes().any(|b| b.is_ascii_digit())
        && word.bytes().any(|b| b.is_ascii_lowercase())
}

/// Letters only, in the case of a word of prose.
fn is_plain(word: &str) -> bool {
    let letters = word.bytes().all(|b| b.is_ascii_alphabetic());
    let tail = word.bytes().skip(1).all(|b| b.is_ascii_lowercase());
    letters && (tail || word.bytes().all(|b| b.is_ascii_uppercase()))
}

pub fn of(story: &Story, cut: &Cut) -> Needed {
    let mut before: HashMap<String, Option<String>> = HashMap::new();
    let mut calls: HashMap<&str, &Call> = HashMap::new();
    for event in &story.events[..cut.at] {
        let mut note = |text: &str, file: Option<&str>| {
            for name in names(text, story) {
                let last = before.entry(name).or_default();
                if let Some(file) = file {
                    *last = Some(story.relative(file));
                }
            }
        };
        match &event.what {
            What::Said(text) | What::Reply(text) => note(text, None),
            What::Call(call) => {
                calls.insert(&call.id, call);
                note(&call.text, None);
                for (file, text) in changed_texts(call) {
                    note(&text, Some(&file));
                }
            }
            What::Result(outcome) => {
                note(&outcome.text, None);
                if let Some(call) = calls.get(outcome.id.as_str()).filter(|_| !outcome.failed) {
                    for (file, text) in shown_texts(call, &outcome.text) {
                        note(&text, Some(&file));
                    }
                }
            }
            What::Ended(_) | What::Boundary(_) => {}
        }
    }
    let mut shown = HashSet::new();
    let mut used = HashSet::new();
    let mut needed = Vec::new();
    let mut acts = 0;
    for event in &story.events[cut.at..] {
        match &event.what {
            What::Call(Call { text, .. }) | What::Reply(text) => {
                acts += 1;
                if acts > ACTS {
                    break;
                }
                for name in names(text, story) {
                    let first = used.insert(name.clone());
                    if let Some(file) = before.get(&name).filter(|_| first && !shown.contains(&name)) {
                        needed.push(Need { file: file.clone(), name });
                    }
                }
            }
            What::Said(text) => shown.extend(names(text, story)),
            What::Result(outcome) => shown.extend(names(&outcome.text, story)),
            What::Boundary(_) if acts > 0 => break,
            What::Ended(_) | What::Boundary(_) => {}
        }
    }
    Needed { names: needed, used }
}

fn base(path: &str) -> String {
    path.rsplit(['/', '\\']).next().unwrap_or(path).to_owned()
}

/// The texts that a call writes, by file.
fn changed_texts(call: &Call) -> Vec<(String, String)> {
    if let [(path, _)] = call.changes.as_slice() {
        return vec![(path.clone(), call.text.clone())];
    }
    // A patch names its files one after the other.
    let mut texts: Vec<(String, String)> = Vec::new();
    for line in call.text.lines() {
        if let Some((_, path)) = line.strip_prefix("*** ").and_then(|l| l.split_once(" File: ")) {
            texts.push((path.trim().to_owned(), String::new()));
        } else if let Some((_, text)) = texts.last_mut() {
            text.push_str(line);
            text.push('\n');
        }
    }
    texts
}

/// The texts that a result shows, by file: for a read the whole, for a search each line that names its file.
fn shown_texts(call: &Call, output: &str) -> Vec<(String, String)> {
    let path = call.input["file_path"].as_str().filter(|_| call.tool == "Read");
    if let Some(path) = path {
        return vec![(path.to_owned(), output.to_owned())];
    }
    if let [command] = call.commands.as_slice()
        && READS.is_match(command)
    {
        let files: Vec<&str> = command
            .split_whitespace()
            .map(|word| word.trim_matches(['"', '\'', ';', ')']))
            .filter(|word| !word.starts_with('-') && base(word).trim_matches('.').contains('.'))
            .collect();
        if let [file] = files.as_slice() {
            return vec![((*file).to_owned(), output.to_owned())];
        }
    }
    let lines = output.lines().filter_map(|line| {
        let found = FOUND.captures(line)?;
        Some((found[1].to_owned(), line[found.get(0)?.end()..].to_owned()))
    });
    lines.collect()
}

/// Names before the cut, latest first, without duplicates.
pub fn recent_names(story: &Story, cut: &Cut) -> Vec<String> {
    let mut seen = HashSet::new();
    let mut out = Vec::new();
    for event in story.events[..cut.at].iter().rev() {
        let text = match &event.what {
            What::Said(text) | What::Reply(text) => text,
            What::Call(call) => &call.text,
            What::Result(outcome) => &outcome.text,
            What::Ended(_) | What::Boundary(_) => continue,
        };
        for name in names(text, story).into_iter().rev() {
            if seen.insert(name.clone()) {
                out.push(name);
            }
        }
    }
    out
}

/// Shares, summed over the needed names and averaged over the cuts.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    pub cuts: usize,
    pub needed: usize,
    pub named: usize,
    pub placeable: usize,
    pub placed: usize,
    named_shares: f64,
    placed_shares: f64,
    placed_cuts: usize,
    /// Names of the working set: all, and those used next.
    pub listed: usize,
    pub hits: usize,
}

impl Tally {
    /// Returns what is not named, and as `name@file` what is named but not near its file.
    pub fn add(&mut self, text: &str, needed: &Needed) -> Vec<String> {
        if needed.names.is_empty() {
            return Vec::new();
        }
        let mut missed = Vec::new();
        let (mut named, mut placeable, mut placed) = (0, 0, 0);
        for need in &needed.names {
            let spots: Vec<usize> = text.match_indices(&need.name).map(|(i, _)| i).collect();
            if spots.is_empty() {
                missed.push(need.name.clone());
            } else {
                named += 1;
            }
            let Some(file) = need.file.as_deref().filter(|_| !need.name.contains('/')) else { continue };
            placeable += 1;
            let near = text.match_indices(file).any(|(at, _)| {
                spots.iter().any(|&place| {
                    let (from, to) = (at.min(place), at.max(place));
                    text[from..to].chars().take(NEAR + 1).count() <= NEAR
                })
            });
            placed += usize::from(near);
            if !near && !spots.is_empty() {
                missed.push(format!("{}@{file}", need.name));
            }
        }
        self.cuts += 1;
        self.needed += needed.names.len();
        self.named += named;
        self.named_shares += share(named, needed.names.len());
        self.placeable += placeable;
        self.placed += placed;
        if placeable > 0 {
            self.placed_cuts += 1;
            self.placed_shares += share(placed, placeable);
        }
        missed
    }

    /// Counts how many of `listed` the agent uses next.
    pub fn precision(&mut self, listed: &[String], needed: &Needed) {
        self.listed += listed.len();
        self.hits += listed.iter().filter(|name| needed.used.contains(*name)).count();
    }

    /// Over all needed names, and the mean over the cuts.
    pub fn named(&self) -> (f64, f64) {
        (share(self.named, self.needed), self.named_shares / self.cuts.max(1) as f64)
    }

    pub fn placed(&self) -> (f64, f64) {
        (share(self.placed, self.placeable), self.placed_shares / self.placed_cuts.max(1) as f64)
    }
}

fn share(part: usize, whole: usize) -> f64 {
    part as f64 / whole.max(1) as f64
}
