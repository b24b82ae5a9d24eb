//! `GET /fleet`: the other machines and their agents, in their last known state.

use std::sync::Arc;

use crate::daemon::Daemon;
use crate::daemon::api::{HttpReply, blocking, failed};
use crate::fleet::ask_for_news;
use crate::fleet::roll::FleetView;

pub(crate) async fn get(daemon: &Arc<Daemon>) -> HttpReply {
    blocking(daemon, |daemon| match FleetView::read(&daemon.store.state) {
        Ok(view) => {
            // Refresh for the next request: a viewer asks again, and nothing here waits for the database.
            if view.machine.is_some() {
                ask_for_news(&daemon.store.state);
            }
            HttpReply::ok(&view)
        }
        Err(e) => failed(&e),
    })
    .await
}
