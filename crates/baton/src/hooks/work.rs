//! After a prompt and after a tool call: measures, sends the text that is due, delivers mail.

use std::borrow::Cow;

use baton_core::gauge::Gauge;
use baton_core::handoff::Kind;
use baton_core::latch::Say;
use baton_core::message;
use baton_core::prompt;
use baton_core::say;
use baton_core::session::{Session, Turn};
use baton_core::speaker::{self, Speaker};

use crate::handoffs::attach::PendingFiles;
use crate::handoffs::seal::{self, Sealing};
use crate::hooks::answer::{Answer, output};
use crate::mail::deliver::{self, Occasion};
use crate::mail::maildir::Mail;
use crate::rotation::request::{self, When, Wish};
use crate::sessions::claim::{self, StartContext};
use crate::sessions::context::Context;
use crate::sessions::done;
use crate::sessions::gauge::{measure, transcript_len};
use crate::sessions::nudge;
use crate::sessions::turn::{self, Settler};
use crate::sys::deadline::{self, Deadline};

pub(super) fn prompted(ctx: &Context, session: &Session, text: &str) -> Answer {
    let settled =
        if session.given.is_empty() { Cow::Borrowed(session) } else { prompted_again(ctx, session) };
    if settled.unloaded {
        return prompted_late(ctx, settled.into_owned(), text);
    }
    let session = &*settled;
    begin(ctx, session, text);
    carry(ctx, session, "UserPromptSubmit", StartContext::default(), waiting(ctx, session).map(|f| (f, text)))
}

/// Esc may have taken the previous prompt back, which no hook reports. Then what came with it is given again.
#[cold]
fn prompted_again<'a>(ctx: &Context, session: &'a Session) -> Cow<'a, Session> {
    if !session.is_claim_unsettled() {
        return turn::settled(ctx, session, Settler::Hot);
    }
    deadline::exit_after(Deadline::SEALING);
    turn::settled(ctx, session, Settler::Calm)
}

/// The session's start could not load its handoff, so this prompt does.
#[cold]
fn prompted_late(ctx: &Context, mut session: Session, text: &str) -> Answer {
    deadline::exit_after(Deadline::SEALING);
    // Load before the turn begins: a context at work without its handoff ends the rotation.
    let given = claim::give_late(ctx, &mut session);
    begin(ctx, &session, text);
    let files = waiting(ctx, &session).map(|files| (files, text));
    carry(ctx, &session, "UserPromptSubmit", given, files)
}

/// Records that a turn begins, what its prompt shows, and that the session has its handoff.
fn begin(ctx: &Context, session: &Session, text: &str) {
    let words = if let Speaker::Person(words) = speaker::speaker(text) { Some(words) } else { None };
    if words.is_some()
        && let Err(e) = request::person_spoke(&ctx.store, session)
    {
        ctx.fault("reset the count of rotations", &e);
    }
    // Begin the turn before mail is marked as seen: an idle agent without mail seems to have nothing to do.
    ctx.begin_turn(session, words);
    // A prompt that shows messages confirms that they have arrived.
    let shown =
        if text.contains(message::HEAD) { message::shown_in(text, &ctx.store.fence()) } else { Vec::new() };
    for id in &shown {
        let evidence = format!("prompt of session {}", session.id);
        Mail::of(&ctx.store).seen(&session.agent, id, &evidence, ctx.now);
    }
    if !shown.is_empty() {
        let len = transcript_len(session);
        ctx.update(session, |s| s.give(shown.iter().map(|id| (*id).to_owned()), len));
    }
    if session.done.is_some() {
        let mail = Mail::of(&ctx.store);
        let messages: Vec<_> =
            shown.iter().filter_map(|id| Some(mail.delivered_one(&session.agent, id)?.0)).collect();
        done::prompted(ctx, session, words.is_some(), &messages);
    }
    if session.turn_since.is_none() || !shown.is_empty() || !session.asked_by.is_empty() {
        note_askers(ctx, session, text, &shown);
    }
    claim::consume(ctx, session);
}

/// The files of the handoff with which this session has just begun, to show at its first sign of life.
fn waiting(ctx: &Context, session: &Session) -> Option<PendingFiles> {
    session.claim.as_ref().and_then(|_| PendingFiles::take(&ctx.store, &session.id))
}

/// Records who asked for the turn that begins.
#[cold]
fn note_askers(ctx: &Context, session: &Session, text: &str, shown: &[&str]) {
    let mut askers = Vec::new();
    if session.turn_since.is_none() {
        askers = first_askers(ctx, session);
    } else if !speaker::is_from_a_person(text) && shown.is_empty() && text.trim() != prompt::MAIL_WAITING {
        // The client continues by itself with its earlier request.
        askers.clone_from(&session.asked_by);
    }
    let mail = Mail::of(&ctx.store);
    askers.extend(shown.iter().filter_map(|id| Some(mail.delivered_one(&session.agent, id)?.0.from)));
    askers.dedup();
    if askers != session.asked_by {
        ctx.update(session, |s| s.asked_by = askers);
    }
}

/// The askers of the first turn of a conversation: the agent's spawner, or the askers of the previous conversation.
fn first_askers(ctx: &Context, session: &Session) -> Vec<String> {
    let Some(agent) = ctx.agent(&session.agent) else { return Vec::new() };
    let before = agent.since_anew().iter().rev().find(|id| **id != session.id);
    match before.map(|id| ctx.store.sessions().get(id)) {
        Some(Ok(Some(before))) => before.asked_by,
        None if agent.pane.as_ref().is_some_and(|pane| pane.spawned) || agent.parent.is_some() => {
            vec![agent.parent.map_or_else(|| "user".to_owned(), |parent| parent.to_string())]
        }
        Some(_) | None => Vec::new(),
    }
}

