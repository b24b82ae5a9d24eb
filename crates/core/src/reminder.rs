//! Text that an agent or the user gets at a later time, once or repeatedly.

use std::fmt::Write as _;

use jiff::civil::Time;
use jiff::{SignedDuration, Timestamp, ToSpan as _, Zoned};
use serde::{Deserialize, Serialize};

use crate::ids::AgentId;

/// The shortest interval of a repeated reminder.
pub(crate) const SHORTEST: SignedDuration = SignedDuration::from_secs(60);
/// A reminder that is later than this says so.
const LATE: SignedDuration = SignedDuration::from_secs(90);

/// One reminder, stored as one file in `reminders/`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reminder {
    /// Also the file's name.
    pub id: String,
    /// Its author: an agent, or `user`.
    pub from: String,
    pub to: AgentId,
    pub text: String,
    pub created: Timestamp,
    /// When it is due next.
    pub at: Timestamp,
    /// The interval in seconds, if it repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<u64>,
}

/// The requested time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReminderTime {
    In(SignedDuration),
    Every(SignedDuration),
    /// A time of day, or a date with one.
    At(String),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadTime {
    #[error("{0:?} is no time; write 17:00, or 2026-11-18 09:00")]
    Unknown(String),
    #[error("{0:?} is in the past; name a time that is still to come")]
    Over(String),
    #[error("the time must be in the future, and a reminder repeats at most once in {} s", SHORTEST.as_secs())]
    TooSoon,
}

impl ReminderTime {
    /// The first due time, and the interval in seconds.
    pub fn first(&self, now: &Zoned) -> Result<(Timestamp, Option<u64>), BadTime> {
        let after = |time: SignedDuration| now.timestamp().checked_add(time).map_err(|_| BadTime::TooSoon);
        match self {
            Self::In(time) if time.is_positive() => Ok((after(*time)?, None)),
            Self::Every(time) if *time >= SHORTEST => {
                Ok((after(*time)?, Some(time.as_secs().unsigned_abs())))
            }
            Self::In(_) | Self::Every(_) => Err(BadTime::TooSoon),
            Self::At(text) => Ok((time_of(text, now)?, None)),
        }
    }
}

/// The next time that matches `text`, in the user's zone.
fn time_of(text: &str, now: &Zoned) -> Result<Timestamp, BadTime> {
    let unknown = || BadTime::Unknown(text.to_owned());
    let text = text.trim();
    if let Ok(at) = text.parse::<Timestamp>() {
        return if at > now.timestamp() { Ok(at) } else { Err(BadTime::Over(text.to_owned())) };
    }
    // A date with a time would also parse as a time.
    let is_time = !text.contains('-');
    if let (true, Ok(time)) = (is_time, Time::strptime("%H:%M", text).or_else(|_| text.parse::<Time>())) {
        let zone = now.time_zone();
        let today = now.date().to_datetime(time).to_zoned(zone.clone()).map_err(|_| unknown())?;
        if today.timestamp() > now.timestamp() {
            return Ok(today.timestamp());
        }
        let next = now.date().checked_add(1.day()).map_err(|_| unknown())?;
        return Ok(next.to_datetime(time).to_zoned(zone.clone()).map_err(|_| unknown())?.timestamp());
    }
    let at = jiff::civil::DateTime::strptime("%Y-%m-%d %H:%M", text)
        .or_else(|_| text.parse())
        .map_err(|_| unknown())?;
    let at = at.to_zoned(now.time_zone().clone()).map_err(|_| unknown())?.timestamp();
    if at > now.timestamp() { Ok(at) } else { Err(BadTime::Over(text.to_owned())) }
}

