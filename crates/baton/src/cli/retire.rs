//! `baton retire [AGENT]`: stop an agent for good.

use std::fmt::Write as _;
use std::time::Duration;

use baton_core::agent::Order;
use jiff::Timestamp;

use super::args::AgentArgs;
use super::screen::print;
use super::{App, Outcome};
use crate::poke;
use crate::sys::{child, process};
use crate::tmux::Known;

pub fn run(app: &App, args: &AgentArgs) -> anyhow::Result<Outcome> {
    let Some(agent) = app.meant_agent(args.agent.as_ref())? else { return Ok(Outcome::Nothing) };
    let store = app.store();
    let patience = Duration::from_secs(2);
    if agent.supervisor.as_ref().is_some_and(process::is_alive) {
        store.agents().update(&agent.id, patience, |a| {
            a.order = Some(Order::Retire);
            a.retired = Some(Timestamp::now());
        })?;
        poke::supervisor(&store.state, &agent.id);
        print(&format!("{} is being stopped.\n", agent.id))?;
        return Ok(Outcome::Done);
    }
    let now = Timestamp::now();
    // Before the client ends: whoever sees it end must know that it was meant to.
    store.agents().update(&agent.id, patience, |a| a.retired = Some(now))?;
    let ended = match &agent.process {
        Some(client) => child::terminate(client)?,
        None => false,
    };
    if let Some(pane) = agent.pane.as_ref().filter(|pane| pane.spawned) {
        child::wait_for_end(&pane.process, app.resolved.config.run.grace);
        if process::is_alive(&pane.server) {
            // It closes by itself unless the client failed.
            let _ = Known::new(pane).close();
        }
    }
    store.agents().update(&agent.id, patience, |a| {
        a.ended = Some(now);
        a.waits = None;
    })?;
    let unread = store.mail().fail_waiting(&agent.id, "the agent was retired", now)?;
    let mut said = if ended {
        format!("{} was stopped.\n", agent.id)
    } else {
        format!("{} was not running.\n", agent.id)
    };
    if unread > 0 {
        let _ =
            writeln!(said, "{unread} messages to it were never read; `baton inbox {}` shows them.", agent.id);
    }
    print(&said)?;
    Ok(Outcome::Done)
}
