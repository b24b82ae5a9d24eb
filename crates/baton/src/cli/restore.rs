//! `baton agents restore`: after a reboot, brings back agents that ran in panes, each with its handoff.

use anyhow::Context as _;
use baton_core::agent::Agent;
use baton_core::handoff::Kind;
use baton_core::ids::AgentId;
use baton_core::launch::{CurrentChoices, Launch};
use baton_core::prompt;
use baton_core::session::Session;
use jiff::Timestamp;
use serde_json::json;

use crate::cli::ui::{print, print_json};
use crate::cli::{App, Outcome};
use crate::handoffs::attach;
use crate::handoffs::seal;
use crate::handoffs::seal::Sealing;
use crate::providers;
use crate::rotation::actuators::tmux::launch::{self, PaneSpec};
use crate::sessions::caller;

pub(super) fn run(app: &App, named: &[AgentId], json: bool) -> anyhow::Result<Outcome> {
    let store = app.store();
    let mut wanted = Vec::new();
    for agent in store.agents().all() {
        if named.contains(&agent.id) || (named.is_empty() && store.is_restorable(&agent)) {
            wanted.push(agent);
        }
    }
    if let Some(missing) = named.iter().find(|name| !wanted.iter().any(|a| &a.id == *name)) {
        eprintln!("baton: there is no agent {missing}; `baton agents` lists them");
        return Ok(Outcome::Nothing);
    }
    if named.is_empty() {
        // For an agent, "all" means those that it may bring back.
        let caller = app.caller();
        let mut may = Vec::new();
        for agent in wanted {
            if caller::may_direct(&app.store(), &caller, &agent)? {
                may.push(agent);
            }
        }
        wanted = may;
    } else {
        for agent in &wanted {
            if let Some(outcome) = app.refuse_stranger("bring back", agent)? {
                return Ok(outcome);
            }
        }
    }
    if wanted.is_empty() {
        print("No agent in a pane waits to be brought back.\n")?;
        return Ok(Outcome::Nothing);
    }
    let (mut told, mut failed) = (Vec::new(), false);
    for agent in wanted {
        match restore(app, &agent) {
            Ok(handoff) => {
                if !json {
                    let with =
                        handoff.as_deref().map_or_else(String::new, |id| format!(" with handoff {id}"));
                    print(&format!("{} is back{with}.\n", agent.id))?;
                }
                told.push(json!({ "agent": agent.id, "handoff": handoff }));
            }
            Err(e) => {
                failed = true;
                eprintln!("baton: {} was not brought back: {e:#}", agent.id);
                told.push(json!({ "agent": agent.id, "error": format!("{e:#}") }));
            }
        }
    }
    app.ensure_attendant();
    if json {
        print_json(&told)?;
    }
    Ok(if failed { Outcome::Failed } else { Outcome::Done })
}

fn last_session(app: &App, agent: &Agent) -> Option<Session> {
    let id = agent.session.as_ref().or(agent.sessions.last())?;
    app.store().sessions().readable(id)
}

/// Seals a handoff from its last conversation, unless its own already waits, and starts the agent with it.
fn restore(app: &App, agent: &Agent) -> anyhow::Result<Option<String>> {
    let store = app.store();
    anyhow::ensure!(!store.is_running(&agent.id), "it is running");
    let provider = providers::find(&agent.provider)
        .with_context(|| format!("there is no provider {}", agent.provider))?;
    let config = &app.resolved.config;
    let session = last_session(app, agent);
    let waiting = match &agent.last_handoff {
        Some(id) => store.handoffs(config).find(&agent.channel, id)?.filter(|l| {
            l.entry.status == baton_core::handoff::Status::Active
                && l.entry.for_agent.as_ref() == Some(&agent.id)
        }),
        None => None,
    };
    let handoff = match (waiting, &session) {
        (Some(loaded), _) => Some(loaded.entry.id),
        (None, Some(session)) => {
            let sealing = Sealing { session, kind: Kind::Crash, narrative: None, for_self: true };
            Some(seal::seal(&store, config, &sealing, Timestamp::now())?.entry.id)
        }
        (None, None) => None,
    };
    let launch = Launch::parse(&provider.grammar, &agent.launch);
    let args = match &handoff {
        Some(id) => {
            let (model, mode) =
                session.as_ref().map_or((None, None), |s| (s.model.as_deref(), s.permission_mode.as_deref()));
            let prompt = attach::mentioned(&store, config, provider, &prompt::continuation(id, None), id);
            launch.fresh(&provider.grammar, &prompt, &CurrentChoices { model, permission_mode: mode })
        }
        // It never did anything, so start it as before.
        None => agent.launch.clone(),
    };
    let socket = app.resolved.config.panes.socket.clone();
    let spec = PaneSpec {
        name: agent.id.clone(),
        provider,
        channel: agent.channel.clone(),
        cwd: agent.cwd.clone().into(),
        parent: None,
        approver: agent.approver.clone(),
        role: agent.role.clone(),
        worktree: agent.worktree.as_ref().map(Into::into),
        anew: false,
        args,
        socket,
    };
    anyhow::ensure!(spec.cwd.is_dir(), "its folder {} is gone", agent.cwd);
    launch::start(&store, &spec)?;
    Ok(handoff.map(|id| id.to_string()))
}
