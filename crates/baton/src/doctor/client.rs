//! The client: which one, what its settings allow, and whose status line it shows.

use baton_core::plain::plain_line;
use serde_json::Value;

use super::{Content, Finding, Scene};
use crate::hot::delegate;
use crate::install::{ours, version};

pub fn version(_: &Scene) -> Vec<Finding> {
    let finding = match version::client() {
        None => Finding::warn(
            "No `claude` is on the PATH",
            "install Claude Code, or start it once with its full path; baton works with it all the same",
        ),
        Some(version::Client { path, version: None }) => Finding::warn(
            format!("{} does not tell its version", path.display()),
            "run `claude --version` yourself and see what is wrong",
        ),
        Some(version::Client { version: Some(version), .. }) if version < version::PLUGIN_FOLDERS => {
            Finding::note(format!(
                "Claude Code {version}, too old for plugin folders: the hooks belong into settings.json"
            ))
        }
        Some(version::Client { version: Some(version), .. }) => Finding::ok(format!("Claude Code {version}")),
    };
    vec![finding]
}

/// Files that the client, too, would have to ignore.
pub fn settings(scene: &Scene) -> Vec<Finding> {
    let broken = |source: &super::Source| match &source.content {
        Content::Unusable(why) => Some(Finding::fail(
            format!("{} cannot be used: {why}", scene.short(&source.path)),
            "mend it; neither baton nor the client can read it as it is",
        )),
        _ => None,
    };
    scene.settings.iter().filter_map(broken).collect()
}

/// Switches that turn our hooks off.
pub fn policy(scene: &Scene) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in &scene.settings {
        let Some(value) = source.value() else { continue };
        let path = scene.short(&source.path);
        for key in ["disableAllHooks", "allowManagedHooksOnly", "allowManagedModsOnly"] {
            if value.get(key) == Some(&Value::Bool(true)) {
                let what = format!("{path} sets {key}: our hooks do not run");
                findings
                    .push(Finding::fail(what, "remove that line, or ask whoever administers this machine"));
            }
        }
        let plugin = value.get("enabledPlugins").and_then(|p| p.get("baton@skills-dir"));
        if plugin == Some(&Value::Bool(false)) {
            let what = format!("{path} disables the plugin baton@skills-dir");
            findings.push(Finding::fail(what, "run `claude plugin enable baton@skills-dir`"));
        }
    }
    if findings.is_empty() {
        findings.push(Finding::ok("No setting turns hooks off"));
    }
    findings
}

pub fn statusline(scene: &Scene) -> Vec<Finding> {
    let Some((source, value)) = scene.setting("statusLine") else {
        return vec![Finding::warn(
            "There is no status line: readings come from the transcript only, and nobody sees the level",
            "run `baton install`",
        )];
    };
    let path = scene.short(&source.path);
    let command = value.get("command").and_then(Value::as_str).unwrap_or_default();
    if !ours::is_statusline(command) {
        return vec![Finding::warn(
            format!("The status line in {path} is another one; readings come from the transcript only"),
            "run `baton install`: ours then runs that one too",
        )];
    }
    let mut findings = Vec::new();
    match ours::then_key(command) {
        None => findings.push(Finding::ok("The status line is ours")),
        Some(key) => match delegate::command(&scene.store.state, &key) {
            Some(theirs) => findings.push(Finding::ok(format!(
                "The status line is ours and runs yours below it: {}",
                plain_line(&theirs, 60)
            ))),
            None => findings.push(Finding::warn(
                "The status line that ours should run too is not known any more",
                "set your own in settings.json again and run `baton install`",
            )),
        },
    }
    if value.get("refreshInterval").is_none() {
        let what =
            format!("The status line in {path} has no refreshInterval: an idle client never shows news");
        findings.push(Finding::warn(what, "run `baton install`"));
    }
    findings
}

pub fn permission(scene: &Scene) -> Vec<Finding> {
    let allowed = scene.settings.iter().filter_map(super::Source::found).any(|found| found.rule);
    vec![if allowed {
        Finding::ok("Agents may run `baton handoff` without asking")
    } else {
        Finding::warn(
            "Agents must ask before `baton handoff`: an unattended one would wait for an answer for ever",
            format!("run `baton install`, or add {} to permissions.allow", ours::RULE),
        )
    }]
}
