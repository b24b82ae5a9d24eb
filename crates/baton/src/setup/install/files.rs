//! Puts the binary, the plugin folder and edited files in place, each atomically.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::setup::install::plugin::{self, PluginFile};
use crate::sys::fs::{self, FileError, SHARED, Sync};

/// Every build of ours contains this text.
const ABOUT: &str = env!("CARGO_PKG_DESCRIPTION");
const PROGRAM_MODE: u32 = 0o755;

/// The binary: where it runs now, where it belongs, whether to copy it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Binary {
    pub from: PathBuf,
    pub to: PathBuf,
    pub copy: bool,
}

impl Binary {
    pub(crate) fn plan(bin_dir: &Path) -> anyhow::Result<Self> {
        let from = std::env::current_exe().context("could not find this program's own path")?;
        let to = bin_dir.join("baton");
        let real = |path: &Path| std::fs::canonicalize(path).ok();
        if real(&to).is_some() && real(&to) == real(&from) {
            return Ok(Self { from, to, copy: false });
        }
        let there = fs::read(&to, 1 << 30)?;
        if let Some(bytes) = &there
            && memchr::memmem::find(bytes, ABOUT.as_bytes()).is_none()
        {
            bail!(
                "{} is another program of the same name; move it away, or choose another folder with --bin-dir",
                to.display()
            );
        }
        let copy = there.is_none()
            || there != fs::read(&from, 1 << 30)?
            || !crate::setup::install::version::is_program(&to);
        Ok(Self { from, to, copy })
    }

    pub(crate) fn carry_out(&self) -> anyhow::Result<()> {
        if !self.copy {
            return Ok(());
        }
        let bytes =
            fs::read(&self.from, 1 << 30)?.with_context(|| format!("{} is gone", self.from.display()))?;
        let dir = self.to.parent().unwrap_or(Path::new("/"));
        std::fs::create_dir_all(dir).map_err(|e| FileError::new("create the folder", dir, e))?;
        fs::replace(&self.to, &bytes, PROGRAM_MODE, Sync::Yes)?;
        Ok(())
    }
}

/// Whether the folder has exactly `files`.
pub(crate) fn folder_holds(dir: &Path, files: &[PluginFile]) -> bool {
    files.iter().all(|file| {
        fs::read(&dir.join(file.path), 16 << 20)
            .ok()
            .flatten()
            .is_some_and(|bytes| bytes == file.text.as_bytes())
    }) && foreign_files(dir, &files.iter().map(|f| f.path.to_owned()).collect::<Vec<_>>()).is_empty()
}

/// Files below `dir` that are not among `ours`, relative to it.
fn foreign_files(dir: &Path, ours: &[String]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(next) = dirs.pop() {
        for entry in std::fs::read_dir(&next).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_type().is_ok_and(|t| t.is_dir()) {
                dirs.push(path);
            } else if let Ok(name) = path.strip_prefix(dir)
                && !ours.iter().any(|o| Path::new(o) == name)
            {
                found.push(name.to_owned());
            }
        }
    }
    found
}

/// Writes the folder next to the client's skills and moves it in. Never writes inside them: the client would load a
/// half-written folder, or one that a killed install left behind.
pub(crate) fn put_folder(dir: &Path, files: &[PluginFile]) -> anyhow::Result<()> {
    let skills = dir.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(skills).map_err(|e| FileError::new("create the folder", skills, e))?;
    let temp = Temp::beside(skills)?;
    for file in files {
        let path = temp.path.join(file.path);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(|e| FileError::new("create the folder", parent, e))?;
        }
        fs::replace(&path, file.text.as_bytes(), SHARED, Sync::Yes)?;
    }
    let there = std::fs::symlink_metadata(dir).is_ok();
    if !there {
        std::fs::rename(&temp.path, dir).map_err(|e| FileError::new("create", dir, e))?;
        fs::sync_parent(dir)?;
        return Ok(());
    }
    let stamp = plugin::read_stamp(dir).with_context(|| {
        format!("{} is not a folder of baton's; move it away and try again", dir.display())
    })?;
    // Keep files that someone else put there.
    let ours: Vec<String> = stamp.files.into_keys().chain([plugin::STAMP.to_owned()]).collect();
    for name in foreign_files(dir, &ours) {
        let to = temp.path.join(&name);
        if let Some(parent) = to.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::copy(dir.join(&name), &to).map_err(|e| FileError::new("copy", &dir.join(&name), e))?;
    }
    exchange(&temp.path, dir)?;
    fs::sync_parent(dir)?;
    Ok(())
}

fn exchange(new: &Path, dir: &Path) -> anyhow::Result<()> {
    let fail = |e: std::io::Error| FileError::new("replace", dir, e);
    if renameat_with(CWD, new, CWD, dir, RenameFlags::EXCHANGE).is_ok() {
        return Ok(());
    }
    // Without rename exchange, the folder is absent for an instant, but never half-written.
    let aside = new.with_extension("old.tmp");
    std::fs::rename(dir, &aside).map_err(fail)?;
    std::fs::rename(new, dir).map_err(fail)?;
    std::fs::rename(&aside, new).map_err(fail)?;
    Ok(())
}

