//! The handoff store: manifest, current document, archive, history, one lock per channel.
//!
//! Commit order of a seal: `archive/{id}.md`, then `{channel}-CURRENT.md`, then the manifest. The manifest is
//! the commit point: before it nothing has happened, after it everything can be found. `CURRENT` is not synced,
//! because a reader that finds it behind the manifest takes the archived document and mends it.

mod history;
mod machines;
mod reactivate;
mod read;
mod repair;

use std::path::PathBuf;
use std::time::Duration;

use baton_core::handoff::manifest::{Unsound, World};
use baton_core::handoff::{Carried, Claimant, Entry, HandoffId, Header, Kind, Manifest, Refusal, Status};
use baton_core::ids::{AgentId, ChannelName, SessionId};
use baton_core::plain::plain;
use baton_core::redact::redact;
use jiff::{SignedDuration, Timestamp};

pub use history::{Event, Transition};
pub(crate) use read::newest_first;
pub use repair::Repair;

use crate::store::record;
use crate::sys::fs::{self, FileError, PRIVATE, Sync};
use crate::sys::lock::{Lock, LockError};
use crate::sys::process;

/// Far more than a manifest with a thousand waiting handoffs needs.
const MAX_MANIFEST: u64 = 4 << 20;
/// Larger documents are refused, because no agent could read them.
pub(crate) const MAX_DOCUMENT: u64 = 8 << 20;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(
        "the manifest {path} cannot be understood: {why}; nothing was changed. Run `baton handoffs repair` to set it aside"
    )]
    Manifest { path: PathBuf, why: String },
    #[error(
        "{path} was written by a newer baton (format {version}); it is left as it is. Update baton to use it"
    )]
    Newer { path: PathBuf, version: u32 },
    #[error(
        "neither {current} nor {archived} carries handoff {id} ({why}); nothing was loaded and nothing changed. Run `baton handoffs repair`"
    )]
    Mismatch { id: HandoffId, current: PathBuf, archived: PathBuf, why: String },
    #[error("a handoff of {0} bytes is more than the {MAX_DOCUMENT} that are accepted; shorten it")]
    TooLarge(usize),
    #[error("there is no text in the handoff; write what the next session needs to know")]
    Empty,
    #[error("there is no handoff {0} in {1}")]
    NoSuch(HandoffId, ChannelName),
}

/// A handoff that is about to be sealed.
#[derive(Debug)]
pub struct Draft<'a> {
    pub channel: &'a ChannelName,
    pub session: &'a SessionId,
    pub kind: Kind,
    pub working_dir: &'a str,
    pub body: &'a str,
    pub created_by_pid: u32,
    pub for_agent: Option<&'a AgentId>,
    pub for_session: Option<&'a SessionId>,
    pub rotation: Option<&'a str>,
    /// The ledger behind the document, kept beside it.
    pub carried: Option<&'a Carried>,
}

/// A sealed handoff: it is on disk, found by its manifest, and will not be lost.
#[derive(Debug)]
pub struct Sealed {
    pub entry: Entry,
    /// Its document in the archive, where it stays.
    pub path: PathBuf,
    /// How many secrets were removed.
    pub redacted: usize,
}

/// A handoff with its document, header included.
#[derive(Debug)]
pub struct LoadedHandoff {
    pub entry: Entry,
    pub text: String,
    /// Where its ledger is, if it has one.
    carried: PathBuf,
}

impl LoadedHandoff {
    /// The ledger behind the document. Handoffs of earlier versions, or written by a person, have none.
    pub fn carried(&self) -> Result<Option<Carried>, FileError> {
        let carried: Option<Carried> = record::read(&self.carried)?;
        Ok(carried.filter(Carried::is_current))
    }

    /// The document without its header comments.
    pub fn body(&self) -> &str {
        Header::parse(&self.text).map_or(self.text.as_str(), |(_, body)| body)
    }
}

/// The format version alone, for a manifest that may be of a newer format.
#[derive(serde::Deserialize)]
struct Format {
    #[serde(default)]
    version: u32,
}

/// Whether a handoff is still needed: its addressee lives, or its rotation is open.
pub type EntryPredicate = Box<dyn Fn(&Entry) -> bool>;

pub struct Handoffs {
    root: PathBuf,
    expiry: SignedDuration,
    wanted: EntryPredicate,
    private: EntryPredicate,
    /// How long to wait for another process that is changing the same channel.
    pub patience: Duration,
}

impl Handoffs {
    pub fn new(root: PathBuf, expiry: SignedDuration, wanted: EntryPredicate) -> Self {
        Self { root, expiry, wanted, private: Box::new(|_| false), patience: Duration::from_secs(5) }
    }

