//! `baton attach NAME`: shows the agent's pane in this terminal.

use std::io::IsTerminal as _;
use std::os::unix::process::CommandExt as _;

use jiff::Timestamp;

use crate::approvals;
use crate::cli::args::AgentArgs;
use crate::cli::{App, Outcome};
use crate::rotation::actuators::tmux::server::{RecordedPane, Server};

pub(super) fn run(app: &App, args: &AgentArgs) -> anyhow::Result<Outcome> {
    let Some(agent) = app.meant_agent(args.agent.as_ref())? else { return Ok(Outcome::Nothing) };
    let Some(pane) = &agent.pane else {
        eprintln!("baton: {} has no known pane; `baton adopt {}` looks for it", agent.id, agent.id);
        return Ok(Outcome::Nothing);
    };
    let known = RecordedPane::new(pane);
    // A dead pane can be viewed too, as long as its server keeps it.
    if !crate::sys::process::is_alive(&pane.server) || Server::of(pane).facts(&pane.id).is_none() {
        eprintln!(
            "baton: the pane of {} is gone; `baton agents restore {}` starts it again",
            agent.id, agent.id
        );
        return Ok(Outcome::Nothing);
    }
    let has_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if !has_terminal {
        eprintln!(
            "baton: this is not a terminal, so the pane of {} cannot be shown in it; `baton tail {} --screen` prints it",
            agent.id, agent.id
        );
        return Ok(Outcome::Failed);
    }
    // If a waiting hook hides the dialog, give it back to the person at the pane.
    if !app.caller().is_agent() {
        approvals::hand_back(&app.store(), &agent.id, Timestamp::now())?;
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
