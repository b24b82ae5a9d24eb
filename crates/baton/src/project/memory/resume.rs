//! The text from which a session continues an earlier one: the ledger of a backup, or a document.

use std::io::BufReader;
use std::path::Path;

use anyhow::{Context as _, bail};
use baton_core::handoff::pack::{pack, pack_document};
use baton_core::ledger::Ledger;
use baton_core::plain::plain;
use baton_core::redact::redact;

use crate::project::memory::backups::{self, PendingBackup};
use crate::project::memory::{MemoryDir, documents};
use crate::store::Store;

/// The source to continue from.
#[derive(Debug)]
pub(crate) enum Resumable {
    Backup(Box<PendingBackup>),
    Document(documents::DocumentSummary),
    Nothing,
}

/// The newest pending backup, else the newest document.
pub(crate) fn latest(store: &Store, place: &MemoryDir) -> (Resumable, Vec<String>) {
    if let Some(newest) = backups::pending(store, place).into_iter().next() {
        return (Resumable::Backup(Box::new(newest)), Vec::new());
    }
    let (documents, skipped) = documents::list(place);
    (documents.into_iter().next().map_or(Resumable::Nothing, Resumable::Document), skipped)
}

/// The facts of a backup's transcript, in at most `budget` characters.
pub(crate) fn of_backup(store: &Store, backup: &PendingBackup, budget: usize) -> anyhow::Result<String> {
    let tale = || format!("could not read the backup {}", backup.path.display());
    let reader = backup.open(store).with_context(tale)?;
    let ledger = Ledger::of(BufReader::with_capacity(256 << 10, reader)).with_context(tale)?;
    let pointer = backup.session.as_ref().map_or_else(
        || backup.path.display().to_string(),
        |id| format!("{} (`baton sessions show {id} --turns`)", backup.path.display()),
    );
    if ledger.is_empty() {
        bail!("{} holds no conversation; `baton memory discard` removes it", backup.path.display());
    }
    let packed = pack(&ledger, None, budget, &pointer);
    Ok(clean(&packed.text))
}

/// A document in at most `budget` characters.
pub(crate) fn of_document(path: &Path, budget: usize) -> anyhow::Result<String> {
    let text = documents::read(path)
        .map_err(anyhow::Error::msg)
        .with_context(|| format!("could not read the session document {}", path.display()))?;
    Ok(clean(&pack_document(&text, budget, &path.display().to_string()).text))
}

fn clean(text: &str) -> String {
    redact(&plain(text)).text.trim().to_owned()
}
