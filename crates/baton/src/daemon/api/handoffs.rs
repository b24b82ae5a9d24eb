//! `GET /sessions/{id}/chain`, `GET /sessions/{id}/draft`, `GET /handoffs/{id}`, `GET /handoffs/{id}/hop`: handoffs, sealed and to come.

use std::sync::Arc;

use baton_core::handoff::HandoffId;
use hyper::StatusCode;
use jiff::Timestamp;

use crate::daemon::Daemon;
use crate::daemon::api::{ApiRequest, HttpReply, blocking, on_agent, shown};
use crate::views;

pub(crate) async fn chain(daemon: &Arc<Daemon>, request: ApiRequest) -> HttpReply {
    on_agent(daemon, request, |daemon, _, agent| {
        let handoffs = daemon.store.handoffs(&daemon.config_of(agent.cwd.as_ref()));
        shown(views::chain::of(&daemon.store, &handoffs, agent))
    })
    .await
}

pub(crate) async fn draft(daemon: &Arc<Daemon>, request: ApiRequest) -> HttpReply {
    on_agent(daemon, request, |daemon, _, agent| {
        let handoffs = daemon.store.handoffs(&daemon.config_of(agent.cwd.as_ref()));
        shown(views::draft::of(&daemon.store, &handoffs, agent, Timestamp::now()))
    })
    .await
}

/// The items that it took over from the previous handoff.
pub(crate) async fn hop(daemon: &Arc<Daemon>, request: ApiRequest) -> HttpReply {
    let Ok(id) = HandoffId::new(&request.id) else {
        return HttpReply::error(StatusCode::NOT_FOUND, "this is not the id of a handoff");
    };
    blocking(daemon, move |daemon| {
        shown(views::chain::hop_items(&daemon.store.handoffs(&daemon.config()), &id))
    })
    .await
}

pub(crate) async fn show(daemon: &Arc<Daemon>, request: ApiRequest) -> HttpReply {
    let Ok(id) = HandoffId::new(&request.id) else {
        return HttpReply::error(StatusCode::NOT_FOUND, "this is not the id of a handoff");
    };
    blocking(daemon, move |daemon| {
        shown(views::chain::handoff(&daemon.store.handoffs(&daemon.config()), &id))
    })
    .await
}
