//! `baton remind`: sends a message at a later time.

use baton_core::ids::AgentId;
use baton_core::message::MAX_TEXT;
use baton_core::reminder::{Reminder, ReminderTime};
use jiff::Zoned;
use jiff::tz::TimeZone;

use crate::cli::args::RemindArgs;
use crate::cli::ui::{print, print_json};
use crate::cli::{App, Outcome};
use crate::mail::user;
use crate::sessions::caller::Caller;

pub(super) fn run(app: &App, args: &RemindArgs) -> anyhow::Result<Outcome> {
    let when = match (&args.after, &args.every, &args.at) {
        (Some(time), ..) => ReminderTime::In(*time),
        (_, Some(time), _) => ReminderTime::Every(*time),
        (.., Some(time)) => ReminderTime::At(time.clone()),
        (None, None, None) => {
            eprintln!("baton: say when: --in 20m, --every 1h or --at 17:00");
            return Ok(Outcome::Usage);
        }
    };
    let now = Zoned::now();
    let (at, every) = match when.first(&now) {
        Ok(first) => first,
        Err(e) => {
            eprintln!("baton: {e}");
            return Ok(Outcome::Usage);
        }
    };
    let caller = app.caller();
    let Some((to, text)) = addressee(app, &caller, &args.words)? else { return Ok(Outcome::Failed) };
    anyhow::ensure!(!text.trim().is_empty(), "there is no text to be reminded of");
    anyhow::ensure!(text.len() <= MAX_TEXT, "the text is longer than {MAX_TEXT} bytes; name a file instead");
    let store = app.store();
    let from = caller.name().to_owned();
    let created = now.timestamp();
    let reminder =
        store.reminders().add(Reminder { id: String::new(), from, to, text, created, at, every })?;
    // The agent's own hooks then know when to look, in case no daemon runs.
    let session = store.agents().get(&reminder.to)?.and_then(|agent| agent.session);
    if let Some(session) = session {
        let next = store.reminders().next_of(&reminder.to);
        store.sessions().update(&session, std::time::Duration::from_secs(1), |s| s.remind_at = next)?;
    }
    if let Err(e) = crate::daemon::client::ensure(&app.paths, &[]) {
        eprintln!("baton: no daemon sends it, so it comes with the next hook after its time: {e:#}");
    }
    if args.json {
        print_json(&reminder)?;
        return Ok(Outcome::Done);
    }
    let who = if reminder.to == user::id() { "You are".to_owned() } else { format!("{} is", reminder.to) };
    let again = reminder.every.map_or_else(String::new, |_| ", and again and again".to_owned());
    let at = at.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string();
    print(&format!(
        "{who} reminded at {at}{again} (`baton reminders cancel {}` cancels it): {}\n",
        reminder.id,
        baton_core::plain::plain_line(&reminder.text, 120)
    ))?;
    Ok(Outcome::Done)
}

/// The recipient and the text: the first of several words is a name if an agent has it. `None` if refused.
fn addressee(app: &App, caller: &Caller, words: &[String]) -> anyhow::Result<Option<(AgentId, String)>> {
    let own = match caller {
        Caller::Agent(own) => own.clone(),
        Caller::User | Caller::Unknown => user::id(),
    };
    let named = match words {
        [first, _, ..] => AgentId::new(first.as_str()).ok(),
        _ => None,
    };
    let Some(named) = named else { return Ok(Some((own, words.join(" ")))) };
    if named == own {
        return Ok(Some((own, words[1..].join(" "))));
    }
    let Some(agent) = app.store().agents().named(&named)? else { return Ok(Some((own, words.join(" ")))) };
    if app.refuse_stranger("remind", &agent)?.is_some() {
        return Ok(None);
    }
    Ok(Some((agent.id, words[1..].join(" "))))
}
