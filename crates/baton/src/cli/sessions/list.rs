//! `baton sessions list`: one row for each conversation.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::fmt::Write as _;
use std::rc::Rc;

use baton_core::ids::SessionId;
use baton_core::plain::{plain_line, put_line};
use baton_core::transcript::summary::Ending;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::args::WhoseArgs;
use super::super::screen::{
    Paint, Table, age, pad, page, print, print_json, put_age, put_number, put_tokens,
};
use super::super::{App, Outcome};
use super::resume::{Folder, Hindrances};
use super::{Look, Scope, read, say_skipped};
use crate::sessions::catalogue::{State, Titles};
use crate::sessions::{Catalogue, QuickMap, Row};

pub fn run(app: &App, whose: &WhoseArgs, limit: usize, look: Look) -> anyhow::Result<Outcome> {
    crate::sys::arena::make_room();
    let catalogue = read(app);
    let scope = Scope::new(app, whose)?;
    let limit = if limit == 0 { usize::MAX } else { limit };
    let wanted: Vec<&Row> = catalogue.rows().filter(|row| scope.holds(row)).collect();
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
    titles: OnceCell<Titles<'c>>,
    /// How many handoffs went into and came out of each session.
    counts: QuickMap<&'c SessionId, [u32; 2]>,
    /// Which they were; few ask.
    handoffs: OnceCell<QuickMap<&'c SessionId, [Vec<&'c str>; 2]>>,
    hindrances: Hindrances<'c>,
    now: Timestamp,
}

impl<'c> Telling<'c> {
    pub fn new(app: &'c App, catalogue: &'c Catalogue) -> Self {
        let mut counts: QuickMap<&SessionId, [u32; 2]> = QuickMap::default();
        counts.reserve(catalogue.links.len());
        for link in &catalogue.links {
            counts.entry(&link.from).or_default()[1] += 1;
            if let Some(to) = &link.to {
                counts.entry(to).or_default()[0] += 1;
            }
        }
        let (hindrances, now) = (Hindrances::new(app), Timestamp::now());
        Self { catalogue, titles: OnceCell::new(), counts, handoffs: OnceCell::new(), hindrances, now }
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
        let shape = Shape { paint, columns, project: terminal.map_or(usize::MAX, |columns| columns / 4) };
        let (table, ends) = self.cells(shape, rows);
        let mut used: usize = table.widths().iter().map(|width| width + 2).sum();
        let project = ends.projects.iter().map(|it| it.width).max().unwrap_or(0).max(PROJECT.len());
        if all {
            used += project + 2;
        }
        let room = columns.saturating_sub(used).max(12).saturating_sub(2);
        // A line is so long, but for characters of several bytes.
        let line = used + 2 + room + 8;
        table.finish(paint, rows.len() * line, |out, row| {
            let (name, width) = match row {
                None => (PROJECT, PROJECT.len()),
                Some(n) => {
                    let it = &ends.projects[ends.rows[n].1];
                    (it.name.as_str(), it.width)
                }
            };
            if all {
                out.push_str(name);
                pad(out, project - width + 2);
            }
            match row {
                None => out.push_str("  ABOUT"),
                Some(n) => self.put_about(out, shape, rows[n], ends.rows[n].0, room),
            }
        })
    }

    /// The cells of each row, and what stands behind them.
    fn cells(&self, shape: Shape, rows: &[&Row]) -> (Table<'static>, Ends) {
        let mut table = Table::new(shape.head());
        table.reserve(rows.len());
        let mut ends = Ends { projects: Vec::new(), rows: Vec::with_capacity(rows.len()) };
        // Rows share the texts of the few folders, so that where one lies tells which it is.
        let mut folders = QuickMap::default();
        for row in rows {
            let now = row.state();
            table.text.push_str(row.source.id.short());
            table.end_plain_cell();
            put_age(&mut table.text, row.last(), self.now);
            table.end_plain_cell();
            if shape.is_wide() {
                if let Some(begun) = row.begun() {
                    put_age(&mut table.text, begun, row.last());
                }
                table.end_plain_cell();
            }
            if let Some(count) = row.facts.tokens {
                put_tokens(&mut table.text, count);
            }
            table.end_plain_cell();
            put_state(&mut table.text, shape.paint, row, &now);
            table.end_cell();
            if shape.is_wide() {
                self.put_arrows(&mut table.text, row);
                table.end_cell();
            }
            let cwd = row.facts.cwd;
            let project = *folders.entry((cwd.as_ptr(), cwd.len())).or_insert_with(|| {
                let folder = self.hindrances.folder(row);
                let name = end_of(&folder.name, shape.project).into_owned();
                ends.projects.push(Project { width: name.chars().count(), name, folder });
                ends.projects.len() - 1
            });
            let mark = match now {
                State::Running(_) => Mark::Running,
                _ if ends.projects[project].folder.hinders(row).is_some() => Mark::Hindered,
                _ => Mark::None,
            };
            ends.rows.push((mark, project));
        }
        (table, ends)
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
        let Some([before, after]) = self.counts.get(&row.source.id) else { return };
        for (count, arrow) in [(before, "→"), (after, "")] {
            if *count > 0 {
                put_number(out, u64::from(*count));
            }
            out.push_str(arrow);
        }
    }

    /// The handoffs into a session, and those out of it.
    fn handoffs(&self, row: &Row) -> [Vec<&'c str>; 2] {
        let handoffs = self.handoffs.get_or_init(|| {
            let mut handoffs: QuickMap<&SessionId, [Vec<&str>; 2]> = QuickMap::default();
            for link in &self.catalogue.links {
                handoffs.entry(&link.from).or_default()[1].push(link.handoff);
                if let Some(to) = &link.to {
                    handoffs.entry(to).or_default()[0].push(link.handoff);
                }
            }
            handoffs
        });
        handoffs.get(&row.source.id).cloned().unwrap_or_default()
    }

    pub fn json(&self, row: &Row) -> Value {
        let (state, reason) = match row.state() {
            State::Running(_) => ("running", None),
            State::Died => ("died", None),
            State::Left => ("left", None),
            State::Ended(reason) => ("ended", Some(reason)),
        };
        let hindrance = self.hindrances.of(row);
        let [before, after] = self.handoffs(row);
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
        if self.is_wide() {
            &["ID", "AGE", "LONG", "TOKENS", "STATE", "HANDOFFS"]
        } else {
            &["ID", "AGE", "TOKENS", "STATE"]
        }
    }
}

const PROJECT: &str = "PROJECT";

/// What stands behind the cells of a row: its project, and how its title is marked.
struct Ends {
    projects: Vec<Project>,
    /// With the number of the project.
    rows: Vec<(Mark, usize)>,
}

struct Project {
    folder: Rc<Folder>,
    /// As it is shown here.
    name: String,
    width: usize,
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
