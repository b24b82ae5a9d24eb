//! Into a budget by value: what the next turn needs most goes in first, what does not fit is counted, and the way
//! to the whole is always there. Same input, same bytes.

use std::collections::HashSet;

use super::entries::{Entries, Entry, FileLine, NEAR, Said, Section, code, entries, fold_lines};
use super::render::FACTS;
use super::verify;
use crate::ledger::Ledger;
use crate::ledger::text::clip;
use crate::transcript::Origin;

/// A document that fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packed {
    pub text: String,
    /// What was left out, by section: title and number of entries.
    pub dropped: Vec<(String, usize)>,
}

/// Characters for a budget of tokens: four to a token, the rule of thumb for English and code.
pub fn chars_for_tokens(tokens: usize) -> usize {
    tokens.saturating_mul(4)
}

/// The ledger (behind the narrative, if there is one) in at most `budget` characters. `pointer` says where the
/// whole is: a path or a command.
pub fn pack(ledger: &Ledger, narrative: Option<&str>, budget: usize, pointer: &str) -> Packed {
    let narrative = narrative.map(str::trim).filter(|n| !n.is_empty());
    let Some(narrative) = narrative else { return pack_facts(ledger, budget, pointer) };
    let marked = verify::mark(narrative, ledger);
    let glue = chars(FACTS) + 4;
    // The agent's own words may take half, and whatever the facts leave of theirs; then the facts get what is left.
    let least = pack_facts(ledger, budget.saturating_sub(budget / 2 + glue), pointer);
    let own = pack_document(&marked, budget.saturating_sub(chars(&least.text) + glue), pointer);
    let room = budget.saturating_sub(chars(&own.text) + glue);
    let more = pack_facts(ledger, room, pointer);
    let left_out = |packed: &Packed| packed.dropped.iter().map(|(_, n)| n).sum::<usize>();
    let is_enough = chars(&least.text) <= room && left_out(&least) <= left_out(&more);
    let facts = if is_enough { least } else { more };
    let text = format!("{}\n\n{FACTS}\n\n{}", own.text, facts.text);
    if chars(&text) > budget {
        return pack_facts(ledger, budget, pointer);
    }
    Packed { text, dropped: own.dropped.into_iter().chain(facts.dropped).collect() }
}

fn pack_facts(ledger: &Ledger, budget: usize, pointer: &str) -> Packed {
    let entries = entries(ledger, budget);
    // Every section might have to confess what it left out, so that line is paid for before anything else.
    let whole = footer(&[], pointer);
    let worst = footer(&counts(&entries, &Choice::nothing(&entries)), pointer);
    let room = budget.saturating_sub(chars(&worst).min(chars(&whole) + 440) + 2);
    let mut packer = Packer::new(&entries, room, budget);
    packer.fill();
    // Costs are estimated on the safe side: what they left free is filled while something is left out.
    for _ in 0..REFILLS {
        let dropped = counts(&entries, &packer.choice);
        let size = chars(&join(&assemble(&entries, &packer.choice), &footer(&dropped, pointer)));
        let free = budget.saturating_sub(size);
        if dropped.is_empty() || free < SPARE * 2 {
            break;
        }
        packer.room = packer.used + free - SPARE;
        packer.refill();
    }
    let mut choice = packer.choice;
    loop {
        let dropped = counts(&entries, &choice);
        let text = join(&assemble(&entries, &choice), &footer(&dropped, pointer));
        if chars(&text) <= budget {
            return Packed { text, dropped };
        }
        // The estimate was short of some characters; only a budget that does not hold the footer gives up all.
        if !choice.shorten(chars(&text) - budget, &entries) {
            let dropped = counts(&entries, &Choice::nothing(&entries));
            return Packed { text: first_chars(&whole, budget).to_owned(), dropped };
        }
    }
}

/// How often free room is given out again, and the characters that it leaves for what an estimate lacks.
const REFILLS: usize = 4;
const SPARE: usize = 24;

/// From this value on an entry is needed rather than useful: as many of these as possible go in, in their shortest
/// form, before any of them is given at length.
const NEEDED: i32 = 600;

