//! `reminders/{id}.json`: reminders of agents and the user.

use std::path::{Path, PathBuf};
use std::time::Duration;

use baton_core::ids::{AgentId, unsafe_name};
use baton_core::message::short_id;
use baton_core::reminder::Reminder;
use jiff::Timestamp;

use crate::store::record::{self, RecordError};
use crate::sys::fs::{self, FileError, PRIVATE, Sync};

const PATIENCE: Duration = Duration::from_secs(1);

pub(crate) struct Reminders {
    dir: PathBuf,
}

impl Reminders {
    pub(crate) fn new(state: &Path) -> Self {
        Self { dir: state.join("reminders") }
    }

    fn path(&self, id: &str) -> PathBuf {
        self.dir.join(format!("{id}.json"))
    }

    /// Stores a new reminder under a fresh id. When this returns, it survives a crash of the machine.
    pub(crate) fn add(&self, mut reminder: Reminder) -> Result<Reminder, FileError> {
        fs::private_dir(&self.dir)?;
        let seed = format!("{}-{}", reminder.created.as_nanosecond(), std::process::id());
        for n in 0_u32.. {
            short_id(&format!("{seed}-{n}"))[..6].clone_into(&mut reminder.id);
            let path = self.path(&reminder.id);
            let bytes = record::encode(&reminder).map_err(|e| FileError::new("encode", &path, e))?;
            if fs::create(&path, &bytes, PRIVATE, Sync::Yes)? {
                break;
            }
        }
        Ok(reminder)
    }

    /// All readable reminders, the next one first.
    pub(crate) fn all(&self) -> Vec<Reminder> {
        let mut all: Vec<Reminder> = record::all_readable(&self.dir);
        all.sort_by(|a, b| a.at.cmp(&b.at).then_with(|| a.id.cmp(&b.id)));
        all
    }

    /// When the agent's next reminder is due.
    pub(crate) fn next_of(&self, agent: &AgentId) -> Option<Timestamp> {
        self.all().into_iter().find(|reminder| &reminder.to == agent).map(|reminder| reminder.at)
    }

    /// Removes a reminder. Returns `false` if there is none with this id.
    pub(crate) fn remove(&self, id: &str) -> Result<bool, FileError> {
        if unsafe_name(id).is_some() || !self.path(id).exists() {
            return Ok(false);
        }
        fs::remove(&self.path(id))?;
        let _ = fs::remove(&self.path(id).with_extension("lock"));
        Ok(true)
    }

    /// Removes a reminder that was sent, or moves it to its next time. One that was removed meanwhile stays removed.
    pub(crate) fn settle(&self, sent: &Reminder, now: Timestamp) -> Result<(), RecordError> {
        match sent.clone().next(now) {
            None => {
                self.remove(&sent.id)?;
            }
            Some(next) => {
                record::update(&self.path(&sent.id), PATIENCE, |reminder: &mut Reminder| {
                    if reminder.at == sent.at {
                        reminder.at = next.at;
                    }
                })?;
            }
        }
        Ok(())
    }

    /// Replaces the name of a renamed agent in its reminders.
    pub(crate) fn rename(&self, old: &AgentId, new: &AgentId) -> Result<(), RecordError> {
        for reminder in record::every::<Reminder>(&self.dir)? {
            if &reminder.to == old || reminder.from == old.as_str() {
                record::update(&self.path(&reminder.id), PATIENCE, |reminder: &mut Reminder| {
                    if &reminder.to == old {
                        reminder.to = new.clone();
                    }
                    if reminder.from == old.as_str() {
                        new.as_str().clone_into(&mut reminder.from);
                    }
                })?;
            }
        }
        Ok(())
    }
}
