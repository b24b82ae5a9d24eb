//! One task over many contexts of the real clients, with a model that writes no handoff, or only one in its second
//! context. The first request of the last context must contain the first prompt, its rule, and the next step from that
//! handoff.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result};
use baton_testkit::model::{Request, Script, shell, text};

use super::scene::{self, Client, LOADED, Scene};

const GOAL: &str = "TAUGOAL: port the tests. Never edit Cargo.lock.";
const NEXT: &str = "FROBNICATE-NEXT: rewrite the frobnicator.";
const WORKED: &str = "WORKED-ON-IT";

/// Whether this context comes after so many others. The first handoff of a task does not count any.
fn is_after(seen: &str, contexts: usize) -> bool {
    if contexts == 1 {
        return seen.contains(LOADED) && !seen.contains("Sealed in context ");
    }
    seen.contains(&format!("Sealed in context {contexts} of the task"))
}

/// A model that ignores every request for a handoff until the task is in context `last`; with `writes` it hands over
/// once on its own, in the second. `full` is the usage that makes a context critical.
fn deaf(last: usize, writes: bool, full: u64) -> Script {
    let written = AtomicBool::new(!writes);
    Script::new()
        .react(move |request| {
            let seen = request.text();
            if is_after(&seen, last - 1) {
                return Some(text("All done.").usage(20_000));
            }
            if is_after(&seen, 1) && !written.swap(true, Ordering::Relaxed) {
                let command = format!("printf '# Where I am\n\n## Next\n{NEXT}\n' | baton handoff -");
                return Some(shell(command).usage(full));
            }
            let worked = request.last_user_text().contains(WORKED);
            (!worked).then(|| shell(work()).usage(full))
        })
        .otherwise(text("I go on.").usage(full))
}

/// Work that lasts until Claude Code has written this call's usage to the transcript. It writes late, and a scripted model
/// answers so fast that the turn would be over first, with nothing for the hooks to read.
fn work() -> String {
    let transcript = "~/.claude/projects/*/$CLAUDE_CODE_SESSION_ID.jsonl";
    // Bounded, because nobody ends it if the client dies first.
    format!(
        "[ -z \"$CLAUDE_CODE_SESSION_ID\" ] || for _ in $(seq 1000); do \
         if grep -qs '\"usage\":' {transcript}; then break; fi; sleep 0.02; done; echo {WORKED}"
    )
}

/// Asserts that the task's content reached the context after `contexts` others.
#[track_caller]
fn assert_carried<C: Client>(scene: &Scene<C>, contexts: usize, writes: bool) {
    let asked = scene.asked();
    let first = asked.iter().find(|request| is_after(&request.text(), contexts));
    let seen = first.unwrap_or_else(|| panic!("no context {}\n{}", contexts + 1, scene.log())).text();
    assert_said(&seen, writes);
}

#[track_caller]
fn assert_said(seen: &str, writes: bool) {
    let handoff = seen.rfind("=== HANDOFF LOADED").map_or("", |at| &seen[at..]);
    assert!(handoff.contains("TAUGOAL: port the tests."), "the goal is lost: {seen}");
    assert!(handoff.contains("Never edit Cargo.lock."), "the rule is lost: {seen}");
    assert_eq!(handoff.contains(NEXT), writes, "what comes next: {seen}");
    let mut requests = handoff.lines().filter(|line| line.contains("Latest request")).peekable();
    assert!(requests.peek().is_some(), "no request is named: {seen}");
    assert!(
        !requests.any(|line| line.contains("Continue where")),
        "our own prompt counts as a request: {seen}"
    );
}

fn headless(writes: bool) -> Result<()> {
    let Some(scene) = scene::claude(deaf(5, writes, 700_000))? else { return Ok(()) };
    let scene = scene.allow(&["Bash"]);
    let finished = scene.run_headless(&["-p", "--", GOAL])?;
    assert_eq!(
        (finished.code, finished.stdout.trim()),
        (Some(0), "All done."),
        "{finished:?}\n{}",
        scene.log()
    );
    assert_carried(&scene, 4, writes);
    Ok(())
}

