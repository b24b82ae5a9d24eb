//! Mail: one maildir per agent, one message a file, and its place tells its state.
//!
//! ```text
//! mail/{agent}/tmp/   {id}                    being written
//!                     {id}.by-{pid}-{start}   a hook is about to show it; if that process dies it is queued again
//!             /new/   queued
//!             /cur/   delivered: a hook put it in front of the agent, or saw it in a prompt
//!             /expired/  /failed/   never delivered, and why is in the receipts
//!             receipts.jsonl        one line for each change, with its evidence
//! ```
//! A claim is a rename, so of two hooks one wins. File names sort by time, so senders keep their order. Hooks look
//! at `tmp` and `new` only, which are small however much has been delivered. While somebody holds a message, nobody passes
//! it over: a later one would come before it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use baton_core::ids::AgentId;
use baton_core::message::{MAX_TEXT, Message, Urgency};
use jiff::Timestamp;

use super::record;
use crate::sys::fs::{self, FileError, PRIVATE, Sync};
use crate::sys::process;

#[derive(Debug, thiserror::Error)]
pub enum SendError {
    #[error("a message of {0} bytes is more than the {MAX_TEXT} that are accepted; send a path instead")]
    TooLarge(usize),
    #[error("there is no text to send")]
    Empty,
    #[error(transparent)]
    File(#[from] FileError),
}

/// Where a message stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Queued,
    Delivered,
    /// Its time had passed before anybody could show it.
    Expired,
    /// It will not be delivered any more.
    Failed,
}

/// What is known about the end of a message's way.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Receipt {
    pub id: String,
    pub at: Timestamp,
    pub state: State,
    /// `PostToolUse hook of session …`, `prompt of session …`, `transcript of session …`, or why not.
    pub evidence: String,
}

/// A message that this process has claimed and is about to show.
#[derive(Debug)]
pub struct Claimed {
    pub message: Message,
    /// Where the whole text can be read from now on.
    pub path: PathBuf,
    held: PathBuf,
}

/// A message before it is accepted.
#[derive(Debug, Clone, Copy)]
pub struct Draft<'a> {
    pub from: &'a str,
    pub text: &'a str,
    pub urgency: Urgency,
    pub expires: Option<Timestamp>,
    pub notify: bool,
}

pub struct Mail {
    root: PathBuf,
}

static COUNT: AtomicU32 = AtomicU32::new(0);

impl Mail {
    pub fn new(state: &Path) -> Self {
        Self { root: state.join("mail") }
    }

    fn dir(&self, agent: &AgentId, place: &str) -> PathBuf {
        self.root.join(agent.as_str()).join(place)
    }

    /// Queues a message. When this returns it is on disk and will not be lost.
    pub fn send(
        &self,
        to: &AgentId,
        from: &str,
        text: &str,
        urgency: Urgency,
        now: Timestamp,
    ) -> Result<Message, SendError> {
        let draft = Draft { from, text, urgency, expires: None, notify: false };
        self.post(to, &draft, now)
    }

    /// The same with everything that can be said of a message.
    pub fn post(&self, to: &AgentId, draft: &Draft<'_>, now: Timestamp) -> Result<Message, SendError> {
        let Draft { from, text, urgency, expires, notify } = *draft;
        if text.len() > MAX_TEXT {
            return Err(SendError::TooLarge(text.len()));
        }
        if text.trim().is_empty() {
            return Err(SendError::Empty);
        }
        // Nanoseconds first: names sort by time; process and count make them unique. A clock that was set back
        // must not put this message before those that wait already.
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let last = names(&self.dir(to, "new")).last().and_then(|name| stamp(name));
        let stamp = last.map_or(now.as_nanosecond(), |last| now.as_nanosecond().max(last + 1));
        let id = format!("m{stamp:020}-{}-{count:04}", std::process::id());
        let message = Message {
            id,
            from: from.to_owned(),
            to: to.clone(),
            at: now,
            urgency,
            expires,
            notify,
            text: text.to_owned(),
        };
        fs::private_dirs(&self.root.join(to.as_str()), &["tmp", "new", "cur"])?;
        let temp = self.dir(to, "tmp").join(&message.id);
        let path = self.dir(to, "new").join(&message.id);
        let bytes = serde_json::to_vec(&message).map_err(|e| FileError::new("encode", &path, e))?;
        fs::create(&temp, &bytes, PRIVATE, Sync::Yes)?;
        std::fs::rename(&temp, &path).map_err(|e| FileError::new("queue", &path, e))?;
        fs::sync_parent(&path)?;
        Ok(message)
    }

