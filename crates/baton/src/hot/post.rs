//! After a prompt and after a tool call: measure, say what is due, hand over mail.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use baton_core::compaction::CompactionPoint;
use baton_core::handoff::Kind;
use baton_core::ids::AgentId;
use baton_core::latch::Say;
use baton_core::reading::{Reading, percent};
use baton_core::say::{self, Situation};
use baton_core::session::{Gauge, Session, Turn};

use super::hook;
use super::hook::{Answer, output, update};
use super::measure::measure;
use super::scene::Scene;
use crate::offer;
use crate::rotate::{self, When};
use crate::sealing::{self, Sealing};
use crate::store::mail::Claimed;
use crate::sys::process;

/// How far back a transcript is searched for a message.
const RECENT: u64 = 8 << 20;

pub fn prompt(scene: &Scene, session: &Session, text: &str) -> Answer {
    if rotate::is_from_a_person(text) {
        rotate::person_spoke(&scene.store, session);
    }
    // Messages that were typed or submitted: here they are seen to have arrived.
    for id in baton_core::message::shown_in(text) {
        let evidence = format!("prompt of session {}", session.id);
        scene.store.mail().seen(&session.agent, id, &evidence, scene.now);
    }
    hook::turn(scene, session, Turn::Working);
    settle_claim(scene, session);
    carry(scene, session, "UserPromptSubmit")
}

pub fn tool(scene: &Scene, session: &Session, failed: bool) -> Answer {
    // A tool that ran is work, also after a permission dialog or when no prompt was seen.
    hook::turn(scene, session, Turn::Working);
    settle_claim(scene, session);
    carry(scene, session, if failed { "PostToolUseFailure" } else { "PostToolUse" })
}

/// Measures, and puts what is due in front of the agent.
fn carry(scene: &Scene, session: &Session, event: &str) -> Answer {
    let measured = measure(scene, session);
    let gauge = &measured.gauge;
    let mut line = scene.line(event, session);
    line.detail = serde_json::json!({ "tokens": gauge.reading.map(|r| r.tokens), "level": gauge.level });
    if event != "UserPromptSubmit" && is_at_ceiling(scene, session, gauge) {
        line.detail["ceiling"] = serde_json::json!(true);
        scene.log(&line);
        return Answer::say(cut(scene, session, event));
    }
    let said = due(scene, session, gauge);
    if let Some((say, _)) = &said {
        line.detail["said"] = serde_json::json!(format!("{say:?}").to_lowercase());
    }
    let mut parts = Vec::new();
    let mut message = None;
    if let Some((say, situation)) = said {
        let (text, user) = situation.with(|s| match say {
            Say::Advisory => (say::advisory(s), None),
            Say::Request => {
                offer::prepare(Path::new(&session.cwd));
                (say::request(s), Some(say::user_requested(s)))
            }
        });
        parts.push(text);
        message = user;
    }
    let mail = deliver(scene, session, parts.iter().map(|p| p.chars().count()).sum());
    parts.extend(mail.iter().map(framed));
    if !mail.is_empty() {
        line.detail["mail"] = serde_json::json!(mail.iter().map(|m| &m.message.id).collect::<Vec<_>>());
    }
    scene.log(&line);
    let context = (!parts.is_empty()).then(|| parts.join("\n\n"));
    Answer { text: output(event, context, message), mail }
}

/// Is the context so full that the turn must be cut, and can somebody cut it?
fn is_at_ceiling(scene: &Scene, session: &Session, gauge: &Gauge) -> bool {
    let Some(ceiling) = scene.config.run.ceiling_percentage else { return false };
    gauge.reading.is_some_and(|r| r.percentage() >= ceiling) && {
        let agent = scene.store.agents().get(&session.agent).ok().flatten();
        agent.is_some_and(|a| {
            a.rotation.is_none_or(|r| r.session != session.id)
                && a.supervisor.is_some_and(|s| process::is_alive(&s))
        })
    }
}

/// At the hard ceiling: what the transcript proves is sealed, and the fresh context comes at once.
#[cold]
fn cut(scene: &Scene, session: &Session, event: &str) -> Option<String> {
    let sealing = Sealing { session, kind: Kind::Auto, narrative: None, for_self: true };
    let asked = sealing::seal(&scene.store, &scene.config, &sealing, scene.now).and_then(|sealed| {
        let (id, by) = (sealed.entry.id, "the hard ceiling");
        rotate::request(&scene.store, &scene.config, session, &id, by, When::AtOnce, scene.now)?;
        Ok(id)
    });
    match asked {
        Ok(id) => output(event, None, Some(say::user_sealed(id.as_str(), true))),
        Err(e) => {
            scene.fault("rotate at the hard ceiling", &e);
            None
        }
    }
}

/// What the latches let through now. Looked at without a lock first, because the usual answer is nothing.
fn due(scene: &Scene, session: &Session, gauge: &Gauge) -> Option<(Say, OwnedSituation)> {
    let voice = scene.config.context.voice();
    session.latches.at_level(gauge.level, voice).1?;
    let say = update(scene, session, |s| {
        let (latches, say) = s.latches.at_level(gauge.level, voice);
        s.latches = latches;
        say
    })??;
    Some((say, OwnedSituation::new(scene, session, gauge)))
}

