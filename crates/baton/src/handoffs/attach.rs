//! Reads the files of the working set for a fresh context: only from inside the project, without following links, and
//! never one that git ignores.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use baton_core::handoff::HandoffId;
use baton_core::handoff::attach::{Attachment, Candidate, block, candidates, within};
use baton_core::handoff::carried::Carried;
use baton_core::handoff::pack::chars_for_tokens;
use baton_core::ids::SessionId;
use baton_core::plain::plain;
use baton_core::prompt;
use baton_core::redact::redact;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::providers::Provider;
use crate::store::{Store, record};
use crate::sys::{child, fs, git};

/// Larger files are not read; the handoff lists the lines in play.
const MAX: u64 = 2 << 20;

/// The files that go with the handoff `id`, as they are now.
pub(crate) fn files(store: &Store, config: &Config, id: &HandoffId) -> Vec<Attachment> {
    // A handoff without a ledger, such as one of an earlier version, names no files.
    let Ok(Some(carried)) = store.handoffs(config).carried(id) else { return Vec::new() };
    let most = chars_for_tokens(usize::try_from(config.handoff.file_tokens).unwrap_or(usize::MAX));
    let files = readable(&carried, config).into_iter();
    files.map(|(candidate, text)| candidate.attach(&text, most)).collect()
}

/// The block that shows the files, with the fence of their handoff.
pub(crate) fn shown(store: &Store, id: &HandoffId, files: &[Attachment]) -> Option<String> {
    block(files, &store.fence().word(id.as_str()))
}

/// Notes in the handoff's record which files a context was shown.
pub(crate) fn note(store: &Store, config: &Config, id: &HandoffId, files: &[Attachment]) {
    let paths: Vec<String> = files.iter().map(|file| file.path.clone()).collect();
    if !paths.is_empty()
        && let Err(e) = store.handoffs(config).note_attached(id, &paths)
    {
        store.log().fault(Timestamp::now(), "note the files that went with a handoff", &e);
    }
}

/// A prompt to type or to start with, with mentions of the files that its client shows by itself.
pub(crate) fn mentioned(
    store: &Store,
    config: &Config,
    provider: &Provider,
    prompt: &str,
    id: &HandoffId,
) -> String {
    if !provider.expands_paths {
        return prompt.to_owned();
    }
    let mentions: Vec<String> = files(store, config, id).iter().filter_map(Attachment::mention).collect();
    prompt::with_files(prompt, &mentions)
}

/// Files that wait for the first prompt of a session that has loaded a handoff, because the handoff itself uses up the
/// budget of a start.
#[derive(Serialize, Deserialize)]
pub(crate) struct PendingFiles {
    handoff: HandoffId,
    files: Vec<Attachment>,
}

impl PendingFiles {
    fn path(store: &Store, session: &SessionId) -> PathBuf {
        store.state.join("files").join(format!("{session}.json"))
    }

    /// Reads the files now.
    pub(crate) fn of(store: &Store, config: &Config, id: &HandoffId) -> Self {
        Self { handoff: id.clone(), files: files(store, config, id) }
    }

    /// Reads the files now and keeps them until the session is prompted.
    pub(crate) fn prepare(store: &Store, config: &Config, session: &SessionId, id: &HandoffId) {
        let waiting = Self::of(store, config, id);
        let path = Self::path(store, session);
        if waiting.files.is_empty() {
            return;
        }
        if let Err(e) = record::write(&path, &waiting) {
            store.log().fault(Timestamp::now(), "keep the files for the first prompt", &e);
        }
    }

    /// Takes the files; the caller shows them.
    pub(crate) fn take(store: &Store, session: &SessionId) -> Option<Self> {
        let path = Self::path(store, session);
        // Leave a newer version's record to that version.
        let waiting = record::read(&path).ok()??;
        fs::remove(&path).ok()?;
        Some(waiting)
    }

    /// All of them as one block.
    pub(crate) fn all(self, store: &Store, config: &Config) -> Option<String> {
        note(store, config, &self.handoff, &self.files);
        shown(store, &self.handoff, &self.files)
    }

    /// The files to show with `prompt`, in at most `most` characters: those that it does not mention itself.
    pub(crate) fn beside(self, store: &Store, config: &Config, prompt: &str, most: usize) -> Option<String> {
        let (mut brought, left): (Vec<_>, Vec<_>) =
            self.files.into_iter().partition(|file| file.is_in(prompt));
        let fitting = within(&left, most);
        let text = shown(store, &self.handoff, &fitting);
        brought.extend(fitting);
        note(store, config, &self.handoff, &brought);
        text
    }
}

