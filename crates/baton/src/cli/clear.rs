//! `baton clear NAME`: an empty context, without a handoff.

use baton_core::session::Turn;

use crate::cli::args::ClearArgs;
use crate::cli::ui::confirm::confirm;
use crate::cli::ui::print;
use crate::cli::{App, Outcome};
use crate::sessions::clear::{self, Carrier};

pub(super) fn run(app: &App, args: &ClearArgs) -> anyhow::Result<Outcome> {
    let Some(agent) = app.named_agent(&args.agent)? else { return Ok(Outcome::Nothing) };
    if let Some(outcome) = app.refuse_stranger("clear the context of", &agent)? {
        return Ok(outcome);
    }
    let store = app.store();
    let session = agent.session.as_ref().map(|id| store.sessions().get(id)).transpose()?.flatten();
    let Some(session) = session else {
        eprintln!("baton: {} has no conversation yet", agent.id);
        return Ok(Outcome::Nothing);
    };
    app.keep_attended(&agent);
    let Some(carrier) = clear::carrier(&store, &agent) else {
        eprintln!(
            "baton: the context of {} cannot be cleared from here: it runs neither in a pane that is attended nor under \
             `baton run`; type /clear in its terminal, or hand over with `baton rotate {}`",
            agent.id, agent.id
        );
        return Ok(Outcome::Failed);
    };
    let question = format!(
        "{} forgets its conversation, and no handoff is written (`baton rotate {}` writes one). Clear it?",
        agent.id, agent.id
    );
    if !args.yes && !confirm(&question)? {
        return Ok(Outcome::Failed);
    }
    clear::order(&store, &agent, &session.id, app.caller().name(), args.prompt.as_deref())?;
    let when = match carrier {
        Carrier::Pane if session.turn != Turn::Idle => "is cleared when its turn has ended",
        Carrier::Pane => "is being cleared",
        Carrier::Restart => "is being restarted",
    };
    print(&format!(
        "{} {when}; its conversation is kept: baton sessions show {}\n",
        agent.id,
        session.id.short()
    ))?;
    Ok(Outcome::Done)
}
