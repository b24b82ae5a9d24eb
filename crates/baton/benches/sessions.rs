//! What listing five thousand conversations costs: the first time, and again when nothing has changed.
//!
//! `packaging/release-binary && cargo bench -p baton --bench sessions`; exits with 1 above the targets. The home is
//! generated: 5,000 transcripts of 40 KB in 50 projects, a tenth of them Codex's, each with a record of ours, and
//! handoffs between them.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use baton_testkit::bench::{Spread, release_binary, timed};
use baton_testkit::history;

const SESSIONS: usize = 5_000;
const ROUNDS: usize = 15;
/// Listings without a change, for each first one.
const AGAINS: usize = 5;
/// A person waits for both, so below these nothing is worth its complexity.
const FIRST: Duration = Duration::from_millis(300);
const AGAIN: Duration = Duration::from_millis(50);

fn main() -> ExitCode {
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("the target folder takes a new one");
    let bytes = history::generate(home.path(), SESSIONS, 40 << 10);
    // Writing the new home to the disk must not slow down the listings.
    let _ = std::fs::File::open(home.path()).map(rustix::fs::syncfs);
    println!("{SESSIONS} sessions, {} MB, all in the page cache", bytes >> 20);
    let cache = home.path().join(".local/state/baton/cache");
    let (mut first, mut again) = (Vec::new(), Vec::new());
    let baton = release_binary(env!("CARGO_TARGET_TMPDIR"), env!("CARGO_BIN_EXE_baton"));
    println!("{}", baton.display());
    list(&baton, home.path());
    for _ in 0..ROUNDS {
        let _ = std::fs::remove_dir_all(&cache);
        first.push(timed(|| list(&baton, home.path())));
        for _ in 0..AGAINS {
            again.push(timed(|| list(&baton, home.path())));
        }
    }
    let (first, again) = (Spread::of(first), Spread::of(again));
    println!("first         {first}  (target: {FIRST:?})");
    println!("again         {again}  (target: {AGAIN:?})");
    let files = std::fs::read_dir(&cache).into_iter().flatten().flatten();
    let size: u64 = files.filter_map(|file| file.metadata().ok()).map(|about| about.len()).sum();
    println!("the cache takes {} KB", size >> 10);
    if first.p50 <= FIRST && again.p50 <= AGAIN { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The whole command, including process start and output.
fn list(baton: &Path, home: &Path) {
    let mut command = Command::new(baton);
    command.args(["sessions", "list", "--all", "-n", "0"]).env_clear().env("HOME", home).current_dir(home);
    let status = command.stdout(Stdio::null()).status().expect("baton starts");
    assert!(status.success(), "the list failed");
}