    /// How many wait. Cheap: the status line asks on every render.
    pub fn waiting(&self, agent: &AgentId) -> usize {
        if fs::is_in(&self.root, agent.as_str()) { names(&self.dir(agent, "new")).len() } else { 0 }
    }

    /// The newest message that waits and is urgent, by its id.
    pub fn urgent(&self, agent: &AgentId) -> Option<String> {
        let dir = self.dir(agent, "new");
        let is_urgent = |name: &String| {
            let message = record::read::<Message>(&dir.join(name)).ok().flatten();
            message.is_some_and(|m| m.urgency == Urgency::Urgent)
        };
        names(&dir).into_iter().rfind(is_urgent)
    }

    /// A message that has been put in front of the agent, and where it lies.
    pub fn delivered_one(&self, agent: &AgentId, id: &str) -> Option<(Message, PathBuf)> {
        let path = self.dir(agent, "cur").join(id);
        record::read(&path).ok().flatten().map(|message| (message, path))
    }

    /// Claims the oldest queued message. Messages that a hook claimed and died with are queued again first,
    /// unless `seen` finds them in the transcript.
    pub fn claim(&self, agent: &AgentId, seen: &dyn Fn(&str) -> bool) -> Result<Option<Claimed>, FileError> {
        if !fs::is_in(&self.root, agent.as_str()) {
            return Ok(None);
        }
        self.requeue_abandoned(agent, seen)?;
        let queued = names(&self.dir(agent, "new"));
        // One that somebody is about to show comes first; the others wait for its turn.
        if queued.is_empty() || self.is_held_by_another(agent) {
            return Ok(None);
        }
        for name in queued {
            let from = self.dir(agent, "new").join(&name);
            let path = self.dir(agent, "cur").join(&name);
            let held = self.held_path(agent, &name);
            match std::fs::rename(&from, &held) {
                // Another hook was faster.
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
                Err(e) => return Err(FileError::new("claim", &from, e)),
                Ok(()) => {}
            }
            // A message that cannot be read was set aside by the look at it; the next one is tried.
            let Some(message) = record::read::<Message>(&held)? else { continue };
            let now = Timestamp::now();
            if message.expires.is_some_and(|at| at <= now) {
                self.end(agent, &held, &name, State::Expired, "its time had passed", now)?;
                continue;
            }
            return Ok(Some(Claimed { message, path, held }));
        }
        Ok(None)
    }

    fn is_held_by_another(&self, agent: &AgentId) -> bool {
        let mine = format!(".by-{}-", std::process::id());
        names(&self.dir(agent, "tmp")).iter().any(|name| name.contains(".by-") && !name.contains(&mine))
    }

    /// Moves a message to the place of those that were never delivered.
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

    /// Nobody will read what waits: it is marked as failed, with the reason. Returns how many there were.
    pub fn fail_waiting(&self, agent: &AgentId, why: &str, now: Timestamp) -> Result<usize, FileError> {
        let waiting = names(&self.dir(agent, "new"));
        for name in &waiting {
            self.end(agent, &self.dir(agent, "new").join(name), name, State::Failed, why, now)?;
        }
        Ok(waiting.len())
    }

    /// A prompt or a transcript shows this message, whoever holds it. `false` if it was not waiting.
    pub fn seen(&self, agent: &AgentId, id: &str, evidence: &str, now: Timestamp) -> bool {
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
        moved
    }

