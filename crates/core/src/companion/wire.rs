//! The protocol between the mod and the companion, version 1. `docs/companion.md` explains it.
//!
//! The client gives a mod no way to write to a process that it spawned. So events go up through short calls of `baton
//! companion tell`, and orders come down as lines that the companion prints.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::tail::MessageRow;
use crate::handoff::HandoffId;

/// Raise this when one side would misunderstand the other.
pub const VERSION: u32 = 1;

/// An event from the mod. Ignore unknown events and fields: they come from a newer mod.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum ModMessage {
    TurnBegan {
        session: String,
    },
    TurnEnded {
        session: String,
        #[serde(default)]
        aborted: bool,
    },
    /// The context size after a turn, as the client counts it; zero or absent if it does not know.
    Measure {
        session: String,
        #[serde(default)]
        tokens: u64,
        #[serde(default)]
        window: u64,
    },
    Done {
        order: u64,
    },
    Refused {
        order: u64,
        #[serde(default)]
        why: String,
    },
    #[serde(other)]
    Unknown,
}

/// The first line on the companion's standard input.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Hello {
    pub v: u32,
    pub session: String,
    #[serde(default)]
    pub interactive: bool,
    /// The client's own version.
    #[serde(default)]
    pub client: String,
    /// The folder from which the mod was loaded.
    #[serde(default)]
    pub plugin: Option<String>,
    /// Whether a turn runs, if the mod knows. If Esc takes a prompt back at once, the hooks see a turn begin and are
    /// never told that it ended.
    #[serde(default)]
    pub turn: Option<bool>,
}

/// A line that the companion prints.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum ModLine<'a> {
    /// Sent first: the socket for events.
    Hello {
        v: u32,
        socket: Cow<'a, str>,
    },
    Clear {
        order: u64,
    },
    /// End the current turn.
    Abort {
        order: u64,
    },
    Submit {
        order: u64,
        text: Cow<'a, str>,
        /// Inserted for the agent first, as a hidden row.
        #[serde(skip_serializing_if = "Option::is_none")]
        append: Option<Cow<'a, str>>,
    },
    /// A line in the client's status area; `None` removes it.
    Status {
        text: Option<Cow<'a, str>>,
    },
}

/// A compaction is about to happen.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Compaction {
    pub v: u32,
    pub session: String,
    /// `manual`, `auto`, `plugin`, `precompute`, or what a later client adds.
    pub trigger: String,
    #[serde(default)]
    pub instructions: Option<String>,
    #[serde(default)]
    pub rows: Vec<MessageRow>,
    /// The result of [`CompactionAnswer::Fork`]; present but empty if the model gave no answer.
    #[serde(default)]
    pub fork: Option<Fork>,
}

/// The narrative that the session's own model gave.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
pub struct Fork {
    #[serde(default)]
    pub text: String,
    /// Its cost, by the model's own count.
    #[serde(default)]
    pub usage: serde_json::Map<String, serde_json::Value>,
}

/// How the mod handles the compaction.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum CompactionAnswer {
    /// Make this text and these rows the new context.
    Handoff { handoff: HandoffId, text: String, keep: Vec<super::tail::TailState> },
    /// Ask the session's own model this, with this time limit, and call us again with its answer.
    Fork { prompt: String, ms: u64 },
    /// Let the client compact as it would without us.
    Next { why: String },
    /// Skip the compaction.
    Skip { why: String },
}
