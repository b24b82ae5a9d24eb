//! Repairs a channel whose files contradict each other: sets aside, never deletes, and reports what it did.

use std::collections::HashMap;
use std::path::PathBuf;

use baton_core::handoff::manifest::Unsound;
use baton_core::handoff::{Entry, HandoffId, Header, Manifest, Status};
use baton_core::ids::ChannelName;
use jiff::Timestamp;

use crate::store::handoffs::read::{Unusable, checked, newest_first};
use crate::store::handoffs::{Handoffs, StoreError};
use crate::sys::fs::{self, FileError, PRIVATE, Sync};
use crate::sys::process;

/// One repair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repair {
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
    pub fn repair(&self, channel: &ChannelName, now: Timestamp) -> Result<Vec<Repair>, StoreError> {
        let _lock = self.lock(channel)?;
        self.refuse_sound(channel)?;
        let mut done = Vec::new();
        let stamp = now.strftime("%Y%m%d-%H%M%S").to_string();
        let swept: usize = [self.root.clone(), self.root.join("archive")]
            .iter()
            .filter_map(|dir| fs::sweep_temps(dir, process::pid_exists).ok())
            .sum();
        if swept > 0 {
            done.push(Repair::Swept(swept));
        }

        let manifest = match self.manifest(channel) {
            Ok(manifest) => manifest,
            Err(StoreError::Manifest { path, why }) => {
                // Rebuild first: if that fails, the damaged file is better than none.
                let manifest = self.rebuild(channel)?;
                let to = fs::set_aside(&path, &stamp)?;
                done.push(Repair::SetAside { what: path.clone(), to, why });
                self.commit(&manifest, Sync::Yes)?;
                let current = manifest.current.as_ref().map(|e| format!("{} ({})", e.id, e.status.as_str()));
                done.push(Repair::Rebuilt { path, current });
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
                done.push(Repair::SetAside { what: current.clone(), to, why });
            }
            fs::replace(&current, text.as_bytes(), PRIVATE, Sync::Yes)?;
            done.push(Repair::Mended(current));
            return Ok(done);
        }
        // Neither copy matches the manifest: the words are gone or foreign. Remove the entry.
        for path in [current, self.archived_path(&entry.id)] {
            if path.symlink_metadata().is_ok() {
                let to = fs::set_aside(&path, &stamp)?;
                done.push(Repair::SetAside { what: path, to, why: why.clone() });
            }
        }
        let path = self.manifest_path(channel);
        let manifest = self.rebuild(channel)?;
        let to = fs::set_aside(&path, &stamp)?;
        let why = format!("no document carries {}", entry.id);
        done.push(Repair::SetAside { what: path.clone(), to, why });
        self.commit(&manifest, Sync::Yes)?;
        if let Some(entry) = &manifest.current
            && let Ok(text) = checked(&self.archived_path(&entry.id), channel, &entry.id)
        {
            fs::replace(&self.current_path(channel), text.as_bytes(), PRIVATE, Sync::Yes)?;
        }
        let current = manifest.current.map(|e| format!("{} ({})", e.id, e.status.as_str()));
        done.push(Repair::Rebuilt { path, current });
        Ok(done)
    }

    /// Refuses to touch a channel in which a newer baton has written, or whose documents the operating system cannot
    /// read now, because its files may not be damaged.
    fn refuse_sound(&self, channel: &ChannelName) -> Result<(), StoreError> {
        let manifest = match self.manifest(channel) {
            Ok(manifest) => manifest,
            // A damaged manifest names no documents to check.
            Err(StoreError::Manifest { .. }) => return Ok(()),
            Err(other) => return Err(other),
        };
        let current = manifest.current.iter().map(|entry| (self.current_path(channel), entry));
        let archived = manifest.entries().map(|entry| (self.archived_path(&entry.id), entry));
        for (path, entry) in current.chain(archived) {
            match checked(&path, channel, &entry.id) {
                Err(Unusable::Newer(version)) => return Err(StoreError::Newer { path, version }),
                Err(Unusable::Unreadable(e)) => return Err(e.into()),
                Ok(_) | Err(Unusable::Other(_)) => {}
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
        done: &mut Vec<Repair>,
    ) -> Result<Manifest, StoreError> {
        let mut ended = Vec::new();
        for id in manifest.waiting.iter().map(|e| e.id.clone()).collect::<Vec<_>>() {
            let path = self.archived_path(&id);
            let Err(why) = checked(&path, channel, &id) else { continue };
            let why = why.to_string();
            if path.symlink_metadata().is_ok() {
                let to = fs::set_aside(&path, stamp)?;
                done.push(Repair::SetAside { what: path, to, why: why.clone() });
            }
            ended.extend(manifest.clear(&id, now));
            done.push(Repair::Dropped { id, why });
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
        let mut known: HashMap<HandoffId, Entry> = HashMap::new();
        for event in self.history(channel)?.0 {
            known.insert(event.entry.id.clone(), event.entry);
        }
        let mut entries = Vec::new();
        for (id, archived) in self.archived_headers(channel)? {
            let entry = match (known.remove(&id), archived) {
                (Some(entry), _) => (Entry { claim: None, ..entry }, true),
                (None, Some(header)) => (Entry::active(&header, 0), false),
                // There is no way to know which channel the unreadable document belongs to.
                (None, None) => continue,
            };
            entries.push(entry);
        }
        entries.sort_by(|(a, _), (b, _)| newest_first(a, b));
        let mut entries = entries.into_iter();
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

    /// The ids of the archived documents that belong to the channel, with their headers, and of those that may: the
    /// operating system could not read them.
    fn archived_headers(
        &self,
        channel: &ChannelName,
    ) -> Result<Vec<(HandoffId, Option<Header>)>, StoreError> {
        let folder = self.root.join("archive");
        let unlisted = |e| FileError::new("list", &folder, e);
        let entries = match std::fs::read_dir(&folder) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(unlisted)?,
        };
        let mut archived = Vec::new();
        for entry in entries {
            let path = entry.map_err(unlisted)?.path();
            let name = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".md"));
            let Some(id) = name.and_then(|name| HandoffId::new(name).ok()) else { continue };
            match checked(&path, channel, &id) {
                Ok(text) => archived.push((id, Header::parse(&text).ok().map(|(header, _)| header))),
                Err(Unusable::Unreadable(_)) => archived.push((id, None)),
                Err(Unusable::Newer(_) | Unusable::Other(_)) => {}
            }
        }
        Ok(archived)
    }
}
