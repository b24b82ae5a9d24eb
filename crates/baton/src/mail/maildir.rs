//! Mail: one maildir per agent, one file per message. The folder that a message is in is its state.
//!
//! ```text
//! mail/{agent}/tmp/   {id}                    being written
//!                     {id}.by-{pid}-{start}   a hook is about to show it; if that process dies it is queued again
//!             /new/   queued
//!             /cur/   delivered: a hook put it in front of the agent, or saw it in a prompt
//!             /expired/  /failed/   never delivered, and why is in the receipts
//!             receipts.jsonl        one line for each change, with its evidence
//! ```
//! A claim is a rename, so only one of two hooks wins. File names sort by time, so each sender's messages of one
//! urgency keep their order; the letter after the time is the urgency, so a hot hook opens only what it delivers. Hooks
//! list only `tmp` and `new`, which stay small however much has been delivered. While a process holds a message, no
//! other process claims one, so that later messages do not overtake it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use baton_core::ids::AgentId;
use baton_core::message::{Cycle, MAX_TEXT, Message, Urgency};
use jiff::Timestamp;

use crate::mail::user;
use crate::store::log::Log;
use crate::store::{Store, record};
use crate::sys::fs::{self, FileError, PRIVATE, Sync};
use crate::sys::lock::LockError;
use crate::sys::process;

#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    #[error("a message of {0} bytes is more than the {MAX_TEXT} that are accepted; send a path instead")]
    TooLarge(usize),
    #[error("there is no text to send")]
    Empty,
    #[error("{0} was retired and reads nothing any more; `baton spawn {0}` starts a new agent of that name")]
    Retired(AgentId),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Lock(#[from] LockError),
}

/// The state of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    Queued,
    Delivered,
    /// It expired before anybody could show it.
    Expired,
    /// It will not be delivered any more.
    Failed,
}

/// A message's change of state.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Receipt {
    pub id: String,
    pub at: Timestamp,
    pub state: State,
    /// `PostToolUse hook of session …`, `prompt of session …`, `transcript of session …`, or why not.
    pub evidence: String,
}

/// A message that this process has claimed and is about to show.
#[derive(Debug)]
pub(crate) struct Claimed {
    pub message: Message,
    /// Where the whole text can be read once the message is delivered.
    pub path: PathBuf,
    held: PathBuf,
}

/// A message before it is accepted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Draft<'a> {
    pub from: &'a str,
    pub text: &'a str,
    pub urgency: Urgency,
    pub expires: Option<Timestamp>,
    pub notify: bool,
    /// The message is dropped when this cycle is over.
    pub cycle: Option<&'a Cycle>,
    /// The sender waits for an answer.
    pub ask: bool,
    /// The message that it answers.
    pub reply_to: Option<&'a str>,
}

impl<'a> Draft<'a> {
    /// An ordinary message: shown when its reader is idle, without an expiry.
    pub(crate) fn new(from: &'a str, text: &'a str) -> Self {
        Self {
            from,
            text,
            urgency: Urgency::Sequential,
            expires: None,
            notify: false,
            cycle: None,
            ask: false,
            reply_to: None,
        }
    }
}

impl Draft<'_> {
    /// Whether it can be accepted at all.
    pub(crate) fn check(&self) -> Result<(), SendError> {
        if self.text.len() > MAX_TEXT {
            return Err(SendError::TooLarge(self.text.len()));
        }
        if self.text.trim().is_empty() { Err(SendError::Empty) } else { Ok(()) }
    }

    pub(in crate::mail) fn message(&self, id: String, to: &AgentId, now: Timestamp) -> Message {
        Message {
            id,
            from: self.from.to_owned(),
            to: to.clone(),
            at: now,
            urgency: self.urgency,
            expires: self.expires,
            notify: self.notify,
            cycle: self.cycle.cloned(),
            ask: self.ask,
            reply_to: self.reply_to.map(str::to_owned),
            text: self.text.to_owned(),
        }
    }
}

pub(crate) struct Mail {
    root: PathBuf,
}

static COUNT: AtomicU32 = AtomicU32::new(0);

impl Mail {
    pub(crate) fn of(store: &Store) -> Self {
        Self { root: store.state.join("mail") }
    }

    pub(crate) fn home(&self, agent: &AgentId) -> PathBuf {
        self.root.join(agent.as_str())
    }

    /// The folder of an agent's messages in this state: `new`, `cur`, …
    pub(crate) fn dir(&self, agent: &AgentId, place: &str) -> PathBuf {
        self.home(agent).join(place)
    }

