//! When to tell somebody about an agent: it answered, stopped at an error or a usage limit, waits for a person, was
//! compacted, died, or its handoff failed.
//!
//! Each occasion gives one notice, and only after it has lasted a moment: a turn that ends in a rotation is followed by
//! the next at once and is not news. Tell the end of a turn only to whoever caused it, or two agents would wake each
//! other for days.

use std::borrow::Cow;

use jiff::{SignedDuration, Timestamp};

use crate::agent::Agent;
use crate::channel::fnv1a;
use crate::pending::Pending;
use crate::plain::plain;
use crate::process::Process;
use crate::redact::redact;
use crate::session::{Session, Turn};

/// How long a state must last before we tell anybody.
pub(crate) const SETTLE: SignedDuration = SignedDuration::from_secs(2);

/// The skip fence: after a handoff expect the next context, not silence. If it has not come by then, it will not come
/// by itself, and the agent really is idle.
pub(crate) const FENCE: SignedDuration = SignedDuration::from_mins(2);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NoticeKind {
    Idle,
    Error,
    Limit,
    Blocked,
    Died,
    /// By the client itself; we did not answer with a handoff.
    Compacted,
    HandoffFailed,
    /// It has reported its task finished.
    Done,
    /// A handoff that waits for a person.
    HandoffPending,
}

/// How much of an agent's answer a notice carries.
const BEGINNING: usize = 500;

/// The beginning of a text for a notice, without secrets and control characters.
pub fn beginning(text: &str) -> String {
    // Redact before cutting: half a secret no longer matches a rule.
    let near: String = text.trim().chars().take(4 * BEGINNING).collect();
    let clean = redact(&plain(&near)).text.into_owned();
    let mut short: String = clean.chars().take(BEGINNING).collect();
    if clean.chars().count() > BEGINNING || near.len() < text.trim().len() {
        short.push('…');
    }
    short
}

impl NoticeKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Error => "error",
            Self::Limit => "limit",
            Self::Blocked => "blocked",
            Self::Died => "died",
            Self::Compacted => "compacted",
            Self::HandoffFailed => "handoff-failed",
            Self::Done => "done",
            Self::HandoffPending => "handoff-pending",
        }
    }

    /// The text for the parent, by mail, and for the user.
    pub fn text(self, agent: &str, detail: &str) -> String {
        match self {
            Self::Idle if detail.is_empty() => format!("[baton] {agent} has ended its turn and is idle."),
            Self::Idle => {
                format!("[baton] {agent} has ended its turn and is idle. Its answer begins:\n{detail}")
            }
            // The detail is the text of `Halt::words` for this reader.
            Self::Error | Self::Limit | Self::Blocked => format!("[baton] {agent}: {detail}"),
            Self::Died => format!("[baton] {agent} died: {detail}. Its conversation and handoffs are kept."),
            Self::Compacted if detail.is_empty() => format!(
                "[baton] {agent} was compacted and no handoff could be sealed; `baton log` says why. Its conversation is \
                 kept."
            ),
            Self::Compacted => format!(
                "[baton] {agent} was compacted before it had handed off; handoff {detail} holds what its transcript \
                 proves."
            ),
            Self::HandoffFailed => format!("[baton] the handoff of {agent} failed: {detail}"),
            Self::Done => format!("[baton] {agent} is done{detail}"),
            Self::HandoffPending => format!("[baton] {agent} is idle: {detail}"),
        }
    }
}

/// The text for the parent of an agent that finished its task: its own words, and the beginning of its last answer.
pub fn completion_text(agent: &str, words: &str, answer: &str) -> String {
    let words = if words.is_empty() { ".".to_owned() } else { format!(": {words}") };
    let answer = match beginning(answer) {
        answer if answer.is_empty() => String::new(),
        answer => format!("\nIts last answer begins:\n{answer}"),
    };
    NoticeKind::Done.text(agent, &format!("{words}{answer}"))
}

/// One occasion to tell something. The same occasion has the same stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notice {
    pub kind: NoticeKind,
    /// When it began; identifies the occasion together with the agent's name.
    pub stamp: i128,
}

impl Notice {
    /// The death of a process. Its start time identifies the occasion as well as its end would.
    pub fn of_death(process: &Process) -> Self {
        Self { kind: NoticeKind::Died, stamp: i128::from(process.start) << 32 | i128::from(process.pid) }
    }

