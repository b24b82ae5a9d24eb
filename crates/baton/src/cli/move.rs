//! `baton move AGENT MACHINE`: an agent continues on another machine.

use baton_core::fleet::MachineName;
use baton_core::ids::AgentId;
use baton_core::session::Session;
use serde_json::json;

use crate::cli::args::MoveArgs;
use crate::cli::ui::{print, print_json};
use crate::cli::{App, Outcome};
use crate::fleet::config::Membership;
use crate::fleet::handoffs::{Departed, Departure, depart};
use crate::handoffs::transcripts;
use crate::rotation::verbs;

pub(super) fn run(app: &App, args: &MoveArgs) -> anyhow::Result<Outcome> {
    if let Some(outcome) = app.refuse_agent("move an agent to another machine") {
        return Ok(outcome);
    }
    let Some(agent) = app.named_agent(&args.agent)? else { return Ok(Outcome::Nothing) };
    let last = agent.session.as_ref().or(agent.sessions.last());
    let Some(session) = last.map(|id| app.store().sessions().get(id)).transpose()?.flatten() else {
        eprintln!("baton: {} has had no session, so there is nothing to move", agent.id);
        return Ok(Outcome::Nothing);
    };
    let departure = Departure {
        session: &session,
        agent: &agent.id,
        machine: &args.machine,
        narrative: None,
        with_patch: args.with_patch,
        with_conversation: args.with_conversation,
    };
    let (text, outcome) = go(app, &departure, args.json)?;
    if outcome != Outcome::Done {
        eprint!("baton: {text}");
        eprintln!("baton: {} was not stopped here", agent.id);
        return Ok(outcome);
    }
    // Its work continues elsewhere; here it would be done a second time.
    let stopped = verbs::retire(&app.store(), &app.resolved.config, &app.caller(), &agent);
    let stopped = stopped.unwrap_or_else(|refusal| format!("{} was not stopped here: {refusal}", agent.id));
    if args.json {
        eprintln!("{stopped}");
    } else {
        print(&format!("{text}{stopped}\n"))?;
    }
    Ok(Outcome::Done)
}

/// `handoff --to NAME@MACHINE`: the work of a session for an agent of another machine.
pub(super) fn hand_to(
    app: &App,
    session: &Session,
    to: (&AgentId, &MachineName),
    narrative: Option<&str>,
    with_patch: bool,
    as_json: bool,
) -> anyhow::Result<Outcome> {
    let (agent, machine) = to;
    let departure = Departure { session, agent, machine, narrative, with_patch, with_conversation: false };
    let (text, outcome) = go(app, &departure, as_json)?;
    if !as_json {
        print(&text)?;
    }
    Ok(outcome)
}

fn go(app: &App, departure: &Departure<'_>, as_json: bool) -> anyhow::Result<(String, Outcome)> {
    Membership::required(&app.paths.state)?;
    crate::daemon::client::ensure(&app.paths, &[])?;
    transcripts::catch_up(departure.session);
    let departed = depart(&app.store(), &app.resolved.config, departure)?;
    let Departure { agent, machine, .. } = *departure;
    let (id, text, outcome) = match &departed {
        Departed::Moved(id) => (
            id,
            format!("Handoff {id} is for {agent}@{machine} now, and can be claimed nowhere else.\n"),
            Outcome::Done,
        ),
        Departed::Undecided(id) => (
            id,
            format!(
                "Handoff {id} is on its way to {agent}@{machine}: the database went away before it answered. It is decided \
                 when the database is back; until then nobody can claim it.\n"
            ),
            Outcome::Failed,
        ),
    };
    if as_json {
        let moved = outcome == Outcome::Done;
        print_json(&json!({ "handoff": id, "agent": agent, "machine": machine, "moved": moved }))?;
    }
    Ok((text, outcome))
}
