//! What the benches share: which binary they measure, and how they tell what they saw.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The binary that `scripts/build-release` makes, or the one in `BATON_BENCH`, else `built`, which cargo made for the
/// bench. `tmp` is the bench's `CARGO_TARGET_TMPDIR`.
pub fn release_binary(tmp: &str, built: &str) -> PathBuf {
    if let Some(path) = std::env::var_os("BATON_BENCH") {
        // It is started from another folder.
        return std::path::absolute(path).expect("there is a working folder");
    }
    let target = Path::new(tmp).parent().expect("it lies in the target folder");
    let arch = std::env::consts::ARCH;
    let made = ["musl", "gnu"].map(|libc| target.join(format!("{arch}-unknown-linux-{libc}/release/baton")));
    made.into_iter().find(|path| path.is_file()).unwrap_or_else(|| {
        println!("scripts/build-release has not run; this is cargo's own build, which starts more slowly");
        built.into()
    })
}

/// How long `act` took.
pub fn timed(act: impl FnOnce()) -> Duration {
    let began = Instant::now();
    act();
    began.elapsed()
}

/// The fastest tenth tells the cost where other work keeps the machine busy; the median is what is promised.
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
