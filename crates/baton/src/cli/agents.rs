//! `baton agents`: all agents, parents before their children; `agents restore` brings back those in panes.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use baton_core::agent::Agent;
use baton_core::ids::AgentId;

use crate::cli::args::{AgentsArgs, AgentsCommand};
use crate::cli::status::{HEAD, Row, needs};
use crate::cli::ui::{Paint, print, print_json, table_ranked};
use crate::cli::{App, Outcome, fleet, restore};
use crate::mail::notify;

pub(super) fn run(app: &App, args: &AgentsArgs) -> anyhow::Result<Outcome> {
    if let Some(AgentsCommand::Restore { agents, json }) = &args.command {
        return restore::run(app, agents, *json || args.json);
    }
    if args.fleet {
        return fleet::agents(app, args.json);
    }
    let rows = rows(app, args.all);
    for row in rows.iter().filter(|row| row.has_died()) {
        let now = jiff::Timestamp::now();
        notify::death(&app.store(), row.agent(), row.session(), notify::UNSEEN, now);
    }
    if args.json {
        print_json(&rows.iter().map(Row::json).collect::<Vec<_>>())?;
        return Ok(if rows.is_empty() { Outcome::Nothing } else { Outcome::Done });
    }
    if rows.is_empty() {
        let nothing = "No agent has run today; `--all` shows those of earlier days.\n";
        print(app.not_installed().as_deref().unwrap_or(nothing))?;
        return Ok(Outcome::Nothing);
    }
    let paint = Paint::stdout();
    let agents: Vec<&Agent> = rows.iter().map(Row::agent).collect();
    if args.tree {
        let lines = tree(&agents).into_iter().map(|(n, depth)| rows[n].tree_line(depth, paint));
        print(&lines.chain(app.unread().map(|line| line + "\n")).collect::<String>())?;
        return Ok(Outcome::Done);
    }
    let cells: Vec<_> = tree(&agents).into_iter().map(|(n, depth)| rows[n].cells(depth, paint)).collect();
    let mut out = table_ranked(paint, HEAD, &cells);
    for line in needs(app, &rows) {
        let _ = writeln!(out, "{line}");
    }
    if let Some(unread) = app.unread() {
        let _ = writeln!(out, "{unread}");
    }
    print(&out)?;
    Ok(Outcome::Done)
}

/// All agents with their details; without `all`, omits those that ended more than a day ago.
pub(super) fn rows(app: &App, all: bool) -> Vec<Row> {
    let now = jiff::Timestamp::now();
    let rows = app.store().agents().all().into_iter().map(|agent| Row::of(app, agent));
    rows.filter(|row| all || !row.is_history(now)).collect()
}

/// Tree order: each agent after its parent, with its depth. A missing parent or a cycle makes roots.
fn tree(agents: &[&Agent]) -> Vec<(usize, usize)> {
    let names: BTreeSet<&AgentId> = agents.iter().map(|a| &a.id).collect();
    let mut order = Vec::new();
    let mut seen = BTreeSet::new();
    let is_root = |a: &Agent| a.parent.as_ref().is_none_or(|p| !names.contains(p));
    for n in (0..agents.len()).filter(|n| is_root(agents[*n])).chain(0..agents.len()) {
        descend(agents, n, 0, &mut seen, &mut order);
    }
    order
}

fn descend(
    agents: &[&Agent],
    n: usize,
    depth: usize,
    seen: &mut BTreeSet<usize>,
    order: &mut Vec<(usize, usize)>,
) {
    if !seen.insert(n) {
        return;
    }
    order.push((n, depth));
    for child in (0..agents.len()).filter(|c| agents[*c].parent.as_ref() == Some(&agents[n].id)) {
        descend(agents, child, depth + 1, seen, order);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_core::ids::ChannelName;

    fn agent(name: &str, parent: Option<&str>) -> Agent {
        let id = |n: &str| AgentId::new(n).unwrap();
        let mut agent = Agent::new(
            id(name),
            "demo",
            ChannelName::new("c").unwrap(),
            "/".into(),
            jiff::Timestamp::UNIX_EPOCH,
        );
        agent.parent = parent.map(id);
        agent
    }

    #[test]
    fn children_come_after_their_parents_and_nobody_is_left_out() {
        let agents = [
            agent("a", None),
            agent("b", Some("c")),
            agent("c", Some("a")),
            agent("d", Some("gone")),
            agent("x", Some("y")),
            agent("y", Some("x")),
        ];
        let refs: Vec<&Agent> = agents.iter().collect();
        let told: Vec<(&str, usize)> =
            tree(&refs).into_iter().map(|(n, d)| (refs[n].id.as_str(), d)).collect();
        assert_eq!(told, [("a", 0), ("c", 1), ("b", 2), ("d", 0), ("x", 0), ("y", 1)]);
    }
}