/// The characters that names are given before anything is told at length. A small document is for the facts; in a large
/// one the names in play fit beside them. It grows with the budget and never jumps.
fn names_room(budget: usize) -> usize {
    const POINTS: [(usize, usize); 5] =
        [(0, 0), (4_000, 100), (7_000, 2_800), (12_000, 4_800), (16_000, 5_200)];
    for pair in POINTS.windows(2) {
        let [(from, low), (to, high)] = [pair[0], pair[1]];
        if budget < to {
            return low + (high - low) * (budget - from) / (to - from);
        }
    }
    // 30 % of what is beyond.
    5_200 + (budget - 16_000) * 3 / 10
}

/// Names without a file may take this part of the budget, in percent.
const LOOSE_SHARE: usize = 15;

/// What goes into a document.
#[derive(Debug, Clone)]
pub(super) struct Choice {
    /// For each entry the form that is shown.
    pub entries: Vec<Option<usize>>,
    /// For each file the form of its line.
    pub files: Vec<Option<usize>>,
    /// Which names are shown.
    pub names: Vec<bool>,
    /// Which lines are shown for the names in them.
    pub lines: Vec<bool>,
    /// Names in the order in which they were chosen, the least likely last.
    order: Vec<usize>,
    /// Which names come with the line where they stand.
    numbered: Vec<bool>,
    /// Entries whose words another one shows: not chosen, and not left out either.
    repeated: HashSet<usize>,
}

impl Choice {
    fn nothing(entries: &Entries) -> Self {
        Self {
            entries: vec![None; entries.list.len()],
            files: vec![None; entries.map.files.len()],
            names: vec![false; entries.map.names.len()],
            lines: vec![false; entries.map.lines.len()],
            order: Vec::new(),
            numbered: vec![false; entries.map.names.len()],
            repeated: HashSet::new(),
        }
    }

    /// Everything at full length.
    pub(super) fn everything(entries: &Entries) -> Self {
        let mut choice = Self::nothing(entries);
        choice.entries.fill(Some(0));
        choice.drop_repeated(entries);
        choice.numbered.fill(true);
        for (i, file) in entries.map.files.iter().enumerate() {
            choice.files[i] = (file.value > 0).then_some(0);
        }
        let mut loose = 0;
        for (i, name) in entries.map.names.iter().enumerate() {
            let shown = name.file.map_or(loose < 120, |file| choice.files[file].is_some());
            loose += usize::from(shown && name.file.is_none());
            choice.names[i] = shown;
        }
        choice
    }

    /// Takes out entries whose words another one shows in full; returns how many characters that saves.
    fn drop_repeated(&mut self, entries: &Entries) -> usize {
        let list = &entries.list;
        let chosen = self.entries.iter().enumerate();
        let shown: Vec<(usize, &Said, String)> = chosen
            .filter_map(|(i, form)| Some((i, list[i].said.as_ref()?, fold_lines(&list[i].forms[(*form)?]))))
            .collect();
        let mut saved = 0;
        for (i, said, text) in &shown {
            // Of two that say the same the first stays.
            let elsewhere = |(j, other, form): &(usize, &Said, String)| {
                j != i
                    && self.entries[*j].is_some()
                    && said.is_in(form, &other.origin)
                    && (list[*j].section < list[*i].section
                        || form.len() > text.len()
                        || (form.len() == text.len() && j < i))
            };
            if shown.iter().any(elsewhere) {
                self.entries[*i] = None;
                self.repeated.insert(*i);
                saved += chars(text) + 1;
            }
        }
        saved
    }

    /// Takes out what is worth least until about `over` characters are gone. `false` when nothing is left.
    fn shorten(&mut self, over: usize, entries: &Entries) -> bool {
        let mut gone = 0;
        while gone <= over {
            if let Some(line) = self.lines.iter().rposition(|shown| *shown) {
                self.lines[line] = false;
                gone += chars(&entries.map.lines[line]) + 1;
                continue;
            }
            if let Some(name) = self.order.pop() {
                self.names[name] = false;
                self.numbered[name] = false;
                gone += chars(&entries.map.names[name].text) + 1;
                continue;
            }
            let chosen = (0..self.entries.len()).filter(|&i| self.entries[i].is_some());
            let Some(least) = chosen.min_by_key(|&i| entries.list[i].value) else {
                let files: Vec<usize> = (0..self.files.len()).filter(|&i| self.files[i].is_some()).collect();
                let Some(&last) = files.last() else { return gone > 0 };
                gone += chars(&entries.map.files[last].heads[0]);
                self.files[last] = None;
                continue;
            };
            gone += self.entries[least].map_or(0, |form| chars(&entries.list[least].forms[form]));
            self.entries[least] = None;
        }
        true
    }
}

