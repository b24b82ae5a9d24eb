//! Codex with its feature `token_budget`: an agent continues in a fresh window of the same thread.

use anyhow::{Context as _, Result};
use baton_testkit::clients::codex::Codex;
use baton_testkit::model::{Script, shell, text, tool};
use baton_testkit::wait::LONG;
use serde_json::{Value, json};

use super::codex_daemon::{Daemons, Served, start_on_daemon};
use super::scene::{self, LOADED, Scene};

/// Codex with baton's hooks, trusted, and its fresh windows, switched on by an explicit word.
fn with_window(script: Script) -> Result<Option<Scene<Codex>>> {
    let Some(scene) = scene::codex_with_hooks(script)? else { return Ok(None) };
    let client = scene.place.bin().join("codex");
    let said = scene.baton(&["install", "--provider", "codex", "--trust", "--fresh-window", "--yes"])?;
    assert!(client.exists() && said.contains("config.toml"), "{said}");
    Ok(Some(scene))
}

fn new_context() -> baton_testkit::model::Turn {
    tool("new_context", json!({}))
}

fn handed_over(scene: &Scene<Codex>, actuator: &str) -> bool {
    let done = |r: &Value| r["actuator"] == actuator && r["step"] == "done";
    scene.records("rotations").iter().any(done)
}

/// The gate holds the first call back, the second one begins a window that has the handoff and nothing of the old one.
#[test]
fn new_context_waits_for_the_handoff_and_continues_in_the_same_turn() -> Result<()> {
    let script = Script::new()
        .turn(new_context().usage(67_000))
        .turn(shell("printf 'The parser is half done; MARK-OF-THE-HANDOFF.' | baton handoff -").usage(67_500))
        .turn(new_context().usage(68_000))
        .turn(text("I know where I was.").usage(20_000));
    let Some(scene) = with_window(script)? else { return Ok(()) };
    let finished = scene.client.exec("Write the parser. Never change the grammar.", LONG)?;
    assert_eq!(finished.stdout.trim(), "I know where I was.", "{finished:?}\n{}", scene.log());
    assert_eq!(scene.model.compactions(), 0, "a summary was made");
    let asked = scene.asked();
    assert!(asked[1].text().contains("A fresh context begins with your handoff"), "{}", asked[1].text());
    assert_eq!(asked[3].session, asked[0].session, "it is another thread");
    let fresh = asked[3].text();
    assert!(fresh.contains(LOADED) && fresh.contains("MARK-OF-THE-HANDOFF"), "{fresh}");
    assert!(fresh.contains("Never change the grammar."), "the user's own words are missing: {fresh}");
    assert!(
        !fresh.contains("A fresh context begins with your handoff"),
        "the old window is still there: {fresh}"
    );
    scene.assert_consumed();
    assert!(handed_over(&scene, "window"), "{:#?}", scene.records("rotations"));
    Ok(())
}

/// The agent stops after its handoff: the Stop hook asks it to begin the window, and nobody has to type `/clear`.
#[test]
fn an_agent_that_only_hands_over_is_asked_to_begin_its_window() -> Result<()> {
    let script = Script::new()
        .turn(shell("printf 'MARK-OF-THE-HANDOFF' | baton handoff -").usage(67_000))
        .turn(text("Handed over.").usage(67_500))
        .turn(new_context().usage(68_000))
        .turn(text("I know where I was.").usage(20_000));
    let Some(scene) = with_window(script)? else { return Ok(()) };
    let pane = scene.start()?;
    scene.ask(&pane, "Write the parser. Never change the grammar.", "I know where I was.")?;
    let asked = scene.asked();
    assert!(asked[2].text().contains("Call the `new_context` tool now"), "{}", asked[2].text());
    assert!(asked[3].text().contains("MARK-OF-THE-HANDOFF"), "{}", asked[3].text());
    let status = scene.wait_for_state("idle")?;
    assert_eq!(status["actuator"], "window", "{status}");
    assert!(handed_over(&scene, "window"), "{:#?}", scene.records("rotations"));
    scene.exit(&pane)
}

/// A person rotates an idle agent in a plain client: a queued prompt asks it, beside whatever is being typed.
#[test]
fn rotate_asks_an_idle_agent_to_begin_its_window() -> Result<()> {
    let script = Script::new()
        .turn(text("Hello.").usage(40_000))
        .turn(new_context().usage(41_000))
        .turn(text("I know where I was.").usage(20_000));
    let Some(scene) = with_window(script)? else { return Ok(()) };
    let pane = scene.start()?;
    scene.ask(&pane, "Write the parser. Never change the grammar.", "Hello.")?;
    scene.wait_for_state("idle")?;
    let said = scene.baton(&["rotate", &scene.agent()?])?;
    assert!(said.contains("was asked to continue in a fresh window"), "{said}");
    scene.hear(&pane, "I know where I was.")?;
    let asked = scene.asked();
    let fresh = asked.last().context("no request")?;
    assert_eq!(fresh.session, asked[0].session, "it is another thread");
    assert!(
        fresh.text().contains(LOADED) && fresh.text().contains("Never change the grammar."),
        "{}",
        fresh.text()
    );
    scene.wait_until("the end of the rotation", || {
        scene.records("agents").iter().all(|agent| agent["rotation"].is_null())
    })?;
    scene.assert_consumed();
    Ok(())
}

/// On its daemon the attendant gives the window: the thread on the screen continues, and no other is started.
#[test]
fn a_thread_on_the_daemon_is_rotated_in_place() -> Result<()> {
    let script =
        Script::new().turn(text("Hello.").usage(40_000)).turn(text("I know where I was.").usage(20_000));
    let Some(scene) = with_window(script)? else { return Ok(()) };
    let _daemons = Daemons(&scene);
    let _served = Served::start(&scene)?;
    let pane = start_on_daemon(&scene)?;
    scene.ask(&pane, "Write the parser. Never change the grammar.", "Hello.")?;
    let before = scene.wait_for_state("idle")?;
    assert_eq!(before["actuator"], "thread", "{before}");
    scene.baton(&["rotate", &scene.agent()?])?;
    scene.hear(&pane, "I know where I was.")?;
    assert_eq!(scene.model.compactions(), 0, "a summary was made");
    let asked = scene.asked();
    let fresh = asked.last().context("no request")?;
    assert_eq!(fresh.session, asked[0].session, "it is another thread");
    let seen = fresh.text();
    assert!(seen.contains(LOADED) && seen.contains("Never change the grammar."), "{seen}");
    assert!(seen.contains("Continue where the loaded handoff HO-"), "{seen}");
    scene.wait_until("the end of the rotation", || handed_over(&scene, "thread"))?;
    let agents = scene.records("agents");
    assert!(agents.len() == 1 && agents[0]["rotation"].is_null(), "{agents:#?}");
    assert_eq!(agents[0]["sessions"].as_array().map(Vec::len), Some(1), "{agents:#?}");
    scene.assert_consumed();
    Ok(())
}
