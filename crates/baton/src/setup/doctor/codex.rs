//! Codex: whether our hooks are registered there and run.

use std::path::Path;

use crate::providers;
use crate::setup::doctor::hooks::IMPATIENT;
use crate::setup::doctor::{Finding, Scene};
use crate::setup::install::codex::{EVENTS, hooks_file, probe_window, standing, window_is_configured};
use crate::setup::install::trust::HookTrust;
use crate::setup::install::version;

pub(super) fn hooks(scene: &Scene) -> Vec<Finding> {
    let standing = standing(&scene.paths);
    let file = scene.short(&hooks_file(&scene.paths));
    if let Some(why) = &standing.unusable {
        return vec![Finding::fail(format!("Codex's own files cannot be read: {why}"), "fix that file")];
    }
    if !standing.is_registered() {
        let is_there = providers::with_hooks_file().is_some_and(|client| client.locate().is_some());
        let note =
            "Codex is on the PATH and has no hooks of baton's; `baton install --provider codex` adds them";
        return is_there.then(|| Finding::note(note)).into_iter().collect();
    }
    let mut findings = Vec::new();
    if !standing.missing.is_empty() {
        let what = format!("Codex has no hook of baton's for {}", standing.missing.join(", "));
        findings.push(Finding::fail(what, "run `baton install --provider codex`"));
    }
    for program in &standing.gone {
        let what = format!("{file} calls {program}, which is not a program");
        findings.push(Finding::fail(what, "run `baton install --provider codex`"));
    }
    if standing.impatient {
        findings.push(Finding::warn(
            IMPATIENT,
            "run `baton install --provider codex`, and accept the hook again",
        ));
    }
    let of = |state: HookTrust| -> Vec<&str> {
        standing.skipped.iter().filter(|(_, s)| *s == state).map(|(event, _)| event.as_str()).collect()
    };
    for (state, why) in [
        (HookTrust::Untrusted, "you have not reviewed them"),
        (HookTrust::Changed, "they have changed since you reviewed them"),
    ] {
        let events = of(state);
        if !events.is_empty() {
            let what = format!(
                "Codex does not run {} of {} hooks, because {why}: {}",
                events.len(),
                EVENTS.len(),
                events.join(", ")
            );
            let todo = "accept them at the next start of `codex` in a terminal, or run `baton install --provider codex --trust`";
            findings.push(Finding::fail(what, todo));
        }
    }
    let off = of(HookTrust::Off);
    if !off.is_empty() {
        let what = format!("You have switched off hooks of baton's in Codex: {}", off.join(", "));
        findings.push(Finding::warn(what, "switch them on in `/hooks` of Codex, or uninstall"));
    }
    if findings.is_empty() {
        findings.push(Finding::ok(format!(
            "All {} hooks of Codex are registered and trusted, in {file}",
            EVENTS.len()
        )));
    }
    findings.extend(fresh_window(scene));
    findings.extend(in_its_shell());
    findings
}

/// Whether agents can begin a fresh window themselves: as configured, and as the client itself says.
fn fresh_window(scene: &Scene) -> Option<Finding> {
    let is_configured = match window_is_configured(&scene.paths) {
        Ok(is_configured) => is_configured,
        Err(e) => {
            return Some(Finding::warn(
                format!("Codex's configuration cannot be read: {e:#}"),
                "fix that file",
            ));
        }
    };
    match (is_configured, probe_window()) {
        (true, Some(true)) => Some(Finding::ok(
            "Codex agents that have handed over continue in a fresh window of the same thread (its feature token_budget)",
        )),
        (true, _) => Some(Finding::warn(
            "Codex's feature token_budget is switched on, and the Codex on the PATH does not say that it has it: fresh contexts come as before",
            "update Codex, or take the switch out of its config.toml",
        )),
        (false, Some(false)) => Some(Finding::note(
            "Codex agents could continue in a fresh window of the same thread: `baton install --provider codex --fresh-window` (under development there)",
        )),
        (false, _) => None,
    }
}

/// Our hooks are called by their whole path. Codex runs an agent's commands in a login shell,
/// whose profile may set another PATH than ours.
fn in_its_shell() -> Option<Finding> {
    const NONE: &str = "there-is-none";
    let shell = std::env::var_os("SHELL").filter(|shell| !shell.is_empty())?;
    let question = format!("command -v baton || echo {NONE}");
    let said = version::answer(Path::new(&shell), &["-lc", &question])?;
    let is_missing = said.lines().last().is_none_or(|line| line.trim() == NONE);
    is_missing.then(|| {
        Finding::warn(
            format!(
                "The login shell {}, in which Codex runs an agent's commands, finds no `baton`: its agents cannot hand over",
                shell.to_string_lossy()
            ),
            "add the folder of `baton` to the PATH in that shell's profile (~/.bash_profile or the like)",
        )
    })
}
