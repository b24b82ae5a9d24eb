//! A turn ends: seals the agent's handoff, asks for one once more, or seals one for it.

use baton_core::handoff::Kind;
use baton_core::latch::{AtStop, StopContext};
use baton_core::limit::{self, Parked};
use baton_core::notice;
use baton_core::plain::plain;
use baton_core::redact::redact;
use baton_core::say;
use baton_core::session::{PendingHandoff, Session, Turn};
use baton_core::wire::claude::output::HookOutput;
use serde_json::json;

use crate::handoffs::seal::{self, Sealing};
use crate::hooks::answer::{Answer, output};
use crate::mail::announce;
use crate::mail::deliver::{self, Occasion};
use crate::mail::maildir::{Claimed, Mail};
use crate::rotation::pending::{self, SealOutcome};
use crate::rotation::request::{self, When, Wish};
use crate::sessions::context::Context;
use crate::sessions::done;
use crate::sessions::gauge::measure;
use crate::sessions::nudge::{self, Surroundings};
use crate::sessions::turn::{self, Settler};
use crate::sessions::{claim, mirror};
use crate::sys::clock;

pub(super) fn stop(
    ctx: &Context,
    session: &Session,
    hook_active: bool,
    last_message: Option<&str>,
    background: Vec<String>,
) -> Answer {
    let settled = turn::settled(ctx, session, Settler::Calm);
    let session = &*settled;
    claim::consume(ctx, session);
    let measured = measure(ctx, session);
    mirror::turn_ended(ctx, session);
    let gauge = &measured.gauge;
    let voice = ctx.voice(session);
    // Whether somebody can give a fresh context matters only if there is something to do.
    let is_quiet = |s: &Session| {
        let context = StopContext { hook_active, rotatable: true };
        s.request.is_none() && s.latches.at_stop(gauge.level, voice, context).1 == AtStop::Nothing
    };
    let quiet = is_quiet(session);
    let rotatable = !quiet && (session.opens_window || ctx.is_rotatable(&session.agent));
    // The agent has handed over and can begin the fresh window itself, in this very turn.
    let window = ctx.provider.hooks.window.filter(|_| session.opens_window);
    let mut asks_for_window = false;
    let mail = if quiet { mail_at_the_end(ctx, session) } else { Vec::new() };
    let context = StopContext { hook_active, rotatable };
    let total = gauge.reading.as_ref().map(baton_core::reading::Reading::total);

    // One change of the record decides, so that only one of two concurrent Stops finds the latch open.
    let (request, then) = ctx
        .update(session, |s| {
            if s.turn == Turn::Working {
                s.last_turn_began = s.at_work_since.or(s.turn_since);
            }
            (s.turn, s.turn_since) = (Turn::Idle, Some(ctx.now));
            s.background.clone_from(&background);
            s.parked = None;
            if let Some(total) = total {
                s.turn_ends.push(total);
            }
            if let Some(request) = s.request.as_mut().filter(|r| window.is_some() && !r.window_asked) {
                (request.window_asked, asks_for_window) = (true, true);
                s.turn = Turn::Working;
                return (None, AtStop::Nothing);
            }
            if let Some(request) = pending::take(s, ctx.now) {
                return (Some(request), AtStop::Nothing);
            }
            let (latches, then) = s.latches.at_stop(gauge.level, voice, context);
            s.latches = latches;
            if matches!(then, AtStop::Seal { .. }) {
                s.sealing = Some(ctx.now);
            }
            // The hook's answer keeps the turn going.
            if matches!(then, AtStop::Ask { .. }) || (then == AtStop::Nothing && !mail.is_empty()) {
                s.turn = Turn::Working;
            }
            (None, then)
        })
        .unwrap_or((None, AtStop::Nothing));

    if let (true, Some(window)) = (asks_for_window, window) {
        let mut line = ctx.line("stop", session);
        line.detail = json!({ "asked": "to begin its fresh window" });
        ctx.log(&line);
        put_back(ctx, &mail);
        return Answer::say(HookOutput::new("Stop").block(say::window_waits(window.tool)).to_json());
    }
    let mail = if request.is_none() && then == AtStop::Nothing { mail } else { put_back(ctx, &mail) };
    let seals = request.is_some() || matches!(then, AtStop::Seal { .. });
    // This event lists the tasks that still run, and the sealed handoff names them.
    let told = seals.then(|| with_background(session, background));
    let session = told.as_deref().unwrap_or(session);
    let mut line = ctx.line("stop", session);
    line.detail = json!({ "tokens": gauge.reading.map(|r| r.tokens), "level": gauge.level });
    let answer = match (request, then) {
        (Some(request), _) => {
            line.detail["request"] = json!(request.path);
            hand_over(ctx, session, &request, last_message)
        }
        (None, AtStop::Ask { again }) => {
            line.detail["asked"] = json!(true);
            nudge::prepare_folder(ctx, session);
            let surroundings = Surroundings::new(ctx, session, gauge);
            let text = surroundings.with(|s| say::before_the_end(s, again));
            let answer = HookOutput::new("Stop");
            let hears = ctx.provider.hooks.hears_at_stop;
            if hears { answer.context(text) } else { answer.block(text) }.to_json()
        }
        (None, AtStop::Seal { rotate }) if ctx.seals(session) => {
            let answer = seal(ctx, session, last_message, rotate);
            ctx.update(session, |s| s.sealing = None);
            answer
        }
        (None, AtStop::Nothing) if !mail.is_empty() => {
            if session.done.is_some() {
                let messages: Vec<_> = mail.iter().map(|claimed| claimed.message.clone()).collect();
                done::prompted(ctx, session, false, &messages);
            }
            line.detail["mail"] = json!(mail.iter().map(|m| &m.message.id).collect::<Vec<_>>());
            output("Stop", Some(deliver::framed(&ctx.store, &mail).join("\n\n")), None)
        }
        (None, AtStop::Nothing | AtStop::Seal { .. }) => None,
    };
    ctx.log(&line);
    Answer { text: answer, mail }
}

