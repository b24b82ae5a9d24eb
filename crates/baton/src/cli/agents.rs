//! `baton agents`: all of them, parents before their children; `agents restore` brings back those in panes.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use baton_core::agent::Agent;
use baton_core::ids::AgentId;

use super::args::{AgentsArgs, AgentsCommand};
use super::screen::{Paint, print, print_json, table};
use super::status::Row;
use super::{App, Outcome, restore};

pub const HEAD: &[&str] = &["AGENT", "STATE", "LEVEL", "CONTEXT", "CHANNEL", "MAIL", "BY", "PANE", "HANDOFF"];

pub fn run(app: &App, args: &AgentsArgs) -> anyhow::Result<Outcome> {
    if let Some(AgentsCommand::Restore { agents, json }) = &args.command {
        return restore::run(app, agents, *json || args.json);
    }
    let rows = rows(app);
    if args.json {
        print_json(&rows.iter().map(json).collect::<Vec<_>>())?;
        return Ok(if rows.is_empty() { Outcome::Nothing } else { Outcome::Done });
    }
    if rows.is_empty() {
        print("No agent has been seen yet.\n")?;
        return Ok(Outcome::Nothing);
    }
    let paint = Paint::stdout();
    let agents: Vec<&Agent> = rows.iter().map(Row::agent).collect();
    let cells: Vec<_> = tree(&agents).into_iter().map(|(n, depth)| cells(&rows[n], depth, paint)).collect();
    let mut out = table(paint, HEAD, &cells);
    for row in &rows {
        if let Some(why) = row.agent().waits.as_ref().filter(|_| row.is_live()) {
            let _ = writeln!(out, "{}: something waits to be typed: {why}", row.agent().id);
        }
    }
    print(&out)?;
    Ok(Outcome::Done)
}

/// Everything that is known of each agent.
pub fn rows(app: &App) -> Vec<Row> {
    app.store().agents().all().into_iter().map(|agent| Row::of(app, agent)).collect()
}

pub fn json(row: &Row) -> serde_json::Value {
    let mut json = row.json();
    json["state"] = state(row).into();
    json
}

fn state(row: &Row) -> &'static str {
    if row.is_live() { row.state() } else { "dead" }
}

pub fn cells(row: &Row, depth: usize, paint: Paint) -> Vec<String> {
    let agent = row.agent();
    let pane = agent.pane.as_ref().filter(|_| row.is_live()).map(|p| p.id.clone()).unwrap_or_default();
    let name = match depth {
        0 => agent.id.to_string(),
        depth => format!("{}└ {}", "  ".repeat(depth - 1), agent.id),
    };
    let known = row.cells(paint);
    let cell = |n: usize| known.get(n).cloned().unwrap_or_default();
    let (level, context, mail, by, handoff) = (cell(2), cell(3), cell(6), cell(7), cell(8));
    let state = state(row).to_owned();
    let state = if agent.waits.is_some() && row.is_live() { paint.yellow(&state) } else { state };
    vec![name, state, level, context, agent.channel.to_string(), mail, by, pane, handoff]
}

/// The order of a tree: each agent after its parent, with how deep it lies. A parent that is not there, or a circle,
/// makes roots.
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
