//! Whose move it is in a session: what its hooks recorded, corrected by what only the transcript shows.
//!
//! Esc fires no hook. In the middle of a turn it leaves a record in the transcript. Before the turn has begun it takes
//! the prompt back into the composer: our hook has recorded a turn by then, and the client tells nobody.

use std::borrow::Cow;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use baton_core::session::{Session, Turn};
use jiff::{SignedDuration, Timestamp};

use crate::mail::maildir::Mail;
use crate::mail::shown::{self, Reach, Verdict};
use crate::providers::face::{self, Typing};
use crate::sessions::claim;
use crate::sessions::context::Context;
use crate::sys::fs;

/// How long the client may take to begin the turn of a prompt that our hook has seen: other hooks may see it too.
const BEGIN: SignedDuration = SignedDuration::from_secs(10);
/// The same for callers that record the end of that turn: a wrong record would tell a parent that its child is idle.
const UNTOLD: SignedDuration = SignedDuration::from_secs(30);
/// How long a client may take to write what it is given. Two prompts may come within tenths of a second.
const WRITTEN: SignedDuration = SignedDuration::from_secs(3);
/// How much of the transcript's end to search for the last record of the conversation. Behind the first prompt of a
/// context the client writes tens of kilobytes about tools and skills.
const ENDS: [u64; 2] = [16 << 10, 256 << 10];

/// Whose move it is. A transcript that cannot be read corrects nothing.
pub(crate) fn observed(session: &Session, now: Timestamp) -> Turn {
    let is_over =
        is_interrupted(session) || (session.turn == Turn::Working && is_taken_back(session, BEGIN, now));
    if is_over { Turn::Idle } else { session.turn }
}

/// Whether the turn is over by the transcript, and no hook will ever report it.
pub(crate) fn has_ended_untold(session: &Session, now: Timestamp) -> bool {
    is_interrupted(session) || (session.turn == Turn::Working && is_taken_back(session, UNTOLD, now))
}

/// When a turn that the hooks saw begin can be recognised as taken back.
pub(crate) fn untold_from(session: &Session) -> Option<Timestamp> {
    let since = session.turn_since.filter(|_| session.turn == Turn::Working);
    since.and_then(|since| since.checked_add(UNTOLD).ok())
}

/// Who settles what hooks gave with prompts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settler {
    /// A hook that runs at every prompt or tool call: it searches little, and gives no handoff back, which syncs.
    Hot,
    /// Anybody else.
    Calm,
    /// Whoever finds that the conversation has ended: nothing more will be written.
    Last,
}

/// Settles what hooks gave with prompts, as far as that is possible by now: the transcript shows it, or Esc took its
/// prompt back and the client dropped it. Then messages are queued again, and the next prompt loads the handoff again.
/// Returns the session with these changes.
pub(crate) fn settled<'a>(ctx: &Context, session: &'a Session, settler: Settler) -> Cow<'a, Session> {
    if session.given.is_empty() {
        return Cow::Borrowed(session);
    }
    let is_recent = session.turn_since.is_some_and(|since| ctx.now < since + WRITTEN);
    match settler {
        Settler::Hot if is_recent => Cow::Borrowed(session),
        _ => {
            let is_early = is_recent && settler == Settler::Calm;
            Cow::Owned(settle_given(ctx, session.clone(), settler, is_early))
        }
    }
}

