//! Permission requests of Codex: on its daemon we are one of the clients, and the first answer wins; without it a hook
//! waits only if nobody is at the terminal.

use anyhow::{Context as _, Result};
use baton_testkit::clients::codex::Codex;
use baton_testkit::model::{Script, Turn, text, tool};
use serde_json::{Value, json};

use super::codex_daemon::{Daemons, Served, start_on_daemon};
use super::scene::{self, Scene};

/// The client with the requests of all agents waiting; it asks before it leaves its sandbox.
fn scene(script: Script) -> Result<Option<Scene<Codex>>> {
    let Some(scene) = scene::codex_with_hooks(script)? else { return Ok(None) };
    scene.configure("[approvals]\nwait_for = \"all\"\n")?;
    let config = scene.place.home().join(".codex/config.toml");
    let written = std::fs::read_to_string(&config)?;
    let written = written.replace("approval_policy = \"never\"", "approval_policy = \"on-request\"");
    std::fs::write(&config, written.replace("\"danger-full-access\"", "\"read-only\""))?;
    Ok(Some(scene))
}

/// A command outside of the sandbox.
fn escalated(command: &str, tokens: u64) -> Turn {
    let asks =
        json!({ "cmd": command, "sandbox_permissions": "require_escalated", "justification": "to see" });
    tool("exec_command", asks).usage(tokens)
}

fn rows(scene: &Scene<Codex>, args: &[&str]) -> Result<Vec<Value>> {
    let finished = scene.place.launch(crate::BATON).args(args).run(baton_testkit::wait::LONG)?;
    let rows: Value = serde_json::from_str(&finished.stdout).unwrap_or(json!([]));
    Ok(rows.as_array().cloned().unwrap_or_default())
}

/// The id of the request for this command, once it waits.
fn waiting(scene: &Scene<Codex>, command: &str) -> Result<String> {
    let row = scene.wait_for("a request", || {
        let rows = rows(scene, &["approvals", "--json"])?;
        let is_it = |row: &&Value| row["state"] == "waiting" && row["input"]["command"] == command;
        Ok(rows.iter().find(is_it).cloned())
    })?;
    Ok(row["short"].as_str().context("a request has an id")?.to_owned())
}

/// The newest request that is no longer open, once it is in this state.
fn settled(scene: &Scene<Codex>, state: &str) -> Result<Value> {
    scene.wait_for(&format!("a request that is {state}"), || {
        let first = rows(scene, &["approvals", "log", "--json"])?.into_iter().next();
        Ok(first.filter(|row| row["state"] == state))
    })
}

#[test]
fn on_its_daemon_it_is_allowed_and_denied_from_elsewhere_and_answered_at_its_terminal() -> Result<()> {
    let script = Script::new()
        .turn(text("Hello.").usage(20_000))
        .turn(escalated("touch allowed.txt", 21_000))
        .turn(escalated("touch denied.txt", 22_000))
        .turn(escalated("touch here.txt", 23_000))
        .turn(text("All three are done.").usage(24_000))
        .otherwise(text("I have read it.").usage(25_000));
    let Some(scene) = scene(script)? else { return Ok(()) };
    let _daemons = Daemons(&scene);
    let _served = Served::start(&scene)?;
    let pane = start_on_daemon(&scene)?;
    scene.ask(&pane, "hello", "Hello.")?;
    scene.wait_for_state("idle")?;
    pane.submit("touch some files")?;
    let id = waiting(&scene, "touch allowed.txt")?;
    // The client's own dialog shows the question at the same time.
    scene.hear(&pane, "Would you like to run the following command?")?;
    scene.baton(&["approve", &id])?;
    let id = waiting(&scene, "touch denied.txt")?;
    assert_eq!(settled(&scene, "allowed")?["answer"]["door"], "cli");
    scene.baton(&["deny", &id, "Not this file: keep the folder clean."])?;
    waiting(&scene, "touch here.txt")?;
    settled(&scene, "denied")?;
    scene.hear(&pane, "touch here.txt")?;
    scene.wait_until("the end of the dialog", || {
        let is_open = pane.screen().is_ok_and(|s| s.contains("Would you like to run the following command?"));
        !is_open || pane.keys(&["y"]).is_err()
    })?;
    assert_eq!(settled(&scene, "closed")?["answer"]["because"], "answered-at-terminal");
    scene.hear(&pane, "All three are done.")?;
    let there = |name: &str| scene.place.project().join(name).exists();
    assert_eq!(["allowed.txt", "denied.txt", "here.txt"].map(there), [true, false, true]);
    let told = scene.asked().iter().any(|r| r.text().contains("Not this file: keep the folder clean."));
    assert!(told, "the reason has not reached the model");
    Ok(())
}

#[test]
fn without_its_daemon_a_person_at_the_terminal_has_the_dialog_at_once() -> Result<()> {
    let script = Script::new()
        .turn(escalated("touch here.txt", 20_000))
        .turn(text("It is here.").usage(21_000))
        .otherwise(text("Yes.").usage(22_000));
    let Some(scene) = scene(script)? else { return Ok(()) };
    let pane = scene.start()?;
    pane.submit("touch a file")?;
    scene.hear(&pane, "Would you like to run the following command?")?;
    let rows = rows(&scene, &["approvals", "--json"])?;
    assert_eq!(rows[0]["state"], "at-terminal", "{rows:?}");
    assert_eq!(rows[0]["about"], "Bash: touch here.txt", "{rows:?}");
    scene.wait_until("the end of the dialog", || {
        let is_open = pane.screen().is_ok_and(|s| s.contains("Would you like to run the following command?"));
        !is_open || pane.keys(&["y"]).is_err()
    })?;
    scene.hear(&pane, "It is here.")?;
    assert!(scene.place.project().join("here.txt").exists());
    Ok(())
}

#[test]
fn headless_with_approve_for_me_its_hook_waits_and_is_obeyed() -> Result<()> {
    let script = Script::new()
        .turn(escalated("touch headless.txt", 20_000))
        .turn(escalated("touch never.txt", 21_000))
        .turn(text("Touched.").usage(22_000));
    let Some(scene) = scene(script)? else { return Ok(()) };
    std::thread::scope(|scope| -> Result<()> {
        let args = ["exec", "--skip-git-repo-check", "--approve-for-me", "--", "touch a file"];
        let launch = scene.client.launch().args(&args);
        let run = scope.spawn(move || launch.run(baton_testkit::wait::LONG));
        let id = waiting(&scene, "touch headless.txt")?;
        scene.baton(&["approve", &id])?;
        let id = waiting(&scene, "touch never.txt")?;
        scene.baton(&["deny", &id, "One is enough."])?;
        let finished = run.join().expect("the client was started")?;
        assert!(finished.stdout.contains("Touched."), "{finished:?}");
        Ok(())
    })?;
    let there = |name: &str| scene.place.project().join(name).exists();
    assert_eq!(["headless.txt", "never.txt"].map(there), [true, false]);
    assert!(scene.asked().iter().any(|r| r.text().contains("One is enough.")));
    Ok(())
}
