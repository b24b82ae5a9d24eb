//! Gives a project a memory, and removes it again: files, the block in CLAUDE.md, lines for git.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::project::gitignore;
use crate::project::memory::{active, block, folder};
use crate::store::record;
use crate::sys::fs::{self, FileError, SHARED, Sync};
use crate::sys::hash::sha256;

const PROJECT_MEMORY: &str = "\
# Project memory

What lasts: rules of the user, decisions and their reasons, gotchas, commands that work. One line each; where the work
stands right now is in active-context.md.
";

/// The changes of `init` in a project, so that they can be undone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MemoryInstall {
    pub project: PathBuf,
    pub claude_md: MemoryEdit,
    #[serde(default)]
    pub gitignore: Option<MemoryEdit>,
}

/// A file of the project that we edited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MemoryEdit {
    pub path: PathBuf,
    /// The hash of the file without our edits; `None` if there was no file.
    pub original: Option<String>,
}

fn record_path(state: &Path) -> PathBuf {
    state.join("memory/projects.json")
}

/// All projects whose memory we made. A list that cannot be read is empty here, and never overwritten.
pub(crate) fn all(state: &Path) -> Vec<MemoryInstall> {
    read(state).unwrap_or_default()
}

/// Like [`all`], for callers that decide by what is missing: fails if the list cannot be read.
pub(super) fn read(state: &Path) -> Result<Vec<MemoryInstall>, FileError> {
    Ok(record::read(&record_path(state))?.unwrap_or_default())
}

fn set(state: &Path, project: &Path, memory: Option<MemoryInstall>) -> Result<(), FileError> {
    let mut known = read(state)?;
    known.retain(|m| m.project != project);
    known.extend(memory);
    let path = record_path(state);
    if !known.is_empty() {
        return record::write(&path, &known);
    }
    fs::remove(&path)?;
    // Succeeds only if the folder is empty now.
    let _ = std::fs::remove_dir(state.join("memory"));
    Ok(())
}

/// The file that the client reads: the project's own CLAUDE.md if there is one.
fn claude_md(project: &Path) -> (PathBuf, &'static str) {
    let own = project.join("CLAUDE.md");
    if own.is_file() { (own, ".claude/memory") } else { (project.join(".claude/CLAUDE.md"), "memory") }
}

/// The files that `init` would make or change here.
pub(crate) fn missing(state: &Path, project: &Path) -> Vec<PathBuf> {
    let dir = folder(project);
    let known = all(state).into_iter().find(|m| m.project == project);
    let claude = known.map_or_else(|| claude_md(project).0, |m| m.claude_md.path);
    let has_block = fs::read(&claude, 4 << 20).ok().flatten().is_some_and(|b| block::is_there(&b));
    let files = [dir.join("active-context.md"), dir.join("project-memory.md")];
    files.into_iter().filter(|p| !p.exists()).chain((!has_block).then_some(claude)).collect()
}

/// Makes the missing files. Returns the paths that were made or changed.
pub(crate) fn init(state: &Path, project: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let dir = folder(project);
    let mut done = Vec::new();
    // Read the record before anything is made: without it our block could not be told from the user's own words.
    let known = read(state)?.into_iter().find(|m| m.project == project);
    fs::refuse_links_between(project, &dir.join("raw"))?;
    std::fs::create_dir_all(&dir).map_err(|e| FileError::new("create the folder", &dir, e))?;
    fs::private_dir(&dir.join("raw"))?;
    for (name, text) in [("active-context.md", active::FIRST), ("project-memory.md", PROJECT_MEMORY)] {
        let path = dir.join(name);
        if fs::create(&path, text.as_bytes(), SHARED, Sync::Later)? {
            done.push(path);
        }
    }
    let (path, memory) = known.as_ref().map_or_else(
        || claude_md(project),
        |m| {
            let inside = m.claude_md.path.parent() == Some(&project.join(".claude"));
            (m.claude_md.path.clone(), if inside { "memory" } else { ".claude/memory" })
        },
    );
    let now = fs::read(&path, 4 << 20)?;
    let plain = now.as_deref().map(block::remove);
    let after = block::add(now.as_deref().unwrap_or_default(), memory);
    // Write the record first: without it our block could not be told from the user's own words.
    let original = match &known {
        Some(known) if now.as_deref().is_some_and(block::is_there) => known.claude_md.original.clone(),
        _ => plain.as_deref().map(sha256),
    };
    let ignored = if project.join(".git").exists() { ignore(project)? } else { None };
    let touched = known.and_then(|k| k.gitignore).or_else(|| ignored.as_ref().map(|i| i.touched.clone()));
    let record = MemoryInstall {
        project: project.to_owned(),
        claude_md: MemoryEdit { path: path.clone(), original },
        gitignore: touched,
    };
    set(state, project, Some(record))?;
    if now.as_deref() != Some(&after) {
        write(&path, now.is_some(), &after)?;
        done.push(path);
    }
    if let Some(Ignoring { touched, there, after }) = ignored {
        write(&touched.path, there, &after)?;
        done.push(touched.path);
    }
    Ok(done)
}

