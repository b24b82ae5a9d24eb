//! `baton sessions list`: one row for each conversation.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::OnceLock;

use baton_core::ids::SessionId;
use baton_core::plain::{plain_line, put_line};
use baton_core::transcript::summary::Ending;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::args::WhoseArgs;
use super::super::screen::{Paint, Table, age, page, print, print_json, put_age, put_number, put_tokens};
use super::super::{App, Outcome};
use super::resume::Hindrances;
use super::{Look, Scope, read, say_skipped};
use crate::sessions::catalogue::{State, Titles};
use crate::sessions::{Catalogue, QuickMap, Row, on_threads, parts};

pub fn run(app: &App, whose: &WhoseArgs, limit: usize, look: Look) -> anyhow::Result<Outcome> {
    crate::sys::arena::make_room();
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
    drop(telling);
    // The process ends: nobody has use for the memory of thousands of rows.
    std::mem::forget(catalogue);
    Ok(Outcome::Done)
}

/// What is needed to tell of rows.
pub struct Telling<'c> {
    catalogue: &'c Catalogue,
    titles: OnceLock<Titles<'c>>,
    /// Handoffs into and out of each session.
    handoffs: QuickMap<&'c SessionId, [Vec<&'c str>; 2]>,
    hindrances: Hindrances<'c>,
    now: Timestamp,
}

impl<'c> Telling<'c> {
    pub fn new(app: &'c App, catalogue: &'c Catalogue) -> Self {
        let mut handoffs: QuickMap<&SessionId, [Vec<&str>; 2]> = QuickMap::default();
        for link in &catalogue.links {
            handoffs.entry(&link.from).or_default()[1].push(link.handoff);
            if let Some(to) = &link.to {
                handoffs.entry(to).or_default()[0].push(link.handoff);
            }
        }
        let hindrances = Hindrances::new(app);
        Self { catalogue, titles: OnceLock::new(), handoffs, hindrances, now: Timestamp::now() }
    }

    pub fn title(&self, row: &Row) -> String {
        let (mark, title) = self.title_of(row);
        format!("{mark}{title}")
    }

    /// With what stands before it.
    fn title_of<'a>(&'a self, row: &'a Row) -> (&'static str, &'a str) {
        let (mark, title) = if row.facts.continued {
            ("↳ ", self.titles.get_or_init(|| Titles::new(self.catalogue)).of(row))
        } else {
            ("", row.facts.title)
        };
        (mark, if title.is_empty() { "(nothing was asked)" } else { title })
    }

    /// Its folder, as people write it.
    pub fn project(&self, row: &Row) -> String {
        self.hindrances.folder(row).name.clone()
    }

    pub fn when(&self, row: &Row) -> String {
        age(row.last(), self.now)
    }

    fn table(&self, paint: Paint, rows: &[&Row], all: bool) -> String {
        let terminal = crate::sys::terminal::size().map(|(columns, _)| usize::from(columns));
        let columns = terminal.unwrap_or(160);
        // Whoever reads it from a pipe wants the names whole.
        let shape =
            Shape { paint, all, columns, project: terminal.map_or(usize::MAX, |columns| columns / 4) };
        let mut parts = on_threads(parts(rows.to_vec()), |rows| self.part(shape, rows));
        for n in 1..parts.len() {
            let widths = parts[n].table.widths().to_vec();
            parts[0].table.widen(&widths);
        }
        let Some(first) = parts.first() else { return String::new() };
        let mut out = first.table.heading(paint, |out| out.push_str("  ABOUT"));
        let widths = first.table.widths().to_vec();
        let used: usize = widths.iter().map(|width| width + 2).sum();
        let room = columns.saturating_sub(used).max(12).saturating_sub(2);
        let finished = on_threads(parts, |mut part| {
            part.table.widen(&widths);
            part.table.rows(|out, n| self.put_about(out, shape, part.rows[n], part.marks[n], room))
        });
        for text in finished {
            out.push_str(&text);
        }
        out
    }

    /// The cells of some of the rows.
    fn part<'r>(&self, shape: Shape, rows: Vec<&'r Row>) -> Part<'r> {
        let Shape { paint, all, .. } = shape;
        let mut table = Table::new(shape.head());
        table.reserve(rows.len());
        let mut marks = Vec::with_capacity(rows.len());
        // Of a few folders: each thread asks once for each, and then no other waits for it.
        let mut folders = QuickMap::default();
        for row in &rows {
            let now = row.state();
            table.text.push_str(row.source.id.short());
            table.end_cell();
            put_age(&mut table.text, row.last(), self.now);
            table.end_cell();
            if shape.is_wide() {
                if let Some(begun) = row.begun() {
                    put_age(&mut table.text, begun, row.last());
                }
                table.end_cell();
            }
            if let Some(count) = row.facts.tokens {
                put_tokens(&mut table.text, count);
            }
            table.end_cell();
            put_state(&mut table.text, paint, row, &now);
            table.end_cell();
            if shape.is_wide() {
                self.put_arrows(&mut table.text, row);
                table.end_cell();
            }
            let folder = folders.entry(row.facts.cwd).or_insert_with(|| self.hindrances.folder(row));
            if all {
                table.text.push_str(&end_of(&folder.name, shape.project));
                table.end_cell();
            }
            marks.push(match now {
                State::Running(_) => Mark::Running,
                _ if folder.hinders(row).is_some() => Mark::Hindered,
                _ => Mark::None,
            });
        }
        Part { rows, table, marks }
    }

    fn put_about(&self, out: &mut String, shape: Shape, row: &Row, mark: Mark, room: usize) {
        match mark {
            Mark::Running => out.push_str(&shape.paint.green("> ")),
            Mark::Hindered => out.push_str(&shape.paint.dim("- ")),
            Mark::None => out.push_str("  "),
        }
        let (mark, title) = self.title_of(row);
        if mark.is_empty() {
            put_line(out, title, room);
        } else {
            put_line(out, &format!("{mark}{title}"), room);
        }
    }

    /// `1→2`: handoffs in and out.
    fn put_arrows(&self, out: &mut String, row: &Row) {
        let Some([before, after]) = self.handoffs.get(&row.source.id) else { return };
        for (list, arrow) in [(before, "→"), (after, "")] {
            if !list.is_empty() {
                put_number(out, list.len() as u64);
            }
            out.push_str(arrow);
        }
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
            "agent": row.known().map(|k| &k.agent),
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
            "transcript": row.source.path(),
            "mirror": row.source.is_mirrored(),
            "bytes": row.source.stamp.size,
        })
    }
}

