//! `rotations/{id}.json`: the journal of each rotation. Synced, because crash recovery reads it.

use std::path::{Path, PathBuf};

use baton_core::handoff::HandoffId;
use baton_core::rotation::Rotation;

use crate::store::record;
use crate::sys::fs::FileError;

pub struct Rotations {
    dir: PathBuf,
}

impl Rotations {
    pub fn new(state: &Path) -> Self {
        Self { dir: state.join("rotations") }
    }

    /// The folder of the records, for watchers and cleanup.
    pub(crate) fn folder(&self) -> &Path {
        &self.dir
    }

    pub fn get(&self, id: &str) -> Result<Option<Rotation>, FileError> {
        record::read(&self.dir.join(format!("{id}.json")))
    }

    /// Records a step before it is taken.
    pub fn put(&self, rotation: &Rotation) -> Result<(), FileError> {
        record::write_synced(&self.dir.join(format!("{}.json", rotation.id)), rotation)
    }

    /// The wanted rotations, oldest first. Holds only these in memory, because there may be thousands.
    pub fn which(&self, wanted: impl Fn(&Rotation) -> bool) -> Vec<Rotation> {
        let mut rotations: Vec<Rotation> = self.each().filter(wanted).collect();
        rotations.sort_by(|a, b| a.at.cmp(&b.at).then_with(|| a.id.cmp(&b.id)));
        rotations
    }

    /// Whether there is a wanted rotation. Fails if a journal cannot be read, because that one may be wanted.
    pub(crate) fn has(&self, wanted: impl Fn(&Rotation) -> bool) -> Result<bool, FileError> {
        let entries = match std::fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            Err(e) => return Err(FileError::new("read", &self.dir, e)),
        };
        for entry in entries {
            let path = entry.map_err(|e| FileError::new("read", &self.dir, e))?.path();
            let is_record = path.extension().is_some_and(|e| e == "json");
            if is_record && record::read(&path)?.is_some_and(|rotation| wanted(&rotation)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The agent's own file that a rotation with this handoff named.
    pub(crate) fn file_of(&self, handoff: &HandoffId) -> Option<String> {
        self.each().find(|rotation| &rotation.handoff == handoff)?.file
    }

    fn each(&self) -> impl Iterator<Item = Rotation> {
        let entries = std::fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let records = entries.map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "json"));
        // Skip a journal that cannot be read; `doctor` reports it.
        records.filter_map(|p| record::read(&p).unwrap_or(None))
    }
}
