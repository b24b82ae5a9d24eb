//! The names in play: those that the agent used and saw most recently, and their files.
//!
//! A name that the agent itself writes is far more likely to be needed next than one that only appeared in an output,
//! and one of a few names in a short output more than one of a thousand in a long one. Both fade with every further
//! act.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::files::{Files, found_line, relative, spot};
use super::names::{Find, holds_secrets, scan};
use super::text;
use crate::transcript::outline::definition;

/// Names are kept up to this number; beyond it the least likely are forgotten.
const KEPT: usize = 3_000;
const FULL: usize = 4_500;
/// Acts after which a use counts half: the recent work, and the task behind it.
const FAST: f32 = 15.0;
const SLOW: f32 = 150.0;
/// How much the long memory counts beside the short one.
const SLOW_SHARE: f32 = 0.3;
/// How much the length of a name counts against it, as a power: for one long name several short ones are left out.
const ROOM: f32 = 0.7;
/// How many lines of searches are kept until the agent uses what they show.
const HITS: usize = 160;
const HIT_CHARS: usize = 140;
/// Lines without a file that are remembered for the names in them, all and of one text, and how long each may be.
const LINES: usize = 400;
const LINES_OF_TEXT: usize = 40;
const LINE_CHARS: usize = 180;
/// A text beyond this is a dump; its beginning is enough.
const LONGEST: usize = 256 << 10;

/// Who wrote a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    Agent,
    User,
    Tool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Name {
    pub text: String,
    fast: f32,
    slow: f32,
    /// The act of its last use.
    act: u32,
    /// The agent itself has used it.
    pub own: bool,
    /// The file and line where it last appeared; line 0 if unknown.
    pub place: Option<(u32, u32)>,
    hit: Option<u32>,
}

impl Name {
    fn new(text: &str, act: u32) -> Self {
        Self { text: text.to_owned(), fast: 0.0, slow: 0.0, act, own: false, place: None, hit: None }
    }

    /// How likely it is to be needed after `act`.
    pub(crate) fn weight(&self, act: u32) -> f32 {
        let age = act.saturating_sub(self.act) as f32;
        self.fast * (-age / FAST).exp2() + SLOW_SHARE * self.slow * (-age / SLOW).exp2()
    }

    fn add(&mut self, weight: f32, act: u32) {
        let age = act.saturating_sub(self.act) as f32;
        self.fast = self.fast * (-age / FAST).exp2() + weight;
        self.slow = self.slow * (-age / SLOW).exp2() + weight;
        self.act = act;
    }
}

/// A line that a search showed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchedLine {
    id: u32,
    pub file: u32,
    pub line: u32,
    pub text: String,
    /// The agent has used a name in it since.
    pub used: bool,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(from = "Stored", into = "Stored")]
pub struct Working {
    /// Calls and texts of the agent so far: the clock of this module.
    pub act: u32,
    names: HashMap<String, Name>,
    pub hits: VecDeque<SearchedLine>,
    next_hit: u32,
    /// Lines of outputs and calls that belong to no file and hold names, the newest at the end.
    pub lines: VecDeque<String>,
}

/// Lists are stored sorted, so that the same facts give the same bytes.
#[derive(Serialize, Deserialize)]
struct Stored {
    act: u32,
    names: Vec<StoredName>,
    hits: VecDeque<SearchedLine>,
    next_hit: u32,
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    lines: VecDeque<String>,
}

/// There are many, so they are stored without the names of their fields: text, weights, last act, own, place, hit.
type StoredName = (String, f32, f32, u32, bool, Option<(u32, u32)>, Option<u32>);

impl From<Stored> for Working {
    fn from(it: Stored) -> Self {
        let name = |(text, fast, slow, act, own, place, hit): StoredName| {
            (text.clone(), Name { text, fast, slow, act, own, place, hit })
        };
        let names = it.names.into_iter().map(name).collect();
        Self { act: it.act, names, hits: it.hits, next_hit: it.next_hit, lines: it.lines }
    }
}

