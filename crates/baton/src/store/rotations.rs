//! `rotations/{id}.json`: the journal of each rotation. Synced: it is what a crash is recovered from.

use std::path::{Path, PathBuf};

use baton_core::rotation::Rotation;

use super::record;
use crate::sys::fs::{self, FileError, PRIVATE, Sync};

fn folder(state: &Path) -> PathBuf {
    state.join("rotations")
}

/// Records a step before it is taken.
pub fn put(state: &Path, rotation: &Rotation) -> Result<(), FileError> {
    let dir = folder(state);
    fs::private_dir(&dir)?;
    let path = dir.join(format!("{}.json", rotation.id));
    let bytes = serde_json::to_vec_pretty(rotation).map_err(|e| FileError::new("encode", &path, e))?;
    fs::replace(&path, &bytes, PRIVATE, Sync::Yes)
}

/// The rotations on record that are wanted, oldest first. Only these are held in memory: there may be thousands.
pub fn which(state: &Path, wanted: impl Fn(&Rotation) -> bool) -> Vec<Rotation> {
    let mut rotations: Vec<Rotation> = each(state).filter(wanted).collect();
    rotations.sort_by(|a, b| a.at.cmp(&b.at).then_with(|| a.id.cmp(&b.id)));
    rotations
}

/// Is there such a rotation on record?
pub fn any(state: &Path, is_it: impl Fn(&Rotation) -> bool) -> bool {
    each(state).any(|r| is_it(&r))
}

fn each(state: &Path) -> impl Iterator<Item = Rotation> {
    let entries = std::fs::read_dir(folder(state)).into_iter().flatten().flatten();
    let records = entries.map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "json"));
    records.filter_map(|p| record::read(&p).ok().flatten())
}
