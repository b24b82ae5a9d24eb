//! Our hooks: registered once, pointing at existing files, called lately; and other people's hooks.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::setup::doctor::{Finding, Scene};
use crate::setup::install::ours::{self, EVENTS};
use crate::setup::install::{folder, plugin, project_of, settings, version};
use crate::setup::migrate;
use crate::setup::migrate::find::{self, RegistrationKind};
use crate::store::log::LogLine;
use crate::sys::hash;

/// Every hook that the client would run here: its file, event and entry.
fn all(scene: &Scene) -> Vec<(PathBuf, String, Value)> {
    let mut all = Vec::new();
    let mut add = |path: &Path, value: &Value| {
        let hooks =
            settings::all_hooks(value).map(|(event, hook)| (path.to_owned(), event.to_owned(), hook.clone()));
        all.extend(hooks);
    };
    for source in &scene.settings {
        if let Some(value) = source.value() {
            add(&source.path, value);
        }
    }
    let skills = std::fs::read_dir(scene.paths.claude.join("skills")).into_iter().flatten().flatten();
    for entry in skills {
        let hooks = entry.path().join("hooks/hooks.json");
        if entry.path().join(".claude-plugin/plugin.json").is_file()
            && let Some(value) = std::fs::read(&hooks).ok().and_then(|bytes| settings::value(&bytes).ok())
        {
            add(&hooks, &value);
        }
    }
    all
}

fn is_ours((_, event, hook): &(PathBuf, String, Value)) -> bool {
    ours::is_hook(hook, event)
}

/// A team's hooks step back where the user has their own.
fn is_shared(hook: &Value) -> bool {
    hook.get("args").and_then(Value::as_array).is_some_and(|args| args.iter().any(|a| a == ours::SHARED_FLAG))
}

pub(super) const IMPATIENT: &str =
    "The client does not wait for an answer to a permission request as long as baton does";

fn too_short(ours: &[(PathBuf, String, Value)]) -> Option<Finding> {
    let is_short = ours.iter().any(|(_, event, hook)| ours::is_impatient(hook, event));
    is_short.then(|| Finding::warn(IMPATIENT, "run `baton install`"))
}

pub(super) fn registered(scene: &Scene) -> Vec<Finding> {
    let ours: Vec<_> = all(scene).into_iter().filter(is_ours).collect();
    if ours.is_empty() {
        return vec![Finding::fail("No hooks of baton are registered", "run `baton install`")];
    }
    let mut places: BTreeMap<&str, Vec<&Path>> = BTreeMap::new();
    let own = ours.iter().any(|(_, _, hook)| !is_shared(hook));
    for (path, event, _) in ours.iter().filter(|(_, _, hook)| !own || !is_shared(hook)) {
        places.entry(event).or_default().push(path);
    }
    let missing: Vec<&str> = EVENTS.iter().map(|(e, _)| *e).filter(|e| !places.contains_key(e)).collect();
    let twice: Vec<&str> =
        places.iter().filter(|(_, paths)| paths.len() > 1).map(|(event, _)| *event).collect();
    let mut findings = Vec::new();
    if !missing.is_empty() {
        let what = format!("Hooks are missing for {}", missing.join(", "));
        findings.push(Finding::fail(what, "run `baton install`"));
    }
    if !twice.is_empty() {
        let mut paths: Vec<String> = places.values().flatten().map(|p| scene.short(p)).collect();
        paths.sort();
        paths.dedup();
        let what = format!("Hooks run twice for {}: they are in {}", twice.join(", "), paths.join(" and "));
        findings
            .push(Finding::fail(what, "run `baton install`, or `baton uninstall --project` in this project"));
    }
    findings.extend(too_short(&ours));
    if findings.is_empty() {
        let place = scene.short(&ours[0].0);
        findings.push(Finding::ok(format!("All {} hooks are registered once, in {place}", EVENTS.len())));
    }
    findings.extend(folder_state(scene));
    findings
}

/// Whether the folder is as this version would write it.
fn folder_state(scene: &Scene) -> Option<Finding> {
    let dir = folder(&scene.paths);
    let stamp = plugin::read_stamp(&dir)?;
    if stamp.version != env!("CARGO_PKG_VERSION") {
        let what =
            format!("The plugin folder is of baton {}, this is {}", stamp.version, env!("CARGO_PKG_VERSION"));
        return Some(Finding::warn(what, "run `baton install`"));
    }
    let changed = stamp.files.iter().find(|(name, hash)| {
        std::fs::read(dir.join(name)).map_or(true, |bytes| hash::sha256(&bytes) != **hash)
    });
    changed.map(|(name, _)| {
        let what = format!("{} has changed since it was installed", scene.short(&dir.join(name)));
        Finding::warn(what, "run `baton install` to have it replaced")
    })
}

