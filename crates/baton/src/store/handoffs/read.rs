//! Lists handoffs, and reads their documents, checked against the manifest.

use std::path::Path;

use baton_core::handoff::document::BadHeader;
use baton_core::handoff::{Carried, Entry, HandoffId, Header, Manifest, Status};
use baton_core::ids::ChannelName;
use jiff::Timestamp;

use crate::store::handoffs::{Handoffs, LoadedHandoff, MAX_DOCUMENT, StoreError};
use crate::store::record;
use crate::sys::fs::{self, FileError, PRIVATE, Sync};

impl Handoffs {
    /// The active handoff, expired ones not counted. Reads only.
    pub fn active(&self, channel: &ChannelName, now: Timestamp) -> Result<Option<Entry>, StoreError> {
        let mut manifest = self.manifest(channel)?;
        self.world(now, |world| manifest.sweep(world));
        Ok(manifest.current.filter(|e| e.status == Status::Active))
    }

    /// Every handoff this channel ever had, newest first, in its last known state.
    pub fn list(&self, channel: &ChannelName) -> Result<Vec<Entry>, StoreError> {
        let manifest = self.manifest(channel)?;
        let mut entries = std::collections::BTreeMap::new();
        for event in self.history(channel)?.0 {
            if event.entry.status != Status::Active {
                entries.insert(event.entry.id.clone(), event.entry);
            }
        }
        for entry in manifest.entries() {
            entries.insert(entry.id.clone(), entry.clone());
        }
        let mut list: Vec<_> = entries.into_values().collect();
        list.sort_by(newest_first);
        Ok(list)
    }

    /// All channels that have a manifest.
    pub fn channels(&self) -> Result<Vec<ChannelName>, StoreError> {
        let entries = match std::fs::read_dir(&self.root) {
            Ok(entries) => entries,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(FileError::new("list", &self.root, e).into()),
        };
        let mut names = Vec::new();
        for entry in entries {
            let name = entry.map_err(|e| FileError::new("list", &self.root, e))?.file_name();
            let name = name.to_str().and_then(|name| name.strip_suffix(".manifest.json"));
            names.extend(name.and_then(|name| ChannelName::new(name).ok()));
        }
        names.sort();
        Ok(names)
    }

    /// The document of `entry`, checked against it. Repairs nothing.
    pub fn document(
        &self,
        channel: &ChannelName,
        manifest: &Manifest,
        entry: &Entry,
    ) -> Result<String, StoreError> {
        self.read_document(channel, manifest, entry).map(|(text, _)| text)
    }

    /// Like [`Self::document`], under the lock: rewrites a `CURRENT` that lags behind.
    pub(super) fn document_locked(
        &self,
        channel: &ChannelName,
        manifest: &Manifest,
        entry: &Entry,
    ) -> Result<String, StoreError> {
        let (text, behind) = self.read_document(channel, manifest, entry)?;
        if behind {
            // The archive has the words; failing to rewrite the copy is no reason to withhold them.
            let _ = fs::replace(&self.current_path(channel), text.as_bytes(), PRIVATE, Sync::Later);
        }
        Ok(text)
    }

    fn read_document(
        &self,
        channel: &ChannelName,
        manifest: &Manifest,
        entry: &Entry,
    ) -> Result<(String, bool), StoreError> {
        let is_current = manifest.current.as_ref().is_some_and(|c| c.id == entry.id);
        let mut behind = is_current;
        if is_current {
            match checked(&self.current_path(channel), channel, &entry.id) {
                Ok(text) => return Ok((text, false)),
                Err(why) => behind = why.newer().is_none(),
            }
        }
        let archived = self.archived_path(&entry.id);
        match checked(&archived, channel, &entry.id) {
            Ok(text) => Ok((text, behind)),
            Err(Unusable::Newer(version)) => Err(StoreError::Newer { path: archived, version }),
            Err(Unusable::Unreadable(e)) => Err(e.into()),
            Err(Unusable::Other(why)) => Err(StoreError::Mismatch {
                id: entry.id.clone(),
                current: self.current_path(channel),
                archived,
                why,
            }),
        }
    }

