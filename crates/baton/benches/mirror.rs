//! What the mirror adds to a hook: five kilobytes more in a transcript, taken.
//!
//! `cargo bench -p baton --bench mirror`; exits with 1 above the target. The call is the one that a hook makes, with
//! the transcript already open as it is there; `hot` measures the whole hook.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use baton::testing::mirror::{Mirror, MirrorOrigin, PER_HOOK};
use baton_core::ids::SessionId;

const GROWTH: usize = 5_000;
const ROUNDS: usize = 2_000;
const TARGET: Duration = Duration::from_micros(100);

fn main() -> ExitCode {
    let mut worst = Duration::ZERO;
    for size in [1 << 20, 100 << 20] {
        let home =
            tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("the target folder takes a new one");
        let mut took = taken(home.path(), size);
        took.sort();
        let at = |percent: usize| took[took.len() * percent / 100];
        println!(
            "{GROWTH} bytes more in {:>3} MB  p50 {:>9.1?}  p90 {:>9.1?}  p99 {:>9.1?}  (target: {TARGET:?})",
            size >> 20,
            at(50),
            at(90),
            at(99)
        );
        worst = worst.max(at(50));
    }
    if worst <= TARGET { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn taken(dir: &Path, size: usize) -> Vec<Duration> {
    let mirror = Mirror::new(&dir.join("state"));
    let session = SessionId::new("a-session").expect("a good name");
    let transcript = dir.join("transcript.jsonl");
    let line = format!("{{\"pad\":\"{}\"}}\n", "x".repeat(GROWTH - 11));
    std::fs::write(&transcript, line.repeat(size / line.len())).expect("the target folder takes a file");
    let origin = MirrorOrigin { session: &session, provider: "claude", transcript: &transcript, cwd: "/" };
    mirror.catch_up(&origin, Duration::from_mins(1)).expect("the mirror takes what is there");
    let mut writer = OpenOptions::new().append(true).open(&transcript).expect("it is there");
    let source = File::open(&transcript).expect("it is there");
    (0..ROUNDS)
        .map(|_| {
            writer.write_all(line.as_bytes()).expect("the disk has room");
            let began = Instant::now();
            let took = mirror.take(&origin, &source, PER_HOOK).expect("the mirror takes it");
            let elapsed = began.elapsed();
            assert_eq!(took.bytes, line.len() as u64);
            elapsed
        })
        .collect()
}
