//! The text of the chosen entries, and the list of what is left out.

use std::collections::HashSet;

use super::{Selection, chars};
use crate::handoff::entries::{Entries, NEAR, Section, code};

/// The words of the chosen entries and lines: a name among them need not be listed.
pub(super) fn shown_names<'e>(entries: &'e Entries, choice: &Selection) -> HashSet<&'e str> {
    let part = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '/' | '.' | ':' | '-'));
    let forms =
        entries.list.iter().zip(&choice.entries).filter_map(|(entry, form)| Some(&entry.forms[(*form)?]));
    let lines =
        entries.map.lines.iter().zip(&choice.lines).filter(|(_, shown)| **shown).map(|(line, _)| line);
    forms.chain(lines).flat_map(|text| text.split(part)).filter(|word| word.len() >= 7).collect()
}

/// The chosen forms of the chosen entries under their headings. A heading counts when something is missing.
pub(in crate::handoff) fn assemble(entries: &Entries, choice: &Selection) -> String {
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

fn entry_lines(entries: &Entries, choice: &Selection, section: Section) -> Vec<String> {
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

/// Adds a command to the line of earlier ones with the same outcome, while that line stays readable.
fn shares(line: &mut String, next: &str) -> bool {
    let Some((status, command)) = next.split_once(" · ") else { return false };
    let same = line.strip_prefix(status).is_some_and(|rest| rest.starts_with(" · `"));
    // A result after an arrow belongs to the one command before it.
    if !same || line.contains('→') || chars(line) + chars(command) > NEAR {
        return false;
    }
    line.push_str(" · ");
    line.push_str(command);
    true
}

/// `- edited · `src/a.rs` · at load:40 · name other_name`; a long list continues below under the file's name. Files
/// without details share a line with others of their kind.
fn file_lines(entries: &Entries, choice: &Selection) -> Vec<String> {
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

fn loose_lines(entries: &Entries, choice: &Selection) -> Vec<String> {
    let names = entries.map.names.iter().zip(&choice.names);
    let loose: Vec<&str> = names
        .filter(|(name, shown)| **shown && name.file.is_none())
        .map(|(name, _)| name.text.as_str())
        .collect();
    if loose.is_empty() { Vec::new() } else { vec![format!("- {}", loose.join(" "))] }
}

fn shown(entries: &Entries, choice: &Selection, section: Section) -> usize {
    if section == Section::Files {
        let files = entries.map.files.iter().zip(&choice.files);
        return files.filter(|(file, form)| form.is_some() && file.value > 0).count();
    }
    let chosen = entries.list.iter().zip(&choice.entries);
    chosen.filter(|(entry, form)| entry.section == section && form.is_some()).count()
}

/// How many entries of a section there are to show. Repetitions of other entries do not count.
fn all(entries: &Entries, choice: &Selection, section: Section) -> usize {
    let repeated = choice.repeated.iter().filter(|&&i| entries.list[i].section == section).count();
    entries.all(section) - repeated
}

pub(super) fn counts(entries: &Entries, choice: &Selection) -> Vec<(String, usize)> {
    let mut dropped = Vec::new();
    for section in Section::ALL {
        let (all, shown) = (all(entries, choice, section), shown(entries, choice, section));
        if shown < all {
            let title = section.title();
            let title = title.split([':', ',']).next().unwrap_or(title);
            dropped.push((title.to_lowercase(), all - shown));
        }
    }
    // A name with a file or a line could have been shown there. Bare names have a separate limit.
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
