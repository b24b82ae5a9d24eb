//! What listing five thousand conversations costs: the first time, and again when nothing changed since.
//!
//! `cargo bench -p baton --bench sessions`; exits with 1 above the targets. The home is generated: 5,000 transcripts of
//! 40 KB in 50 projects, a tenth of them Codex's, each with a record of ours, and handoffs between them.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use baton_testkit::history;

const SESSIONS: usize = 5_000;
const ROUNDS: usize = 15;
const FIRST: Duration = Duration::from_millis(150);
const AGAIN: Duration = Duration::from_millis(15);

fn main() -> ExitCode {
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("the target folder takes a new one");
    let bytes = history::generate(home.path(), SESSIONS, 40 << 10);
    println!("{SESSIONS} sessions, {} MB, all in the page cache", bytes >> 20);
    let cache = home.path().join(".local/state/baton/cache/sessions.json");
    let (mut first, mut again) = (Vec::new(), Vec::new());
    list(home.path());
    for _ in 0..ROUNDS {
        let _ = std::fs::remove_file(&cache);
        first.push(list(home.path()));
        again.push(list(home.path()));
    }
    let (first, again) = (Spread::of(first), Spread::of(again));
    println!(
        "nothing known yet      p50 {:>9.3?}  best {:>9.3?}  (target: {FIRST:?})",
        first.p50, first.best
    );
    println!(
        "nothing changed since  p50 {:>9.3?}  best {:>9.3?}  (target: {AGAIN:?})",
        again.p50, again.best
    );
    println!("the cache takes {} KB", std::fs::metadata(&cache).map_or(0, |m| m.len()) >> 10);
    if first.p50 <= FIRST && again.p50 <= AGAIN { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The whole command, process start and output included.
fn list(home: &Path) -> Duration {
    let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
    command.args(["sessions", "list", "--all", "-n", "0"]).env_clear().env("HOME", home).current_dir(home);
    command.stdout(Stdio::null());
    let began = Instant::now();
    let status = command.status().expect("baton starts");
    let took = began.elapsed();
    assert!(status.success(), "the list failed");
    took
}

struct Spread {
    p50: Duration,
    best: Duration,
}

impl Spread {
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort();
        Self { p50: times[times.len() / 2], best: times[0] }
    }
}
