//! A usage limit: when it ends, as far as the client's words tell.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// Until when an agent is parked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parked {
    pub until: Timestamp,
    /// The client named no time; this is our own.
    pub guess: bool,
    /// How often it was tried without a named time.
    pub tries: u32,
}

/// Minutes until the next try when nobody says when the limit ends.
const TRIES: [i64; 4] = [5, 10, 20, 30];

/// When to try again after the client said `message`. `tries` counts the guesses before this one.
pub fn parked(message: &str, tries: u32, now: Timestamp) -> Parked {
    if let Some(until) = named_time(message, now) {
        return Parked { until, guess: false, tries: 0 };
    }
    let minutes = TRIES[(tries as usize).min(TRIES.len() - 1)];
    let until = now.checked_add(SignedDuration::from_mins(minutes)).unwrap_or(now);
    Parked { until, guess: true, tries: tries + 1 }
}

/// A time stamp in the text that lies ahead, within a week: seconds since the epoch, or an ISO date and time.
fn named_time(message: &str, now: Timestamp) -> Option<Timestamp> {
    let plausible = |at: &Timestamp| {
        let ahead = at.duration_since(now);
        ahead.is_positive() && ahead <= SignedDuration::from_hours(24 * 8)
    };
    message
        .split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, ':' | '-' | '+' | '.')))
        .filter_map(|word| {
            let word = word.trim_end_matches('.');
            match word.parse::<i64>() {
                Ok(seconds) if word.len() == 10 => Timestamp::from_second(seconds).ok(),
                Ok(millis) if word.len() == 13 => Timestamp::from_millisecond(millis).ok(),
                _ => word.parse::<Timestamp>().ok(),
            }
        })
        .find(plausible)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-11-16T04:00:00Z".parse().unwrap()
    }

    #[test]
    fn a_named_time_is_believed() {
        let until: Timestamp = "2026-11-16T09:00:00Z".parse().unwrap();
        for text in ["limit reached|1794819600", "resets at 2026-11-16T09:00:00Z.", "reset 1794819600000 ms"]
        {
            assert_eq!(parked(text, 3, now()), Parked { until, guess: false, tries: 0 }, "{text}");
        }
    }

    #[test]
    fn without_one_the_waits_grow_and_say_that_they_are_guesses() {
        let minutes = |tries| {
            let p = parked("API Error: 429", tries, now());
            assert!(p.guess);
            (p.until.duration_since(now()).as_mins(), p.tries)
        };
        assert_eq!(
            [minutes(0), minutes(1), minutes(2), minutes(3), minutes(9)],
            [(5, 1), (10, 2), (20, 3), (30, 4), (30, 10)]
        );
    }

    #[test]
    fn a_time_in_the_past_or_far_away_is_not_a_reset() {
        assert!(parked("1594792736", 0, now()).guess);
        assert!(parked("9999999999", 0, now()).guess);
    }
}
