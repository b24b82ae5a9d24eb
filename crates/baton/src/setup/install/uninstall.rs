//! Uninstalls: entries first, so that no hook ever points at a missing file.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::project::gitignore;
use crate::setup::delegate;
use crate::setup::install::files::{self, Edit};
use crate::setup::install::plugin;
use crate::setup::install::record::{self, EditedFile, EditedFileKind, Install, InstallRecord};
use crate::setup::install::settings::{self, Undo};
use crate::setup::install::{InstallScope, folder, lock, mark_own_hooks};
use crate::sys::fs;
use crate::sys::hash::sha256;
use crate::sys::paths::Paths;

/// The plan of an uninstall.
#[derive(Debug)]
pub(crate) struct UninstallPlan {
    pub edits: Vec<RestoredEdit>,
    /// The plugin folder, if it exists.
    pub folder: Option<PathBuf>,
    pub sm: Option<PathBuf>,
    /// Files that cannot be edited, and why. The rest proceeds.
    pub refused: Vec<String>,
    install: Install,
    key: String,
    record: InstallRecord,
}

/// An edit, and whether it restores the exact original bytes.
#[derive(Debug)]
pub(crate) struct RestoredEdit {
    pub edit: Edit,
    pub exact: bool,
}

/// Plans everything and changes nothing.
pub(crate) fn plan(paths: &Paths, scope: &InstallScope) -> anyhow::Result<UninstallPlan> {
    let mut record = InstallRecord::read(&paths.state)?;
    let (project, shared) = (scope.project(), scope.is_shared());
    let install = record.find(project, shared).cloned().unwrap_or_default();
    record.installs.retain(|i| (i.project.as_deref(), i.shared) != (project, shared));
    let mut files = install.files.clone();
    // Find our entries even without a record.
    let mut candidates = vec![(scope.settings(paths), EditedFileKind::Settings)];
    candidates.extend(project.map(|dir| (dir.join(".gitignore"), EditedFileKind::Gitignore)));
    for (path, kind) in candidates {
        let real = files::real(&path).unwrap_or(path);
        if !files.iter().any(|f| f.path == real) {
            files.push(EditedFile {
                path: real,
                kind,
                original: None,
                written: Vec::new(),
                undo: Undo::default(),
            });
        }
    }
    let (mut edits, mut refused) = (Vec::new(), Vec::new());
    for file in &files {
        match plan_edit(&paths.state, file) {
            Ok(planned) => edits.extend(planned),
            Err(e) => refused.push(format!("{e:#}")),
        }
    }
    let dir = folder(paths);
    let there = *scope == InstallScope::User && plugin::read_stamp(&dir).is_some();
    let sm = record.sm.clone().filter(|link| {
        *scope == InstallScope::User && std::fs::read_link(link).is_ok_and(|to| to == Path::new("baton"))
    });
    if *scope == InstallScope::User {
        record.sm = None;
    }
    Ok(UninstallPlan { edits, folder: there.then_some(dir), sm, refused, install, key: scope.key(), record })
}

fn plan_edit(state: &Path, file: &EditedFile) -> anyhow::Result<Option<RestoredEdit>> {
    let story = || format!("{} still has entries of baton's", file.path.display());
    let Some(now) = fs::read(&file.path, 16 << 20).with_context(story)? else { return Ok(None) };
    let kept = file.original.as_ref().map(|hash| record::original(state, hash));
    let (after, exact) = match (file.written.contains(&sha256(&now)), kept) {
        (true, None) => (None, true),
        (true, Some(Some(original))) => (Some(original), true),
        _ => {
            let after = match file.kind {
                // A permission rule alone belongs to the user, unless the record says otherwise.
                EditedFileKind::Settings
                    if file.written.is_empty() && !settings::look(&now).with_context(story)?.has_ours() =>
                {
                    now.clone()
                }
                EditedFileKind::Settings => settings::remove(&now, &file.undo).with_context(story)?,
                EditedFileKind::Gitignore => gitignore::remove(&now),
            };
            // Delete a file that we created if nobody else has added to it.
            let ours_alone =
                file.original.is_none() && !file.written.is_empty() && is_blank(file.kind, &after);
            (if ours_alone { None } else { Some(after) }, false)
        }
    };
    let edit = Edit { path: file.path.clone(), before: Some(now), after };
    if !edit.is_needed() {
        return Ok(None);
    }
    edit.check().with_context(story)?;
    Ok(Some(RestoredEdit { edit, exact }))
}

