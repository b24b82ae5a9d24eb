//! Shared by the benches: which binary to measure, and how to report.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The builds to measure: those in `BATON_BENCH` (separated by `:`, relative to the repository), or else the result of
/// `packaging/release-binary`, if it has run, and `plain`, which cargo builds for the bench as for `cargo build
/// --release`. `tmp` is the bench's `CARGO_TARGET_TMPDIR`.
pub fn builds(tmp: &str, plain: &str) -> Vec<PathBuf> {
    if let Some(paths) = std::env::var_os("BATON_BENCH") {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        return std::env::split_paths(&paths).map(|path| repository.join(path)).collect();
    }
    let target = Path::new(tmp).parent().expect("it lies in the target folder");
    let arch = std::env::consts::ARCH;
    let made = ["musl", "gnu"].map(|libc| target.join(format!("{arch}-unknown-linux-{libc}/shipped/baton")));
    let shipped = made.into_iter().find(|path| path.is_file());
    if shipped.is_none() {
        println!(
            "packaging/release-binary has not run: only the plain build is here, which starts more slowly"
        );
    }
    shipped.into_iter().chain([plain.into()]).collect()
}

/// The build that people get, for benches that measure only one.
pub fn release_binary(tmp: &str, plain: &str) -> PathBuf {
    builds(tmp, plain).swap_remove(0)
}

/// How long `act` took.
pub fn timed(act: impl FnOnce()) -> Duration {
    let began = Instant::now();
    act();
    began.elapsed()
}

/// The fastest tenth shows the cost on a busy machine; the median is what we promise.
#[derive(Debug, Clone, Copy)]
pub struct Spread {
    pub p10: Duration,
    pub p50: Duration,
    pub p90: Duration,
}

impl Spread {
    /// Panics if nothing was measured.
    pub fn of(mut took: Vec<Duration>) -> Self {
        took.sort();
        Self { p10: took[took.len() / 10], p50: took[took.len() / 2], p90: took[took.len() * 9 / 10] }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |d: Duration| d.as_secs_f64() * 1e3;
        write!(f, "p10 {:>7.3}  p50 {:>7.3}  p90 {:>7.3} ms", ms(self.p10), ms(self.p50), ms(self.p90))
    }
}
