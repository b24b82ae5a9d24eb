//! `GET /backups`: the mirrored conversations.

use std::sync::Arc;

use crate::daemon::Daemon;
use crate::daemon::api::{HttpReply, blocking};
use crate::views::backups;

pub(crate) async fn list(daemon: &Arc<Daemon>) -> HttpReply {
    blocking(daemon, |daemon| HttpReply::ok(&backups::of(&daemon.paths, &daemon.store))).await
}