struct Packer<'e> {
    entries: &'e Entries,
    budget: usize,
    room: usize,
    used: usize,
    loose: usize,
    headed: HashSet<Section>,
    contexts: HashSet<u32>,
    /// Characters of names behind each file's line, and how many lines it has.
    widths: Vec<usize>,
    /// Words that are shown already, in folded lines, and the records that they come from.
    shown: Vec<(&'e Origin, String)>,
    choice: Choice,
}

/// `## `, a count like ` (12 of 345)` and the blank lines around a heading.
const HEADING: usize = 20;

impl<'e> Packer<'e> {
    fn new(entries: &'e Entries, room: usize, budget: usize) -> Self {
        let widths = vec![0; entries.map.files.len()];
        Self {
            entries,
            budget,
            room,
            used: 0,
            loose: 0,
            headed: HashSet::new(),
            contexts: HashSet::new(),
            widths,
            shown: Vec::new(),
            choice: Choice::nothing(entries),
        }
    }

    fn fill(&mut self) {
        let names = self.names_size().min(names_room(self.budget));
        let order = self.order();
        let (needed, useful): (Vec<What>, Vec<What>) = order
            .into_iter()
            .filter(|what| self.value(*what) > 1)
            .partition(|what| self.value(*what) >= NEEDED);
        // What is needed, in its shortest form, beside the names' part.
        let all = self.room;
        self.room = all.saturating_sub(names);
        for what in &needed {
            self.shortest(*what);
        }
        self.room = all;
        let free = all.saturating_sub(self.used);
        self.take_names(names.max(free * 55 / 100));
        // What did not fit beside the names may fit now; then the rest at length.
        for what in &needed {
            self.shortest(*what);
        }
        for what in &needed {
            self.lengthen(*what);
        }
        self.drop_repeated();
        for what in &useful {
            self.longest(*what);
        }
        self.rest();
    }

    /// Once more over everything that is not shown yet.
    fn refill(&mut self) {
        let order = self.order();
        let worth = |it: &Self, least: i32| -> Vec<What> {
            order.iter().copied().filter(|what| it.value(*what) >= least).collect()
        };
        for what in worth(self, NEEDED) {
            self.shortest(what);
        }
        for what in worth(self, NEEDED) {
            self.lengthen(what);
        }
        for what in worth(self, 1) {
            self.longest(what);
        }
        self.rest();
    }

    /// What any room that is left is good for.
    fn rest(&mut self) {
        self.take_names(usize::MAX);
        self.number_names();
        // A file that is shown for its names may say more about itself.
        for what in self.order() {
            self.lengthen(what);
        }
        self.take_lines();
    }

    /// Where a name stands in its file is worth its digits when there is room.
    fn number_names(&mut self) {
        for (i, name) in self.entries.map.names.iter().enumerate() {
            let Some(file) = name.file.filter(|_| self.choice.names[i] && !self.choice.numbered[i]) else {
                continue;
            };
            let digits = chars(&name.placed) - chars(&name.text);
            // A longer list names its file more often.
            let head = chars(&self.entries.map.files[file].path) + 6;
            let cost = digits + (digits * head).div_ceil(NEAR);
            if digits > 0 && self.used + cost <= self.room {
                self.used += cost;
                self.choice.numbered[i] = true;
            }
        }
    }

    /// Names that found no place in the list of bare ones are shown in the lines where they stood, while there is room.
    fn take_lines(&mut self) {
        let known = shown_names(self.entries, &self.choice);
        for (i, name) in self.entries.map.names.iter().enumerate() {
            let Some(line) = name.line.filter(|line| !self.choice.lines[*line]) else { continue };
            if self.choice.names[i] || known.contains(name.text.as_str()) {
                continue;
            }
            let first = if self.headed.contains(&Section::Lines) {
                0
            } else {
                chars(Section::Lines.title()) + HEADING
            };
            let cost = first + chars(&self.entries.map.lines[line]) + 1;
            if self.used + cost <= self.room {
                self.used += cost;
                self.headed.insert(Section::Lines);
                self.choice.lines[line] = true;
            }
        }
    }

