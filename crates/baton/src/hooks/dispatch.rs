//! `baton hook EVENT`: reads one payload, handles the event, prints one answer or nothing.

use std::time::Duration;

use baton_core::event::{Event, HookEvent};
use baton_core::notice;
use baton_core::plain::plain;
use baton_core::redact::redact;
use baton_core::session::{Session, Turn};
use jiff::Timestamp;

use crate::hooks::answer::{Answer, output};
use crate::hooks::{compact, permission, start, stop, window, work};
use crate::mail::maildir::{Claimed, Mail};
use crate::mail::remind;
use crate::providers::{self, Provider};
use crate::rotation::{pending, request};
use crate::sessions::context::{Context, cwd_of};
use crate::sessions::turn::{self, Settler};
use crate::sessions::{claim, done, mirror, register};
use crate::setup::install::ours::PROVIDER_FLAG;
use crate::store::Store;
use crate::store::log::LogLine;
use crate::sys::deadline::{self, Deadline};
use crate::sys::paths::{NoHome, Paths};
use crate::sys::stdin;

/// How long to wait for input. Hot events give up at once; all others may take a moment, because they may seal or load.
fn patience_for(event: &str) -> Duration {
    match event {
        "PostToolUse" | "PostToolUseFailure" | "UserPromptSubmit" => Duration::from_millis(50),
        // The end of a turn may carry out a handoff, and on a busy machine its payload may come late.
        _ => Duration::from_secs(1),
    }
}

/// When a hook is ended whatever it does, as the last resort.
fn deadline_for(event: &str) -> Deadline {
    match event {
        "PostToolUse" | "PostToolUseFailure" | "UserPromptSubmit" => Deadline::HOT,
        // A hook that waits for an answer sets its own deadline when it begins to wait.
        _ => Deadline::SEALING,
    }
}

/// The calling provider, and the name of the event. The payload names the event again, and takes precedence.
fn called<'a>(args: &[&'a str]) -> Option<(&'static Provider, &'a str)> {
    match args {
        [PROVIDER_FLAG, name, rest @ ..] => {
            Some((providers::find(name)?, rest.first().copied().unwrap_or_default()))
        }
        _ => Some((providers::usual(), args.first().copied().unwrap_or_default())),
    }
}

#[inline(never)]
pub(super) fn run(args: &[&str]) {
    let Some((provider, named)) = called(args) else {
        return note("", &format!("no provider is called {:?}", args.get(1)));
    };
    if named == permission::AGAIN {
        // The flag, the provider and this word come first.
        permission::wait_again(provider, args.get(3..).unwrap_or_default());
        return;
    }
    deadline::exit_after(deadline_for(named));
    let (event, payload) = match stdin::payload(patience_for(named), provider.hooks.read) {
        Ok(read) => read,
        Err(e) => return note(named, &e),
    };
    if concerns_nobody(provider, &event) {
        return subagent(provider, &event, payload);
    }
    let Some(ctx) = Context::at(cwd_of(&event), provider) else { return homeless(&event) };
    if let Some(answer) = answer(&ctx, &event, payload) {
        // Mark mail as delivered only once it is written out.
        let written = answer.print();
        settle(&ctx, &event, &answer.mail, written);
    }
}

/// We do not know where our files are. Tells the user once, when the session starts.
#[cold]
fn homeless(event: &HookEvent<'_>) {
    if matches!(event.event, Event::SessionStart { .. }) {
        let said = start::unwatched(&NoHome);
        Answer::say(output("SessionStart", None, Some(said))).print();
    }
}

fn settle(ctx: &Context, event: &HookEvent<'_>, mail: &[Claimed], written: bool) {
    let store = Mail::of(&ctx.store);
    for claimed in mail {
        let settled = if written {
            store.delivered(claimed, &format!("hook of session {}", event.session))
        } else {
            store.put_back(claimed)
        };
        if let Err(e) = settled {
            ctx.fault("settle a message", &e);
        }
    }
}

/// A subagent's events never touch the state of the session it works for; others do not concern us. Decided before any
/// file is read.
fn concerns_nobody(provider: &Provider, event: &HookEvent<'_>) -> bool {
    // The user of its session answers a subagent's request.
    (event.subagent.is_some() && !matches!(event.event, Event::PermissionRequest { .. }))
        || matches!(event.event, Event::Other(_) | Event::SubagentStart | Event::SubagentStop { .. })
        || matches!(&event.event, Event::ToolWanted { tool } if !window::is_its_tool(provider, tool.as_deref()))
}

