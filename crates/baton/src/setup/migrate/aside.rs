//! Removes other tools' entries and moves their scripts aside: first planned, so that it can be shown, then done.
//!
//! `aside/{stamp}/` in the state folder has the scripts, the edited files' originals, and `record.json`, which is
//! written before any change: an interrupted run can be undone like a complete one.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::setup::delegate;
use crate::setup::install::files::Edit;
use crate::setup::install::lock;
use crate::setup::install::record::{self, EditedFile, InstallRecord};
use crate::setup::migrate::entries::{self, RemovedEntry};
use crate::setup::migrate::find::{ForeignFile, Registration, RegistrationKind};
use crate::setup::migrate::known::PartKind;
use crate::store::record as stored;
use crate::sys::fs::{self, FileError, PRIVATE, Sync};
use crate::sys::hash::sha256;
use crate::sys::paths::Paths;
use crate::sys::{child, git};
use crate::views::diff;

const MAX: u64 = 16 << 20;
/// Where session-manager keeps the status line that preceded its own.
const BEHIND: &str = "context_monitor_delegate";

/// What was moved aside and removed, and its earlier state.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct AsideRecord {
    pub at: Option<Timestamp>,
    pub tools: Vec<String>,
    pub moves: Vec<FileMove>,
    pub edits: Vec<FileEdit>,
    /// Status lines that ours ran: the key and command of each.
    pub delegates: Vec<(String, String)>,
    /// The install's own record of the edited files, as it was.
    pub touched: Vec<EditedFile>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileMove {
    pub from: PathBuf,
    /// Its name in `files/`.
    pub kept: String,
}

/// An edited file. Its bytes, before and after, are in `kept/` under their hashes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct FileEdit {
    pub path: PathBuf,
    pub is_profile: bool,
    /// Before and after, of the file itself and of its version without baton.
    pub states: Vec<(String, String)>,
    pub taken: Vec<RemovedEntry>,
    /// The key under which we keep this file's status line.
    pub key: String,
}

pub(crate) fn folder(state: &Path) -> PathBuf {
    state.join("aside")
}

/// The plan of a migration.
pub(crate) struct Migration {
    pub edits: Vec<Edit>,
    pub moves: Vec<PathBuf>,
    aside: AsideRecord,
    kept: Vec<Vec<u8>>,
    /// Status lines that ours will run instead from now on.
    behind: Vec<(String, String)>,
    record: InstallRecord,
    record_before: InstallRecord,
}

/// Leaves out everything that depends on a file that the user wants to keep: what it registers, and those helpers.
pub(crate) fn without(found: Vec<ForeignFile>, refused: &[PathBuf]) -> Vec<ForeignFile> {
    let is_refused =
        |f: &ForeignFile| refused.contains(&f.path) || f.entries.iter().any(|e| refused.contains(&e.file));
    let (stays, mut goes): (Vec<ForeignFile>, Vec<ForeignFile>) = found.into_iter().partition(is_refused);
    goes.retain(|f| {
        let is_needed =
            |s: &ForeignFile| s.tool.name == f.tool.name && !matches!(s.part.kind, PartKind::Command);
        !matches!(f.part.kind, PartKind::Helper(_)) || !stays.iter().any(is_needed)
    });
    goes
}

/// The files to change or move that git tracks: someone else may share them.
pub(crate) fn tracked(found: &[ForeignFile]) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        found.iter().flat_map(|f| f.entries.iter().map(|e| e.file.clone()).chain([f.path.clone()])).collect();
    files.sort();
    files.dedup();
    files.retain(|file| is_tracked(file));
    files
}

fn is_tracked(file: &Path) -> bool {
    let Some(dir) = file.parent() else { return false };
    let Ok(mut git) = git::without_its_commands(dir) else { return false };
    git.args(["ls-files", "--error-unmatch", "--"]).arg(file);
    child::output_within(&mut git, b"", git::PATIENCE).is_ok_and(|out| out.status.success())
}

