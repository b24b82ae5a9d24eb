//! Sends due reminders as mail. The daemon sends them; if none runs, the agent's own hooks do.
//!
//! Each occasion has a key, so that only one of several senders sends it, and a crash between sending and settling
//! sends nothing twice.

use baton_core::ids::AgentId;
use baton_core::message::Urgency;
use baton_core::reminder::Reminder;
use jiff::Timestamp;

use crate::mail::keyed::{self, Key};
use crate::mail::maildir::{Draft, Mail, SendError};
use crate::mail::{send, user};
use crate::store::Store;

/// Sends due reminders, to all agents or to one, and returns when the next reminder is due.
pub(crate) fn fire(store: &Store, only: Option<&AgentId>, now: Timestamp) -> Option<Timestamp> {
    let reminders = store.reminders();
    let wanted = |reminder: &Reminder| only.is_none_or(|agent| &reminder.to == agent);
    for reminder in reminders.all().into_iter().filter(wanted).filter(|reminder| reminder.is_due(now)) {
        let sent = post(store, &reminder, now).and_then(|()| Ok(reminders.settle(&reminder, now)?));
        if let Err(e) = sent {
            store.log().fault(now, &format!("send reminder {}", reminder.id), &format!("{e:#}"));
        }
    }
    reminders.all().into_iter().filter(wanted).map(|reminder| reminder.at).find(|at| *at > now)
}

fn post(store: &Store, reminder: &Reminder, now: Timestamp) -> anyhow::Result<()> {
    let text = reminder.message(now);
    let draft = Draft { urgency: Urgency::Important, ..Draft::new(&reminder.from, &text) };
    let key = Key::new(reminder.key())?;
    if reminder.to == user::id() {
        keyed::post(&Mail::of(store), &reminder.to, &draft, &key, now)?;
        return Ok(());
    }
    // Nobody is left to read it, so only log that.
    let Some(agent) = store.agents().get(&reminder.to)? else {
        store.log().fault(now, "send a reminder", &format!("there is no agent {} any more", reminder.to));
        return Ok(());
    };
    match send(store, &agent, &draft, Some(&key), now) {
        Ok(_) => Ok(()),
        Err(SendError::Retired(name)) => {
            store.log().fault(now, "send a reminder", &format!("{name} was retired"));
            store.reminders().remove(&reminder.id)?;
            Ok(())
        }
        Err(e) => Err(e.into()),
    }
}