    /// Does this message still wait for somebody to see it?
    pub fn is_waiting(&self, agent: &AgentId, id: &str) -> bool {
        self.dir(agent, "new").join(id).exists()
            || names(&self.dir(agent, "tmp"))
                .iter()
                .any(|n| n.strip_prefix(id).is_some_and(|r| r.starts_with(".by-")))
    }

    /// Appends a receipt; losing one loses the evidence, not the state, which is the message's place.
    pub fn note(&self, agent: &AgentId, receipt: &Receipt) {
        if let Ok(mut line) = serde_json::to_vec(receipt) {
            line.push(b'\n');
            let _ = fs::append_line(&self.root.join(agent.as_str()).join("receipts.jsonl"), &line, PRIVATE);
        }
    }

    /// The last receipt of each message.
    pub fn receipts(&self, agent: &AgentId) -> std::collections::HashMap<String, Receipt> {
        let path = self.root.join(agent.as_str()).join("receipts.jsonl");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let receipts = text.lines().filter_map(|line| serde_json::from_str::<Receipt>(line).ok());
        receipts.map(|r| (r.id.clone(), r)).collect()
    }

    /// The message has been put in front of the agent; `evidence` says by whom.
    pub fn delivered(&self, claimed: &Claimed, evidence: &str) -> Result<(), FileError> {
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

    /// It could not be shown after all: it is queued again under its old name, so it keeps its place.
    pub fn put_back(&self, claimed: &Claimed) -> Result<(), FileError> {
        let path = self.dir(&claimed.message.to, "new").join(&claimed.message.id);
        match std::fs::rename(&claimed.held, &path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound && claimed.path.exists() => Ok(()),
            moved => moved.map_err(|e| FileError::new("queue again", &path, e)),
        }
    }

    /// Does somebody hold messages who has died?
    pub fn has_abandoned(&self, agent: &AgentId) -> bool {
        let held = names(&self.dir(agent, "tmp"));
        held.iter().filter_map(|name| name.rsplit_once(".by-")).any(|(_, holder)| !is_running(holder))
    }

    /// Holds one queued message; nothing if it is not queued.
    pub fn hold(&self, agent: &AgentId, id: &str) -> Result<Option<Claimed>, FileError> {
        if baton_core::ids::unsafe_name(id).is_some() {
            return Ok(None);
        }
        let from = self.dir(agent, "new").join(id);
        let path = self.dir(agent, "cur").join(id);
        let held = self.held_path(agent, id);
        match std::fs::rename(&from, &held) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(FileError::new("claim", &from, e)),
            Ok(()) => Ok(record::read::<Message>(&held)?.map(|message| Claimed { message, path, held })),
        }
    }

    /// Queued messages that have been seen all the same, with the evidence, are delivered.
    pub fn settle_shown(&self, agent: &AgentId, evidence: &dyn Fn(&str) -> Option<String>) {
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

    /// Messages whose holder has died are queued again, unless `seen` finds them in the transcript.
    pub fn requeue_abandoned(&self, agent: &AgentId, seen: &dyn Fn(&str) -> bool) -> Result<(), FileError> {
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

    /// All messages of an agent with their states, oldest first.
    pub fn list(&self, agent: &AgentId) -> Vec<(Message, State)> {
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
            // What is still being written has not been accepted.
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
    pub fn boxes(&self) -> Vec<AgentId> {
        names(&self.root).into_iter().filter_map(|name| AgentId::new(name).ok()).collect()
    }
}

/// Is the hook that holds a message, told as `{pid}-{start}`, still at work?
fn is_running(holder: &str) -> bool {
    let Some((pid, start)) = holder.split_once('-') else { return false };
    let (Ok(pid), Ok(start)) = (pid.parse(), start.parse::<u64>()) else { return false };
    process::identify(pid).is_some_and(|found| found.start == start)
}

/// The time in a message's name.
fn stamp(name: &str) -> Option<i128> {
    name.strip_prefix('m')?.split_once('-')?.0.parse().ok()
}

/// File names in order; a folder that is not there is empty.
fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|e| e.file_name().into_string().ok())
        .filter(|name| !name.starts_with('.') && !name.contains(".damaged-"))
        .collect();
    names.sort();
    names
}