impl From<Working> for Stored {
    fn from(it: Working) -> Self {
        // A thousandth more or less changes no order that matters, and takes half the room.
        let short = |weight: f32| (weight * 1e3).round() / 1e3;
        let name = |it: Name| (it.text, short(it.fast), short(it.slow), it.act, it.own, it.place, it.hit);
        let mut names: Vec<StoredName> = it.names.into_values().map(name).collect();
        names.sort_by(|a, b| a.0.cmp(&b.0));
        Self { act: it.act, names, hits: it.hits, next_hit: it.next_hit, lines: it.lines }
    }
}

/// A name in a text, its place, and the finding it is part of.
type NamedLines<'t> = (Cow<'t, str>, Option<(u32, u32)>, Option<u32>);

/// The place of a text, as far as known.
#[derive(Debug, Clone, Copy)]
pub(super) struct Position<'a> {
    /// All of it is text of this file.
    pub file: Option<u32>,
    /// Each line says where it comes from: `path:line:`, or a number before a tab.
    pub numbered: bool,
    pub root: Option<&'a str>,
}

impl Position<'_> {
    pub(super) const NOWHERE: Position<'static> = Position { file: None, numbered: false, root: None };
}

/// What the earlier lines of a text say about the next one.
#[derive(Default)]
struct Lines {
    /// The path that was looked up last.
    file: Option<(String, Option<u32>)>,
    /// The file and line whose text is being shown, and whether it is one line without a mark, as in a traceback.
    shown: Option<(u32, u32, bool)>,
}

impl Lines {
    /// The number of a line that a compiler shows below the place it named: `12 |     load_state();`.
    fn shown_at<'l>(&mut self, line: &'l str) -> (Option<(u32, u32)>, &'l str) {
        let Some((file, number, bare)) = self.shown else { return (None, line) };
        if bare {
            self.shown = None;
            return (line.starts_with("    ").then_some((file, number)), line);
        }
        let trimmed = line.trim_start();
        let digits = trimmed.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = trimmed.split_at(digits);
        let rest = rest.trim_start_matches(' ');
        match rest.strip_prefix(['|', '\u{2502}']) {
            Some(text) => (Some((file, number.parse().unwrap_or(0))), text),
            None if rest.starts_with("= ") || rest.is_empty() => (Some((file, 0)), line),
            None => {
                self.shown = None;
                (None, line)
            }
        }
    }
}

impl Working {
    /// Takes in the names of a text.
    pub(super) fn take(&mut self, text: &str, by: By, place: &Position<'_>, files: &mut Files) {
        let text = text::floor(text, LONGEST);
        let mut found: Vec<NamedLines<'_>> = Vec::new();
        let mut lines = Lines::default();
        let mut loose: VecDeque<&str> = VecDeque::new();
        for line in text.split('\n') {
            let (at, rest) =
                if place.numbered { self.locate(line, place, files, &mut lines) } else { (None, line) };
            let at = at.or_else(|| place.file.map(|file| (file, 0)));
            let mut hit = None;
            if let Some((file, number)) = at
                && by == By::Tool
            {
                if let Some(name) = definition(rest) {
                    files.defined(file, number, name, rest);
                }
                if place.file.is_none() && number > 0 {
                    hit = self.hit(file, number, rest);
                }
            }
            let before = found.len();
            let mut first = None;
            scan(rest, |find| {
                let (Find::Word(name) | Find::Url(name) | Find::Path(name)) = find;
                first.get_or_insert(name.as_ptr() as usize - rest.as_ptr() as usize);
                let is_path = matches!(find, Find::Path(_));
                let name = if is_path { relative(name, place.root) } else { Cow::Borrowed(name) };
                found.push((name, at, hit));
            });
            if let Some(first) = first.filter(|_| at.is_none() && by != By::User) {
                loose.push_back(around(rest, first));
                if loose.len() > LINES_OF_TEXT {
                    loose.pop_front();
                }
            }
            // Do not keep a line without names as a finding.
            if hit.is_some() && found.len() == before {
                self.hits.pop_back();
            }
        }
        self.remember(loose);
        let mut distinct = std::collections::HashSet::with_capacity(found.len());
        let mut order: Vec<usize> = Vec::with_capacity(found.len());
        // The last place counts.
        for (i, (name, ..)) in found.iter().enumerate().rev() {
            if distinct.insert(name.as_ref()) {
                order.push(i);
            }
        }
        let many = distinct.len().max(1) as f32;
        let weight = match by {
            By::Agent => 1.0,
            By::User => 1.5,
            By::Tool => 0.7 / many.powf(0.6),
        };
        for i in order {
            let (text, at, hit) = &found[i];
            let (act, own) = (self.act, by == By::Agent);
            if !self.names.contains_key(text.as_ref()) {
                self.names.insert(text.as_ref().to_owned(), Name::new(text, act));
            }
            let Some(name) = self.names.get_mut(text.as_ref()) else { continue };
            name.add(weight, act);
            name.own |= own;
            if at.is_some() {
                // A place without its line is worth less than the same file with it.
                let same = name.place.is_some_and(|(file, _)| at.is_some_and(|(f, n)| f == file && n == 0));
                if !same {
                    name.place = *at;
                }
            }
            name.hit = hit.or(name.hit);
            if own && let Some(id) = name.hit {
                let used = self.hits.iter_mut().rev().find(|hit| hit.id == id);
                if let Some(hit) = used {
                    hit.used = true;
                }
            }
        }
        if self.names.len() > FULL {
            self.forget(KEPT);
        }
    }