/// Plans everything and changes nothing.
pub(crate) fn plan(paths: &Paths, found: &[ForeignFile]) -> anyhow::Result<Migration> {
    let record = InstallRecord::read(&paths.state)?;
    let mut plan = Migration {
        edits: Vec::new(),
        moves: found.iter().map(|f| f.path.clone()).collect(),
        aside: AsideRecord::default(),
        kept: Vec::new(),
        behind: Vec::new(),
        record_before: record.clone(),
        record,
    };
    let mut tools: Vec<String> = found.iter().map(|f| f.tool.name.to_owned()).collect();
    tools.dedup();
    plan.aside.tools = tools;
    let mut files: Vec<&PathBuf> = found.iter().flat_map(|f| f.entries.iter().map(|e| &e.file)).collect();
    files.sort();
    files.dedup();
    for file in files {
        plan.edit(paths, file, found)?;
    }
    for edit in &plan.edits {
        edit.check()?;
    }
    Ok(plan)
}

impl Migration {
    fn edit(&mut self, paths: &Paths, file: &Path, found: &[ForeignFile]) -> anyhow::Result<()> {
        let Some(before) = fs::read(file, MAX)? else { bail!("{} is gone; run this again", file.display()) };
        let of_file: Vec<(&ForeignFile, &Registration)> = found
            .iter()
            .flat_map(|f| f.entries.iter().filter(|e| e.file == file).map(move |e| (f, e)))
            .collect();
        let mut entries: Vec<&Registration> = of_file.iter().map(|(_, entry)| *entry).collect();
        let is_profile = entries.iter().any(|e| e.how == RegistrationKind::Alias);
        let mut edited = FileEdit {
            path: file.to_owned(),
            is_profile,
            states: Vec::new(),
            taken: Vec::new(),
            key: String::new(),
        };
        let after = if is_profile {
            let mut after = before.clone();
            for (found, _) in &of_file {
                let (text, taken) = entries::take_alias(&after, found.part.file);
                after = text;
                edited.taken.extend(taken);
            }
            after
        } else {
            let story = || format!("{} was left alone", file.display());
            let behind = behind(&of_file).with_context(story)?;
            let (after, taken) =
                entries::take_out(&before, &entries, behind.as_deref()).with_context(story)?;
            edited.taken = taken;
            let delegated = entries.iter().find_map(|e| match &e.how {
                RegistrationKind::Delegate { key, command } => Some((key.clone(), command.clone())),
                _ => None,
            });
            let after = match delegated {
                Some((key, command)) => {
                    let after = if behind.is_none() {
                        entries::drop_delegate(&after, &key).with_context(story)?
                    } else {
                        after
                    };
                    self.behind.extend(behind.clone().map(|behind| (key.clone(), behind)));
                    self.aside.delegates.push((key, command));
                    after
                }
                None => after,
            };
            // The version without baton must not have them either.
            let plain: Vec<Registration> = entries.iter().map(|e| e.undelegated()).collect();
            entries = plain.iter().collect();
            self.follow(paths, &mut edited, &before, &after, &entries, behind.as_deref())?;
            after
        };
        edited.key = paths_key(paths, file);
        edited.states.push((sha256(&before), sha256(&after)));
        self.kept.extend([before.clone(), after.clone()]);
        self.aside.edits.push(edited);
        self.edits.push(Edit { path: file.to_owned(), before: Some(before), after: Some(after) });
        Ok(())
    }

    /// Keeps the install's own record true: an uninstall then restores the file without them.
    fn follow(
        &mut self,
        paths: &Paths,
        edited: &mut FileEdit,
        before: &[u8],
        after: &[u8],
        entries: &[&Registration],
        behind: Option<&str>,
    ) -> anyhow::Result<()> {
        let rows = self.record.installs.iter_mut().flat_map(|i| &mut i.files);
        for row in rows.filter(|row| row.path == edited.path && row.written.contains(&sha256(before))) {
            self.aside.touched.push(row.clone());
            row.written.push(sha256(after));
            let Some(original) = row.original.as_ref().and_then(|hash| record::original(&paths.state, hash))
            else {
                continue;
            };
            let (without, _) = entries::take_out(&original, entries, behind)?;
            edited.states.push((sha256(&original), sha256(&without)));
            row.original = Some(sha256(&without));
            if let Some(previous) = &mut row.undo.statusline {
                let is_theirs = |e: &&&Registration| matches!(&e.how, RegistrationKind::StatusLine { command } if *command == previous.command);
                if entries.iter().any(|e| is_theirs(&e)) {
                    match behind {
                        Some(behind) => behind.clone_into(&mut previous.command),
                        None => row.undo.statusline = None,
                    }
                }
            }
            self.kept.extend([original, without]);
        }
        Ok(())
    }

