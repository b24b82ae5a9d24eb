//! baton's words: the texts that an agent reads in its context, and those for its user.
//!
//! Quiet by design: one sentence at the soft line, one request at the hard one, a note on what happens next by itself,
//! and never an order to stop the user's work.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::reading::Reading;
use crate::reading::tokens;

/// The facts that the texts mention.
#[derive(Debug, Clone, Copy)]
pub struct Situation<'a> {
    /// `None` if only the transcript's size is known.
    pub reading: Option<Reading>,
    pub transcript_bytes: u64,
    /// Where the client compacts; `None` if it does not.
    pub compaction: Option<u64>,
    pub turns_left: Option<u64>,
    /// The percentage at which the request comes.
    pub critical_percentage: u8,
    /// Where the agent's handoff belongs; `None` if the project has no place for it.
    pub path: Option<&'a str>,
    /// An actuator other than the user is live.
    pub rotatable: bool,
    /// The agent is asked once more if the turn ends without a handoff.
    pub asked_again: bool,
    /// The tool with which the agent begins a fresh window itself, where its client has one.
    pub window: Option<&'a str>,
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

    /// The consequence of ignoring the request.
    fn otherwise(&self) -> &'static str {
        if self.asked_again {
            "If you do not, you are asked once more before the turn ends; then baton seals a handoff from the facts in the transcript and you continue from that one."
        } else if self.rotatable {
            "If you do not, baton seals a handoff from the facts in the transcript at the end of the turn and you continue from that one."
        } else {
            "If you do not, baton seals a handoff from the facts in the transcript at the end of the turn; your user decides when to start afresh."
        }
    }

    fn how(&self, turn: &str) -> String {
        const CONTENT: &str = "(the user's request and rules in their own words, what is done and how it was checked, \
             what is open, what failed and why, the next step)";
        let then = match self.window {
            Some(tool) => format!("and then call the `{tool}` tool"),
            None => format!("as the last act of {turn}"),
        };
        match self.path {
            Some(path) => format!(
                "write your handoff to {path} {CONTENT}, then run `baton handoff {}` {then}; \
                 `baton handoff -` takes the text on stdin instead",
                shell_word(path)
            ),
            None => format!("pass your handoff {CONTENT} to `baton handoff -` on standard input, {then}"),
        }
    }

    fn then(&self) -> &'static str {
        if self.rotatable {
            "You then continue the same work in a fresh context that begins with it."
        } else {
            "The next fresh context begins with it."
        }
    }
}

/// A path quoted as one shell word.
fn shell_word(path: &str) -> Cow<'_, str> {
    let bare = |c: char| c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '+' | ',' | '@');
    if !path.is_empty() && path.chars().all(bare) {
        Cow::Borrowed(path)
    } else {
        Cow::Owned(format!("'{}'", path.replace('\'', r"'\''")))
    }
}

/// The first context of a spawned agent: its name, its parent, and how to report.
pub fn primer(name: &str, parent: Option<&str>, role: Option<&str>) -> String {
    let role = role.map(|role| format!(" Your role: {}.", crate::plain::plain_line(role, 80)));
    let (whose, to) = match parent {
        Some(parent) => (format!("{parent} spawned you"), parent),
        None => ("your user spawned you".to_owned(), "user"),
    };
    format!(
        "[baton] You are the agent {name}; {whose}.{} Report with `baton send {to} \"…\"` what cannot wait, ask your \
         user with `baton send user --ask \"…\"`, and when your task is finished run `baton done \"what came out\"` \
         as the last act of that turn. Messages reach you by themselves; do not poll.",
        role.unwrap_or_default()
    )
}

/// At WARN: one sentence.
pub fn advisory(s: &Situation<'_>) -> String {
    let when = match s.reading {
        Some(_) => format!("at {}%", s.critical_percentage),
        None => String::from("when it is time"),
    };
    format!("[baton] Context is {}: carry on as planned, you will be asked for a handoff {when}.", s.fill())
}

/// At CRITICAL: the request, and the consequence of ignoring it.
pub fn request(s: &Situation<'_>) -> String {
    format!(
        "[baton] Context is {}. Nothing needs to be cut short: at the next good point of the work, {}. {} {}",
        s.fill(),
        s.how("that turn"),
        s.then(),
        s.otherwise()
    )
}

