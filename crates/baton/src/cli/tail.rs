//! `baton tail NAME`: the last lines of an agent's pane.

use baton_core::plain::plain;
use serde_json::json;

use super::args::TailArgs;
use super::screen::{print, print_json};
use super::{App, Outcome};
use crate::sys::process;
use crate::tmux::{Known, Server};

pub fn run(app: &App, args: &TailArgs) -> anyhow::Result<Outcome> {
    let Some(agent) = app.meant_agent(args.agent.as_ref())? else { return Ok(Outcome::Nothing) };
    let shown = agent.pane.as_ref().filter(|pane| {
        process::is_alive(&pane.server)
            && Server::of(pane).facts(&pane.id).is_some_and(|facts| facts.process == pane.process.pid)
    });
    let Some(pane) = shown else {
        eprintln!(
            "baton: {} has no pane that could be shown; `baton sessions show` shows conversations",
            agent.id
        );
        return Ok(Outcome::Nothing);
    };
    let text = Known::new(pane).lines(args.lines)?;
    if args.json {
        print_json(
            &json!({ "agent": agent.id, "pane": pane.id, "lines": text.lines().map(|l| plain(l)).collect::<Vec<_>>() }),
        )?;
    } else {
        print(&format!("{}\n", plain(&text)))?;
    }
    Ok(Outcome::Done)
}
