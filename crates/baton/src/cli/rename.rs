//! `baton rename OLD NEW`: gives an agent another name.

use jiff::Timestamp;

use crate::cli::args::RenameArgs;
use crate::cli::ui::print;
use crate::cli::{App, Outcome};
use crate::sessions::rename;

pub(super) fn run(app: &App, args: &RenameArgs) -> anyhow::Result<Outcome> {
    let Some(agent) = app.named_agent(&args.agent)? else { return Ok(Outcome::Nothing) };
    if let Some(outcome) = app.refuse_stranger("rename", &agent)? {
        return Ok(outcome);
    }
    let config = &app.resolved.config;
    let renamed = rename::rename(&app.store(), config, &app.caller(), &agent, &args.name, Timestamp::now())?;
    print(&format!("{} is called {} now; the old name redirects to it for a week.\n", agent.id, renamed.id))?;
    let rules = &config.approvals.rules;
    if rules.speak_of(&agent.id) {
        let file = app.paths.short(&app.paths.config);
        print(&format!("The rules do not follow: [approvals] in {file} still says {}.\n", agent.id))?;
    }
    Ok(Outcome::Done)
}
