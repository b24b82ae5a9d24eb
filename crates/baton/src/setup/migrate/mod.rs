//! Migration from other tools' scripts: `baton install --migrate`.
//!
//! Their installations are recognised ([`known`], [`find`]), shown, and on request removed from the settings and moved
//! aside ([`aside`]). Nothing is deleted, and `--undo` restores all of it ([`undo`]). Until then baton leaves their
//! work to them ([`find::duties`]), so that nothing has two writers.

pub(crate) mod aside;
pub(crate) mod entries;
pub(crate) mod find;
pub(crate) mod known;
pub(crate) mod undo;

use baton_core::session::Duty;

use crate::setup::migrate::find::ForeignFile;
use crate::setup::migrate::known::Tool;

pub(crate) const HOW: &str = "`baton install --migrate` moves its scripts aside; `--undo` brings them back";

/// The tools found here, each with its files.
pub(crate) fn by_tool(found: &[ForeignFile]) -> Vec<(&'static Tool, Vec<&ForeignFile>)> {
    let of =
        |tool: &'static Tool| (tool, found.iter().filter(|f| f.tool.name == tool.name).collect::<Vec<_>>());
    known::TOOLS.iter().map(of).filter(|(_, parts)| !parts.is_empty()).collect()
}

/// One sentence per tool: what it does here, and what baton leaves to it.
pub(crate) fn sentences(found: &[ForeignFile]) -> Vec<String> {
    let sentence = |(tool, parts): (&Tool, Vec<&ForeignFile>)| {
        let mut does: Vec<String> = parts
            .iter()
            .filter(|f| !f.entries.is_empty())
            .map(|f| format!("{} {}", f.part.file, f.part.does))
            .collect();
        let commands = parts.iter().filter(|f| f.part.kind == known::PartKind::Command).count();
        if commands > 0 {
            does.push(format!("{commands} of its commands hide baton's of the same name"));
        }
        let left = left(parts.iter().filter_map(|f| f.part.duty));
        let left = if left.is_empty() { String::new() } else { format!("; baton leaves {left} to it") };
        format!("{} is installed too: {}{left}", tool.name, does.join(", "))
    };
    by_tool(found).into_iter().map(sentence).collect()
}

/// What baton leaves to others with these duties, in words. Empty for a status line: both are shown.
pub(crate) fn left(duties: impl Iterator<Item = Duty>) -> String {
    let mut duties: Vec<Duty> = duties.filter(|duty| *duty != Duty::StatusLine).collect();
    duties.sort();
    duties.dedup();
    let words: Vec<&str> = duties.into_iter().map(Duty::what).collect();
    match words.as_slice() {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [all @ .., last] => format!("{} and {last}", all.join(", ")),
    }
}
