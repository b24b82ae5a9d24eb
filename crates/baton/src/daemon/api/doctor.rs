//! `GET /doctor`: the findings of `baton doctor` in the home folder.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::daemon::Daemon;
use crate::daemon::api::{HttpReply, blocking};
use crate::setup::doctor::{Scene, examine};

pub(crate) async fn get(daemon: &Arc<Daemon>) -> HttpReply {
    blocking(daemon, |daemon| {
        let scene = Scene::new(daemon.paths.clone(), daemon.paths.home.clone());
        let findings: Vec<Value> = examine(&scene)
            .iter()
            .map(|(check, f)| json!({ "check": check, "level": f.level, "what": f.what, "do": f.todo }))
            .collect();
        HttpReply::ok(&json!({ "findings": findings }))
    })
    .await
}
