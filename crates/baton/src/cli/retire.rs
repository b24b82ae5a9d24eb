//! `baton retire [AGENT]`: stop an agent for good.

use crate::cli::args::AgentArgs;
use crate::cli::{App, Outcome, said};
use crate::rotation::verbs;

pub(super) fn run(app: &App, args: &AgentArgs) -> anyhow::Result<Outcome> {
    let Some(agent) = app.meant_agent(args.agent.as_ref())? else { return Ok(Outcome::Nothing) };
    said(verbs::retire(&app.store(), &app.resolved.config, &app.caller(), &agent))
}
