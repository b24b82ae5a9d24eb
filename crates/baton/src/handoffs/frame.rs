//! A handoff as the next agent sees it: its origin, a note that it is a record and not an order, and its words.

use baton_core::handoff::Header;
use baton_core::handoff::frame::{FrameFacts, framed};
use baton_core::handoff::pack::pack_document;
use baton_core::plain::plain;
use baton_core::redact::redact;
use jiff::Timestamp;

use crate::config::Config;
use crate::store::Store;
use crate::store::handoffs::LoadedHandoff;

/// Characters a loaded handoff may take, frame included.
pub(crate) fn budget(config: &Config) -> usize {
    usize::try_from(config.handoff.budget).unwrap_or(9_500)
}

/// The framed document in at most `budget` characters; `pointer` is the path of the whole.
pub(crate) fn loaded(
    store: &Store,
    loaded: &LoadedHandoff,
    now: Timestamp,
    budget: usize,
    pointer: &str,
) -> String {
    let entry = &loaded.entry;
    let channel =
        Header::parse(&loaded.text).map_or_else(|_| String::new(), |(header, _)| header.channel.to_string());
    let about = FrameFacts {
        id: &entry.id,
        channel: &channel,
        session: entry.session_id.as_str(),
        kind: &entry.kind,
        created: entry.created_at,
        working_dir: &entry.working_dir,
        pointer,
    };
    framed(&about, &store.fence(), now, budget, |room| body(loaded, room, pointer))
}

/// Packs from the ledger beside the document or, without a readable one, from the document's words.
fn body(loaded: &LoadedHandoff, room: usize, pointer: &str) -> String {
    match loaded.carried() {
        // The redaction rules may have changed since it was sealed.
        Ok(Some(carried)) => redact(&plain(&carried.packed(room, pointer))).text.into_owned(),
        Ok(None) | Err(_) => pack_document(&loaded.text, room, pointer).text,
    }
}
