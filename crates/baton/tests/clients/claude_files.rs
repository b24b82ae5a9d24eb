//! A session that has read three files: the next request after a compaction that baton answers, and after a rotation,
//! contains their text, as it does after the client's own compaction.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use baton_testkit::clients::claude::Claude;
use baton_testkit::model::{Request, Script, Turn, shell, text, tool};
use serde_json::json;

use super::scene::{self, Client, FULL, LOADED, QUIET, Scene};
use super::tmux;

const FILES: [&str; 3] = ["src/alpha.rs", "src/beta.rs", "docs/gamma.md"];
const LINES: usize = 20;

fn line(file: &str, n: usize) -> String {
    format!("let mark_{n} = \"{file} line {n}\";")
}

/// Three files to read, one with secrets and one that git ignores.
fn write_files<C: Client>(scene: &Scene<C>) -> Result<()> {
    scene.place.git_init()?;
    for file in FILES.iter().chain(&["out/ignored.rs"]) {
        let text: Vec<String> = (1..=LINES).map(|n| line(file, n)).collect();
        scene.place.write_project(file, text.join("\n"))?;
    }
    scene.place.write_project(".gitignore", "out/\n")?;
    scene.place.write_project(".env", "WORD=OPEN-SESAME\n").map(drop)
}

/// Reads each file with its own call, so that the client has shown them whole.
fn reads(scene: &Scene<Claude>) -> Turn {
    let read = |file: &str| json!({ "file_path": scene.place.project().join(file) });
    let names = ["out/ignored.rs", ".env"].into_iter().chain(FILES);
    let mut calls = names.map(read);
    let first = tool("Read", calls.next().unwrap());
    calls.fold(first, |turn, input| turn.tool("Read", input))
}

/// How many of a file's lines the model was sent.
fn shown(request: &Request, file: &str) -> usize {
    let seen = request.text();
    (1..=LINES).filter(|n| seen.contains(&line(file, *n))).count()
}

#[track_caller]
fn assert_files(request: &Request, log: &str) {
    for file in FILES {
        assert_eq!(shown(request, file), LINES, "{file}: {}\n{log}", request.text());
    }
    let seen = request.text();
    assert!(!seen.contains("OPEN-SESAME"), "a file of secrets: {seen}");
    assert_eq!(shown(request, "out/ignored.rs"), 0, "an ignored file: {seen}");
}

/// Claude Code with the mod, its project, and a model that reads the files and then says `Read.`.
fn read_with_mod(after: u64) -> Result<Option<Scene<Claude>>> {
    let Some(scene) = scene::claude_with_mod(Script::new())? else { return Ok(None) };
    let scene = scene.allow(&["Read", "Bash"]);
    scene.configure(QUIET)?;
    write_files(&scene)?;
    // The client makes no summary of a conversation with only one exchange.
    scene.model.push(text("Answer one.").usage(20_000));
    scene.model.push(reads(&scene).usage(30_000));
    scene.model.push(text("Read.").usage(after));
    Ok(Some(scene))
}

fn read_them(scene: &Scene<Claude>, pane: &baton_testkit::tmux::Pane<'_>) -> Result<()> {
    scene.ask(pane, "Begin.", "Answer one.")?;
    scene.ask(pane, "Read the three files.", "Read.")?;
    scene.wait_for_input(pane)
}

fn next(scene: &Scene<Claude>, pane: &baton_testkit::tmux::Pane<'_>) -> Result<Arc<Request>> {
    let before = scene.asked().len();
    pane.submit("Go on.")?;
    scene.wait_for_requests(before + 1)?.get(before).cloned().context("no request")
}

/// What the client does on its own, as the reference for ours.
#[test]
fn after_its_own_compaction_the_client_shows_the_files_again() -> Result<()> {
    let Some(scene) = read_with_mod(50_000)? else { return Ok(()) };
    scene.configure(&format!("compaction = \"client\"\n{QUIET}"))?;
    let pane = scene.start()?;
    read_them(&scene, &pane)?;
    scene.ask(&pane, "/compact", "Compacted")?;
    let next = next(&scene, &pane)?;
    assert_eq!(scene.model.compactions(), 1);
    for file in FILES {
        assert_eq!(shown(&next, file), LINES, "{file}: {}", next.text());
    }
    Ok(())
}

#[test]
fn a_compaction_by_hand_is_answered_with_the_files() -> Result<()> {
    let Some(scene) = read_with_mod(50_000)? else { return Ok(()) };
    let pane = scene.start()?;
    read_them(&scene, &pane)?;
    scene.ask(&pane, "/compact", "Compacted")?;
    let next = next(&scene, &pane)?;
    assert_eq!(scene.model.compactions(), 0);
    assert!(next.text().contains(LOADED));
    assert_files(&next, &scene.log());
    Ok(())
}

#[test]
fn an_automatic_compaction_is_answered_with_the_files() -> Result<()> {
    let Some(scene) = read_with_mod(FULL)? else { return Ok(()) };
    let pane = scene.start()?;
    read_them(&scene, &pane)?;
    let next = next(&scene, &pane)?;
    assert_eq!(scene.model.compactions(), 0, "{}", scene.log());
    assert!(next.text().contains(LOADED));
    assert_files(&next, &scene.log());
    Ok(())
}

