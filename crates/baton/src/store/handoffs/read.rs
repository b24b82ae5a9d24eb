//! Reading: which handoffs there are, and their documents checked against the manifest.

use std::path::Path;

use baton_core::handoff::document::BadHeader;
use baton_core::handoff::{Entry, HandoffId, Header, Manifest, Status};
use baton_core::ids::ChannelName;
use jiff::Timestamp;

use super::{Handoffs, Loaded, MAX_DOCUMENT, StoreError};
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
        let mut names: Vec<_> = entries
            .flatten()
            .filter_map(|e| ChannelName::new(e.file_name().to_str()?.strip_suffix(".manifest.json")?).ok())
            .collect();
        names.sort();
        Ok(names)
    }

    /// The document of `entry`, checked against it. Does not mend.
    pub fn document(
        &self,
        channel: &ChannelName,
        manifest: &Manifest,
        entry: &Entry,
    ) -> Result<String, StoreError> {
        self.read_document(channel, manifest, entry).map(|(text, _)| text)
    }

    /// The same under the lock: a `CURRENT` that lags behind is mended.
    pub(super) fn document_locked(
        &self,
        channel: &ChannelName,
        manifest: &Manifest,
        entry: &Entry,
    ) -> Result<String, StoreError> {
        let (text, behind) = self.read_document(channel, manifest, entry)?;
        if behind {
            // The archive has the words; failing to mend a copy is no reason to withhold them.
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
        if is_current && let Ok(text) = checked(&self.current_path(channel), channel, &entry.id) {
            return Ok((text, false));
        }
        let archived = self.archived_path(&entry.id);
        match checked(&archived, channel, &entry.id) {
            Ok(text) => Ok((text, is_current)),
            Err(why) => Err(StoreError::Mismatch {
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

    /// A handoff of the channel by id, whatever its state, with its document.
    pub fn find(&self, channel: &ChannelName, id: &HandoffId) -> Result<Option<Loaded>, StoreError> {
        let Some(entry) = self.list(channel)?.into_iter().find(|e| &e.id == id) else { return Ok(None) };
        Ok(Some(Loaded { text: self.archived(&entry)?, entry }))
    }

    /// The document of any handoff that was ever sealed, by id alone.
    pub fn show(&self, id: &HandoffId) -> Result<Option<String>, StoreError> {
        let bytes = fs::read(&self.archived_path(id), MAX_DOCUMENT * 2)?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }
}

/// For listings: the newest first.
pub fn newest_first(a: &Entry, b: &Entry) -> std::cmp::Ordering {
    b.created_at.cmp(&a.created_at).then_with(|| order_in_second(&b.id, &a.id))
}

/// Within one second `-10` comes after `-9`.
pub(super) fn order_in_second(a: &HandoffId, b: &HandoffId) -> std::cmp::Ordering {
    let (a, b) = (a.as_str(), b.as_str());
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

/// The text at `path` if its header names this handoff and this channel, else why not.
pub(super) fn checked(path: &Path, channel: &ChannelName, id: &HandoffId) -> Result<String, String> {
    let bytes = match fs::read(path, MAX_DOCUMENT * 2) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Err("it is missing".into()),
        Err(e) => return Err(e.to_string()),
    };
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (header, _) = Header::parse(&text).map_err(|e: BadHeader| e.to_string())?;
    if &header.id != id {
        return Err(format!("it carries {}", header.id));
    }
    if &header.channel != channel {
        return Err(format!("it belongs to channel {}", header.channel));
    }
    Ok(text)
}
