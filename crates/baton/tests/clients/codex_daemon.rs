//! Threads on Codex's own shared daemon: watched, woken and replaced by fresh ones over its app-server protocol.

use std::process::{Child, Stdio};

use anyhow::{Context as _, Result};
use baton_testkit::clients::codex::{Codex, takes_input};
use baton_testkit::model::{Gate, Script, Turn, shell, text};
use baton_testkit::tmux::Pane;
use baton_testkit::wait::LONG;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::codex::wake_beside_draft;
use super::scene::{self, LOADED, Scene};
use crate::BATON;

/// Ends what the client left running in the background: programs from this home, and their sockets.
pub(super) struct Daemons<'a>(pub(super) &'a Scene<Codex>);

impl Drop for Daemons<'_> {
    fn drop(&mut self) {
        // A client that is still running would start its daemon again.
        self.0.end_terminals();
        let home = self.0.place.home();
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let ours = std::fs::read_link(entry.path().join("exe")).is_ok_and(|e| e.starts_with(&home));
            let pid = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
            if let Some(pid) = pid.filter(|_| ours) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        let control = std::fs::read_dir(home.join(".codex/app-server-control"));
        for socket in control.into_iter().flatten().flatten().filter_map(|e| e.path().read_link().ok()) {
            let _ = std::fs::remove_file(&socket);
            let _ = std::fs::remove_file(socket.with_extension("lock"));
        }
    }
}

/// `baton serve` for this home, until the end of the test.
pub(super) struct Served(Child);