    /// Entries and lines of files, the most valuable first.
    fn order(&self) -> Vec<What> {
        let entries = (0..self.entries.list.len()).map(What::Entry);
        let files = (0..self.entries.map.files.len()).map(What::File);
        let mut order: Vec<What> = entries.chain(files).collect();
        order.sort_by_key(|what| std::cmp::Reverse(self.value(*what)));
        order
    }

    fn value(&self, what: What) -> i32 {
        match what {
            What::Entry(i) => self.entries.list[i].value,
            What::File(i) => self.entries.map.files[i].value,
        }
    }

    fn forms(&self, what: What) -> &'e [String] {
        match what {
            What::Entry(i) => &self.entries.list[i].forms,
            What::File(i) => &self.entries.map.files[i].heads,
        }
    }

    fn chosen(&self, what: What) -> Option<usize> {
        match what {
            What::Entry(i) => self.choice.entries[i],
            What::File(i) => self.choice.files[i],
        }
    }

    fn section(&self, what: What) -> Section {
        match what {
            What::Entry(i) => self.entries.list[i].section,
            What::File(_) => Section::Files,
        }
    }

    /// What a first entry of its section and context costs besides itself.
    fn head(&self, what: What) -> usize {
        let section = self.section(what);
        let mut cost = if self.headed.contains(&section) { 0 } else { chars(section.title()) + HEADING };
        if let What::Entry(i) = what
            && let Some(context) = self.entries.list[i].context
            && !self.contexts.contains(&context)
        {
            cost += self.entries.contexts.get(&context).map_or(0, |line| chars(line) + 1);
        }
        cost
    }

    /// Chooses `form` of `what` if there is room for it.
    fn choose(&mut self, what: What, form: usize) -> bool {
        let size = match what {
            // Shares a line with others of its kind.
            What::File(i) if form + 1 == self.forms(what).len() => chars(&self.entries.map.files[i].path) + 7,
            _ => chars(&self.forms(what)[form]) + 1,
        };
        let cost = self.head(what) + size;
        if self.used + cost > self.room {
            return false;
        }
        self.used += cost;
        self.headed.insert(self.section(what));
        match what {
            What::Entry(i) => {
                self.choice.entries[i] = Some(form);
                self.choice.repeated.remove(&i);
                self.contexts.extend(self.entries.list[i].context);
                self.show(i, form);
            }
            What::File(i) => self.choice.files[i] = Some(form),
        }
        true
    }

    fn show(&mut self, entry: usize, form: usize) {
        let entry = &self.entries.list[entry];
        if let Some(said) = entry.said.as_ref().filter(|_| entry.section.speaks()) {
            self.shown.push((&said.origin, fold_lines(&entry.forms[form])));
        }
    }

    /// Stands this entry in another one that is shown?
    fn is_repeated(&self, entry: &Entry) -> bool {
        let said = entry.said.as_ref();
        said.is_some_and(|said| self.shown.iter().any(|(origin, shown)| said.is_in(shown, origin)))
    }

    /// Is it shown already, here or inside another entry?
    fn is_settled(&mut self, what: What) -> bool {
        if self.chosen(what).is_some() {
            return true;
        }
        if let What::Entry(i) = what
            && self.is_repeated(&self.entries.list[i])
        {
            self.choice.repeated.insert(i);
            return true;
        }
        false
    }

    fn shortest(&mut self, what: What) {
        if self.is_settled(what) {
            return;
        }
        self.choose(what, self.forms(what).len() - 1);
    }

    fn longest(&mut self, what: What) {
        if self.is_settled(what) {
            return;
        }
        for form in 0..self.forms(what).len() {
            if self.choose(what, form) {
                return;
            }
        }
    }

    fn lengthen(&mut self, what: What) {
        let Some(now) = self.chosen(what) else { return };
        let forms = self.forms(what);
        let free = self.room.saturating_sub(self.used);
        let size = chars(&forms[now]);
        let Some(longer) = (0..now).find(|&form| chars(&forms[form]).saturating_sub(size) <= free) else {
            return;
        };
        self.used += chars(&forms[longer]).saturating_sub(size);
        match what {
            What::Entry(i) => {
                self.choice.entries[i] = Some(longer);
                self.show(i, longer);
            }
            What::File(i) => self.choice.files[i] = Some(longer),
        }
    }

    /// A sentence that a longer form shows needs no line of its own.
    fn drop_repeated(&mut self) {
        self.used = self.used.saturating_sub(self.choice.drop_repeated(self.entries));
    }

    /// What all names would take.
    fn names_size(&self) -> usize {
        self.entries.map.names.iter().map(|name| chars(&name.text) + 2).sum()
    }

    /// Takes names, the most likely first, while they use at most `most` characters.
    fn take_names(&mut self, most: usize) {
        let before = self.used;
        let known = shown_names(self.entries, &self.choice);
        for i in 0..self.entries.map.names.len() {
            if self.used - before >= most {
                break;
            }
            if self.choice.names[i] {
                continue;
            }
            let name = &self.entries.map.names[i];
            // A path is said by its file's line.
            let size = if name.is_path { 0 } else { chars(&name.text) + 1 };
            let cost = match name.file {
                None if known.contains(name.text.as_str()) => continue,
                None => {
                    if self.loose + size > self.budget * LOOSE_SHARE / 100 {
                        continue;
                    }
                    let head = if self.headed.contains(&Section::Names) {
                        0
                    } else {
                        chars(Section::Names.title()) + HEADING
                    };
                    size + head
                }
                Some(file) => {
                    let line = &self.entries.map.files[file];
                    let head = match self.choice.files[file] {
                        Some(_) => 0,
                        // Behind others of its kind.
                        None if name.is_path => self.head(What::File(file)) + chars(&line.path) + 5,
                        None => self.head(What::File(file)) + chars(shortest(line)) + 1,
                    };
                    let first = if self.widths[file] == 0 && size > 0 { 2 } else { 0 };
                    let wrap = if self.widths[file] + size > NEAR { chars(&line.path) + 6 } else { 0 };
                    size + head + first + wrap
                }
            };
            if self.used + cost > self.room {
                continue;
            }
            self.used += cost;
            self.choice.names[i] = true;
            self.choice.order.push(i);
            match name.file {
                None => {
                    self.loose += size;
                    self.headed.insert(Section::Names);
                }
                Some(file) => {
                    if self.choice.files[file].is_none() {
                        self.choice.files[file] = Some(self.entries.map.files[file].heads.len() - 1);
                        self.headed.insert(Section::Files);
                    }
                    let form = self.choice.files[file].unwrap_or(0);
                    let line = &self.entries.map.files[file];
                    let width = &mut self.widths[file];
                    if size > 0 && *width == 0 {
                        *width = chars(&line.heads[form]) + 2;
                    }
                    *width = if *width + size > NEAR { chars(&line.path) + 6 + size } else { *width + size };
                }
            }
        }
    }
}

