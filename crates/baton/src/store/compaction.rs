//! `compaction.json`: the totals at which automatic compactions were seen to come.

use std::path::{Path, PathBuf};
use std::time::Duration;

use baton_core::compaction::{CompactionSettings, Observations};

use super::record::{self, RecordError};
use crate::sys::lock::Lock;

fn path(state: &Path) -> PathBuf {
    state.join("compaction.json")
}

pub fn observations(state: &Path) -> Observations {
    record::read(&path(state)).ok().flatten().unwrap_or_default()
}

/// An automatic compaction came at `total` tokens.
pub fn record(
    state: &Path,
    model: Option<&str>,
    window: u64,
    settings: &CompactionSettings,
    total: u64,
) -> Result<(), RecordError> {
    let path = path(state);
    let _lock = Lock::acquire(&path.with_extension("lock"), Duration::from_millis(200))?;
    let mut seen: Observations = record::read(&path)?.unwrap_or_default();
    seen.record(model, window, settings, total);
    Ok(record::write(&path, &seen)?)
}