/// Handles a subagent's event: mirrors its transcript, and settles its requests.
fn subagent(provider: &'static Provider, event: &HookEvent<'_>, payload: &[u8]) {
    if matches!(event.event, Event::ToolUsed { .. } | Event::SubagentStop { .. })
        && let Some(ctx) = Context::at(cwd_of(event), provider)
    {
        mirror::subagent(&ctx, event);
        match ctx.store.sessions().get(&event.session) {
            Ok(Some(session)) => {
                if !session.approvals.is_empty() {
                    permission::settle(&ctx, &session, event, payload);
                }
                if session.turn == Turn::Blocked && matches!(event.event, Event::ToolUsed { .. }) {
                    permission::subagent_ran(&ctx, &session, event, payload);
                }
            }
            Ok(None) => {}
            Err(e) => ctx.fault("read the session's record", &e),
        }
    }
}

/// Handles the event and returns the answer.
fn answer(ctx: &Context, event: &HookEvent<'_>, payload: &[u8]) -> Option<Answer> {
    if let Event::SessionStart { source, model, .. } = &event.event {
        return Some(start::session_start(ctx, event, source, model.as_deref()));
    }
    let session = &*recorded(ctx, event)?;
    if !session.approvals.is_empty() {
        permission::settle(ctx, session, event, payload);
        // The record has changed, so read it again.
        ctx.record.take();
    }
    // The record, which we have read anyway, says when to look.
    if session.remind_at.is_some_and(|at| at <= ctx.now) {
        remind(ctx, session);
    }
    match &event.event {
        Event::UserPromptSubmit { prompt } => Some(work::prompted(ctx, session, prompt)),
        Event::ToolWanted { .. } => window::gate(ctx, session),
        Event::ToolUsed { failed, .. } => Some(work::tool_used(ctx, session, *failed)),
        Event::Stop { .. } => Some(stopped(ctx, session, &event.event)),
        Event::StopFailure { error, last_message, .. } => {
            stop::failure(ctx, session, error, last_message.as_deref());
            done::tell(ctx, session, None);
            None
        }
        Event::Interrupted => {
            interrupted(ctx, session);
            None
        }
        Event::PreCompact { trigger, instructions } => {
            compact::pre(ctx, session, trigger, instructions.as_deref())
        }
        Event::PostCompact { .. } => {
            compact::post(ctx, session);
            None
        }
        Event::SessionEnd { reason } => {
            start::session_end(ctx, session, reason);
            None
        }
        Event::Notification { kind, .. } => {
            notified(ctx, session, kind);
            None
        }
        Event::PermissionRequest { tool } => {
            wants_permission(ctx, session, event, tool.as_deref());
            permission::requested(ctx, session, event, payload)
        }
        Event::ModelSwitched { to } => {
            let model = to.as_deref().map(str::to_owned);
            ctx.update(session, |s| s.model = model);
            None
        }
        Event::SessionStart { .. } | Event::SubagentStart | Event::SubagentStop { .. } | Event::Other(_) => {
            None
        }
    }
}

/// The session's record, as of this event.
fn recorded(ctx: &Context, event: &HookEvent<'_>) -> Option<Box<Session>> {
    let open = match ctx.store.sessions().open(&event.session) {
        Ok(open) => open,
        Err(e) => {
            ctx.fault("read the session's record", &e);
            return None;
        }
    };
    let Some(session) = open.record.clone() else { return first_seen(ctx, event) };
    *ctx.record.borrow_mut() = Some(open);
    Some(current(ctx, session, event))
}

/// Registers a session whose hooks were installed while it ran.
#[cold]
fn first_seen(ctx: &Context, event: &HookEvent<'_>) -> Option<Box<Session>> {
    let session = register::register(ctx, event, "seen", None)?;
    Some(Box::new(start::stand_back(ctx, session, "seen").0))
}

/// The end of a turn.
fn stopped(ctx: &Context, session: &Session, event: &Event<'_>) -> Answer {
    let Event::Stop { hook_active, last_message, tasks, crons } = event else { return Answer::default() };
    // Only if somebody waits for it, because it costs a hot hook a write.
    if !session.asked_by.is_empty() {
        let answer = last_message.as_deref().map(notice::beginning);
        ctx.update(session, |s| s.answer = answer);
    }
    let mut background: Vec<String> = tasks
        .iter()
        .map(|t| t.description.as_deref().or(t.id.as_deref()).unwrap_or("a background task").to_owned())
        .collect();
    if *crons > 0 {
        background.push(format!("{crons} scheduled prompts"));
    }
    done::tell(ctx, session, last_message.as_deref());
    stop::stop(ctx, session, *hook_active, last_message.as_deref(), background)
}

