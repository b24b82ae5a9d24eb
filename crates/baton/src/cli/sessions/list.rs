//! `baton sessions list`: one row per conversation.

use std::collections::HashMap;
use std::fmt::Write as _;

use baton_core::ids::SessionId;
use baton_core::plain::plain_line;
use baton_core::transcript::summary::Ending;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::cli::args::ConversationScope;
use crate::cli::sessions::hindrance::Hindrances;
use crate::cli::sessions::{Output, read, report_skipped, scope};
use crate::cli::ui::text::width;
use crate::cli::ui::{Paint, age, page, print, print_json, table_within, tokens};
use crate::cli::{App, Outcome};
use crate::history::catalogue::{ConversationState, Titles};
use crate::history::{Catalogue, Row};
use crate::sys::terminal;

/// The table's width in a pipe.
const PIPE_COLUMNS: usize = 160;
/// In a narrower terminal, less important columns make room for the title.
const WIDE: usize = 100;

pub(super) fn run(
    app: &App,
    whose: &ConversationScope,
    limit: usize,
    output: Output,
) -> anyhow::Result<Outcome> {
    let catalogue = read(app);
    let scope = scope(app, whose)?;
    let limit = if limit == 0 { usize::MAX } else { limit };
    let matching: Vec<&Row> = catalogue.rows.iter().filter(|row| scope.contains(row)).collect();
    let shown = &matching[..matching.len().min(limit)];
    report_skipped(app, &catalogue.skipped);
    let listing = Listing::new(app, &catalogue);
    if output.json {
        print_json(&shown.iter().map(|row| listing.json(row)).collect::<Vec<_>>())?;
        return Ok(Outcome::Done);
    }
    if shown.is_empty() {
        print(&format!("No sessions in {} yet. `--all` lists those of all projects.\n", scope.name()))?;
        return Ok(Outcome::Nothing);
    }
    let mut out = listing.table(shown, whose.all);
    let more = matching.len() - shown.len();
    if more > 0 {
        let _ = writeln!(out, "… and {more} more; `-n 0` shows them all");
    }
    page(&out, output.paged)?;
    Ok(Outcome::Done)
}

/// The catalogue with everything needed to show its rows.
pub(super) struct Listing<'c> {
    titles: Titles<'c>,
    /// Each session's incoming and outgoing handoffs.
    handoffs: HashMap<&'c SessionId, [Vec<&'c str>; 2]>,
    hindrances: Hindrances<'c>,
    now: Timestamp,
}

impl<'c> Listing<'c> {
    pub(super) fn new(app: &'c App, catalogue: &'c Catalogue) -> Self {
        let mut handoffs: HashMap<&SessionId, [Vec<&str>; 2]> = HashMap::new();
        for link in &catalogue.links {
            handoffs.entry(&link.from).or_default()[1].push(&link.handoff);
            if let Some(to) = &link.to {
                handoffs.entry(to).or_default()[0].push(&link.handoff);
            }
        }
        let (titles, hindrances) = (Titles::new(catalogue), Hindrances::new(app));
        Self { titles, handoffs, hindrances, now: Timestamp::now() }
    }

    pub(super) fn title(&self, row: &Row) -> String {
        let mark = if row.facts.continued { "↳ " } else { "" };
        match self.titles.of(row) {
            "" => format!("{mark}(nothing was asked)"),
            title => format!("{mark}{title}"),
        }
    }

    /// The working directory for people.
    pub(super) fn project(&self, row: &Row) -> String {
        self.hindrances.folder(row).name.clone()
    }

    pub(super) fn age(&self, row: &Row) -> String {
        age(row.last(), self.now)
    }

