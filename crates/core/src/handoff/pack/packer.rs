//! Chooses what a document has room for, the most valuable first.

use std::collections::HashSet;

use super::assemble::shown_names;
use super::{Selection, chars};
use crate::handoff::entries::{DocumentEntry, Entries, FileLine, NEAR, Section, fold_lines};
use crate::transcript::Origin;

/// From this value on an entry is needed rather than useful: as many of these as possible go in, in their shortest
/// form, before any of them is given at length.
const NEEDED: i32 = 600;

/// How many characters names get before entries get their longer forms. A small document is for the facts; a large one
/// has room for the names in play as well. Grows with the budget without jumps.
fn names_room(budget: usize) -> usize {
    const POINTS: [(usize, usize); 5] =
        [(0, 0), (4_000, 100), (7_000, 2_800), (12_000, 4_800), (16_000, 5_200)];
    for pair in POINTS.windows(2) {
        let [(from, low), (to, high)] = [pair[0], pair[1]];
        if budget < to {
            return low + (high - low) * (budget - from) / (to - from);
        }
    }
    // 30 % of the rest.
    5_200 + (budget - 16_000) * 3 / 10
}

/// Names without a file may take this part of the budget, in percent.
const LOOSE_SHARE: usize = 15;

pub(super) struct Packer<'e> {
    entries: &'e Entries,
    budget: usize,
    room: usize,
    used: usize,
    loose: usize,
    headed: HashSet<Section>,
    contexts: HashSet<u32>,
    /// Characters of names after each file's line, and how many lines it has.
    widths: Vec<usize>,
    /// Words that are shown already, in folded lines, and the records that they come from.
    shown: Vec<(&'e Origin, String)>,
    choice: Selection,
}

/// `## `, a count like ` (12 of 345)` and the blank lines around a heading.
const HEADING: usize = 20;