/// A hook whose program is gone makes the client complain at every event.
pub(super) fn referenced(scene: &Scene) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut seen = Vec::new();
    for entry in all(scene) {
        let Some(program) = ours::program_of(&entry.2).map(PathBuf::from) else { continue };
        if version::is_program(&program) || seen.contains(&(entry.0.clone(), program.clone())) {
            continue;
        }
        let what =
            format!("{} calls {}, which is not a program", scene.short(&entry.0), scene.short(&program));
        findings.push(if is_ours(&entry) {
            Finding::fail(what, "run `baton install`")
        } else {
            Finding::warn(what, "fix or remove that entry; it is not ours")
        });
        seen.push((entry.0, program));
    }
    if findings.is_empty() {
        findings.push(Finding::ok("Every program that a hook calls is there"));
    }
    findings
}

/// The latest lines of the log, newest last.
fn recent(scene: &Scene) -> Vec<LogLine> {
    let mut files = scene.store.log().days();
    let newest = files.split_off(files.len().saturating_sub(2));
    let text = newest.iter().filter_map(|path| std::fs::read(path).ok());
    text.flat_map(|bytes| {
        bytes.split(|b| *b == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect::<Vec<_>>()
    })
    .collect()
}

pub(super) fn called(scene: &Scene) -> Vec<Finding> {
    let lines = recent(scene);
    let mut findings = Vec::new();
    match lines.iter().rev().find(|line| line.session.is_some()) {
        Some(line) => findings.push(Finding::ok(format!("A hook last ran {} ago", ago(line.at, scene.now)))),
        None => findings
            .push(Finding::note("No hook has run yet; start a session, or try `baton doctor --rehearse`")),
    }
    let day = SignedDuration::from_hours(24);
    let faults = lines.iter().filter(|l| l.event == "fault" && scene.now.duration_since(l.at) < day).count();
    if faults > 0 {
        let what = format!("{faults} faults in the log since yesterday");
        findings.push(Finding::warn(what, "see `baton log --faults`"));
    }
    findings
}

fn ago(then: Timestamp, now: Timestamp) -> String {
    match now.duration_since(then).as_secs().max(0) {
        s @ 0..60 => format!("{s} s"),
        s @ 60..3600 => format!("{} min", s / 60),
        s @ 3600..86400 => format!("{} h", s / 3600),
        s => format!("{} days", s / 86400),
    }
}

/// Files that baton writes; a script that names one does the same work.
const OUR_FILES: [&str; 5] =
    [".context-status", "-CURRENT.md", ".manifest.json", ".pending-backup", ".restart-session"];

/// A script in `command` that names one of our files.
fn rival(scene: &Scene, command: &str) -> Option<(PathBuf, &'static str)> {
    let project = project_of(&scene.paths, &scene.cwd);
    find::scripts(command, &scene.paths.home, &project).into_iter().find_map(|path| {
        let text = crate::sys::fs::read(&path, 256 << 10).ok()??;
        let named = OUR_FILES.iter().find(|name| memchr::memmem::find(&text, name.as_bytes()).is_some())?;
        Some((path, *named))
    })
}

/// Other hooks that act at the same moments.
pub(super) fn others(scene: &Scene) -> Vec<Finding> {
    let known = find::find(&scene.paths, &scene.cwd);
    let mut findings: Vec<Finding> =
        migrate::sentences(&known).into_iter().map(|what| Finding::warn(what, migrate::HOW)).collect();
    let is_known = |command: &str| {
        let calls = |how: &RegistrationKind| matches!(how, RegistrationKind::Hook { command: known, .. } if known == command);
        known.iter().flat_map(|f| &f.entries).any(|entry| calls(&entry.how))
    };
    let mut beside = Vec::new();
    for entry in all(scene) {
        let (path, event, hook) = &entry;
        if is_ours(&entry) {
            continue;
        }
        let command = hook.get("command").and_then(Value::as_str).unwrap_or_default();
        if is_known(command) {
            continue;
        }
        if let Some((script, named)) = rival(scene, command) {
            let what = format!(
                "On {event}, {} runs {}, which works on {named} as baton does",
                scene.short(path),
                scene.short(&script)
            );
            findings.push(Finding::warn(what, "remove that entry: the two would overwrite each other"));
        } else if event == "PreCompact" || event == "Stop" {
            beside.push(event.clone());
        }
    }
    beside.sort();
    beside.dedup();
    if !beside.is_empty() {
        let what = format!(
            "Another tool has hooks on {}: it may block or change what happens there",
            beside.join(" and ")
        );
        findings.push(Finding::note(what));
    }
    findings
}