/// The candidates that can be shown, with their text.
fn readable(carried: &Carried, config: &Config) -> Vec<(Candidate, String)> {
    let most = usize::try_from(config.handoff.files).unwrap_or(usize::MAX);
    let root = Path::new(carried.ledger.root.as_deref().unwrap_or(&carried.from.project));
    if most == 0 || !root.is_absolute() {
        return Vec::new();
    }
    let mut found: Vec<Candidate> = candidates(&carried.ledger);
    found.truncate(most * 4);
    let Some(ignored) = ignored(root, &found) else { return Vec::new() };
    let wanted = found.into_iter().filter(|file| !ignored.contains(&file.path));
    wanted.filter_map(|file| text(root, &file.path).map(|text| (file, text))).take(most).collect()
}

/// The text of a regular file below `root` that no link leads to. Files that cannot be read are skipped.
fn text(root: &Path, path: &str) -> Option<String> {
    let mut folder = PathBuf::from(root);
    let (above, name) = path.rsplit_once('/').map_or(("", path), |(above, name)| (above, name));
    for part in above.split('/').filter(|part| !part.is_empty()) {
        folder.push(part);
        if !fs::is_plain_dir(&folder) {
            return None;
        }
    }
    let bytes = fs::read(&folder.join(name), MAX).ok()??;
    let text = String::from_utf8(bytes).ok()?;
    Some(redact(&plain(&text)).text.into_owned())
}

/// Which of the files git ignores; `None` if that is unknown, so that none is shown.
fn ignored(root: &Path, files: &[Candidate]) -> Option<Vec<String>> {
    /// A hook waits for it. What git reads to answer may be a pipe.
    const PATIENCE: Duration = Duration::from_millis(500);
    if git::root(root).is_none() {
        return Some(Vec::new());
    }
    let mut git = Command::new("git");
    // Run nothing that the project configures.
    git.args(["-c", "core.fsmonitor=false", "-C"]).arg(root).args(["check-ignore", "-z", "--stdin"]);
    let names = files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>().join("\0");
    let out = child::output_within(git.env("GIT_OPTIONAL_LOCKS", "0"), names.as_bytes(), PATIENCE).ok()?;
    // 1 means that none of them is ignored.
    if !matches!(out.status.code(), Some(0 | 1)) {
        return None;
    }
    let out = String::from_utf8(out.stdout).ok()?;
    Some(out.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(path: &str) -> Candidate {
        Candidate { path: path.to_owned(), parts: Vec::new() }
    }

    #[test]
    fn a_pipe_among_what_git_reads_holds_nothing_up() {
        let dir = tempfile::tempdir().unwrap();
        let made = Command::new("git").arg("-C").arg(dir.path()).args(["init", "-q"]).status().unwrap();
        assert!(made.success());
        assert!(Command::new("mkfifo").arg(dir.path().join(".gitignore")).status().unwrap().success());
        let began = std::time::Instant::now();
        assert_eq!(ignored(dir.path(), &[candidate("a.rs")]), None, "unknown, so none is shown");
        assert!(began.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn links_and_files_that_are_none_are_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        std::fs::create_dir_all(root.join("src")).unwrap();
        std::fs::write(root.join("src/a.rs"), "fn a() {}").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", root.join("src/link.rs")).unwrap();
        std::os::unix::fs::symlink("/etc", root.join("linked")).unwrap();
        assert_eq!(text(root, "src/a.rs").as_deref(), Some("fn a() {}"));
        for path in ["src/link.rs", "linked/passwd", "src", "src/gone.rs"] {
            assert_eq!(text(root, path), None, "{path}");
        }
    }

    #[test]
    fn files_that_git_ignores_are_recognised() {
        let dir = tempfile::tempdir().unwrap();
        let files = [candidate("a.rs"), candidate("out/b.rs")];
        assert_eq!(ignored(dir.path(), &files), Some(Vec::new()), "outside git nothing is ignored");
        let made = Command::new("git").arg("-C").arg(dir.path()).args(["init", "-q"]).status().unwrap();
        assert!(made.success());
        std::fs::write(dir.path().join(".gitignore"), "out/\n").unwrap();
        assert_eq!(ignored(dir.path(), &files), Some(vec!["out/b.rs".to_owned()]));
    }
}
