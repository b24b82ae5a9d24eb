//! Handoffs that go to another machine, and those that arrive from one.

use baton_core::handoff::{HandoffId, Refusal, Status};
use baton_core::ids::ChannelName;
use jiff::Timestamp;
#[cfg(feature = "fleet")]
use {
    crate::store::handoffs::{Event, MAX_DOCUMENT, Sealed, Transition},
    crate::store::record,
    crate::sys::fs::{self, PRIVATE},
    baton_core::handoff::{Carried, Entry, Header},
    baton_core::plain::plain,
    baton_core::redact::redact,
};

use crate::store::handoffs::{Handoffs, StoreError};
use crate::sys::fs::{FileError, Sync};

impl Handoffs {
    /// Gives a handoff up because it goes to another machine: nobody here can claim it from now on. Refused if somebody
    /// is loading it or has loaded it.
    ///
    /// `record` stores its destination, under the lock and before anything changes here. A process that finds that
    /// record after a kill gives the handoff up again, which is idempotent.
    pub(crate) fn give_away(
        &self,
        channel: &ChannelName,
        id: &HandoffId,
        record: impl FnOnce() -> Result<(), FileError>,
        now: Timestamp,
    ) -> Result<Result<(), Refusal>, StoreError> {
        let _lock = self.lock(channel)?;
        let mut manifest = self.manifest_locked(channel, now)?;
        self.world(now, |world| manifest.release_dead(world));
        let known = match manifest.find(id) {
            Some(entry) => Some(entry.clone()),
            None => self.list(channel)?.into_iter().find(|entry| entry.id == *id),
        };
        let Some(entry) = known else { return Ok(Err(Refusal::Nothing)) };
        if let Some(claim) = &entry.claim {
            return Ok(Err(Refusal::Claimed(id.clone(), claim.session.clone())));
        }
        match entry.status {
            Status::Active => {}
            Status::Cleared => return Ok(Ok(record()?)),
            Status::Consumed | Status::Expired => return Ok(Err(Refusal::Consumed(id.clone()))),
        }
        record()?;
        if let Some(entry) = manifest.clear(id, now) {
            self.record_ends(channel, std::slice::from_ref(&entry), now)?;
            self.commit(&manifest, Sync::Yes)?;
        }
        Ok(Ok(()))
    }

    #[cfg(feature = "fleet")]
    /// Accepts a handoff that was sealed on another machine, under its own id. The caller knows that it arrives for the
    /// first time, or again after it had left, or that an earlier attempt was killed before it was recorded. In that
    /// last case the existing handoff stays: a session may have loaded it since.
    pub(crate) fn arrive(
        &self,
        header: &Header,
        body: &str,
        carried: Option<&Carried>,
        now: Timestamp,
    ) -> Result<Sealed, StoreError> {
        if body.len() as u64 > MAX_DOCUMENT {
            return Err(StoreError::TooLarge(body.len()));
        }
        let plain = plain(body);
        let redacted = redact(&plain);
        fs::private_dir(&self.root.join("archive"))?;
        let _lock = self.lock(&header.channel)?;
        let before = self.list(&header.channel)?.into_iter().find(|entry| entry.id == header.id);
        if let Some(entry) = before.filter(|entry| entry.status != Status::Cleared) {
            return Ok(Sealed { path: self.archived_path(&entry.id), entry, redacted: 0 });
        }
        let (path, text) = (self.archived_path(&header.id), header.with_body(&redacted.text));
        fs::replace(&path, text.as_bytes(), PRIVATE, Sync::Yes)?;
        if let Some(carried) = carried {
            let _ = record::write(&self.carried_path(&header.id), carried);
        }
        let mut manifest = self.manifest_locked(&header.channel, now)?;
        fs::replace(&self.current_path(&header.channel), text.as_bytes(), PRIVATE, Sync::Later)?;
        manifest.forget(&header.id);
        let entry = Entry { arrived_at: Some(now), ..Entry::active(header, std::process::id()) };
        let ended = self.world(now, |world| manifest.seal(entry.clone(), world));
        self.record_ends(&header.channel, &ended, now)?;
        self.commit(&manifest, Sync::Yes)?;
        self.record(&header.channel, &Event::of(Transition::Sealed, entry.clone(), now));
        Ok(Sealed { entry, path, redacted: redacted.hits.len() })
    }
}
