//! The time of day, and how people read it.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// Now.
pub(crate) fn now() -> Timestamp {
    let time = read(libc::CLOCK_REALTIME);
    let nanos = time.and_then(|time| Some((time.tv_sec, i32::try_from(time.tv_nsec).ok()?)));
    nanos.and_then(|(seconds, nanos)| Timestamp::new(seconds, nanos).ok()).unwrap_or_else(Timestamp::now)
}

/// Nanoseconds of the clock that nobody sets. A signal handler may call this.
pub(crate) fn monotonic() -> u64 {
    let nanos = |time: libc::timespec| {
        time.tv_sec.unsigned_abs().saturating_mul(1_000_000_000).saturating_add(time.tv_nsec.unsigned_abs())
    };
    read(libc::CLOCK_MONOTONIC).map_or(0, nanos)
}

/// Reads a clock by one system call. The library goes through code that the kernel maps into each process and that must
/// first be found there: five page faults and three thousand instructions. For hooks, which ask twice.
#[expect(unsafe_code, reason = "a system call that no library makes without looking for a faster way first")]
fn read(clock: libc::clockid_t) -> Option<libc::timespec> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one `timespec`, and the buffer has room for it.
    #[cfg(target_os = "linux")]
    let done = unsafe { libc::syscall(libc::SYS_clock_gettime, clock, &raw mut time) };
    // SAFETY: as above.
    #[cfg(not(target_os = "linux"))]
    let done = unsafe { libc::clock_gettime(clock, &raw mut time) };
    (done == 0).then_some(time)
}

/// `3m`, `2h`, `5d`: how long ago, in the largest whole unit.
pub(crate) fn age(then: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(then).max(SignedDuration::ZERO).as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86400),
    }
}

/// `54 min`, `20 h 54 min`, `3 d 4 h`: how long until then.
pub(crate) fn left(then: Timestamp, now: Timestamp) -> String {
    let minutes = then.duration_since(now).as_mins().max(0);
    let (large, small, units) = match minutes {
        0..60 => return format!("{minutes} min"),
        60..1440 => (minutes / 60, minutes % 60, ("h", "min")),
        _ => (minutes / 1440, minutes % 1440 / 60, ("d", "h")),
    };
    match small {
        0 => format!("{large} {}", units.0),
        _ => format!("{large} {} {small} {}", units.0, units.1),
    }
}

/// `05:30`, or `Nov 18 05:30` on another day, in the reader's own time zone.
pub(crate) fn clock(at: Timestamp, now: Timestamp) -> String {
    let here = |at: Timestamp| at.to_zoned(TimeZone::system());
    let format = if here(at).date() == here(now).date() { "%H:%M" } else { "%b %-d %H:%M" };
    here(at).strftime(format).to_string()
}

/// A time zone by its name, or the user's own.
pub(crate) fn zone(name: Option<&str>) -> Option<TimeZone> {
    name.map_or_else(|| Some(TimeZone::system()), |name| TimeZone::get(name).ok())
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};

    #[test]
    fn remaining_time_is_shown_in_units_that_people_use() {
        let now = Timestamp::UNIX_EPOCH;
        let left = |minutes| super::left(now + SignedDuration::from_mins(minutes), now);
        assert_eq!([left(-5), left(0), left(59)], ["0 min", "0 min", "59 min"]);
        assert_eq!([left(60), left(1254), left(1439)], ["1 h", "20 h 54 min", "23 h 59 min"]);
        assert_eq!([left(1440), left(4500)], ["1 d", "3 d 3 h"]);
    }

    #[test]
    fn our_clock_agrees_with_the_library() {
        let before = jiff::Timestamp::now();
        let now = super::now();
        assert!(before <= now && now <= jiff::Timestamp::now());
    }
}
