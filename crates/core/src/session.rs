//! baton's record of one conversation. Stored as `sessions/{id}.json`; fields of later versions survive.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::approval::RequestId;
use crate::compaction::CompactionSettings;
use crate::forecast::TurnEnds;
use crate::handoff::HandoffId;
use crate::ids::{AgentId, ChannelName, SessionId};
use crate::latch::Latches;
use crate::limit::Parked;
use crate::pending::{CROSSED, LEASE, Pending, TRIES};
use crate::process::Process;
pub use crate::turn::Turn;

/// The record of one session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Session {
    pub id: SessionId,
    pub provider: String,
    pub agent: AgentId,
    pub channel: ChannelName,
    pub cwd: String,
    #[serde(default)]
    pub transcript: Option<String>,
    #[serde(default)]
    pub model: Option<String>,
    /// From the last event; a fresh context starts in the same mode.
    #[serde(default)]
    pub permission_mode: Option<String>,
    pub started: Timestamp,
    /// How it began: startup, resume, fork, clear, compact; `seen` if a later hook was the first one to report it.
    pub source: String,
    #[serde(default)]
    pub ended: Option<SessionEnd>,
    #[serde(default)]
    pub process: Option<Process>,
    /// Runs without a person at the keyboard (`-p` and the like).
    #[serde(default)]
    pub headless: bool,
    /// Its agent has a tool with which it begins a fresh window itself, in the same conversation and turn.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub opens_window: bool,
    /// Served by a process that serves others too, and that outlives its client.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
    #[serde(default)]
    pub latches: Latches,
    #[serde(default)]
    pub turn: Turn,
    #[serde(default)]
    pub turn_since: Option<Timestamp>,
    /// Since when it is at work without a break, if a prompt has come meanwhile: its hook cannot tell whether a person typed
    /// it into the running turn, or after ending that with Esc.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_work_since: Option<Timestamp>,
    /// When the last turn that has ended began: its records in the transcript are no older.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_turn_began: Option<Timestamp>,
    #[serde(default)]
    pub turn_ends: TurnEnds,
    #[serde(default)]
    pub compaction: CompactionSettings,
    /// Where this very session was seen to compact, if that does not generalise to others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compacts_at: Option<u64>,
    /// Its context came from a counted rotation, and no person has written since. A person's first prompt resets the
    /// agent's count.
    #[serde(default)]
    pub unprompted: bool,
    /// A handoff that this session was shown and has not yet acted on.
    #[serde(default)]
    pub claim: Option<HandoffId>,
    /// The hook of its start could not load its handoff, for example on a full disk. Those of its prompts try again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unloaded: bool,
    /// The handoff whose task this session continues: its ledger begins with the one sealed there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<HandoffId>,
    /// The agent ran `baton handoff`; carried out at the end of the turn, however it ends.
    #[serde(default)]
    pub request: Option<PendingHandoff>,
    /// Since when a process has been sealing the handoff of the ended turn. Meanwhile nothing is typed or sent, and no
    /// other process carries out a request. A mark some seconds old was left by a dead process.
    #[serde(default)]
    pub sealing: Option<Timestamp>,
    /// The rotation that led into it was undone: its work is offered to nobody.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub taken_back: bool,
    /// The newest handoff sealed from this session.
    #[serde(default)]
    pub last_handoff: Option<HandoffId>,
    /// The handoff that the last PreCompact sealed, so that repeated events do not seal again.
    #[serde(default)]
    pub precompact: Option<PreCompact>,
    /// The client's message when it stopped at a usage limit.
    #[serde(default)]
    pub limit: Option<String>,
    /// When that limit ends, as far as known; kept until a turn ends well, so that guesses grow.
    #[serde(default)]
    pub parked: Option<Parked>,
    /// What hooks gave the agent with prompts of this turn: messages, and a handoff that the session's start could not
    /// load. If Esc takes such a prompt back before its turn begins, the client drops them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub given: Vec<String>,
    /// The transcript's length when the first of them was given: it shows them behind this, if at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given_from: Option<u64>,
    /// The senders whose message or spawn this turn answers; they are notified when it ends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked_by: Vec<String>,
    /// The beginning of the last answer to them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// The beginning of a person's last prompt, as typed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    /// The error that ended the last turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The subject of the dialog that the agent is waiting in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_on: Option<String>,
    /// Background tasks and scheduled prompts from the last Stop.
    #[serde(default)]
    pub background: Vec<String>,
    /// The agent has reported its task finished, and nobody has asked for anything since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<Completion>,
    /// Where in the transcript the current task begins, if an earlier task of this conversation was finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_from: Option<u64>,
    /// When the agent's next reminder is due, so that a hook need not search for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remind_at: Option<Timestamp>,
    /// Its permission requests without a known outcome.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<RequestId>,
    /// The duties of other tools' scripts here, so that baton does not do them twice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_to_others: Vec<Duty>,
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

