//! Parses a time of day or a wait as clients write it for people: `resets 3pm (Europe/Berlin)`, `try again in 2 hours 5
//! minutes`.

use jiff::civil::{Date, Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan as _};

/// The words before the time at which a limit ends.
const BEFORE: [&str; 4] = ["reset", "try again", "available", "until"];
const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// When the limit in `message` ends. `zone` finds a time zone by name, or the user's own for `None`.
pub(super) fn time_in(
    message: &str,
    now: Timestamp,
    zone: &dyn Fn(Option<&str>) -> Option<TimeZone>,
) -> Option<Timestamp> {
    let text = message.to_lowercase();
    // Start after the last such word: the sentences before it describe the limit itself.
    let starts = BEFORE.iter().filter_map(|word| Some(text.rfind(word)? + word.len()));
    let mut starts: Vec<usize> = starts.collect();
    starts.sort_unstable();
    starts.into_iter().find_map(|start| {
        let words = words(&text[start..]);
        waited(&words, now).or_else(|| on_the_clock(&words, &named_zone(message, &text, start, zone)?, now))
    })
}

/// Splits words from numbers: `3pm` gives two, `2h30m` four.
fn words(text: &str) -> Vec<&str> {
    let is_break = |c: char| !(c.is_ascii_alphanumeric() || c == ':');
    let mut words = Vec::new();
    for word in text.split(is_break).filter(|w| !w.is_empty()) {
        let mut rest = word;
        while let Some(first) = rest.chars().next() {
            let is_number = |c: char| c.is_ascii_digit() || c == ':';
            let end = rest.find(|c| is_number(c) != is_number(first)).unwrap_or(rest.len());
            words.push(&rest[..end]);
            rest = &rest[end..];
        }
    }
    words
}

/// The zone in parentheses as the client names it, else the user's own.
fn named_zone(
    message: &str,
    text: &str,
    start: usize,
    zone: &dyn Fn(Option<&str>) -> Option<TimeZone>,
) -> Option<TimeZone> {
    // Lower-casing can change the length outside ASCII, and then offsets do not carry over to the message.
    let rest = if message.len() == text.len() { message.get(start..)? } else { &text[start..] };
    let name = rest.split_once('(').and_then(|(_, rest)| rest.split_once(')')).map(|(name, _)| name.trim());
    let names_a_zone =
        |name: &&str| name.contains('/') || ["utc", "gmt"].contains(&name.to_lowercase().as_str());
    zone(name.filter(names_a_zone))
}

/// `in 2 hours 5 minutes`
fn waited(words: &[&str], now: Timestamp) -> Option<Timestamp> {
    let from = words.iter().position(|w| *w == "in")? + 1;
    let mut seconds = 0i64;
    let mut rest = words[from..].iter();
    while let Some(Ok(number)) = rest.next().map(|w| w.parse::<i64>()) {
        let unit = rest.next()?;
        let unit = match unit {
            _ if unit.starts_with('d') => 86_400,
            _ if unit.starts_with('h') => 3_600,
            _ if unit.starts_with('m') && !unit.starts_with("mo") => 60,
            _ if unit.starts_with('s') => 1,
            _ => return None,
        };
        seconds = seconds.checked_add(number.checked_mul(unit)?)?;
        if rest.as_slice().first() == Some(&"and") {
            rest.next();
        }
    }
    (seconds > 0).then(|| now.checked_add(SignedDuration::from_secs(seconds)).ok()).flatten()
}

/// `3pm`, `23:15`, `Nov 20, 3:05 PM`, `Monday 9am`; the next such moment.
fn on_the_clock(words: &[&str], zone: &TimeZone, now: Timestamp) -> Option<Timestamp> {
    let (at, time) = words.iter().enumerate().find_map(|(at, _)| Some((at, time_of_day(&words[at..])?)))?;
    let today = now.to_zoned(zone.clone()).date();
    let moment = |date: Date| Some(date.to_datetime(time).to_zoned(zone.clone()).ok()?.timestamp());
    if let Some(date) = words[..at].iter().enumerate().find_map(|(i, _)| date(&words[i..at], today)) {
        return moment(date);
    }
    let weekday = words[..at].iter().find_map(|w| DAYS.iter().position(|d| w.starts_with(d)));
    let day = match weekday {
        Some(day) => {
            let day = Weekday::from_monday_zero_offset(i8::try_from(day).ok()?).ok()?;
            let ahead = today.weekday().until(day);
            today.checked_add(i64::from(ahead).days()).ok()?
        }
        None if words[..at].contains(&"tomorrow") => today.tomorrow().ok()?,
        None => today,
    };
    let next = if weekday.is_some() { 7 } else { 1 };
    moment(day).filter(|at| *at > now).or_else(|| moment(day.checked_add(i64::from(next).days()).ok()?))
}

