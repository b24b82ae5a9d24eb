//! Out again: entries first, so that at no instant a hook points at a file that is gone.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::place::{self, Edit};
use super::plugin::{self, sha256};
use super::record::{self, Install, Kind, Record, Touched};
use super::settings::{self, Undo};
use super::{Scope, folder, gitignore, lock, mark_own_hooks};
use crate::hot::delegate;
use crate::paths::Paths;
use crate::sys::fs;

/// What an uninstall will do.
#[derive(Debug)]
pub struct Removal {
    pub edits: Vec<Planned>,
    /// The plugin folder, if it is there.
    pub folder: Option<PathBuf>,
    pub sm: Option<PathBuf>,
    /// Files that cannot be edited, and why. The rest is done all the same.
    pub refused: Vec<String>,
    install: Install,
    key: String,
    record: Record,
}

/// An edit, and whether it gives back the very bytes of before.
#[derive(Debug)]
pub struct Planned {
    pub edit: Edit,
    pub exact: bool,
}

/// Looks at everything and changes nothing.
pub fn plan(paths: &Paths, scope: &Scope) -> anyhow::Result<Removal> {
    let mut record = Record::read(&paths.state)?;
    let (project, shared) = (scope.project(), scope.is_shared());
    let install = record.find(project, shared).cloned().unwrap_or_default();
    record.installs.retain(|i| (i.project.as_deref(), i.shared) != (project, shared));
    let mut files = install.files.clone();
    // Entries of ours without a record are found all the same.
    let mut candidates = vec![(scope.settings(paths), Kind::Settings)];
    candidates.extend(project.map(|dir| (dir.join(".gitignore"), Kind::Gitignore)));
    for (path, kind) in candidates {
        let real = place::real(&path).unwrap_or(path);
        if !files.iter().any(|f| f.path == real) {
            files.push(Touched {
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
    let there = *scope == Scope::User && plugin::read_stamp(&dir).is_some();
    let sm = record.sm.clone().filter(|link| {
        *scope == Scope::User && std::fs::read_link(link).is_ok_and(|to| to == Path::new("baton"))
    });
    if *scope == Scope::User {
        record.sm = None;
    }
    Ok(Removal { edits, folder: there.then_some(dir), sm, refused, install, key: scope.key(), record })
}

fn plan_edit(state: &Path, file: &Touched) -> anyhow::Result<Option<Planned>> {
    let story = || format!("{} still has entries of baton's", file.path.display());
    let Some(now) = fs::read(&file.path, 16 << 20).with_context(story)? else { return Ok(None) };
    let kept = file.original.as_ref().map(|hash| record::original(state, hash));
    let (after, exact) = match (file.written.contains(&sha256(&now)), kept) {
        (true, None) => (None, true),
        (true, Some(Some(original))) => (Some(original), true),
        _ => {
            let after = match file.kind {
                // The permission rule alone is the user's own, unless the record says otherwise.
                Kind::Settings
                    if file.written.is_empty() && !settings::look(&now).with_context(story)?.has_ours() =>
                {
                    now.clone()
                }
                Kind::Settings => settings::remove(&now, &file.undo).with_context(story)?,
                Kind::Gitignore => gitignore::remove(&now),
            };
            // A file that we made and that holds nothing of others goes with us.
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
    Ok(Some(Planned { edit, exact }))
}

fn is_blank(kind: Kind, bytes: &[u8]) -> bool {
    match kind {
        Kind::Settings => bytes.iter().filter(|b| !b.is_ascii_whitespace()).eq(b"{}"),
        Kind::Gitignore => bytes.trim_ascii().is_empty(),
    }
}

impl Removal {
    pub fn is_empty(&self) -> bool {
        self.edits.is_empty()
            && self.folder.is_none()
            && self.sm.is_none()
            && self.install == Install::default()
    }

    /// Does it. What was refused stays in the record, so that the next try can finish.
    pub fn carry_out(&self, paths: &Paths) -> anyhow::Result<Vec<PathBuf>> {
        let _lock = lock(paths)?;
        for planned in &self.edits {
            planned.edit.carry_out()?;
        }
        let mut stays = Vec::new();
        if let Some(dir) = &self.folder {
            stays = place::remove_folder(dir)?.1.into_iter().map(|name| dir.join(name)).collect();
        }
        // A run that was killed between taking the folder away and deleting it.
        if let Some(parent) =
            std::fs::canonicalize(paths.claude.join("skills")).ok().as_deref().and_then(Path::parent)
        {
            place::sweep(parent);
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
        // Only those that are empty again.
        for dir in self.install.folders.iter().rev() {
            let _ = std::fs::remove_dir(dir);
        }
        Ok(stays)
    }

    /// The program, where the record says it is.
    pub fn binary(&self) -> Option<&Path> {
        self.record.binary.as_deref()
    }

    /// Other installs that stay.
    pub fn others(&self) -> &[Install] {
        &self.record.installs
    }
}

/// What of ours can still be found; nothing after a full uninstall.
pub fn remains(paths: &Paths, scope: &Scope) -> Vec<String> {
    let mut found = Vec::new();
    let dir = folder(paths);
    if *scope == Scope::User && dir.exists() {
        found.push(format!("{} is still there", paths.short(&dir)));
    }
    let settings = scope.settings(paths);
    let bytes = place::real(&settings).ok().and_then(|real| fs::read(&real, 16 << 20).ok().flatten());
    match bytes.map(|b| settings::look(&b)) {
        Some(Ok(now)) if now.has_ours() => {
            found.push(format!("{} still has entries", paths.short(&settings)));
        }
        Some(Err(e)) => found.push(format!("{} cannot be checked: {e}", paths.short(&settings))),
        _ => {}
    }
    found
}