/// What of the table is shown, and how.
#[derive(Clone, Copy)]
struct Shape {
    paint: Paint,
    /// Of all projects: each row names its own.
    all: bool,
    columns: usize,
    /// Widest name of a project.
    project: usize,
}

impl Shape {
    /// In a narrow terminal the title needs the room of what is asked for less.
    fn is_wide(self) -> bool {
        self.columns >= 100
    }

    fn head(self) -> &'static [&'static str] {
        let all: &[&str] = if self.is_wide() {
            &["ID", "AGE", "LONG", "TOKENS", "STATE", "HANDOFFS", "PROJECT"]
        } else {
            &["ID", "AGE", "TOKENS", "STATE", "PROJECT"]
        };
        &all[..all.len() - usize::from(!self.all)]
    }
}

/// Some rows of the table.
struct Part<'r> {
    rows: Vec<&'r Row>,
    table: Table<'static>,
    marks: Vec<Mark>,
}

/// The end of a path tells most.
pub fn end_of(path: &str, room: usize) -> Cow<'_, str> {
    match path.chars().count().checked_sub(room.max(8)) {
        None | Some(0) => Cow::Borrowed(path),
        Some(over) => Cow::Owned(std::iter::once('…').chain(path.chars().skip(over + 1)).collect()),
    }
}

/// What stands before a title.
#[derive(Clone, Copy)]
enum Mark {
    Running,
    Hindered,
    None,
}

/// How a conversation stands or ended, in a word or two.
pub fn state(paint: Paint, row: &Row) -> String {
    let mut out = String::new();
    put_state(&mut out, paint, row, &row.state());
    out
}

fn put_state(out: &mut String, paint: Paint, row: &Row, state: &State) {
    match state {
        State::Running(_) => out.push_str(&paint.green("running")),
        State::Died => out.push_str(&paint.red("died")),
        State::Ended(reason) => {
            match *reason {
                "prompt_input_exit" => out.push_str("exit"),
                "other" => out.push_str("ended"),
                reason => out.push_str(&plain_line(reason, 20)),
            }
            if !matches!(row.facts.ending, Ending::Answered | Ending::Unknown) {
                let _ = write!(out, ", {}", row.facts.ending.as_str());
            }
        }
        State::Left => match row.facts.ending {
            Ending::Answered => out.push_str("done"),
            Ending::Unknown => {}
            ending => out.push_str(&paint.yellow(ending.as_str())),
        },
    }
}
