//! `baton hook EVENT`: reads one payload, does what the event asks for, prints one answer or nothing.

use std::io::Write as _;
use std::time::Duration;

use baton_core::event::{Event, HookEvent};
use baton_core::session::{Session, Turn};
use baton_core::wire::claude::output::HookOutput;
use jiff::Timestamp;

use super::scene::{Scene, cwd_of};
use super::{compact, input, mirror, post, start, stop};
use crate::paths::Paths;
use crate::providers::{self, Provider};
use crate::rotate;
use crate::store::log::{self, Line};
use crate::store::mail::Claimed;

/// Events that may take a moment because they seal or load; all others are hot.
fn patience_for(event: &str) -> Duration {
    match event {
        // A Stop may carry out a handoff: on a busy machine its payload may come late.
        "SessionStart" | "PreCompact" | "SessionEnd" | "Stop" => Duration::from_secs(1),
        _ => Duration::from_millis(50),
    }
}

/// Whose client calls; the usual one needs no name.
pub const PROVIDER_FLAG: &str = "--provider";

/// The provider that calls, and the name of the event. The payload names the event again, and that counts.
fn called<'a>(args: &[&'a str]) -> Option<(&'static Provider, &'a str)> {
    match args {
        [PROVIDER_FLAG, name, rest @ ..] => {
            Some((providers::find(name)?, rest.first().copied().unwrap_or_default()))
        }
        _ => Some((providers::usual(), args.first().copied().unwrap_or_default())),
    }
}

#[inline(never)]
pub fn run(args: &[&str]) {
    let Some((provider, named)) = called(args) else {
        return note("", &format!("no provider is called {:?}", args.get(1)));
    };
    let event = match input::payload(patience_for(named), provider.hooks.read) {
        Ok((event, _)) => event,
        Err(e) => return note(named, &e),
    };
    if concerns_nobody(&event) {
        return subagent(provider, &event);
    }
    let Some(mut scene) = Scene::at(cwd_of(&event)) else { return };
    scene.provider = provider;
    if let Some(answer) = answer(&scene, &event) {
        // Only what has been written out counts as delivered.
        let written = answer.text.as_deref().is_none_or(print);
        settle(&scene, &event, &answer.mail, written);
    }
}

/// What is printed, and the mail it carries.
#[derive(Debug, Default)]
pub struct Answer {
    pub text: Option<String>,
    pub mail: Vec<Claimed>,
}

impl Answer {
    pub fn say(text: Option<String>) -> Self {
        Self { text, mail: Vec::new() }
    }
}

fn settle(scene: &Scene, event: &HookEvent<'_>, mail: &[Claimed], written: bool) {
    let store = scene.store.mail();
    for claimed in mail {
        let settled = if written {
            store.delivered(claimed, &format!("hook of session {}", event.session))
        } else {
            store.put_back(claimed)
        };
        if let Err(e) = settled {
            scene.fault("settle a message", &e);
        }
    }
}

/// A subagent's events never touch the state of the session it works for; others mean nothing to us. Told before
/// anything is read.
fn concerns_nobody(event: &HookEvent<'_>) -> bool {
    event.subagent.is_some()
        || matches!(event.event, Event::Other(_) | Event::SubagentStart | Event::SubagentStop { .. })
}

/// All that a subagent's event leads to: what it said is kept.
fn subagent(provider: &'static Provider, event: &HookEvent<'_>) {
    if matches!(event.event, Event::ToolUsed { .. } | Event::SubagentStop { .. })
        && let Some(mut scene) = Scene::at(cwd_of(event))
    {
        scene.provider = provider;
        mirror::subagent(&scene, event);
    }
}

