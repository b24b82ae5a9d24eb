//! Which folders the user has accepted. Until then a project is untrusted: a clone may shape how baton looks there, but
//! never where it writes, what it runs, which channel it reads or what it says in the user's name.
//!
//! `trust.json` in the state folder lists the accepted folders, with the hash that each project file had when the user
//! said yes. A file that has changed since is untrusted again.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::bail;
use baton_core::ids::ChannelName;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::config::{self, ConfigError, IgnoredBecause, ResolvedConfig};
use crate::project::channel::{common_git_dir, real};
use crate::project::memory::{self, project as memory_project};
use crate::project::root::root;
use crate::store::Store;
use crate::store::record::{self, RecordError};
use crate::sys::fs;
use crate::sys::git;
use crate::sys::hash::sha256;
use crate::sys::lock::Lock;
use crate::sys::paths::Paths;

const PATIENCE: Duration = Duration::from_secs(2);
const MAX_SETTINGS: u64 = 1 << 20;

/// One accepted folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Acceptance {
    pub at: Timestamp,
    /// By which command: `trust`, `memory init`, `install --project`, `asked`.
    pub by: String,
    /// The hashes of the project files below it, by path; `None` in lists from before hashes were kept, until first
    /// read.
    pub files: Option<BTreeMap<PathBuf, String>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Trust {
    folders: BTreeMap<PathBuf, Acceptance>,
    /// Project files and memories that the user was asked about and declined, by path. baton does not ask again.
    declined: BTreeMap<PathBuf, String>,
    #[serde(skip)]
    home: PathBuf,
}

fn path(state: &Path) -> PathBuf {
    state.join("trust.json")
}

impl Trust {
    pub(crate) fn read(paths: &Paths) -> Self {
        // If the list cannot be read, nothing is accepted.
        let trust = match record::read::<Self>(&path(&paths.state)) {
            Ok(Some(trust)) => trust.pinned_for_good(paths),
            Ok(None) => Self::of_earlier_installs(&paths.state).pinned_for_good(paths),
            Err(_) => Self::default(),
        };
        Self { home: real(&paths.home), ..trust }
    }

    /// Pins folders that were accepted before hashes were kept: their settings are accepted as first found, so that we
    /// ask about later changes.
    fn pinned_for_good(mut self, paths: &Paths) -> Self {
        if self.pin() {
            // If it cannot be written, the next reader does this.
            let _ = Self::change(paths, |_| ());
        }
        self
    }

    /// Adds missing hashes. Returns whether there was anything to add.
    fn pin(&mut self) -> bool {
        let mut pinned = false;
        for (dir, accepted) in self.folders.iter_mut().filter(|(_, accepted)| accepted.files.is_none()) {
            let file = dir.join(config::PROJECT_FILE);
            // A file that cannot be read now is not accepted yet; the next reader tries again.
            let Ok(bytes) = fs::read(&file, MAX_SETTINGS) else { continue };
            accepted.files = Some(bytes.map(|bytes| (file, sha256(&bytes))).into_iter().collect());
            pinned = true;
        }
        pinned
    }