/// A change of a `.gitignore`.
struct Ignoring {
    touched: MemoryEdit,
    there: bool,
    after: Vec<u8>,
}

/// The change that keeps raw conversations out of the project's history, if lines are missing.
fn ignore(project: &Path) -> Result<Option<Ignoring>, FileError> {
    let path = project.join(".gitignore");
    let now = fs::read(&path, 4 << 20)?;
    let plain = now.clone().unwrap_or_default();
    let after = gitignore::add(&plain);
    let touched = MemoryEdit { path, original: now.as_deref().map(sha256) };
    Ok((after != plain).then_some(Ignoring { touched, there: now.is_some(), after }))
}

fn write(path: &Path, there: bool, bytes: &[u8]) -> Result<(), FileError> {
    if there {
        fs::replace_as_it_was(path, bytes, Sync::Yes)
    } else {
        fs::create(path, bytes, SHARED, Sync::Yes).map(drop)
    }
}

/// The files that were removed, and those that stay because they contain other text.
#[derive(Debug, Default)]
pub(crate) struct MemoryRemoval {
    pub done: Vec<PathBuf>,
    pub stays: Vec<PathBuf>,
}

/// Undoes `init`: edited files are restored byte for byte; saved documents stay.
pub(crate) fn remove(state: &Path, project: &Path) -> anyhow::Result<MemoryRemoval> {
    let mut removed = MemoryRemoval::default();
    let known = read(state)?.into_iter().find(|m| m.project == project);
    let claude = known
        .as_ref()
        .map_or_else(|| MemoryEdit { path: claude_md(project).0, original: None }, |m| m.claude_md.clone());
    let made_by_us = known.is_some() && claude.original.is_none();
    removed.done.extend(take_back(&claude, made_by_us, block::remove)?);
    if let Some(touched) = known.as_ref().and_then(|m| m.gitignore.clone()) {
        removed.done.extend(take_back(&touched, touched.original.is_none(), gitignore::remove)?);
    }
    let dir = folder(project);
    for (name, first) in [("active-context.md", active::FIRST), ("project-memory.md", PROJECT_MEMORY)] {
        let path = dir.join(name);
        if fs::read(&path, 1 << 20).ok().flatten().is_some_and(|now| now == first.as_bytes()) {
            fs::remove(&path)?;
            removed.done.push(path);
        }
    }
    // Succeeds only for folders that are empty again.
    for dir in [dir.join("raw"), dir.clone(), project.join(".claude")] {
        let _ = std::fs::remove_dir(&dir);
    }
    if dir.exists() {
        removed.stays.push(dir);
    }
    set(state, project, None)?;
    Ok(removed)
}

/// Applies `cut` to the file. Returns its path if that changed it.
fn take_back(
    touched: &MemoryEdit,
    made_by_us: bool,
    cut: fn(&[u8]) -> Vec<u8>,
) -> Result<Option<PathBuf>, FileError> {
    let Some(now) = fs::read(&touched.path, 4 << 20)? else { return Ok(None) };
    let mut after = cut(&now);
    if after == now {
        return Ok(None);
    }
    // We had ended a last line that had no line end, to put our lines below it.
    for end in [&b"\r\n"[..], b"\n"] {
        if let Some(shorter) = after.strip_suffix(end)
            && touched.original.as_ref().is_some_and(|hash| *hash == sha256(shorter))
        {
            after = shorter.to_vec();
            break;
        }
    }
    if made_by_us && after.trim_ascii().is_empty() {
        fs::remove(&touched.path)?;
    } else {
        fs::replace_as_it_was(&touched.path, &after, Sync::Yes)?;
    }
    Ok(Some(touched.path.clone()))
}