    /// Queues a message. When this returns, it is on disk and will not be lost.
    pub(crate) fn post(&self, to: &AgentId, draft: &Draft<'_>, now: Timestamp) -> Result<Message, SendError> {
        draft.check()?;
        // Nanoseconds first, so that names sort by time; process and count make them unique. If the clock was set back,
        // the message must still sort after those that wait.
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let last = names(&self.dir(to, "new")).last().and_then(|name| stamp(name));
        let stamp = last.map_or(now.as_nanosecond(), |last| now.as_nanosecond().max(last + 1));
        let id = format!("m{stamp:020}-{}{}-{count:04}", draft.urgency.letter(), std::process::id());
        let message = draft.message(id, to, now);
        fs::private_dirs(&self.home(to), &["tmp", "new", "cur"])?;
        self.accept(&message)?;
        Ok(message)
    }

    /// Writes a message into the queue. Returns `false` if it is there already.
    pub(in crate::mail) fn accept(&self, message: &Message) -> Result<bool, FileError> {
        let path = self.dir(&message.to, "new").join(&message.id);
        let bytes = record::encode(message).map_err(|e| FileError::new("encode", &path, e))?;
        let is_new = fs::create(&path, &bytes, PRIVATE, Sync::Yes)?;
        if message.to.as_str() == user::NAME {
            user::mark_unread(&self.home(&message.to));
        }
        Ok(is_new)
    }

    /// How many messages the user has not read. If there are none, this costs one lookup.
    pub(crate) fn unread(&self) -> usize {
        let user = user::id();
        if user::is_marked(&self.root) { names(&self.dir(&user, "new")).len() } else { 0 }
    }

    /// How many messages wait. Cheap, because the status line asks on every render.
    pub(crate) fn waiting(&self, agent: &AgentId) -> usize {
        // Opening a missing mailbox is as cheap as checking for it.
        names(&self.dir(agent, "new")).len()
    }

    /// Whether a message waits. In a mailbox that cannot be read, one may.
    pub(crate) fn may_wait(&self, agent: &AgentId) -> bool {
        fs::names(&self.dir(agent, "new")).map_or(true, |names| names.iter().any(|name| is_message(name)))
    }

    /// The id of the newest urgent message that waits.
    pub(crate) fn urgent(&self, agent: &AgentId) -> Option<String> {
        let dir = self.dir(agent, "new");
        names(&dir).into_iter().rfind(|name| urgency_of(&dir, name) == Urgency::Urgent)
    }

    /// How many messages have not been seen yet: queued, or claimed and not yet shown by a hook.
    pub(crate) fn unseen(&self, agent: &AgentId) -> usize {
        let held = |name: &&String| name.contains(".by-");
        self.waiting(agent) + names(&self.dir(agent, "tmp")).iter().filter(held).count()
    }

    /// A delivered message, and its path.
    pub(crate) fn delivered_one(&self, agent: &AgentId, id: &str) -> Option<(Message, PathBuf)> {
        let path = self.dir(agent, "cur").join(id);
        let message = record::read(&path).unwrap_or_else(|e| {
            Log::beside(&self.root).fault(Timestamp::now(), "read a delivered message", &e);
            None
        });
        message.map(|message| (message, path))
    }

    /// Claims the oldest queued message that is at least as urgent as `least`. First requeues messages whose claiming
    /// hook died, unless `seen` finds them in the transcript. Drops messages of another cycle than `now_in`.
    pub(crate) fn claim(
        &self,
        agent: &AgentId,
        least: Urgency,
        now_in: &Cycle,
        seen: &dyn Fn(&str) -> bool,
    ) -> Result<Option<Claimed>, FileError> {
        if !fs::is_in(&self.root, agent.as_str()) {
            return Ok(None);
        }
        self.requeue_abandoned(agent, seen)?;
        let queued = names(&self.dir(agent, "new"));
        // If another process is about to show a message, later ones wait for it.
        if queued.is_empty() || self.is_held_by_another(agent) {
            return Ok(None);
        }
        let queue = self.dir(agent, "new");
        for name in queued {
            if least > Urgency::Sequential && urgency_of(&queue, &name) < least {
                continue;
            }
            let from = queue.join(&name);
            let path = self.dir(agent, "cur").join(&name);
            let held = self.held_path(agent, &name);
            match std::fs::rename(&from, &held) {
                // Another hook was faster.
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
                Err(e) => return Err(FileError::new("claim", &from, e)),
                Ok(()) => {}
            }
            let Some(message) = self.opened(&held, &from) else { continue };
            let now = Timestamp::now();
            if message.expires.is_some_and(|at| at <= now) {
                self.end(agent, &held, &name, State::Expired, "its time had passed", now)?;
                continue;
            }
            if message.cycle.as_ref().is_some_and(|cycle| cycle != now_in) {
                self.end(agent, &held, &name, State::Expired, "the context it spoke of is gone", now)?;
                continue;
            }
            return Ok(Some(Claimed { message, path, held }));
        }
        Ok(None)
    }

