//! `GET /fleet`: the other machines and their agents, as last heard.

use std::sync::Arc;

use crate::daemon::Daemon;
use crate::daemon::api::{Reply, blocking, failed};
use crate::fleet::ask_for_news;
use crate::fleet::roll::FleetView;

pub(crate) async fn get(daemon: &Arc<Daemon>) -> Reply {
    blocking(daemon, |daemon| match FleetView::read(&daemon.store.state) {
        Ok(view) => {
            // For the next time: whoever looks at other machines looks again, and nobody waits for a database here.
            if view.machine.is_some() {
                ask_for_news(&daemon.store.state);
            }
            Reply::ok(&view)
        }
        Err(e) => failed(&e),
    })
    .await
}