/// Words of the entries and lines that are chosen: a name that stands in one needs no list.
fn shown_names<'e>(entries: &'e Entries, choice: &Choice) -> HashSet<&'e str> {
    let part = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '/' | '.' | ':' | '-'));
    let forms =
        entries.list.iter().zip(&choice.entries).filter_map(|(entry, form)| Some(&entry.forms[(*form)?]));
    let lines =
        entries.map.lines.iter().zip(&choice.lines).filter(|(_, shown)| **shown).map(|(line, _)| line);
    forms.chain(lines).flat_map(|text| text.split(part)).filter(|word| word.len() >= 7).collect()
}

fn shortest(line: &FileLine) -> &str {
    line.heads.last().map_or("", String::as_str)
}

/// An entry, or the line of a file.
#[derive(Debug, Clone, Copy)]
enum What {
    Entry(usize),
    File(usize),
}

/// The chosen forms of the chosen entries under their headings. A heading counts when something is missing.
pub(super) fn assemble(entries: &Entries, choice: &Choice) -> String {
    let mut out = String::new();
    for section in Section::ALL {
        let lines = match section {
            Section::Files => file_lines(entries, choice),
            Section::Names => loose_lines(entries, choice),
            Section::Lines => {
                let lines = entries.map.lines.iter().zip(&choice.lines).filter(|(_, shown)| **shown);
                lines.map(|(line, _)| line.clone()).collect()
            }
            _ => entry_lines(entries, choice, section),
        };
        if lines.is_empty() {
            continue;
        }
        if !out.is_empty() {
            out.push('\n');
        }
        let (all, shown) = (all(entries, choice, section), shown(entries, choice, section));
        let count = if shown < all { format!(" ({shown} of {all})") } else { String::new() };
        out.push_str("## ");
        out.push_str(section.title());
        out.push_str(&count);
        out.push('\n');
        for line in lines {
            out.push_str(&line);
            out.push('\n');
        }
    }
    out.truncate(out.trim_end().len());
    out
}