    /// Keeps lines for the names in them; a known line becomes the newest again.
    fn remember(&mut self, lines: VecDeque<&str>) {
        for line in lines {
            if self.lines.iter().rev().take(LINES_OF_TEXT).any(|known| known == line) {
                continue;
            }
            self.lines.push_back(line.to_owned());
        }
        let old = self.lines.len().saturating_sub(LINES);
        self.lines.drain(..old);
    }

    /// Where a line of an output comes from, and the rest of it.
    fn locate<'l>(
        &self,
        line: &'l str,
        place: &Position<'_>,
        files: &mut Files,
        lines: &mut Lines,
    ) -> (Option<(u32, u32)>, &'l str) {
        // `   12→text`, `12\ttext`: a numbered file; `12:text`: a search in one file.
        let trimmed = line.trim_start();
        let digits = trimmed.bytes().take_while(u8::is_ascii_digit).count();
        if (1..=7).contains(&digits)
            && let Some(file) = place.file
        {
            let rest = &trimmed[digits..];
            let marks = ['→', '\t', ':', '-'];
            if let Some(text) = rest.strip_prefix(marks).or_else(|| rest.strip_prefix("  "))
                && let Ok(number) = trimmed[..digits].parse()
            {
                return (Some((file, number)), text);
            }
        }
        if place.file.is_some() {
            return (None, line);
        }
        let Some((path, number, rest)) = found_line(line) else {
            if let Some((path, number)) = spot(line) {
                let file = self.file_of(path, number, place, files, lines);
                lines.shown = file.map(|file| (file, number, line.trim_start().starts_with("File")));
                return (file.map(|file| (file, 0)), line);
            }
            return lines.shown_at(line);
        };
        lines.shown = None;
        // The text of a file with secrets is never carried.
        if holds_secrets(path) {
            return (None, "");
        }
        let file = self.file_of(path, number, place, files, lines);
        (file.map(|file| (file, number)), rest)
    }

    /// The file that an output calls `path`. With a line number it counts as a file, known or not.
    fn file_of(
        &self,
        path: &str,
        number: u32,
        place: &Position<'_>,
        files: &mut Files,
        lines: &mut Lines,
    ) -> Option<u32> {
        if let Some((_, file)) = lines.file.as_ref().filter(|(known, _)| known == path) {
            return *file;
        }
        let name = relative(path, place.root);
        let file = if holds_secrets(path) {
            None
        } else if number > 0 && name.len() <= 200 {
            Some(files.mentioned(&name, self.act))
        } else {
            files.find(&name)
        };
        lines.file = Some((path.to_owned(), file));
        file
    }

    fn hit(&mut self, file: u32, line: u32, text: &str) -> Option<u32> {
        let text = text.trim();
        if text.is_empty() || !text::fits(text, HIT_CHARS) {
            return None;
        }
        self.next_hit += 1;
        let hit = SearchedLine { id: self.next_hit, file, line, text: text.to_owned(), used: false };
        self.hits.push_back(hit);
        if self.hits.len() > HITS {
            // A line that the agent used is a finding; one that it ignored is not.
            let old = self.hits.iter().position(|hit| !hit.used).unwrap_or(0);
            self.hits.remove(old);
        }
        Some(self.next_hit)
    }

    /// Keeps the `count` most likely names.
    pub(super) fn forget(&mut self, count: usize) {
        let act = self.act;
        let mut names: Vec<Name> = std::mem::take(&mut self.names).into_values().collect();
        sort(&mut names, act);
        names.truncate(count);
        self.names = names.into_iter().map(|name| (name.text.clone(), name)).collect();
    }

    /// All names, the most likely ones for their size first.
    pub fn names(&self) -> Vec<&Name> {
        let act = self.act;
        let worth = |name: &Name| name.weight(act) / (name.text.len() as f32 + 1.0).powf(ROOM);
        let mut names: Vec<(f32, &Name)> = self.names.values().map(|name| (worth(name), name)).collect();
        names.sort_by(|(a, x), (b, y)| b.total_cmp(a).then_with(|| x.text.cmp(&y.text)));
        names.into_iter().map(|(_, name)| name).collect()
    }

    /// Findings in `file`: lines of searches whose names the agent then used, the newest first.
    pub(crate) fn findings(&self, file: u32) -> impl Iterator<Item = &SearchedLine> {
        self.hits.iter().rev().filter(move |hit| hit.file == file && hit.used)
    }

    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

