//! What baton knows of one conversation. Kept as `sessions/{id}.json`; fields of later versions survive.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::compaction::CompactionSettings;
use crate::forecast::TurnEnds;
use crate::handoff::HandoffId;
use crate::ids::{AgentId, ChannelName, SessionId};
use crate::latch::Latches;
use crate::level::Level;
use crate::process::Process;
use crate::reading::Reading;

/// Whose move it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Turn {
    /// Waiting for a prompt.
    #[default]
    Idle,
    /// Between a prompt and the end of its turn.
    Working,
    /// Waiting for a person's decision in a dialog.
    Blocked,
    /// Stopped at a usage limit.
    Limit,
}

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
    /// As the last event named it; a fresh context starts in the same mode.
    #[serde(default)]
    pub permission_mode: Option<String>,
    pub started: Timestamp,
    /// How it began: startup, resume, fork, clear, compact; `seen` when a later hook was the first to tell us.
    pub source: String,
    #[serde(default)]
    pub ended: Option<Ended>,
    #[serde(default)]
    pub process: Option<Process>,
    /// Runs without a person at the keyboard (`-p` and the like).
    #[serde(default)]
    pub headless: bool,
    /// Served by a process that serves others too: it lives on when its client has left.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
    #[serde(default)]
    pub latches: Latches,
    #[serde(default)]
    pub turn: Turn,
    #[serde(default)]
    pub turn_since: Option<Timestamp>,
    #[serde(default)]
    pub turn_ends: TurnEnds,
    #[serde(default)]
    pub compaction: CompactionSettings,
    /// Its context came by a rotation that was counted, and no person has written since: the first who does takes
    /// the agent's count back.
    #[serde(default)]
    pub unprompted: bool,
    /// A handoff this session was shown and has not yet acted on.
    #[serde(default)]
    pub claim: Option<HandoffId>,
    /// The agent ran `baton handoff`; carried out when the turn ends.
    #[serde(default)]
    pub request: Option<Request>,
    /// The turn has ended and its hook is about to seal a handoff: nothing is typed or told meanwhile.
    #[serde(default)]
    pub sealing: Option<Timestamp>,
    /// The newest handoff sealed from this session.
    #[serde(default)]
    pub last_handoff: Option<HandoffId>,
    /// What the last PreCompact sealed, so that its repeated firings seal nothing twice.
    #[serde(default)]
    pub precompact: Option<PreCompact>,
    /// What the client said when it stopped at a usage limit.
    #[serde(default)]
    pub limit: Option<String>,
    /// Background tasks and scheduled prompts that the last Stop named.
    #[serde(default)]
    pub background: Vec<String>,
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
            turn_ends: TurnEnds::default(),
            compaction: CompactionSettings::default(),
            unprompted: false,
            claim: None,
            request: None,
            sealing: None,
            last_handoff: None,
            precompact: None,
            limit: None,
            background: Vec::new(),
            unknown: Map::new(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    pub at: Timestamp,
    pub reason: String,
}

/// A handoff the agent handed over with `baton handoff`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    pub at: Timestamp,
    /// The file as the agent named it; read again at the end of the turn if it is still there.
    #[serde(default)]
    pub path: Option<String>,
    /// Our own copy, made at once.
    pub copy: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreCompact {
    pub at: Timestamp,
    pub transcript_len: u64,
    #[serde(default)]
    pub handoff: Option<HandoffId>,
    /// The compaction was answered with this handoff: it is the context, nothing is left to load.
    #[serde(default)]
    pub answered: bool,
}

/// How full a session is: written by every hook that measures, apart from the record so that measuring never
/// waits for anybody. The newest reading wins.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Gauge {
    pub reading: Option<Reading>,
    pub level: Level,
    /// As the status line told them; the transcript knows the model only.
    pub model: Option<String>,
    pub window: Option<u64>,
    /// What was last published for scripts, to write only what changed.
    pub status: String,
    pub percentage: Option<u8>,
    /// Of the transcript: another one means that the client put a new file in its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inode: Option<u64>,
}
