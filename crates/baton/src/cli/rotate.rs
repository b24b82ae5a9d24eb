//! `baton rotate [AGENT]`: a fresh context now.

use baton_core::handoff::Kind;
use baton_core::session::Turn;
use jiff::Timestamp;

use super::args::AgentArgs;
use super::screen::print;
use super::{App, Outcome};
use crate::rotate::When;
use crate::sealing::{self, Sealing};
use crate::sys::process;

pub fn run(app: &App, args: &AgentArgs) -> anyhow::Result<Outcome> {
    let Some(agent) = app.meant_agent(args.agent.as_ref())? else { return Ok(Outcome::Nothing) };
    let (store, config) = (app.store(), &app.resolved.config);
    let Some(session) = agent.session.as_ref().and_then(|id| store.sessions().get(id).ok().flatten()) else {
        eprintln!("baton: {} has no conversation yet", agent.id);
        return Ok(Outcome::Nothing);
    };
    let now = Timestamp::now();
    let sealing = Sealing { session: &session, kind: Kind::Auto, narrative: None, for_self: true };
    let sealed = sealing::seal(&store, config, &sealing, now)?;
    let id = sealed.entry.id;
    crate::rotate::request(&store, config, &session, &id, "a person", When::AtOnce, now)?;
    let live =
        agent.supervisor.as_ref().is_some_and(process::is_alive) || crate::companion::is_live(&store, &agent);
    // These two wait for the end of the turn.
    let waits =
        crate::panes::is_attended(&store, &agent) || crate::threads::is_attended_session(&store, &session);
    print(&if live || (waits && session.turn == Turn::Idle) {
        format!("Handoff {id} sealed; {} gets a fresh context now.\n", agent.id)
    } else if waits {
        format!("Handoff {id} sealed; {} gets a fresh context when its turn has ended.\n", agent.id)
    } else {
        format!("Handoff {id} sealed; type /clear in {} to continue from it.\n", agent.id)
    })?;
    Ok(Outcome::Done)
}
