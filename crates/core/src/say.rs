//! The words of baton: what an agent hears in its context, and what its user reads.
//!
//! Quiet by design: one sentence at the soft line, one request at the hard one, what happens by itself next, and
//! never an order to stop the user's work.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::reading::Reading;
use crate::statusline::tokens;

/// What the texts speak of.
#[derive(Debug, Clone, Copy)]
pub struct Situation<'a> {
    /// Nothing where only the transcript's size is known.
    pub reading: Option<Reading>,
    pub transcript_bytes: u64,
    /// Where the client compacts; nothing where it does not.
    pub compaction: Option<u64>,
    pub turns_left: Option<u64>,
    /// At which percentage the request comes.
    pub critical_percentage: u8,
    /// Where the agent's handoff belongs.
    pub path: &'a str,
    /// Some actuator other than the user is live.
    pub rotatable: bool,
}

impl Situation<'_> {
    /// `52% full (104k of 200k tokens; compaction at about 167k)`
    fn fill(&self) -> String {
        let Some(r) = &self.reading else {
            let megabytes = self.transcript_bytes as f64 / (1024.0 * 1024.0);
            return format!("nearly full, judged by its transcript of {megabytes:.1} MB");
        };
        let mut text =
            format!("{}% full ({} of {} tokens", r.percentage(), tokens(r.tokens), tokens(r.window));
        if let Some(at) = self.compaction {
            let _ = write!(text, "; compaction at about {}", tokens(at));
            match self.turns_left {
                Some(0) => text.push_str(", within this turn or the next"),
                Some(1) => text.push_str(", about 1 turn away"),
                Some(n @ 2..=99) => {
                    let _ = write!(text, ", about {n} turns away");
                }
                _ => {}
            }
        }
        text.push(')');
        text
    }

    /// What happens if the agent does nothing about the request.
    fn otherwise(&self) -> &'static str {
        if self.rotatable {
            "If you do not, baton seals a handoff from the facts in the transcript at the end of the turn and you continue from that one."
        } else {
            "If you do not, baton seals a handoff from the facts in the transcript at the end of the turn; your user decides when to start afresh."
        }
    }

    fn how(&self, turn: &str) -> String {
        format!(
            "write your handoff to {} (the user's request and rules in their own words, what is done and how it \
             was checked, what is open, what failed and why, the next step), then run `baton handoff {}` as the \
             last act of {turn}; `baton handoff -` takes the text on stdin instead",
            self.path,
            shell_word(self.path)
        )
    }

    fn then(&self) -> &'static str {
        if self.rotatable {
            "You then continue the same work in a fresh context that begins with it."
        } else {
            "The next fresh context begins with it."
        }
    }
}

/// A path as a shell takes it for one word.
fn shell_word(path: &str) -> Cow<'_, str> {
    let bare = |c: char| c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '+' | ',' | '@');
    if !path.is_empty() && path.chars().all(bare) {
        Cow::Borrowed(path)
    } else {
        Cow::Owned(format!("'{}'", path.replace('\'', r"'\''")))
    }
}

/// At WARN: one sentence.
pub fn advisory(s: &Situation<'_>) -> String {
    let when = match s.reading {
        Some(_) => format!("at {}%", s.critical_percentage),
        None => String::from("when it is time"),
    };
    format!(
        "[baton] Context is {}: carry on as planned, you will be asked once for a handoff {when}.",
        s.fill()
    )
}

/// At CRITICAL: what to do, and what happens by itself.
pub fn request(s: &Situation<'_>) -> String {
    format!(
        "[baton] Context is {}. Nothing needs to be cut short: at the next good point of the work, {}. {} {}",
        s.fill(),
        s.how("that turn"),
        s.then(),
        s.otherwise()
    )
}

/// The reason of the one block at Stop.
pub fn stop_reason(s: &Situation<'_>) -> String {
    format!(
        "[baton] Before this turn ends, because context is {}: {}. {} {}",
        s.fill(),
        s.how("that turn"),
        s.then(),
        s.otherwise()
    )
}

