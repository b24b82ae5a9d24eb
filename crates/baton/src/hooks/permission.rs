//! A client asks for permission: a rule answers, or the first person or agent to do so, or the client's own dialog.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use baton_core::agent::Pane;
use baton_core::approval::{self, Closing, Request, RequestId};
use baton_core::event::{Event, HookEvent};
use baton_core::ids::SessionId;
use baton_core::session::Session;
use baton_core::wire::claude::permission;
use jiff::{SignedDuration, Timestamp};

use crate::approvals::ask::PendingRequest;
use crate::approvals::settle::Asker;
use crate::approvals::{ask, settle};
use crate::hooks::answer::Answer;
use crate::providers::Provider;
use crate::rotation::actuators::tmux::server::Server;
use crate::sessions::context::Context;
use crate::setup::install::ours::PROVIDER_FLAG;
use crate::sys::deadline::{self, Deadline};
use crate::sys::process;

/// The argument with which a waiting hook executes itself again.
pub(super) const AGAIN: &str = "--wait";
/// A payload of this size is not kept in memory while we wait for an answer.
const LARGE: usize = 512 << 10;
/// How long a process may outlive the end of its waiting.
const GRACE: std::time::Duration = std::time::Duration::from_secs(10);

/// The tool call in a payload.
fn request(ctx: &Context, session: &Session, event: &HookEvent<'_>, payload: &[u8]) -> Option<Request> {
    let asked = match permission::parse(payload) {
        Ok(asked) => asked,
        Err(e) => {
            ctx.fault("read which tool it is about", &e);
            return None;
        }
    };
    Some(Request {
        at: ctx.now,
        agent: session.agent.clone(),
        session: session.id.clone(),
        provider: ctx.provider.name.to_owned(),
        cwd: ctx.cwd.display().to_string(),
        subagent: event.subagent.as_deref().map(str::to_owned),
        tool: asked.tool_name?,
        input: asked.tool_input,
        suggestions: asked.permission_suggestions,
        hook: process::identify(std::process::id()),
        deadline: None,
    })
}

/// Waits for an answer if this agent's requests can be answered outside its client.
#[cold]
pub(super) fn requested(
    ctx: &Context,
    session: &Session,
    event: &HookEvent<'_>,
    payload: &[u8],
) -> Option<Answer> {
    let agent = ctx.agent(&session.agent)?;
    let mut request = request(ctx, session, event, payload)?;
    if let Some(answer) = ask::by_rule(ctx, &request) {
        ask::goes_on(ctx, session, &answer);
        return Some(Answer::say((ctx.provider.hooks.decide)(&answer)));
    }
    let is_looked_at = |pane: &Pane| Server::of(pane).is_looked_at(&pane.id);
    let Some(patience) = ask::patience(ctx, session, &agent, is_looked_at) else {
        ask::note_dialog(ctx, &request);
        return None;
    };
    request.deadline = SignedDuration::try_from(patience).ok().and_then(|p| ctx.now.checked_add(p).ok());
    let client = (ctx.provider.hooks.caller)().process;
    deadline::exit_after(Deadline { own: patience + GRACE, whole: patience + GRACE });
    let until = request.deadline.unwrap_or(ctx.now);
    let waited = ask::publish(ctx, request, client.as_ref()).and_then(|pending| {
        if payload.len() > LARGE {
            // Returns only if it failed.
            let e = start_anew(ctx, session, pending.id(), until);
            ctx.fault("wait for an answer with less memory", &e);
        }
        pending.wait(ctx)
    });
    answered(ctx, Some(session), waited)
}

fn answered(
    ctx: &Context,
    session: Option<&Session>,
    waited: anyhow::Result<approval::Answer>,
) -> Option<Answer> {
    match waited {
        Ok(answer) => {
            if let Some(session) = session {
                ask::goes_on(ctx, session, &answer);
            }
            Some(Answer::say((ctx.provider.hooks.decide)(&answer)))
        }
        Err(e) => {
            ctx.fault("wait for an answer", &e);
            None
        }
    }
}

/// Executes this program again in the same process to free the memory of the payload, because a day may pass before
/// somebody answers.
fn start_anew(ctx: &Context, session: &Session, id: &RequestId, until: Timestamp) -> std::io::Error {
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(e) => return e,
    };
    let mut again = Command::new(program);
    again.args(["hook", PROVIDER_FLAG, ctx.provider.name, AGAIN, id.as_str(), session.id.as_str()]);
    again.arg(until.to_string()).current_dir(&ctx.cwd).exec()
}

/// The entry of the program that [`start_anew`] executes.
#[cold]
pub(super) fn wait_again(provider: &'static Provider, args: &[&str]) -> Option<()> {
    let [id, session, until] = args else { return None };
    let (id, session) = (RequestId::new(*id).ok()?, SessionId::new(*session).ok()?);
    let until: Timestamp = until.parse().ok()?;
    let cwd = std::env::current_dir().ok()?;
    let ctx = Context::at(cwd.to_str()?, provider)?;
    let left = std::time::Duration::try_from(until.duration_since(ctx.now)).unwrap_or_default();
    deadline::exit_after(Deadline { own: left + GRACE, whole: left + GRACE });
    let client = (provider.hooks.caller)().process;
    let waited =
        PendingRequest::again(&ctx.store, id, until, client.as_ref()).and_then(|pending| pending.wait(&ctx));
    // An answer is passed on even if the session's record cannot be read.
    answered(&ctx, ctx.store.sessions().readable(&session).as_ref(), waited)?.print();
    Some(())
}

/// The subagent's tool ran, so its dialog is closed.
#[cold]
pub(super) fn subagent_ran(ctx: &Context, session: &Session, event: &HookEvent<'_>, payload: &[u8]) {
    if let Some(ran) = request(ctx, session, event, payload) {
        ask::dialog_is_over(ctx, session, &ran);
    }
}

/// Settles this session's requests that the event ends.
#[cold]
pub(super) fn settle(ctx: &Context, session: &Session, event: &HookEvent<'_>, payload: &[u8]) {
    let because = match &event.event {
        Event::ToolUsed { .. } => {
            return match permission::parse(payload) {
                Ok(ran) => settle::tool_ran(
                    &ctx.store,
                    session,
                    ran.tool_name.as_deref().unwrap_or_default(),
                    ran.tool_input,
                    ctx.now,
                ),
                Err(e) => ctx.fault("read which tool has run", &e),
            };
        }
        Event::Stop { .. } | Event::StopFailure { .. } | Event::Interrupted | Event::SubagentStop { .. } => {
            Closing::TurnEnded
        }
        Event::UserPromptSubmit { .. } => Closing::NewPrompt,
        Event::SessionEnd { .. } => Closing::SessionEnded,
        _ => return,
    };
    let asker = match (&event.event, event.subagent.as_deref()) {
        (_, Some(subagent)) => Asker::Subagent(subagent),
        // A background subagent outlives the turn, and a prompt that arrives meanwhile.
        (Event::Stop { tasks, .. }, None) if !tasks.is_empty() => Asker::Agent,
        (Event::UserPromptSubmit { .. }, None) => Asker::Agent,
        _ => Asker::All,
    };
    settle::ended(&ctx.store, session, asker, because, ctx.now);
}
