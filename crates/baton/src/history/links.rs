//! The handoffs between sessions, by channel. A channel is read again only if its manifest or history changed.

use std::collections::HashMap;

use baton_core::handoff::Entry;
use baton_core::ids::SessionId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::history::sources::FileStamp;
use crate::store::handoffs::Handoffs;

/// A handoff, from the session that wrote it to the one that loaded it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HandoffLink {
    pub handoff: String,
    pub from: SessionId,
    pub to: Option<SessionId>,
    pub kind: String,
    pub status: String,
    pub at: Timestamp,
}

pub(crate) type Links = HashMap<String, ChannelLinks>;

/// One channel's handoffs.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChannelLinks {
    manifest: Option<FileStamp>,
    history: Option<FileStamp>,
    pub links: Vec<HandoffLink>,
}

/// Reads the changed channels. Returns whether there were any.
///
/// Keeps the known state of what cannot be read; `baton handoffs` reports damage.
pub(crate) fn refresh(handoffs: &Handoffs, known: &mut Links) -> bool {
    let Ok(channels) = handoffs.channels() else { return false };
    let before = known.len();
    known.retain(|name, _| channels.iter().any(|channel| channel.as_str() == name));
    let mut changed = known.len() != before;
    for channel in channels {
        let manifest = FileStamp::at(&handoffs.manifest_path(&channel));
        let history = FileStamp::at(&handoffs.history_path(&channel));
        if known.get(channel.as_str()).is_some_and(|it| (it.manifest, it.history) == (manifest, history)) {
            continue;
        }
        if let Ok(entries) = handoffs.list(&channel) {
            let links = entries.into_iter().map(HandoffLink::from).collect();
            known.insert(channel.to_string(), ChannelLinks { manifest, history, links });
            changed = true;
        }
    }
    changed
}

impl From<Entry> for HandoffLink {
    fn from(entry: Entry) -> Self {
        Self {
            handoff: entry.id.to_string(),
            from: entry.session_id,
            to: entry.consumed_by_session.or_else(|| entry.claim.map(|claim| claim.session)),
            kind: entry.kind.as_str().to_owned(),
            status: entry.status.as_str().to_owned(),
            at: entry.created_at,
        }
    }
}