    /// Folders that were installed into, or given a memory, before this list existed.
    fn of_earlier_installs(state: &Path) -> Self {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Record {
            installs: Vec<Install>,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Install {
            project: Option<PathBuf>,
        }
        // An install record that cannot be read accepts nothing.
        let path = state.join("install.json");
        let bytes = fs::read(&path, MAX_SETTINGS).unwrap_or(None).unwrap_or_default();
        let record: Record = record::parse(&path, &bytes).unwrap_or(None).unwrap_or_default();
        let installed = record.installs.into_iter().filter_map(|install| install.project);
        let remembered = memory_project::all(state).into_iter().map(|memory| memory.project);
        let folders = installed.chain(remembered).map(|dir| {
            let by = "an earlier install".to_owned();
            (real(&dir), Acceptance { at: Timestamp::UNIX_EPOCH, by, files: None })
        });
        Self { folders: folders.collect(), ..Self::default() }
    }

    pub(crate) fn folders(&self) -> impl Iterator<Item = (&Path, &Acceptance)> {
        self.folders.iter().map(|(dir, accepted)| (dir.as_path(), accepted))
    }

    /// Whether `dir` is in an accepted folder.
    pub(crate) fn accepts(&self, dir: &Path) -> bool {
        !self.folders.is_empty() && self.covering(dir).next().is_some()
    }

    /// Whether the user has accepted the project file in `dir` with these bytes.
    pub(crate) fn accepts_settings(&self, dir: &Path, bytes: &[u8]) -> bool {
        if self.folders.is_empty() {
            return false;
        }
        let hash = sha256(bytes);
        self.covering(dir).any(|(dir, accepted)| match &accepted.files {
            None => false,
            Some(files) => files.get(&dir.join(config::PROJECT_FILE)) == Some(&hash),
        })
    }

    /// The acceptances that cover `dir`, or the same folder in the main work tree of its repository: the user accepts a
    /// repository, and each agent may work in a separate work tree.
    fn covering(&self, dir: &Path) -> impl Iterator<Item = (PathBuf, &Acceptance)> {
        let dir = real(dir);
        let main = in_main_work_tree(&dir);
        [Some(dir), main].into_iter().flatten().filter_map(|dir| {
            let accepted = self.nearest(&dir)?;
            Some((dir, accepted))
        })
    }

    /// The acceptance that covers `dir`. An acceptance ends at the border of a repository: a clone inside an accepted
    /// folder is still untrusted. So are folders below a home folder, where downloads are unpacked.
    fn nearest(&self, dir: &Path) -> Option<&Acceptance> {
        for above in dir.ancestors() {
            if let Some(accepted) = self.folders.get(above) {
                let covers = above == dir || holds_more_than_a_project(&self.home, above).is_none();
                return covers.then_some(accepted);
            }
            if std::fs::symlink_metadata(above.join(".git")).is_ok() {
                return None;
            }
        }
        None
    }

    /// Whether the user has declined the project file in `dir` as it is now.
    pub(crate) fn has_declined(&self, dir: &Path, bytes: &[u8]) -> bool {
        self.declined.get(&real(dir).join(config::PROJECT_FILE)) == Some(&sha256(bytes))
    }

    /// Whether the user has declined the memory that came with `project`.
    pub(crate) fn has_declined_memory(&self, project: &Path) -> bool {
        self.declined.contains_key(&memory::folder(&real(project)))
    }

    pub(crate) fn decline_memory(paths: &Paths, project: &Path) -> Result<(), RecordError> {
        let folder = memory::folder(&real(project));
        Self::change(paths, |trust| drop(trust.declined.insert(folder, String::new())))
    }

    fn change(paths: &Paths, change: impl FnOnce(&mut Self)) -> Result<(), RecordError> {
        let path = path(&paths.state);
        let _lock = Lock::acquire(&path.with_extension("lock"), PATIENCE)?;
        let mut trust = match record::read(&path)? {
            Some(trust) => trust,
            None => Self::of_earlier_installs(&paths.state),
        };
        trust.pin();
        change(&mut trust);
        Ok(record::write(&path, &trust)?)
    }

    /// Accepts `root` with the project files between it and `cwd` as they are now.
    pub(crate) fn accept(
        paths: &Paths,
        root: &Path,
        cwd: &Path,
        by: &str,
        now: Timestamp,
    ) -> anyhow::Result<()> {
        check(paths, root, cwd)?;
        let root = real(root);
        let mut files = BTreeMap::new();
        for dir in config::project_files(paths, &real(cwd)).into_iter().filter(|dir| dir.starts_with(&root)) {
            let file = dir.join(config::PROJECT_FILE);
            if let Some(bytes) = fs::read(&file, MAX_SETTINGS)? {
                files.insert(file, sha256(&bytes));
            }
        }
        Self::change(paths, |trust| {
            let known = trust.folders.remove(&root).and_then(|known| known.files).unwrap_or_default();
            let files = Some(known.into_iter().chain(files).collect());
            trust.folders.insert(root, Acceptance { at: now, by: by.to_owned(), files });
        })?;
        Ok(())
    }

    pub(crate) fn decline(paths: &Paths, dir: &Path, bytes: &[u8]) -> Result<(), RecordError> {
        let (file, hash) = (real(dir).join(config::PROJECT_FILE), sha256(bytes));
        Self::change(paths, |trust| drop(trust.declined.insert(file, hash)))
    }

    /// Forgets that `root` was accepted. Returns `false` if it was not.
    pub(crate) fn forget(paths: &Paths, root: &Path) -> Result<bool, RecordError> {
        let root = real(root);
        let mut was_there = false;
        Self::change(paths, |trust| was_there = trust.folders.remove(&root).is_some())?;
        Ok(was_there)
    }
}

/// Refuses what must not be accepted: a folder that is not a project, and settings that would be an error from then on.
pub(crate) fn check(paths: &Paths, root: &Path, cwd: &Path) -> anyhow::Result<ResolvedConfig> {
    check_folder(paths, root)?;
    let resolved = match config::resolve(paths, cwd, std::iter::empty(), &|_, _| true) {
        Ok(resolved) => resolved,
        Err(e) => bail!("nothing is accepted until this is corrected: {e}"),
    };
    if let Some(unread) = resolved.ignored.iter().find(|ignored| ignored.why == IgnoredBecause::Invalid) {
        bail!("nothing is accepted until this is corrected: {}", unread.what);
    }
    Ok(resolved)
}

pub(crate) fn check_folder(paths: &Paths, root: &Path) -> anyhow::Result<()> {
    match holds_more_than_a_project(&real(&paths.home), &real(root)) {
        Some(why) => bail!(
            "nothing was accepted: {} is not a project, {why}; accept each project in its own folder",
            paths.short(root)
        ),
        None => Ok(()),
    }
}

/// The folder to accept for `cwd`: its project. A home folder under version control does not count.
pub(crate) fn to_accept<'d>(paths: &Paths, cwd: &'d Path) -> &'d Path {
    let root = root(cwd);
    if holds_more_than_a_project(&real(&paths.home), &real(root)).is_some() { cwd } else { root }
}

