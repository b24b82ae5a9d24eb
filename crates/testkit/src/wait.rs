//! Waits for events. A test waits for the event it needs, never for the time that the event usually takes.

use std::time::{Duration, Instant};

/// Long enough for everything, even on a busy machine; only a failing test waits this long.
pub const LONG: Duration = Duration::from_secs(90);

const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Polls until `look` finds something; `None` if it has not by the deadline.
pub fn poll<T>(deadline: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + deadline;
    loop {
        // Look once more after the deadline, in case this thread was not running for a while.
        let is_last = Instant::now() >= end;
        if let Some(found) = look() {
            return Some(found);
        }
        if is_last {
            return None;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Waits until `look` finds something; fails the test after [`LONG`].
#[track_caller]
pub fn wait_for<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    let Some(found) = poll(LONG, look) else { panic!("waited {LONG:?} in vain for {what}") };
    found
}

/// Waits until `holds`; fails the test after [`LONG`].
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    wait_for(what, || holds().then_some(()));
}
