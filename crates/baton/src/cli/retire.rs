//! `baton retire [AGENT]`: stop an agent for good.

use std::time::Duration;

use baton_core::agent::Order;
use jiff::Timestamp;

use super::args::AgentArgs;
use super::screen::print;
use super::{App, Outcome};
use crate::poke;
use crate::sys::{child, process};

pub fn run(app: &App, args: &AgentArgs) -> anyhow::Result<Outcome> {
    let Some(agent) = app.meant_agent(args.agent.as_ref())? else { return Ok(Outcome::Nothing) };
    let store = app.store();
    let patience = Duration::from_secs(2);
    if agent.supervisor.as_ref().is_some_and(process::is_alive) {
        store.agents().update(&agent.id, patience, |a| a.order = Some(Order::Retire))?;
        poke::supervisor(&store.state, &agent.id);
        print(&format!("{} is being stopped.\n", agent.id))?;
        return Ok(Outcome::Done);
    }
    let ended = match &agent.process {
        Some(client) => child::terminate(client)?,
        None => false,
    };
    store.agents().update(&agent.id, patience, |a| a.ended = Some(Timestamp::now()))?;
    print(&if ended {
        format!("{} was stopped.\n", agent.id)
    } else {
        format!("{} was not running.\n", agent.id)
    })?;
    Ok(Outcome::Done)
}