    /// Identifies the occasion across restarts. Safe as a file name.
    pub fn key(self, agent: &str) -> String {
        format!("{}-{}-{}", self.kind.as_str(), self.stamp, name_in_key(agent))
    }
}

/// The agent's name in the keys of its notices. A message's name has room for forty characters of it, so a longer one
/// ends in a hash of the whole; two agents whose names begin alike stay distinct.
pub fn name_in_key(agent: &str) -> Cow<'_, str> {
    const MAX: usize = 40;
    if agent.len() <= MAX {
        return Cow::Borrowed(agent);
    }
    let hash = fnv1a(agent.as_bytes()) & 0xffff_ffff;
    let begin: String = agent.chars().take(MAX - 9).collect();
    Cow::Owned(format!("{begin}-{hash:08x}"))
}

/// Whether the user muted these notices: `mute` lists `agent:kind`, and either part may be `*`.
pub fn is_muted(mute: &str, agent: &str, kind: NoticeKind) -> bool {
    let is = |pattern: &str, word: &str| pattern == "*" || pattern == word;
    mute.split([',', ' '])
        .filter_map(|rule| rule.split_once(':'))
        .any(|(who, what)| is(who, agent) && is(what, kind.as_str()))
}

/// The client process whose exit is the agent's death.
pub fn client_of<'a>(agent: &'a Agent, session: Option<&'a Session>) -> Option<&'a Process> {
    session.and_then(|s| s.process.as_ref()).or(agent.process.as_ref())
}

/// The facts that decide a notice.
#[derive(Debug, Clone, Copy)]
pub struct NoticeFacts<'a> {
    /// Its client or its supervisor runs.
    pub live: bool,
    /// It ended properly or was stopped for good.
    pub ended: bool,
    pub turn: Turn,
    pub turn_since: Option<Timestamp>,
    /// When the agent first hit its current usage limit; hitting it again is not news.
    pub limit_since: Option<Timestamp>,
    /// The turn ended in an error.
    pub failed: bool,
    /// When the agent reported its task finished.
    pub done: Option<Timestamp>,
    /// Since when a handoff is pending or a fresh context is on its way.
    pub rotating: Option<Timestamp>,
    /// The event that the pending handoff waits for, and since when it is pending.
    pub pending: Option<(Pending, Timestamp)>,
    /// Since when it gets no further context until a person speaks.
    pub stopped: Option<Timestamp>,
    pub process: Option<&'a Process>,
}

/// The step to take now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    Nothing,
    /// Look again at this time.
    At(Timestamp),
    Now(Notice),
}

pub fn due(facts: &NoticeFacts<'_>, now: Timestamp) -> Due {
    if facts.ended {
        return Due::Nothing;
    }
    if !facts.live {
        return facts.process.map_or(Due::Nothing, |process| Due::Now(Notice::of_death(process)));
    }
    let kind = match facts.turn {
        Turn::Idle if facts.failed => NoticeKind::Error,
        Turn::Idle => NoticeKind::Idle,
        Turn::Blocked => NoticeKind::Blocked,
        Turn::Limit => NoticeKind::Limit,
        Turn::Working => return Due::Nothing,
    };
    // A session without any turn has not ended one.
    let Some(since) = facts.turn_since else { return Due::Nothing };
    if kind == NoticeKind::Idle
        && let Some((pending, at)) = facts.pending
    {
        return pending_due(pending, at, since, now);
    }
    if kind == NoticeKind::Idle
        && let Some(at) = facts.stopped
    {
        return Due::Now(Notice { kind: NoticeKind::HandoffPending, stamp: at.as_nanosecond() });
    }
    let fence = facts.rotating.filter(|_| kind == NoticeKind::Idle).and_then(|at| at.checked_add(FENCE).ok());
    match since.checked_add(SETTLE).map(|settled| fence.map_or(settled, |fence| fence.max(settled))) {
        Ok(settled) if settled > now => Due::At(settled),
        // The first process to see it sends it: the hook at the end of that turn uses the same stamp.
        _ => Due::Now(if let Some(at) = facts.done.filter(|_| kind == NoticeKind::Idle) {
            Notice { kind: NoticeKind::Done, stamp: at.as_nanosecond() }
        } else {
            let occasion = facts.limit_since.filter(|_| kind == NoticeKind::Limit).unwrap_or(since);
            Notice { kind, stamp: occasion.as_nanosecond() }
        }),
    }
}

