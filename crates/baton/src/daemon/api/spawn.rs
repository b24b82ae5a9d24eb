//! `POST /spawn`: an agent in a new tmux pane.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use baton_core::ids::AgentId;
use serde::Deserialize;

use crate::daemon::Daemon;
use crate::daemon::api::{ApiRequest, HttpReply, blocking, parse, refused, unprocessable};
use crate::project::channel;
use crate::rotation::verbs::spawn::{SpawnOrder, spawn};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SpawnBody {
    name: String,
    cwd: PathBuf,
    #[serde(default)]
    provider: Option<String>,
    #[serde(default)]
    prompt: Option<String>,
    #[serde(default)]
    parent: Option<String>,
    #[serde(default)]
    approver: Option<String>,
    #[serde(default)]
    role: Option<String>,
    #[serde(default)]
    worktree: bool,
}

pub(crate) async fn post(daemon: &Arc<Daemon>, request: ApiRequest) -> HttpReply {
    let wanted: SpawnBody = match parse(&request) {
        Ok(wanted) => wanted,
        Err(reply) => return reply,
    };
    let agent_of = |name: Option<&str>| name.map(AgentId::new).transpose();
    let (Ok(name), Ok(parent), Ok(approver)) = (
        AgentId::new(&wanted.name),
        agent_of(wanted.parent.as_deref()),
        agent_of(wanted.approver.as_deref()),
    ) else {
        return unprocessable("a name of an agent has letters, digits, dots, dashes and underscores");
    };
    if !wanted.cwd.is_absolute() {
        return unprocessable("`cwd` is an absolute path");
    }
    if wanted.prompt.as_ref().is_some_and(|prompt| prompt.trim().is_empty()) {
        return unprocessable("the prompt is empty; leave it out or write one");
    }
    blocking(daemon, move |daemon| {
        let caller = request.caller(&daemon.store);
        let config = daemon.config_of(&wanted.cwd);
        let order = SpawnOrder {
            provider: wanted.provider,
            cwd: wanted.cwd,
            worktree: wanted.worktree,
            prompt: wanted.prompt,
            parent,
            approver,
            role: wanted.role,
            ..SpawnOrder::default()
        };
        let channel_of = |dir: &Path| Ok(channel::of(dir, None, None, &config, &daemon.paths)?.name);
        match spawn(&daemon.store, &config, &caller, &name, order, channel_of) {
            Ok(agent) => {
                let mut roster = daemon.roster();
                roster.refresh();
                let view = roster.view(&agent.id, &|cwd| daemon.thresholds(cwd));
                HttpReply::ok(&view)
            }
            Err(refusal) => refused(&refusal),
        }
    })
    .await
}
