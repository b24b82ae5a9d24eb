//! `baton adopt`: attends an agent that already runs in a pane like a spawned one.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::sync::mpsc;

use baton_core::agent::Agent;
use baton_core::ids::SessionId;
use baton_core::plain::plain_line;
use serde::Deserialize;
use serde_json::json;

use crate::cli::args::AdoptArgs;
use crate::cli::ui::{Paint, print, print_json, table};
use crate::cli::{App, Outcome};
use crate::providers;
use crate::rotation::actuators::tmux::server::{PaneState, Server};
use crate::sys::process;

const PATIENCE: std::time::Duration = std::time::Duration::from_secs(2);
/// The client is a large program and may need a while to list its sessions.
const CLIENT: std::time::Duration = std::time::Duration::from_secs(10);
const MOST_LISTED: u64 = 1 << 20;

pub(super) fn run(app: &App, args: &AdoptArgs) -> anyhow::Result<Outcome> {
    let Some(name) = &args.agent else { return list(app, args) };
    let store = app.store();
    // A name, or the conversation's id as Claude Code lists it.
    let by_session = || {
        let session = store.sessions().readable(&SessionId::new(name).ok()?)?;
        store.agents().get(&session.agent).ok()?
    };
    let by_name = baton_core::ids::AgentId::new(name).ok().and_then(|id| store.agents().readable(&id));
    let Some(agent) = by_name.or_else(by_session) else {
        eprintln!(
            "baton: there is no agent {name}; its hooks have not reported yet (run `baton install`, then prompt it), \
             or it has another name: `baton adopt` lists what runs"
        );
        return Ok(Outcome::Nothing);
    };
    if let Some(outcome) = app.refuse_stranger("adopt", &agent)? {
        return Ok(outcome);
    }
    if !store.is_running(&agent.id) {
        eprintln!("baton: {} does not run; `baton agents restore {}` starts it again", agent.id, agent.id);
        return Ok(Outcome::Nothing);
    }
    let Some(facts) = pane_of(&agent, args.socket.as_deref()) else {
        if store.presence(&agent).has_companion() {
            print(&format!("{} needs no pane: its mod delivers mail and rotates it.\n", agent.id))?;
            return Ok(Outcome::Done);
        }
        eprintln!("baton: {} does not run in a tmux pane; start it in one, or use `baton run`", agent.id);
        return Ok(Outcome::Failed);
    };
    let spawned = agent.pane.as_ref().is_some_and(|p| p.spawned && p.id == facts.pane);
    let Some(pane) = facts.identify(spawned) else {
        eprintln!("baton: the pane {} closed meanwhile", facts.pane);
        return Ok(Outcome::Failed);
    };
    store.agents().update(&agent.id, PATIENCE, |a| a.pane = Some(pane))?;
    let attended = app.ensure_attendant();
    if args.json {
        print_json(&json!({ "agent": agent.id, "pane": facts.pane, "attended": attended }))?;
    } else {
        let note = if attended { "" } else { " Nobody attends to it yet." };
        print(&format!(
            "{} is adopted: mail and fresh contexts reach it in pane {}.{note}\n",
            agent.id, facts.pane
        ))?;
    }
    Ok(Outcome::Done)
}

/// The pane of the agent's client: from the client's tmux variables, and confirmed by the process tree.
fn pane_of(agent: &Agent, socket: Option<&str>) -> Option<PaneState> {
    let client = agent.process.as_ref()?;
    if let Some(socket) = socket {
        return Server::told(socket).panes().into_iter().find(|facts| is_below(client.pid, facts.process));
    }
    let (told, pane) = (process::variable(client.pid, "TMUX")?, process::variable(client.pid, "TMUX_PANE")?);
    let server = Server::told(told.split(',').next()?);
    server.facts(&pane).filter(|facts| is_below(client.pid, facts.process))
}

fn is_below(pid: u32, ancestor: u32) -> bool {
    let mut at = Some(pid);
    for _ in 0..32 {
        match at {
            Some(pid) if pid == ancestor => return true,
            Some(pid) if pid > 1 => at = process::parent_of(pid),
            _ => return false,
        }
    }
    false
}

/// A row of `claude agents --json`.
#[derive(Debug, Deserialize)]
struct BackgroundSession {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    kind: String,
    #[serde(rename = "sessionId", default)]
    session: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    cwd: Option<String>,
}

/// Lists what could be adopted: agents in unattended panes, and background sessions of Claude Code.
fn list(app: &App, args: &AdoptArgs) -> anyhow::Result<Outcome> {
    let store = app.store();
    let live: Vec<Agent> = store.agents().all().into_iter().filter(|a| store.is_running(&a.id)).collect();
    let mut rows = Vec::new();
    for agent in live.iter().filter(|a| a.pane.as_ref().is_none_or(|p| !process::is_alive(&p.process))) {
        if let Some(facts) = pane_of(agent, args.socket.as_deref()) {
            rows.push((agent.id.to_string(), "pane".to_owned(), facts.pane, agent.cwd.clone()));
        }
    }
    for listed in background() {
        let known = SessionId::new(&listed.session).ok().and_then(|id| store.sessions().readable(&id));
        let name = known.map_or_else(|| listed.session.clone(), |s| s.agent.to_string());
        let about =
            [listed.id, listed.name, listed.status].into_iter().flatten().collect::<Vec<_>>().join(" ");
        rows.push((name, "background".to_owned(), about, listed.cwd.unwrap_or_default()));
    }
    if args.json {
        let rows: Vec<_> = rows
            .iter()
            .map(|(agent, kind, place, cwd)| json!({ "agent": agent, "kind": kind, "place": place, "cwd": cwd }))
            .collect();
        print_json(&rows)?;
        return Ok(if rows.is_empty() { Outcome::Nothing } else { Outcome::Done });
    }
    if rows.is_empty() {
        print("Nothing runs that could be adopted: no agent in a tmux pane, no background session.\n")?;
        return Ok(Outcome::Nothing);
    }
    let cells: Vec<_> = rows
        .into_iter()
        .map(|(agent, kind, place, cwd)| {
            vec![plain_line(&agent, 60), kind, plain_line(&place, 40), plain_line(&cwd, 80)]
        })
        .collect();
    print(&table(Paint::stdout(), &["AGENT", "KIND", "PLACE", "FOLDER"], &cells))?;
    Ok(Outcome::Done)
}

/// Claude Code's own background sessions, if it is installed and reports them.
fn background() -> Vec<BackgroundSession> {
    let Some((program, before)) = providers::usual().locate() else { return Vec::new() };
    let mut command = Command::new(program);
    command
        .args(before)
        .args(["agents", "--json"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let Ok(mut child) = command.spawn() else { return Vec::new() };
    let (tell, told) = mpsc::channel();
    if let Some(out) = child.stdout.take() {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = out.take(MOST_LISTED).read_to_end(&mut bytes);
            let _ = tell.send(bytes);
        });
    }
    // Do not wait for a client that hangs; list the panes anyway.
    let said = told.recv_timeout(CLIENT).unwrap_or_default();
    let _ = child.kill();
    let _ = child.wait();
    let listed: Vec<BackgroundSession> = serde_json::from_slice(&said).unwrap_or_default();
    listed.into_iter().filter(|row| row.kind == "background").collect()
}
