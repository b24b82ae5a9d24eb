//! `baton reminders`: lists waiting reminders, and cancels one.

use baton_core::plain::plain_line;
use baton_core::reminder::Reminder;
use jiff::Timestamp;

use crate::cli::args::{RemindersArgs, RemindersCommand};
use crate::cli::ui::{Paint, clock, print, print_json, table};
use crate::cli::{App, Outcome};
use crate::sessions::caller::Caller;

pub(super) fn run(app: &App, args: &RemindersArgs) -> anyhow::Result<Outcome> {
    let reminders = app.store().reminders();
    let caller = app.caller();
    // An agent sees and cancels those that it set and those for it.
    let is_own = |reminder: &Reminder| match &caller {
        Caller::User => true,
        Caller::Agent(own) => reminder.to == *own || reminder.from == own.as_str(),
        Caller::Unknown => false,
    };
    let all: Vec<Reminder> = reminders.all().into_iter().filter(is_own).collect();
    if let Some(RemindersCommand::Cancel { id }) = &args.command {
        let known = all.iter().any(|reminder| &reminder.id == id);
        if !known || !reminders.remove(id)? {
            eprintln!("baton: there is no reminder {id}; `baton reminders` lists them");
            return Ok(Outcome::Nothing);
        }
        print(&format!("Reminder {id} was cancelled.\n"))?;
        return Ok(Outcome::Done);
    }
    if args.json {
        print_json(&all)?;
        return Ok(if all.is_empty() { Outcome::Nothing } else { Outcome::Done });
    }
    if all.is_empty() {
        print("No reminders are pending.\n")?;
        return Ok(Outcome::Nothing);
    }
    let now = Timestamp::now();
    let row = |reminder: &Reminder| {
        let every = reminder.every.map_or_else(String::new, |secs| {
            format!("{:#}", jiff::SignedDuration::from_secs(i64::try_from(secs).unwrap_or(i64::MAX)))
        });
        vec![
            reminder.id.clone(),
            clock(reminder.at, now),
            every,
            reminder.to.to_string(),
            reminder.from.clone(),
            plain_line(&reminder.text, 80),
        ]
    };
    let rows: Vec<_> = all.iter().map(row).collect();
    print(&table(Paint::stdout(), &["ID", "AT", "EVERY", "FOR", "BY", "TEXT"], &rows))?;
    Ok(Outcome::Done)
}