/// `is_early`: the client may not have written it yet.
#[cold]
fn settle_given(ctx: &Context, mut session: Session, settler: Settler, is_early: bool) -> Session {
    let reach = if settler == Settler::Hot { Reach::Hot } else { Reach::Far };
    let verdict = shown::since_given(&ctx.store, &session, reach);
    let (mut settled, mut given_back) = (Vec::new(), None);
    for id in &session.given {
        let is_over = match (verdict(id), session.claim.as_ref().filter(|claim| claim.as_str() == id)) {
            (Verdict::Shown, _) => true,
            (Verdict::Unknown, _) => false,
            (Verdict::Dropped, _) if is_early => false,
            (Verdict::Dropped, Some(claim)) => {
                let is_back = settler != Settler::Hot && claim::give_back(ctx, &session, claim);
                given_back = Some(claim.clone()).filter(|_| is_back);
                is_back
            }
            (Verdict::Dropped, None) => queue_again(ctx, &session, id),
        };
        settled.extend(is_over.then(|| id.clone()));
    }
    if !settled.is_empty() {
        let settle = |s: &mut Session| {
            s.settle(&settled);
            if given_back.is_some() && s.claim == given_back {
                (s.claim, s.continues, s.unloaded) = (None, None, true);
            }
        };
        settle(&mut session);
        ctx.update(&session, settle);
        // A handoff that the transcript shows has been read.
        if claim::has_acted(&session) {
            claim::consume(ctx, &session);
        }
    }
    session
}

fn queue_again(ctx: &Context, session: &Session, id: &str) -> bool {
    let queued = Mail::of(&ctx.store).requeue(&session.agent, id, "its prompt was taken back", ctx.now);
    if let Err(e) = &queued {
        ctx.fault("queue a message again", e);
    }
    queued.is_ok()
}

/// Whether the transcript ends with the interruption of this very turn.
fn is_interrupted(session: &Session) -> bool {
    let Some(typing) = face::of(&session.provider) else { return false };
    matches!(session.turn, Turn::Working | Turn::Blocked)
        && last_words(session, typing).ok().flatten().is_some_and(|line| {
            let is_earlier = session.turn_since.zip(stamp(&line)).is_some_and(|(since, at)| at < since);
            line.contains(typing.interrupted) && !is_earlier
        })
}

/// Whether Esc took the prompt back before its turn began: after `patience` the transcript shows nothing of the turn.
fn is_taken_back(session: &Session, patience: SignedDuration, now: Timestamp) -> bool {
    let (Some(path), Some(since)) = (session.transcript.as_deref(), session.turn_since) else { return false };
    // Nobody presses Esc there, and it may keep no transcript.
    if session.headless {
        return false;
    }
    let Some(typing) = face::of(&session.provider) else { return false };
    if since.checked_add(patience).is_ok_and(|until| now < until) {
        return false;
    }
    // A prompt that was typed into a running turn waits in the client's queue. What the model has said in that turn does
    // not belong to an earlier one.
    let at_work = session.at_work_since.unwrap_or(since);
    let is_still = match std::fs::metadata(path).and_then(|found| found.modified()) {
        // The client makes the file with the first turn.
        Err(e) => return e.kind() == std::io::ErrorKind::NotFound,
        Ok(at) => Timestamp::try_from(at).is_ok_and(|at| at < at_work),
    };
    match last_words(session, typing) {
        Err(_) => false,
        // A client that has only just begun notes its settings.
        Ok(None) => true,
        Ok(Some(line)) => {
            let has = |marks: &[&str]| marks.iter().any(|mark| line.contains(mark));
            // The client stamps a prompt before our hook sees it, so only the stamp of an earlier turn's end counts.
            let is_interruption = line.contains(typing.interrupted);
            let is_end = !has(typing.prompts) || is_interruption;
            let begin = if is_interruption { since } else { at_work };
            let is_earlier = is_end && stamp(&line).is_some_and(|at| at < begin);
            // A turn that continues after a permission was given writes nothing either, while its tool runs.
            !has(typing.tools) && (is_still || is_earlier)
        }
    }
}

/// When a record was written, if it says so.
fn stamp(record: &str) -> Option<Timestamp> {
    #[derive(serde::Deserialize)]
    struct Stamped {
        timestamp: Timestamp,
    }
    serde_json::from_str::<Stamped>(record).ok().map(|record| record.timestamp)
}

/// The record of the prompt, if the turn runs by the hooks and the transcript ends with that prompt and has not grown
/// for a while. Esc may come when the prompt is written already, and nothing has been sent to the model.
pub(crate) fn prompt_alone(session: &Session, now: Timestamp) -> Option<String> {
    let typing = face::of(&session.provider)?;
    let grew = std::fs::metadata(session.transcript.as_deref()?).and_then(|found| found.modified()).ok()?;
    let is_quiet =
        session.turn == Turn::Working && Timestamp::try_from(grew).is_ok_and(|at| at + BEGIN <= now);
    let last = is_quiet.then(|| last_words(session, typing).ok().flatten()).flatten()?;
    let has = |marks: &[&str]| marks.iter().any(|mark| last.contains(mark));
    (has(typing.prompts) && !has(typing.tools)).then_some(last)
}