    /// Only their addressee may load handoffs that match `private`.
    #[must_use]
    pub(crate) fn keeping(self, private: EntryPredicate) -> Self {
        Self { private, ..self }
    }

    pub(crate) fn manifest_path(&self, channel: &ChannelName) -> PathBuf {
        self.root.join(format!("{channel}.manifest.json"))
    }

    pub(crate) fn current_path(&self, channel: &ChannelName) -> PathBuf {
        self.root.join(format!("{channel}-CURRENT.md"))
    }

    pub fn archived_path(&self, id: &HandoffId) -> PathBuf {
        self.root.join("archive").join(format!("{id}.md"))
    }

    /// The ledger beside the document.
    pub(crate) fn carried_path(&self, id: &HandoffId) -> PathBuf {
        self.root.join("archive").join(format!("{id}.json"))
    }

    pub(crate) fn history_path(&self, channel: &ChannelName) -> PathBuf {
        self.root.join(format!("{channel}.history.jsonl"))
    }

    fn lock(&self, channel: &ChannelName) -> Result<Lock, StoreError> {
        let lock = Lock::acquire_shown(&self.root.join(format!("{channel}.lock.d/pid")), self.patience)?;
        if lock.predecessor_died {
            for dir in [&self.root, &self.root.join("archive")] {
                // A failed cleanup is no reason to fail.
                let _ = fs::sweep_temps(dir, process::pid_exists);
            }
        }
        Ok(lock)
    }

