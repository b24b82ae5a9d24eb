//! Repairs a channel whose files contradict each other: sets aside, never deletes, and reports what it did.

use std::path::PathBuf;

use baton_core::handoff::manifest::Unsound;
use baton_core::handoff::{Entry, HandoffId, Header, Manifest, Status};
use baton_core::ids::ChannelName;
use jiff::Timestamp;

use crate::store::handoffs::read::{Unusable, checked, order_in_second};
use crate::store::handoffs::{Handoffs, MAX_DOCUMENT, StoreError};
use crate::sys::fs::{self, PRIVATE, Sync};
use crate::sys::process;

/// One repair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repaired {
    /// The file was moved to a name that says so.
    SetAside { what: PathBuf, to: PathBuf, why: String },
    /// `CURRENT` was rewritten from the archive.
    Mended(PathBuf),
    /// The manifest was rebuilt from the history and the archive.
    Rebuilt { path: PathBuf, current: Option<String> },
    /// A waiting handoff had no document any more, so its entry was cleared.
    Dropped { id: HandoffId, why: String },
    /// Temporary files of killed writers were removed.
    Swept(usize),
}

impl Handoffs {
    /// Makes the channel usable again. An empty list means that nothing was wrong.
    pub fn repair(&self, channel: &ChannelName, now: Timestamp) -> Result<Vec<Repaired>, StoreError> {
        let _lock = self.lock(channel)?;
        self.refuse_newer(channel)?;
        let mut done = Vec::new();
        let stamp = now.strftime("%Y%m%d-%H%M%S").to_string();
        let swept: usize = [self.root.clone(), self.root.join("archive")]
            .iter()
            .filter_map(|dir| fs::sweep_temps(dir, process::pid_exists).ok())
            .sum();
        if swept > 0 {
            done.push(Repaired::Swept(swept));
        }

        let manifest = match self.manifest(channel) {
            Ok(manifest) => manifest,
            Err(StoreError::Manifest { path, why }) => {
                let to = fs::set_aside(&path, &stamp)?;
                done.push(Repaired::SetAside { what: path.clone(), to, why });
                let manifest = self.rebuild(channel)?;
                self.commit(&manifest, Sync::Yes)?;
                let current = manifest.current.as_ref().map(|e| format!("{} ({})", e.id, e.status.as_str()));
                done.push(Repaired::Rebuilt { path, current });
                manifest
            }
            Err(other) => return Err(other),
        };

        let manifest = self.drop_wordless(channel, manifest, now, &stamp, &mut done)?;
        let Some(entry) = manifest.current.clone() else { return Ok(done) };
        let current = self.current_path(channel);
        let Err(why) = checked(&current, channel, &entry.id) else { return Ok(done) };
        let why = why.to_string();
        if let Ok(text) = checked(&self.archived_path(&entry.id), channel, &entry.id) {
            if current.symlink_metadata().is_ok() {
                let to = fs::set_aside(&current, &stamp)?;
                done.push(Repaired::SetAside { what: current.clone(), to, why });
            }
            fs::replace(&current, text.as_bytes(), PRIVATE, Sync::Yes)?;
            done.push(Repaired::Mended(current));
            return Ok(done);
        }
        // Neither copy matches the manifest: the words are gone or foreign. Remove the entry.
        for path in [current, self.archived_path(&entry.id)] {
            if path.symlink_metadata().is_ok() {
                let to = fs::set_aside(&path, &stamp)?;
                done.push(Repaired::SetAside { what: path, to, why: why.clone() });
            }
        }
        let path = self.manifest_path(channel);
        let to = fs::set_aside(&path, &stamp)?;
        let why = format!("no document carries {}", entry.id);
        done.push(Repaired::SetAside { what: path.clone(), to, why });
        let manifest = self.rebuild(channel)?;
        self.commit(&manifest, Sync::Yes)?;
        if let Some(entry) = &manifest.current
            && let Ok(text) = checked(&self.archived_path(&entry.id), channel, &entry.id)
        {
            fs::replace(&self.current_path(channel), text.as_bytes(), PRIVATE, Sync::Yes)?;
        }
        let current = manifest.current.map(|e| format!("{} ({})", e.id, e.status.as_str()));
        done.push(Repaired::Rebuilt { path, current });
        Ok(done)
    }