impl<'e> Packer<'e> {
    pub(super) fn new(entries: &'e Entries, room: usize, budget: usize) -> Self {
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
            choice: Selection::nothing(entries),
        }
    }

    pub(super) fn fill(&mut self) {
        let names = self.names_size().min(names_room(self.budget));
        let order = self.order();
        let (needed, useful): (Vec<Candidate>, Vec<Candidate>) = order
            .into_iter()
            .filter(|what| self.value(*what) > 1)
            .partition(|what| self.value(*what) >= NEEDED);
        // First the needed entries in their shortest form, without the names' share.
        let all = self.room;
        self.room = all.saturating_sub(names);
        for what in &needed {
            self.shortest(*what);
        }
        self.room = all;
        let free = all.saturating_sub(self.used);
        self.take_names(names.max(free * 55 / 100));
        // Entries that did not fit beside the names may fit now; then come longer forms.
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

    pub(super) fn choice(&self) -> &Selection {
        &self.choice
    }

    pub(super) fn into_choice(self) -> Selection {
        self.choice
    }

    /// Once more over everything that is not shown yet, with `more` characters of room than are used.
    pub(super) fn refill(&mut self, more: usize) {
        self.room = self.used + more;
        let order = self.order();
        let worth = |it: &Self, least: i32| -> Vec<Candidate> {
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

    /// Uses the remaining room.
    fn rest(&mut self) {
        self.take_names(usize::MAX);
        self.number_names();
        // A file that is shown for its names may say more about itself.
        for what in self.order() {
            self.lengthen(what);
        }
        self.take_lines();
    }

    /// A name's line number is worth its digits if there is room.
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

    /// Names that do not fit into the list of bare ones are shown in the lines they come from, while there is room.
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
    fn order(&self) -> Vec<Candidate> {
        let entries = (0..self.entries.list.len()).map(Candidate::Entry);
        let files = (0..self.entries.map.files.len()).map(Candidate::File);
        let mut order: Vec<Candidate> = entries.chain(files).collect();
        order.sort_by_key(|what| std::cmp::Reverse(self.value(*what)));
        order
    }

    fn value(&self, what: Candidate) -> i32 {
        match what {
            Candidate::Entry(i) => self.entries.list[i].value,
            Candidate::File(i) => self.entries.map.files[i].value,
        }
    }

    fn forms(&self, what: Candidate) -> &'e [String] {
        match what {
            Candidate::Entry(i) => &self.entries.list[i].forms,
            Candidate::File(i) => &self.entries.map.files[i].heads,
        }
    }

    fn chosen(&self, what: Candidate) -> Option<usize> {
        match what {
            Candidate::Entry(i) => self.choice.entries[i],
            Candidate::File(i) => self.choice.files[i],
        }
    }

    fn section(&self, what: Candidate) -> Section {
        match what {
            Candidate::Entry(i) => self.entries.list[i].section,
            Candidate::File(_) => Section::Files,
        }
    }

    /// The extra cost of the first entry of a section and context.
    fn head(&self, what: Candidate) -> usize {
        let section = self.section(what);
        let mut cost = if self.headed.contains(&section) { 0 } else { chars(section.title()) + HEADING };
        if let Candidate::Entry(i) = what
            && let Some(context) = self.entries.list[i].context
            && !self.contexts.contains(&context)
        {
            cost += self.entries.contexts.get(&context).map_or(0, |line| chars(line) + 1);
        }
        cost
    }

    /// Chooses `form` of `what` if there is room for it.
    fn choose(&mut self, what: Candidate, form: usize) -> bool {
        let size = match what {
            // Shares a line with others of its kind.
            Candidate::File(i) if form + 1 == self.forms(what).len() => {
                chars(&self.entries.map.files[i].path) + 7
            }
            _ => chars(&self.forms(what)[form]) + 1,
        };
        let cost = self.head(what) + size;
        if self.used + cost > self.room {
            return false;
        }
        self.used += cost;
        self.headed.insert(self.section(what));
        match what {
            Candidate::Entry(i) => {
                self.choice.entries[i] = Some(form);
                self.choice.repeated.remove(&i);
                self.contexts.extend(self.entries.list[i].context);
                self.show(i, form);
            }
            Candidate::File(i) => self.choice.files[i] = Some(form),
        }
        true
    }

    fn show(&mut self, entry: usize, form: usize) {
        let entry = &self.entries.list[entry];
        if let Some(said) = entry.said.as_ref().filter(|_| entry.section.speaks()) {
            self.shown.push((&said.origin, fold_lines(&entry.forms[form])));
        }
    }

    /// Whether another entry that is shown contains this one.
    fn is_repeated(&self, entry: &DocumentEntry) -> bool {
        let said = entry.said.as_ref();
        said.is_some_and(|said| self.shown.iter().any(|(origin, shown)| said.is_in(shown, origin)))
    }

    /// Is it shown already, here or inside another entry?
    fn is_settled(&mut self, what: Candidate) -> bool {
        if self.chosen(what).is_some() {
            return true;
        }
        if let Candidate::Entry(i) = what
            && self.is_repeated(&self.entries.list[i])
        {
            self.choice.repeated.insert(i);
            return true;
        }
        false
    }

    fn shortest(&mut self, what: Candidate) {
        if self.is_settled(what) {
            return;
        }
        self.choose(what, self.forms(what).len() - 1);
    }

    fn longest(&mut self, what: Candidate) {
        if self.is_settled(what) {
            return;
        }
        for form in 0..self.forms(what).len() {
            if self.choose(what, form) {
                return;
            }
        }
    }

    fn lengthen(&mut self, what: Candidate) {
        let Some(now) = self.chosen(what) else { return };
        let forms = self.forms(what);
        let free = self.room.saturating_sub(self.used);
        let size = chars(&forms[now]);
        let Some(longer) = (0..now).find(|&form| chars(&forms[form]).saturating_sub(size) <= free) else {
            return;
        };
        self.used += chars(&forms[longer]).saturating_sub(size);
        match what {
            Candidate::Entry(i) => {
                self.choice.entries[i] = Some(longer);
                self.show(i, longer);
            }
            Candidate::File(i) => self.choice.files[i] = Some(longer),
        }
    }

    /// Drop a sentence that a longer form already shows.
    fn drop_repeated(&mut self) {
        self.used = self.used.saturating_sub(self.choice.drop_repeated(self.entries));
    }

    /// The room that all names would take.
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
            // The line of the file already names its path.
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
                        // After others of its kind.
                        None if name.is_path => self.head(Candidate::File(file)) + chars(&line.path) + 5,
                        None => self.head(Candidate::File(file)) + chars(shortest(line)) + 1,
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

fn shortest(line: &FileLine) -> &str {
    line.heads.last().map_or("", String::as_str)
}

/// An entry, or the line of a file.
#[derive(Debug, Clone, Copy)]
enum Candidate {
    Entry(usize),
    File(usize),
}