    /// Reads the message that was claimed as `held`. The record reader sets a damaged one aside. Any other unreadable
    /// one, such as a newer baton's, goes back to `queued` unchanged, so that it does not block those behind it.
    fn opened(&self, held: &Path, queued: &Path) -> Option<Message> {
        record::read(held).unwrap_or_else(|e| {
            let log = Log::beside(&self.root);
            log.fault(Timestamp::now(), "read a message", &e);
            if let Err(e) = std::fs::rename(held, queued) {
                log.fault(Timestamp::now(), "queue a message again", &e);
            }
            None
        })
    }

    fn is_held_by_another(&self, agent: &AgentId) -> bool {
        let mine = format!(".by-{}-", std::process::id());
        names(&self.dir(agent, "tmp")).iter().any(|name| name.contains(".by-") && !name.contains(&mine))
    }

    /// Moves an undelivered message to its final folder and writes the receipt.
    fn end(
        &self,
        agent: &AgentId,
        from: &Path,
        id: &str,
        state: State,
        why: &str,
        now: Timestamp,
    ) -> Result<(), FileError> {
        let place = if state == State::Expired { "expired" } else { "failed" };
        let dir = self.dir(agent, place);
        fs::private_dir(&dir)?;
        let path = dir.join(id);
        std::fs::rename(from, &path).map_err(|e| FileError::new("set aside", &path, e))?;
        self.note(agent, &Receipt { id: id.to_owned(), at: now, state, evidence: why.to_owned() });
        Ok(())
    }

    /// Marks queued messages as failed, with the reason, because nobody will read them. Returns how many there were.
    pub(crate) fn fail_waiting(
        &self,
        agent: &AgentId,
        why: &str,
        now: Timestamp,
    ) -> Result<usize, FileError> {
        let waiting = names(&self.dir(agent, "new"));
        for name in &waiting {
            self.end(agent, &self.dir(agent, "new").join(name), name, State::Failed, why, now)?;
        }
        Ok(waiting.len())
    }

    /// Marks a message as delivered because a prompt or a transcript shows it, whoever holds it. Returns `false` if it
    /// was not waiting.
    pub(crate) fn seen(&self, agent: &AgentId, id: &str, evidence: &str, now: Timestamp) -> bool {
        if baton_core::ids::unsafe_name(id).is_some() {
            return false;
        }
        let tmp = self.dir(agent, "tmp");
        let held =
            names(&tmp).into_iter().find(|n| n.strip_prefix(id).is_some_and(|r| r.starts_with(".by-")));
        let from = held.map_or_else(|| self.dir(agent, "new").join(id), |name| tmp.join(name));
        let moved = std::fs::rename(&from, self.dir(agent, "cur").join(id)).is_ok();
        if moved {
            let evidence = evidence.to_owned();
            self.note(agent, &Receipt { id: id.to_owned(), at: now, state: State::Delivered, evidence });
        }
        if agent.as_str() == user::NAME && names(&self.dir(agent, "new")).is_empty() {
            user::clear_mark(&self.home(agent));
            // A message may have come in between.
            if !names(&self.dir(agent, "new")).is_empty() {
                user::mark_unread(&self.home(agent));
            }
        }
        moved
    }

    /// Whether this message still waits to be seen.
    pub(crate) fn is_waiting(&self, agent: &AgentId, id: &str) -> bool {
        self.dir(agent, "new").join(id).exists()
            || names(&self.dir(agent, "tmp"))
                .iter()
                .any(|n| n.strip_prefix(id).is_some_and(|r| r.starts_with(".by-")))
    }

    /// Appends a receipt. Losing one loses only evidence, because the state is the message's folder.
    pub(crate) fn note(&self, agent: &AgentId, receipt: &Receipt) {
        if let Ok(line) = record::encode(receipt) {
            let _ = fs::append_line(&self.home(agent).join("receipts.jsonl"), &line, PRIVATE);
        }
    }

    /// The last receipt of each message.
    pub(crate) fn receipts(&self, agent: &AgentId) -> std::collections::HashMap<String, Receipt> {
        let path = self.home(agent).join("receipts.jsonl");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let receipts = text.lines().filter_map(|line| serde_json::from_str::<Receipt>(line).ok());
        receipts.map(|r| (r.id.clone(), r)).collect()
    }

