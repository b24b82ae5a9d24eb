//! The lines between the mod and the companion, version 1. `docs/companion.md` explains them.
//!
//! The client gives a mod no way to write to a process it has spawned, so events go up through short calls of
//! `baton companion tell`, and orders come down as lines that the companion prints.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::tail::Row;
use crate::handoff::HandoffId;

/// Raised when one side would misunderstand the other.
pub const VERSION: u32 = 1;

/// What the mod tells. Unknown events and fields are of a newer mod and change nothing.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Told {
    TurnBegan {
        session: String,
    },
    TurnEnded {
        session: String,
        #[serde(default)]
        aborted: bool,
    },
    /// The context as the client counts it after a turn; nothing where it does not know.
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
}

/// A line that the companion prints.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum Line<'a> {
    /// First: where to tell.
    Hello {
        v: u32,
        socket: Cow<'a, str>,
    },
    Clear {
        order: u64,
    },
    /// End the turn that runs now.
    Abort {
        order: u64,
    },
    Submit {
        order: u64,
        text: Cow<'a, str>,
    },
    /// A line in the client's status area; nothing takes it away.
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
    pub rows: Vec<Row>,
    /// What came of [`Answer::Fork`]; there, if empty, when the model was asked in vain.
    #[serde(default)]
    pub fork: Option<Fork>,
}

/// The session's own model was asked for a narrative.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
pub struct Fork {
    #[serde(default)]
    pub text: String,
    /// What it cost, as the model counts.
    #[serde(default)]
    pub usage: serde_json::Map<String, serde_json::Value>,
}

/// What becomes of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum Answer {
    /// This text and these rows are the new context.
    Handoff { handoff: HandoffId, text: String, keep: Vec<super::tail::Kept> },
    /// Ask the session's own model this, for so long, and ask us again with what it said.
    Fork { prompt: String, ms: u64 },
    /// The client compacts as it would without us.
    Next { why: String },
    /// No compaction at all.
    Skip { why: String },
}
