//! Which entries, files and names go into a document, and in which form.

use std::collections::HashSet;

use super::chars;
use crate::handoff::entries::{Entries, Quote, fold_lines};

/// The choice of what goes into a document.
#[derive(Debug, Clone)]
pub(in crate::handoff) struct Selection {
    /// For each entry the form that is shown.
    pub(super) entries: Vec<Option<usize>>,
    /// For each file the form of its line.
    pub(super) files: Vec<Option<usize>>,
    /// Which names are shown.
    pub(super) names: Vec<bool>,
    /// Which lines are shown for the names in them.
    pub(super) lines: Vec<bool>,
    /// Names in the order in which they were chosen, the least likely last.
    pub(super) order: Vec<usize>,
    /// Which names come with their line number.
    pub(super) numbered: Vec<bool>,
    /// Entries whose words another one shows: neither chosen nor counted as left out.
    pub(super) repeated: HashSet<usize>,
}

impl Selection {
    pub(super) fn nothing(entries: &Entries) -> Self {
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
    pub(in crate::handoff) fn everything(entries: &Entries) -> Self {
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
    pub(super) fn drop_repeated(&mut self, entries: &Entries) -> usize {
        let list = &entries.list;
        let chosen = self.entries.iter().enumerate();
        let shown: Vec<(usize, &Quote, String)> = chosen
            .filter_map(|(i, form)| Some((i, list[i].said.as_ref()?, fold_lines(&list[i].forms[(*form)?]))))
            .collect();
        let mut saved = 0;
        for (i, said, text) in &shown {
            // Of two with the same words, the first stays.
            let elsewhere = |(j, other, form): &(usize, &Quote, String)| {
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

    /// Removes the least valuable parts until about `over` characters are gone. Returns `false` when nothing is left.
    pub(super) fn shorten(&mut self, over: usize, entries: &Entries) -> bool {
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