/// Before a turn ends without a handoff. `again`: this turn already had the request, and there is no third one.
pub fn before_the_end(s: &Situation<'_>, again: bool) -> String {
    let s = Situation { asked_again: false, ..*s };
    format!(
        "[baton] {} this turn ends, because context is {}: {}. {} {}",
        if again { "Asked again before" } else { "Before" },
        s.fill(),
        s.how("that turn"),
        s.then(),
        s.otherwise()
    )
}

/// For an agent that wants a fresh window and has not handed over yet. `tool` is the one it called.
pub fn handoff_first(s: &Situation<'_>, tool: &str) -> String {
    format!(
        "[baton] A fresh context begins with your handoff, and there is none yet: {}.",
        Situation { window: Some(tool), ..*s }.how("this turn")
    )
}

/// At the end of a turn in which the agent handed over and did not begin its fresh window.
pub fn window_waits(tool: &str) -> String {
    format!(
        "[baton] Your handoff is taken. Call the `{tool}` tool now: you continue the same work in a fresh context that \
         begins with it. If you do not, the turn ends and the handoff waits for the next fresh context."
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

/// The same if the fresh context is a separate conversation beside the one on screen.
pub fn user_sealed_elsewhere(id: &str, agent: &str) -> String {
    format!("baton: handoff {id} is sealed; {agent} continues in a new thread of that name, which ← lists")
}

/// For the user, when an agent was given a dead session's facts.
pub fn user_loaded_crash(id: &str, session: &str) -> String {
    format!(
        "baton: session {session} ended unexpectedly; what its transcript proves is loaded (handoff {id})"
    )
}

pub fn user_loaded(id: &str) -> String {
    format!("baton: continuing from handoff {id}")
}

/// For the user, when the client compacted first.
pub fn user_compacted(id: &str) -> String {
    format!("baton: compaction came first; what the transcript proves is kept in handoff {id}")
}

/// Above the handoff that answers a compaction: the words that the user typed with the command.
pub fn user_wants_kept(words: &str) -> String {
    format!(
        "The user compacted this conversation with `/compact` and these words. They say what of the handoff below \
         counts from now on:\n\n{words}\n\n"
    )
}

/// For an agent whose turn was ended for an urgent message that it has already seen.
pub fn interrupted(message: &str, from: &str) -> String {
    format!(
        "[baton message {message} from {from}] stands above and is urgent: your turn was ended for it. Act on it first."
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::ReadingSource;

    fn situation(tokens: u64) -> Situation<'static> {
        let at = jiff::Timestamp::UNIX_EPOCH;
        Situation {
            reading: Some(Reading {
                tokens,
                output: 50,
                window: 200_000,
                base: 0,
                at,
                source: ReadingSource::StatusLine,
            }),
            transcript_bytes: 0,
            compaction: Some(167_000),
            turns_left: Some(8),
            critical_percentage: 65,
            path: Some("thoughts/baton/handoff.md"),
            rotatable: true,
            asked_again: false,
            window: None,
        }
    }

    #[test]
    fn an_agent_that_can_begin_a_window_itself_is_told_the_tool() {
        let s = Situation { window: Some("new_context"), ..situation(134_400) };
        let text = request(&s);
        assert!(
            text.contains(
                "then run `baton handoff thoughts/baton/handoff.md` and then call the `new_context` tool;"
            ),
            "{text}"
        );
        assert!(!text.contains("last act"), "{text}");
        let text = handoff_first(&situation(60_000), "new_context");
        assert!(
            text.starts_with("[baton] A fresh context begins with your handoff")
                && text.contains("`new_context`"),
            "{text}"
        );
        assert!(window_waits("new_context").contains("Call the `new_context` tool now"));
    }

    #[test]
    fn the_advisory_is_one_sentence_that_asks_for_nothing() {
        let text = advisory(&situation(104_400));
        insta::assert_snapshot!(text, @"[baton] Context is 52% full (104k of 200k tokens; compaction at about 167k, about 8 turns away): carry on as planned, you will be asked for a handoff at 65%.");
        assert_eq!(text.matches(". ").count(), 0);
        insta::assert_snapshot!(advisory(&Situation { compaction: None, turns_left: None, ..situation(104_400) }), @"[baton] Context is 52% full (104k of 200k tokens): carry on as planned, you will be asked for a handoff at 65%.");
    }

    #[test]
    fn the_request_says_where_to_write_what_to_run_and_what_happens_otherwise() {
        insta::assert_snapshot!(request(&situation(134_400)), @"[baton] Context is 67% full (134k of 200k tokens; compaction at about 167k, about 8 turns away). Nothing needs to be cut short: at the next good point of the work, write your handoff to thoughts/baton/handoff.md (the user's request and rules in their own words, what is done and how it was checked, what is open, what failed and why, the next step), then run `baton handoff thoughts/baton/handoff.md` as the last act of that turn; `baton handoff -` takes the text on stdin instead. You then continue the same work in a fresh context that begins with it. If you do not, baton seals a handoff from the facts in the transcript at the end of the turn and you continue from that one.");
        insta::assert_snapshot!(request(&Situation { rotatable: false, turns_left: Some(0), ..situation(134_400) }), @"[baton] Context is 67% full (134k of 200k tokens; compaction at about 167k, within this turn or the next). Nothing needs to be cut short: at the next good point of the work, write your handoff to thoughts/baton/handoff.md (the user's request and rules in their own words, what is done and how it was checked, what is open, what failed and why, the next step), then run `baton handoff thoughts/baton/handoff.md` as the last act of that turn; `baton handoff -` takes the text on stdin instead. The next fresh context begins with it. If you do not, baton seals a handoff from the facts in the transcript at the end of the turn; your user decides when to start afresh.");
    }

    #[test]
    fn the_text_at_the_end_of_a_turn_repeats_the_request_and_says_so() {
        let s = Situation { asked_again: true, ..situation(134_400) };
        assert!(
            request(&s)
                .contains("If you do not, you are asked once more before the turn ends; then baton seals")
        );
        assert!(before_the_end(&s, true).starts_with("[baton] Asked again before this turn ends, because"));
        assert!(!before_the_end(&s, true).contains("once more"));
        insta::assert_snapshot!(before_the_end(&s, false), @"[baton] Before this turn ends, because context is 67% full (134k of 200k tokens; compaction at about 167k, about 8 turns away): write your handoff to thoughts/baton/handoff.md (the user's request and rules in their own words, what is done and how it was checked, what is open, what failed and why, the next step), then run `baton handoff thoughts/baton/handoff.md` as the last act of that turn; `baton handoff -` takes the text on stdin instead. You then continue the same work in a fresh context that begins with it. If you do not, baton seals a handoff from the facts in the transcript at the end of the turn and you continue from that one.");
    }

    #[test]
    fn the_primer_names_the_agent_its_parent_and_the_way_to_report_in_600_characters() {
        let longest = "n".repeat(64);
        let text = primer(&longest, Some(&longest), Some(&"r".repeat(500)));
        assert!(text.chars().count() <= 600, "{}", text.chars().count());
        let text = primer("tests", Some("lead"), Some("reviewer"));
        for part in ["tests", "lead spawned you", "Your role: reviewer.", "baton send lead", "baton done"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(primer("tests", None, None).contains("baton send user \"…\""));
    }

    #[test]
    fn the_user_reads_one_line() {
        let s = situation(134_400);
        let lines = [
            user_requested(&s),
            user_sealed("HO-20261116-040000-a1b2c3d4", true),
            user_sealed("HO-20261116-040000-a1b2c3d4", false),
            user_loaded("HO-20261116-040000-a1b2c3d4"),
            user_compacted("HO-20261116-040000-a1b2c3d4"),
        ];
        insta::assert_snapshot!(lines.join("\n"), @r"
        baton: context is 67% full (134k of 200k tokens; compaction at about 167k, about 8 turns away); the agent was asked for a handoff
        baton: handoff HO-20261116-040000-a1b2c3d4 is sealed; a fresh context follows
        baton: handoff HO-20261116-040000-a1b2c3d4 is sealed; type /clear to continue from it in a fresh context
        baton: continuing from handoff HO-20261116-040000-a1b2c3d4
        baton: compaction came first; what the transcript proves is kept in handoff HO-20261116-040000-a1b2c3d4
        ");
    }

    #[test]
    fn a_path_with_spaces_is_one_word_in_the_command() {
        let text = request(&Situation { path: Some("my notes/h.md"), ..situation(134_400) });
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
            for text in [advisory(&s), request(&s), before_the_end(&s, true)] {
                let lower = text.to_lowercase();
                for word in ["stop ", " now", "immediately", "urgent", "must ", "imminent"] {
                    assert!(!lower.contains(word), "{word:?} in {text}");
                }
                assert!(text.len() < 1_050, "{} characters", text.len());
            }
        }
    }
}
