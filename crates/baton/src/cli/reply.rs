//! `baton reply ID TEXT`: answers a message in one's own inbox.

use jiff::Timestamp;
use serde_json::json;

use crate::cli::args::ReplyArgs;
use crate::cli::send::text_of;
use crate::cli::ui::{print, print_json};
use crate::cli::{App, Outcome};
use crate::mail::reply::{ReplyRefusal, reply};
use crate::mail::user;
use crate::sessions::caller::Caller;

pub(super) fn run(app: &App, args: &ReplyArgs) -> anyhow::Result<Outcome> {
    let caller = app.caller();
    let own = match &caller {
        Caller::Agent(own) => own.clone(),
        Caller::User => user::id(),
        // It may be an agent, which must not answer as the user.
        Caller::Unknown => {
            eprintln!(
                "baton: it is unknown who runs this, so nothing was answered; run it in your own terminal"
            );
            return Ok(Outcome::Failed);
        }
    };
    let (text, now) = (text_of(&args.text)?, Timestamp::now());
    let replied = match reply(&app.store(), &own, caller.name(), &args.id, &text, now) {
        Ok(replied) => replied,
        Err(e @ (ReplyRefusal::Send(_) | ReplyRefusal::File(_))) => return Err(e.into()),
        Err(e) => {
            eprintln!("baton: {e}");
            return Ok(if matches!(e, ReplyRefusal::Notice(_)) { Outcome::Failed } else { Outcome::Nothing });
        }
    };
    if args.json {
        print_json(
            &json!({ "id": replied.id, "to": replied.to, "reply_to": replied.reply_to, "text": text }),
        )?;
    } else {
        let now_called = if replied.renamed { ", which is how it is called now," } else { "" };
        print(&format!("{}{now_called} gets your answer.\n", replied.to))?;
    }
    Ok(Outcome::Done)
}