/// Why accepting `dir` would accept more than one project: clones and downloads of the user, or other people's files.
fn holds_more_than_a_project(home: &Path, dir: &Path) -> Option<&'static str> {
    if dir == home {
        Some("it is your home folder")
    } else if home.starts_with(dir) {
        Some("your home folder is in it")
    } else if fs::is_shared(dir) {
        Some("everybody can put files there")
    } else {
        None
    }
}

/// Git in `dir`, with the hooks and filters of an accepted project only.
pub(crate) fn git_in(dir: &Path) -> io::Result<Command> {
    if Paths::from_env().is_ok_and(|paths| Trust::read(&paths).accepts(dir)) {
        let mut git = Command::new("git");
        git.arg("-C").arg(dir);
        Ok(git)
    } else {
        git::without_its_commands(dir)
    }
}

/// Where `dir`, which is in a linked work tree, would be in the main one.
fn in_main_work_tree(dir: &Path) -> Option<PathBuf> {
    let root = git::root(dir).filter(|root| !fs::is_plain_dir(&root.join(".git")))?;
    let common = common_git_dir(root).ok().filter(|common| common.ends_with(".git"))?;
    let below = dir.strip_prefix(root).ok()?;
    Some(common.parent()?.join(below).components().collect())
}

/// The settings for `cwd`. Project files apply as far as their folders are accepted.
pub(crate) fn settings(
    paths: &Paths,
    cwd: &Path,
    env: impl Iterator<Item = (String, String)>,
) -> Result<ResolvedConfig, ConfigError> {
    // Read only if there is a project file to decide about.
    let trust = std::cell::OnceCell::new();
    let is_accepted =
        |dir: &Path, bytes: &[u8]| trust.get_or_init(|| Trust::read(paths)).accepts_settings(dir, bytes);
    config::resolve(paths, cwd, env, &is_accepted)
}

/// The channel that the project file of `cwd` names although another project uses it, with a folder of that project.
///
/// A channel belongs to the repository or folder that used it first. Another project that names it would load and
/// replace its handoffs, so that is not accepted along with the rest.
pub(crate) fn foreign_channel(
    store: &Store,
    paths: &Paths,
    cwd: &Path,
) -> anyhow::Result<Option<(ChannelName, PathBuf)>> {
    let resolved = check(paths, to_accept(paths, cwd), cwd)?;
    let Some((dir, name)) = &resolved.config.project_channel else { return Ok(None) };
    let Ok(channel) = ChannelName::new(name) else { return Ok(None) };
    let bytes = fs::read(&dir.join(config::PROJECT_FILE), MAX_SETTINGS)?.unwrap_or_default();
    if Trust::read(paths).accepts_settings(dir, &bytes) {
        return Ok(None);
    }
    let mut entries = store.handoffs(&resolved.config).list(&channel)?;
    entries.sort_by_key(|entry| entry.created_at);
    let first = entries.first().map(|entry| PathBuf::from(&entry.working_dir));
    Ok(first.filter(|owner| !is_same_project(dir, owner)).map(|owner| (channel, owner)))
}

/// Whether `other` is in the project whose settings are in `dir`.
fn is_same_project(dir: &Path, other: &Path) -> bool {
    let (dir, other) = (real(dir), real(other));
    let repository = |dir: &Path| git::root(dir).and_then(|root| common_git_dir(root).ok());
    match (repository(&dir), repository(&other)) {
        (None, None) => other.starts_with(&dir),
        (here, there) => here == there,
    }
}
