//! Tools that a test needs besides the toolchain. If one is missing, a person reads SKIPPED; under `CI=true` the test
//! fails, so that CI cannot pass by testing nothing.

use std::io::Write as _;
use std::path::Path;

/// Whether all of these programs are on the `PATH`. If not, the caller returns and the test is skipped.
#[must_use]
#[track_caller]
pub fn has(programs: &[&str]) -> bool {
    let absent: Vec<&str> = programs.iter().copied().filter(|program| !is_installed(program)).collect();
    if !absent.is_empty() {
        missing(&format!("{} not installed (scripts/test installs what the tests need)", absent.join(", ")));
    }
    absent.is_empty()
}

/// A missing or broken tool: SKIPPED for a person, a failure in CI.
#[track_caller]
pub fn missing(why: &str) {
    assert!(!is_ci(), "{why}; CI needs it");
    skip(why);
}

/// Something that this machine cannot do or was told not to do, also in CI: no root, no such device.
pub fn skip(why: &str) {
    let thread = std::thread::current();
    let line = format!("SKIPPED {}: {why}\n", thread.name().unwrap_or("a test"));
    // Write to the descriptor directly: the test harness hides what a passing test prints with the macros.
    let _ = std::io::stderr().write_all(line.as_bytes());
    // nextest hides that too, so `scripts/test` collects the lines and prints them at the end.
    if let Some(path) = std::env::var_os("BATON_SKIPPED") {
        let file = std::fs::File::options().create(true).append(true).open(path);
        let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
    }
}

fn is_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| value == "true")
}

pub(crate) fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| is_program(&dir.join(program)))
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
