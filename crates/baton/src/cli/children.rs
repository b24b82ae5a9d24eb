//! `baton children [AGENT]`: the agents that an agent has spawned.

use crate::cli::args::ChildrenArgs;
use crate::cli::status::{HEAD, Row};
use crate::cli::ui::{Paint, print, print_json, table_ranked};
use crate::cli::{App, Outcome, agents};

pub(super) fn run(app: &App, args: &ChildrenArgs) -> anyhow::Result<Outcome> {
    let parent = match &args.agent {
        Some(id) => Some(app.store().agents().name_now(id)?),
        None => app.current_session()?.map(|session| session.agent),
    };
    let Some(parent) = parent else {
        eprintln!("baton: name the agent whose children you want; `baton agents` lists them");
        return Ok(Outcome::Usage);
    };
    let rows: Vec<_> = agents::rows(app, args.all)
        .into_iter()
        .filter(|row| row.agent().parent.as_ref() == Some(&parent))
        .collect();
    if args.json {
        print_json(&rows.iter().map(Row::json).collect::<Vec<_>>())?;
        return Ok(if rows.is_empty() { Outcome::Nothing } else { Outcome::Done });
    }
    if rows.is_empty() {
        print(&format!("{parent} has no children.\n"))?;
        return Ok(Outcome::Nothing);
    }
    let paint = Paint::stdout();
    let cells: Vec<_> = rows.iter().map(|row| row.cells("", paint)).collect();
    print(&table_ranked(paint, HEAD, &cells))?;
    Ok(Outcome::Done)
}
