//! `baton sessions tree`: chains of sessions, and the handoffs that carried the work from one to the next.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use baton_core::ids::SessionId;
use baton_core::plain::plain_line;
use serde_json::{Value, json};

use crate::cli::args::ConversationScope;
use crate::cli::sessions::list::{Listing, state};
use crate::cli::sessions::{Output, find, read, scope};
use crate::cli::ui::{Paint, page, print, print_json};
use crate::cli::{App, Outcome};
use crate::history::Catalogue;
use crate::history::links::HandoffLink;

pub(super) fn run(
    app: &App,
    id: Option<&str>,
    whose: &ConversationScope,
    output: Output,
) -> anyhow::Result<Outcome> {
    let catalogue = read(app);
    let scope = scope(app, whose)?;
    let chains = Chains::new(app, &catalogue);
    let roots: Vec<&SessionId> = if let Some(id) = id {
        let Some(row) = find(&catalogue, id) else { return Ok(Outcome::Nothing) };
        vec![chains.root_of(&row.source.id)]
    } else {
        let rows = catalogue.rows.iter().filter(|row| scope.contains(row));
        let mut seen = HashSet::new();
        rows.map(|row| chains.root_of(&row.source.id))
            .filter(|root| chains.next.contains_key(*root) && seen.insert(*root))
            .collect()
    };
    let listing = Listing::new(app, &catalogue);
    if output.json {
        let lines: Vec<Value> = roots.iter().map(|root| chains.json(&listing, root)).collect();
        print_json(&lines)?;
        return Ok(Outcome::Done);
    }
    if roots.is_empty() {
        print(&format!("No session of {} has been handed over yet.\n", scope.name()))?;
        return Ok(Outcome::Nothing);
    }
    let paint = Paint::stdout();
    let out: Vec<String> = roots.iter().map(|root| chains.draw(&listing, root, paint)).collect();
    page(&out.join("\n"), output.paged)?;
    Ok(Outcome::Done)
}

/// How the work passed from one session to the next.
#[derive(Debug, Clone, Copy)]
struct ChainLink<'c> {
    /// The handoff; without one the agent just started over.
    by: Option<&'c HandoffLink>,
    /// The next session; `None` if the handoff still waits for one.
    to: Option<&'c SessionId>,
}

pub(super) struct Chains<'c> {
    catalogue: &'c Catalogue,
    next: HashMap<&'c SessionId, Vec<ChainLink<'c>>>,
    before: HashMap<&'c SessionId, &'c SessionId>,
}

impl<'c> Chains<'c> {
    pub(super) fn new(app: &App, catalogue: &'c Catalogue) -> Self {
        let mut next: HashMap<&SessionId, Vec<ChainLink<'_>>> = HashMap::new();
        let mut before = HashMap::new();
        let mut links: Vec<&HandoffLink> = catalogue.links.iter().collect();
        links.sort_by_key(|link| (link.at, &link.handoff));
        for link in links {
            // After a compaction the same session continues.
            let to = link.to.as_ref().filter(|to| **to != link.from);
            let known = to.is_some_and(|to| before.contains_key(to));
            if link.to.is_some() && (to.is_none() || known) {
                continue;
            }
            // A cleared or expired handoff leads nowhere.
            if link.to.is_none() && link.status != "active" {
                continue;
            }
            next.entry(&link.from).or_default().push(ChainLink { by: Some(link), to });
            if let Some(to) = to {
                before.insert(to, &link.from);
            }
        }
        // Sessions that an agent began without a handoff.
        let ids: HashMap<&str, &SessionId> =
            catalogue.rows.iter().map(|row| (row.source.id.as_str(), &row.source.id)).collect();
        for agent in app.store().agents().all() {
            for pair in agent.sessions.windows(2) {
                let (Some(from), Some(to)) = (ids.get(pair[0].as_str()), ids.get(pair[1].as_str())) else {
                    continue;
                };
                if from != to && !before.contains_key(to) {
                    next.entry(from).or_default().push(ChainLink { by: None, to: Some(to) });
                    before.insert(*to, *from);
                }
            }
        }
        Self { catalogue, next, before }
    }

    /// Where the chain of `id` begins. Damaged files may form a cycle, which begins anywhere.
    pub(super) fn root_of<'s>(&'s self, id: &'c SessionId) -> &'c SessionId {
        let mut at = id;
        let mut seen = HashSet::from([id]);
        while let Some(before) = self.before.get(at).copied() {
            if !seen.insert(before) {
                break;
            }
            at = before;
        }
        at
    }

    /// Every session of the chain with the step that led to it and its depth, which grows only at branches.
    fn walk(&self, root: &'c SessionId) -> Vec<(usize, Option<ChainLink<'c>>, Option<&'c SessionId>)> {
        let mut out = Vec::new();
        let mut seen = HashSet::new();
        let mut stack = vec![(0, None, Some(root))];
        while let Some((depth, step, id)) = stack.pop() {
            out.push((depth, step, id));
            let Some(id) = id.filter(|id| seen.insert(*id)) else { continue };
            let steps = self.next.get(id).map_or(&[][..], Vec::as_slice);
            let deeper = depth + usize::from(steps.len() > 1);
            stack.extend(steps.iter().rev().map(|step| (deeper, Some(*step), step.to)));
        }
        out
    }

    fn draw(&self, listing: &Listing<'_>, root: &'c SessionId, paint: Paint) -> String {
        let mut out = String::new();
        let by_id = self.catalogue.by_id();
        for (depth, step, id) in self.walk(root) {
            let indent = "  ".repeat(depth.min(20));
            if let Some(step) = step {
                let by = step.by.map_or_else(
                    || "began again".to_owned(),
                    |link| {
                        format!(
                            "{} {} {}",
                            link.handoff,
                            plain_line(&link.kind, 20),
                            plain_line(&link.status, 20)
                        )
                    },
                );
                let _ = writeln!(out, "{indent}└─ {}", paint.dim(&by));
            }
            let Some(id) = id else { continue };
            let line = match by_id.get(id) {
                Some(row) => {
                    let agent = row
                        .record
                        .as_ref()
                        .map_or_else(String::new, |r| format!(" {}", plain_line(&r.agent, 40)));
                    let title = plain_line(&listing.title(row), 100);
                    let state = state(paint, row);
                    format!("{}{agent}  {}  {state}  {title}", paint.yellow(id.short()), listing.age(row))
                }
                None => format!("{}  {}", paint.yellow(id.short()), paint.dim("its transcript is gone")),
            };
            let _ = writeln!(out, "{indent}{line}");
        }
        out
    }

    /// The steps of one chain, in drawing order.
    fn json(&self, listing: &Listing<'_>, root: &'c SessionId) -> Value {
        let by_id = self.catalogue.by_id();
        let steps = self.walk(root).into_iter().map(|(depth, step, id)| {
            let link = step.and_then(|s| s.by);
            json!({
                "session": id,
                "from": link.map(|l| &l.from),
                "handoff": link.map(|l| json!({ "id": l.handoff, "type": l.kind, "status": l.status })),
                "depth": depth,
                "about": id.and_then(|id| by_id.get(id)).map(|row| listing.json(row)),
            })
        });
        Value::Array(steps.collect())
    }
}
