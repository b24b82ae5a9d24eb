//! The handoff as it would be sealed now, compared with the last one.

use std::collections::HashSet;
use std::path::PathBuf;

use baton_core::agent::Agent;
use baton_core::ledger::{Ledger, TaskItem};
use baton_core::plain::{plain, plain_line};
use baton_core::redact::redact;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::handoffs::transcripts::LocatedTranscript;
use crate::store::Store;
use crate::store::handoffs::Handoffs;
use crate::views::NotShown;

/// A longer transcript is not read for a draft.
const MAX_TRANSCRIPT: u64 = 256 << 20;

/// An item that a task carries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ItemView {
    pub kind: String,
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct DraftView {
    pub document: String,
    /// The handoff that it was compared with.
    pub against: Option<String>,
    /// Items of the last handoff that this draft lacks.
    pub lacking: Vec<ItemView>,
    /// Items that this draft adds.
    pub more: Vec<ItemView>,
}

/// The handoff that would be sealed for `agent` now.
pub(crate) fn of(
    store: &Store,
    handoffs: &Handoffs,
    agent: &Agent,
    now: Timestamp,
) -> Result<DraftView, NotShown> {
    let nothing = || NotShown::Nothing(format!("{} has no conversation yet", agent.id));
    let session = agent.session.as_ref().and_then(|id| store.sessions().readable(id)).ok_or_else(nothing)?;
    let path = PathBuf::from(session.transcript.as_deref().ok_or_else(nothing)?);
    let size = std::fs::metadata(&path).map_err(|_| nothing())?.len();
    if size > MAX_TRANSCRIPT {
        return Err(NotShown::Nothing(format!(
            "its transcript has {} MB; `baton handoffs draft {}` reads it all",
            size >> 20,
            session.id
        )));
    }
    let found = LocatedTranscript { path, session: Some(session.clone()) };
    let ledger = found.ledger(store, handoffs)?;
    let document = redact(&plain(&found.body(&ledger, now))).text.trim_end().to_owned();
    let last = session.last_handoff.or(session.continues).or_else(|| agent.last_handoff.clone());
    let against = match &last {
        Some(id) => handoffs.carried(id)?,
        None => None,
    };
    let (lacking, more) = match &against {
        Some(carried) => differences(&carried.ledger, &ledger),
        None => (Vec::new(), Vec::new()),
    };
    Ok(DraftView {
        document,
        against: last.filter(|_| against.is_some()).map(|id| id.to_string()),
        lacking: items(&lacking),
        more: items(&more),
    })
}

/// Items that a task carries, one line each and without secrets.
pub(crate) fn items(items: &[TaskItem]) -> Vec<ItemView> {
    let text = |item: &TaskItem| redact(&plain_line(&item.text, 160)).text.into_owned();
    items.iter().map(|item| ItemView { kind: item.kind.as_str().to_owned(), text: text(item) }).collect()
}

/// The items that the later of two ledgers lacks, and those that it adds.
pub(crate) fn differences(earlier: &Ledger, later: &Ledger) -> (Vec<TaskItem>, Vec<TaskItem>) {
    let (before, after) = (earlier.items(), later.items());
    (without(&before, &after), without(&after, &before))
}

fn without(of: &[TaskItem], those: &[TaskItem]) -> Vec<TaskItem> {
    let known: HashSet<&str> = those.iter().map(|item| item.id.as_str()).collect();
    of.iter().filter(|item| !known.contains(item.id.as_str())).cloned().collect()
}
