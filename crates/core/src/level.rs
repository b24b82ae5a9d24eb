//! How full is too full: thresholds in percent and tokens, kept below the point at which the client compacts.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::reading::Reading;
use crate::reading::tokens;
use crate::transcript::tail::Tail;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Level {
    #[default]
    Ok,
    EarlyWarn,
    Warn,
    Critical,
}

impl Level {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::EarlyWarn => "EARLY_WARN",
            Self::Warn => "WARN",
            Self::Critical => "CRITICAL",
        }
    }

    /// The level in words for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::EarlyWarn => "early warning",
            Self::Warn => "warning",
            Self::Critical => "critical",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The user's thresholds. Percentages are of the window; if tokens are given too, the lower one applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Thresholds {
    pub early_warning_percentage: u8,
    pub warning_percentage: u8,
    pub critical_percentage: u8,
    pub early_warning_tokens: Option<u64>,
    pub warning_tokens: Option<u64>,
    pub critical_tokens: Option<u64>,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            early_warning_percentage: 40,
            warning_percentage: 50,
            critical_percentage: 65,
            early_warning_tokens: None,
            warning_tokens: None,
            critical_tokens: None,
        }
    }
}

/// The highest share of the way to compaction for each threshold. The rest is the room for writing a handoff; distinct
/// shares keep three levels even with a low compaction point.
const CEILINGS: [(Level, u64); 3] = [(Level::EarlyWarn, 75), (Level::Warn, 85), (Level::Critical, 95)];

/// One session's thresholds in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub early_warning: u64,
    pub warning: u64,
    pub critical: u64,
}

/// A threshold that would never have fired, and its replacement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Clamp {
    pub level: Level,
    pub asked: u64,
    pub counts: u64,
    pub compaction: u64,
}

impl fmt::Display for Clamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "The {} threshold is set to {} tokens, but the context is compacted or refused at about {} tokens, so \
             the limit is {}",
            self.level.words(),
            tokens(self.asked),
            tokens(self.compaction),
            tokens(self.counts),
        )
    }
}

impl Thresholds {
    fn asked(&self, level: Level, base: u64, window: u64) -> u64 {
        let (percentage, tokens) = match level {
            Level::Ok => return 0,
            Level::EarlyWarn => (self.early_warning_percentage, self.early_warning_tokens),
            Level::Warn => (self.warning_percentage, self.warning_tokens),
            Level::Critical => (self.critical_percentage, self.critical_tokens),
        };
        let share = base.saturating_add(share(window.saturating_sub(base), u64::from(percentage)));
        tokens.map_or(share, |t| t.min(share))
    }

    /// The thresholds for a window whose context ends at `end`: the compaction point, or without one the window itself,
    /// where the API refuses.
    pub fn limits(&self, window: u64, end: u64) -> Limits {
        self.limits_from(0, window, end)
    }

    /// The same for a client whose percentage starts at `base` tokens.
    pub fn limits_from(&self, base: u64, window: u64, end: u64) -> Limits {
        let [early_warning, warning, critical] =
            CEILINGS.map(|(level, ceiling)| self.asked(level, base, window).min(share(end, ceiling)));
        Limits { early_warning, warning, critical }
    }

    /// The thresholds that `limits` had to lower, for `doctor` and the log.
    pub fn clamps(&self, base: u64, window: u64, end: u64) -> Vec<Clamp> {
        CEILINGS
            .iter()
            .map(|&(level, ceiling)| Clamp {
                level,
                asked: self.asked(level, base, window),
                counts: share(end, ceiling),
                compaction: end,
            })
            .filter(|clamp| clamp.asked > clamp.counts)
            .collect()
    }
}

/// `percent` of `whole`, rounded up: 65 % is reached only with at least 65 %.
fn share(whole: u64, percent: u64) -> u64 {
    u64::try_from((u128::from(whole) * u128::from(percent)).div_ceil(100)).unwrap_or(u64::MAX)
}

impl Limits {
    pub fn level(&self, reading: &Reading) -> Level {
        match reading.tokens {
            t if t >= self.critical => Level::Critical,
            t if t >= self.warning => Level::Warn,
            t if t >= self.early_warning => Level::EarlyWarn,
            _ => Level::Ok,
        }
    }
}

/// The last resort without a reading: the transcript's length. `None` after a known compaction, because the file keeps
/// records that the context no longer has.
pub fn last_resort(tail: &Tail, transcript_bytes: u64, limits: &ByteLimits) -> Option<Level> {
    match tail {
        Tail::Nothing | Tail::OutOfReach => Some(limits.level(transcript_bytes)),
        Tail::Usage(_) | Tail::Compacted(_) => None,
    }
}

/// The transcript sizes in kilobytes at which the levels begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteLimits {
    pub early_warning_kb: u64,
    pub warning_kb: u64,
    pub critical_kb: u64,
}

/// The thresholds of the first script, which knew only bytes.
impl Default for ByteLimits {
    fn default() -> Self {
        Self { early_warning_kb: 1300, warning_kb: 1500, critical_kb: 1700 }
    }
}