fn entry_lines(entries: &Entries, choice: &Choice, section: Section) -> Vec<String> {
    let mut lines = Vec::new();
    let mut context = None;
    for (entry, form) in entries.list.iter().zip(&choice.entries) {
        let Some(form) = form.filter(|_| entry.section == section) else { continue };
        if section == Section::Commands
            && form + 1 == entry.forms.len()
            && let Some(line) = lines.last_mut()
            && shares(line, &entry.forms[form])
        {
            continue;
        }
        if entry.context != context {
            context = entry.context;
            lines.extend(context.and_then(|context| entries.contexts.get(&context).cloned()));
        }
        lines.push(entry.forms[form].clone());
    }
    lines
}

/// Adds a command to the line of those before it that ended the same way, while that stays a line one can read.
fn shares(line: &mut String, next: &str) -> bool {
    let Some((status, command)) = next.split_once(" · ") else { return false };
    let same = line.strip_prefix(status).is_some_and(|rest| rest.starts_with(" · `"));
    // A result behind an arrow belongs to the one command before it.
    if !same || line.contains('→') || chars(line) + chars(command) > NEAR {
        return false;
    }
    line.push_str(" · ");
    line.push_str(command);
    true
}

/// `- edited · `src/a.rs` · at load:40 · name other_name`; a long list continues below under the file's name. Files of
/// which nothing else is said share a line with others of their kind.
fn file_lines(entries: &Entries, choice: &Choice) -> Vec<String> {
    let map = &entries.map;
    let mut lines = Vec::new();
    let mut plain: Vec<(&str, Vec<&str>)> = Vec::new();
    for (i, (file, form)) in map.files.iter().zip(&choice.files).enumerate() {
        let Some(form) = *form else { continue };
        let shown = (0..map.names.len()).filter(|&n| choice.names[n]);
        let mut names = shown.filter(|&n| map.names[n].file == Some(i) && !map.names[n].is_path);
        let mut next = names.next();
        if next.is_none() && form + 1 == file.heads.len() {
            match plain.iter_mut().find(|(label, paths)| *label == file.label && paths.len() < SHARED) {
                Some((_, paths)) => paths.push(&file.path),
                None => plain.push((&file.label, vec![&file.path])),
            }
            continue;
        }
        let mut line = file.heads[form].clone();
        if next.is_some() {
            line.push_str(" ·");
        }
        let mut width = chars(&line);
        while let Some(name) = next {
            let text = if choice.numbered[name] { &map.names[name].placed } else { &map.names[name].text };
            let size = chars(text) + 1;
            if width + size > NEAR {
                let more = format!("- {} ·", code(&file.path));
                width = chars(&more);
                lines.push(std::mem::replace(&mut line, more));
            }
            line.push(' ');
            line.push_str(text);
            width += size;
            next = names.next();
        }
        lines.push(line);
    }
    for (label, paths) in plain {
        let paths: Vec<String> = paths.into_iter().map(code).collect();
        lines.push(format!("- {label} · {}", paths.join(" · ")));
    }
    lines
}

/// Files on one line.
const SHARED: usize = 8;

fn loose_lines(entries: &Entries, choice: &Choice) -> Vec<String> {
    let names = entries.map.names.iter().zip(&choice.names);
    let loose: Vec<&str> = names
        .filter(|(name, shown)| **shown && name.file.is_none())
        .map(|(name, _)| name.text.as_str())
        .collect();
    if loose.is_empty() { Vec::new() } else { vec![format!("- {}", loose.join(" "))] }
}

fn shown(entries: &Entries, choice: &Choice, section: Section) -> usize {
    if section == Section::Files {
        let files = entries.map.files.iter().zip(&choice.files);
        return files.filter(|(file, form)| form.is_some() && file.value > 0).count();
    }
    let chosen = entries.list.iter().zip(&choice.entries);
    chosen.filter(|(entry, form)| entry.section == section && form.is_some()).count()
}

