//! `baton handoff PATH|-`: an agent hands over its own work as the last act of a turn.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use baton_core::agent::Agent;
use baton_core::handoff::Kind;
use baton_core::session::Session;
use jiff::Timestamp;
use serde_json::json;

use super::args::HandoffArgs;
use super::handoffs::read_body;
use super::screen::{print, print_json};
use super::{App, Outcome};
use crate::across::{self, Moved};
use crate::panes::launch::{self, Spec};
use crate::providers::{self, PROVIDERS};
use crate::rotate::{self, When};
use crate::sealing::Sealing;
use crate::store::requests;
use crate::sys::process;
use crate::transcripts;

const PATIENCE: Duration = Duration::from_secs(2);

pub fn run(app: &App, args: &HandoffArgs) -> anyhow::Result<Outcome> {
    if let Some(to) = &args.to {
        return hand_to(app, args, to);
    }
    let Some(session) = app.current_session() else {
        if super::called_as_sm() {
            eprintln!(
                "Error: CLAUDE_SESSION_MANAGER_ID not set. sm handoff can only be called from within a session."
            );
            return Ok(Outcome::Usage);
        }
        eprintln!(
            "Error: CLAUDE_SESSION_MANAGER_ID not set. baton handoff can only be called from within a session \
             whose hooks baton hears (`baton doctor` tells why not). A person uses `baton handoffs seal FILE`."
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
                format!("Pending since {}: {}\n", r.at, r.path.as_deref().unwrap_or("from standard input"))
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
    let scheduled = requests::schedule(&app.store(), &session.id, path, &text, Timestamp::now())?;
    anyhow::ensure!(scheduled, "the session's record vanished meanwhile; run it again");
    print("Handoff scheduled — will execute after current turn completes\n")?;
    Ok(Outcome::Done)
}

/// Gives the work to another agent. A person may do that too, from the project's folder: then it is the work of the
/// last session there.
fn hand_to(app: &App, args: &HandoffArgs, to: &str) -> anyhow::Result<Outcome> {
    let store = app.store();
    let session = if let Some(session) = app.current_session() {
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
    let Some(target) = across::target(&store, to)? else {
        let names: Vec<_> =
            PROVIDERS.iter().filter(|p| p.locate().is_some() || p.is_client()).map(|p| p.name).collect();
        eprintln!(
            "baton: {to} is neither a provider ({}) nor an agent; `baton agents` names those",
            names.join(", ")
        );
        return Ok(Outcome::Nothing);
    };
    let narrative = args.file.as_deref().map(read_body).transpose()?;
    let now = Timestamp::now();
    let moved = across::move_to(&store, &app.resolved.config, &session, target, narrative.as_deref(), now)?;
    let giver = store.agents().get(&session.agent)?;
    // Nobody reads a command that is printed in a pane where an agent works alone.
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

/// Starts the new agent in a tmux pane, with the handoff in front of it.
fn spawn(app: &App, moved: &Moved, session: &Session, socket: String) -> anyhow::Result<Agent> {
    let prompt = rotate::continuation(&moved.handoff);
    let spec = Spec {
        name: moved.agent.clone(),
        provider: moved.provider,
        channel: session.channel.clone(),
        cwd: PathBuf::from(&session.cwd),
        parent: None,
        args: launch::with_prompt(Vec::new(), &prompt),
        socket,
    };
    let agent = launch::start(&app.store(), &spec)?;
    app.ensure_attendant();
    Ok(agent)
}

fn started(moved: &Moved, session: &Session, pane: &str) -> String {
    let (id, agent, title) = (&moved.handoff, &moved.agent, moved.provider.title);
    format!(
        "Handoff {id} holds the work of {}; {agent} ({title}) goes on with it in pane {pane}.\n\
         `baton attach {agent}` shows it.\n",
        session.agent
    )
}

/// What is left to do.
pub fn told(moved: &Moved, session: &Session) -> String {
    let (id, agent, title) = (&moved.handoff, &moved.agent, moved.provider.title);
    let sealed = format!("Handoff {id} holds the work of {}; it is for {agent} ({title}).\n", session.agent);
    if moved.live {
        return format!("{sealed}{agent} runs already and was told by mail.\n");
    }
    let missing = if moved.provider.locate().is_none() {
        format!("{title} is not on the PATH; install it with `{}`.\n", moved.provider.install)
    } else {
        String::new()
    };
    format!("{sealed}{missing}Start it in {} with:\n\n  {}\n", session.cwd, moved.command())
}

/// Seals at once and asks for the fresh context without waiting for the end of the turn.
fn seal_now(app: &App, session: &Session, text: &str) -> anyhow::Result<Outcome> {
    transcripts::catch_up(session);
    let (store, config, now) = (app.store(), &app.resolved.config, Timestamp::now());
    let sealing = Sealing { session, kind: Kind::Manual, narrative: Some(text), for_self: true };
    let sealed = crate::sealing::seal(&store, config, &sealing, now)?;
    let id = &sealed.entry.id;
    sessions_handed_off(app, session)?;
    rotate::request(&store, config, session, id, "the agent, at once", When::AtOnce, now)?;
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
