//! The manifest: the single source of truth for a channel's handoffs, and the rules of their life.
//!
//! Every transition is a method that takes the facts it depends on (time, who asks, who is alive) and changes
//! the value in memory. The store persists the value under the channel's lock; whoever holds an old copy loses.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Claim, Entry, HandoffId, Kind, Status};
use crate::ids::{AgentId, ChannelName, SessionId};
use crate::process::Process;

/// `{channel}.manifest.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The version of the format; 0 for manifests older than versions, and for those of other programs.
    #[serde(default)]
    pub version: u32,
    pub channel: ChannelName,
    /// The newest handoff, whatever its state.
    pub current: Option<Entry>,
    /// Handoffs that a newer one replaced as `current` without ending them: addressed ones that their addressee has not
    /// loaded yet, and unaddressed ones that an addressed one followed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<Entry>,
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// Who wants to load a handoff.
#[derive(Debug, Clone)]
pub struct Claimant<'a> {
    pub session: &'a SessionId,
    pub agent: Option<&'a AgentId>,
    pub process: Option<&'a Process>,
    pub working_dir: &'a str,
    /// Takes only handoffs addressed to it.
    pub own_only: bool,
}

/// Why nothing was loaded. Every variant is an ordinary situation, not a fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("there is no handoff")]
    Nothing,
    #[error("{0} was already consumed")]
    Consumed(HandoffId),
    #[error("{0} was cleared")]
    Cleared(HandoffId),
    #[error("{0} has expired")]
    Expired(HandoffId),
    #[error("{0} is being loaded by session {1}")]
    Claimed(HandoffId, SessionId),
    #[error("{0} waits for {1}")]
    Addressed(HandoffId, String),
    #[error("{0} was written in {1}")]
    OtherFolder(HandoffId, String),
    #[error("{0} is for anybody, and this agent takes only what is addressed to it")]
    NotItsOwn(HandoffId),
}

/// The facts from outside that the rules need.
pub struct World<'a> {
    pub now: Timestamp,
    pub expiry: SignedDuration,
    /// Is this process still running?
    pub alive: &'a dyn Fn(&Process) -> bool,
    /// Whether somebody still needs this handoff: its addressee lives, or its rotation is open.
    pub wanted: &'a dyn Fn(&Entry) -> bool,
    /// Whether it is addressed to an agent that keeps its work to itself: the work goes to nobody else, even if that
    /// agent is gone for good.
    pub private: &'a dyn Fn(&Entry) -> bool,
}

/// A manifest that contradicts itself or its channel.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unsound {
    #[error("it names channel {found:?} but lies under {expected:?}")]
    Channel { expected: ChannelName, found: ChannelName },
    #[error("handoff {0} is listed twice")]
    Twice(HandoffId),
    #[error("handoff {0} is waiting but not active")]
    WaitingEnded(HandoffId),
    #[error("handoff {0} is {1} and still claimed")]
    EndedButClaimed(HandoffId, &'static str),
}

/// The name of the channel that is not a project.
pub const GLOBAL: &str = "global";

impl Manifest {
    /// The newest format that this program understands, and the one that it writes.
    pub const VERSION: u32 = 1;

    pub fn empty(channel: ChannelName) -> Self {
        Self { version: Self::VERSION, channel, current: None, waiting: Vec::new(), unknown: Map::new() }
    }

