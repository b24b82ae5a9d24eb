//! The working set as a map: for each file the changes and the names in play; then the names without a file.

use std::collections::HashMap;

use super::form::{changes, code};
use crate::ledger::{File, Ledger, Name, names_of};

/// The length at which a line is continued on a new one that repeats the file, so that names stay near their file.
pub(in crate::handoff) const NEAR: usize = 370;

/// How many files from earlier contexts get an entry.
const OLD_FILES: usize = 16;

/// One file.
#[derive(Debug)]
pub(in crate::handoff) struct FileLine {
    pub path: String,
    /// Higher means that the next turn needs it more.
    pub value: i32,
    /// The line without names, the longest form first.
    pub heads: Vec<String>,
    /// What was done to the file, in the shortest form.
    pub label: String,
}

/// One name, and the file that it belongs to.
#[derive(Debug)]
pub(in crate::handoff) struct MapName {
    pub text: String,
    pub file: Option<usize>,
    /// The path of the file itself, which the file's own line already shows.
    pub is_path: bool,
    /// The name with the line where it was last seen.
    pub placed: String,
    /// The newest line that holds it, for a name without a file.
    pub line: Option<usize>,
}

#[derive(Debug, Default)]
pub(in crate::handoff) struct Map {
    /// The most recently touched first.
    pub files: Vec<FileLine>,
    /// The most likely first.
    pub names: Vec<MapName>,
    /// Lines that hold names without a file, the newest first.
    pub lines: Vec<String>,
}

pub(super) fn map(ledger: &Ledger) -> Map {
    let mut map = Map::default();
    let mut lines: HashMap<u32, usize> = HashMap::new();
    let (mut changed, mut read, mut old) = (0_i32, 0_i32, 0_usize);
    for file in ledger.files.files.iter().rev() {
        let here = file.origin.cycle == ledger.cycle;
        let rank = if file.changed() { &mut changed } else { &mut read };
        let step = (*rank).min(100);
        *rank += 1;
        let value = match (file.changed(), here) {
            (true, true) => 845 - 2 * step,
            (true, false) => 625 - 2 * step,
            (false, true) => 420 - 3 * step,
            (false, false) => 300 - 2 * step,
        };
        // Of files from much earlier contexts, list the latest and count the others.
        let is_old = file.origin.cycle + 1 < ledger.cycle && file.is_touched();
        old += usize::from(is_old);
        let value = if is_old && old > OLD_FILES { 1 } else { value };
        // In a file that only outputs named, a line is worth as much as its names.
        let value = if file.is_touched() { value } else { 0 };
        lines.insert(file.id, map.files.len());
        let label = changes(file);
        map.files.push(FileLine { path: file.path.clone(), value, heads: heads(file), label });
    }
    let paths: HashMap<&str, usize> =
        ledger.files.files.iter().filter_map(|f| Some((f.path.as_str(), *lines.get(&f.id)?))).collect();
    let lines_of = lines_of(ledger);
    map.lines = ledger.working.lines.iter().rev().map(|line| format!("- {}", code(line))).collect();
    for name in ledger.working.names() {
        let own = paths.get(name.text.as_str()).copied();
        let file = own.or_else(|| name.place.and_then(|(id, _)| lines.get(&id).copied()));
        let is_path = own.is_some();
        let line = lines_of.get(name.text.as_str()).copied().filter(|_| file.is_none());
        map.names.push(MapName { placed: placed(name), text: name.text.clone(), file, is_path, line });
    }
    map
}

/// The newest line of each name, by its place in the map.
fn lines_of(ledger: &Ledger) -> HashMap<String, usize> {
    let mut out = HashMap::new();
    for (i, line) in ledger.working.lines.iter().rev().enumerate() {
        names_of(line, ledger.root.as_deref(), |name| {
            out.entry(name.to_owned()).or_insert(i);
        });
    }
    out
}

fn placed(name: &Name) -> String {
    match name.place {
        Some((_, line)) if line > 0 => format!("{}:{line}", name.text),
        _ => name.text.clone(),
    }
}

/// What was done to the file and where, which lines were read, and what was searched for, with shorter forms.
fn heads(file: &File) -> Vec<String> {
    let short = format!("- {} · {}", changes(file), code(&file.path));
    let marks: Vec<String> = file
        .marks
        .iter()
        .rev()
        .map(|mark| match (&mark.around, mark.line) {
            (Some(name), 0) => name.clone(),
            (Some(name), line) => format!("{name}:{line}"),
            (None, line) => format!(":{line}"),
        })
        .collect();
    let at = |count: usize| match marks.len().min(count) {
        0 => String::new(),
        n => format!(" · at {}", marks[..n].join(", ")),
    };
    let ranges: Vec<String> = file
        .ranges
        .iter()
        .rev()
        .map(|(from, to)| if *to == 0 { format!("{from}-") } else { format!("{from}-{to}") })
        .collect();
    let ranges = if ranges.is_empty() { String::new() } else { format!(" · lines {}", ranges.join(", ")) };
    let searched: Vec<String> = file.searches.iter().rev().take(3).map(|s| code(s)).collect();
    let searched =
        if searched.is_empty() { String::new() } else { format!(" · searched {}", searched.join(", ")) };
    let mut heads = vec![
        format!("{short}{}{ranges}{searched}", at(8)),
        format!("{short}{}", at(4)),
        format!("{short}{}", at(2)),
        short,
    ];
    heads.dedup();
    heads
}
