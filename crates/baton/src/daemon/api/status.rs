//! `GET /sessions/{id}/levels`: how full an agent was over time.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::daemon::Daemon;
use crate::daemon::api::{ApiRequest, HttpReply, on_agent, query, unprocessable};
use crate::views::levels;

/// The default period.
const USUAL: SignedDuration = SignedDuration::from_hours(24);

pub(crate) async fn levels(daemon: &Arc<Daemon>, request: ApiRequest) -> HttpReply {
    let since = match query(&request.query, "since").map(stamp) {
        None => Timestamp::now() - USUAL,
        Some(Some(since)) => since,
        Some(None) => return unprocessable("`since` is a time stamp"),
    };
    on_agent(daemon, request, move |daemon, _, agent| {
        let view = daemon.roster().view(&agent.id, &|cwd| daemon.thresholds(cwd));
        HttpReply::ok(&levels::of(&daemon.store, &agent.id, view.as_ref(), since))
    })
    .await
}

/// Parses a time stamp in a query: seconds since the epoch, or ISO 8601, perhaps with encoded colons.
pub(crate) fn stamp(text: &str) -> Option<Timestamp> {
    match text.parse::<i64>() {
        Ok(seconds) => Timestamp::from_second(seconds).ok(),
        Err(_) => text.replace("%3A", ":").replace("%3a", ":").replace("%2B", "+").parse().ok(),
    }
}