    /// Checks the invariants that every reader relies on.
    pub fn check(&self, expected: &ChannelName) -> Result<(), Unsound> {
        if &self.channel != expected {
            return Err(Unsound::Channel { expected: expected.clone(), found: self.channel.clone() });
        }
        let mut seen = std::collections::BTreeSet::new();
        for entry in self.entries() {
            if !seen.insert(&entry.id) {
                return Err(Unsound::Twice(entry.id.clone()));
            }
            if entry.status != Status::Active && entry.claim.is_some() {
                return Err(Unsound::EndedButClaimed(entry.id.clone(), entry.status.as_str()));
            }
        }
        for entry in &self.waiting {
            if entry.status != Status::Active {
                return Err(Unsound::WaitingEnded(entry.id.clone()));
            }
        }
        Ok(())
    }

    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.current.iter().chain(&self.waiting)
    }

    pub fn find(&self, id: &HandoffId) -> Option<&Entry> {
        self.entries().find(|e| &e.id == id)
    }

    fn find_mut(&mut self, id: &HandoffId) -> Option<&mut Entry> {
        self.current.iter_mut().chain(&mut self.waiting).find(|e| &e.id == id)
    }

    /// Makes `entry` the current handoff. Returns the entries that this ends, for the history.
    ///
    /// An addressed handoff that is still wanted does not end: it waits for its addressee. An unaddressed one is ended
    /// only by another unaddressed one, and a person's only by another person's. One that a living session is loading
    /// right now counts as consumed, because that session already has its words.
    pub fn seal(&mut self, entry: Entry, world: &World<'_>) -> Vec<Entry> {
        let mut ended = self.sweep(world);
        let newer = entry.clone();
        self.waiting.extend(self.current.replace(entry).filter(|old| old.status == Status::Active));
        // A later handoff of a conversation for its own agent contains the earlier ones.
        let continues = |old: &Entry| {
            old.session_id == newer.session_id
                && old.for_agent == newer.for_agent
                && old.for_session == newer.for_session
                && old.claim.is_none()
        };
        let is_over = |old: &Entry| {
            if old.is_addressed() { continues(old) || !(world.wanted)(old) } else { newer.replaces(old) }
        };
        for mut old in self.waiting.extract_if(.., |old| is_over(old)) {
            if let Some(claim) = old.claim.take() {
                old.end(Status::Consumed, claim.at);
                old.consumed_by_pid = claim.process.map(|p| p.pid);
                old.consumed_by_session = Some(claim.session);
            } else {
                old.end(Status::Cleared, world.now);
            }
            old.superseded_by = Some(newer.id.clone());
            ended.push(old);
        }
        ended
    }

    /// Takes an entry out as if it had never been listed.
    pub fn forget(&mut self, id: &HandoffId) {
        self.current.take_if(|e| &e.id == id);
        self.waiting.retain(|e| &e.id != id);
    }

    /// Releases the claims of dead sessions, expires old handoffs, and ends those that nobody waits for any more.
    /// Returns the ended entries.
    pub fn sweep(&mut self, world: &World<'_>) -> Vec<Entry> {
        let mut ended = Vec::new();
        self.release_dead(world);
        for entry in self.current.iter_mut().chain(&mut self.waiting) {
            if entry.status == Status::Active
                && entry.claim.is_none()
                && entry.is_older_than(world.expiry, world.now)
                && !(world.wanted)(entry)
            {
                entry.end(Status::Expired, world.now);
                ended.push(entry.clone());
            }
        }
        self.waiting.retain(|e| e.status == Status::Active);
        ended
    }

    /// Gives back the claims of processes that are gone.
    pub fn release_dead(&mut self, world: &World<'_>) {
        for entry in self.current.iter_mut().chain(&mut self.waiting) {
            if let Some(process) = entry.claim.as_ref().and_then(|c| c.process.as_ref())
                && !(world.alive)(process)
            {
                entry.claim = None;
            }
        }
    }

    /// The handoff that `who` would get: its own newest, else the newest unaddressed one.
    pub fn offer(&self, who: &Claimant<'_>, world: &World<'_>) -> Result<&Entry, Refusal> {
        let is_own = |e: &&Entry| e.status == Status::Active && is_for(e, who);
        // The current one is the newest; the waiting ones were added in the order of sealing.
        let current = self.current.iter();
        let own = current.chain(self.waiting.iter().rev()).find(is_own);
        if own.is_none() && who.own_only {
            let waits = self.for_anybody(world).filter(|e| e.is_fresh(world.expiry, world.now));
            return Err(waits.map_or(Refusal::Nothing, |e| Refusal::NotItsOwn(e.id.clone())));
        }
        let entry =
            own.or_else(|| self.for_anybody(world)).or(self.current.as_ref()).ok_or(Refusal::Nothing)?;
        match entry.status {
            Status::Active => {}
            Status::Consumed => return Err(Refusal::Consumed(entry.id.clone())),
            Status::Cleared => return Err(Refusal::Cleared(entry.id.clone())),
            Status::Expired => return Err(Refusal::Expired(entry.id.clone())),
        }
        if let Some(claim) = &entry.claim
            && &claim.session != who.session
            && claim.process.as_ref().is_none_or(|p| (world.alive)(p))
        {
            return Err(Refusal::Claimed(entry.id.clone(), claim.session.clone()));
        }
        if own.is_none() && is_kept_for(entry, world) {
            return Err(Refusal::Addressed(entry.id.clone(), addressee(entry)));
        }
        if !entry.is_fresh(world.expiry, world.now) && !(world.wanted)(entry) {
            return Err(Refusal::Expired(entry.id.clone()));
        }
        if own.is_none() && self.channel.as_str() == GLOBAL && entry.working_dir != who.working_dir {
            return Err(Refusal::OtherFolder(entry.id.clone(), entry.working_dir.clone()));
        }
        Ok(entry)
    }

    fn for_anybody(&self, world: &World<'_>) -> Option<&Entry> {
        // The current one is the newest; of the others the last is.
        self.current
            .iter()
            .chain(self.waiting.iter().rev())
            .find(|e| e.status == Status::Active && e.claim.is_none() && !is_kept_for(e, world))
    }

    /// Claims what [`offer`](Self::offer) finds. The claim becomes consumption by [`consume`](Self::consume),
    /// or is given back by [`release`](Self::release).
    pub fn claim(&mut self, who: &Claimant<'_>, world: &World<'_>) -> Result<Entry, Refusal> {
        let id = self.offer(who, world)?.id.clone();
        let entry = self.find_mut(&id).ok_or(Refusal::Nothing)?;
        entry.claim =
            Some(Claim { session: who.session.clone(), process: who.process.cloned(), at: world.now });
        Ok(entry.clone())
    }

    /// Ends `id` as consumed by `session`. Nothing happens if another session holds it or it has ended.
    pub fn consume(
        &mut self,
        id: &HandoffId,
        session: &SessionId,
        pid: u32,
        now: Timestamp,
    ) -> Option<Entry> {
        let entry = self.find_mut(id).filter(|e| e.status == Status::Active)?;
        entry.load(session, pid, now).ok()?;
        let ended = entry.clone();
        self.waiting.retain(|e| e.status == Status::Active);
        Some(ended)
    }

    /// Loads `id` by name; `None` if the manifest does not list it.
    pub fn load(
        &mut self,
        id: &HandoffId,
        session: &SessionId,
        pid: u32,
        now: Timestamp,
    ) -> Option<Result<Entry, Refusal>> {
        let entry = self.find_mut(id)?;
        let loaded = entry.load(session, pid, now).map(|()| entry.clone());
        self.waiting.retain(|e| e.status == Status::Active);
        Some(loaded)
    }

    /// Gives a claim back: the session ended before it acted. Returns whether there was one.
    pub fn release(&mut self, id: &HandoffId, session: &SessionId) -> bool {
        match self.find_mut(id) {
            Some(entry) if entry.claim.as_ref().is_some_and(|c| &c.session == session) => {
                entry.claim = None;
                true
            }
            _ => false,
        }
    }

    /// Clears `id` without consuming it.
    pub fn clear(&mut self, id: &HandoffId, now: Timestamp) -> Option<Entry> {
        let entry = self.find_mut(id)?;
        if entry.status != Status::Active {
            return None;
        }
        entry.end(Status::Cleared, now);
        let ended = entry.clone();
        self.waiting.retain(|e| e.status == Status::Active);
        Some(ended)
    }

    /// Makes an ended handoff the current, active one again: the way back from a bad rotation.
    pub fn reactivate(&mut self, mut entry: Entry, world: &World<'_>) -> Vec<Entry> {
        entry.status = Status::Active;
        entry.claim = None;
        entry.consumed_by_pid = None;
        entry.consumed_at = None;
        entry.consumed_by_session = None;
        entry.expired_at = None;
        entry.cleared_at = None;
        entry.superseded_by = None;
        if self.current.as_ref().is_some_and(|c| c.id == entry.id) {
            self.current = None;
        }
        self.waiting.retain(|e| e.id != entry.id);
        self.seal(entry, world)
    }
}

fn is_for(entry: &Entry, who: &Claimant<'_>) -> bool {
    entry.for_session.as_ref().is_some_and(|s| s == who.session)
        || entry.for_agent.as_ref().is_some_and(|a| Some(a) == who.agent)
}

/// Whether only its addressee may load it. The handoff of a crash goes back to its agent or to nobody, however long the
/// agent is gone; so does any handoff of an agent that keeps its work to itself.
fn is_kept_for(entry: &Entry, world: &World<'_>) -> bool {
    entry.is_addressed() && (entry.kind == Kind::Crash || (world.wanted)(entry) || (world.private)(entry))
}

fn addressee(entry: &Entry) -> String {
    match (&entry.for_agent, &entry.for_session) {
        (Some(agent), _) => format!("agent {agent}"),
        (None, Some(session)) => format!("session {session}"),
        (None, None) => "anybody".to_owned(),
    }
}

#[cfg(test)]
mod tests;
