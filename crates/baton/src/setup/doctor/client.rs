//! The client: its version, what its settings allow, and whose status line it shows.

use baton_core::plain::plain_line;
use serde_json::Value;

use crate::setup::delegate;
use crate::setup::doctor::rules::{Call, rule_covers};
use crate::setup::doctor::{Content, Finding, Scene, SettingsFile};
use crate::setup::install::record::InstallRecord;
use crate::setup::install::{ours, version};

pub(super) fn version(_: &Scene) -> Vec<Finding> {
    let finding = match version::client() {
        None => Finding::warn(
            "No `claude` is on the PATH",
            "install Claude Code, or start it once with its full path; baton works with it anyway",
        ),
        Some(version::Client { path, version: None }) => Finding::warn(
            format!("{} does not report its version", path.display()),
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

/// Settings files that the client cannot read either.
pub(super) fn settings(scene: &Scene) -> Vec<Finding> {
    let broken = |source: &crate::setup::doctor::SettingsFile| match &source.content {
        Content::Unusable(why) => Some(Finding::fail(
            format!("{} cannot be used: {why}", scene.short(&source.path)),
            "fix it; neither baton nor the client can read it as it is",
        )),
        _ => None,
    };
    scene.settings.iter().filter_map(broken).collect()
}

/// Switches that disable our hooks.
pub(super) fn policy(scene: &Scene) -> Vec<Finding> {
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

pub(super) fn statusline(scene: &Scene) -> Vec<Finding> {
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
            format!("The status line in {path} has no refreshInterval: an idle client never refreshes it");
        findings.push(Finding::warn(what, "run `baton install`"));
    }
    findings
}

/// What an unattended agent must be able to do, each rule checked by what it allows.
pub(super) fn permission(scene: &Scene) -> Vec<Finding> {
    let lists = |name: &str| -> Vec<String> {
        let of = |source: &SettingsFile| -> Vec<String> {
            let list = source.value().and_then(|v| v.get("permissions")?.get(name)?.as_array());
            list.into_iter().flatten().filter_map(|rule| Some(rule.as_str()?.to_owned())).collect()
        };
        scene.settings.iter().flat_map(of).collect()
    };
    let (allow, deny, ask) = (lists("allow"), lists("deny"), lists("ask"));
    let passes = |call: &Call<'_>| {
        let any = |rules: &[String]| rules.iter().any(|rule| rule_covers(rule, call));
        any(&allow) && !any(&deny) && !any(&ask)
    };
    let mut findings = Vec::new();
    let mut check = |may: &str, must_ask: &str, calls: &[Call<'_>], rule: &str| {
        findings.push(if calls.iter().all(passes) {
            Finding::ok(may)
        } else {
            let what = format!("{must_ask}: one that nobody watches would wait for an answer forever");
            Finding::warn(what, format!("run `baton install`, or add {rule} to permissions.allow"))
        });
    };
    check(
        "Agents may run `baton handoff` without asking",
        "Agents must ask before `baton handoff`",
        &[Call::Shell("baton handoff .baton/handoff-app.md"), Call::Shell("baton handoff -")],
        ours::RULES[0],
    );
    check(
        "Agents may write their handoff into .baton without asking",
        "Agents must ask before they write their handoff into .baton",
        &[Call::Write(".baton/handoff-app.md")],
        ours::RULES[1],
    );
    // Another check reports an unreadable record.
    if InstallRecord::read(&scene.paths.state).is_ok_and(|record| record.sm.is_some()) {
        check(
            "Agents may run `sm handoff` without asking",
            "Agents must ask before `sm handoff`",
            &[Call::Shell("sm handoff .baton/handoff-app.md")],
            ours::SM_RULE,
        );
    }
    // Only if the user chose them.
    if ours::AGENT_RULES.iter().any(|rule| allow.iter().any(|allowed| allowed == rule)) {
        let commands: Vec<String> = ours::AGENT_RULES.iter().filter_map(|rule| example(rule)).collect();
        let calls: Vec<Call<'_>> = commands.iter().map(|command| Call::Shell(command)).collect();
        let missing = calls.iter().zip(ours::AGENT_RULES).filter(|(call, _)| !passes(call));
        let missing: Vec<&str> = missing.map(|(_, rule)| rule).collect();
        check(
            "Agents that lead others may run what they need without asking",
            "Agents that lead others must ask for some of their commands",
            &calls,
            &missing.join(", "),
        );
    }
    findings
}

/// A command that one of our rules allows.
fn example(rule: &str) -> Option<String> {
    Some(format!("{} q1", rule.strip_prefix("Bash(")?.strip_suffix(":*)")?))
}
