//! Puts queued messages in front of an agent.
//!
//! A message is claimed, shown, and only then marked as delivered. If a process dies in between, the next one checks
//! the transcript for the message.

use std::cell::LazyCell;

use baton_core::fence::Key;
use baton_core::message::{Cycle, Urgency};
use baton_core::pending::Pending;
use baton_core::plain::plain;
use baton_core::say;
use baton_core::session::Session;
use jiff::Timestamp;

use crate::mail::maildir::{Claimed, Mail};
use crate::mail::shown;
use crate::store::Store;

/// When mail is put in front of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Occasion {
    /// At a tool call: important and urgent mail.
    ToolCall,
    /// With a prompt, at the end of a turn, or to an idle agent: everything.
    Pause,
}

/// Claims queued mail while it fits into `room` characters.
///
/// An agent with a handoff pending in a running turn is about to lose its context, so its mail waits for the fresh one.
pub(crate) fn claim(
    store: &Store,
    session: &Session,
    occasion: Occasion,
    mut room: usize,
    now: Timestamp,
) -> Vec<Claimed> {
    if session.pending(false).is_some_and(Pending::holds_mail) {
        return Vec::new();
    }
    let mail = Mail::of(store);
    let mut claimed = Vec::new();
    let key = LazyCell::new(|| store.fence());
    let seen = shown::at_the_end(store, session);
    let least = match occasion {
        Occasion::ToolCall => Urgency::Important,
        Occasion::Pause => Urgency::Sequential,
    };
    let cycle = Cycle { session: session.id.clone(), n: session.latches.cycle };
    loop {
        match mail.claim(&session.agent, least, &cycle, &seen) {
            Ok(Some(next)) => {
                let size = frame(&next, &key).chars().count() + 2;
                if size > room {
                    if let Err(e) = mail.put_back(&next) {
                        store.log().fault(now, "queue a message again", &e);
                    }
                    return claimed;
                }
                room -= size;
                claimed.push(next);
            }
            Ok(None) => return claimed,
            Err(e) => {
                store.log().fault(now, "look for mail", &e);
                return claimed;
            }
        }
    }
}

/// The messages as the agent reads them.
pub(crate) fn framed(store: &Store, claimed: &[Claimed]) -> Vec<String> {
    let key = LazyCell::new(|| store.fence());
    claimed.iter().map(|claimed| frame(claimed, &key)).collect()
}

fn frame(claimed: &Claimed, key: &Key) -> String {
    let text = claimed.message.framed(key, &claimed.path.display().to_string());
    plain(&text).into_owned()
}

/// The text about a message that a hook delivered while the turn was interrupted for it, so that the agent acts on it.
pub(crate) fn again(store: &Store, session: &Session, id: &str) -> Option<String> {
    let (message, path) = Mail::of(store).delivered_one(&session.agent, id)?;
    let text = if shown::at_the_end(store, session)(id) {
        say::interrupted(&message.id, &message.from)
    } else {
        message.framed(&store.fence(), &path.display().to_string())
    };
    Some(plain(&text).into_owned())
}
