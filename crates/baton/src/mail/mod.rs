//! Messages between agents and their user: queued as files, delivered by hooks, announced to the processes that can
//! wake the agent.
//!
//! [`send`] is the one way to send: the CLI, the API and notices all use it, so all of them wake the same parties.

pub(crate) mod announce;
pub(crate) mod deliver;
pub(crate) mod keyed;
pub(crate) mod maildir;
pub(crate) mod notify;
pub(crate) mod remind;
pub(crate) mod reply;
pub(crate) mod shown;
pub(crate) mod user;

use baton_core::agent::Agent;
use jiff::Timestamp;

use crate::mail::announce::Wake;
use crate::mail::keyed::Key;
use crate::mail::maildir::{Draft, Mail, SendError};
use crate::store::Store;

/// A message that was accepted: it is on disk and will not be lost.
#[derive(Debug)]
pub(crate) struct SentMessage {
    pub id: String,
    /// `false` if the same key was sent before; nothing was queued then.
    pub is_new: bool,
    /// How the agent was woken, if it was idle.
    pub wake: Wake,
}

/// Queues a message and wakes the process that can deliver it, without waiting. Retired agents accept no mail. With a
/// `key`, repeated calls queue it once.
pub(crate) fn send(
    store: &Store,
    to: &Agent,
    draft: &Draft<'_>,
    key: Option<&Key>,
    now: Timestamp,
) -> Result<SentMessage, SendError> {
    if to.retired.is_some() && !store.is_running(&to.id) {
        return Err(SendError::Retired(to.id.clone()));
    }
    let (id, is_new) = match key {
        Some(key) => keyed::post(&Mail::of(store), &to.id, draft, key, now)?,
        None => (Mail::of(store).post(&to.id, draft, now)?.id, true),
    };
    let wake = if is_new { announce::announce(store, to) } else { Wake::None };
    Ok(SentMessage { id, is_new, wake })
}