impl Reminder {
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.at <= now
    }

    /// Identifies the occasion, so that only one of several senders sends it.
    pub fn key(&self) -> String {
        format!("remind-{}-{}", self.id, self.at.as_second())
    }

    /// The text to send now. A late one says when it was due and how many were skipped.
    pub fn message(&self, now: Timestamp) -> String {
        let set_by = if self.from == self.to.as_str() { "you".to_owned() } else { self.from.clone() };
        let late = now.duration_since(self.at);
        let mut head = format!("[reminder {}, set by {set_by}", self.id);
        if late > LATE {
            let _ = write!(head, "; it was due {} and comes late", self.at.strftime("%Y-%m-%d %H:%M UTC"));
            let missed = self.every.map_or(0, |every| late.as_secs().unsigned_abs() / every.max(1));
            if missed > 0 {
                let _ = write!(head, ", once for the {} that were missed", missed + 1);
            }
        }
        format!("{head}] {}", self.text)
    }

    /// The reminder after it was sent: `None`, or the next time in the future.
    #[must_use]
    pub fn next(mut self, now: Timestamp) -> Option<Self> {
        let every = i64::try_from(self.every?.max(1)).ok()?;
        let late = now.duration_since(self.at).as_secs().max(0);
        let step = SignedDuration::from_secs((late / every + 1).checked_mul(every)?);
        self.at = self.at.checked_add(step).ok()?;
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zoned(text: &str) -> Zoned {
        text.parse::<Timestamp>().unwrap().to_zoned(jiff::tz::TimeZone::fixed(jiff::tz::offset(1)))
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn reminder(at: Timestamp, every: Option<u64>) -> Reminder {
        let to = AgentId::new("app").unwrap();
        let (from, text) = ("user".to_owned(), "look at the build".to_owned());
        Reminder { id: "r1".into(), from, to, text, created: at, at, every }
    }

    #[test]
    fn a_time_of_day_is_the_next_one_in_the_users_zone() {
        let now = zoned("2026-11-17T12:00:00Z"); // 13:00 in that zone
        let first = |text: &str| ReminderTime::At(text.to_owned()).first(&now).map(|(at, _)| at);
        assert_eq!(first("17:00"), Ok(at("2026-11-17T16:00:00Z")));
        assert_eq!(first("13:00"), Ok(at("2026-11-18T12:00:00Z")), "this minute is over");
        assert_eq!(first("09:30"), Ok(at("2026-11-18T08:30:00Z")));
        assert_eq!(first("2026-12-01 08:00"), Ok(at("2026-12-01T07:00:00Z")));
        assert_eq!(first("2026-11-17T15:00:00Z"), Ok(at("2026-11-17T15:00:00Z")));
        assert!(matches!(first("2026-11-01 08:00"), Err(BadTime::Over(_))));
        assert!(matches!(first("tea time"), Err(BadTime::Unknown(_))));
    }

    #[test]
    fn a_delay_counts_from_now_and_must_lie_ahead() {
        let now = zoned("2026-11-17T12:00:00Z");
        let twenty = ReminderTime::In(SignedDuration::from_mins(20));
        assert_eq!(twenty.first(&now), Ok((at("2026-11-17T12:20:00Z"), None)));
        let hourly = ReminderTime::Every(SignedDuration::from_hours(1));
        assert_eq!(hourly.first(&now), Ok((at("2026-11-17T13:00:00Z"), Some(3_600))));
        assert_eq!(ReminderTime::In(SignedDuration::ZERO).first(&now), Err(BadTime::TooSoon));
        assert_eq!(ReminderTime::Every(SignedDuration::from_secs(1)).first(&now), Err(BadTime::TooSoon));
    }

    #[test]
    fn missed_reminders_come_once_late_and_say_so() {
        let due = at("2026-11-17T12:00:00Z");
        let in_time = reminder(due, None).message(due + SignedDuration::from_secs(5));
        assert_eq!(in_time, "[reminder r1, set by user] look at the build");
        let now = due + SignedDuration::from_mins(150);
        let text = reminder(due, Some(3_600)).message(now);
        assert!(text.contains("it was due 2026-11-17 12:00 UTC and comes late, once for the 3"), "{text}");
        let next = reminder(due, Some(3_600)).next(now).unwrap();
        assert_eq!(next.at, at("2026-11-17T15:00:00Z"), "the times stay where they were");
        assert_eq!(reminder(due, None).next(now), None);
    }

    #[test]
    fn each_occasion_has_its_own_key() {
        let due = at("2026-11-17T12:00:00Z");
        let first = reminder(due, Some(60));
        let second = first.clone().next(due).unwrap();
        assert_ne!(first.key(), second.key());
        assert_eq!(second.at, due + SignedDuration::from_secs(60));
    }

    #[test]
    fn a_clock_that_was_set_back_sends_nothing_twice() {
        let due = at("2026-11-17T12:00:00Z");
        let next = reminder(due, Some(60)).next(due - SignedDuration::from_hours(5)).unwrap();
        assert_eq!(next.at, due + SignedDuration::from_secs(60));
    }
}