/// Requires minutes, or am or pm: a bare number may be anything.
fn time_of_day(words: &[&str]) -> Option<Time> {
    let mut parts = words.first()?.split(':');
    let mut part = || parts.next().map(str::parse::<i8>);
    let hour = part()?.ok()?;
    let (minute, second) = (part().transpose().ok()?, part().transpose().ok()?);
    let hour = match words.get(1).copied() {
        Some("am") if (1..=12).contains(&hour) => hour % 12,
        Some("pm") if (1..=12).contains(&hour) => hour % 12 + 12,
        Some("am" | "pm") => return None,
        _ => {
            minute?;
            hour
        }
    };
    Time::new(hour, minute.unwrap_or(0), second.unwrap_or(0), 0).ok()
}

/// `nov 20` and `nov 20 th 2026`; without a year, the next one.
fn date(words: &[&str], today: Date) -> Option<Date> {
    let word = words.first()?;
    let month = i8::try_from(MONTHS.iter().position(|m| word.starts_with(m))?).ok()? + 1;
    let day = words.get(1)?.parse::<i8>().ok()?;
    let year = words[2..].iter().find_map(|w| w.parse::<i16>().ok().filter(|y| *y > 2000));
    if let Some(year) = year {
        return Date::new(year, month, day).ok();
    }
    let this = Date::new(today.year(), month, day).ok()?;
    if this >= today { Some(this) } else { Date::new(today.year() + 1, month, day).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Monday, 04:00 UTC and 05:00 for the user.
    fn now() -> Timestamp {
        "2026-11-16T04:00:00Z".parse().unwrap()
    }

    fn zone(name: Option<&str>) -> Option<TimeZone> {
        let hours = match name {
            None | Some("Europe/Berlin") => 1,
            Some("America/New_York") => -5,
            Some("UTC") => 0,
            Some(_) => return None,
        };
        Some(TimeZone::fixed(jiff::tz::offset(hours)))
    }

    #[test]
    fn times_as_clients_write_them_are_understood() {
        for (text, until) in [
            ("You've hit your limit · resets 11:00pm", "2026-11-16T22:00:00Z"),
            ("resets at 3pm (America/New_York)", "2026-11-16T20:00:00Z"),
            (
                "Claude usage limit reached. Your limit will reset at 3pm (Europe/Berlin).",
                "2026-11-16T14:00:00Z",
            ),
            ("5-hour limit reached ∙ resets 4am", "2026-11-17T03:00:00Z"),
            ("resets 12am", "2026-11-16T23:00:00Z"),
            ("resets 12:30pm (UTC)", "2026-11-16T12:30:00Z"),
            ("Weekly limit reached ∙ resets Nov 20, 5pm", "2026-11-20T16:00:00Z"),
            ("Try again at Nov 20th, 2026 3:05 PM.", "2026-11-20T14:05:00Z"),
            ("resets Thursday 9am", "2026-11-19T08:00:00Z"),
            ("resets Mon 04:30", "2026-11-23T03:30:00Z"),
            ("resets tomorrow at 02:15", "2026-11-17T01:15:00Z"),
            (
                "You've hit your usage limit. Upgrade to Pro or try again in 2 hours 5 minutes.",
                "2026-11-16T06:05:00Z",
            ),
            ("resets in 3h20m", "2026-11-16T07:20:00Z"),
            ("try again in 1 day and 3 minutes", "2026-11-17T04:03:00Z"),
        ] {
            assert_eq!(time_in(text, now(), &zone), Some(until.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn a_message_without_a_time_gives_none() {
        for text in [
            "API Error: 429",
            "limit reached: 5 of 5, at 3pm you asked for more",
            "resets 3",
            "resets 13pm",
            "resets 25:00",
            "resets in 2 moons",
            "resets at 3pm (Atlantis/Capital)",
            "until further notice (e.g. tomorrow)",
            "resets in 99999999999999999999 h",
            "İ resets (İ/İ) 3pm",
            "",
        ] {
            assert_eq!(time_in(text, now(), &zone), None, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_message_makes_it_panic(text in "(?s)(reset|try again|in|at|[0-9]{1,4}|[:(/) ]|am|pm|Nov|Mon|İ|.){0,20}") {
            let _ = time_in(&text, now(), &zone);
        }
    }
}
