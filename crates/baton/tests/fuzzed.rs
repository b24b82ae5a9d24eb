//! The fuzz targets compile against the current code and hold for their seeds. `scripts/fuzz` continues from there.

use std::path::{Path, PathBuf};

#[allow(clippy::pedantic, reason = "a file of another workspace, which has lints of its own")]
#[path = "../../../fuzz/lib.rs"]
mod fuzz;

use fuzz::grown;

#[path = "../../../fuzz/runs/requests.rs"]
mod requests;
#[path = "../../../fuzz/runs/settings.rs"]
mod settings;

type Target = (&'static str, fn(&[u8]));

const TARGETS: &[Target] = &[
    ("claude", fuzz::claude::run),
    ("codex", fuzz::codex::run),
    ("frontmatter", fuzz::frontmatter::run),
    ("ledger", fuzz::ledger::run),
    ("mail", fuzz::mail::run),
    ("manifests", fuzz::manifests::run),
    ("packing", fuzz::packing::run),
    ("payloads", fuzz::payloads::run),
    ("plain", fuzz::plain::run),
    ("redaction", fuzz::redaction::run),
    ("requests", requests::run),
    ("settings", settings::run),
    ("tar", fuzz::tar::run),
];

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.is_file());
    files.sort();
    files
}

#[test]
fn every_fuzz_target_holds_for_its_seeds() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let fixtures = root.join("crates/core/tests/fixtures");
    let named: Vec<String> = files(&root.join("fuzz/targets"))
        .iter()
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    assert_eq!(named, TARGETS.iter().map(|(name, _)| *name).collect::<Vec<_>>(), "all of them are here");
    for (name, run) in TARGETS {
        let mut seeds = files(&root.join("fuzz/seeds").join(name));
        match *name {
            "payloads" => seeds.extend(files(&fixtures.join("claude/hooks"))),
            "codex" => seeds.extend(files(&fixtures.join("codex/rollouts"))),
            _ => {}
        }
        assert!(!seeds.is_empty(), "{name} has no seed");
        for seed in seeds {
            let bytes = std::fs::read(&seed).unwrap();
            // A case that grows to half a megabyte takes seconds in an unoptimized build.
            if bytes.first() == Some(&0xff) && baton_testkit::times(1) == 1 {
                continue;
            }
            run(&bytes);
        }
    }
}
