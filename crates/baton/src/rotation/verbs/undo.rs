//! Back out of a bad rotation.

use std::path::Path;
use std::time::Duration;

use baton_core::agent::{Agent, Pane, SupervisorOrder};
use baton_core::ids::SessionId;
use baton_core::launch::{CurrentChoices, Launch};
use jiff::Timestamp;

use crate::config::Config;
use crate::mail::announce;
use crate::providers;
use crate::rotation::actuators::tmux::launch::{self, PaneSpec};
use crate::rotation::actuators::tmux::server::Server;
use crate::rotation::verbs::{VerbRefusal, permit};
use crate::sessions::caller::Caller;
use crate::store::Store;
use crate::sys::clock::age;
use crate::sys::{child, process};

const PATIENCE: Duration = Duration::from_secs(2);

/// Who resumes the earlier conversation.
enum Way<'a> {
    /// `baton run` starts the client again.
    Supervisor,
    /// The client is started again in the pane that baton made for it.
    Pane(&'a Pane),
    /// No process of ours owns the client's terminal.
    Person,
}

/// Goes back to the conversation before the last rotation. Returns what people read.
///
/// Asks the process that has to resume it first, because a refusal must leave the handoffs as they are. From then on
/// the rotation counts as undone, whether the conversation has been resumed yet or not.
pub(crate) fn undo(
    store: &Store,
    config: &Config,
    caller: &Caller,
    agent: &Agent,
) -> Result<String, VerbRefusal> {
    permit(store, caller, "undo a rotation of", agent)?;
    let way = way(store, agent)?;
    let under_way = match &agent.order {
        Some(SupervisorOrder::Undo { session }) if agent.session.as_ref() != Some(session) => Some(session),
        _ => None,
    };
    if let (Way::Supervisor, Some(session)) = (&way, under_way) {
        return Err(VerbRefusal::Nothing(format!("{} is going back to session {session} already", agent.id)));
    }
    // An undo that is under way without a supervisor: the process that was restarting the client has been killed.
    let target = under_way.or_else(|| agent.before_rotation());
    let (Some(previous), Some(left)) = (target, agent.sessions.last()) else {
        return Err(VerbRefusal::Nothing(format!("there is nothing more to undo: {}", why_nothing(agent))));
    };
    let before = store.sessions().get(previous)?;
    if let Way::Pane(pane) = way {
        ensure_startable(agent, pane)?;
    }
    let handoff = before.as_ref().and_then(|session| session.last_handoff.clone());
    let now = Timestamp::now();
    // Do this first: hooks of the conversation that is left must not consume its handoff again.
    store.sessions().update(left, PATIENCE, |session| {
        (session.request, session.claim, session.taken_back) = (None, None, true);
    })?;
    store.agents().update(&agent.id, PATIENCE, |a| {
        (a.rotation, a.undone) = (None, Some(left.clone()));
        if handoff.is_some() {
            a.last_handoff.clone_from(&handoff);
        }
        if !matches!(way, Way::Person) {
            a.order = Some(SupervisorOrder::Undo { session: previous.clone() });
        }
    })?;
    if let Way::Pane(pane) = way {
        end(config, agent, pane)?;
    }
    store.handoffs(config).take_back(&agent.channel, &agent.id, left, handoff.as_ref(), now)?;
    let when = before.as_ref().map_or_else(String::new, |session| {
        let last = session.turn_since.unwrap_or(session.started);
        format!(", as it was {} ago", age(last, now))
    });
    let again = handoff.map_or_else(String::new, |id| format!("; handoff {id} is active again"));
    match way {
        Way::Supervisor => {
            announce::wake_listeners(&store.state, &agent.id);
            Ok(format!("{} goes back to session {previous}{when}{again}.", agent.id))
        }
        Way::Pane(pane) => {
            let now = before.as_ref().map_or_else(CurrentChoices::default, |session| CurrentChoices {
                model: session.model.as_deref(),
                permission_mode: session.permission_mode.as_deref(),
            });
            start(store, agent, pane, resuming(agent, previous, &now))?;
            Ok(format!("{} is back in session {previous}{when}{again}.", agent.id))
        }
        Way::Person => {
            let mut command = vec![agent.provider.clone()];
            command.extend(resuming(agent, previous, &CurrentChoices::default()));
            let command = command.join(" ");
            let leave = if store.presence(agent).is_there() { "leave its client and " } else { "" };
            Ok(format!(
                "The rotation of {} is undone{again}. Its client is not under `baton run`, so {leave}run `{command}` to \
                 go back to session {previous}{when}.",
                agent.id
            ))
        }
    }
}