fn is_blank(kind: EditedFileKind, bytes: &[u8]) -> bool {
    match kind {
        EditedFileKind::Settings => bytes.iter().filter(|b| !b.is_ascii_whitespace()).eq(b"{}"),
        EditedFileKind::Gitignore => bytes.trim_ascii().is_empty(),
    }
}

impl UninstallPlan {
    pub(crate) fn is_empty(&self) -> bool {
        self.edits.is_empty()
            && self.folder.is_none()
            && self.sm.is_none()
            && self.install == Install::default()
    }

    /// Carries it out. Keeps refused files in the record, so that the next try can finish.
    pub(crate) fn carry_out(&self, paths: &Paths) -> anyhow::Result<Vec<PathBuf>> {
        let _lock = lock(paths)?;
        for planned in &self.edits {
            planned.edit.carry_out()?;
        }
        let mut stays = Vec::new();
        if let Some(dir) = &self.folder {
            stays = files::remove_folder(dir)?.1.into_iter().map(|name| dir.join(name)).collect();
        }
        // Clean up after a run killed between moving the folder away and deleting it.
        if let Some(parent) =
            std::fs::canonicalize(paths.claude.join("skills")).ok().as_deref().and_then(Path::parent)
        {
            files::sweep(parent);
        }
        if let Some(link) = &self.sm {
            fs::remove(link)?;
        }
        if self.refused.is_empty() {
            if self.record.find(None, false).is_none() {
                mark_own_hooks(&paths.state, false)?;
            }
            delegate::forget(&paths.state, &self.key)?;
            self.record.write(&paths.state)?;
            self.record.sweep_originals(&paths.state);
        }
        // This succeeds only for those that are empty again.
        for dir in self.install.folders.iter().rev() {
            let _ = std::fs::remove_dir(dir);
        }
        Ok(stays)
    }

    /// The program's path in the record.
    pub(crate) fn binary(&self) -> Option<&Path> {
        self.record.binary.as_deref()
    }

    /// Whether a purge leaves the program to whoever put it there.
    pub(crate) fn binary_is_theirs(&self) -> bool {
        self.record.binary_is_theirs
    }

    /// Other installs that stay.
    pub(crate) fn others(&self) -> &[Install] {
        &self.record.installs
    }
}

/// What can still be found of ours; nothing after a full uninstall.
pub(crate) fn remains(paths: &Paths, scope: &InstallScope) -> Vec<String> {
    let mut found = Vec::new();
    let dir = folder(paths);
    if *scope == InstallScope::User && dir.exists() {
        found.push(format!("{} is still there", paths.short(&dir)));
    }
    let settings = scope.settings(paths);
    let unchecked = |e: &dyn std::fmt::Display| format!("{} cannot be checked: {e}", paths.short(&settings));
    // A file that cannot be read may still have our entries.
    match files::real(&settings).and_then(|real| Ok(fs::read(&real, 16 << 20)?)) {
        Ok(Some(bytes)) => match settings::look(&bytes) {
            Ok(now) if now.has_ours() => found.push(format!("{} still has entries", paths.short(&settings))),
            Ok(_) => {}
            Err(e) => found.push(unchecked(&e)),
        },
        Ok(None) => {}
        Err(e) => found.push(unchecked(&e)),
    }
    found
}
