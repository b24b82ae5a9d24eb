//! `baton reparent NAME PARENT`: makes an agent another one's child.

use std::time::Duration;

use crate::cli::args::ReparentArgs;
use crate::cli::ui::print;
use crate::cli::{App, Outcome};
use crate::sessions::caller::{self, Caller};

pub(super) fn run(app: &App, args: &ReparentArgs) -> anyhow::Result<Outcome> {
    if args.parent.is_none() && !args.none {
        eprintln!(
            "baton: name the new parent of {0}: baton reparent {0} PARENT, or baton reparent {0} --none",
            args.agent
        );
        return Ok(Outcome::Usage);
    }
    let Some(agent) = app.named_agent(&args.agent)? else { return Ok(Outcome::Nothing) };
    let caller = app.caller();
    // An agent may move its descendants within its own subtree, but not itself.
    if caller == Caller::Agent(agent.id.clone()) {
        eprintln!("baton: no agent chooses its own parent; ask the user");
        return Ok(Outcome::Failed);
    }
    if let Some(outcome) = app.refuse_stranger("move", &agent)? {
        return Ok(outcome);
    }
    let parent = match &args.parent {
        None if caller.is_agent() => {
            eprintln!("baton: only the user may leave an agent without a parent");
            return Ok(Outcome::Failed);
        }
        None => None,
        Some(name) => {
            let Some(parent) = app.named_agent(name)? else { return Ok(Outcome::Nothing) };
            if let Some(outcome) = app.refuse_stranger("give children to", &parent)? {
                return Ok(outcome);
            }
            if caller::is_in_tree(&app.store(), &parent, &agent.id)? {
                eprintln!("baton: {} is {} or below it, and cannot be its parent", parent.id, agent.id);
                return Ok(Outcome::Failed);
            }
            Some(parent.id)
        }
    };
    app.store().agents().update(&agent.id, Duration::from_secs(2), |a| a.parent.clone_from(&parent))?;
    print(&match parent {
        Some(parent) => format!("{} is a child of {parent} now.\n", agent.id),
        None => format!("{} has no parent now; its notices go to your inbox.\n", agent.id),
    })?;
    Ok(Outcome::Done)
}