    fn table(&self, rows: &[&Row], all: bool) -> String {
        let terminal = terminal::size().map(|(columns, _)| usize::from(columns));
        let columns = terminal.unwrap_or(PIPE_COLUMNS);
        let is_wide = columns >= WIDE;
        // Readers of a pipe want whole names.
        let longest_project = terminal.map_or(usize::MAX, |columns| columns / 4);
        let paint = Paint::stdout();
        let mut head = vec!["ID", "AGE"];
        head.extend(is_wide.then_some("LONG"));
        head.extend(["TOKENS", "STATE"]);
        head.extend(is_wide.then_some("HANDOFFS IN→OUT"));
        head.extend(all.then_some("PROJECT"));
        head.push("  ABOUT");
        let cells = |row: &&Row| {
            let state = row.state();
            let mark = match state {
                ConversationState::Running(_) => paint.green("> "),
                _ if self.hindrances.of(row, &state).is_some() => paint.dim("- "),
                _ => "  ".to_owned(),
            };
            let length = || row.facts.begun.map(|begun| age(begun, row.last())).unwrap_or_default();
            let mut cells = vec![row.source.id.short().to_owned(), self.age(row)];
            cells.extend(is_wide.then(length));
            cells.push(row.facts.tokens.map(tokens).unwrap_or_default());
            cells.push(state_words(paint, row, &state));
            cells.extend(is_wide.then(|| self.arrows(row)));
            cells.extend(all.then(|| end_of(&self.project(row), longest_project)));
            cells.push(mark + &self.title(row));
            cells
        };
        let cells: Vec<Vec<String>> = rows.iter().map(cells).collect();
        table_within(columns, paint, &head, &cells)
    }

    /// `1→2`: the numbers of incoming and outgoing handoffs.
    fn arrows(&self, row: &Row) -> String {
        let Some([before, after]) = self.handoffs.get(&row.source.id) else { return String::new() };
        let count = |handoffs: &[&str]| match handoffs.len() {
            0 => String::new(),
            count => count.to_string(),
        };
        format!("{}→{}", count(before), count(after))
    }

    pub(super) fn json(&self, row: &Row) -> Value {
        let now = row.state();
        let (state, reason) = match now {
            ConversationState::Running(_) => ("running", None),
            ConversationState::Died => ("died", None),
            ConversationState::Left => ("left", None),
            ConversationState::Ended(reason) => ("ended", Some(reason)),
        };
        let hindrance = self.hindrances.of(row, &now);
        let [before, after] = self.handoffs.get(&row.source.id).cloned().unwrap_or_default();
        let facts = &row.facts;
        json!({
            "id": row.source.id,
            "provider": row.provider(),
            "title": self.title(row),
            "project": facts.cwd,
            "branch": facts.branch,
            "agent": row.record.as_ref().map(|record| &record.agent),
            "begun": facts.begun,
            "last": row.last(),
            "seconds": facts.begun.map(|begun| row.last().duration_since(begun).as_secs().max(0)),
            "tokens": facts.tokens,
            "model": facts.model,
            "state": state,
            "reason": reason,
            "ending": facts.ending,
            "handoffs_in": before,
            "handoffs_out": after,
            "resumable": hindrance.is_none(),
            "hindrance": hindrance,
            "transcript": row.source.path,
            "mirror": row.source.mirrored,
            "bytes": row.source.stamp.size,
        })
    }
}

/// The end of a path, which says most, in at most `columns` columns.
pub(super) fn end_of(path: &str, columns: usize) -> String {
    let columns = columns.max(8);
    if width(path) <= columns {
        return path.to_owned();
    }
    let mut end = path;
    while width(end) >= columns {
        let mut rest = end.chars();
        rest.next();
        end = rest.as_str();
    }
    format!("…{end}")
}

/// The state of a conversation, in a word or two.
pub(super) fn state(paint: Paint, row: &Row) -> String {
    state_words(paint, row, &row.state())
}

fn state_words(paint: Paint, row: &Row, state: &ConversationState<'_>) -> String {
    let ending = row.facts.ending;
    match state {
        ConversationState::Running(_) => paint.green("running"),
        ConversationState::Died => paint.red("died"),
        ConversationState::Ended(reason) => {
            let reason = match *reason {
                "prompt_input_exit" => "exit".to_owned(),
                "other" => "ended".to_owned(),
                "clear" => "cleared".to_owned(),
                "logout" => "logged out".to_owned(),
                reason => plain_line(reason, 20),
            };
            match ending {
                Ending::Answered | Ending::Unknown => reason,
                ending => format!("{reason}, {}", ending.as_str()),
            }
        }
        ConversationState::Left => match ending {
            Ending::Answered => "done".to_owned(),
            Ending::Unknown => String::new(),
            ending => paint.yellow(ending.as_str()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_path_keeps_its_end_and_fits() {
        assert_eq!(end_of("~/work/app", 10), "~/work/app");
        assert_eq!(end_of("~/work/parser", 10), "…rk/parser");
        assert_eq!(end_of("~/日本語/日本語", 10), "…語/日本語");
        assert_eq!(end_of("~/work/app", 1), "…ork/app", "never less than eight columns");
    }
}
