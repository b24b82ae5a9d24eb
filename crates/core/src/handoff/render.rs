//! The whole document: the agent's narrative first if there is one, then everything that the ledger holds.

use super::entries::{Section, entries};
use super::pack::assemble;
use super::verify;
use crate::ledger::Ledger;

/// The body of a handoff, without the header comments. Claims of the narrative that the ledger does not support
/// are marked.
pub fn render(ledger: &Ledger, narrative: Option<&str>) -> String {
    let entries = entries(ledger, usize::MAX / 2);
    let chosen: Vec<(usize, usize)> = (0..entries.list.len()).map(|i| (i, 0)).collect();
    let facts = assemble(&entries, &chosen);
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

/// Goal and now for a checkpoint: the first request and what is being done, each in one sentence of the user.
pub fn goal_and_now(ledger: &Ledger) -> Option<(String, String)> {
    let first = ledger.words.first.as_ref()?;
    let latest = ledger.words.latest().unwrap_or(first);
    let sentence = |text: &str| crate::ledger::text::sentences(text).next().unwrap_or_default().to_owned();
    let doing = ledger.todos.open().find(|t| t.status == crate::transcript::TodoStatus::InProgress);
    Some((sentence(&first.text), doing.map_or_else(|| sentence(&latest.text), |task| task.text.clone())))
}

/// Whether a section exists at all is decided by its entries; this is their order.
pub(super) fn sections() -> [Section; 15] {
    use Section::{
        Agents, Blockers, Commands, Done, Errors, Files, Git, Goal, Mentions, Next, Notes, Now, Read, Tried,
        Words,
    };
    [
        Notes, Goal, Now, Words, Next, Blockers, Git, Files, Commands, Tried, Done, Agents, Errors, Read,
        Mentions,
    ]
}
