//! `baton handoff PATH|-`: an agent hands over its own work as the last act of a turn.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use baton_core::agent::Agent;
use baton_core::fleet::Address;
use baton_core::handoff::Kind;
use baton_core::pending::Pending;
use baton_core::prompt;
use baton_core::session::Session;
use jiff::Timestamp;
use serde_json::json;

use crate::cli::args::HandoffArgs;
use crate::cli::handoffs::read_body;
use crate::cli::ui::{local, print, print_json};
use crate::cli::{App, Outcome, r#move, said};
use crate::handoffs::attach;
use crate::handoffs::seal::Sealing;
use crate::handoffs::transcripts;
use crate::handoffs::transfer;
use crate::handoffs::transfer::Transfer;
use crate::providers::{self, PROVIDERS};
use crate::rotation::actuators::tmux::launch::{self, PaneSpec};
use crate::rotation::request::{self, When, Wish};
use crate::rotation::{pending, verbs};
use crate::sessions::context::Context;
use crate::sys::process;

const PATIENCE: Duration = Duration::from_secs(2);

pub(super) fn run(app: &App, args: &HandoffArgs) -> anyhow::Result<Outcome> {
    if let Some(to) = &args.to {
        return hand_to(app, args, to);
    }
    if let Some(of) = &args.of {
        let Some(agent) = app.meant_agent(Some(of))? else { return Ok(Outcome::Nothing) };
        return said(verbs::cancel(&app.store(), &app.caller(), &agent));
    }
    let Some(session) = app.current_session()? else {
        if crate::cli::called_as_sm() {
            eprintln!(
                "Error: CLAUDE_SESSION_MANAGER_ID not set. sm handoff can only be called from within a session."
            );
            return Ok(Outcome::Usage);
        }
        eprintln!(
            "Error: CLAUDE_SESSION_MANAGER_ID not set. Only an agent can run `baton handoff`, in a session whose hooks \
             call baton. As a person, write a handoff with `baton handoffs seal FILE`, or give an agent a fresh \
             context with `baton rotate AGENT`. If an agent ran this, `baton doctor` says why its hooks do not run."
        );
        return Ok(Outcome::Usage);
    };
    if let Some(why) = providers::of(&session.provider).refuses_handoff {
        eprintln!("Error: {why}");
        return Ok(Outcome::Failed);
    }
    let sessions = app.store().sessions();
    if args.status {
        print(&match &session.request {
            Some(r) => {
                format!(
                    "Pending since {}: {}\n",
                    local(r.at),
                    r.path.as_deref().unwrap_or("from standard input")
                )
            }
            None => "Nothing is pending.\n".to_owned(),
        })?;
        return Ok(if session.request.is_some() { Outcome::Done } else { Outcome::Nothing });
    }
    if args.cancel {
        let had = sessions.update(&session.id, PATIENCE, |s| s.request.take())?.flatten();
        print(if had.is_some() { "Handoff cancelled.\n" } else { "Nothing was pending.\n" })?;
        return Ok(if had.is_some() { Outcome::Done } else { Outcome::Nothing });
    }
    let file = args.file.as_deref().context("name the file to hand over, or - for standard input")?;
    let from_stdin = file == Path::new("-");
    let path = app.cwd.join(file);
    if !from_stdin && !path.is_file() {
        eprintln!("Error: File not found: {}", path.display());
        return Ok(Outcome::Failed);
    }
    let text = read_body(file)?;
    if text.trim().is_empty() {
        eprintln!("Error: {} is empty; write what the next context needs to know", file.display());
        return Ok(Outcome::Failed);
    }
    if args.now {
        return seal_now(app, &session, &text);
    }
    let path = (!from_stdin).then_some(path.as_path());
    let scheduled = app.store().requests().schedule(&session.id, path, &text, Timestamp::now())?;
    anyhow::ensure!(scheduled, "the session's record vanished meanwhile; run it again");
    if let Some(agent) = app.store().agents().readable(&session.agent) {
        app.keep_attended(&agent);
    }
    if let Some(outcome) = carry_out_while_idle(app, &session)? {
        return Ok(outcome);
    }
    print("Handoff scheduled — will execute after current turn completes\n")?;
    if let Some(window) = providers::of(&session.provider).hooks.window.filter(|_| session.opens_window) {
        print(&format!("Call the `{}` tool now: the fresh context begins with it.\n", window.tool))?;
    }
    Ok(Outcome::Done)
}

/// Carries out at once a handoff that was scheduled while no turn runs, because no end of a turn will come. An agent
/// that runs the command itself is in a turn, whatever the hooks have reported so far.
fn carry_out_while_idle(app: &App, session: &Session) -> anyhow::Result<Option<Outcome>> {
    let by_its_client = session.process.as_ref().is_none_or(|p| process::distance_to(p.pid).is_some());
    if by_its_client {
        return Ok(None);
    }
    let Some(session) = app.store().sessions().get(&session.id)? else { return Ok(None) };
    let Some(ctx) = Context::of(&session) else { return Ok(None) };
    let braked = ctx.is_braked(&session.agent);
    match pending::carry_out(&ctx, &session, braked, "a person") {
        Some(pending::SealOutcome::Sealed { handoff, rotatable }) => {
            let then = if rotatable { "a fresh context follows" } else { "type /clear to continue from it" };
            print(&format!("Handoff {handoff} sealed; {then}.\n"))?;
            Ok(Some(Outcome::Done))
        }
        Some(pending::SealOutcome::Failed(why)) => {
            eprintln!("Error: the handoff was not sealed: {why}");
            Ok(Some(Outcome::Failed))
        }
        None if session.pending(braked) == Some(Pending::NextPrompt) => {
            pending::tell_waiting(&ctx, &session);
            print(
                "Handoff scheduled: it waits for your next prompt in the agent's terminal, because it was \
                 stopped with Esc.\n",
            )?;
            Ok(Some(Outcome::Done))
        }
        None => Ok(None),
    }
}

/// Gives the work to another agent. A person may do that too, from the project's folder; then it is the work of the
/// last session there.
fn hand_to(app: &App, args: &HandoffArgs, to: &str) -> anyhow::Result<Outcome> {
    let store = app.store();
    let session = if let Some(session) = app.current_session()? {
        transcripts::catch_up(&session);
        Some(session)
    } else {
        let channel = app.channel()?;
        let mut sessions = store.sessions().all();
        sessions.retain(|s| s.channel == channel);
        sessions.into_iter().max_by_key(|s| s.turn_since.unwrap_or(s.started).max(s.started))
    };
    let Some(session) = session else {
        eprintln!("baton: no session of this project is known, so there is nothing to hand over");
        return Ok(Outcome::Nothing);
    };
    if let Ok(Address { agent, machine: Some(machine) }) = to.parse::<Address>() {
        let narrative = args.file.as_deref().map(read_body).transpose()?;
        let to = (&agent, &machine);
        return r#move::hand_to(app, &session, to, narrative.as_deref(), args.with_patch, args.json);
    }
    let Some(target) = transfer::target(&store, to)? else {
        let names: Vec<_> =
            PROVIDERS.iter().filter(|p| p.locate().is_some() || p.is_client()).map(|p| p.name).collect();
        eprintln!(
            "baton: {to} is neither a provider ({}) nor an agent; `baton agents` lists those",
            names.join(", ")
        );
        return Ok(Outcome::Nothing);
    };
    let narrative = args.file.as_deref().map(read_body).transpose()?;
    let now = Timestamp::now();
    let moved = transfer::move_to(&store, &app.resolved.config, &session, target, narrative.as_deref(), now)?;
    let giver = store.agents().get(&session.agent)?;
    // Nobody reads a printed command in the pane of an unattended agent.
    let in_a_pane = giver.as_ref().and_then(|a| a.pane.as_ref()).filter(|p| process::is_alive(&p.process));
    let spawned = if !moved.live && (args.spawn || in_a_pane.is_some()) {
        let socket = in_a_pane.map_or_else(|| app.resolved.config.panes.socket.clone(), |p| p.socket.clone());
        match spawn(app, &moved, &session, socket) {
            Ok(agent) => Some(agent),
            Err(e) if args.spawn => return Err(e),
            Err(e) => {
                eprintln!("baton: {} was not started in a pane: {e:#}", moved.agent);
                None
            }
        }
    } else {
        None
    };
    let pane = spawned.as_ref().and_then(|a| a.pane.as_ref()).map(|p| p.id.as_str());
    if args.json {
        print_json(&json!({
            "handoff": moved.handoff, "agent": moved.agent, "provider": moved.provider.name,
            "live": moved.live, "command": moved.command(), "pane": pane,
        }))?;
        return Ok(Outcome::Done);
    }
    print(&match pane {
        Some(pane) => started(&moved, &session, pane),
        None => told(&moved, &session),
    })?;
    Ok(Outcome::Done)
}

/// Starts the new agent in a tmux pane with the handoff.
fn spawn(app: &App, moved: &Transfer, session: &Session, socket: String) -> anyhow::Result<Agent> {
    let (prompt, config) = (prompt::continuation(&moved.handoff, None), &app.resolved.config);
    let prompt = attach::mentioned(&app.store(), config, moved.provider, &prompt, &moved.handoff);
    let spec = PaneSpec {
        role: None,
        worktree: None,
        anew: true,
        name: moved.agent.clone(),
        provider: moved.provider,
        channel: session.channel.clone(),
        cwd: PathBuf::from(&session.cwd),
        parent: None,
        approver: None,
        args: launch::with_prompt(Vec::new(), &prompt),
        socket,
    };
    let agent = launch::start(&app.store(), &spec)?;
    app.ensure_attendant();
    Ok(agent)
}

fn started(moved: &Transfer, session: &Session, pane: &str) -> String {
    let (id, agent, title) = (&moved.handoff, &moved.agent, moved.provider.title);
    format!(
        "Handoff {id} holds the work of {}; {agent} ({title}) continues it in pane {pane}.\n\
         `baton attach {agent}` shows it.\n",
        session.agent
    )
}

/// The remaining steps, in words.
pub(super) fn told(moved: &Transfer, session: &Session) -> String {
    let (id, agent, title) = (&moved.handoff, &moved.agent, moved.provider.title);
    let sealed = format!("Handoff {id} holds the work of {}; it is for {agent} ({title}).\n", session.agent);
    if moved.live {
        return format!("{sealed}{agent} runs already and was notified by mail.\n");
    }
    let missing = if moved.provider.locate().is_none() {
        format!("{title} is not on the PATH; install it with `{}`.\n", moved.provider.install)
    } else {
        String::new()
    };
    format!("{sealed}{missing}Start it in {} with:\n\n  {}\n", session.cwd, moved.command())
}

/// Seals at once and requests the fresh context without waiting for the end of the turn.
fn seal_now(app: &App, session: &Session, text: &str) -> anyhow::Result<Outcome> {
    transcripts::catch_up(session);
    let (store, config, now) = (app.store(), &app.resolved.config, Timestamp::now());
    let sealing = Sealing { session, kind: Kind::Manual, narrative: Some(text), for_self: true };
    let sealed = crate::handoffs::seal::seal(&store, config, &sealing, now)?;
    let id = &sealed.entry.id;
    sessions_handed_off(app, session)?;
    let wish = Wish { by: "the agent, at once", when: When::AtOnce, file: None };
    request::request(&store, config, session, id, &wish, now)?;
    print(&format!("Handoff {id} sealed; a fresh context follows.\n"))?;
    Ok(Outcome::Done)
}

fn sessions_handed_off(app: &App, session: &Session) -> anyhow::Result<()> {
    app.store().sessions().update(&session.id, PATIENCE, |s| {
        s.request = None;
        s.latches = s.latches.handed_off();
    })?;
    Ok(())
}
