//! Mail from other machines: it becomes an ordinary message here, once, and its sender gets receipts.

use std::collections::{BTreeMap, HashMap};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use baton_core::fleet::MachineName;
use baton_core::fleet::envelope::{self, Header};
use baton_core::fleet::stage::{Receipt, Stage};
use baton_core::ids::AgentId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::fleet::folder;
use crate::mail;
use crate::mail::keyed::{self, Key};
use crate::mail::maildir::{self, Draft, Mail, SendError, State};
use crate::mail::user;
use crate::store::{Store, record};
use crate::sys::fs::{self, FileError};

/// A message that arrived and has not been seen yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tracked {
    /// The envelope's id.
    pub id: String,
    pub from: MachineName,
    pub agent: AgentId,
    /// Its id in the mailbox here.
    pub message: String,
}

/// Delivers mail into the mailbox of an agent here, once however often it comes. An error means that this machine could
/// not: it is fetched again later.
pub(super) fn deliver(
    store: &Store,
    header: &Header,
    body: &envelope::Mail,
    now: Timestamp,
) -> anyhow::Result<(Receipt, Option<Tracked>)> {
    let receipt = |stage, evidence: String| Receipt { id: header.id.clone(), stage, at: now, evidence };
    if body.expires.is_some_and(|at| at <= now) {
        return Ok((receipt(Stage::Expired, "its time had passed when it came".to_owned()), None));
    }
    // Here the sender is always a name on that machine, whatever the message says.
    let sender = AgentId::new(body.from.as_str()).map_or_else(|_| "unknown".to_owned(), |id| id.to_string());
    let from = format!("{sender}@{}", header.from);
    let draft = Draft { urgency: body.urgency, expires: body.expires, ..Draft::new(&from, &body.text) };
    let key = Key::new(header.id.as_str())?;
    let posted = if body.to == user::id() {
        keyed::post(&Mail::of(store), &body.to, &draft, &key, now).map(|(id, _)| (body.to.clone(), id))
    } else {
        let Some(agent) = store.agents().named(&body.to)? else {
            return Ok((receipt(Stage::Failed, format!("no agent {} is there", body.to)), None));
        };
        mail::send(store, &agent, &draft, Some(&key), now).map(|sent| (agent.id.clone(), sent.id))
    };
    match posted {
        Ok((agent, message)) => {
            let tracked = Tracked { id: header.id.clone(), from: header.from.clone(), agent, message };
            Ok((receipt(Stage::Fetched, String::new()), Some(tracked)))
        }
        // It will be no different later.
        Err(e @ (SendError::TooLarge(_) | SendError::Empty | SendError::Retired(_))) => {
            Ok((receipt(Stage::Failed, e.to_string()), None))
        }
        Err(e) => Err(e.into()),
    }
}

/// Tracks received messages until they are seen.
pub(super) struct Tracker {
    dir: PathBuf,
    waiting: BTreeMap<String, Tracked>,
    /// How far the receipts of each mailbox were read.
    offsets: HashMap<AgentId, u64>,
}

impl Tracker {
    pub(super) fn open(state: &Path) -> Self {
        let dir = folder(state).join("inbound");
        // Of one that cannot be read now, the next daemon tells the sender.
        let waiting = record::all_readable::<Tracked>(&dir).into_iter().map(|t| (t.id.clone(), t)).collect();
        Self { dir, waiting, offsets: HashMap::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn add(&mut self, tracked: Tracked) -> Result<(), FileError> {
        fs::private_dir(&self.dir)?;
        record::write(&self.dir.join(format!("{}.json", tracked.id)), &tracked)?;
        // Read the mailbox's receipts from the beginning, to find a message that was seen before it was tracked.
        self.offsets.remove(&tracked.agent);
        self.waiting.insert(tracked.id.clone(), tracked);
        Ok(())
    }

    /// The receipts since the last look, by the sender's machine.
    pub(super) fn ended(&mut self, store: &Store) -> BTreeMap<MachineName, Vec<Receipt>> {
        let mut found: BTreeMap<MachineName, Vec<Receipt>> = BTreeMap::new();
        let mut by_message: HashMap<(AgentId, String), String> = HashMap::new();
        for tracked in self.waiting.values() {
            by_message.insert((tracked.agent.clone(), tracked.message.clone()), tracked.id.clone());
        }
        let agents: std::collections::BTreeSet<AgentId> =
            self.waiting.values().map(|t| t.agent.clone()).collect();
        for agent in agents {
            for receipt in self.news(store, &agent) {
                let stage = match receipt.state {
                    State::Queued => continue,
                    State::Delivered => Stage::Seen,
                    State::Expired => Stage::Expired,
                    State::Failed => Stage::Failed,
                };
                let Some(id) = by_message.get(&(agent.clone(), receipt.id)) else { continue };
                let Some(tracked) = self.waiting.get(id) else { continue };
                let ended = Receipt { id: id.clone(), stage, at: receipt.at, evidence: receipt.evidence };
                found.entry(tracked.from.clone()).or_default().push(ended);
            }
        }
        found
    }

    /// The receipts of one mailbox that were appended since the last look.
    fn news(&mut self, store: &Store, agent: &AgentId) -> Vec<maildir::Receipt> {
        let path = Mail::of(store).home(agent).join("receipts.jsonl");
        let offset = self.offsets.entry(agent.clone()).or_default();
        let Ok(mut file) = fs::open_read(&path) else { return Vec::new() };
        let mut bytes = Vec::new();
        if file.seek(SeekFrom::Start(*offset)).and_then(|_| file.read_to_end(&mut bytes)).is_err() {
            return Vec::new();
        }
        // A line that is being written is read next time.
        let end = memchr::memrchr(b'\n', &bytes).map_or(0, |at| at + 1);
        *offset += end as u64;
        let lines = bytes[..end].split(|b| *b == b'\n');
        lines.filter_map(|line| serde_json::from_slice(line).ok()).collect()
    }

    /// Stops tracking a message whose receipt is in our outbox.
    pub(super) fn forget(&mut self, receipts: &[Receipt]) -> Result<(), FileError> {
        for receipt in receipts {
            self.waiting.remove(&receipt.id);
            fs::remove(&self.dir.join(format!("{}.json", receipt.id)))?;
        }
        Ok(())
    }
}
