//! The manifest's record of one handoff.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{HandoffId, Header, Refusal};
use crate::ids::{AgentId, SessionId};
use crate::process::Process;

/// The state of a handoff. A claim does not change it; see [`Entry::claim`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Ready to be loaded.
    Active,
    /// Loaded by a session.
    Consumed,
    /// Too old to be loaded without being asked for.
    Expired,
    /// Set aside by hand, or replaced by a newer one.
    Cleared,
}

impl Status {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Consumed => "consumed",
            Self::Expired => "expired",
            Self::Cleared => "cleared",
        }
    }
}

/// Why the handoff was written. Kinds we do not know are kept as they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Kind {
    Auto,
    Manual,
    Precompact,
    Crash,
    Other(String),
}

impl Kind {
    pub fn as_str(&self) -> &str {
        match self {
            Self::Auto => "auto",
            Self::Manual => "manual",
            Self::Precompact => "precompact",
            Self::Crash => "crash",
            Self::Other(text) => text,
        }
    }
}

impl From<&str> for Kind {
    fn from(text: &str) -> Self {
        match text {
            "auto" => Self::Auto,
            "manual" => Self::Manual,
            "precompact" => Self::Precompact,
            "crash" => Self::Crash,
            other => Self::Other(other.to_owned()),
        }
    }
}

impl From<String> for Kind {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<Kind> for String {
    fn from(kind: Kind) -> Self {
        kind.as_str().to_owned()
    }
}

/// A session has been shown the handoff but has not yet acted on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    pub session: SessionId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<Process>,
    pub at: Timestamp,
}

/// One handoff in the manifest and the history. Unknown fields survive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    pub id: HandoffId,
    pub session_id: SessionId,
    pub created_at: Timestamp,
    pub created_by_pid: u32,
    pub working_dir: String,
    #[serde(rename = "type")]
    pub kind: Kind,
    pub status: Status,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_agent: Option<AgentId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_session: Option<SessionId>,
    /// When it arrived from another machine. Its expiry counts from then, because it may have waited long and the other
    /// clock may be wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrived_at: Option<Timestamp>,
    /// The rotation this handoff belongs to; while it is open the handoff does not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotation: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<Claim>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumed_by_pid: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumed_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumed_by_session: Option<SessionId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expired_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleared_at: Option<Timestamp>,
    /// Set when it was cleared because a newer one took its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub superseded_by: Option<HandoffId>,
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

impl Entry {
    /// A fresh, active entry for the document with this header.
    pub fn active(header: &Header, created_by_pid: u32) -> Self {
        Self {
            id: header.id.clone(),
            session_id: header.session.clone(),
            created_at: header.created,
            created_by_pid,
            working_dir: header.working_dir.clone(),
            kind: header.kind.clone(),
            status: Status::Active,
            for_agent: header.for_agent.clone(),
            for_session: header.for_session.clone(),
            arrived_at: None,
            rotation: None,
            claim: None,
            consumed_by_pid: None,
            consumed_at: None,
            consumed_by_session: None,
            expired_at: None,
            cleared_at: None,
            superseded_by: None,
            unknown: Map::new(),
        }
    }

    /// Consumed by `session`. An expired handoff may still be loaded by name; one that another session holds,
    /// has consumed, or that was set aside may not.
    pub fn load(&mut self, session: &SessionId, pid: u32, now: Timestamp) -> Result<(), Refusal> {
        match (self.status, &self.claim) {
            (Status::Consumed, _) => return Err(Refusal::Consumed(self.id.clone())),
            (Status::Cleared, _) => return Err(Refusal::Cleared(self.id.clone())),
            (_, Some(claim)) if &claim.session != session => {
                return Err(Refusal::Claimed(self.id.clone(), claim.session.clone()));
            }
            (Status::Active | Status::Expired, _) => {}
        }
        self.end(Status::Consumed, now);
        self.consumed_by_pid = Some(pid);
        self.consumed_by_session = Some(session.clone());
        Ok(())
    }

    /// Moves to an ended state and notes when.
    pub(super) fn end(&mut self, status: Status, at: Timestamp) {
        self.status = status;
        self.claim = None;
        match status {
            Status::Active => {}
            Status::Consumed => self.consumed_at = Some(at),
            Status::Expired => self.expired_at = Some(at),
            Status::Cleared => self.cleared_at = Some(at),
        }
    }

    pub fn is_addressed(&self) -> bool {
        self.for_agent.is_some() || self.for_session.is_some()
    }

    /// Whether a person wrote it for the next session, whichever that is (`baton handoffs seal`).
    pub(crate) fn is_a_persons(&self) -> bool {
        self.kind == Kind::Manual && !self.is_addressed()
    }

    /// Whether it replaces `old`, an unaddressed handoff.
    pub(crate) fn replaces(&self, old: &Self) -> bool {
        !self.is_addressed() && (self.is_a_persons() || !old.is_a_persons())
    }

    /// Older than `expiry` at `now`. A clock that jumped back makes a handoff young, never expired.
    pub fn is_older_than(&self, expiry: SignedDuration, now: Timestamp) -> bool {
        now.duration_since(self.since()) > expiry
    }

    /// Whether it may be loaded without being asked for: not too old, and not dated in the future by more than the same
    /// span, which no clock that was set a little wrong explains.
    pub(crate) fn is_fresh(&self, expiry: SignedDuration, now: Timestamp) -> bool {
        now.duration_since(self.since()).abs() <= expiry
    }

    /// Since when it can be loaded on this machine.
    fn since(&self) -> Timestamp {
        self.arrived_at.unwrap_or(self.created_at)
    }
}
