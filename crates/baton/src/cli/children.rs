//! `baton children [AGENT]`: the agents that an agent has spawned.

use super::args::ChildrenArgs;
use super::screen::{Paint, print, print_json, table};
use super::{App, Outcome, agents};

pub fn run(app: &App, args: &ChildrenArgs) -> anyhow::Result<Outcome> {
    let own = || app.current_session().map(|session| session.agent);
    let Some(parent) = args.agent.clone().or_else(own) else {
        eprintln!("baton: name the agent whose children you want; `baton agents` lists them");
        return Ok(Outcome::Usage);
    };
    let rows: Vec<_> =
        agents::rows(app).into_iter().filter(|row| row.agent().parent.as_ref() == Some(&parent)).collect();
    if args.json {
        print_json(&rows.iter().map(agents::json).collect::<Vec<_>>())?;
        return Ok(if rows.is_empty() { Outcome::Nothing } else { Outcome::Done });
    }
    if rows.is_empty() {
        print(&format!("{parent} has no children.\n"))?;
        return Ok(Outcome::Nothing);
    }
    let paint = Paint::stdout();
    let cells: Vec<_> = rows.iter().map(|row| agents::cells(row, 0, paint)).collect();
    print(&table(paint, agents::HEAD, &cells))?;
    Ok(Outcome::Done)
}
