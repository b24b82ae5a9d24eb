//! Time and memory: the ledger compared with one typed pass over the same bytes.

use std::io::BufReader;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use baton_core::handoff::pack;
use baton_core::ledger::{Ledger, RECENT};
use serde::Deserialize;

/// The minimum for any reader of transcripts: find the lines and parse each into a type.
#[derive(Deserialize)]
struct Typed<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<std::borrow::Cow<'a, str>>,
}

pub fn typed_pass(bytes: &[u8]) -> usize {
    bytes
        .split(|b| *b == b'\n')
        .filter_map(|line| serde_json::from_slice::<Typed<'_>>(line).ok())
        .filter(|line| line.kind.is_some())
        .count()
}

/// The fastest of `rounds` runs of each, alternating so that a busy machine affects all alike.
pub fn best_of<const N: usize>(rounds: usize, runs: [&dyn Fn(); N]) -> [Duration; N] {
    let mut best = [Duration::MAX; N];
    for _ in 0..rounds {
        for (best, run) in best.iter_mut().zip(runs) {
            let start = Instant::now();
            run();
            *best = start.elapsed().min(*best);
        }
    }
    best
}

/// Reads as a hook does: the working set only from the end of the transcript.
pub fn ledger(bytes: &[u8]) -> Ledger {
    let mut ledger = Ledger::new();
    ledger.recent_from((bytes.len() as u64).saturating_sub(RECENT));
    ledger.read(bytes).expect("reading from memory does not fail");
    ledger
}

/// Reads `file` as a hook would and packs it; the caller measures the process from outside.
pub fn stream(file: &Path) -> Result<()> {
    let file = std::fs::File::open(file).with_context(|| format!("cannot open {}", file.display()))?;
    let mut ledger = Ledger::new();
    ledger.recent_from(file.metadata()?.len().saturating_sub(RECENT));
    ledger.read(BufReader::with_capacity(1 << 16, file))?;
    let text = pack::pack(&ledger, None, 9_500, "x").text;
    anyhow::ensure!(!text.is_empty(), "nothing was packed");
    Ok(())
}

/// This process's peak memory in kilobytes, including the program itself.
pub fn peak_kb() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.trim().parse().ok())
}