/// The person pressed Esc. No Stop comes, so this is the end of the turn.
#[cold]
fn interrupted(ctx: &Context, session: &Session) {
    let session = &*turn::settled(ctx, session, Settler::Calm);
    ctx.set_turn(session, Turn::Idle);
    pending::carry_out(ctx, session, false, "the agent");
    done::tell(ctx, session, None);
    ctx.log(&ctx.line("interrupted", session));
}

fn notified(ctx: &Context, session: &Session, kind: &str) {
    if kind == "idle_prompt" {
        became_idle(ctx, session);
    } else if kind.contains("permission") {
        ctx.set_turn(session, Turn::Blocked);
    }
    let mut line = ctx.line("notification", session);
    line.detail = serde_json::json!({ "kind": kind });
    ctx.log(&line);
}

/// After Esc no Stop comes, so the notification is the first sign that the agent is idle.
#[cold]
fn became_idle(ctx: &Context, session: &Session) {
    let session = &*turn::settled(ctx, session, Settler::Calm);
    // A disk that was full for the whole turn has room now.
    if claim::has_acted(session) {
        claim::consume(ctx, session);
    }
    // At a usage limit it stays parked.
    if session.turn != Turn::Limit {
        ctx.set_turn(session, Turn::Idle);
    }
    let braked = session.request.is_some() && ctx.is_braked(&session.agent);
    pending::carry_out(ctx, session, braked, "the agent");
    if let Err(e) = request::nobody_types(&ctx.store, session) {
        ctx.fault("let a waiting rotation go ahead", &e);
    }
}

#[cold]
fn wants_permission(ctx: &Context, session: &Session, event: &HookEvent<'_>, tool: Option<&str>) {
    if event.subagent.is_none() {
        let about = tool.map(notice::beginning);
        ctx.update(session, |s| {
            (s.turn, s.turn_since, s.blocked_on) = (Turn::Blocked, Some(ctx.now), about);
        });
    }
    let mut line = ctx.line("permission-request", session);
    line.detail = serde_json::json!({ "tool": tool });
    ctx.log(&line);
}

/// Sends this agent's due reminders if no daemon has; this hook may deliver them.
#[cold]
fn remind(ctx: &Context, session: &Session) {
    let next = remind::fire(&ctx.store, Some(&session.agent), ctx.now);
    ctx.update(session, |s| s.remind_at = next);
}

/// The record as of this event: a resumed session may have another transcript, and the mode may have changed.
fn current(ctx: &Context, session: Box<Session>, event: &HookEvent<'_>) -> Box<Session> {
    let transcript = event.transcript.as_deref().filter(|t| session.transcript.as_deref() != Some(t));
    let mode = event.permission_mode.as_deref().filter(|m| session.permission_mode.as_deref() != Some(m));
    // A late SessionEnd came after the session had been resumed.
    let revived = session.ended.is_some() && ctx.provider.hooks.end_is_late;
    if transcript.is_none() && mode.is_none() && !revived {
        return session;
    }
    updated(ctx, session, transcript, mode, revived)
}

#[cold]
fn updated(
    ctx: &Context,
    mut session: Box<Session>,
    transcript: Option<&str>,
    mode: Option<&str>,
    revived: bool,
) -> Box<Session> {
    if revived {
        session.ended = None;
    }
    if let Some(transcript) = transcript {
        session.transcript = Some(transcript.to_owned());
    }
    if let Some(mode) = mode {
        session.permission_mode = Some(mode.to_owned());
    }
    ctx.update(&session, |s| {
        // What was given is at another place in another file.
        s.given_from = s.given_from.filter(|_| transcript.is_none());
        s.transcript.clone_from(&session.transcript);
        s.permission_mode.clone_from(&session.permission_mode);
        if revived {
            s.ended = None;
        }
    });
    session
}

/// Logs input that was not an event, for `doctor`. The agent is not told.
#[cold]
fn note(event: &str, error: &dyn std::fmt::Display) {
    let Ok(paths) = Paths::from_env() else { return };
    let mut line = LogLine::fault(Timestamp::now(), "read a payload", error);
    line.detail["hook"] = event.into();
    line.detail["client"] = crate::sys::process::parent_pid().into();
    Store::new(&paths).log().append(&line);
}

#[cold]
pub(super) fn log_panic(message: &str) {
    let Ok(paths) = Paths::from_env() else { return };
    let mut line = LogLine::new(Timestamp::now(), "fault");
    line.detail = serde_json::json!({ "panic": redact(&plain(message)).text });
    Store::new(&paths).log().append(&line);
}
