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
        let lines = tree(&agents).into_iter().map(|(n, branch)| rows[n].tree_line(&branch, paint));
        print(&lines.chain(app.unread().map(|line| line + "\n")).collect::<String>())?;
        return Ok(Outcome::Done);
    }
    let cells: Vec<_> = tree(&agents).into_iter().map(|(n, branch)| rows[n].cells(&branch, paint)).collect();
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

/// Tree order: each agent after its parent, with the branch before its name. A missing parent or a cycle makes roots.
fn tree(agents: &[&Agent]) -> Vec<(usize, String)> {
    let names: BTreeSet<&AgentId> = agents.iter().map(|a| &a.id).collect();
    let mut order = Vec::new();
    let mut seen = BTreeSet::new();
    let is_root = |a: &Agent| a.parent.as_ref().is_none_or(|p| !names.contains(p));
    for n in (0..agents.len()).filter(|n| is_root(agents[*n])).chain(0..agents.len()) {
        descend(agents, n, "", "", &mut seen, &mut order);
    }
    order
}

fn descend(
    agents: &[&Agent],
    n: usize,
    under: &str,
    branch: &str,
    seen: &mut BTreeSet<usize>,
    order: &mut Vec<(usize, String)>,
) {
    if !seen.insert(n) {
        return;
    }
    order.push((n, format!("{under}{branch}")));
    let is_child = |c: &usize| !seen.contains(c) && agents[*c].parent.as_ref() == Some(&agents[n].id);
    let children: Vec<usize> = (0..agents.len()).filter(is_child).collect();
    let under = match branch {
        "" => String::new(),
        "└ " => format!("{under}  "),
        _ => format!("{under}│ "),
    };
    for child in &children {
        let branch = if Some(child) == children.last() { "└ " } else { "├ " };
        descend(agents, *child, &under, branch, seen, order);
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
            agent("z", Some("a")),
        ];
        let refs: Vec<&Agent> = agents.iter().collect();
        let told: Vec<String> =
            tree(&refs).into_iter().map(|(n, branch)| format!("{branch}{}", refs[n].id)).collect();
        assert_eq!(told, ["a", "├ c", "│ └ b", "└ z", "d", "x", "└ y"]);
    }
}
