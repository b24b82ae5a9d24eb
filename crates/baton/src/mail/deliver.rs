//! Puts queued messages in front of an agent.
//!
//! A message is claimed, shown, and only then marked as delivered. If a process dies in between, the next one checks
//! the transcript for the message.

use std::cell::LazyCell;
use std::collections::VecDeque;
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

/// Queues messages again that a hook gave with a prompt, if the transcript does not show them.
pub(crate) fn requeue_dropped(store: &Store, session: &Session, now: Timestamp) {
    for id in session.given.iter().filter(|id| !was_read(store, session, id)) {
        if let Err(e) = Mail::of(store).requeue(&session.agent, id, "its prompt was taken back", now) {
            store.log().fault(now, "queue a message again", &e);
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
    let text = if is_shown(store, session, id) {
        say::interrupted(&message.id, &message.from)
    } else {
        message.framed(&store.fence(), &path.display().to_string())
    };
    Some(plain(&text).into_owned())
}

/// Whether the transcript shows this message's frame with its fence word, or that it waits in the client's queue; a bare
/// id may be a quotation.
pub(crate) fn is_shown(store: &Store, session: &Session, id: &str) -> bool {
    // A transcript that cannot be read shows nothing: the message comes again rather than never.
    let text = recent(session).ok().flatten();
    text.is_some_and(|text| place_of(&text, store.fence().word(id).as_bytes()) != Place::Nowhere)
}

/// The same without the queue: what waits there may be taken back. Where no transcript can tell, the message counts as
/// read.
fn was_read(store: &Store, session: &Session, id: &str) -> bool {
    match recent(session) {
        Ok(Some(text)) => place_of(&text, store.fence().word(id).as_bytes()) == Place::Conversation,
        Ok(None) => true,
        // The client makes the file with the first turn.
        Err(e) => e.kind() != std::io::ErrorKind::NotFound,
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Place {
    Conversation,
    /// The client holds it and has not begun its turn.
    Queue,
    Nowhere,
}

/// Where a transcript shows this word. What the client has taken from its queue is in the conversation, or was taken back
/// before its turn began.
fn place_of(transcript: &[u8], word: &[u8]) -> Place {
    let has = |line: &[u8], mark: &[u8]| memchr::memmem::find(line, mark).is_some();
    let mut queue = VecDeque::new();
    for line in transcript.split(|byte| *byte == b'\n') {
        if !has(line, b"\"queue-operation\"") {
            if has(line, word) {
                return Place::Conversation;
            }
        } else if has(line, b"\"enqueue\"") {
            queue.push_back(has(line, word));
        } else {
            queue.pop_front();
        }
    }
    if queue.contains(&true) { Place::Queue } else { Place::Nowhere }
}

/// The end of the transcript, if there is one. The previous hook was to show the message, so it is there if it is
/// anywhere.
fn recent(session: &Session) -> std::io::Result<Option<Vec<u8>>> {
    let Some(path) = session.transcript.as_deref() else { return Ok(None) };
    let mut file = fs::open_read(Path::new(path))?;
    let from = file.metadata()?.len().saturating_sub(RECENT);
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(from))?;
    file.take(RECENT).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_client_took_from_its_queue_and_never_showed_is_nowhere() {
        let enqueue =
            |text: &str| format!(r#"{{"type":"queue-operation","operation":"enqueue","content":"{text}"}}"#);
        let dequeue = r#"{"type":"queue-operation","operation":"dequeue"}"#.to_owned();
        let shown = r#"{"type":"user","message":{"content":"word"}}"#.to_owned();
        let place = |lines: &[&String]| {
            let text: Vec<&str> = lines.iter().map(|line| line.as_str()).collect();
            place_of(text.join("\n").as_bytes(), b"word")
        };
        let (other, ours) = (enqueue("another"), enqueue("word"));
        assert_eq!(place(&[&other, &ours]), Place::Queue);
        assert_eq!(place(&[&other, &ours, &dequeue]), Place::Queue, "the first one was taken");
        assert_eq!(place(&[&other, &ours, &dequeue, &dequeue]), Place::Nowhere);
        assert_eq!(place(&[&ours, &dequeue, &shown]), Place::Conversation);
        assert_eq!(place(&[&other]), Place::Nowhere);
    }
}
