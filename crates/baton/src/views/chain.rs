//! The history of an agent's task: its sessions and the handoffs between them.

use std::collections::{BTreeMap, HashSet};

use baton_core::agent::Agent;
use baton_core::handoff::{Carried, HandoffId};
use baton_core::ids::SessionId;
use baton_core::ledger::TaskItem;
use baton_core::plain::plain;
use baton_core::redact::redact;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::store::Store;
use crate::store::handoffs::Handoffs;
use crate::sys::fs::FileError;
use crate::views::NotShown;
use crate::views::draft::{self, ItemView};

/// One context of a task: the handoff that ended it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct HopView {
    pub handoff: String,
    pub session: String,
    pub at: Timestamp,
    /// Why it was sealed: auto, manual, precompact, crash.
    #[serde(rename = "type")]
    pub kind: String,
    pub agent: String,
    /// The agent wrote it itself; otherwise baton made it from the transcript.
    pub wrote: bool,
    /// The number of items of each kind that it carried, if its record still exists.
    pub carried: Option<BTreeMap<String, usize>>,
    /// The size of its context when the session ended.
    pub tokens: Option<u64>,
}

/// One conversation of an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SessionView {
    pub id: String,
    pub started: Timestamp,
    /// startup, clear, compact, resume, fork, seen
    pub source: String,
    pub ended: Option<Timestamp>,
    pub model: Option<String>,
    pub tokens: Option<u64>,
    /// The handoff that it began with.
    pub continues: Option<String>,
    /// The newest handoff sealed from it.
    pub handoff: Option<String>,
    pub transcript_path: Option<String>,
}

/// The chain of an agent, oldest first.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct ChainView {
    pub sessions: Vec<SessionView>,
    pub hops: Vec<HopView>,
    /// The number of earlier hops.
    pub earlier: u64,
}

/// The chain of `agent`.
pub(crate) fn of(store: &Store, handoffs: &Handoffs, agent: &Agent) -> Result<ChainView, NotShown> {
    let sessions: Vec<SessionView> = agent.sessions.iter().filter_map(|id| session(store, id)).collect();
    let present = agent.session.as_ref().and_then(|id| store.sessions().readable(id));
    let newest = agent.last_handoff.clone().or_else(|| present.and_then(|session| session.continues));
    let (hops, earlier) = match newest {
        Some(id) => match handoffs.carried(&id)? {
            Some(carried) => (hops(store, handoffs, &id, &carried), carried.ledger.earlier_hops),
            None => (Vec::new(), 0),
        },
        None => (Vec::new(), 0),
    };
    Ok(ChainView { sessions, hops, earlier })
}

fn session(store: &Store, id: &SessionId) -> Option<SessionView> {
    let session = store.sessions().readable(id)?;
    let gauge = store.sessions().gauge(id);
    Some(SessionView {
        id: session.id.to_string(),
        started: session.started,
        source: session.source,
        ended: session.ended.map(|ended| ended.at),
        model: gauge.model.or(session.model),
        tokens: gauge.reading.map(|r| r.tokens),
        continues: session.continues.map(|id| id.to_string()),
        handoff: session.last_handoff.map(|id| id.to_string()),
        transcript_path: session.transcript,
    })
}

/// The handoffs up to and including `id`, oldest first.
pub(crate) fn hops(store: &Store, handoffs: &Handoffs, id: &HandoffId, last: &Carried) -> Vec<HopView> {
    let tokens = |session: &str| {
        let id = SessionId::new(session).ok()?;
        store.sessions().gauge(&id).reading.map(|r| r.tokens)
    };
    let carried = |id: &str| {
        let id = HandoffId::new(id).ok()?;
        // A missing or damaged one keeps its row; the next hop carried its contents on.
        Some(counts(&handoffs.carried(&id).unwrap_or(None)?.ledger.items()))
    };
    let mut hops: Vec<HopView> = last
        .ledger
        .hops
        .iter()
        .map(|hop| HopView {
            handoff: hop.handoff.clone(),
            session: hop.session.clone(),
            at: hop.at,
            kind: hop.kind.clone(),
            agent: hop.agent.clone().unwrap_or_default(),
            wrote: hop.wrote,
            carried: carried(&hop.handoff),
            tokens: tokens(&hop.session),
        })
        .collect();
    hops.push(HopView {
        handoff: id.to_string(),
        session: last.from.session.clone(),
        at: last.from.at,
        kind: last.from.kind.as_str().to_owned(),
        agent: last.from.agent.clone(),
        wrote: last.wrote,
        carried: Some(counts(&last.ledger.items())),
        tokens: tokens(&last.from.session),
    });
    hops
}