fn why_nothing(agent: &Agent) -> String {
    match agent.since_anew() {
        [] | [_] => format!("{} has had no rotation yet", agent.id),
        [.., earlier, last] if agent.was_taken_back(last) => {
            format!("the rotation of {} is undone, and session {earlier} waits to be resumed", agent.id)
        }
        _ => format!("{} is back already", agent.id),
    }
}

fn way<'a>(store: &Store, agent: &'a Agent) -> Result<Way<'a>, VerbRefusal> {
    if store.presence(agent).is_supervised() {
        return Ok(Way::Supervisor);
    }
    match agent.pane.as_ref() {
        Some(pane) if pane.spawned => Ok(Way::Pane(pane)),
        // Its client may be one of many programs that a person runs there.
        Some(pane) if process::is_alive(&pane.process) && store.presence(agent).is_there() => {
            Err(VerbRefusal::Conflict(format!(
                "{} runs in a pane that baton did not start, so baton does not start it again there; nothing was \
                 changed. Leave the client first (`baton attach {}`) and run this again",
                agent.id, agent.id
            )))
        }
        _ => Ok(Way::Person),
    }
}

/// The client's command line that resumes `previous`.
fn resuming(agent: &Agent, previous: &SessionId, now: &CurrentChoices<'_>) -> Vec<String> {
    let grammar = &providers::of(&agent.provider).grammar;
    Launch::parse(grammar, &agent.launch).resume(grammar, previous.as_str(), None, now)
}

fn ensure_startable(agent: &Agent, pane: &Pane) -> Result<(), VerbRefusal> {
    // Ending the client would end this command half-way.
    if process::distance_to(pane.process.pid).is_some() {
        return Err(VerbRefusal::Conflict(format!(
            "{} cannot start its own client again; nothing was changed. Ask the user, or whoever leads it, to run this",
            agent.id
        )));
    }
    launch::ensure_there(providers::of(&agent.provider))?;
    if !Path::new(&agent.cwd).is_dir() {
        return Err(VerbRefusal::Conflict(format!(
            "the folder {} of {} is gone; nothing was changed",
            agent.cwd, agent.id
        )));
    }
    Ok(())
}

/// Ends the client; its pane stays open.
fn end(config: &Config, agent: &Agent, pane: &Pane) -> anyhow::Result<()> {
    if process::is_alive(&pane.process) {
        // Do not wait for a server that does not answer: the client then gets a new pane.
        let _ = Server::of(pane).hold_open(&pane.id);
    }
    for process in agent.process.iter().chain([&pane.process]) {
        child::end(process, config.run.grace)?;
    }
    Ok(())
}

/// Starts the client again in its pane.
fn start(store: &Store, agent: &Agent, pane: &Pane, args: Vec<String>) -> anyhow::Result<()> {
    let spec = PaneSpec {
        name: agent.id.clone(),
        provider: providers::of(&agent.provider),
        channel: agent.channel.clone(),
        cwd: agent.cwd.clone().into(),
        parent: agent.parent.clone(),
        approver: agent.approver.clone(),
        role: agent.role.clone(),
        worktree: agent.worktree.as_ref().map(Into::into),
        anew: false,
        args,
        socket: pane.socket.clone(),
    };
    launch::start_again(store, &spec)?;
    Ok(())
}
