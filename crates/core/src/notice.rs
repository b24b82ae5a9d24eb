//! When somebody should hear about an agent: it is idle, it waits for a person, it has died, its handoff failed.
//!
//! Said once per occasion, and only when the occasion has lasted a moment: a turn that ends in a rotation is followed by
//! the next one at once and is no news.

use jiff::{SignedDuration, Timestamp};

use crate::process::Process;
use crate::session::Turn;

/// How long a state must last before anybody hears of it.
pub const SETTLE: SignedDuration = SignedDuration::from_secs(2);

/// The skip fence: after a handoff comes the next context and not silence. One that has not come by then will not come by
/// itself, and the agent is idle indeed.
pub const FENCE: SignedDuration = SignedDuration::from_mins(2);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    Idle,
    Blocked,
    Died,
    HandoffFailed,
}

impl Kind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Blocked => "blocked",
            Self::Died => "died",
            Self::HandoffFailed => "handoff-failed",
        }
    }

    /// For the parent, by mail, and for the user.
    pub fn text(self, agent: &str, detail: &str) -> String {
        match self {
            Self::Idle => format!("[baton] {agent} has ended its turn and is idle."),
            Self::Blocked => format!("[baton] {agent} waits for a person's decision in a dialog."),
            Self::Died => format!(
                "[baton] {agent} died: its client ended without a word. Its conversation and handoffs are kept."
            ),
            Self::HandoffFailed => format!("[baton] the handoff of {agent} failed: {detail}"),
        }
    }
}

/// One occasion to say something. The same occasion has the same stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notice {
    pub kind: Kind,
    /// When it began; with the agent's name it tells occasions apart.
    pub stamp: i128,
}

/// What is known of an agent.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// Its client or its supervisor runs.
    pub live: bool,
    /// It ended with a word, or was stopped for good.
    pub ended: bool,
    pub turn: Turn,
    pub turn_since: Option<Timestamp>,
    /// Since when a handoff is pending, or a fresh context is on its way.
    pub rotating: Option<Timestamp>,
    pub process: Option<&'a Process>,
}

/// What to do about it now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    Nothing,
    /// Look again then.
    At(Timestamp),
    Now(Notice),
}

pub fn due(facts: &Facts<'_>, now: Timestamp) -> Due {
    if facts.ended {
        return Due::Nothing;
    }
    if !facts.live {
        // A process says when it began, not when it ended; that tells occasions apart as well.
        return match facts.process {
            Some(process) => Due::Now(Notice {
                kind: Kind::Died,
                stamp: i128::from(process.start) << 32 | i128::from(process.pid),
            }),
            None => Due::Nothing,
        };
    }
    let kind = match facts.turn {
        Turn::Idle => Kind::Idle,
        Turn::Blocked => Kind::Blocked,
        Turn::Working | Turn::Limit => return Due::Nothing,
    };
    // A session that has had no turn yet has not ended one.
    let Some(since) = facts.turn_since else { return Due::Nothing };
    let fence = facts.rotating.filter(|_| kind == Kind::Idle).and_then(|at| at.checked_add(FENCE).ok());
    match since.checked_add(SETTLE).map(|settled| fence.map_or(settled, |fence| fence.max(settled))) {
        Ok(settled) if settled > now => Due::At(settled),
        _ => Due::Now(Notice { kind, stamp: since.as_nanosecond() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(1_794_790_000_000 + millis).unwrap()
    }

    fn facts(turn: Turn) -> Facts<'static> {
        Facts { live: true, ended: false, turn, turn_since: Some(at(0)), rotating: None, process: None }
    }

    #[test]
    fn an_idle_agent_is_news_once_it_has_been_idle_for_a_moment() {
        let idle = facts(Turn::Idle);
        assert_eq!(due(&idle, at(100)), Due::At(at(2_000)));
        let Due::Now(first) = due(&idle, at(2_000)) else { panic!() };
        let Due::Now(later) = due(&idle, at(90_000)) else { panic!() };
        assert_eq!((first, first.kind), (later, Kind::Idle), "one occasion, however often one looks");
        let Due::Now(next) = due(&Facts { turn_since: Some(at(1)), ..idle }, at(9_000)) else { panic!() };
        assert_ne!(next, first);
    }

    #[test]
    fn a_rotation_causes_no_stop_or_idle_notification() {
        let rotating = Facts { rotating: Some(at(10)), ..facts(Turn::Idle) };
        assert_eq!(due(&rotating, at(60_000)), Due::At(at(120_010)));
        assert!(matches!(due(&rotating, at(120_010)), Due::Now(_)), "the fresh context never came");
        // The fresh context before its first prompt.
        assert_eq!(due(&Facts { turn_since: None, ..facts(Turn::Idle) }, at(60_000)), Due::Nothing);
        // A dialog is one whatever else is on its way.
        assert!(matches!(
            due(&Facts { rotating: Some(at(10)), ..facts(Turn::Blocked) }, at(60_000)),
            Due::Now(_)
        ));
    }

    #[test]
    fn a_death_is_news_and_an_end_is_not() {
        let process = Process { pid: 7, start: 9, boot: "b".into() };
        let dead = Facts { live: false, process: Some(&process), ..facts(Turn::Working) };
        assert!(matches!(due(&dead, at(0)), Due::Now(Notice { kind: Kind::Died, .. })));
        assert_eq!(due(&Facts { ended: true, ..dead }, at(0)), Due::Nothing);
        assert_eq!(due(&facts(Turn::Working), at(60_000)), Due::Nothing);
        assert_eq!(due(&facts(Turn::Limit), at(60_000)), Due::Nothing);
    }

    #[test]
    fn a_clock_that_was_set_back_delays_nothing_for_ever() {
        let ahead = Facts { turn_since: Some(at(3_600_000)), ..facts(Turn::Idle) };
        assert!(matches!(due(&ahead, at(0)), Due::At(_)));
    }
}
