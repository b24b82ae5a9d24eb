//! Any bytes as a payload: found, parsed, made an event and weighed without a panic, whatever they are.
#![no_main]

use baton_core::event::HookEvent;
use baton_core::reading::Reading;
use baton_core::wire::claude::parse_hook;
use baton_core::wire::claude::statusline::parse_statusline;
use baton_core::wire::front::{Front, front};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let payload = match front(bytes) {
        Front::Complete(end) => &bytes[..end],
        Front::Incomplete | Front::Garbage => bytes,
    };
    if let Ok(payload) = parse_hook(payload) {
        let _ = HookEvent::try_from(payload);
    }
    if let Ok(line) = parse_statusline(payload) {
        let now = jiff::Timestamp::UNIX_EPOCH;
        if let Some(reading) = Reading::from_statusline(&line, 200_000, now) {
            assert!(reading.percentage() <= 100);
        }
    }
});
