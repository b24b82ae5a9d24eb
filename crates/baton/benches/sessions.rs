//! What listing five thousand conversations costs: the first time, and again when nothing changed since.
//!
//! `scripts/build-release && cargo bench -p baton --bench sessions`; exits with 1 above the targets. The home is generated: 5,000 transcripts of
//! 40 KB in 50 projects, a tenth of them Codex's, each with a record of ours, and handoffs between them.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use baton_testkit::bench::{Spread, release_binary, timed};
use baton_testkit::history;

const SESSIONS: usize = 5_000;
const ROUNDS: usize = 15;
/// Listings without a change, for each with nothing known.
const AGAINS: usize = 5;
const FIRST: Duration = Duration::from_millis(150);
const AGAIN: Duration = Duration::from_millis(15);

fn main() -> ExitCode {
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("the target folder takes a new one");
    let bytes = history::generate(home.path(), SESSIONS, 40 << 10);
    // What the disk still has to do for a home that was made a moment ago is no part of a listing.
    let _ = std::fs::File::open(home.path()).map(rustix::fs::syncfs);
    // Nor is a home that is still being made: within two seconds a folder may change again without showing it.
    std::thread::sleep(Duration::from_secs(2));
    println!("{SESSIONS} sessions, {} MB, all in the page cache", bytes >> 20);
    let cache = home.path().join(".local/state/baton/cache/sessions");
    let (mut first, mut again) = (Vec::new(), Vec::new());
    let baton = release_binary(env!("CARGO_TARGET_TMPDIR"), env!("CARGO_BIN_EXE_baton"));
    println!("{}", baton.display());
    list(&baton, home.path());
    for _ in 0..ROUNDS {
        let _ = std::fs::remove_file(&cache);
        first.push(timed(|| list(&baton, home.path())));
        // The one right after it shares the disk with what the first is still writing: shown, as part of the spread.
        for _ in 0..AGAINS {
            again.push(timed(|| list(&baton, home.path())));
        }
    }
    let (first, again) = (Spread::of(first), Spread::of(again));
    println!("nothing known yet      {first}  (target: {FIRST:?})");
    println!("nothing changed since  {again}  (target: {AGAIN:?})");
    println!("the cache takes {} KB", std::fs::metadata(&cache).map_or(0, |m| m.len()) >> 10);
    if first.p50 <= FIRST && again.p50 <= AGAIN { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The whole command, process start and output included.
fn list(baton: &Path, home: &Path) {
    let mut command = Command::new(baton);
    command.args(["sessions", "list", "--all", "-n", "0"]).env_clear().env("HOME", home).current_dir(home);
    let status = command.stdout(Stdio::null()).status().expect("baton starts");
    assert!(status.success(), "the list failed");
}