/// How many entries of a section there are to show. What stands in another one is not counted twice.
fn all(entries: &Entries, choice: &Choice, section: Section) -> usize {
    let repeated = choice.repeated.iter().filter(|&&i| entries.list[i].section == section).count();
    entries.all(section) - repeated
}

fn counts(entries: &Entries, choice: &Choice) -> Vec<(String, usize)> {
    let mut dropped = Vec::new();
    for section in Section::ALL {
        let (all, shown) = (all(entries, choice, section), shown(entries, choice, section));
        if shown < all {
            let title = section.title();
            let title = title.split([':', ',']).next().unwrap_or(title);
            dropped.push((title.to_lowercase(), all - shown));
        }
    }
    // A name that has a file or a line could have been shown there. Bare names have a limit of their own.
    let known = shown_names(entries, choice);
    let names = entries.map.names.iter().zip(&choice.names).filter(|(name, shown)| {
        let placed = name.file.is_some() || name.line.is_some_and(|line| !choice.lines[line]);
        // The path of a file that was touched is counted among the files.
        let said = name.is_path
            && name
                .file
                .is_some_and(|file| choice.files[file].is_some() || entries.map.files[file].value > 0);
        !**shown && placed && !said && !known.contains(name.text.as_str())
    });
    match names.count() {
        0 => {}
        n => dropped.push(("names".to_owned(), n)),
    }
    dropped
}

fn footer(dropped: &[(String, usize)], pointer: &str) -> String {
    if dropped.is_empty() {
        return format!("Whole: {pointer}");
    }
    let parts: Vec<String> = dropped.iter().map(|(title, n)| format!("{title} {n}")).collect();
    format!("Left out for space: {}. Whole: {pointer}", parts.join(", "))
}

fn join(body: &str, footer: &str) -> String {
    if body.is_empty() { footer.to_owned() } else { format!("{body}\n\n{footer}") }
}

fn chars(text: &str) -> usize {
    text.chars().count()
}

fn first_chars(text: &str, n: usize) -> &str {
    text.char_indices().nth(n).map_or(text, |(i, _)| &text[..i])
}

/// A Markdown document that somebody wrote, in at most `budget` characters: what stands before the first heading
/// and the most valuable sections whole, of the others their beginning, and a list of what is missing.
pub fn pack_document(text: &str, budget: usize, pointer: &str) -> Packed {
    if chars(text.trim_end()) <= budget {
        return Packed { text: text.trim_end().to_owned(), dropped: Vec::new() };
    }
    let parts = split_sections(text);
    let all: Vec<(String, usize)> = parts.iter().map(|p| (p.title.clone(), chars(p.text))).collect();
    let footer = |left: &[(String, usize)]| {
        let mut titles: Vec<String> =
            left.iter().take(12).map(|(title, n)| format!("{} ({n})", first_chars(title, 40))).collect();
        if left.len() > 12 {
            titles.push(format!("{} more", left.len() - 12));
        }
        if titles.is_empty() {
            return format!("Whole: {pointer}");
        }
        format!("Left out for space (characters): {}. Whole: {pointer}", titles.join(", "))
    };
    // Parts that are left out have to be listed; what that list does not take is given out again.
    let mut best: Option<Packed> = None;
    let mut room = budget.saturating_sub(chars(&footer(&all)) + 2);
    for _ in 0..REFILLS {
        let (body, left) = parts_in(&parts, room);
        let text = join(&body, &footer(&left));
        let size = chars(&text);
        if size > budget {
            room = room.saturating_sub(size - budget);
            continue;
        }
        if best.as_ref().is_some_and(|best| chars(&best.text) >= size) {
            break;
        }
        best = Some(Packed { text, dropped: left });
        if budget - size < SPARE {
            break;
        }
        room += budget - size;
    }
    best.unwrap_or_else(|| Packed { text: first_chars(&footer(&[]), budget).to_owned(), dropped: all })
}

