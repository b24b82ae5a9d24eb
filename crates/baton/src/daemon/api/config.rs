//! `GET /config`: every setting with its value and where that comes from; `?agent=` in that agent's folder.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::config::KEYS;
use crate::daemon::api::{ApiRequest, HttpReply, blocking, query, resolve, unprocessable};
use crate::daemon::{Daemon, variables};
use crate::project::trust;

pub(crate) async fn get(daemon: &Arc<Daemon>, request: ApiRequest) -> HttpReply {
    let agent = match query(&request.query, "agent").map(|name| resolve(daemon, name)).transpose() {
        Ok(agent) => agent,
        Err(reply) => return reply,
    };
    blocking(daemon, move |daemon| {
        let cwd = agent.and_then(|id| Some(PathBuf::from(&daemon.roster().get(&id)?.agent.cwd)));
        let cwd = cwd.unwrap_or_else(|| daemon.paths.home.clone());
        let resolved = match trust::settings(&daemon.paths, &cwd, variables()) {
            Ok(resolved) => resolved,
            Err(e) => return unprocessable(&e.to_string()),
        };
        let rows: Vec<Value> = KEYS
            .iter()
            .zip(&resolved.origins)
            .map(|(key, origin)| {
                json!({ "key": key.name, "value": (key.get)(&resolved.config),
                    "from": origin.shown(&daemon.paths), "help": key.help })
            })
            .collect();
        HttpReply::ok(&json!({ "settings": rows, "ignored": resolved.ignored.len() }))
    })
    .await
}