    fn world<T>(&self, now: Timestamp, act: impl FnOnce(&World<'_>) -> T) -> T {
        act(&World {
            now,
            expiry: self.expiry,
            alive: &process::is_alive,
            wanted: &*self.wanted,
            private: &*self.private,
        })
    }

    /// The channel's manifest; an empty one if nothing was ever sealed.
    pub fn manifest(&self, channel: &ChannelName) -> Result<Manifest, StoreError> {
        let path = self.manifest_path(channel);
        let Some(bytes) = fs::read(&path, MAX_MANIFEST)? else {
            return Ok(Manifest::empty(channel.clone()));
        };
        let damaged = |why: String| StoreError::Manifest { path: path.clone(), why };
        // Check the version first: of a newer format nothing else may parse.
        if let Ok(Format { version }) = serde_json::from_slice(&bytes)
            && version > Manifest::VERSION
        {
            return Err(StoreError::Newer { path, version });
        }
        let manifest: Manifest = serde_json::from_slice(&bytes).map_err(|e| damaged(e.to_string()))?;
        manifest.check(channel).map_err(|e: Unsound| damaged(e.to_string()))?;
        Ok(manifest)
    }

    /// The manifest, for a caller that holds the lock and will change it. A damaged one is set aside and rebuilt from
    /// the history and the archive, so that nobody has to wait for a `repair`; `doctor` names the file that was set
    /// aside.
    fn manifest_locked(&self, channel: &ChannelName, now: Timestamp) -> Result<Manifest, StoreError> {
        match self.manifest(channel) {
            Err(StoreError::Manifest { path, .. }) => {
                // Rebuild first: if that fails, the damaged file is better than none.
                let manifest = self.rebuild(channel)?;
                fs::set_aside(&path, &now.strftime("%Y%m%d-%H%M%S").to_string())?;
                self.commit(&manifest, Sync::Yes)?;
                Ok(manifest)
            }
            other => other,
        }
    }

    /// Writes the manifest: the commit point of every change.
    fn commit(&self, manifest: &Manifest, sync: Sync) -> Result<(), StoreError> {
        let manifest = &Manifest { version: Manifest::VERSION, ..manifest.clone() };
        let mut bytes = serde_json::to_vec_pretty(manifest)
            .map_err(|e| FileError::new("encode", &self.manifest_path(&manifest.channel), e))?;
        bytes.push(b'\n');
        Ok(fs::replace(&self.manifest_path(&manifest.channel), &bytes, PRIVATE, sync)?)
    }

    /// Seals `draft`: when this returns, the handoff survives a crash of ours and of the machine.
    pub fn seal(&self, draft: &Draft<'_>, now: Timestamp) -> Result<Sealed, StoreError> {
        if draft.body.len() as u64 > MAX_DOCUMENT {
            return Err(StoreError::TooLarge(draft.body.len()));
        }
        // Keep control characters and secrets of known shapes off the disk.
        let plain = plain(draft.body);
        let redacted = redact(&plain);
        let draft = &Draft { body: &redacted.text, kind: draft.kind.clone(), ..*draft };
        if draft.body.trim().is_empty() {
            return Err(StoreError::Empty);
        }
        fs::private_dir(&self.root.join("archive"))?;
        let _lock = self.lock(draft.channel)?;
        // Whole seconds, so that the document, its name and the manifest show the same instant.
        let created_at = Timestamp::from_second(now.as_second()).unwrap_or(now);
        // Archive first: whatever is wrong with the manifest, the words are on disk.
        let (header, text) = self.archive(draft, created_at)?;
        let path = self.archived_path(&header.id);
        if let Some(carried) = draft.carried {
            // The document is safe; without the ledger the next session reads the document alone.
            let _ = record::write(&self.carried_path(&header.id), carried);
        }
        let mut manifest = self.manifest_locked(draft.channel, now)?;
        fs::replace(&self.current_path(draft.channel), text.as_bytes(), PRIVATE, Sync::Later)?;
        // A manifest that was just rebuilt from the archive lists it already.
        manifest.forget(&header.id);
        let mut entry = Entry::active(&header, draft.created_by_pid);
        entry.rotation = draft.rotation.map(str::to_owned);
        let ended = self.world(now, |world| manifest.seal(entry.clone(), world));
        self.record_ends(draft.channel, &ended, now)?;
        self.commit(&manifest, Sync::Yes)?;
        self.record(draft.channel, &Event::of(Transition::Sealed, entry.clone(), now));
        Ok(Sealed { entry, path, redacted: redacted.hits.len() })
    }

    /// Writes the document under the first free id of this second.
    fn archive(&self, draft: &Draft<'_>, now: Timestamp) -> Result<(Header, String), StoreError> {
        for nth in 1..u32::MAX {
            let id = HandoffId::mint(now, draft.session, nth);
            let path = self.archived_path(&id);
            if path.exists() {
                continue;
            }
            let header = Header {
                id,
                session: draft.session.clone(),
                channel: draft.channel.clone(),
                created: now,
                kind: draft.kind.clone(),
                working_dir: draft.working_dir.to_owned(),
                for_agent: draft.for_agent.cloned(),
                for_session: draft.for_session.cloned(),
            };
            let text = header.with_body(draft.body);
            // Another channel may take the name at this instant, so creation decides, not the check above.
            if fs::create(&path, text.as_bytes(), PRIVATE, Sync::Yes)? {
                return Ok((header, text));
            }
        }
        unreachable!("four thousand million handoffs of one session in one second")
    }

    /// The handoff that `who` would get, without claiming it.
    pub fn peek(
        &self,
        channel: &ChannelName,
        who: &Claimant<'_>,
        now: Timestamp,
    ) -> Result<Result<LoadedHandoff, Refusal>, StoreError> {
        let manifest = self.manifest(channel)?;
        match self.world(now, |world| manifest.offer(who, world).cloned()) {
            Ok(entry) => Ok(Ok(self.loaded(self.document(channel, &manifest, &entry)?, entry))),
            Err(refusal) => Ok(Err(refusal)),
        }
    }

    /// Claims the handoff for `who`. At most one session holds it, until it is consumed or released.
    pub fn claim(
        &self,
        channel: &ChannelName,
        who: &Claimant<'_>,
        now: Timestamp,
    ) -> Result<Result<LoadedHandoff, Refusal>, StoreError> {
        self.take(channel, now, |manifest, world| manifest.claim(who, world))
    }

    /// Loads and consumes in one step, for the command line.
    pub fn load(
        &self,
        channel: &ChannelName,
        who: &Claimant<'_>,
        pid: u32,
        now: Timestamp,
    ) -> Result<Result<LoadedHandoff, Refusal>, StoreError> {
        let take = |manifest: &mut Manifest, world: &World<'_>| {
            let claimed = manifest.claim(who, world)?;
            Ok(manifest.consume(&claimed.id, who.session, pid, world.now).unwrap_or(claimed))
        };
        self.take(channel, now, take)
    }

    /// Loads `id` because a person asked for it by name: its age and addressee do not matter, only that nobody else has
    /// it. A handoff that is no longer in the manifest is consumed in the history alone.
    pub(crate) fn load_id(
        &self,
        channel: &ChannelName,
        id: &HandoffId,
        session: &SessionId,
        pid: u32,
        now: Timestamp,
    ) -> Result<Result<LoadedHandoff, Refusal>, StoreError> {
        let _lock = self.lock(channel)?;
        let mut manifest = self.manifest_locked(channel, now)?;
        self.world(now, |world| manifest.release_dead(world));
        let listed = self.list(channel)?.into_iter().find(|e| &e.id == id);
        let mut entry = listed.ok_or_else(|| StoreError::NoSuch(id.clone(), channel.clone()))?;
        let text = self.document_locked(channel, &manifest, &entry)?;
        match manifest.load(id, session, pid, now) {
            Some(Ok(taken)) => entry = taken,
            Some(Err(refusal)) => return Ok(Err(refusal)),
            None => match entry.load(session, pid, now) {
                Ok(()) => {}
                Err(refusal) => return Ok(Err(refusal)),
            },
        }
        self.record_ends(channel, std::slice::from_ref(&entry), now)?;
        self.commit(&manifest, Sync::Yes)?;
        Ok(Ok(self.loaded(text, entry)))
    }