pub(super) fn tool_used(ctx: &Context, session: &Session, failed: bool) -> Answer {
    // A tool that ran is work, even after a permission dialog or if we saw no prompt.
    ctx.set_turn(session, Turn::Working);
    let settled = turn::settled(ctx, session, Settler::Hot);
    let session = &*settled;
    claim::consume(ctx, session);
    let event = if failed { "PostToolUseFailure" } else { "PostToolUse" };
    carry(ctx, session, event, StartContext::default(), waiting(ctx, session).map(|files| (files, "")))
}

/// Measures, and composes the answer: a late handoff, nudges, mail, and last the files of a handoff, unless its first
/// prompt mentions them.
fn carry(
    ctx: &Context,
    session: &Session,
    event: &str,
    given: StartContext,
    files: Option<(PendingFiles, &str)>,
) -> Answer {
    let measured = measure(ctx, session);
    let gauge = &measured.gauge;
    let mut line = ctx.line(event, session);
    line.detail = serde_json::json!({ "tokens": gauge.reading.map(|r| r.tokens), "level": gauge.level });
    if event != "UserPromptSubmit" && is_at_ceiling(ctx, session, gauge) {
        line.detail["ceiling"] = serde_json::json!(true);
        ctx.log(&line);
        return Answer::say(cut(ctx, session, event));
    }
    let said = nudge::due(ctx, session, gauge);
    if let Some((say, _)) = &said {
        line.detail["said"] = serde_json::json!(format!("{say:?}").to_lowercase());
    }
    if let Some(handoff) = &given.handoff {
        line.detail["handoff"] = serde_json::json!(handoff);
    }
    let mut parts: Vec<String> = given.context.into_iter().collect();
    let mut message = given.message;
    if let Some((say, surroundings)) = said {
        let (text, user) = surroundings.with(|s| match say {
            Say::Advisory => (say::advisory(s), None),
            Say::Request => {
                nudge::prepare_folder(ctx, session);
                (say::request(s), Some(say::user_requested(s)))
            }
        });
        parts.push(text);
        message = user.or(message);
    }
    let used: usize = parts.iter().map(|p| p.chars().count()).sum();
    let room = ctx.provider.hooks.budget.saturating_sub(used);
    let occasion = if event == "UserPromptSubmit" { Occasion::Pause } else { Occasion::ToolCall };
    let mail = deliver::claim(&ctx.store, session, occasion, room, ctx.now);
    parts.extend(deliver::framed(&ctx.store, &mail));
    if !mail.is_empty() {
        if session.done.is_some() {
            let messages: Vec<_> = mail.iter().map(|claimed| claimed.message.clone()).collect();
            done::prompted(ctx, session, false, &messages);
        }
        ctx.update(session, |s| {
            if event == "UserPromptSubmit" {
                s.give(mail.iter().map(|claimed| claimed.message.id.clone()), measured.transcript_len);
            }
            for asker in mail.iter().map(|m| &m.message.from) {
                if asker != "baton" && !s.asked_by.contains(asker) {
                    s.asked_by.push(asker.clone());
                }
            }
        });
        line.detail["mail"] = serde_json::json!(mail.iter().map(|m| &m.message.id).collect::<Vec<_>>());
    }
    if let Some((files, prompt)) = files {
        let used: usize = parts.iter().map(|part| part.chars().count() + 2).sum();
        let room = ctx.provider.hooks.files_budget.saturating_sub(used);
        parts.extend(files.beside(&ctx.store, &ctx.config, prompt, room));
    }
    ctx.log(&line);
    let context = (!parts.is_empty()).then(|| parts.join("\n\n"));
    Answer { text: output(event, context, message), mail }
}

/// Whether the context is so full that the turn must be cut, and somebody can cut it.
fn is_at_ceiling(ctx: &Context, session: &Session, gauge: &Gauge) -> bool {
    let Some(ceiling) = ctx.config.run.ceiling_percentage else { return false };
    gauge.reading.is_some_and(|r| r.percentage() >= ceiling) && {
        ctx.agent(&session.agent).is_some_and(|agent| {
            agent.rotation.as_ref().is_none_or(|r| r.session != session.id)
                && ctx.store.presence(&agent).is_supervised()
        })
    }
}

/// At the hard ceiling, seals what the transcript proves and requests the fresh context at once.
#[cold]
fn cut(ctx: &Context, session: &Session, event: &str) -> Option<String> {
    let sealing = Sealing { session, kind: Kind::Auto, narrative: None, for_self: true };
    let asked = seal::seal(&ctx.store, &ctx.config, &sealing, ctx.now).and_then(|sealed| {
        let id = sealed.entry.id;
        let wish = Wish { by: "the hard ceiling", when: When::AtOnce, file: None };
        request::request(&ctx.store, &ctx.config, session, &id, &wish, ctx.now)?;
        Ok(id)
    });
    match asked {
        Ok(id) => output(event, None, Some(say::user_sealed(id.as_str(), true))),
        Err(e) => {
            ctx.fault("rotate at the hard ceiling", &e);
            None
        }
    }
}
