//! How full an agent was over time, from the log.

use baton_core::ids::AgentId;
use baton_core::levels::{LevelMark, LevelPoint, Levels};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::store::Store;
use crate::views::agent::AgentView;
use crate::views::log::lines;

/// More points than a wide screen has columns add nothing.
const MAX_POINTS: usize = 1_200;

/// The saw-tooth of an agent's context.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct LevelsView {
    pub since: Timestamp,
    pub points: Vec<LevelPoint>,
    pub marks: Vec<LevelMark>,
    pub window: Option<u64>,
    pub warn_at: Option<u64>,
    pub ask_at: Option<u64>,
    pub compacts_at: Option<u64>,
}

/// The log's figures about `id` since then. The thresholds are the current ones, from `view`.
pub(crate) fn of(store: &Store, id: &AgentId, view: Option<&AgentView>, since: Timestamp) -> LevelsView {
    let mut levels = Levels::default();
    for line in lines(store, id, since) {
        levels.feed(line.at, &line.event, &line.detail);
    }
    levels.thin(MAX_POINTS);
    LevelsView {
        since,
        points: levels.points,
        marks: levels.marks,
        window: view.and_then(|v| v.window),
        warn_at: view.and_then(|v| v.warn_at),
        ask_at: view.and_then(|v| v.ask_at),
        compacts_at: view.and_then(|v| v.compacts_at),
    }
}