#[test]
fn five_headless_contexts_know_the_goal_though_nobody_writes_a_handoff() -> Result<()> {
    headless(false)
}

#[test]
fn five_headless_contexts_know_what_was_written_in_the_second() -> Result<()> {
    headless(true)
}

/// Three rotations inside the client, followed by a `/compact`.
fn in_place(writes: bool) -> Result<()> {
    let Some(scene) = scene::claude_with_mod(deaf(4, writes, 700_000))? else { return Ok(()) };
    let scene = scene.allow(&["Bash"]);
    let pane = scene.start()?;
    scene.companion()?;
    pane.submit(GOAL)?;
    for contexts in 1..=3 {
        scene.wait_until("the sealed handoff", || {
            scene.logged("rotated") >= contexts || {
                scene.records("agents").iter().any(|agent| agent["rotation"].is_object())
            }
        })?;
        scene.wait_until("the next context", || {
            scene.asked().iter().any(|request| is_after(&request.text(), contexts))
        })?;
    }
    scene.hear(&pane, "All done.")?;
    assert_carried(&scene, 3, writes);
    let actuators = scene.records("rotations");
    assert!(actuators.iter().all(|rotation| rotation["actuator"] == "mod"), "{actuators:?}");

    scene.wait_for_input(&pane)?;
    scene.ask(&pane, "/compact", "Compacted")?;
    let before = scene.asked().len();
    pane.submit("What is left?")?;
    let asked = scene.wait_for_requests(before + 1)?;
    assert_eq!(scene.model.compactions(), 0);
    assert_said(&asked[before].text(), writes);
    Ok(())
}

#[test]
fn three_rotations_in_place_and_a_compaction_keep_the_goal() -> Result<()> {
    in_place(false)
}

#[test]
fn three_rotations_in_place_and_a_compaction_keep_what_was_written_in_the_second() -> Result<()> {
    in_place(true)
}

/// Three restarts by `baton run`, with hooks alone.
fn under_run(writes: bool) -> Result<()> {
    let Some(scene) = scene::claude(deaf(4, writes, 700_000))? else { return Ok(()) };
    scene.baton(&["install", "--yes", "--settings"])?;
    let scene = scene.allow(&["Bash"]);
    let pane = scene.start_under_run()?;
    pane.submit(GOAL)?;
    for contexts in 1..=3 {
        scene.wait_until("the sealed handoff", || {
            scene.asked().iter().any(|request| is_after(&request.text(), contexts))
                || scene.records("agents").iter().any(|agent| agent["rotation"].is_object())
        })?;
        // A person may be typing: without the mod it waits until the client reports that it is idle, or for this
        // command.
        if scene.records("agents").iter().any(|agent| agent["rotation"]["wait_for_idle"] == true) {
            scene.baton(&["rotate", &scene.agent()?])?;
        }
        scene.wait_until("the next context", || {
            scene.asked().iter().any(|request| is_after(&request.text(), contexts))
        })?;
    }
    scene.hear(&pane, "All done.")?;
    assert_carried(&scene, 3, writes);
    let first: Arc<Request> = scene.asked().first().cloned().context("no request")?;
    assert_ne!(scene.asked().last().map(|r| r.session.clone()), Some(first.session.clone()));
    Ok(())
}

#[test]
fn three_restarts_under_run_keep_the_goal() -> Result<()> {
    under_run(false)
}

#[test]
fn three_restarts_under_run_keep_what_was_written_in_the_second() -> Result<()> {
    under_run(true)
}

fn codex(writes: bool) -> Result<()> {
    let Some(scene) = scene::codex_with_hooks(deaf(4, writes, 75_000))? else { return Ok(()) };
    let finished = scene.run_headless(&["exec", "--skip-git-repo-check", GOAL])?;
    assert_eq!(
        (finished.code, finished.stdout.trim()),
        (Some(0), "All done."),
        "{finished:?}\n{}",
        scene.log()
    );
    assert_carried(&scene, 3, writes);
    Ok(())
}

#[test]
fn three_rotations_of_codex_keep_the_goal() -> Result<()> {
    codex(false)
}

#[test]
fn three_rotations_of_codex_keep_what_was_written_in_the_second() -> Result<()> {
    codex(true)
}
