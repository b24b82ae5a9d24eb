//! The handoffs between sessions, by channel; read again only where a manifest or a history changed.

use std::collections::HashMap;

use baton_core::ids::ChannelName;

use super::cache::Link;
use super::catalogue::kept;
use super::sources::Stamp;
use crate::store::handoffs::Handoffs;

/// By channel: the stamps of its manifest and its history, and its handoffs.
pub type Links = HashMap<String, ([Option<Stamp>; 2], Vec<Link>)>;

/// All handoffs of all channels. `true` if any is new.
pub fn refresh(handoffs: &Handoffs, known: &mut Links) -> bool {
    let channels = handoffs.channels().unwrap_or_default();
    let mut changed = false;
    let before = known.len();
    known.retain(|name, _| channels.iter().any(|c| c.as_str() == name));
    changed |= known.len() != before;
    for channel in channels {
        let stamps =
            [handoffs.manifest_path(&channel), handoffs.history_path(&channel)].map(|p| Stamp::at(&p));
        if known.get(channel.as_str()).is_some_and(|(were, _)| were == &stamps) {
            continue;
        }
        // One damaged channel costs its own handoffs; `baton handoffs` tells of it.
        let links = of_channel(handoffs, &channel).unwrap_or_default();
        known.insert(channel.to_string(), (stamps, links));
        changed = true;
    }
    changed
}

fn of_channel(handoffs: &Handoffs, channel: &ChannelName) -> Option<Vec<Link>> {
    let entries = handoffs.list(channel).ok()?;
    let link = |e: baton_core::handoff::Entry| Link {
        handoff: kept(e.id.to_string()),
        from: e.session_id,
        to: e.consumed_by_session.or_else(|| e.claim.map(|c| c.session)),
        kind: kept(e.kind.as_str().to_owned()),
        status: kept(e.status.as_str().to_owned()),
        at: e.created_at.as_millisecond(),
    };
    Some(entries.into_iter().map(link).collect())
}
