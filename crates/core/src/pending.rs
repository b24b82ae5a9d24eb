//! A pending handoff: the agent has written its document and still has the old context. Decides what ends the wait, so
//! that no state waits for something that never happens.

use jiff::SignedDuration;

use crate::halt::Audience;
use crate::turn::Turn;

/// A command that schedules a handoff may race with the hook that reports a running turn. A mere observer waits this
/// long before it believes that the agent is idle.
pub(crate) const CROSSED: SignedDuration = SignedDuration::from_secs(3);
/// Sealing takes at most a second; an older mark on the session was left by a dead process.
pub const LEASE: SignedDuration = SignedDuration::from_secs(5);
/// How often to retry a handoff that could not be written, with a doubling wait.
pub const TRIES: u32 = 6;

/// The event that a pending handoff waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pending {
    /// Nothing: the first process that finds it carries it out. At a usage limit it is sealed, and the fresh context
    /// waits for the limit.
    Due,
    /// The end of the running turn. Mail is held meanwhile, because the agent is about to lose its context.
    EndOfTurn,
    /// A person's next prompt: they pressed Esc, and the client takes no orders until they type again. Mail is not
    /// held.
    NextPrompt,
}

impl Pending {
    /// `braked`: the client takes no orders, and nobody types into its terminal.
    pub fn of(turn: Turn, braked: bool) -> Self {
        match turn {
            Turn::Working | Turn::Blocked => Self::EndOfTurn,
            Turn::Idle if braked => Self::NextPrompt,
            Turn::Idle | Turn::Limit => Self::Due,
        }
    }

    /// Whether messages wait for the fresh context instead of reaching this one.
    pub fn holds_mail(self) -> bool {
        self == Self::EndOfTurn
    }

    /// The state in words; `since` is the time of day at which it was written.
    pub fn text(self, since: &str, audience: Audience) -> String {
        let your = audience.your();
        let what = match self {
            Self::Due => "is being carried out",
            Self::EndOfTurn => "waits for the end of its turn",
            Self::NextPrompt => {
                &format!("waits for {your} next prompt in its terminal (it was stopped with Esc)")
            }
        };
        format!("handoff pending since {since}, {what}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_turn_that_has_ended_makes_a_pending_handoff_due_unless_the_person_said_stop() {
        for braked in [false, true] {
            assert_eq!(Pending::of(Turn::Working, braked), Pending::EndOfTurn);
            assert_eq!(Pending::of(Turn::Blocked, braked), Pending::EndOfTurn);
            assert_eq!(Pending::of(Turn::Limit, braked), Pending::Due);
        }
        assert_eq!(Pending::of(Turn::Idle, false), Pending::Due);
        assert_eq!(Pending::of(Turn::Idle, true), Pending::NextPrompt);
    }

    #[test]
    fn mail_is_held_only_while_the_turn_continues() {
        assert!(Pending::EndOfTurn.holds_mail());
        assert!(!Pending::NextPrompt.holds_mail() && !Pending::Due.holds_mail());
    }

    #[test]
    fn a_pending_handoff_says_what_it_waits_for() {
        assert_eq!(
            Pending::NextPrompt.text("12:03", Audience::User),
            "handoff pending since 12:03, waits for your next prompt in its terminal (it was stopped with Esc)"
        );
    }
}