/// What the event leads to.
fn answer(scene: &Scene, event: &HookEvent<'_>) -> Option<Answer> {
    if let Event::SessionStart { source, model, .. } = &event.event {
        return start::session_start(scene, event, source, model.as_deref());
    }
    // Hooks that were installed while the session ran hear of it here for the first time.
    let session = match scene.store.sessions().open(&event.session) {
        Ok(open) => match open.record.clone() {
            Some(session) => {
                *scene.record.borrow_mut() = Some(open);
                current(scene, session, event)
            }
            None => start::register(scene, event, "seen", None)?,
        },
        Err(e) => {
            scene.fault("read the session's record", &e);
            return None;
        }
    };
    match &event.event {
        Event::UserPromptSubmit { prompt } => Some(post::prompt(scene, &session, prompt)),
        Event::ToolUsed { failed, .. } => Some(post::tool(scene, &session, *failed)),
        Event::Stop { hook_active, tasks, crons, .. } => {
            let mut background: Vec<String> = tasks
                .iter()
                .map(|t| {
                    t.description.as_deref().or(t.id.as_deref()).unwrap_or("a background task").to_owned()
                })
                .collect();
            if *crons > 0 {
                background.push(format!("{crons} scheduled prompts"));
            }
            Some(stop::stop(scene, &session, *hook_active, background))
        }
        Event::StopFailure { error, last_message, .. } => {
            stop::failure(scene, &session, error, last_message.as_deref());
            None
        }
        Event::Interrupted => {
            // No Stop comes. What was handed over waits for the end of the next turn.
            turn(scene, &session, Turn::Idle);
            scene.log(&scene.line("interrupted", &session));
            None
        }
        Event::PreCompact { trigger, instructions } => {
            compact::pre(scene, &session, trigger, instructions.as_deref())
        }
        Event::PostCompact { .. } => {
            compact::post(scene, &session);
            None
        }
        Event::SessionEnd { reason } => {
            start::session_end(scene, &session, reason);
            None
        }
        Event::Notification { kind, .. } => {
            // After Esc no Stop comes; this is then the first word that the agent is idle.
            if kind == "idle_prompt" {
                // At a usage limit it stays parked.
                if session.turn != Turn::Limit {
                    turn(scene, &session, Turn::Idle);
                }
                rotate::nobody_types(&scene.store, &session);
            } else if kind.contains("permission") {
                turn(scene, &session, Turn::Blocked);
            }
            let mut line = scene.line("notification", &session);
            line.detail = serde_json::json!({ "kind": kind });
            scene.log(&line);
            None
        }
        Event::PermissionRequest { tool } => {
            turn(scene, &session, Turn::Blocked);
            let mut line = scene.line("permission-request", &session);
            line.detail = serde_json::json!({ "tool": tool });
            scene.log(&line);
            None
        }
        Event::ModelSwitched { to } => {
            let model = to.as_deref().map(str::to_owned);
            update(scene, &session, |s| s.model = model);
            None
        }
        Event::SessionStart { .. } | Event::SubagentStart | Event::SubagentStop { .. } | Event::Other(_) => {
            None
        }
    }
}

/// The record as this event sees it: a resumed session may have another transcript, a client another folder.
fn current(scene: &Scene, mut session: Session, event: &HookEvent<'_>) -> Session {
    let transcript = event.transcript.as_deref().filter(|t| session.transcript.as_deref() != Some(t));
    let mode = event.permission_mode.as_deref().filter(|m| session.permission_mode.as_deref() != Some(m));
    // A late word that it had ended came after it had been taken up again.
    let revived = session.ended.is_some() && scene.provider.hooks.end_is_late;
    if transcript.is_none() && mode.is_none() && !revived {
        return session;
    }
    if revived {
        session.ended = None;
    }
    if let Some(transcript) = transcript {
        session.transcript = Some(transcript.to_owned());
    }
    if let Some(mode) = mode {
        session.permission_mode = Some(mode.to_owned());
    }
    update(scene, &session, |s| {
        s.transcript.clone_from(&session.transcript);
        s.permission_mode.clone_from(&session.permission_mode);
        if revived {
            s.ended = None;
        }
    });
    session
}

/// Notes whose move it is.
pub fn turn(scene: &Scene, session: &Session, turn: Turn) {
    if session.turn != turn {
        let now = scene.now;
        update(scene, session, |s| (s.turn, s.turn_since) = (turn, Some(now)));
    }
}

/// Changes the session's record; a lock that is not to be had leaves it to the next hook.
pub fn update<R>(scene: &Scene, session: &Session, change: impl FnOnce(&mut Session) -> R) -> Option<R> {
    let open = scene.record.take().filter(|open| open.record.as_ref().is_some_and(|s| s.id == session.id));
    match scene.store.sessions().update_open(&session.id, open, scene.patience(), change) {
        Ok(answer) => answer,
        Err(e) => {
            scene.fault("change the session's record", &e);
            None
        }
    }
}

/// Whether all of it was taken. A client that closed our output does not want the answer; that is no fault.
fn print(answer: &str) -> bool {
    let mut out = std::io::stdout().lock();
    out.write_all(answer.as_bytes()).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()).is_ok()
}

/// The answer as the client wants it, if there is anything to say.
pub fn output(event: &str, context: Option<String>, message: Option<String>) -> Option<String> {
    let mut answer = HookOutput::new(event);
    if let Some(context) = context {
        answer = answer.context(context);
    }
    if let Some(message) = message {
        answer = answer.system_message(message);
    }
    answer.to_json()
}

/// Input that was no event: the log and `doctor` tell, the agent does not hear of it.
#[cold]
fn note(event: &str, error: &dyn std::fmt::Display) {
    let Ok(paths) = Paths::from_env() else { return };
    let mut line = Line::new(Timestamp::now(), "fault");
    let from = crate::sys::process::parent_pid();
    line.detail = serde_json::json!({ "doing": "read a payload", "hook": event, "error": error.to_string(), "client": from });
    log::append(&paths.state, &line);
}

#[cold]
pub fn log_panic(message: &str) {
    let Ok(paths) = Paths::from_env() else { return };
    let mut line = Line::new(Timestamp::now(), "fault");
    line.detail = serde_json::json!({ "panic": message });
    log::append(&paths.state, &line);
}
