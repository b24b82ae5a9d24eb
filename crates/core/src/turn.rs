//! Whose turn it is in a session: the client's or a person's.

use serde::{Deserialize, Serialize};

/// The state of a session's turn.
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