fn counts(items: &[TaskItem]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for item in items {
        *counts.entry(item.kind.as_str().to_owned()).or_default() += 1;
    }
    counts
}

/// The items that went from one handoff of a task to the next.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct HopItemsView {
    pub id: String,
    /// The handoff before it; without one everything is new.
    pub before: Option<String>,
    /// Items of both.
    pub carried: Vec<ItemView>,
    /// Items of the previous one that this one lacks.
    pub left: Vec<ItemView>,
    pub added: Vec<ItemView>,
}

/// The items that this handoff took over from the previous one.
pub(crate) fn hop_items(handoffs: &Handoffs, id: &HandoffId) -> Result<HopItemsView, NotShown> {
    let Some(this) = handoffs.carried(id)? else {
        return Err(NotShown::Nothing(format!("there is no record of what {id} carried")));
    };
    let before = this.ledger.hops.last().and_then(|hop| HandoffId::new(&hop.handoff).ok());
    let earlier = match &before {
        Some(before) => handoffs.carried(before)?,
        None => None,
    };
    let (left, added) = match &earlier {
        Some(earlier) => draft::differences(&earlier.ledger, &this.ledger),
        None => (Vec::new(), this.ledger.items()),
    };
    let new: HashSet<&str> = added.iter().map(|item| item.id.as_str()).collect();
    let mut carried = this.ledger.items();
    carried.retain(|item| !new.contains(item.id.as_str()));
    Ok(HopItemsView {
        id: id.to_string(),
        before: before.filter(|_| earlier.is_some()).map(|id| id.to_string()),
        carried: draft::items(&carried),
        left: draft::items(&left),
        added: draft::items(&added),
    })
}

/// A sealed handoff with its document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct HandoffView {
    pub id: String,
    pub document: String,
    /// The channel's record of it: who claimed and consumed it.
    pub entry: Option<serde_json::Value>,
    /// Its transitions, oldest first: sealed, claimed, consumed and so on, each with the record as it was then.
    pub history: Vec<serde_json::Value>,
    pub path: String,
}

/// The handoff with this id, of any channel.
pub(crate) fn handoff(handoffs: &Handoffs, id: &HandoffId) -> Result<HandoffView, NotShown> {
    let Some(text) = handoffs.show(id)? else {
        return Err(NotShown::Nothing(format!(
            "there is no handoff {id}; `baton handoffs list --all` lists them"
        )));
    };
    let (entry, history) = record_of(handoffs, id)?;
    Ok(HandoffView {
        id: id.to_string(),
        history,
        document: redact(&plain(&text)).text.into_owned(),
        entry,
        path: handoffs.archived_path(id).display().to_string(),
    })
}

/// A channel's record and history of a handoff.
fn record_of(
    handoffs: &Handoffs,
    id: &HandoffId,
) -> Result<(Option<serde_json::Value>, Vec<serde_json::Value>), FileError> {
    let channel = handoffs.carried(id)?.map(|carried| carried.from.channel);
    let channels = match channel.and_then(|name| baton_core::ids::ChannelName::new(&name).ok()) {
        Some(channel) => vec![channel],
        None => handoffs.channels().unwrap_or_default(),
    };
    let found = channels.iter().find_map(|channel| {
        // A damaged history or manifest hides who consumed it, not the document.
        let mut events = handoffs.history(channel).ok()?.0;
        events.retain(|event| event.entry.id == *id);
        let present = handoffs.manifest(channel).ok().and_then(|manifest| manifest.find(id).cloned());
        let entry = present.or_else(|| events.last().map(|event| event.entry.clone()))?;
        let mut value = serde_json::json!(entry);
        value["channel"] = serde_json::json!(channel);
        Some((Some(value), events.iter().map(|event| serde_json::json!(event)).collect()))
    });
    Ok(found.unwrap_or_default())
}
