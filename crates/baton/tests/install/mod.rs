//! `baton install` and `baton uninstall`: what they change and restore; what belongs to others keeps working.

mod choices;
mod codex;
mod delegated;
mod killed;
mod project;
mod readme;
mod round_trip;
mod settings_files;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use baton::testing::install::ours::EVENTS;
use baton::testing::install::settings;
use baton_testkit::home::run;
use baton_testkit::race::on_all_processors;
use baton_testkit::{CommandOutput, Home};
use serde_json::Value;

/// Both ways of installing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InstallMode {
    Folder,
    Settings,
}

impl InstallMode {
    fn line(self) -> &'static str {
        match self {
            Self::Folder => "install --yes",
            Self::Settings => "install --yes --settings",
        }
    }
}

/// A home with the program already in place: copying it hundreds of times would prove nothing.
pub fn home() -> Home {
    let home = Home::new(crate::BATON);
    let bin = program(&home);
    std::fs::create_dir_all(bin.parent().unwrap()).unwrap();
    if std::fs::hard_link(crate::BATON, &bin).is_err() {
        std::fs::copy(crate::BATON, &bin).unwrap();
    }
    home
}

/// Where the program is installed.
pub fn program(home: &Home) -> PathBuf {
    home.path().join(".local/bin/baton")
}

/// Runs the installed baton if there is one, otherwise the one that was built.
pub fn baton(home: &Home, line: &str) -> CommandOutput {
    let installed = program(home);
    let program = if installed.exists() { installed } else { crate::BATON.into() };
    // Hide the clients of this machine.
    run(home.command(program).args(line.split_whitespace()).env("PATH", "/usr/bin:/bin"))
}

fn bytes(path: &Path) -> Option<Vec<u8>> {
    std::fs::read(path).ok()
}

fn value(path: &Path) -> Value {
    settings::value(&bytes(path).unwrap_or_default()).unwrap()
}

/// A folder's files with their bytes, by name.
pub fn files(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(next) = dirs.pop() {
        for entry in std::fs::read_dir(&next).into_iter().flatten().flatten() {
            if entry.file_type().unwrap().is_dir() {
                dirs.push(entry.path());
            } else {
                let name = entry.path().strip_prefix(dir).unwrap().display().to_string();
                let link =
                    std::fs::read_link(entry.path()).ok().map(|to| to.into_os_string().into_encoded_bytes());
                found.push((name, link.unwrap_or_else(|| std::fs::read(entry.path()).unwrap())));
            }
        }
    }
    found.sort();
    found
}

fn folder_is_whole(home: &Home) -> bool {
    let dir = home.path().join(".claude/skills/baton");
    let Some(stamp) = baton::testing::install::plugin::read_stamp(&dir) else {
        assert!(!dir.exists(), "a folder without its stamp: {:?}", files(&dir));
        return false;
    };
    for (name, hash) in &stamp.files {
        let bytes = std::fs::read(dir.join(name)).unwrap();
        assert_eq!(baton::testing::sha256(&bytes), *hash, "{name}");
    }
    assert_eq!(files(&dir).len(), stamp.files.len() + 1);
    true
}

/// How many of our hooks are in the settings.
fn our_hooks(path: &Path) -> usize {
    bytes(path).map_or(0, |b| settings::look(&b).unwrap().hooks.len())
}

fn statusline(home: &Home, path: &Path, session: &str) -> String {
    let command = value(path)["statusLine"]["command"].as_str().unwrap().to_owned();
    let payload = home.write("payload", format!("{{\"session_id\":\"{session}\",\"cwd\":\"/\"}}"));
    run(home.command("/bin/sh").args(["-c", &command]).stdin(std::fs::File::open(payload).unwrap())).ok()
}

/// Runs `each` for every number, on all processors.
fn for_each(count: usize, each: impl Fn(usize) + std::marker::Sync) {
    let next = AtomicUsize::new(0);
    on_all_processors(|_, _| {
        loop {
            let n = next.fetch_add(1, Relaxed);
            if n >= count {
                break;
            }
            each(n);
        }
    });
}