/// The last record of the user or the model; the client's own notes may follow it.
fn last_words(session: &Session, typing: &Typing) -> std::io::Result<Option<String>> {
    let Some(path) = session.transcript.as_deref() else { return Ok(None) };
    let mut file = fs::open_read(Path::new(path))?;
    let size = file.metadata()?.len();
    for end in ENDS {
        let from = size.saturating_sub(end);
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(from))?;
        (&mut file).take(end).read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes);
        // The first line is cut off unless it is the file's.
        let whole = if from == 0 { &text } else { text.split_once('\n').map_or("", |(_, whole)| whole) };
        let has = |line: &str, marks: &[&str]| marks.iter().any(|mark| line.contains(mark));
        let last = whole.lines().rev().find(|line| has(line, typing.speaks) && !has(line, typing.notes));
        if last.is_some() || from == 0 {
            return Ok(last.map(str::to_owned));
        }
    }
    Err(std::io::Error::other("the last record is longer than what is read"))
}

#[cfg(test)]
mod tests {
    use baton_core::ids::{AgentId, ChannelName, SessionId};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    /// A session at work since second 0, whose transcript ends with this record, made at that second.
    fn at_work(dir: &tempfile::TempDir, record: &str, second: i64) -> Session {
        let path = dir.path().join("t.jsonl");
        let record = record.replace("AT", &at(second).to_string());
        std::fs::write(&path, record + "\n").unwrap();
        let file = std::fs::File::options().append(true).open(&path).unwrap();
        file.set_modified(at(second).into()).unwrap();
        let mut session = Session::new(
            SessionId::new("s1").unwrap(),
            "claude",
            AgentId::new("alpha").unwrap(),
            ChannelName::new("app").unwrap(),
            at(-60),
            "startup",
        );
        session.transcript = Some(path.display().to_string());
        (session.turn, session.turn_since) = (Turn::Working, Some(at(0)));
        session
    }

    fn prompted(mut session: Session, second: i64) -> Session {
        (session.at_work_since, session.turn_since) = (session.turn_since, Some(at(second)));
        session
    }

    const SAID: &str =
        r#"{"type":"assistant","timestamp":"AT","message":{"content":[{"type":"text","text":"I"}]}}"#;
    const ESC: &str = r#"{"type":"user","timestamp":"AT","message":{"content":[{"type":"text","text":"[Request interrupted by user]"}]}}"#;

    #[test]
    fn a_turn_into_which_a_person_types_is_not_over_however_long_the_model_is_silent() {
        let dir = tempfile::tempdir().unwrap();
        let session = prompted(at_work(&dir, SAID, 5), 10);
        assert!(!has_ended_untold(&session, at(3_600)));
        assert_eq!(observed(&session, at(3_600)), Turn::Working);
    }

    #[test]
    fn a_prompt_after_esc_begins_a_turn_unless_esc_takes_it_back_too() {
        let dir = tempfile::tempdir().unwrap();
        let session = at_work(&dir, ESC, 5);
        assert!(has_ended_untold(&session, at(6)));
        let session = prompted(session, 10);
        assert!(!has_ended_untold(&session, at(39)), "its first record may still come");
        assert!(has_ended_untold(&session, at(40)));
    }

    #[test]
    fn the_second_of_two_prompts_that_esc_took_back_is_recognised_as_the_first_is() {
        let dir = tempfile::tempdir().unwrap();
        let session = at_work(&dir, SAID, -5);
        assert!(!has_ended_untold(&session, at(29)) && has_ended_untold(&session, at(30)));
        let session = prompted(session, 10);
        assert!(!has_ended_untold(&session, at(39)) && has_ended_untold(&session, at(40)));
    }
}