    fn loaded(&self, text: String, entry: Entry) -> LoadedHandoff {
        LoadedHandoff { text, carried: self.carried_path(&entry.id), entry }
    }

    fn take(
        &self,
        channel: &ChannelName,
        now: Timestamp,
        take: impl FnOnce(&mut Manifest, &World<'_>) -> Result<Entry, Refusal>,
    ) -> Result<Result<LoadedHandoff, Refusal>, StoreError> {
        // Without a manifest there is nothing to take, and asking must not create anything.
        if !self.manifest_path(channel).exists() {
            return Ok(Err(Refusal::Nothing));
        }
        let _lock = self.lock(channel)?;
        let before = self.manifest_locked(channel, now)?;
        let mut manifest = before.clone();
        let swept = self.world(now, |world| manifest.sweep(world));
        let taken = self.world(now, |world| take(&mut manifest, world));
        let entry = match taken {
            Ok(entry) => entry,
            Err(refusal) => {
                if manifest != before {
                    self.record_ends(channel, &swept, now)?;
                    self.commit(&manifest, Sync::Yes)?;
                }
                return Ok(Err(refusal));
            }
        };
        // Verify the document before anything is written, so that a mismatch changes nothing.
        let text = self.document_locked(channel, &before, &entry)?;
        self.record_ends(channel, &swept, now)?;
        self.record_ends(channel, std::slice::from_ref(&entry), now)?;
        self.commit(&manifest, Sync::Yes)?;
        if entry.status == Status::Active {
            self.record(channel, &Event::of(Transition::Claimed, entry.clone(), now));
        }
        Ok(Ok(self.loaded(text, entry)))
    }

    /// Turns a claim into consumption after the session's sign of life. Syncs nothing, because it is on the hot path.
    pub(crate) fn consume(
        &self,
        channel: &ChannelName,
        id: &HandoffId,
        session: &SessionId,
        pid: u32,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let _lock = self.lock(channel)?;
        let mut manifest = self.manifest_locked(channel, now)?;
        let Some(entry) = manifest.consume(id, session, pid, now) else { return Ok(false) };
        self.record_ends(channel, &[entry], now)?;
        self.commit(&manifest, Sync::No)?;
        Ok(true)
    }

    /// Gives a claim back after the session ended without a sign of life.
    pub fn release(
        &self,
        channel: &ChannelName,
        id: &HandoffId,
        session: &SessionId,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let _lock = self.lock(channel)?;
        let mut manifest = self.manifest_locked(channel, now)?;
        if !manifest.release(id, session) {
            return Ok(false);
        }
        self.commit(&manifest, Sync::Yes)?;
        if let Some(entry) = manifest.find(id) {
            self.record(channel, &Event::of(Transition::Released, entry.clone(), now));
        }
        Ok(true)
    }

    /// Clears `id`, or the current handoff, without consuming it. `None` if there was nothing active.
    pub fn clear(
        &self,
        channel: &ChannelName,
        id: Option<&HandoffId>,
        now: Timestamp,
    ) -> Result<Option<Entry>, StoreError> {
        if !self.manifest_path(channel).exists() {
            return Ok(None);
        }
        let _lock = self.lock(channel)?;
        let mut manifest = self.manifest_locked(channel, now)?;
        let Some(id) = id.cloned().or_else(|| manifest.current.as_ref().map(|e| e.id.clone())) else {
            return Ok(None);
        };
        let Some(entry) = manifest.clear(&id, now) else { return Ok(None) };
        self.record_ends(channel, std::slice::from_ref(&entry), now)?;
        self.commit(&manifest, Sync::Yes)?;
        Ok(Some(entry))
    }

    /// Readdresses waiting handoffs from `old` to `new`, the agent's new name.
    pub(crate) fn readdress(
        &self,
        channel: &ChannelName,
        old: &AgentId,
        new: &AgentId,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let is_for = |entry: &Entry| entry.for_agent.as_ref() == Some(old);
        if !self.manifest(channel)?.entries().any(is_for) {
            return Ok(());
        }
        let _lock = self.lock(channel)?;
        let mut manifest = self.manifest_locked(channel, now)?;
        let Manifest { current, waiting, .. } = &mut manifest;
        for entry in current.iter_mut().chain(waiting).filter(|entry| is_for(entry)) {
            entry.for_agent = Some(new.clone());
        }
        self.commit(&manifest, Sync::Yes)
    }
}
