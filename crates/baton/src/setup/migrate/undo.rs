//! Restores what a migration moved aside: byte for byte if nobody has changed the files since, otherwise exactly the
//! removed entries.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::setup::delegate;
use crate::setup::install::files::Edit;
use crate::setup::install::lock;
use crate::setup::install::record::{self, InstallRecord};
use crate::setup::install::settings::{self, PreviousStatusLine};
use crate::setup::migrate::aside::{AsideRecord, FileEdit, folder, relocate};
use crate::setup::migrate::entries::{self, RemovedEntry};
use crate::store::record as stored;
use crate::sys::fs;
use crate::sys::hash::sha256;
use crate::sys::paths::Paths;

/// What was restored.
#[derive(Debug, Default)]
pub(crate) struct UndoReport {
    pub tools: Vec<String>,
    /// Restored files, and whether byte for byte.
    pub edits: Vec<(PathBuf, bool)>,
    pub moves: Vec<PathBuf>,
    /// What could not be restored, and why; it is still aside.
    pub stays: Vec<String>,
    /// How many other migrations can be undone.
    pub left: usize,
}

/// The folders of migrations that can be undone, newest last.
pub(crate) fn all(state: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder(state)).into_iter().flatten().flatten();
    let mut dirs: Vec<PathBuf> =
        entries.map(|e| e.path()).filter(|dir| dir.join("record.json").exists()).collect();
    dirs.sort();
    dirs
}

/// Undoes the newest migration; `None` if there is none.
pub(crate) fn newest(paths: &Paths) -> anyhow::Result<Option<UndoReport>> {
    let mut dirs = all(&paths.state);
    let Some(dir) = dirs.pop() else { return Ok(None) };
    let _lock = lock(paths)?;
    let file = dir.join("record.json");
    let aside: AsideRecord = stored::read(&file)?
        .with_context(|| format!("{} cannot be understood; what was moved lies beside it", file.display()))?;
    let mut undone = UndoReport { tools: aside.tools.clone(), left: dirs.len(), ..UndoReport::default() };
    for one in &aside.moves {
        let kept = dir.join("files").join(&one.kept);
        // If the migration was interrupted, it was never moved.
        if std::fs::symlink_metadata(&kept).is_err() {
            continue;
        }
        if std::fs::symlink_metadata(&one.from).is_ok() {
            let (from, kept) = (paths.short(&one.from), paths.short(&kept));
            undone.stays.push(format!("{from} is there again; the one that was moved is {kept}"));
            continue;
        }
        if let Some(parent) = one.from.parent() {
            std::fs::create_dir_all(parent)
                .map_err(|e| fs::FileError::new("create the folder", parent, e))?;
        }
        relocate(&kept, &one.from)?;
        undone.moves.push(one.from.clone());
    }
    let mut record = InstallRecord::read(&paths.state)?;
    let before = record.clone();
    for edited in &aside.edits {
        match put_back(paths, &dir, edited, &aside, &mut record) {
            Ok(Some(exact)) => undone.edits.push((edited.path.clone(), exact)),
            Ok(None) => {}
            Err(e) => undone.stays.push(format!("{} was left alone: {e:#}", paths.short(&edited.path))),
        }
    }
    for (key, command) in &aside.delegates {
        delegate::remember(&paths.state, key, command)?;
    }
    if record != before {
        record.write(&paths.state)?;
    }
    if undone.stays.is_empty() {
        std::fs::remove_dir_all(&dir).map_err(|e| fs::FileError::new("remove", &dir, e))?;
        // This succeeds only if the folder is empty now.
        let _ = std::fs::remove_dir(folder(&paths.state));
    } else {
        // Leave the remaining files to their owner; the migration record is gone.
        std::fs::rename(&file, dir.join("undone.json"))
            .map_err(|e| fs::FileError::new("rename", &file, e))?;
    }
    Ok(Some(undone))
}

/// Restores one file. Returns whether byte for byte, or `None` if it needs no change.
fn put_back(
    paths: &Paths,
    dir: &Path,
    edited: &FileEdit,
    aside: &AsideRecord,
    record: &mut InstallRecord,
) -> anyhow::Result<Option<bool>> {
    let now = fs::read(&edited.path, 16 << 20)?;
    let hash = now.as_deref().map(sha256);
    if edited.states.iter().any(|(before, _)| hash.as_ref() == Some(before)) {
        return Ok(None);
    }
    let kept = |hash: &str| fs::read(&dir.join("kept").join(hash), 16 << 20);
    let known = edited.states.iter().find(|(_, after)| hash.as_ref() == Some(after));
    let text = now.clone().unwrap_or_default();
    let after = match known {
        Some((before, _)) => kept(before)?.with_context(|| format!("{before} is not kept any more"))?,
        None if edited.is_profile => entries::put_alias_back(&text, &edited.taken),
        None => entries::put_back(&text, &edited.taken, &edited.key)?,
    };
    let exact = known.is_some();
    let statusline = edited.taken.iter().find_map(|taken| match taken {
        RemovedEntry::StatusLine { entry } => Some(PreviousStatusLine {
            command: entry.get("command")?.as_str()?.to_owned(),
            own_refresh: entry.get("refreshInterval").is_some(),
        }),
        _ => None,
    });
    let is_delegated = !edited.is_profile && !exact && settings::look(&after)?.has_our_statusline();
    for row in record.installs.iter_mut().flat_map(|i| &mut i.files).filter(|row| row.path == edited.path) {
        if let Some((before, _)) =
            edited.states.iter().find(|(_, after)| row.original.as_ref() == Some(after))
        {
            if let Some(bytes) = kept(before)? {
                record::keep_original(&paths.state, &bytes)?;
            }
            row.original = Some(before.clone());
        }
        if hash.as_ref().is_some_and(|hash| row.written.contains(hash)) {
            row.written.retain(|hash| *hash != sha256(&after));
            row.written.push(sha256(&after));
        }
        match aside.touched.iter().find(|was| was.path == row.path) {
            Some(was) => row.undo.clone_from(&was.undo),
            None if is_delegated => {
                row.undo.statusline = row.undo.statusline.take().or_else(|| statusline.clone());
            }
            None => {}
        }
    }
    if let Some(previous) = statusline.filter(|_| is_delegated) {
        delegate::remember(&paths.state, &edited.key, &previous.command)?;
    }
    Edit { path: edited.path.clone(), before: now, after: Some(after) }.carry_out()?;
    Ok(Some(exact))
}
