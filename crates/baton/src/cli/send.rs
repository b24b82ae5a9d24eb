//! `baton send AGENT TEXT`: queue a message for an agent.

use std::io::Read as _;

use anyhow::Context as _;
use baton_core::message::{MAX_TEXT, Urgency};
use baton_core::session::Turn;
use jiff::Timestamp;

use super::args::SendArgs;
use super::screen::{print, print_json};
use super::{App, Outcome};
use crate::store::mail::Draft;
use crate::wake;

pub fn run(app: &App, args: &SendArgs) -> anyhow::Result<Outcome> {
    let store = app.store();
    let Some(agent) = store.agents().get(&args.to)? else {
        eprintln!("baton: there is no agent {}; `baton status --all` names them", args.to);
        return Ok(Outcome::Nothing);
    };
    let text = match args.text.as_slice() {
        [dash] if dash == "-" => {
            let mut text = String::new();
            std::io::stdin()
                .take(MAX_TEXT as u64 + 1)
                .read_to_string(&mut text)
                .context("could not read the message from standard input")?;
            text
        }
        words => words.join(" "),
    };
    let urgency = match (args.urgent, args.important) {
        (true, _) => Urgency::Urgent,
        (false, true) => Urgency::Important,
        (false, false) => Urgency::Sequential,
    };
    let from = match &args.from {
        Some(agent) => agent.to_string(),
        None => app.current_session().map_or_else(|| "user".to_owned(), |s| s.agent.to_string()),
    };
    let now = Timestamp::now();
    let expires = args.expires.map(|time| now.checked_add(time)).transpose()?;
    let draft = Draft { from: &from, text: &text, urgency, expires, notify: args.notify };
    let message = store.mail().post(&agent.id, &draft, now)?;
    crate::poke::supervisor(&store.state, &agent.id);
    let session = agent.session.as_ref().and_then(|id| store.sessions().get(id).ok().flatten());
    // Who has a pane is typed to by its attendant; a thread that is followed is woken by it.
    let followed = session.as_ref().is_some_and(|s| crate::threads::is_attended_session(&store, s));
    let woken = if followed {
        session.as_ref().is_some_and(|s| s.turn == Turn::Idle)
    } else {
        agent.pane.is_none() && session.as_ref().is_some_and(wake::wake)
    };
    if args.notify {
        // It is the daemon that sees the turn end.
        crate::daemon::client::ensure(&app.paths, &[])?;
    }
    if args.json {
        print_json(&message)?;
    } else {
        let interrupts = urgency == Urgency::Urgent && crate::companion::is_live(&store, &agent);
        let when = if interrupts {
            "its turn is interrupted for it"
        } else if woken {
            "it was idle and has been woken"
        } else if store.agents().lives(&agent) {
            "it reads it at its next step"
        } else {
            "it is not running and reads it when it comes back"
        };
        print(&format!("Queued for {}; {when}.\n", agent.id))?;
    }
    Ok(Outcome::Done)
}
