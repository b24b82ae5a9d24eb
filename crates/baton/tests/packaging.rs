//! What newcomers and packagers rely on: the stated Rust version, and that documents name files that exist.

use std::path::{Path, PathBuf};
use std::process::Command;

use baton_testkit::tools;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(repository().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Extracts `1.95` from `rustc 1.95.0 (59807616e 2026-04-14)`.
fn compiler() -> String {
    let out = Command::new("rustc").arg("--version").output().unwrap();
    let said = String::from_utf8(out.stdout).unwrap();
    let version = said.split(' ').nth(1).unwrap_or_else(|| panic!("{said}"));
    version.rsplit_once('.').unwrap().0.to_owned()
}

/// A minimum version that nobody builds with is a guess. A newer compiler is fine for a person; CI runs the oldest.
#[test]
fn the_stated_rust_version_is_the_one_that_ci_tests_with() {
    let (stated, used) = (env!("CARGO_PKG_RUST_VERSION"), compiler());
    if used == stated {
        return;
    }
    tools::missing(&format!("Cargo.toml states Rust {stated}, and this is {used}"));
}

#[test]
fn the_documents_state_the_same_rust_version() {
    let stated = format!("Rust {} or newer", env!("CARGO_PKG_RUST_VERSION"));
    for path in ["README.md", "CONTRIBUTING.md"] {
        assert!(read(path).contains(&stated), "{path} does not say: {stated}");
    }
}

#[test]
fn every_script_that_a_document_names_is_there_and_can_be_run() {
    use std::os::unix::fs::PermissionsExt as _;
    let mut documents =
        vec!["Cargo.toml".to_owned(), "clippy.toml".into(), "deny.toml".into(), ".ci/run".into()];
    for dir in ["", "docs", "packaging", "scripts", "crates/baton/benches", "crates/testkit/src"] {
        let entries = std::fs::read_dir(repository().join(dir)).unwrap().flatten();
        let names = entries.filter_map(|e| Some(Path::new(dir).join(e.file_name()).to_str()?.to_owned()));
        let is_text = |name: &String| {
            let script = dir == "packaging" || dir == "scripts";
            script || Path::new(name).extension().is_some_and(|ext| ext == "md" || ext == "rs")
        };
        documents.extend(names.filter(is_text));
    }
    let mut seen = 0;
    for document in documents {
        let text = read(&document);
        for folder in ["scripts/", "packaging/"] {
            for (at, _) in text.match_indices(folder) {
                let name: String = text[at + folder.len()..]
                    .chars()
                    .take_while(|c| c.is_ascii_alphanumeric() || "-_.".contains(*c))
                    .collect();
                let name = name.trim_end_matches('.');
                let before = text[..at].chars().next_back();
                // Skip the folder itself, and folders of this name elsewhere.
                if name.is_empty() || before.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
                    continue;
                }
                let path = repository().join(folder).join(name);
                let meta = path.metadata().unwrap_or_else(|_| panic!("{document} names {folder}{name}"));
                let runs = meta.permissions().mode() & 0o111 != 0;
                assert!(runs || name.contains('.'), "{folder}{name} cannot be run");
                seen += 1;
            }
        }
    }
    assert!(seen > 10, "only {seen} names were found");
}
