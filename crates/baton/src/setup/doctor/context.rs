//! Where the context ends, whether our thresholds come before that, and which actuators are available.

use baton_core::agent::Agent;
use baton_core::compaction::{CompactionSettings, compaction_point};
use baton_core::rotation::Actuator;
use serde_json::Value;

use crate::setup::doctor::{Finding, Scene};
use crate::store::companions::CompanionState;
use crate::store::presence::Liveness;

/// The windows of the client's models.
const WINDOWS: [u64; 2] = [200_000, 1_000_000];

/// Which actuator is live for each running agent.
pub(super) fn actuators(scene: &Scene) -> Vec<Finding> {
    let mut agents = scene.store.agents().all();
    agents.retain(|agent| scene.store.presence(agent).liveness() == Liveness::Running);
    if agents.is_empty() {
        return vec![Finding::note(
            "No agent runs now; once one does, this says who gives it a fresh context",
        )];
    }
    let (mut in_place, mut restarted, mut typed, mut followed, mut windows, mut plain) = (0, 0, 0, 0, 0, 0);
    let mut findings = Vec::new();
    for agent in &agents {
        let presence = scene.store.presence(agent);
        let what = match presence.companion() {
            CompanionState::Silent(_) => Some("does not answer"),
            CompanionState::Gone(_) => Some("has ended before its client"),
            CompanionState::Live(_) | CompanionState::Never => None,
        };
        if let Some(what) = what {
            findings.push(Finding::warn(
                format!("The companion of {} {what}; another way to a fresh context is used", agent.id),
                "type /reload-plugins in that client, or restart it",
            ));
        }
        *match presence.actuator() {
            Some(Actuator::InPlace) => &mut in_place,
            Some(Actuator::Restart) => &mut restarted,
            Some(Actuator::Tmux) => &mut typed,
            Some(Actuator::Thread) => &mut followed,
            Some(Actuator::Window) => &mut windows,
            None if opens_window(scene, agent) => &mut windows,
            None => &mut plain,
        } += 1;
    }
    let ways = [
        (in_place, "in place, by the mod"),
        (restarted, "by a restart, under `baton run`"),
        (typed, "by /clear, typed into its tmux pane"),
        (followed, "as a new thread on Codex's daemon"),
        (windows, "by a fresh window that they begin themselves once they have handed over"),
        (plain, "when you type /clear, once told that its handoff is sealed"),
    ];
    let ways: Vec<String> =
        ways.iter().filter(|(n, _)| *n > 0).map(|(n, how)| format!("{n} {how}")).collect();
    let all: usize = in_place + restarted + typed + followed + plain;
    let run = if all == 1 { "agent runs and gets its" } else { "agents run and get their" };
    let what = format!("{all} {run} fresh context: {}", ways.join("; "));
    findings.push(if plain == 0 { Finding::ok(what) } else { Finding::note(what) });
    findings
}

/// Whether its client lets the agent begin a fresh window itself.
fn opens_window(scene: &Scene, agent: &Agent) -> bool {
    let session = agent.session.as_ref().and_then(|id| scene.store.sessions().readable(id));
    session.is_some_and(|session| session.opens_window)
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

pub(super) fn thresholds(scene: &Scene) -> Vec<Finding> {
    let thresholds = scene.config.context.thresholds();
    let settings = compaction_settings(scene);
    let seen = scene.store.compactions().observations();
    let mut findings: Vec<Finding> = Vec::new();
    for window in WINDOWS {
        let point = compaction_point(None, window, &settings, None, &seen);
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

/// Client settings that change when or whether it compacts.
pub(super) fn auto_compact(scene: &Scene) -> Vec<Finding> {
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