/// The most valuable parts in at most `room` characters, and what is missing of which.
fn parts_in(parts: &[Part<'_>], room: usize) -> (String, Vec<(String, usize)>) {
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by_key(|&i| (parts[i].rank, i));
    let mut shown: Vec<Option<String>> = vec![None; parts.len()];
    let mut used = 0;
    for i in order {
        let whole = parts[i].text.trim_end();
        let size = chars(whole) + 2;
        if used + size <= room {
            used += size;
            shown[i] = Some(whole.to_owned());
        } else if let Some(beginning) = beginning(whole, room.saturating_sub(used + 2)) {
            used += chars(&beginning) + 2;
            shown[i] = Some(beginning);
        }
    }
    let mut left = Vec::new();
    let mut body = String::new();
    for (part, shown) in parts.iter().zip(shown) {
        let kept = shown.as_deref().unwrap_or_default().trim_end();
        let missing = chars(part.text.trim_end()).saturating_sub(chars(kept));
        if missing > 0 {
            left.push((part.title.clone(), missing));
        }
        if !kept.is_empty() {
            body.push_str(kept);
            body.push_str("\n\n");
        }
    }
    (body.trim().to_owned(), left)
}

struct Part<'a> {
    title: String,
    text: &'a str,
    rank: usize,
}

/// Sections by heading; a `#` inside a code fence is no heading.
fn split_sections(text: &str) -> Vec<Part<'_>> {
    let mut starts = vec![0];
    let mut fenced = false;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if is_fence(line) {
            fenced = !fenced;
        } else if !fenced && is_heading(line) && at > 0 {
            starts.push(at);
        }
        at += line.len();
    }
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    let part = |(i, (start, end)): (usize, (usize, usize))| {
        let before = &text[..start];
        let text = &text[start..end];
        let first = text.lines().next().unwrap_or_default();
        let title = first.trim_start_matches('#').trim().to_owned();
        // The head of the document (header comments, title) always comes first.
        let is_comment = |line: &str| line.trim().is_empty() || line.starts_with("<!--");
        let is_head = i == 0 || (i == 1 && before.lines().all(is_comment));
        let rank = if is_head { 0 } else { 1 + title_rank(&title) };
        Part { title, text, rank }
    };
    starts.iter().copied().zip(ends).enumerate().map(part).collect()
}

fn is_heading(line: &str) -> bool {
    let level = line.bytes().take_while(|b| *b == b'#').count();
    (1..=6).contains(&level) && line[level..].starts_with(' ')
}

/// Seed words of a handoff, by what the next turn needs.
fn title_rank(title: &str) -> usize {
    const ORDER: [&[&str]; 5] = [
        &["now", "next", "current", "state", "status", "todo", "task", "resume", "immediate"],
        &["goal", "request", "objective", "intent", "rule", "constraint", "instruction", "user", "must"],
        &["blocker", "error", "problem", "open", "question", "issue", "pending", "failed", "risk"],
        &["decision", "done", "file", "change", "commit", "command", "test", "result", "progress"],
        &["plan", "context", "summary", "note", "background", "history"],
    ];
    let title = title.to_lowercase();
    ORDER.iter().position(|words| words.iter().any(|word| title.contains(word))).unwrap_or(ORDER.len())
}

/// Whole lines of `text` in at most `max` characters, and of the next one whole sentences; at least one line below the
/// heading. An open fence is closed.
fn beginning(text: &str, max: usize) -> Option<String> {
    const CLOSE: usize = 4;
    let mut out = String::new();
    let mut used = CLOSE;
    let mut fence: Option<&str> = None;
    let mut lines = 0;
    for line in text.split_inclusive('\n') {
        let size = chars(line);
        if used + size > max {
            let cut = max.checked_sub(used + 1).filter(|_| fence.is_none() && !is_fence(line));
            // What lies behind the room is not looked at, however long the line.
            let cut = cut.and_then(|room| clip(first_chars(line, room + 1), room));
            if let Some(sentences) = cut.filter(|_| !is_heading(line)) {
                out.push_str(sentences);
                lines += 1;
            }
            break;
        }
        used += size;
        if is_fence(line) {
            fence = if fence.is_some() { None } else { line.trim_start().get(..3) };
        }
        out.push_str(line);
        lines += usize::from(!line.trim().is_empty());
    }
    if let Some(fence) = fence {
        out.push_str(fence);
        out.push('\n');
    }
    let heading = usize::from(text.lines().next().is_some_and(is_heading));
    (lines > heading).then_some(out)
}

fn is_fence(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("```") || line.starts_with("~~~")
}