/// For the user, when the agent was asked.
pub fn user_requested(s: &Situation<'_>) -> String {
    format!("baton: context is {}; the agent was asked for a handoff", s.fill())
}

/// For the user, when a handoff was sealed at the end of a turn.
pub fn user_sealed(id: &str, rotates: bool) -> String {
    if rotates {
        format!("baton: handoff {id} is sealed; a fresh context follows")
    } else {
        format!("baton: handoff {id} is sealed; type /clear to continue from it in a fresh context")
    }
}

/// The same where the fresh context is a conversation of its own, beside the one on the screen.
pub fn user_sealed_elsewhere(id: &str, agent: &str) -> String {
    format!("baton: handoff {id} is sealed; {agent} goes on in a new thread of that name, which ← lists")
}

/// For the user, when a handoff was put in front of the agent.
pub fn user_loaded_crash(id: &str, session: &str) -> String {
    format!(
        "baton: session {session} ended without a word; what its transcript proves is loaded (handoff {id})"
    )
}

pub fn user_loaded(id: &str, channel: &str) -> String {
    format!("baton: continuing from handoff {id} of channel {channel}")
}

/// For the user, when compaction came first.
pub fn user_compacted(id: &str) -> String {
    format!("baton: compaction came first; what the transcript proves is kept in handoff {id}")
}

/// For the parent agent, by mail.
pub fn parent_compacted(agent: &str, id: &str) -> String {
    format!(
        "[baton] {agent} was compacted before it had handed off; handoff {id} holds what its transcript proves."
    )
}

/// For the parent agent, by mail: its child goes on in a fresh context.
pub fn parent_continued(agent: &str, id: &str) -> String {
    format!("[baton] {agent} continues in a fresh context that begins with handoff {id}.")
}

