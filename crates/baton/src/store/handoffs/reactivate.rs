//! Makes an ended handoff the active one again.

use baton_core::handoff::{Entry, HandoffId};
use baton_core::ids::{AgentId, ChannelName, SessionId};
use jiff::Timestamp;

use crate::store::handoffs::{Event, Handoffs, StoreError, Transition};
use crate::sys::fs::{self, PRIVATE, Sync};

impl Handoffs {
    /// Undoes a rotation of `agent` into `session`: clears the handoffs that this session sealed for its own agent or
    /// for anybody, and makes `again`, which it had loaded, the active handoff.
    pub(crate) fn take_back(
        &self,
        channel: &ChannelName,
        agent: &AgentId,
        session: &SessionId,
        again: Option<&HandoffId>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let is_taken_back = |e: &Entry| {
            &e.session_id == session && e.for_agent.as_ref().is_none_or(|addressee| addressee == agent)
        };
        self.go_back(channel, is_taken_back, again, now)
    }

    /// Makes an ended handoff the active one again.
    #[cfg(feature = "fleet")]
    pub(crate) fn reactivate(
        &self,
        channel: &ChannelName,
        id: &HandoffId,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.go_back(channel, |_| false, Some(id), now)
    }

    /// Clears the handoffs that match `is_taken_back` and makes `again` the active one, in one commit.
    fn go_back(
        &self,
        channel: &ChannelName,
        is_taken_back: impl Fn(&Entry) -> bool,
        again: Option<&HandoffId>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let _lock = self.lock(channel)?;
        let mut manifest = self.manifest_locked(channel, now)?;
        let again = match again {
            None => None,
            Some(id) => {
                let known = self.list(channel)?.into_iter().find(|e| &e.id == id);
                let entry = known.ok_or_else(|| StoreError::NoSuch(id.clone(), channel.clone()))?;
                Some((self.archived(&entry)?, entry))
            }
        };
        let taken_back: Vec<HandoffId> =
            manifest.entries().filter(|entry| is_taken_back(entry)).map(|entry| entry.id.clone()).collect();
        let mut ended: Vec<Entry> = taken_back.iter().filter_map(|id| manifest.clear(id, now)).collect();
        let mut active = None;
        if let Some((text, entry)) = again {
            active = Some(entry.clone());
            ended.extend(self.world(now, |world| manifest.reactivate(entry, world)));
            fs::replace(&self.current_path(channel), text.as_bytes(), PRIVATE, Sync::Later)?;
        }
        self.record_ends(channel, &ended, now)?;
        self.commit(&manifest, Sync::Yes)?;
        if let Some(entry) = active.as_ref().and_then(|entry| manifest.find(&entry.id)) {
            self.record(channel, &Event::of(Transition::Reactivated, entry.clone(), now));
        }
        Ok(())
    }
}