    pub(super) fn archived(&self, entry: &Entry) -> Result<String, StoreError> {
        let path = self.archived_path(&entry.id);
        let bytes = fs::read(&path, MAX_DOCUMENT * 2)?.ok_or_else(|| {
            FileError::new("read", &path, std::io::Error::from(std::io::ErrorKind::NotFound))
        })?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The entry of a handoff of the channel, whatever happened to its document.
    pub fn entry(&self, channel: &ChannelName, id: &HandoffId) -> Result<Option<Entry>, StoreError> {
        Ok(self.list(channel)?.into_iter().find(|e| &e.id == id))
    }

    /// A handoff of the channel by id, whatever its state, with its document.
    pub fn find(&self, channel: &ChannelName, id: &HandoffId) -> Result<Option<LoadedHandoff>, StoreError> {
        let Some(entry) = self.entry(channel, id)? else { return Ok(None) };
        Ok(Some(self.loaded(self.archived(&entry)?, entry)))
    }

    /// The ledger beside a document, by id alone.
    pub fn carried(&self, id: &HandoffId) -> Result<Option<Carried>, FileError> {
        let carried: Option<Carried> = record::read(&self.carried_path(id))?;
        Ok(carried.filter(Carried::is_current))
    }

    /// Notes in the ledger's record which files went with the handoff.
    pub(crate) fn note_attached(&self, id: &HandoffId, paths: &[String]) -> Result<(), FileError> {
        let Some(mut carried) = self.carried(id)? else { return Ok(()) };
        carried.attached = paths.to_vec();
        self.keep_carried(id, &carried)
    }

    /// Replaces the ledger beside a document.
    pub(crate) fn keep_carried(&self, id: &HandoffId, carried: &Carried) -> Result<(), FileError> {
        record::write(&self.carried_path(id), carried)
    }

    /// The document of any handoff that was ever sealed, by id alone.
    pub fn show(&self, id: &HandoffId) -> Result<Option<String>, StoreError> {
        let bytes = fs::read(&self.archived_path(id), MAX_DOCUMENT * 2)?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }
}

/// Newest first, for listings.
pub(crate) fn newest_first(a: &Entry, b: &Entry) -> std::cmp::Ordering {
    b.created_at.cmp(&a.created_at).then_with(|| order_in_second(&b.id, &a.id))
}

/// Sorts `-10` after `-9` within one second.
pub(super) fn order_in_second(a: &HandoffId, b: &HandoffId) -> std::cmp::Ordering {
    let (a, b) = (a.as_str(), b.as_str());
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

/// Why a document cannot be used.
#[derive(Debug)]
pub(super) enum Unusable {
    /// A newer baton wrote it, in this format. It must be left as it is.
    Newer(u32),
    /// The operating system could not read it, so it may be sound.
    Unreadable(FileError),
    Other(String),
}

impl Unusable {
    pub(super) fn newer(&self) -> Option<u32> {
        match self {
            Self::Newer(version) => Some(*version),
            Self::Unreadable(_) | Self::Other(_) => None,
        }
    }
}

impl std::fmt::Display for Unusable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Newer(version) => BadHeader::Newer(*version).fmt(f),
            Self::Unreadable(e) => e.fmt(f),
            Self::Other(why) => f.write_str(why),
        }
    }
}

/// The text at `path` if its header names this handoff and this channel, else why not.
pub(super) fn checked(path: &Path, channel: &ChannelName, id: &HandoffId) -> Result<String, Unusable> {
    let other = |why: String| Err(Unusable::Other(why));
    let bytes = match fs::read(path, MAX_DOCUMENT * 2) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return other("it is missing".into()),
        Err(e) if e.may_be_sound() => return Err(Unusable::Unreadable(e)),
        Err(e) => return other(e.to_string()),
    };
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let header = match Header::parse(&text) {
        Ok((header, _)) => header,
        Err(BadHeader::Newer(version)) => return Err(Unusable::Newer(version)),
        Err(e) => return other(e.to_string()),
    };
    if &header.id != id {
        return other(format!("it carries {}", header.id));
    }
    if &header.channel != channel {
        return other(format!("it belongs to channel {}", header.channel));
    }
    Ok(text)
}
