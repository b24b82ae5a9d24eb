//! The whole document: the agent's narrative first if there is one, then everything that the ledger holds.

use super::entries::entries;
use super::pack::{Selection, assemble};
use super::verify;
use crate::ledger::Ledger;
use crate::transcript::TodoStatus;

/// The body of a handoff, without the header comments. Claims of the narrative that the ledger does not support
/// are marked.
pub fn render(ledger: &Ledger, narrative: Option<&str>) -> String {
    let entries = entries(ledger, usize::MAX / 2);
    let facts = assemble(&entries, &Selection::everything(&entries));
    match narrative.map(str::trim).filter(|n| !n.is_empty()) {
        Some(narrative) => format!("{}\n\n{FACTS}\n\n{facts}", verify::mark(narrative, ledger)),
        None => facts,
    }
}

/// Between the agent's words and the facts.
pub(super) const FACTS: &str = "# What the transcript shows";

/// The agent's own words in a sealed body, between the lines about the session and the facts.
pub fn narrative_of(body: &str) -> Option<&str> {
    let (before, _) = body.split_once(FACTS)?;
    let about = before.find("**Session:**")?;
    let (_, words) = before[about..].split_once("\n\n")?;
    Some(words.trim()).filter(|w| !w.is_empty())
}

/// Goal and now for a checkpoint: the first request and the current work, each as one sentence of the user.
pub fn goal_and_now(ledger: &Ledger) -> Option<(String, String)> {
    let first = ledger.words.first.as_ref()?;
    let latest = ledger.words.latest().unwrap_or(first);
    let sentence = |text: &str| crate::ledger::text::sentences(text).next().unwrap_or_default().to_owned();
    let doing = ledger.todos.open().find(|t| t.status == TodoStatus::InProgress);
    Some((sentence(&first.text), doing.map_or_else(|| sentence(&latest.text), |task| task.text.clone())))
}