/// For an agent whose turn was ended for an urgent message that it has already been shown.
pub fn interrupted(message: &str, from: &str) -> String {
    format!(
        "[baton message {message} from {from}] stands above and is urgent: your turn was ended for it. Act on it first."
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::Source;

    fn situation(tokens: u64) -> Situation<'static> {
        let at = jiff::Timestamp::UNIX_EPOCH;
        Situation {
            reading: Some(Reading {
                tokens,
                output: 50,
                window: 200_000,
                base: 0,
                at,
                source: Source::StatusLine,
            }),
            transcript_bytes: 0,
            compaction: Some(167_000),
            turns_left: Some(8),
            critical_percentage: 65,
            path: "thoughts/baton/handoff.md",
            rotatable: true,
        }
    }

    #[test]
    fn the_advisory_is_one_sentence_that_asks_for_nothing() {
        let text = advisory(&situation(104_400));
        insta::assert_snapshot!(text, @"[baton] Context is 52% full (104k of 200k tokens; compaction at about 167k, about 8 turns away): carry on as planned, you will be asked once for a handoff at 65%.");
        assert_eq!(text.matches(". ").count(), 0);
        insta::assert_snapshot!(advisory(&Situation { compaction: None, turns_left: None, ..situation(104_400) }), @"[baton] Context is 52% full (104k of 200k tokens): carry on as planned, you will be asked once for a handoff at 65%.");
    }

    #[test]
    fn the_request_says_where_to_write_what_to_run_and_what_happens_otherwise() {
        insta::assert_snapshot!(request(&situation(134_400)), @"[baton] Context is 67% full (134k of 200k tokens; compaction at about 167k, about 8 turns away). Nothing needs to be cut short: at the next good point of the work, write your handoff to thoughts/baton/handoff.md (the user's request and rules in their own words, what is done and how it was checked, what is open, what failed and why, the next step), then run `baton handoff thoughts/baton/handoff.md` as the last act of that turn; `baton handoff -` takes the text on stdin instead. You then continue the same work in a fresh context that begins with it. If you do not, baton seals a handoff from the facts in the transcript at the end of the turn and you continue from that one.");
        insta::assert_snapshot!(request(&Situation { rotatable: false, turns_left: Some(0), ..situation(134_400) }), @"[baton] Context is 67% full (134k of 200k tokens; compaction at about 167k, within this turn or the next). Nothing needs to be cut short: at the next good point of the work, write your handoff to thoughts/baton/handoff.md (the user's request and rules in their own words, what is done and how it was checked, what is open, what failed and why, the next step), then run `baton handoff thoughts/baton/handoff.md` as the last act of that turn; `baton handoff -` takes the text on stdin instead. The next fresh context begins with it. If you do not, baton seals a handoff from the facts in the transcript at the end of the turn; your user decides when to start afresh.");
    }

    #[test]
    fn the_stop_reason_repeats_the_request() {
        insta::assert_snapshot!(stop_reason(&situation(134_400)), @"[baton] Before this turn ends, because context is 67% full (134k of 200k tokens; compaction at about 167k, about 8 turns away): write your handoff to thoughts/baton/handoff.md (the user's request and rules in their own words, what is done and how it was checked, what is open, what failed and why, the next step), then run `baton handoff thoughts/baton/handoff.md` as the last act of that turn; `baton handoff -` takes the text on stdin instead. You then continue the same work in a fresh context that begins with it. If you do not, baton seals a handoff from the facts in the transcript at the end of the turn and you continue from that one.");
    }

    #[test]
    fn the_user_reads_one_line() {
        let s = situation(134_400);
        let lines = [
            user_requested(&s),
            user_sealed("HO-20261116-040000-a1b2c3d4", true),
            user_sealed("HO-20261116-040000-a1b2c3d4", false),
            user_loaded("HO-20261116-040000-a1b2c3d4", "proj-1a2b3c"),
            user_compacted("HO-20261116-040000-a1b2c3d4"),
            parent_compacted("proj-2", "HO-20261116-040000-a1b2c3d4"),
        ];
        insta::assert_snapshot!(lines.join("\n"), @r"
        baton: context is 67% full (134k of 200k tokens; compaction at about 167k, about 8 turns away); the agent was asked for a handoff
        baton: handoff HO-20261116-040000-a1b2c3d4 is sealed; a fresh context follows
        baton: handoff HO-20261116-040000-a1b2c3d4 is sealed; type /clear to continue from it in a fresh context
        baton: continuing from handoff HO-20261116-040000-a1b2c3d4 of channel proj-1a2b3c
        baton: compaction came first; what the transcript proves is kept in handoff HO-20261116-040000-a1b2c3d4
        [baton] proj-2 was compacted before it had handed off; handoff HO-20261116-040000-a1b2c3d4 holds what its transcript proves.
        ");
    }

    #[test]
    fn a_path_with_spaces_is_one_word_in_the_command() {
        let text = request(&Situation { path: "my notes/h.md", ..situation(134_400) });
        assert!(
            text.contains("handoff to my notes/h.md (") && text.contains("`baton handoff 'my notes/h.md'`"),
            "{text}"
        );
        assert_eq!(shell_word("a/b-c.md"), "a/b-c.md");
        assert_eq!(shell_word("it's $HOME.md"), r"'it'\''s $HOME.md'");
    }

    #[test]
    fn nobody_is_told_to_stop_working() {
        for s in [situation(134_400), Situation { rotatable: false, ..situation(134_400) }] {
            for text in [advisory(&s), request(&s), stop_reason(&s)] {
                let lower = text.to_lowercase();
                for word in ["stop ", " now", "immediately", "urgent", "must ", "imminent"] {
                    assert!(!lower.contains(word), "{word:?} in {text}");
                }
                assert!(text.len() < 1_000, "{} characters", text.len());
            }
        }
    }
}