    /// Marks a claimed message as delivered; `evidence` names the hook.
    pub(crate) fn delivered(&self, claimed: &Claimed, evidence: &str) -> Result<(), FileError> {
        match std::fs::rename(&claimed.held, &claimed.path) {
            // The hook of the prompt that shows it was faster.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound && claimed.path.exists() => return Ok(()),
            moved => moved.map_err(|e| FileError::new("mark as delivered", &claimed.path, e))?,
        }
        let (id, evidence) = (claimed.message.id.clone(), evidence.to_owned());
        self.note(
            &claimed.message.to,
            &Receipt { id, at: Timestamp::now(), state: State::Delivered, evidence },
        );
        Ok(())
    }

    /// Requeues a claimed message that could not be shown. It keeps its name, and so its place.
    pub(crate) fn put_back(&self, claimed: &Claimed) -> Result<(), FileError> {
        let path = self.dir(&claimed.message.to, "new").join(&claimed.message.id);
        match std::fs::rename(&claimed.held, &path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound && claimed.path.exists() => Ok(()),
            moved => moved.map_err(|e| FileError::new("queue again", &path, e)),
        }
    }

    /// Queues a delivered message again, because the client dropped it before the agent could see it.
    pub(crate) fn requeue(
        &self,
        agent: &AgentId,
        id: &str,
        why: &str,
        now: Timestamp,
    ) -> Result<(), FileError> {
        if baton_core::ids::unsafe_name(id).is_some() {
            return Ok(());
        }
        let (from, to) = (self.dir(agent, "cur").join(id), self.dir(agent, "new").join(id));
        match std::fs::rename(&from, &to) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            moved => moved.map_err(|e| FileError::new("queue again", &from, e))?,
        }
        self.note(
            agent,
            &Receipt { id: id.to_owned(), at: now, state: State::Queued, evidence: why.to_owned() },
        );
        Ok(())
    }

    /// Whether a process died while it held messages.
    pub(crate) fn has_abandoned(&self, agent: &AgentId) -> bool {
        let held = names(&self.dir(agent, "tmp"));
        held.iter().filter_map(|name| name.rsplit_once(".by-")).any(|(_, holder)| !is_running(holder))
    }

    /// Claims one message by id; `None` if it is not queued.
    pub(crate) fn hold(&self, agent: &AgentId, id: &str) -> Result<Option<Claimed>, FileError> {
        if baton_core::ids::unsafe_name(id).is_some() {
            return Ok(None);
        }
        let from = self.dir(agent, "new").join(id);
        let path = self.dir(agent, "cur").join(id);
        let held = self.held_path(agent, id);
        match std::fs::rename(&from, &held) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(FileError::new("claim", &from, e)),
            Ok(()) => Ok(self.opened(&held, &from).map(|message| Claimed { message, path, held })),
        }
    }

    /// Marks queued messages as delivered if there is evidence that they were shown.
    pub(crate) fn settle_shown(&self, agent: &AgentId, evidence: &dyn Fn(&str) -> Option<String>) {
        for id in names(&self.dir(agent, "new")) {
            if let Some(evidence) = evidence(&id) {
                self.seen(agent, &id, &evidence, Timestamp::now());
            }
        }
    }

    fn held_path(&self, agent: &AgentId, id: &str) -> PathBuf {
        let me = process::identify(std::process::id()).map_or(0, |me| me.start);
        self.dir(agent, "tmp").join(format!("{id}.by-{}-{me}", std::process::id()))
    }

    /// Requeues messages whose holder died, unless `seen` finds them in the transcript.
    pub(crate) fn requeue_abandoned(
        &self,
        agent: &AgentId,
        seen: &dyn Fn(&str) -> bool,
    ) -> Result<(), FileError> {
        for name in names(&self.dir(agent, "tmp")) {
            let Some((id, holder)) = name.rsplit_once(".by-") else { continue };
            if is_running(holder) {
                continue;
            }
            let place = if seen(id) { "cur" } else { "new" };
            let (from, to) = (self.dir(agent, "tmp").join(&name), self.dir(agent, place).join(id));
            match std::fs::rename(&from, &to) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                    return Err(FileError::new("queue again", &from, e));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Expires queued messages whose names `is_older` picks, for this reason.
    pub(in crate::mail) fn replace(
        &self,
        agent: &AgentId,
        is_older: &dyn Fn(&str) -> bool,
        reason: &str,
        now: Timestamp,
    ) -> Result<(), FileError> {
        for name in names(&self.dir(agent, "new")).into_iter().filter(|name| is_older(name)) {
            let path = self.dir(agent, "new").join(&name);
            self.end(agent, &path, &name, State::Expired, reason, now)?;
        }
        Ok(())
    }

    /// Marks everything that waits as delivered, with this evidence.
    pub(crate) fn all_seen(&self, agent: &AgentId, evidence: &str, now: Timestamp) {
        for id in names(&self.dir(agent, "new")) {
            self.seen(agent, &id, evidence, now);
        }
    }

    /// Moves the mailbox of `old` to `new`, including mail that came to the old name meanwhile.
    pub(crate) fn rename(&self, old: &AgentId, new: &AgentId) -> Result<(), FileError> {
        let (from, to) = (self.home(old), self.home(new));
        match std::fs::rename(&from, &to) {
            Ok(()) => return Ok(()),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            // The new mailbox exists already, so move the messages one by one.
            Err(e) if e.kind() == std::io::ErrorKind::DirectoryNotEmpty => {}
            Err(e) => return Err(FileError::new("rename", &from, e)),
        }
        for place in ["new", "cur", "expired", "failed", "tmp", "keys"] {
            for name in fs::names(&from.join(place))?.iter().filter(|name| is_message(name)) {
                fs::private_dir(&to.join(place))?;
                let (from, to) = (from.join(place).join(name), to.join(place).join(name));
                fs::rename_new(&from, &to)?;
            }
        }
        Ok(())
    }

    /// All messages of an agent with their states, oldest first.
    pub(crate) fn list(&self, agent: &AgentId) -> Vec<(Message, State)> {
        let mut messages = Vec::new();
        let places = [
            ("tmp", State::Queued),
            ("new", State::Queued),
            ("cur", State::Delivered),
            ("expired", State::Expired),
            ("failed", State::Failed),
        ];
        for (place, state) in places {
            let dir = self.dir(agent, place);
            // A message that is still being written has not been accepted.
            for name in names(&dir).iter().filter(|name| place != "tmp" || name.contains(".by-")) {
                if let Ok(Some(message)) = record::read::<Message>(&dir.join(name)) {
                    messages.push((message, state));
                }
            }
        }
        messages.sort_by(|a, b| a.0.id.cmp(&b.0.id));
        messages
    }

    /// Agents that have a mailbox.
    pub(crate) fn boxes(&self) -> Vec<AgentId> {
        names(&self.root).into_iter().filter_map(|name| AgentId::new(name).ok()).collect()
    }
}

/// Whether the process `{pid}-{start}` that holds a message still runs.
fn is_running(holder: &str) -> bool {
    let Some((pid, start)) = holder.split_once('-') else { return false };
    let (Ok(pid), Ok(start)) = (pid.parse(), start.parse::<u64>()) else { return false };
    process::identify(pid).is_some_and(|found| found.start == start)
}

/// How urgent a queued message is. Opens the file if the name does not tell; an unreadable one waits for idle.
fn urgency_of(dir: &Path, name: &str) -> Urgency {
    Urgency::in_name(name).unwrap_or_else(|| {
        let message = record::read::<Message>(&dir.join(name)).unwrap_or(None);
        message.map(|m| m.urgency).unwrap_or_default()
    })
}

/// The time in a message's name.
fn stamp(name: &str) -> Option<i128> {
    name.strip_prefix('m')?.split_once('-')?.0.parse().ok()
}

fn is_message(name: &str) -> bool {
    !name.starts_with('.') && !name.contains(".damaged-")
}

/// The names of messages in order, as far as they can be read; a missing folder is empty.
fn names(dir: &Path) -> Vec<String> {
    fs::sorted_names(dir, is_message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file where the folder of queued messages belongs cannot be listed.
    #[test]
    fn a_mailbox_that_cannot_be_listed_may_hold_mail_and_is_not_renamed_in_part() {
        let dir = tempfile::tempdir().unwrap();
        let mail = Mail { root: dir.path().join("mail") };
        let (old, new) = (AgentId::new("old").unwrap(), AgentId::new("new").unwrap());
        assert!(!mail.may_wait(&old));
        mail.post(&new, &Draft::new("user", "hello"), Timestamp::now()).unwrap();
        assert!(mail.may_wait(&new));
        std::fs::create_dir_all(mail.home(&old)).unwrap();
        std::fs::write(mail.dir(&old, "new"), "").unwrap();
        assert!(mail.may_wait(&old));
        let failed = mail.rename(&old, &new).unwrap_err();
        assert_eq!(failed.path, mail.dir(&old, "new"));
    }
}