    /// Refuses to touch a channel in which a newer baton has written, because its files are not damaged.
    fn refuse_newer(&self, channel: &ChannelName) -> Result<(), StoreError> {
        let manifest = match self.manifest(channel) {
            Ok(manifest) => manifest,
            // A damaged manifest names no documents to check.
            Err(StoreError::Manifest { .. }) => return Ok(()),
            Err(other) => return Err(other),
        };
        let current = manifest.current.iter().map(|entry| (self.current_path(channel), entry));
        let archived = manifest.entries().map(|entry| (self.archived_path(&entry.id), entry));
        for (path, entry) in current.chain(archived) {
            if let Err(Unusable::Newer(version)) = checked(&path, channel, &entry.id) {
                return Err(StoreError::Newer { path, version });
            }
        }
        Ok(())
    }

    /// Clears waiting handoffs whose document is gone or foreign, because their addressee could never load them.
    fn drop_wordless(
        &self,
        channel: &ChannelName,
        mut manifest: Manifest,
        now: Timestamp,
        stamp: &str,
        done: &mut Vec<Repaired>,
    ) -> Result<Manifest, StoreError> {
        let mut ended = Vec::new();
        for id in manifest.waiting.iter().map(|e| e.id.clone()).collect::<Vec<_>>() {
            let path = self.archived_path(&id);
            let Err(why) = checked(&path, channel, &id) else { continue };
            let why = why.to_string();
            if path.symlink_metadata().is_ok() {
                let to = fs::set_aside(&path, stamp)?;
                done.push(Repaired::SetAside { what: path, to, why: why.clone() });
            }
            ended.extend(manifest.clear(&id, now));
            done.push(Repaired::Dropped { id, why });
        }
        if !ended.is_empty() {
            self.record_ends(channel, &ended, now)?;
            self.commit(&manifest, Sync::Yes)?;
        }
        Ok(manifest)
    }

    /// Makes the newest archived document of the channel current again, with the end that the history records for it;
    /// without one it is active, so that nothing is lost. Addressed ones without an end wait for their addressee again.
    pub(super) fn rebuild(&self, channel: &ChannelName) -> Result<Manifest, StoreError> {
        let mut manifest = Manifest::empty(channel.clone());
        let mut ended: std::collections::HashMap<_, Entry> = std::collections::HashMap::new();
        for event in self.history(channel)?.0 {
            ended.insert(event.entry.id.clone(), event.entry);
        }
        let mut headers = self.archived_headers(channel);
        headers.sort_by(|a, b| a.created.cmp(&b.created).then_with(|| order_in_second(&a.id, &b.id)));
        let mut entries = headers.iter().rev().map(|header| {
            let known = ended.remove(&header.id);
            let is_known = known.is_some();
            let mut entry = known.unwrap_or_else(|| Entry::active(header, 0));
            entry.claim = None;
            (entry, is_known)
        });
        manifest.current = entries.next().map(|(entry, _)| entry);
        // Without a history every old unaddressed document would seem to wait.
        manifest.waiting = entries
            .filter(|(entry, is_known)| entry.status == Status::Active && (entry.is_addressed() || *is_known))
            .map(|(entry, _)| entry)
            .collect();
        manifest.waiting.reverse();
        manifest.check(channel).map_err(|e: Unsound| StoreError::Manifest {
            path: self.manifest_path(channel),
            why: e.to_string(),
        })?;
        Ok(manifest)
    }

    fn archived_headers(&self, channel: &ChannelName) -> Vec<Header> {
        let Ok(entries) = std::fs::read_dir(self.root.join("archive")) else { return Vec::new() };
        entries
            .flatten()
            .filter_map(|entry| {
                let bytes = fs::read(&entry.path(), MAX_DOCUMENT * 2).ok()??;
                let (header, _) = Header::parse(&String::from_utf8_lossy(&bytes)).ok()?;
                (&header.channel == channel && entry.path() == self.archived_path(&header.id))
                    .then_some(header)
            })
            .collect()
    }
}
