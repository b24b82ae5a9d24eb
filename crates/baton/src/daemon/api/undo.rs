//! `POST /sessions/{id}/undo`: back to the conversation before the last rotation.

use std::sync::Arc;

use crate::daemon::Daemon;
use crate::daemon::api::{ApiRequest, HttpReply, act};
use crate::rotation::verbs;

pub(crate) async fn post(daemon: &Arc<Daemon>, request: ApiRequest) -> HttpReply {
    act(daemon, request, |daemon, caller, agent| {
        verbs::undo(&daemon.store, &daemon.config_of(agent.cwd.as_ref()), caller, agent)
    })
    .await
}
