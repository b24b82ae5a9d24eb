//! The order of the list: agents that need a person first, then the others as a tree of parents and children.

use std::collections::{BTreeMap, BTreeSet};

use crate::tui::model::{Filter, is_over};
use crate::views::agent::AgentView;

/// One row of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TreeRow {
    pub id: String,
    /// What precedes the name: the branches of the tree, or the parent's name.
    pub prefix: String,
}

/// The agents that pass the filter, in display order.
pub(crate) fn rows(agents: &BTreeMap<String, AgentView>, filter: &Filter) -> Vec<TreeRow> {
    let listed: BTreeMap<&str, &AgentView> =
        agents.values().filter(|agent| filter.lets(agent)).map(|agent| (agent.id.as_str(), agent)).collect();
    let mut needing: Vec<&AgentView> = listed.values().copied().filter(|a| a.needs_person()).collect();
    needing.sort_by_key(|agent| (agent.needs.as_ref().map(|need| need.since), agent.id.clone()));
    let mut rows: Vec<TreeRow> = needing
        .iter()
        .map(|agent| {
            let prefix = agent.parent.as_ref().map_or_else(String::new, |parent| format!("{parent}/"));
            TreeRow { id: agent.id.clone(), prefix }
        })
        .collect();
    let calm: Vec<&AgentView> = listed.values().copied().filter(|a| !a.needs_person()).collect();
    let mut children: BTreeMap<&str, Vec<&AgentView>> = BTreeMap::new();
    let mut roots = Vec::new();
    let names: BTreeSet<&str> = calm.iter().map(|agent| agent.id.as_str()).collect();
    for agent in &calm {
        match agent.parent.as_deref().filter(|parent| names.contains(parent) && *parent != agent.id) {
            Some(parent) => children.entry(parent).or_default().push(agent),
            None => roots.push(*agent),
        }
    }
    // Ended agents last, then by name, so that rows stay where they are.
    roots.sort_by_key(|agent| (is_over(agent), agent.id.as_str()));
    let mut seen = BTreeSet::new();
    for root in &roots {
        descend(root, "", "", &children, &mut seen, &mut rows);
    }
    // A cycle of parents has no root.
    for agent in calm {
        descend(agent, "", "", &children, &mut seen, &mut rows);
    }
    rows
}

fn descend<'a>(
    agent: &'a AgentView,
    branch: &str,
    under: &str,
    children: &BTreeMap<&str, Vec<&'a AgentView>>,
    seen: &mut BTreeSet<&'a str>,
    rows: &mut Vec<TreeRow>,
) {
    if !seen.insert(&agent.id) {
        return;
    }
    rows.push(TreeRow { id: agent.id.clone(), prefix: format!("{under}{branch}") });
    let below = children.get(agent.id.as_str()).map(Vec::as_slice).unwrap_or_default();
    let under = match branch {
        "" => String::new(),
        "└ " => format!("{under}  "),
        _ => format!("{under}│ "),
    };
    for (n, child) in below.iter().enumerate() {
        let branch = if n + 1 == below.len() { "└ " } else { "├ " };
        descend(child, branch, &under, children, seen, rows);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::samples::{agent, needing};

    fn listed(agents: Vec<AgentView>, filter: &Filter) -> Vec<String> {
        let agents = agents.into_iter().map(|agent| (agent.id.clone(), agent)).collect();
        rows(&agents, filter).into_iter().map(|row| format!("{}{}", row.prefix, row.id)).collect()
    }

    #[test]
    fn agents_that_need_a_person_come_first_and_the_others_below_their_parents() {
        let child = |id: &str, parent: &str| AgentView { parent: Some(parent.into()), ..agent(id) };
        let ended = AgentView { state: "ended".into(), ..agent("a-old") };
        let later = needing(child("tests", "lead"), "permission", "asks", 50);
        let earlier = needing(agent("porter"), "limit", "limit", 90);
        let all = vec![
            ended,
            agent("lead"),
            child("docs", "lead"),
            child("fixer", "lead"),
            child("deep", "docs"),
            later,
            earlier,
            agent("app"),
        ];
        assert_eq!(
            listed(all.clone(), &Filter::default()),
            ["porter", "lead/tests", "app", "lead", "├ docs", "│ └ deep", "└ fixer", "a-old"]
        );
        let filter = Filter { text: "DOC".into(), ..Filter::default() };
        assert_eq!(listed(all, &filter), ["docs"]);
        let circle = vec![child("x", "y"), child("y", "x")];
        assert_eq!(listed(circle, &Filter::default()), ["x", "└ y"]);
    }
}