impl Session {
    pub fn new(
        id: SessionId,
        provider: &str,
        agent: AgentId,
        channel: ChannelName,
        started: Timestamp,
        source: &str,
    ) -> Self {
        Self {
            id,
            provider: provider.to_owned(),
            agent,
            channel,
            cwd: String::new(),
            transcript: None,
            model: None,
            permission_mode: None,
            started,
            source: source.to_owned(),
            ended: None,
            process: None,
            headless: false,
            shared: false,
            latches: Latches::default(),
            turn: Turn::Idle,
            turn_since: None,
            at_work_since: None,
            last_turn_began: None,
            turn_ends: TurnEnds::default(),
            compaction: CompactionSettings::default(),
            compacts_at: None,
            unprompted: false,
            claim: None,
            unloaded: false,
            continues: None,
            request: None,
            sealing: None,
            taken_back: false,
            opens_window: false,
            last_handoff: None,
            precompact: None,
            limit: None,
            parked: None,
            given: Vec::new(),
            given_from: None,
            asked_by: Vec::new(),
            answer: None,
            asked: None,
            error: None,
            blocked_on: None,
            background: Vec::new(),
            done: None,
            task_from: None,
            remind_at: None,
            approvals: Vec::new(),
            left_to_others: Vec::new(),
            unknown: Map::new(),
        }
    }

    /// Whether another tool's scripts do this here.
    pub fn leaves(&self, duty: Duty) -> bool {
        self.left_to_others.contains(&duty)
    }

    /// Remembers what a hook gives with a prompt. Nobody takes a prompt of a headless client back.
    pub fn give(&mut self, ids: impl IntoIterator<Item = String>, transcript_len: u64) {
        if !self.headless {
            self.given.extend(ids);
            self.given_from = self.given_from.or(Some(transcript_len)).filter(|_| !self.given.is_empty());
        }
    }

    /// Forgets these, because what became of them is known.
    pub fn settle(&mut self, ids: &[String]) {
        self.given.retain(|id| !ids.contains(id));
        self.given_from = self.given_from.filter(|_| !self.given.is_empty());
    }

    /// Whether its handoff came with a prompt that Esc may have taken back.
    pub fn is_claim_unsettled(&self) -> bool {
        self.claim.as_ref().is_some_and(|claim| self.given.iter().any(|id| id == claim.as_str()))
    }

    /// Whether it was given its handoff when it began, and no prompt has come since.
    pub fn awaits_first_prompt(&self) -> bool {
        self.claim.is_some() && !self.is_claim_unsettled()
    }

    /// The usage limit that it has reached, if any.
    pub fn parked(&self) -> Option<Parked> {
        self.parked.filter(|_| self.turn == Turn::Limit)
    }

    /// The event that its pending handoff waits for, if it has one. `braked` as in [`Pending::of`].
    pub fn pending(&self, braked: bool) -> Option<Pending> {
        self.request.as_ref().map(|_| Pending::of(self.turn, braked))
    }
}

/// A part of baton's work that other tools' scripts do too. Two writers would overwrite each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Duty {
    /// Publishing how full the context is.
    Levels,
    /// Unrequested handoffs, and asking the agent for one.
    Seal,
    /// Giving a starting session the previous session's handoff.
    Load,
    /// Copies of transcripts in the project's memory, and the marker for waiting ones.
    Backups,
    /// The status line. Several writers can coexist: ours shows the other one's too.
    StatusLine,
    /// From a newer version.
    #[serde(other)]
    Unknown,
}

impl Duty {
    /// In words for people: "baton leaves … to it".
    pub fn what(self) -> &'static str {
        match self {
            Self::Levels => "the level in .context-status",
            Self::Seal => "automatic handoffs",
            Self::Load => "loading handoffs",
            Self::Backups => "backups in the project's memory",
            Self::StatusLine => "the status line",
            Self::Unknown => "something that this version does not know",
        }
    }
}

/// When a mere observer may carry out this session's pending handoff; `None` while it waits for something.
pub fn due_at(session: &Session, braked: bool) -> Option<Timestamp> {
    let request = session.request.as_ref().filter(|_| session.pending(braked) == Some(Pending::Due))?;
    let due = request.at + CROSSED * (1 << request.tries.min(TRIES));
    Some(session.sealing.map_or(due, |at| due.max(at + LEASE)))
}

/// A task declared finished (`baton done`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completion {
    pub at: Timestamp,
    /// The agent, or `user`.
    pub by: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// The transcript's length then.
    #[serde(default)]
    pub offset: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionEnd {
    pub at: Timestamp,
    pub reason: String,
}

/// A document that the agent handed over with `baton handoff`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingHandoff {
    pub at: Timestamp,
    /// The file as the agent named it; read again at the end of the turn if it still exists.
    #[serde(default)]
    pub path: Option<String>,
    /// Our copy, made immediately.
    pub copy: String,
    /// How often sealing it failed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tries: u32,
    /// The agent was asked at the end of its turn to begin its fresh window itself; once is enough.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub window_asked: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(n: &u32) -> bool {
    *n == 0
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreCompact {
    pub at: Timestamp,
    pub transcript_len: u64,
    #[serde(default)]
    pub handoff: Option<HandoffId>,
    /// The compaction was answered with this handoff, which is now the context; nothing is left to load.
    #[serde(default)]
    pub answered: bool,
    /// The agent began a fresh window after it had handed over: a rotation, and no compaction.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub window: bool,
}
