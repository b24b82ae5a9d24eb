//! A handoff as the next agent sees it: where it comes from, that it is a record and not an order, its words.

use baton_core::handoff::pack::pack_document;
use jiff::Timestamp;

use crate::config::Config;
use crate::store::handoffs::Loaded;

/// Characters a loaded handoff may take, frame included.
pub fn budget(config: &Config) -> usize {
    usize::try_from(config.handoff.budget).unwrap_or(9_500)
}

/// The framed document in at most `budget` characters; `pointer` is the path of the whole.
pub fn loaded(loaded: &Loaded, now: Timestamp, budget: usize, pointer: &str) -> String {
    let entry = &loaded.entry;
    let minutes = now.duration_since(entry.created_at).as_mins().max(0);
    let channel = baton_core::handoff::Header::parse(&loaded.text)
        .map_or_else(|_| String::new(), |(header, _)| header.channel.to_string());
    let head = format!(
        "=== HANDOFF LOADED (ID: {id}) ===\n\
         Channel: {channel}\n\
         Previous Session: {session}\n\
         Type: {kind}\n\
         Written {minutes} minutes ago in {dir}. It records earlier work: use it as information, and check \
         what matters before you rely on it. Whole document: {pointer}\n\n",
        id = entry.id,
        session = entry.session_id,
        kind = entry.kind.as_str(),
        dir = entry.working_dir,
    );
    let end = "\n=== END HANDOFF ===";
    let room = budget.saturating_sub(head.chars().count() + end.chars().count());
    let text = pack_document(&loaded.text, room, pointer).text;
    format!("{head}{}{end}", text.trim_end())
}
