//! A point in time as people write it.

use anyhow::Context as _;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// Parses `2026-11-01`, `2026-11-01T12:00`, a time stamp with its zone, or how long ago: `90m`, `3h`, `7d`, `2w`.
pub(crate) fn moment(text: &str, now: Timestamp) -> anyhow::Result<Timestamp> {
    let ago = || {
        let at = text.find(|c: char| !c.is_ascii_digit())?;
        let count: i64 = text[..at].parse().ok()?;
        let minutes = match &text[at..] {
            "m" => 1,
            "h" => 60,
            "d" => 24 * 60,
            "w" => 7 * 24 * 60,
            _ => return None,
        };
        now.checked_sub(SignedDuration::from_mins(count.checked_mul(minutes)?)).ok()
    };
    let zoned = |it: DateTime| it.to_zoned(TimeZone::system()).ok().map(|z| z.timestamp());
    ago()
        .or_else(|| text.parse::<Timestamp>().ok())
        .or_else(|| text.parse::<DateTime>().ok().and_then(zoned))
        .or_else(|| text.parse::<Date>().ok().and_then(|d| zoned(d.into())))
        .with_context(|| format!("{text:?} is not a time; write 2026-11-01, 2026-11-01T12:00, or 3h, 7d"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_a_date_a_time_or_how_long_ago() {
        let now: Timestamp = "2026-11-16T12:00:00Z".parse().unwrap();
        assert_eq!(moment("3h", now).unwrap().to_string(), "2026-11-16T09:00:00Z");
        assert_eq!(moment("2w", now).unwrap().to_string(), "2026-11-02T12:00:00Z");
        assert_eq!(moment("2026-11-01T00:00:00Z", now).unwrap().to_string(), "2026-11-01T00:00:00Z");
        assert!(moment("2026-11-01", now).is_ok());
        for wrong in ["", "yesterday", "5x", "99999999999999999999d", "9223372036854775807w"] {
            assert!(moment(wrong, now).is_err(), "{wrong}");
        }
    }
}