/// A handoff that waits for a person's next prompt is news after a moment; one that should proceed by itself is news
/// when it takes longer than a rotation.
fn pending_due(pending: Pending, at: Timestamp, since: Timestamp, now: Timestamp) -> Due {
    let settled = since.checked_add(SETTLE).unwrap_or(since);
    let tell_at = match pending {
        Pending::NextPrompt => settled,
        // We may learn only a moment later that the person pressed Esc.
        _ if now < settled => return Due::At(settled),
        _ => at.checked_add(FENCE).map_or(settled, |fence| fence.max(settled)),
    };
    if now < tell_at {
        return Due::At(tell_at);
    }
    Due::Now(Notice { kind: NoticeKind::HandoffPending, stamp: at.as_nanosecond() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::halt::Audience;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(1_794_790_000_000 + millis).unwrap()
    }

    fn facts(turn: Turn) -> NoticeFacts<'static> {
        NoticeFacts {
            live: true,
            ended: false,
            turn,
            turn_since: Some(at(0)),
            limit_since: None,
            failed: false,
            done: None,
            rotating: None,
            pending: None,
            stopped: None,
            process: None,
        }
    }

    #[test]
    fn an_idle_agent_is_news_once_it_has_been_idle_for_a_moment() {
        let idle = facts(Turn::Idle);
        assert_eq!(due(&idle, at(100)), Due::At(at(2_000)));
        let Due::Now(first) = due(&idle, at(2_000)) else { panic!() };
        let Due::Now(later) = due(&idle, at(90_000)) else { panic!() };
        assert_eq!((first, first.kind), (later, NoticeKind::Idle), "one occasion, however often one looks");
        let Due::Now(next) = due(&NoticeFacts { turn_since: Some(at(1)), ..idle }, at(9_000)) else {
            panic!()
        };
        assert_ne!(next, first);
    }

    #[test]
    fn a_finished_task_is_one_occasion_and_takes_the_place_of_idle() {
        let done = NoticeFacts { done: Some(at(-500)), ..facts(Turn::Idle) };
        let Due::Now(told) = due(&done, at(9_000)) else { panic!() };
        assert_eq!(told, Notice { kind: NoticeKind::Done, stamp: at(-500).as_nanosecond() });
        let failed = NoticeFacts { failed: true, ..done };
        assert!(matches!(due(&failed, at(9_000)), Due::Now(Notice { kind: NoticeKind::Error, .. })));
        let text = completion_text("reviewer", "PR 212 is green", "All 41 tests pass.");
        assert_eq!(
            text,
            "[baton] reviewer is done: PR 212 is green\nIts last answer begins:\nAll 41 tests pass."
        );
        assert_eq!(completion_text("reviewer", "", ""), "[baton] reviewer is done.");
    }

    #[test]
    fn a_rotation_causes_no_stop_or_idle_notification() {
        let rotating = NoticeFacts { rotating: Some(at(10)), ..facts(Turn::Idle) };
        assert_eq!(due(&rotating, at(60_000)), Due::At(at(120_010)));
        assert!(matches!(due(&rotating, at(120_010)), Due::Now(_)), "the fresh context never came");
        // A fresh context before its first prompt.
        assert_eq!(due(&NoticeFacts { turn_since: None, ..facts(Turn::Idle) }, at(60_000)), Due::Nothing);
        // A dialog counts, whatever else is on its way.
        assert!(matches!(
            due(&NoticeFacts { rotating: Some(at(10)), ..facts(Turn::Blocked) }, at(60_000)),
            Due::Now(_)
        ));
    }

    #[test]
    fn a_pending_handoff_that_waits_for_a_person_is_news_and_idleness_is_not() {
        let waits = |pending| NoticeFacts {
            pending: Some((pending, at(10))),
            rotating: Some(at(10)),
            ..facts(Turn::Idle)
        };
        let Due::Now(told) = due(&waits(Pending::NextPrompt), at(2_000)) else { panic!() };
        assert_eq!(told, Notice { kind: NoticeKind::HandoffPending, stamp: at(10).as_nanosecond() });
        assert_eq!(due(&waits(Pending::Due), at(100)), Due::At(at(2_000)), "the person may have said stop");
        assert_eq!(due(&waits(Pending::Due), at(2_000)), Due::At(at(120_010)));
        assert_eq!(due(&waits(Pending::Due), at(120_010)), Due::Now(told), "it cannot be sealed");
        let text = NoticeKind::HandoffPending.text("q1", &Pending::NextPrompt.text("12:03", Audience::Agent));
        assert!(
            text.starts_with("[baton] q1 is idle: handoff pending since 12:03, waits for the user's next"),
            "{text}"
        );
    }

    #[test]
    fn a_death_causes_a_notice_and_a_normal_end_does_not() {
        let process = Process { pid: 7, start: 9, boot: "b".into() };
        let dead = NoticeFacts { live: false, process: Some(&process), ..facts(Turn::Working) };
        assert!(matches!(due(&dead, at(0)), Due::Now(Notice { kind: NoticeKind::Died, .. })));
        assert_eq!(due(&NoticeFacts { ended: true, ..dead }, at(0)), Due::Nothing);
        assert_eq!(due(&facts(Turn::Working), at(60_000)), Due::Nothing);
        assert!(matches!(
            due(&facts(Turn::Limit), at(60_000)),
            Due::Now(Notice { kind: NoticeKind::Limit, .. })
        ));
        let failed = NoticeFacts { failed: true, ..facts(Turn::Idle) };
        assert!(matches!(due(&failed, at(60_000)), Due::Now(Notice { kind: NoticeKind::Error, .. })));
    }

    /// Regression: a limit without a named end woke a parent every half hour.
    #[test]
    fn a_limit_that_is_met_again_and_again_is_one_occasion() {
        let limit = NoticeFacts { limit_since: Some(at(0)), ..facts(Turn::Limit) };
        let Due::Now(first) = due(&limit, at(9_000)) else { panic!() };
        let again = NoticeFacts { turn_since: Some(at(300_000)), ..limit };
        assert_eq!(due(&again, at(309_000)), Due::Now(first));
        let Due::Now(other) = due(&NoticeFacts { limit_since: Some(at(300_000)), ..again }, at(309_000))
        else {
            panic!()
        };
        assert_ne!(other, first);
    }

    #[test]
    fn a_clock_that_was_set_back_delays_nothing_for_ever() {
        let ahead = NoticeFacts { turn_since: Some(at(3_600_000)), ..facts(Turn::Idle) };
        assert!(matches!(due(&ahead, at(0)), Due::At(_)));
    }

    #[test]
    fn a_beginning_is_short_and_holds_no_secret_however_it_is_cut() {
        assert_eq!(beginning("  Done.\n"), "Done.");
        let key = format!("sk-ant-api03-{}", "aB3x".repeat(24));
        for before in [0, 440, 480, 499] {
            let told = beginning(&format!("{} {key} and more {}", "x".repeat(before), "y".repeat(600)));
            assert!(!told.contains("sk-ant-api03-aB3x"), "{before}: {told}");
            assert!(told.chars().count() <= BEGINNING + 1 && told.ends_with('…'), "{before}");
        }
    }

    #[test]
    fn a_long_name_has_a_short_key_of_its_own() {
        let notice = Notice { kind: NoticeKind::HandoffFailed, stamp: i128::from(u64::MAX) << 10 };
        let (one, other) = ("a".repeat(128), format!("{}b", "a".repeat(127)));
        assert_ne!(notice.key(&one), notice.key(&other));
        assert!(notice.key(&one).len() <= 80, "{}", notice.key(&one));
        assert_eq!(name_in_key("app-oak"), "app-oak");
    }

    #[test]
    fn kinds_are_muted_per_agent() {
        let mute = "reviewer:idle, *:compacted docs:*";
        for (agent, kind, muted) in [
            ("reviewer", NoticeKind::Idle, true),
            ("reviewer", NoticeKind::Died, false),
            ("lead", NoticeKind::Compacted, true),
            ("docs", NoticeKind::Blocked, true),
            ("lead", NoticeKind::Idle, false),
        ] {
            assert_eq!(is_muted(mute, agent, kind), muted, "{agent} {kind:?}");
        }
    }
}