/// A situation with the text it borrows.
pub struct OwnedSituation {
    path: String,
    reading: Option<Reading>,
    transcript_bytes: u64,
    compaction: Option<u64>,
    turns_left: Option<u64>,
    critical_percentage: u8,
    rotatable: bool,
}

impl OwnedSituation {
    pub fn new(scene: &Scene, session: &Session, gauge: &Gauge) -> Self {
        let window = gauge.reading.map_or(scene.config.context.default_window, |r| r.window);
        let point = scene.compaction_point(session, gauge, window);
        let base = gauge.reading.map_or(0, |r| r.base);
        let limits = scene.config.context.thresholds().limits_from(base, window, point.end());
        let transcript = session.transcript.as_deref();
        Self {
            path: offer::handoff_path(Path::new(&session.cwd), &session.agent),
            reading: gauge.reading,
            transcript_bytes: transcript.and_then(|t| std::fs::metadata(t).ok()).map_or(0, |m| m.len()),
            compaction: match point {
                CompactionPoint::At { tokens, .. } => Some(tokens),
                CompactionPoint::Never { .. } => None,
            },
            turns_left: gauge.reading.and_then(|r| session.turn_ends.turns_left(point.distance(r.total()))),
            critical_percentage: percent(limits.critical.saturating_sub(base), window.saturating_sub(base)),
            rotatable: scene.is_rotatable(&session.agent),
        }
    }

    pub fn with<T>(&self, act: impl FnOnce(&Situation<'_>) -> T) -> T {
        act(&Situation {
            reading: self.reading,
            transcript_bytes: self.transcript_bytes,
            compaction: self.compaction,
            turns_left: self.turns_left,
            critical_percentage: self.critical_percentage,
            path: &self.path,
            rotatable: self.rotatable,
        })
    }
}

/// The first sign of life turns a claim into consumption.
pub fn settle_claim(scene: &Scene, session: &Session) {
    let Some(id) = &session.claim else { return };
    let mut handoffs = scene.store.handoffs(&scene.config);
    handoffs.patience = scene.patience();
    let pid = session.process.as_ref().map_or(0, |p| p.pid);
    match handoffs.consume(&session.channel, id, &session.id, pid, scene.now) {
        Ok(_) => {
            update(scene, session, |s| s.claim = None);
        }
        // The lock was taken; the next sign of life tries again.
        Err(e) => scene.fault("mark a handoff as consumed", &e),
    }
}

/// Claims queued mail while it fits behind `used` characters.
///
/// An agent that has handed over in this turn is about to forget what it hears: its mail waits for the fresh context.
pub fn deliver(scene: &Scene, session: &Session, used: usize) -> Vec<Claimed> {
    deliver_within(scene, session, scene.provider.hooks.budget.saturating_sub(used))
}

/// Claims queued mail while it fits into `room` characters.
pub fn deliver_within(scene: &Scene, session: &Session, mut room: usize) -> Vec<Claimed> {
    if session.request.is_some() {
        return Vec::new();
    }
    let mail = scene.store.mail();
    let mut claimed = Vec::new();
    let seen = |id: &str| shown(session, id);
    loop {
        match mail.claim(&session.agent, &seen) {
            Ok(Some(next)) => {
                let size = framed(&next).chars().count() + 2;
                if size > room {
                    if let Err(e) = mail.put_back(&next) {
                        scene.fault("queue a message again", &e);
                    }
                    return claimed;
                }
                room -= size;
                claimed.push(next);
            }
            Ok(None) => return claimed,
            Err(e) => {
                scene.fault("look for mail", &e);
                return claimed;
            }
        }
    }
}

pub fn framed(claimed: &Claimed) -> String {
    let text = claimed.message.framed(&claimed.path.display().to_string());
    baton_core::plain::plain(&text).into_owned()
}

/// A message that was handed over while the turn was being ended for it: what to say so that it is acted upon.
pub fn again(scene: &Scene, session: &Session, id: &str) -> Option<String> {
    let (message, path) = scene.store.mail().delivered_one(&session.agent, id)?;
    let text = if shown(session, id) {
        say::interrupted(&message.id, &message.from)
    } else {
        message.framed(&path.display().to_string())
    };
    Some(baton_core::plain::plain(&text).into_owned())
}

/// Does the transcript show this message? Asked only about one whose hook died while showing it.
pub fn shown(session: &Session, id: &str) -> bool {
    let Some(path) = session.transcript.as_deref() else { return false };
    let Ok(mut file) = crate::sys::fs::open_read(Path::new(path)) else { return false };
    // It was to be shown by the hook before this one, so it is near the end if it is there at all.
    let from = file.metadata().map_or(0, |m| m.len()).saturating_sub(RECENT);
    let mut bytes = Vec::new();
    let read = file.seek(SeekFrom::Start(from)).and_then(|_| file.take(RECENT).read_to_end(&mut bytes));
    read.is_ok() && memchr::memmem::find(&bytes, id.as_bytes()).is_some()
}

/// Tells another agent something about this one.
pub fn tell(scene: &Scene, to: &AgentId, text: &str) {
    let sent =
        scene.store.mail().send(to, "baton", text, baton_core::message::Urgency::Sequential, scene.now);
    if let Err(e) = sent {
        scene.fault("send mail to the parent", &e);
    }
}