/// Moves the folder away at once, then deletes it. If someone else has put files into it, removes only ours. Returns
/// whether it existed, and what stays.
pub(crate) fn remove_folder(dir: &Path) -> anyhow::Result<(bool, Vec<PathBuf>)> {
    let Some(stamp) = plugin::read_stamp(dir) else { return Ok((false, Vec::new())) };
    let ours: Vec<String> = stamp.files.into_keys().chain([plugin::STAMP.to_owned()]).collect();
    let foreign = foreign_files(dir, &ours);
    if foreign.is_empty() {
        let temp = Temp::beside(dir.parent().unwrap_or(Path::new("/")))?;
        std::fs::rename(dir, temp.path.join("baton")).map_err(|e| FileError::new("remove", dir, e))?;
        fs::sync_parent(dir)?;
        return Ok((true, foreign));
    }
    // Without the manifest, which sorts first, it is not a plugin. The stamp goes last, so that a killed uninstall can
    // resume.
    for name in ours {
        fs::remove(&dir.join(&name))?;
        let _ = dir.join(&name).parent().map(std::fs::remove_dir);
    }
    Ok((true, foreign))
}

/// A folder being prepared; removed when dropped.
struct Temp {
    path: PathBuf,
}

impl Temp {
    /// In the folder that contains `skills`, with links resolved.
    fn beside(skills: &Path) -> anyhow::Result<Self> {
        let real = std::fs::canonicalize(skills).map_err(|e| FileError::new("find", skills, e))?;
        let parent = real.parent().unwrap_or(Path::new("/"));
        sweep(parent);
        let path = parent.join(format!("{TEMP}{}.tmp", std::process::id()));
        std::fs::create_dir(&path).map_err(|e| FileError::new("create the folder", &path, e))?;
        Ok(Self { path })
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

const TEMP: &str = ".baton-plugin.";

/// Folders that killed installs left in `dir`.
pub(crate) fn leftovers(dir: &Path) -> Vec<PathBuf> {
    let is_dead = |name: &str| {
        let pid = name.strip_prefix(TEMP).and_then(|rest| rest.split('.').next()?.parse::<u32>().ok());
        pid.is_some_and(|pid| pid == std::process::id() || !crate::sys::process::pid_exists(pid))
    };
    std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|e| e.file_name().to_str().is_some_and(is_dead))
        .map(|e| e.path())
        .collect()
}

/// Removes leftovers of killed runs in `dir`.
pub(crate) fn sweep(dir: &Path) {
    for path in leftovers(dir) {
        let _ = std::fs::remove_dir_all(path);
    }
}

/// An edit of someone else's file. `None` is a missing file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Edit {
    pub path: PathBuf,
    pub before: Option<Vec<u8>>,
    pub after: Option<Vec<u8>>,
}

impl Edit {
    pub(crate) fn is_needed(&self) -> bool {
        self.before != self.after
    }

    /// Refuses a file that its owner made read-only, although we could replace it.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        if self.is_needed()
            && let Ok(meta) = std::fs::metadata(&self.path)
            && meta.permissions().mode() & 0o222 == 0
        {
            bail!(
                "{} is read-only, so it was left alone; make it writable with `chmod u+w` and try again",
                self.path.display()
            );
        }
        Ok(())
    }

    pub(crate) fn carry_out(&self) -> anyhow::Result<()> {
        if !self.is_needed() {
            return Ok(());
        }
        self.check()?;
        let now = fs::read(&self.path, 16 << 20)?;
        if now != self.before {
            bail!("{} was changed by someone else just now; run this again", self.path.display());
        }
        match (&self.before, &self.after) {
            (_, None) => {
                fs::remove(&self.path)?;
                fs::sync_parent(&self.path)?;
            }
            (None, Some(bytes)) => {
                let dir = self.path.parent().unwrap_or(Path::new("/"));
                std::fs::create_dir_all(dir).map_err(|e| FileError::new("create the folder", dir, e))?;
                if !fs::create(&self.path, bytes, SHARED, Sync::Yes)? {
                    bail!("{} was created by someone else just now; run this again", self.path.display());
                }
            }
            (Some(_), Some(bytes)) => fs::replace_as_it_was(&self.path, bytes, Sync::Yes)?,
        }
        Ok(())
    }
}

/// The real path of `path`. A missing file is named through its nearest existing folder, so that it has the same name
/// before and after its creation.
pub(crate) fn real(path: &Path) -> anyhow::Result<PathBuf> {
    if let Ok(real) = std::fs::canonicalize(path) {
        return Ok(real);
    }
    if std::fs::symlink_metadata(path).is_ok() {
        bail!("{} is a link that leads nowhere; fix or remove it, then try again", path.display());
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => Ok(real(parent)?.join(name)),
        _ => Ok(path.to_owned()),
    }
}

/// The missing folders on the way to `path`, outermost first.
pub(crate) fn missing_folders(path: &Path) -> Vec<PathBuf> {
    let mut missing: Vec<PathBuf> =
        path.ancestors().skip(1).take_while(|dir| !dir.exists()).map(Path::to_owned).collect();
    missing.reverse();
    missing
}
