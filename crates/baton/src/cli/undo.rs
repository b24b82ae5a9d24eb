//! `baton undo [AGENT]`: reverts a bad rotation.

use crate::cli::args::AgentArgs;
use crate::cli::{App, Outcome, said};
use crate::rotation::verbs;

pub(super) fn run(app: &App, args: &AgentArgs) -> anyhow::Result<Outcome> {
    let Some(agent) = app.meant_agent(args.agent.as_ref())? else { return Ok(Outcome::Nothing) };
    said(verbs::undo(&app.store(), &app.resolved.config, &app.caller(), &agent))
}
