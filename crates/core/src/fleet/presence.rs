//! Which machines are awake, by the database's clock alone: a machine's own clock may be wrong.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::MachineName;

/// How often a machine sends a heartbeat.
pub const BEAT: Duration = Duration::from_secs(15);
/// For how many beats after its last one a machine counts as awake.
pub(crate) const LEASE_BEATS: u32 = 3;
/// A machine that has been silent for this long counts as gone: senders no longer keep mail for it.
pub(crate) const GONE: Duration = Duration::from_hours(7 * 24);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Presence {
    Awake,
    /// Its lease has run out or its daemon has stopped. Mail waits for it.
    Asleep,
    /// It left, was revoked, or has been silent for a week.
    Gone,
}

impl Presence {
    /// `silence` is the time since its last beat on the database's clock, if it ever gave one.
    pub fn of(silence: Option<Duration>, beat: Duration, has_stopped: bool, has_left: bool) -> Self {
        match silence {
            _ if has_left => Self::Gone,
            None => Self::Asleep,
            Some(silence) if silence >= GONE => Self::Gone,
            Some(silence) if has_stopped || silence > beat * LEASE_BEATS => Self::Asleep,
            Some(_) => Self::Awake,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Awake => "awake",
            Self::Asleep => "asleep",
            Self::Gone => "gone",
        }
    }
}

/// An agent as its machine shows it to the others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedAgent {
    pub name: String,
    pub provider: String,
    /// The project's folder name.
    pub project: String,
    pub state: String,
    pub level: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_percentage: Option<u8>,
}

/// A machine's signed description of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shared {
    pub v: u32,
    pub machine: MachineName,
    pub epoch: u64,
    /// On the machine's own clock.
    pub at: Timestamp,
    pub agents: Vec<SharedAgent>,
}

/// The purpose in the signature of [`Shared`].
pub const PURPOSE: &[u8] = b"baton fleet presence 1\0";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_awake_for_three_beats_then_asleep_and_gone_after_a_week() {
        let of = |silence: u64| Presence::of(Some(Duration::from_secs(silence)), BEAT, false, false);
        assert_eq!([of(0), of(45), of(46)], [Presence::Awake, Presence::Awake, Presence::Asleep]);
        assert_eq!([of(6 * 86_400), of(7 * 86_400)], [Presence::Asleep, Presence::Gone]);
        assert_eq!(Presence::of(None, BEAT, false, false), Presence::Asleep);
        assert_eq!(Presence::of(Some(Duration::ZERO), BEAT, true, false), Presence::Asleep);
        assert_eq!(Presence::of(Some(Duration::ZERO), BEAT, false, true), Presence::Gone);
    }
}