impl Served {
    pub(super) fn start(scene: &Scene<Codex>) -> Result<Self> {
        let mut command = scene.place.launch(BATON).arg("serve").command();
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        Ok(Self(child))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Codex on its shared daemon.
pub(super) fn start_on_daemon(scene: &Scene<Codex>) -> Result<Pane<'_>> {
    let config = scene.place.home().join(".codex/config.toml");
    let written = std::fs::read_to_string(&config)?;
    std::fs::write(&config, written.replace("daemon_auto_start = false", "daemon_auto_start = true"))?;
    let pane = scene.open(&scene.client.launch())?;
    scene.hear(&pane, "← for agents")?;
    scene.wait_for_input(&pane)?;
    Ok(pane)
}

#[test]
fn on_the_shared_daemon_mail_arrives_and_clear_begins_with_the_handoff() -> Result<()> {
    let script = Script::new()
        .turn(text("Hello.").usage(20_000))
        .turn(text("The mail is read.").usage(20_500))
        .turn(shell("printf 'STATE-ON-THE-DAEMON' | baton handoff -").usage(67_000))
        .turn(text("Handed over.").usage(67_500))
        .turn(text("I know.").usage(20_000));
    let Some(scene) = scene::codex_with_hooks(script)? else { return Ok(()) };
    let _daemons = Daemons(&scene);
    let pane = start_on_daemon(&scene)?;
    scene.ask(&pane, "hello", "Hello.")?;
    let idle = scene.wait_for_state("idle")?;
    assert_eq!(idle["session"]["shared"], true, "{idle}");
    assert_eq!(idle["actuator"], "you", "{idle}");
    assert!(idle["agent"]["process"].is_null(), "the daemon is nobody's client: {idle}");
    wake_beside_draft(&scene, &pane)?;

    scene.ask(&pane, "work", "type /clear to continue")?;
    pane.submit("/clear")?;
    pane.wait_until("an empty screen", LONG, |s| !s.contains("Handed over.") && takes_input(s))?;
    scene.ask(&pane, "what do you know?", "I know.")?;
    let asked = scene.asked();
    assert_ne!(asked[4].session, asked[2].session);
    assert!(asked[4].text().contains("STATE-ON-THE-DAEMON"), "{}", asked[4].text());
    Ok(())
}

#[test]
fn a_thread_that_hands_over_is_followed_by_a_fresh_one_of_the_same_agent() -> Result<()> {
    let script = Script::new()
        .turn(text("Hello.").usage(20_000))
        .turn(shell("printf 'STATE-OF-THE-THREAD' | baton handoff -").usage(67_000))
        .turn(text("Handed over.").usage(67_500))
        .turn(text("I know where I was.").usage(20_000));
    let Some(scene) = scene::codex_with_hooks(script)? else { return Ok(()) };
    let _daemons = Daemons(&scene);
    let _served = Served::start(&scene)?;
    let pane = start_on_daemon(&scene)?;
    scene.ask(&pane, "Write the parser. Never change the grammar.", "Hello.")?;
    let before = scene.wait_for_state("idle")?;
    assert_eq!(before["actuator"], "thread", "{before}");
    scene.ask(&pane, "hand over", "continues in a new thread")?;
    let asked = scene.wait_for_requests(4)?;
    let first = asked[3].text();
    assert_ne!(asked[3].session, asked[0].session, "it is the same thread");
    assert!(first.contains("STATE-OF-THE-THREAD"), "{first}");
    assert!(first.contains(LOADED), "{first}");
    assert!(first.contains("Continue where the loaded handoff HO-"), "{first}");
    assert!(first.contains("Never change the grammar."), "the user's own words are missing: {first}");
    let after = scene.wait_for("the rotated agent", || {
        let after = scene.status()?;
        let done = after["agent"]["rotation"].is_null() && after["state"] == "idle";
        Ok(Some(after).filter(|a| done && a["agent"]["in_a_row"] == 1))
    })?;
    assert_eq!(after["agent"]["id"], before["agent"]["id"]);
    assert_eq!(after["agent"]["sessions"].as_array().map(Vec::len), Some(2), "{after}");
    assert_eq!(after["session"]["source"], "clear", "{after}");
    scene.assert_consumed();
    let rotations = scene.records("rotations");
    let done = |r: &Value| r["actuator"] == "thread" && r["step"] == "done";
    assert!(rotations.iter().any(done), "{rotations:#?}");
    // The person's conversation is still on the screen; the new one is found by the agent's name.
    assert!(pane.screen()?.contains("Handed over."), "{}", pane.screen()?);
    Ok(())
}

#[test]
fn a_thread_at_work_is_measured_live_and_mail_comes_when_its_turn_has_ended() -> Result<()> {
    let (heard, gate) = (Gate::new(), Gate::new());
    // A tool without hooks, so that only the daemon knows how large the request was.
    let plan = serde_json::json!({ "plan": [{ "step": "work", "status": "in_progress" }] });
    let script = Script::new()
        .turn(text("Hello.").usage(20_000))
        .turn(Turn::default().tool("update_plan", plan).usage(41_000).held_by(&heard))
        .turn(text("Worked.").usage(42_000).held_by(&gate))
        .turn(text("The mail is read.").usage(43_000));
    let Some(scene) = scene::codex_with_hooks(script)? else { return Ok(()) };
    let _daemons = Daemons(&scene);
    let _served = Served::start(&scene)?;
    let pane = start_on_daemon(&scene)?;
    scene.ask(&pane, "hello", "Hello.")?;
    let agent =
        scene.wait_for_state("idle")?["agent"]["id"].as_str().context("an agent has a name")?.to_owned();
    // It may have been quick enough to listen to the first turn as well.
    let listened = || -> Result<usize> {
        Ok(scene.baton(&["log", "--json", "-n", "50"])?.matches("\"listening\"").count())
    };
    let before = listened()?;
    pane.submit("work")?;
    scene.wait_for("the attendant to listen", || Ok((listened()? > before).then_some(())))?;
    heard.open();
    scene.wait_for_requests(3)?;
    // The model has not answered and no hook has run since the prompt, so the reading comes from the daemon.
    let live = scene.wait_for("the live reading", || {
        let is_of_this_turn =
            |s: &Value| s["reading"]["tokens"].as_u64().is_some_and(|t| t.abs_diff(41_000) < 500);
        Ok(Some(scene.status()?).filter(is_of_this_turn))
    })?;
    assert_eq!(live["reading"]["source"], "app-server", "{live}");
    assert_eq!(live["state"], "working", "{live}");
    assert_eq!(live["reading"]["window"], 95_000, "{live}");
    assert_eq!(live["reading"]["base"], 12_000, "{live}");
    let said = scene.baton(&["send", &agent, "MAIL-AFTER-THE-LAST-TOOL"])?;
    assert!(said.contains("when its turn has ended"), "{said}");
    pane.type_text("half a draft")?;
    scene.hear(&pane, "half a draft")?;
    gate.open();
    scene.hear(&pane, "The mail is read.")?;
    let asked = scene.asked();
    assert!(asked[3].text().contains("MAIL-AFTER-THE-LAST-TOOL"), "{}", asked[3].text());
    assert_eq!(asked[3].session, asked[0].session);
    assert_eq!(asked.len(), 4, "it was woken more than once");
    assert!(pane.screen()?.contains("half a draft"), "the draft is gone: {}", pane.screen()?);
    Ok(())
}

/// Another program talks to Codex over pipes, in JSON lines.
#[test]
fn codex_inside_an_app_is_watched_and_told_that_it_cannot_hand_over() -> Result<()> {
    use std::io::Write as _;
    let script = Script::new()
        .turn(shell("echo state | baton handoff - || echo IT-WAS-REFUSED").usage(30_000))
        .turn(text("I see.").usage(31_000));
    let Some(scene) = scene::codex_with_hooks(script)? else { return Ok(()) };
    let mut app = scene.client.launch().arg("app-server").command();
    let mut app = app.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let mut to = app.stdin.take().context("a pipe")?;
    let lines = std::io::BufRead::lines(std::io::BufReader::new(app.stdout.take().context("a pipe")?));
    let app = Served(app);
    let mut answers = lines.map_while(Result::ok).filter_map(|l| serde_json::from_str::<Value>(&l).ok());
    let mut ask = |id: u64, method: &str, params: Value| -> Result<Value> {
        writeln!(to, "{}", serde_json::json!({ "id": id, "method": method, "params": params }))?;
        answers.find(|a| a["id"] == id && a["method"].is_null()).context("the app-server has ended")
    };
    let client = serde_json::json!({ "name": "an-app", "title": "an app", "version": "1" });
    ask(1, "initialize", serde_json::json!({ "clientInfo": client }))?;
    let thread = ask(2, "thread/start", serde_json::json!({ "cwd": scene.place.project() }))?;
    let thread = thread["result"]["thread"]["id"].as_str().context("a thread")?.to_owned();
    let input = serde_json::json!([{ "type": "text", "text": "hand over" }]);
    ask(3, "turn/start", serde_json::json!({ "threadId": thread, "input": input }))?;
    let asked = scene.wait_for_requests(2)?;
    let heard = asked[1].text();
    assert!(heard.contains("sm handoff is not supported for codex-app sessions"), "{heard}");
    assert!(heard.contains("IT-WAS-REFUSED"), "{heard}");
    let known = scene.wait_for_state("idle")?;
    assert_eq!(known["agent"]["provider"], "codex-app", "{known}");
    assert!(known["reading"]["tokens"].as_u64().is_some_and(|t| t > 30_000), "{known}");
    assert_eq!(known["actuator"], "you", "{known}");
    drop(app);
    Ok(())
}
