//! Where the context ends, whether our thresholds lie before that, and who can give a fresh one.

use baton_core::compaction::{CompactionSettings, compaction_point};
use serde_json::Value;

use super::{Finding, Scene};
use crate::companion::{self, Presence};
use crate::store::compaction;
use crate::sys::process;

/// Windows that the client's models have.
const WINDOWS: [u64; 2] = [200_000, 1_000_000];

/// Which way to a fresh context is live for agents that run now.
pub fn actuators(scene: &Scene) -> Vec<Finding> {
    let mut agents = scene.store.agents().all();
    agents.retain(|a| {
        a.ended.is_none() && [&a.process, &a.supervisor].into_iter().flatten().any(process::is_alive)
    });
    if agents.is_empty() {
        return vec![Finding::note(
            "No agent runs now; a plain client gets a fresh context when you type /clear",
        )];
    }
    let (mut in_place, mut restarted, mut plain) = (0, 0, 0);
    let mut findings = Vec::new();
    for agent in &agents {
        let companion = companion::state(&scene.store, agent);
        let what = match &companion {
            Presence::Live(record) if record.interactive => {
                in_place += 1;
                continue;
            }
            Presence::Silent(_) => Some("does not answer"),
            Presence::Gone(_) => Some("has ended before its client"),
            Presence::Live(_) | Presence::Never => None,
        };
        if let Some(what) = what {
            findings.push(Finding::warn(
                format!("The companion of {} {what}; the next way to a fresh context is used", agent.id),
                "type /reload-plugins in that client, or start it anew",
            ));
        }
        if agent.supervisor.as_ref().is_some_and(process::is_alive) {
            restarted += 1;
        } else {
            plain += 1;
        }
    }
    let ways = [
        (in_place, "rotated in place by the mod"),
        (restarted, "restarted by `baton run`"),
        (plain, "in a plain client, where you type /clear when told that the handoff is sealed"),
    ];
    let ways: Vec<String> =
        ways.iter().filter(|(n, _)| *n > 0).map(|(n, how)| format!("{n} {how}")).collect();
    let what = format!("Running: {}", ways.join("; "));
    findings.push(if plain == 0 { Finding::ok(what) } else { Finding::note(what) });
    findings
}

/// What moves the compaction point: settings, their `env`, our own environment.
fn compaction_settings(scene: &Scene) -> CompactionSettings {
    let enabled = scene.setting("autoCompactEnabled").and_then(|(_, v)| v.as_bool());
    let ours: Vec<(&str, Option<String>)> =
        VARIABLES.iter().map(|name| (*name, std::env::var(name).ok())).collect();
    let from_settings =
        |name: &str| scene.settings.iter().find_map(|s| s.value()?.get("env")?.get(name)?.as_str());
    CompactionSettings::from_env(enabled, |name| {
        from_settings(name).or_else(|| ours.iter().find(|(n, _)| *n == name)?.1.as_deref())
    })
}

const VARIABLES: [&str; 3] =
    ["DISABLE_AUTO_COMPACT", "CLAUDE_CODE_AUTO_COMPACT_WINDOW", "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE"];

pub fn thresholds(scene: &Scene) -> Vec<Finding> {
    let thresholds = scene.config.context.thresholds();
    let settings = compaction_settings(scene);
    let seen = compaction::observations(&scene.store.state);
    let mut findings: Vec<Finding> = Vec::new();
    for window in WINDOWS {
        let point = compaction_point(None, window, &settings, &seen);
        for clamp in thresholds.clamps(0, window, point.end()) {
            findings.push(Finding::warn(
                format!("With a window of {window} tokens: {clamp}"),
                "lower that threshold in the configuration, or leave it: the lower one counts",
            ));
        }
    }
    if findings.is_empty() {
        findings.push(Finding::ok("Every threshold lies before the point where the client compacts"));
    }
    findings
}

/// Settings of the client that change when, or whether, it compacts.
pub fn auto_compact(scene: &Scene) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some((source, Value::Bool(false))) = scene.setting("autoCompactEnabled") {
        findings.push(Finding::note(format!(
            "{} turns auto-compaction off: without a fresh context in time the API refuses",
            scene.short(&source.path)
        )));
    }
    for name in VARIABLES {
        if std::env::var(name).is_ok_and(|v| !v.is_empty()) {
            findings.push(Finding::note(format!(
                "{name} is set here and moves the point where the client compacts"
            )));
        }
        let source = scene
            .settings
            .iter()
            .find(|s| s.value().is_some_and(|v| v.get("env").is_some_and(|e| e.get(name).is_some())));
        if let Some(source) = source {
            let path = scene.short(&source.path);
            findings.push(Finding::note(format!(
                "{path} sets {name}, which moves the point where the client compacts"
            )));
        }
    }
    findings
}