    /// The edits as a diff.
    pub(crate) fn diff(&self, paths: &Paths) -> String {
        let text = |bytes: &Option<Vec<u8>>| bytes.as_ref().map(|b| String::from_utf8_lossy(b).into_owned());
        self.edits
            .iter()
            .map(|e| {
                diff::unified(&paths.short(&e.path), text(&e.before).as_deref(), text(&e.after).as_deref())
            })
            .collect()
    }

    /// Carries it out; returns the folder that now has everything.
    pub(crate) fn carry_out(mut self, paths: &Paths, now: Timestamp) -> anyhow::Result<PathBuf> {
        let _lock = lock(paths)?;
        if InstallRecord::read(&paths.state)? != self.record_before {
            bail!("another install or uninstall changed something meanwhile; run this again");
        }
        let dir = new_folder(paths, now)?;
        self.aside.at = Some(now);
        for (n, from) in self.moves.iter().enumerate() {
            let name = from.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
            self.aside.moves.push(FileMove { from: from.clone(), kept: format!("{n:02}-{name}") });
        }
        for bytes in &self.kept {
            keep(&dir, bytes)?;
            record::keep_original(&paths.state, bytes)?;
        }
        stored::write_synced(&dir.join("record.json"), &self.aside)?;
        for edit in &self.edits {
            edit.carry_out()?;
        }
        if self.record != self.record_before {
            self.record.write(&paths.state)?;
        }
        self.record.sweep_originals(&paths.state);
        for (key, _) in &self.aside.delegates {
            delegate::forget(&paths.state, key)?;
        }
        for (key, command) in &self.behind {
            delegate::remember(&paths.state, key, command)?;
        }
        for one in &self.aside.moves {
            relocate(&one.from, &dir.join("files").join(&one.kept))?;
        }
        Ok(dir)
    }
}

/// The status line behind session-manager's own, which keeps that command in a file beside it.
fn behind(of_file: &[(&ForeignFile, &Registration)]) -> Result<Option<String>, FileError> {
    let is_line = |e: &Registration| {
        matches!(e.how, RegistrationKind::StatusLine { .. } | RegistrationKind::Delegate { .. })
    };
    let found = of_file.iter().find(|(_, entry)| is_line(entry));
    let Some(dir) = found.and_then(|(found, _)| found.path.parent()) else { return Ok(None) };
    let bytes = fs::read(&dir.join(BEHIND), 64 << 10)?.unwrap_or_default();
    let command = String::from_utf8_lossy(&bytes).trim().to_owned();
    Ok((!command.is_empty() && !delegate::is_statusline(&command)).then_some(command))
}

/// The key of a settings file's status line, as an install names it.
fn paths_key(paths: &Paths, file: &Path) -> String {
    crate::setup::install::scope_of(paths, file).key()
}

fn new_folder(paths: &Paths, now: Timestamp) -> anyhow::Result<PathBuf> {
    let stamp = now.strftime("%Y%m%d-%H%M%S").to_string();
    fs::private_dir(&folder(&paths.state))?;
    for n in 1..1000 {
        let name = if n == 1 { stamp.clone() } else { format!("{stamp}-{n}") };
        let dir = folder(&paths.state).join(name);
        match std::fs::create_dir(&dir) {
            Ok(()) => {
                for sub in ["files", "kept"] {
                    fs::private_dir(&dir.join(sub))?;
                }
                return Ok(dir);
            }
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(FileError::new("create the folder", &dir, e).into()),
        }
    }
    bail!("{} is full of folders of this second; try again", folder(&paths.state).display())
}

fn keep(dir: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    Ok(fs::replace(&dir.join("kept").join(sha256(bytes)), bytes, PRIVATE, Sync::Yes)?)
}

/// Moves a file with its mode, even to another file system.
pub(super) fn relocate(from: &Path, to: &Path) -> anyhow::Result<()> {
    match std::fs::rename(from, to) {
        Ok(()) => {}
        Err(e) if e.kind() == std::io::ErrorKind::CrossesDevices => {
            std::fs::copy(from, to).map_err(|e| FileError::new("copy", from, e))?;
            fs::remove(from)?;
        }
        Err(e) => return Err(FileError::new("move", from, e).into()),
    }
    fs::sync_parent(to)?;
    Ok(fs::sync_parent(from)?)
}
