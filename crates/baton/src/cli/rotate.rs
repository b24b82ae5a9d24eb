//! `baton rotate [AGENT]`: gives a fresh context now.

use crate::cli::args::AgentArgs;
use crate::cli::{App, Outcome, said};
use crate::rotation::verbs;

pub(super) fn run(app: &App, args: &AgentArgs) -> anyhow::Result<Outcome> {
    let Some(agent) = app.meant_agent(args.agent.as_ref())? else { return Ok(Outcome::Nothing) };
    app.keep_attended(&agent);
    said(verbs::rotate(&app.store(), &app.caller(), &agent))
}
