//! `GET /search`: all conversations, with the filters of `baton sessions search`. `GET /tasks`: each agent's chain of contexts
//! over the last days, which `baton sessions tree` draws.

use std::sync::Arc;

use baton_core::transcript::passages::Role;
use jiff::{SignedDuration, Timestamp};

use crate::daemon::Daemon;
use crate::daemon::api::status::stamp;
use crate::daemon::api::{ApiRequest, HttpReply, blocking, decoded, query, unprocessable};
use crate::history::moment::moment;
use crate::views::search::{self, SearchOrder};
use crate::views::tasks::{self, TasksView};

const USUAL_LIMIT: usize = 50;
const MAX_LIMIT: usize = 500;
const MAX_CONTEXT: usize = 20;
/// How far back tasks are shown by default.
const USUAL_TIME: SignedDuration = SignedDuration::from_hours(7 * 24);
const USUAL_TASKS: usize = 100;

pub(crate) async fn search(daemon: &Arc<Daemon>, request: ApiRequest) -> HttpReply {
    let order = match order(&request.query, Timestamp::now()) {
        Ok(order) => order,
        Err(why) => return unprocessable(&why),
    };
    blocking(daemon, move |daemon| match search::of(&daemon.paths, &daemon.config(), &order) {
        Ok(found) => HttpReply::ok(&found),
        Err(e) => unprocessable(&e.to_string()),
    })
    .await
}

fn order(query: &str, now: Timestamp) -> Result<SearchOrder, String> {
    let text = |name: &str| decoded(query, name).filter(|value| !value.trim().is_empty());
    let number = |name: &str, usual: usize, most: usize| match text(name).map(|n| n.parse::<usize>()) {
        None => Ok(usual),
        Some(Ok(n)) => Ok(n.min(most)),
        Some(Err(_)) => Err(format!("`{name}` is a number")),
    };
    let when = |name: &str| text(name).map(|w| moment(&w, now).map_err(|e| e.to_string())).transpose();
    let role = match text("role").as_deref() {
        None => None,
        Some("user") => Some(Role::User),
        Some("assistant") => Some(Role::Assistant),
        Some("tool") => Some(Role::Tool),
        Some(_) => return Err("`role` is user, assistant or tool".to_owned()),
    };
    Ok(SearchOrder {
        words: text("q").ok_or("`q` says what to look for")?,
        regex: text("regex").as_deref() == Some("true"),
        role,
        tool: text("tool"),
        file: text("file"),
        since: when("since")?,
        until: when("until")?,
        project: text("project"),
        context: number("context", 0, MAX_CONTEXT)?,
        limit: number("limit", USUAL_LIMIT, MAX_LIMIT)?,
    })
}

pub(crate) async fn tasks(daemon: &Arc<Daemon>, request: ApiRequest) -> HttpReply {
    let since = match query(&request.query, "since").map(stamp) {
        None => Timestamp::now() - USUAL_TIME,
        Some(Some(since)) => since,
        Some(None) => return unprocessable("`since` is a time stamp"),
    };
    let Ok(limit) = query(&request.query, "limit").map(str::parse::<usize>).transpose() else {
        return unprocessable("`limit` is a number");
    };
    let limit = limit.unwrap_or(USUAL_TASKS);
    blocking(daemon, move |daemon| {
        let mut views = {
            let mut roster = daemon.roster();
            roster.refresh();
            roster.views(&|cwd| daemon.thresholds(cwd))
        };
        // Those where something happened last come first, so that the bound leaves out the oldest.
        views.sort_by_key(|(view, _)| std::cmp::Reverse(view.state_since.unwrap_or(view.created)));
        let mut found = TasksView { since, tasks: Vec::new(), left_out: 0 };
        for (view, agent) in &views {
            if found.tasks.len() >= limit {
                found.left_out += 1;
                continue;
            }
            let handoffs = daemon.store.handoffs(&daemon.config_of(agent.cwd.as_ref()));
            found.tasks.extend(tasks::of(&daemon.store, &handoffs, agent, view, since));
        }
        HttpReply::ok(&found)
    })
    .await
}
