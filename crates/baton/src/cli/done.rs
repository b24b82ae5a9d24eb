//! `baton done [TEXT]`: marks an agent's task as finished; `--undo` takes that back.

use baton_core::agent::Agent;
use baton_core::session::{Session, Turn};
use jiff::Timestamp;

use crate::cli::args::DoneArgs;
use crate::cli::ui::print;
use crate::cli::{App, Outcome};
use crate::sessions::caller::Caller;
use crate::sessions::context::Context;
use crate::sessions::done;

pub(super) fn run(app: &App, args: &DoneArgs) -> anyhow::Result<Outcome> {
    let caller = app.caller();
    let named = match (&args.agent, &caller) {
        (Some(name), _) => Some(name),
        (None, Caller::Agent(own)) => Some(own),
        (None, Caller::User | Caller::Unknown) => None,
    };
    let Some(named) = named else {
        eprintln!("baton: `baton done` is for agents; as a person, name the agent: baton done --agent NAME");
        return Ok(Outcome::Usage);
    };
    let Some(agent) = app.named_agent(named)? else { return Ok(Outcome::Nothing) };
    if let Some(outcome) = app.refuse_stranger("end the task of", &agent)? {
        return Ok(outcome);
    }
    let store = app.store();
    let session = agent.session.as_ref().map(|id| store.sessions().get(id)).transpose()?.flatten();
    let Some(session) = session else {
        eprintln!("baton: {} has no conversation yet, so it has no task to finish", agent.id);
        return Ok(Outcome::Nothing);
    };
    if args.undo {
        return undo(app, &agent, &session);
    }
    let now = Timestamp::now();
    let noted = done::declare(&store, &session, caller.name(), &args.text.join(" "), now)?;
    anyhow::ensure!(noted, "the session's record vanished meanwhile; run it again");
    // During a turn, Stop notifies the parent with the last answer.
    let idle = matches!(session.turn, Turn::Idle | Turn::Limit);
    if idle
        && let Some(declared) = store.sessions().get(&session.id)?
        && let Some(ctx) = Context::of(&declared)
    {
        done::tell(&ctx, &declared, None);
    }
    let to = agent.parent.as_ref().map_or("the user", |parent| parent.as_str());
    let whose = if caller == Caller::Agent(agent.id.clone()) { "your" } else { "its" };
    let when = if idle { String::new() } else { format!(" with {whose} last answer, when this turn ends") };
    let again = if whose == "your" { String::new() } else { format!(" --agent {}", agent.id) };
    print(&format!("Noted: {to} gets a notice{when}; `baton done --undo{again}` takes it back.\n"))?;
    Ok(Outcome::Done)
}

fn undo(app: &App, agent: &Agent, session: &Session) -> anyhow::Result<Outcome> {
    match done::take_back(&app.store(), &session.id, Timestamp::now())? {
        Some(_) => {
            print(&format!("{} continues its task.\n", agent.id))?;
            Ok(Outcome::Done)
        }
        None if session.task_from.is_some() => {
            eprintln!(
                "baton: it cannot be taken back any more: the user has asked {} for something new since",
                agent.id
            );
            Ok(Outcome::Failed)
        }
        None => {
            eprintln!("baton: {} has not said that it is done", agent.id);
            Ok(Outcome::Nothing)
        }
    }
}
