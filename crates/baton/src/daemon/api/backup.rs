//! `GET /backups`: the mirrored conversations.

use std::sync::Arc;

use crate::daemon::Daemon;
use crate::daemon::api::{Reply, blocking};
use crate::views::backups;

pub(crate) async fn list(daemon: &Arc<Daemon>) -> Reply {
    blocking(daemon, |daemon| Reply::ok(&backups::of(&daemon.paths, &daemon.store))).await
}
