//! `compaction.json`: the token totals at which automatic compactions happened.

use std::path::{Path, PathBuf};
use std::time::Duration;

use baton_core::compaction::{CompactionSettings, Observations};

use crate::store::record::{self, RecordError};
use crate::sys::lock::Lock;

pub struct Compactions {
    path: PathBuf,
}

impl Compactions {
    pub fn new(state: &Path) -> Self {
        Self { path: state.join("compaction.json") }
    }

    /// The observations. If they cannot be read, the formula remains, which is the prior in any case.
    pub(crate) fn observations(&self) -> Observations {
        record::read(&self.path).unwrap_or(None).unwrap_or_default()
    }

    /// Records an automatic compaction at `total` tokens.
    pub(crate) fn observe(
        &self,
        model: Option<&str>,
        window: u64,
        settings: &CompactionSettings,
        total: u64,
    ) -> Result<(), RecordError> {
        let _lock = Lock::acquire(&self.path.with_extension("lock"), Duration::from_millis(200))?;
        let mut seen: Observations = record::read(&self.path)?.unwrap_or_default();
        seen.record(model, window, settings, total);
        Ok(record::write(&self.path, &seen)?)
    }
}