/// A short line whole; from a long one the text around `at`.
fn around(line: &str, at: usize) -> &str {
    let trimmed = line.trim();
    if text::fits(trimmed, LINE_CHARS) {
        return trimmed;
    }
    let from = line[..at].char_indices().rev().take(LINE_CHARS / 4).last().map_or(at, |(i, _)| i);
    text::floor_char(&line[from..], LINE_CHARS).trim()
}

/// Every name in a line that the working set kept, as it is written there.
pub(crate) fn names_of(line: &str, root: Option<&str>, mut found: impl FnMut(&str)) {
    scan(line, |find| match find {
        Find::Word(name) | Find::Url(name) => found(name),
        Find::Path(path) => found(&relative(path, root)),
    });
}

fn sort(names: &mut [Name], act: u32) {
    names.sort_by(|a, b| b.weight(act).total_cmp(&a.weight(act)).then_with(|| a.text.cmp(&b.text)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::{Origin, Touch};

    fn known(path: &str) -> (Files, u32) {
        let mut files = Files::default();
        let id = files.touch(Touch::Read, path, 0, &Origin::default());
        (files, id)
    }

    fn order(working: &Working) -> Vec<&str> {
        working.names().into_iter().map(|name| name.text.as_str()).collect()
    }

    #[test]
    fn what_the_agent_uses_counts_more_than_what_it_was_shown() {
        let (mut files, _) = known("a.rs");
        let mut working = Working::default();
        working.take("shown_name other_name third_name", By::Tool, &Position::NOWHERE, &mut files);
        working.act = 30;
        working.take("I will use third_name.", By::Agent, &Position::NOWHERE, &mut files);
        assert_eq!(order(&working)[0], "third_name");
        working.act = 400;
        working.take("late_shown", By::Tool, &Position::NOWHERE, &mut files);
        assert_eq!(order(&working)[0], "late_shown", "what was used long ago fades");
    }

    #[test]
    fn a_name_knows_its_file_and_line() {
        let (mut files, id) = known("src/a.rs");
        let mut working = Working::default();
        let read = Position { file: Some(id), numbered: true, root: None };
        working.take("    41→fn load_state() {\n    42→    read_config();", By::Tool, &read, &mut files);
        let find =
            |working: &Working, text: &str| working.names().into_iter().find(|n| n.text == text).cloned();
        assert_eq!(find(&working, "read_config").unwrap().place, Some((id, 42)));
        assert_eq!(files.files[0].outline[0].name, "load_state");
        let search = Position { file: None, numbered: true, root: Some("/p") };
        working.take("/p/src/a.rs:7:use crate::save_state;", By::Tool, &search, &mut files);
        assert_eq!(find(&working, "save_state").unwrap().place, Some((id, 7)));
        assert_eq!(working.findings(id).count(), 0, "nobody used it yet");
        working.take("save_state is what I need", By::Agent, &Position::NOWHERE, &mut files);
        let hit = working.findings(id).next().unwrap();
        assert_eq!((hit.line, hit.text.as_str()), (7, "use crate::save_state;"));
    }

    #[test]
    fn lines_shown_by_a_compiler_belong_to_the_place_that_it_names() {
        let (mut files, id) = known("src/a.rs");
        let mut working = Working::default();
        let place = Position { file: None, numbered: true, root: Some(r"C:\app") };
        let rustc = "error[E0425]: cannot find function\n  --> src/a.rs:12:5\n   |\n12 |     load_state(x);\n   \
            |     ^^^^^^^^^^ help: use `save_state`\n   = note: see first_note\n\nwarning: other_thing";
        let traceback = "Traceback (most recent call last):\n  File \"C:\\app\\lib\\b.py\", line 7, in run_all\n    \
            read_config(path)\nKeyError: missing_key_name";
        let tsc = "web/c.ts(3,9): error TS2304: Cannot find name 'useThing'.";
        let vitest = " \u{276f} web/c.test.ts:5:1\n      4| const x = 1;\n      5| callThing(x);";
        for text in [rustc, traceback, tsc, vitest] {
            working.take(text, By::Tool, &place, &mut files);
        }
        let at = |name: &str| working.names().into_iter().find(|n| n.text == name).and_then(|n| n.place);
        assert_eq!(at("load_state"), Some((id, 12)));
        assert_eq!(at("save_state"), Some((id, 0)));
        assert_eq!(at("other_thing"), None);
        let file =
            |path: &str| files.files.iter().find(|file| file.path == path).map(|file| file.id).unwrap();
        assert_eq!(at("read_config"), Some((file("lib/b.py"), 7)));
        assert_eq!(at("missing_key_name"), None);
        assert_eq!(at("useThing"), Some((file("web/c.ts"), 3)));
        assert_eq!(at("callThing"), Some((file("web/c.test.ts"), 5)));
    }

    #[test]
    fn a_name_without_a_file_is_remembered_with_its_line() {
        let (mut files, id) = known("src/a.rs");
        let mut working = Working::default();
        let search = Position { file: None, numbered: true, root: None };
        working.take(
            "ok\nremote: see branch fix_login_flow\nsrc/a.rs:7:load_state()",
            By::Tool,
            &search,
            &mut files,
        );
        assert_eq!(
            working.lines,
            ["remote: see branch fix_login_flow"],
            "not what has a file, not what has no name"
        );
        let read = Position { file: Some(id), ..search };
        working.take("other_name stands here", By::Tool, &read, &mut files);
        working.take("fix_login_flow, please", By::User, &search, &mut files);
        assert_eq!(working.lines.len(), 1, "what the user says is kept elsewhere");
        let long = format!("{} some_name {}", "x ".repeat(300), "y ".repeat(300));
        working.take(&long, By::Tool, &search, &mut files);
        let kept = working.lines.back().unwrap();
        assert!(kept.contains("some_name") && kept.chars().count() <= LINE_CHARS, "{kept}");
    }

    #[test]
    fn a_line_of_a_secrets_file_is_not_kept() {
        let (mut files, _) = known("src/a.rs");
        let mut working = Working::default();
        let search = Position { file: None, numbered: true, root: None };
        working.take("config/.env.local:3:SMTP_LOGIN=hunter_two_three", By::Tool, &search, &mut files);
        assert!(working.lines.is_empty() && working.is_empty(), "{:?}", working.names());
    }

    #[test]
    fn a_store_gives_back_what_it_took() {
        let (mut files, _) = known("a.rs");
        let mut working = Working::default();
        working.take("one_name two_names", By::Agent, &Position::NOWHERE, &mut files);
        let text = serde_json::to_string(&working).unwrap();
        let back: Working = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&back).unwrap(), text);
        assert_eq!(order(&back), order(&working));
    }
}