#[cold]
fn with_background(session: &Session, background: Vec<String>) -> Box<Session> {
    Box::new(Session { background, ..session.clone() })
}

/// Requeues the messages, because another Stop meanwhile decided to say something else.
#[cold]
fn put_back(ctx: &Context, mail: &[Claimed]) -> Vec<Claimed> {
    for claimed in mail {
        if let Err(e) = Mail::of(&ctx.store).put_back(claimed) {
            ctx.fault("queue a message again", &e);
        }
    }
    Vec::new()
}

/// Mail that waited for this turn to end, if nobody could give it to the agent afterwards.
fn mail_at_the_end(ctx: &Context, session: &Session) -> Vec<Claimed> {
    if !ctx.provider.hooks.hears_at_stop || Mail::of(&ctx.store).waiting(&session.agent) == 0 {
        return Vec::new();
    }
    let is_reachable =
        ctx.agent(&session.agent).is_some_and(|agent| ctx.store.presence(&agent).is_reachable());
    if is_reachable {
        return Vec::new();
    }
    deliver::claim(&ctx.store, session, Occasion::Pause, ctx.provider.hooks.budget, ctx.now)
}

/// The agent ran `baton handoff` in this turn: seals its words with the facts, and requests a fresh context.
#[cold]
fn hand_over(
    ctx: &Context,
    session: &Session,
    request: &PendingHandoff,
    last_message: Option<&str>,
) -> Option<String> {
    let said = match pending::seal(ctx, session, request, "the agent", When::EndOfTurn, last_message) {
        SealOutcome::Sealed { handoff, rotatable } => sealed(session, handoff.as_str(), rotatable),
        SealOutcome::Failed(why) => format!("baton: the handoff was not sealed: {why}"),
    };
    output("Stop", None, Some(said))
}

/// The message for the user when a handoff is sealed. On a shared daemon the fresh context is not the conversation on
/// the screen.
fn sealed(session: &Session, id: &str, by_itself: bool) -> String {
    if by_itself && session.shared {
        say::user_sealed_elsewhere(id, session.agent.as_str())
    } else {
        say::user_sealed(id, by_itself)
    }
}

/// Seals what the transcript proves, because the agent was asked and did not answer.
#[cold]
fn seal(ctx: &Context, session: &Session, last_message: Option<&str>, rotate: bool) -> Option<String> {
    let sealing = Sealing { session, kind: Kind::Auto, narrative: None, for_self: true };
    match seal::seal_at_stop(&ctx.store, &ctx.config, &sealing, last_message, ctx.now) {
        Ok(sealing) => {
            let id = sealing.entry.id;
            // A person may be typing the next prompt.
            let when = if session.headless { When::EndOfTurn } else { When::Idle };
            let wish = Wish { by: "a critical end of turn", when, file: None };
            if let Err(e) = request::request(&ctx.store, &ctx.config, session, &id, &wish, ctx.now) {
                ctx.fault("ask for a fresh context", &e);
            }
            // If a client never reports that it is idle, its user decides when that is, unless a supervisor can tell
            // from the terminal.
            let tells_idle = || {
                ctx.provider.hooks.tells_idle
                    || ctx.agent(&session.agent).is_some_and(|a| ctx.store.presence(&a).is_supervised())
            };
            let by_itself = rotate && (when != When::Idle || tells_idle());
            output("Stop", None, Some(sealed(session, id.as_str(), by_itself)))
        }
        Err(e) => {
            ctx.fault("seal the handoff", &e);
            pending::tell_parent(ctx, session, &e.to_string());
            output("Stop", None, Some(format!("baton: the handoff was not sealed: {e}")))
        }
    }
}

/// The turn ended in an API error. No Stop follows, so this is the end of the turn.
#[cold]
pub(super) fn failure(ctx: &Context, session: &Session, error: &str, message: Option<&str>) {
    let settled = turn::settled(ctx, session, Settler::Calm);
    let session = &*settled;
    // A turn has run, and a full disk may have kept its earlier hooks from recording that.
    claim::consume(ctx, session);
    let turn = if error == "rate_limit" { Turn::Limit } else { Turn::Idle };
    // An error may quote the request, headers and all.
    let message = message.map(|text| redact(&plain(text)).text.into_owned());
    let said = (turn == Turn::Limit).then(|| message.clone().unwrap_or_default());
    let failed = (turn == Turn::Idle).then(|| notice::beginning(message.as_deref().unwrap_or(error)));
    ctx.update(session, |s| {
        if let Some(said) = &said {
            let parked = limit::parked(said, s.parked, ctx.now, &clock::zone);
            s.parked = Some(Parked { began: s.turn_since.filter(|_| s.turn == Turn::Working), ..parked });
        }
        (s.turn, s.turn_since, s.limit, s.error) = (turn, Some(ctx.now), said, failed);
    });
    mirror::everything(ctx, session);
    pending::carry_out(ctx, session, false, "the agent");
    announce::wake_listeners(&ctx.store.state, &session.agent);
    let mut line = ctx.line("stop-failure", session);
    line.detail = json!({ "error": error, "message": message });
    ctx.log(&line);
}