/// The request that begins the context after a handoff.
fn fresh(scene: &Scene<Claude>) -> Result<Arc<Request>> {
    let began = |request: &Request| request.text().contains("Continue where the loaded handoff");
    scene.wait_for("the fresh context", || Ok(scene.asked().into_iter().find(|request| began(request))))
}

#[test]
fn a_rotation_in_place_brings_the_files() -> Result<()> {
    let Some(scene) = read_with_mod(50_000)? else { return Ok(()) };
    let pane = scene.start()?;
    scene.companion()?;
    read_them(&scene, &pane)?;
    scene.baton(&["rotate", &scene.agent()?])?;
    let request = fresh(&scene)?;
    assert_files(&request, &scene.log());
    let attached = scene.json(&["handoffs", "chain", "--json"])?["attached"].clone();
    assert_eq!(attached.as_array().map(Vec::len), Some(3), "{attached}");
    Ok(())
}

#[test]
fn a_restart_brings_the_files() -> Result<()> {
    let Some(scene) = scene::claude(Script::new())? else { return Ok(()) };
    let scene = scene.allow(&["Read", "Bash"]);
    write_files(&scene)?;
    scene.model.push(reads(&scene).usage(30_000));
    scene.model.push(shell("printf 'Read them.' | baton handoff -").usage(670_000));
    scene.model.push(text("Handed over.").usage(670_500));
    scene.model.push(text("All done.").usage(20_000));
    let finished = scene.run_headless(&["-p", "--", "Read the three files."])?;
    assert_eq!(finished.stdout.trim(), "All done.", "{finished:?}\n{}", scene.log());
    let fresh = fresh(&scene)?;
    assert_files(&fresh, &scene.log());
    Ok(())
}

/// The person types `/clear`; there is no mod and no actuator: the hook of the first prompt brings the files that fit.
#[test]
fn a_clear_by_hand_brings_the_files_with_the_first_prompt() -> Result<()> {
    let Some(scene) = scene::claude(Script::new())? else { return Ok(()) };
    scene.baton(&["install", "--yes", "--settings"])?;
    let scene = scene.allow(&["Read", "Bash"]);
    write_files(&scene)?;
    scene.model.push(reads(&scene).usage(30_000));
    scene.model.push(shell("printf 'Read them.' | baton handoff -").usage(670_000));
    scene.model.push(text("Handed over.").usage(670_500));
    scene.model.push(text("All done.").usage(20_000));
    let pane = scene.start()?;
    scene.ask(&pane, "Read the three files.", "Handed over.")?;
    scene.wait_for_input(&pane)?;
    let before = scene.asked().len();
    pane.submit("/clear")?;
    scene.wait_until("the loaded handoff", || scene.records("sessions").len() == 2)?;
    scene.wait_for_input(&pane)?;
    pane.submit("Go on.")?;
    let asked = scene.wait_for_requests(before + 1)?;
    assert!(asked[before].text().contains(LOADED));
    assert_files(&asked[before], &scene.log());
    Ok(())
}

#[test]
fn a_rotation_by_keys_brings_the_files() -> Result<()> {
    let Some(panes) = tmux::claude(Script::new(), &["Bash", "Read"])? else { return Ok(()) };
    let scene = &panes.scene;
    write_files(scene)?;
    scene.model.push(reads(scene).usage(30_000));
    scene.model.push(shell("printf 'Read them.' | baton handoff -").usage(40_000));
    scene.model.push(text("Handed over.").usage(40_500));
    scene.model.push(text("All done.").usage(20_000));
    panes.ready("alpha", &["--prompt", "Read the three files."])?;
    panes.hear("alpha", "All done.")?;
    let fresh = fresh(scene)?;
    assert_files(&fresh, &scene.log());
    Ok(())
}

/// Codex does not expand paths, so the hook of its first prompt brings the files.
#[test]
fn a_rotation_of_codex_brings_the_files() -> Result<()> {
    let read: Vec<String> = FILES.iter().map(|file| format!("cat {file}")).collect();
    let script = Script::new()
        .turn(shell(&read[0]).usage(20_000))
        .turn(shell(&read[1]).usage(21_000))
        .turn(shell(&read[2]).usage(22_000))
        .turn(shell("printf 'Read them.' | baton handoff -").usage(70_000))
        .turn(text("Handed over.").usage(70_500))
        .turn(text("All done.").usage(20_000));
    let Some(scene) = scene::codex_with_hooks(script)? else { return Ok(()) };
    write_files(&scene)?;
    let finished = scene.run_headless(&["exec", "--skip-git-repo-check", "Read the three files."])?;
    assert_eq!(finished.stdout.trim(), "All done.", "{finished:?}\n{}", scene.log());
    let asked = scene.asked();
    let fresh = asked.iter().find(|r| r.text().contains("Continue where the loaded handoff"));
    let fresh = fresh.context("no fresh context")?;
    for file in FILES {
        assert_eq!(shown(fresh, file), LINES, "{file}: {}\n{}", fresh.text(), scene.log());
    }
    Ok(())
}
