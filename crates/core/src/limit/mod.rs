//! Usage limits: when one ends, as far as the client's message says.

mod clock;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// How long an agent is parked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parked {
    pub until: Timestamp,
    /// The client named no time, so `until` is our guess.
    pub guess: bool,
    /// How many tries there were without a named time.
    pub tries: u32,
    /// When this limit was first hit; later tries that hit it again belong to the same occasion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// When the turn that hit it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<Timestamp>,
}

/// Minutes until the next try when the client does not say when the limit ends.
const TRIES: [i64; 4] = [5, 10, 20, 30];

/// When to try again after the client said `message`; `before` is the agent's earlier limit. `zone` finds a time zone
/// by name, or the user's own for `None`.
pub fn parked(
    message: &str,
    before: Option<Parked>,
    now: Timestamp,
    zone: &dyn Fn(Option<&str>) -> Option<TimeZone>,
) -> Parked {
    let plausible = |at: &Timestamp| is_plausible(*at, now);
    let named = named_time(message, now).or_else(|| clock::time_in(message, now, zone).filter(plausible));
    if let Some(until) = named {
        return Parked { until, guess: false, tries: 0, since: Some(now), began: None };
    }
    // While we only guess, it is the same limit.
    let before = before.filter(|before| before.guess);
    let tries = before.map_or(0, |before| before.tries);
    let minutes = TRIES[(tries as usize).min(TRIES.len() - 1)];
    let until = now.checked_add(SignedDuration::from_mins(minutes)).unwrap_or(now);
    let since = before.and_then(|before| before.since).or(Some(now));
    Parked { until, guess: true, tries: tries + 1, since, began: None }
}

impl Parked {
    /// Whether the composer may hold a draft typed since the limit was hit. Terminals record input times in steps;
    /// `step` is the beginning of the step of `met`. Input in that step may be the very prompt that hit the limit,
    /// unless its turn began earlier.
    pub fn may_have_draft(&self, typed: Timestamp, met: Timestamp, step: Timestamp) -> bool {
        typed > met || typed >= step && self.began.is_some_and(|began| began < step)
    }
}

fn is_plausible(at: Timestamp, now: Timestamp) -> bool {
    let ahead = at.duration_since(now);
    ahead.is_positive() && ahead <= SignedDuration::from_hours(24 * 8)
}

/// A time stamp in the text, at most eight days ahead: seconds since the epoch, or an ISO date and time.
fn named_time(message: &str, now: Timestamp) -> Option<Timestamp> {
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
        .find(|at| is_plausible(*at, now))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-11-16T04:00:00Z".parse().unwrap()
    }

    #[expect(clippy::unnecessary_wraps, reason = "what looks up a zone may find none")]
    fn zone(_: Option<&str>) -> Option<TimeZone> {
        Some(TimeZone::UTC)
    }

    #[test]
    fn a_named_time_is_believed() {
        let until: Timestamp = "2026-11-16T09:00:00Z".parse().unwrap();
        let guess = parked("API Error: 429", None, now(), &zone);
        for text in [
            "limit reached|1794819600",
            "resets at 2026-11-16T09:00:00Z.",
            "reset 1794819600000 ms",
            "resets 9am",
        ] {
            let told = parked(text, Some(guess), now(), &zone);
            assert_eq!((told.until, told.guess, told.tries), (until, false, 0), "{text}");
        }
    }

    #[test]
    fn without_an_end_time_the_waits_grow_and_count_as_guesses_about_one_limit() {
        let mut before = None;
        let mut minutes = Vec::new();
        for n in 0..5 {
            let at = now() + SignedDuration::from_hours(n);
            let p = parked("API Error: 429", before, at, &zone);
            assert!(p.guess && p.since == Some(now()));
            minutes.push((p.until.duration_since(at).as_mins(), p.tries));
            before = Some(p);
        }
        assert_eq!(minutes, [(5, 1), (10, 2), (20, 3), (30, 4), (30, 5)]);
        // A limit with a named end has ended, so this is a new one.
        let named = parked("resets 9am", None, now(), &zone);
        let later = now() + SignedDuration::from_hours(6);
        assert_eq!(parked("API Error: 429", Some(named), later, &zone).since, Some(later));
    }

    #[test]
    fn a_time_in_the_past_or_far_away_is_not_a_reset() {
        assert!(parked("1594792736", None, now(), &zone).guess);
        assert!(parked("9999999999", None, now(), &zone).guess);
        assert!(parked("resets Nov 2, 2027 at 3pm", None, now(), &zone).guess);
    }

    /// Regression: the restart killed a draft that was typed only in the same step of the terminal's clock as the
    /// limit.
    #[test]
    fn what_was_typed_in_the_step_of_the_limit_is_a_draft_unless_it_may_be_the_prompt_itself() {
        let at = |second: i64| now() + SignedDuration::from_secs(second);
        let parked = |began| Parked { began, ..parked("429", None, at(5), &zone) };
        let (step, met) = (at(0), at(5));
        assert!(parked(Some(at(-60))).may_have_draft(at(1), met, step));
        assert!(parked(Some(at(-60))).may_have_draft(at(9), met, step));
        assert!(!parked(Some(at(-60))).may_have_draft(at(-59), met, step));
        assert!(!parked(Some(at(1))).may_have_draft(at(1), met, step), "the prompt itself");
        assert!(
            parked(None).may_have_draft(at(9), met, step) && !parked(None).may_have_draft(at(1), met, step)
        );
    }
}
