//! `baton done`: an agent declares its task finished. The chain ends there; until the user's next prompt this can be
//! undone.
//!
//! The declaration is kept in the session's record. The Stop hook of that turn tells the parent, with the last answer.
//! A person's next prompt makes it final: the conversation continues with a new task, and the new task's facts begin
//! there. A message from another agent reopens the task, because it asks for more of it.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::time::Duration;

use baton_core::ids::SessionId;
use baton_core::message::Message;
use baton_core::notice::{Notice, NoticeKind, completion_text};
use baton_core::plain::plain;
use baton_core::redact::redact;
use baton_core::session::{Completion, Session};
use jiff::Timestamp;

use crate::mail::notify;
use crate::sessions::context::Context;
use crate::store::record::RecordError;
use crate::store::{Store, log::LogLine};
use crate::sys::fs;

const PATIENCE: Duration = Duration::from_secs(2);
/// How many characters of the agent's own words to keep.
pub(crate) const MAX_WORDS: usize = 4_000;

/// Marks the session's task as finished, `by` an agent or the user. Returns `false` if the session's record is gone.
pub(crate) fn declare(
    store: &Store,
    session: &Session,
    by: &str,
    text: &str,
    now: Timestamp,
) -> Result<bool, RecordError> {
    let text: String = redact(&plain(text.trim())).text.chars().take(MAX_WORDS).collect();
    let done = Completion { at: now, by: by.to_owned(), text, offset: end_of_transcript(session) };
    let noted = store.sessions().update(&session.id, PATIENCE, |s| s.done = Some(done.clone()))?;
    log(store, session, "done", &done.text, now);
    Ok(noted.is_some())
}

/// Undoes the declaration and returns it, or `None` if there is nothing left to undo.
pub(crate) fn take_back(
    store: &Store,
    session: &SessionId,
    now: Timestamp,
) -> Result<Option<Completion>, RecordError> {
    let mut of = None;
    let taken = store.sessions().update(session, PATIENCE, |s| {
        of = Some(s.clone());
        s.done.take()
    })?;
    let taken = taken.flatten();
    if let (Some(session), Some(_)) = (of, &taken) {
        log(store, &session, "done-taken-back", "", now);
    }
    Ok(taken)
}

/// Tells the parent, or the user if there is none, once, after the turn that finished the task.
#[cold]
pub(crate) fn tell(ctx: &Context, session: &Session, answer: Option<&str>) {
    let Some(done) = &session.done else { return };
    let kind = NoticeKind::Done;
    let Some(record) = ctx.agent(&session.agent) else { return };
    let text = text(session, done, answer);
    let notice = Notice { kind, stamp: done.at.as_nanosecond() };
    notify::tell(&ctx.store, &ctx.config.notify, &record, notice, &text, ctx.now);
}

/// The text of that notice.
pub(crate) fn text(session: &Session, done: &Completion, answer: Option<&str>) -> String {
    let answer = answer.or(session.answer.as_deref()).unwrap_or_default();
    completion_text(session.agent.as_str(), &done.text, answer)
}

/// Handles a prompt or a message that comes after the task was finished.
#[cold]
pub(crate) fn prompted(ctx: &Context, session: &Session, by_person: bool, mail: &[Message]) {
    // Notices and the agent's own reminders do not ask for more.
    let asks = |message: &Message| message.from != "baton" && message.from != session.agent.as_str();
    let reopened = mail.iter().any(asks);
    if by_person {
        let ended = ctx.update(session, |s| {
            let done = s.done.take()?;
            // The next handoff starts its facts here and no longer continues the handoff of the finished task.
            (s.task_from, s.continues) = (Some(done.offset), None);
            Some(done)
        });
        if ended.flatten().is_some() {
            log(&ctx.store, session, "task-ended", "the user asked for something new", ctx.now);
        }
    } else if reopened && ctx.update(session, |s| s.done.take()).flatten().is_some() {
        log(&ctx.store, session, "done-taken-back", "a message asked for more", ctx.now);
    }
}

/// The offset after the last complete line of the transcript.
fn end_of_transcript(session: &Session) -> u64 {
    const LAST: u64 = 1 << 20;
    let Some(path) = session.transcript.as_deref().map(std::path::Path::new) else { return 0 };
    let Ok((mut file, about)) = fs::open_regular(path) else { return 0 };
    let from = about.len().saturating_sub(LAST);
    let mut bytes = Vec::new();
    let read = file.seek(SeekFrom::Start(from)).and_then(|_| file.take(LAST).read_to_end(&mut bytes));
    if read.is_err() {
        return 0;
    }
    memchr::memrchr(b'\n', &bytes).map_or(0, |at| from + at as u64 + 1)
}

fn log(store: &Store, session: &Session, event: &str, note: &str, now: Timestamp) {
    store.log().append(&LogLine {
        session: Some(session.id.clone()),
        agent: Some(session.agent.clone()),
        channel: Some(session.channel.clone()),
        detail: serde_json::json!({ "note": note }),
        ..LogLine::new(now, event)
    });
}
