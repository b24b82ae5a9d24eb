//! `baton sessions list`: one row for each conversation.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::Write as _;

use baton_core::ids::SessionId;
use baton_core::plain::plain_line;
use baton_core::transcript::summary::Ending;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::args::WhoseArgs;
use super::super::screen::{Paint, age, page, print, print_json, table, tokens};
use super::super::{App, Outcome};
use super::resume::Hindrances;
use super::{Look, Scope, read, say_skipped};
use crate::sessions::catalogue::State;
use crate::sessions::{Catalogue, Row};

pub fn run(app: &App, whose: &WhoseArgs, limit: usize, look: Look) -> anyhow::Result<Outcome> {
    let catalogue = read(app);
    let scope = Scope::new(app, whose)?;
    let limit = if limit == 0 { usize::MAX } else { limit };
    let wanted: Vec<&Row> = catalogue.rows.iter().filter(|row| scope.holds(row)).collect();
    let shown = &wanted[..wanted.len().min(limit)];
    say_skipped(app, &catalogue.skipped);
    let telling = Telling::new(app, &catalogue);
    if look.json {
        print_json(&shown.iter().map(|row| telling.json(row)).collect::<Vec<_>>())?;
        return Ok(Outcome::Done);
    }
    if shown.is_empty() {
        print(&format!("No sessions in {} yet. `--all` lists those of all projects.\n", scope.name()))?;
        return Ok(Outcome::Nothing);
    }
    let paint = Paint::stdout();
    let mut out = telling.table(paint, shown, whose.all);
    let more = wanted.len() - shown.len();
    if more > 0 {
        let _ = writeln!(out, "… and {more} more; `-n 0` shows them all");
    }
    page(&out, look.paged)?;
    Ok(Outcome::Done)
}

/// What is needed to tell of rows.
pub struct Telling<'c> {
    app: &'c App,
    catalogue: &'c Catalogue,
    by_id: HashMap<&'c SessionId, &'c Row>,
    /// Folders as people write them.
    projects: RefCell<HashMap<String, String>>,
    /// Handoffs into and out of each session.
    handoffs: HashMap<&'c SessionId, [Vec<&'c str>; 2]>,
    hindrances: Hindrances<'c>,
    now: Timestamp,
}

impl<'c> Telling<'c> {
    pub fn new(app: &'c App, catalogue: &'c Catalogue) -> Self {
        let mut handoffs: HashMap<&SessionId, [Vec<&str>; 2]> = HashMap::new();
        for link in &catalogue.links {
            handoffs.entry(&link.from).or_default()[1].push(&link.handoff);
            if let Some(to) = &link.to {
                handoffs.entry(to).or_default()[0].push(&link.handoff);
            }
        }
        let by_id = catalogue.by_id();
        let hindrances = Hindrances::new(app);
        let projects = RefCell::default();
        Self { app, catalogue, by_id, projects, handoffs, hindrances, now: Timestamp::now() }
    }

    pub fn title(&self, row: &Row) -> String {
        let own = self.by_id.get(&row.source.id).copied().unwrap_or(row);
        let title = self.catalogue.title(own, &self.by_id);
        let title = if title.is_empty() { "(nothing was asked)" } else { title };
        if row.facts.continued { format!("↳ {title}") } else { title.to_owned() }
    }

    pub fn project(&self, row: &Row) -> String {
        let mut known = self.projects.borrow_mut();
        if let Some(name) = known.get(&row.facts.cwd) {
            return name.clone();
        }
        let name = plain_line(&self.app.paths.short(&row.cwd()), 60);
        known.insert(row.facts.cwd.clone(), name.clone());
        name
    }

    pub fn when(&self, row: &Row) -> String {
        age(row.last(), self.now)
    }

    fn table(&self, paint: Paint, rows: &[&Row], all: bool) -> String {
        let columns = crate::sys::terminal::size().map_or(160, |(columns, _)| usize::from(columns));
        let mut cells: Vec<Vec<String>> = rows
            .iter()
            .map(|row| {
                let mut cells = vec![
                    row.source.id.short().to_owned(),
                    self.when(row),
                    row.begun().map_or_else(String::new, |begun| age(begun, row.last())),
                    row.facts.tokens.map_or_else(String::new, tokens),
                    state(paint, row),
                    self.arrows(row),
                ];
                if all {
                    cells.push(self.project(row));
                }
                cells
            })
            .collect();
        let used: usize = (0..cells[0].len())
            .map(|n| cells.iter().map(|row| row[n].chars().count()).max().unwrap_or(0).max(6) + 2)
            .sum();
        let room = columns.saturating_sub(used).max(30);
        for (cells, row) in cells.iter_mut().zip(rows) {
            let mark = match (row.state(), self.hindrances.of(row)) {
                (State::Running(_), _) => paint.green("> "),
                (_, Some(_)) => paint.dim("- "),
                _ => "  ".to_owned(),
            };
            cells.push(mark + &plain_line(&self.title(row), room.saturating_sub(2)));
        }
        let mut head = vec!["ID", "AGE", "LONG", "TOKENS", "STATE", "HANDOFFS"];
        if all {
            head.push("PROJECT");
        }
        head.push("  ABOUT");
        table(paint, &head, &cells)
    }

    /// `1→2`: handoffs in and out.
    fn arrows(&self, row: &Row) -> String {
        let Some([before, after]) = self.handoffs.get(&row.source.id) else { return String::new() };
        let count = |list: &[&str]| if list.is_empty() { String::new() } else { list.len().to_string() };
        format!("{}→{}", count(before), count(after))
    }

    pub fn json(&self, row: &Row) -> Value {
        let (state, reason) = match row.state() {
            State::Running(_) => ("running", None),
            State::Died => ("died", None),
            State::Left => ("left", None),
            State::Ended(reason) => ("ended", Some(reason)),
        };
        let hindrance = self.hindrances.of(row);
        let [before, after] = self.handoffs.get(&row.source.id).cloned().unwrap_or_default();
        let facts = &row.facts;
        json!({
            "id": row.source.id,
            "provider": row.provider(),
            "title": self.title(row),
            "project": facts.cwd,
            "branch": facts.branch,
            "agent": row.known.as_ref().map(|k| &k.agent),
            "begun": row.begun(),
            "last": row.last(),
            "seconds": row.begun().map(|begun| row.last().duration_since(begun).as_secs().max(0)),
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

/// How a conversation stands or ended, in a word or two.
pub fn state(paint: Paint, row: &Row) -> String {
    let words = |text: &str| match row.facts.ending {
        Ending::Answered | Ending::Unknown => text.to_owned(),
        ending => format!("{text}, {}", ending.as_str()),
    };
    match row.state() {
        State::Running(_) => paint.green("running"),
        State::Died => paint.red("died"),
        State::Ended(reason) => match reason.as_str() {
            "prompt_input_exit" => words("exit"),
            "other" => words("ended"),
            reason => words(&plain_line(reason, 20)),
        },
        State::Left => match row.facts.ending {
            Ending::Answered => "done".to_owned(),
            Ending::Unknown => String::new(),
            ending => paint.yellow(ending.as_str()),
        },
    }
}
