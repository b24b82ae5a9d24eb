//! `baton attach NAME`: the agent's pane in this terminal.

use std::os::unix::process::CommandExt as _;

use super::args::AgentArgs;
use super::{App, Outcome};
use crate::tmux::{Known, Server};

pub fn run(app: &App, args: &AgentArgs) -> anyhow::Result<Outcome> {
    let Some(agent) = app.meant_agent(args.agent.as_ref())? else { return Ok(Outcome::Nothing) };
    let Some(pane) = &agent.pane else {
        eprintln!(
            "baton: {} runs in no pane that is known; `baton adopt {}` looks for it",
            agent.id, agent.id
        );
        return Ok(Outcome::Nothing);
    };
    let known = Known::new(pane);
    // Also a dead one can be looked at, as long as its server keeps it.
    if !crate::sys::process::is_alive(&pane.server) || Server::of(pane).facts(&pane.id).is_none() {
        eprintln!(
            "baton: the pane of {} is gone; `baton agents restore {}` starts it again",
            agent.id, agent.id
        );
        return Ok(Outcome::Nothing);
    }
    known.server().run(&["select-window", "-t", &pane.id])?;
    known.server().run(&["select-pane", "-t", &pane.id])?;
    let inside = std::env::var("TMUX").is_ok_and(|told| told.split(',').next() == Some(pane.socket.as_str()));
    let mut tmux = known.server().command();
    tmux.args([if inside { "switch-client" } else { "attach-session" }, "-t", &pane.id]);
    if inside && let Some(told) = std::env::var_os("TMUX") {
        tmux.env("TMUX", told);
    }
    Err(anyhow::Error::from(tmux.exec()).context("could not start tmux"))
}
