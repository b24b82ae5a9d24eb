//! Any bytes as a payload of a hook or of the status line, from each client.

use super::grown;
use baton_core::event::HookEvent;
use baton_core::reading::Reading;
use baton_core::wire::claude::statusline::parse_statusline;
use baton_core::wire::front::{Front, front};
use baton_core::wire::{claude, codex};

pub fn run(input: &[u8]) {
    let bytes = grown(input);
    let payload = match front(&bytes) {
        Front::Complete(end) => &bytes[..end],
        Front::Incomplete | Front::Garbage => &bytes[..],
    };
    if let Ok(payload) = claude::parse_hook(payload) {
        let _ = (payload.tasks(), payload.crons());
        let _ = HookEvent::try_from(payload);
    }
    if let Ok(payload) = codex::parse_hook(payload) {
        let _ = HookEvent::try_from(payload);
    }
    if let Ok(line) = parse_statusline(payload) {
        let now = jiff::Timestamp::UNIX_EPOCH;
        if let Some(reading) = Reading::from_statusline(&line, 200_000, now) {
            assert!(reading.percentage() <= 100);
        }
    }
    if let Ok(text) = std::str::from_utf8(payload) {
        let _ = claude::known::unknown_fields(text);
        let _ = codex::known::unknown_fields(text);
        let _ = codex::app::read(text);
    }
}
