//! `POST /sessions/{id}/rotate`: a fresh context now.

use std::sync::Arc;

use crate::daemon::Daemon;
use crate::daemon::api::{ApiRequest, HttpReply, act};
use crate::rotation::verbs;

pub(crate) async fn post(daemon: &Arc<Daemon>, request: ApiRequest) -> HttpReply {
    act(daemon, request, |daemon, caller, agent| verbs::rotate(&daemon.store, caller, agent)).await
}
