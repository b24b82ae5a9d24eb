//! Mending a channel whose files contradict each other: set aside, never delete, and say what was done.

use std::path::PathBuf;

use baton_core::handoff::manifest::Unsound;
use baton_core::handoff::{Entry, HandoffId, Header, Manifest, Status};
use baton_core::ids::ChannelName;
use jiff::Timestamp;

use super::read::{checked, order_in_second};
use super::{Handoffs, MAX_DOCUMENT, StoreError};
use crate::sys::fs::{self, PRIVATE, Sync};
use crate::sys::process;

/// One thing that was found and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repaired {
    /// Moved to a name that says so.
    SetAside { what: PathBuf, to: PathBuf, why: String },
    /// `CURRENT` was written again from the archive.
    Mended(PathBuf),
    /// The manifest was built again from the history and the archive.
    Rebuilt { path: PathBuf, current: Option<String> },
    /// A handoff that waited for its addressee has no document any more; its entry was ended as cleared.
    Dropped { id: HandoffId, why: String },
    /// Leftovers of killed writers were removed.
    Swept(usize),
}

impl Handoffs {
    /// Makes the channel usable again. An empty answer means that nothing was wrong.
    pub fn repair(&self, channel: &ChannelName, now: Timestamp) -> Result<Vec<Repaired>, StoreError> {
        let _lock = self.lock(channel)?;
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
        if let Ok(text) = checked(&self.archived_path(&entry.id), channel, &entry.id) {
            if current.symlink_metadata().is_ok() {
                let to = fs::set_aside(&current, &stamp)?;
                done.push(Repaired::SetAside { what: current.clone(), to, why });
            }
            fs::replace(&current, text.as_bytes(), PRIVATE, Sync::Yes)?;
            done.push(Repaired::Mended(current));
            return Ok(done);
        }
        // Neither copy is the manifest's: the words are gone or foreign. Take the entry out of service.
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

    /// Ends the waiting handoffs whose document is gone or foreign: their addressee could never load them.
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

    /// The newest archived document of the channel becomes current again, with the end that the history
    /// records for it; without one it is active, which is the state in which nothing can be lost. Addressed ones
    /// without an end wait for their addressee again.
    fn rebuild(&self, channel: &ChannelName) -> Result<Manifest, StoreError> {
        let mut manifest = Manifest::empty(channel.clone());
        let mut ended: std::collections::HashMap<_, Entry> = std::collections::HashMap::new();
        for event in self.history(channel)?.0 {
            ended.insert(event.entry.id.clone(), event.entry);
        }
        let mut headers = self.archived_headers(channel);
        headers.sort_by(|a, b| a.created.cmp(&b.created).then_with(|| order_in_second(&a.id, &b.id)));
        let mut entries = headers.iter().rev().map(|header| {
            let mut entry = ended.remove(&header.id).unwrap_or_else(|| Entry::active(header, 0));
            entry.claim = None;
            entry
        });
        manifest.current = entries.next();
        manifest.waiting = entries.filter(|e| e.status == Status::Active && e.is_addressed()).collect();
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
