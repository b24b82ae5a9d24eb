//! Puts queued messages in front of an agent.
//!
//! A message is claimed, shown, and only then marked as delivered. If a process dies in between, the next one checks
//! the transcript for the message.

use std::cell::LazyCell;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use baton_core::fence::Key;
use baton_core::message::{Cycle, Urgency};
use baton_core::pending::Pending;
use baton_core::plain::plain;
use baton_core::say;
use baton_core::session::Session;
use jiff::Timestamp;

use crate::mail::maildir::{Claimed, Mail};
use crate::store::Store;
use crate::sys::fs;

/// How much of a transcript's end to search for a message.
const RECENT: u64 = 8 << 20;

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
/// An agent with a handoff pending in a running turn is about to forget what it is told, so its mail waits for the
/// fresh context.
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
    let seen = |id: &str| is_shown(store, session, id);
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

/// What to say about a message that a hook delivered while the turn was interrupted for it, so that the agent acts upon
/// it.
pub(crate) fn again(store: &Store, session: &Session, id: &str) -> Option<String> {
    let (message, path) = Mail::of(store).delivered_one(&session.agent, id)?;
    let text = if is_shown(store, session, id) {
        say::interrupted(&message.id, &message.from)
    } else {
        message.framed(&store.fence(), &path.display().to_string())
    };
    Some(plain(&text).into_owned())
}

/// Whether the transcript shows this message's frame with its fence word; a bare id may be a quotation.
pub(crate) fn is_shown(store: &Store, session: &Session, id: &str) -> bool {
    let Some(path) = session.transcript.as_deref() else { return false };
    let Ok(mut file) = fs::open_read(Path::new(path)) else { return false };
    // The previous hook was to show it, so it is near the end if it is there at all.
    let from = file.metadata().map_or(0, |m| m.len()).saturating_sub(RECENT);
    let mut bytes = Vec::new();
    let read = file.seek(SeekFrom::Start(from)).and_then(|_| file.take(RECENT).read_to_end(&mut bytes));
    read.is_ok() && memchr::memmem::find(&bytes, store.fence().word(id).as_bytes()).is_some()
}