impl ByteLimits {
    fn level(&self, bytes: u64) -> Level {
        match bytes / 1024 {
            kb if kb >= self.critical_kb => Level::Critical,
            kb if kb >= self.warning_kb => Level::Warn,
            kb if kb >= self.early_warning_kb => Level::EarlyWarn,
            _ => Level::Ok,
        }
    }
}

/// `STATUS:SIZE` as published in `.context-status`, with the transcript's size.
pub fn context_status(level: Level, transcript_bytes: u64) -> String {
    // Use integers: every hook does this, and the standard library's float formatting is slow. Ties round to even, as
    // there.
    let (tenths, rest) =
        (transcript_bytes.saturating_mul(10) >> 20, transcript_bytes.saturating_mul(10) & 0xf_ffff);
    let up = rest > 0x8_0000 || (rest == 0x8_0000 && tenths % 2 == 1);
    let tenths = tenths + u64::from(up);
    format!("{level}:{}.{}MB", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::ReadingSource;
    use crate::transcript::tail::Compacted;

    fn reading(tokens: u64, window: u64) -> Reading {
        Reading {
            tokens,
            output: 0,
            window,
            base: 0,
            at: jiff::Timestamp::UNIX_EPOCH,
            source: ReadingSource::StatusLine,
        }
    }

    #[test]
    fn the_defaults_are_those_of_the_seeds() {
        let limits = Thresholds::default().limits(200_000, 167_000);
        let level = |tokens| limits.level(&reading(tokens, 200_000)).as_str();
        assert_eq!([level(79_999), level(80_000)], ["OK", "EARLY_WARN"]);
        assert_eq!([level(99_999), level(100_000)], ["EARLY_WARN", "WARN"]);
        assert_eq!([level(129_999), level(130_000)], ["WARN", "CRITICAL"]);
        assert!(Thresholds::default().clamps(0, 200_000, 167_000).is_empty());
    }

    #[test]
    fn of_percentage_and_tokens_the_lower_threshold_applies() {
        let t = Thresholds {
            critical_tokens: Some(150_000),
            warning_tokens: Some(900_000),
            ..Thresholds::default()
        };
        let limits = t.limits(1_000_000, 967_000);
        assert_eq!((limits.critical, limits.warning, limits.early_warning), (150_000, 500_000, 400_000));
        assert_eq!(limits.level(&reading(150_000, 1_000_000)), Level::Critical);
        assert_eq!(t.limits(200_000, 167_000).critical, 130_000);
    }

    #[test]
    fn a_threshold_beyond_compaction_is_lowered_below_it_and_reported() {
        // A 1M model told to compact as if it had 100k: every default is far beyond 67k.
        let t = Thresholds::default();
        let limits = t.limits(1_000_000, 67_000);
        assert_eq!((limits.early_warning, limits.warning, limits.critical), (50_250, 56_950, 63_650));
        let clamps = t.clamps(0, 1_000_000, 67_000);
        assert_eq!(
            clamps.iter().map(|c| c.level).collect::<Vec<_>>(),
            [Level::EarlyWarn, Level::Warn, Level::Critical]
        );
        insta::assert_snapshot!(clamps[2], @"The critical threshold is set to 650k tokens, but the context is compacted or refused at about 67k tokens, so the limit is 63k");
        let late = Thresholds { critical_percentage: 90, ..t };
        assert_eq!(late.limits(200_000, 167_000).critical, 158_650);
        assert_eq!(late.clamps(0, 200_000, 167_000).len(), 1);
    }

    #[test]
    fn bytes_are_judged_by_the_first_scripts_thresholds_and_only_as_the_last_resort() {
        let kb = |n: u64| last_resort(&Tail::OutOfReach, n * 1024, &ByteLimits::default()).unwrap();
        assert_eq!([kb(1299), kb(1300), kb(1499)], [Level::Ok, Level::EarlyWarn, Level::EarlyWarn]);
        assert_eq!([kb(1500), kb(1699), kb(1700)], [Level::Warn, Level::Warn, Level::Critical]);
        let compacted = Compacted { auto: true, pre_tokens: None, post_tokens: None, at: None };
        assert_eq!(last_resort(&Tail::Compacted(compacted), 3 << 20, &ByteLimits::default()), None);
    }

    #[test]
    fn the_status_file_holds_level_and_size() {
        assert_eq!(context_status(Level::Critical, 1700 * 1024), "CRITICAL:1.7MB");
        assert_eq!(context_status(Level::EarlyWarn, 1300 * 1024), "EARLY_WARN:1.3MB");
        assert_eq!(context_status(Level::Ok, 0), "OK:0.0MB");
        // Rounds like the standard library, including ties.
        let ties = (0..200).map(|n| n * (1 << 20) / 20);
        for bytes in (0..300_000).map(|n| n * 4_999).chain(ties) {
            let said = format!("OK:{:.1}MB", bytes as f64 / 1_048_576.0);
            assert_eq!(context_status(Level::Ok, bytes), said, "{bytes} bytes");
        }
    }
}
