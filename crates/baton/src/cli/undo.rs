//! `baton undo [AGENT]`: back out of a bad rotation.

use std::time::Duration;

use baton_core::agent::Order;
use jiff::Timestamp;

use super::args::AgentArgs;
use super::screen::print;
use super::{App, Outcome};
use crate::poke;
use crate::sys::process;

pub fn run(app: &App, args: &AgentArgs) -> anyhow::Result<Outcome> {
    let Some(agent) = app.meant_agent(args.agent.as_ref())? else { return Ok(Outcome::Nothing) };
    let store = app.store();
    let [.., previous, _] = agent.sessions.as_slice() else {
        eprintln!("baton: {} has had no rotation that could be taken back", agent.id);
        return Ok(Outcome::Nothing);
    };
    let handoff = store.sessions().get(previous)?.and_then(|s| s.last_handoff);
    if let Some(id) = &handoff {
        app.handoffs().reactivate(&agent.channel, id, Timestamp::now())?;
    }
    let order = Order::Undo { session: previous.clone() };
    store.agents().update(&agent.id, Duration::from_secs(2), |a| {
        a.order = Some(order);
        a.rotation = None;
    })?;
    let again = handoff.map_or_else(String::new, |id| format!("; handoff {id} is active again"));
    if agent.supervisor.as_ref().is_some_and(process::is_alive) {
        poke::supervisor(&store.state, &agent.id);
        print(&format!("{} goes back to session {previous}{again}.\n", agent.id))?;
    } else {
        store.agents().update(&agent.id, Duration::from_secs(2), |a| a.order = None)?;
        print(&format!(
            "Nobody supervises {}: run `{} --resume {previous}` yourself{again}.\n",
            agent.id, agent.provider
        ))?;
    }
    Ok(Outcome::Done)
}
