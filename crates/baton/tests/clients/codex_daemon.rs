//! Threads on Codex's own shared daemon: watched, woken and followed by fresh ones over its app-server protocol.

use std::process::{Child, Stdio};

use anyhow::{Context as _, Result};
use baton_testkit::clients::Place;
use baton_testkit::clients::codex::{Codex, takes_input};
use baton_testkit::model::{Gate, Script, ScriptedModel, Turn, shell, text};
use baton_testkit::tmux::{Pane, Tmux};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::codex::{ready, status, until};
use super::{LONG, baton, place};
use crate::BATON;

/// Ends what the client left running in the background: programs from this very home, and their sockets.
struct Daemons<'a>(&'a Place);

impl Drop for Daemons<'_> {
    fn drop(&mut self) {
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let ours =
                std::fs::read_link(entry.path().join("exe")).is_ok_and(|e| e.starts_with(self.0.home()));
            let pid = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
            if let Some(pid) = pid.filter(|_| ours) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        let control = std::fs::read_dir(self.0.home().join(".codex/app-server-control"));
        for socket in control.into_iter().flatten().flatten().filter_map(|e| e.path().read_link().ok()) {
            let _ = std::fs::remove_file(&socket);
            let _ = std::fs::remove_file(socket.with_extension("lock"));
        }
    }
}

/// `baton serve` of this home, until the end of the test.
struct Served(Child);

impl Served {
    fn start(place: &Place) -> Result<Self> {
        let mut command = place.launch(BATON).arg("serve").command();
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
fn on_the_daemon<'a>(place: &Place, codex: &Codex, tmux: &'a Tmux) -> Result<Pane<'a>> {
    let config = place.home().join(".codex/config.toml");
    let written = std::fs::read_to_string(&config)?;
    std::fs::write(&config, written.replace("daemon_auto_start = false", "daemon_auto_start = true"))?;
    let pane = tmux.run("codex", &codex.launch())?;
    pane.wait_for("← for agents", LONG)?;
    pane.wait_until("the input line", LONG, takes_input)?;
    Ok(pane)
}

fn idle(place: &Place) -> Result<Value> {
    until("an idle agent", || Ok(Some(status(place)?).filter(|s| s["state"] == "idle")))
}

#[test]
fn on_the_shared_daemon_mail_arrives_and_clear_begins_with_the_handoff() -> Result<()> {
    let script = Script::new()
        .turn(text("Hello.").usage(20_000))
        .turn(text("The mail is read.").usage(20_500))
        .turn(shell("printf 'STATE-ON-THE-DAEMON' | baton handoff -").usage(67_000))
        .turn(text("Handed over.").usage(67_500))
        .turn(text("I know.").usage(20_000));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(codex) = ready(&place, &model)? else { return Ok(()) };
    let _daemons = Daemons(&place);
    let tmux = Tmux::new()?;
    let pane = on_the_daemon(&place, &codex, &tmux)?;
    pane.submit("hello")?;
    pane.wait_for("Hello.", LONG)?;
    let idle = idle(&place)?;
    assert_eq!(idle["session"]["shared"], true, "{idle}");
    assert_eq!(idle["actuator"], "you", "{idle}");
    assert!(idle["agent"]["process"].is_null(), "the daemon is nobody's client: {idle}");
    let agent = idle["agent"]["id"].as_str().context("an agent has a name")?.to_owned();
    pane.type_text("half a draft")?;
    pane.wait_for("half a draft", LONG)?;
    let said = baton(&place, &["send", &agent, "MAIL-ON-THE-DAEMON"])?;
    assert!(said.contains("has been woken"), "{said}");
    pane.wait_for("The mail is read.", LONG)?;
    assert!(pane.screen()?.contains("half a draft"), "the draft is gone: {}", pane.screen()?);
    assert!(model.main_requests()[1].text().contains("MAIL-ON-THE-DAEMON"));
    pane.keys(&["C-u"])?;
    pane.wait_until("an empty input line", LONG, |s| !s.contains("half a draft"))?;

    pane.submit("work")?;
    pane.wait_for("type /clear to continue", LONG)?;
    pane.submit("/clear")?;
    pane.wait_until("an empty screen", LONG, |s| !s.contains("Handed over.") && takes_input(s))?;
    pane.submit("what do you know?")?;
    pane.wait_for("I know.", LONG)?;
    let asked = model.main_requests();
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
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(codex) = ready(&place, &model)? else { return Ok(()) };
    let _daemons = Daemons(&place);
    let _served = Served::start(&place)?;
    let tmux = Tmux::new()?;
    let pane = on_the_daemon(&place, &codex, &tmux)?;
    pane.submit("Write the parser. Never change the grammar.")?;
    pane.wait_for("Hello.", LONG)?;
    let before = idle(&place)?;
    assert_eq!(before["actuator"], "thread", "{before}");
    pane.submit("hand over")?;
    pane.wait_for("goes on in a new thread", LONG)?;
    let asked = model.wait_for(4, LONG)?;
    let first = asked[3].text();
    assert_ne!(asked[3].session, asked[0].session, "it is the same thread");
    assert!(first.contains("STATE-OF-THE-THREAD"), "{first}");
    assert!(first.contains("=== HANDOFF LOADED (ID: HO-"), "{first}");
    assert!(first.contains("Continue where the loaded handoff HO-"), "{first}");
    assert!(first.contains("Never change the grammar."), "the user's own words are missing: {first}");
    let after = until("the rotated agent", || {
        let after = status(&place)?;
        let done = after["agent"]["rotation"].is_null() && after["state"] == "idle";
        Ok(Some(after).filter(|a| done && a["agent"]["in_a_row"] == 1))
    })?;
    assert_eq!(after["agent"]["id"], before["agent"]["id"]);
    assert_eq!(after["agent"]["sessions"].as_array().map(Vec::len), Some(2), "{after}");
    assert_eq!(after["session"]["source"], "clear", "{after}");
    assert!(baton(&place, &["handoffs", "--json"])?.contains("\"status\": \"consumed\""));
    let journal = std::fs::read_dir(place.home().join(".local/state/baton/rotations"))?
        .flatten()
        .map(|e| std::fs::read_to_string(e.path()))
        .collect::<Result<String, _>>()?;
    assert!(
        journal.contains("\"actuator\": \"thread\"") && journal.contains("\"step\": \"done\""),
        "{journal}"
    );
    // The person's conversation is still on the screen, and the other one is found by the agent's name.
    assert!(pane.screen()?.contains("Handed over."), "{}", pane.screen()?);
    Ok(())
}

#[test]
fn a_thread_at_work_is_measured_live_and_mail_comes_when_its_turn_has_ended() -> Result<()> {
    let (heard, gate) = (Gate::new(), Gate::new());
    // A tool without hooks: nobody but the daemon can tell what the request held.
    let plan = serde_json::json!({ "plan": [{ "step": "work", "status": "in_progress" }] });
    let script = Script::new()
        .turn(text("Hello.").usage(20_000))
        .turn(Turn::default().tool("update_plan", plan).usage(41_000).held_by(&heard))
        .turn(text("Worked.").usage(42_000).held_by(&gate))
        .turn(text("The mail is read.").usage(43_000));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(codex) = ready(&place, &model)? else { return Ok(()) };
    let _daemons = Daemons(&place);
    let _served = Served::start(&place)?;
    let tmux = Tmux::new()?;
    let pane = on_the_daemon(&place, &codex, &tmux)?;
    pane.submit("hello")?;
    pane.wait_for("Hello.", LONG)?;
    let agent = idle(&place)?["agent"]["id"].as_str().context("an agent has a name")?.to_owned();
    // It may have been quick enough to listen to the first turn as well.
    let listened = || -> Result<usize> {
        Ok(baton(&place, &["log", "--json", "-n", "50"])?.matches("\"listening\"").count())
    };
    let before = listened()?;
    pane.submit("work")?;
    until("the attendant to listen", || Ok((listened()? > before).then_some(())))?;
    heard.open();
    model.wait_for(3, LONG)?;
    // The model has not answered and no hook has spoken since the prompt; the daemon tells.
    let live = until("the live reading", || {
        let is_of_this_turn =
            |s: &Value| s["reading"]["tokens"].as_u64().is_some_and(|t| t.abs_diff(41_000) < 500);
        Ok(Some(status(&place)?).filter(is_of_this_turn))
    })?;
    assert_eq!(live["reading"]["source"], "app-server", "{live}");
    assert_eq!(live["state"], "working", "{live}");
    assert_eq!(live["reading"]["window"], 95_000, "{live}");
    assert_eq!(live["reading"]["base"], 12_000, "{live}");
    let said = baton(&place, &["send", &agent, "MAIL-AFTER-THE-LAST-TOOL"])?;
    assert!(said.contains("at its next step"), "{said}");
    pane.type_text("half a draft")?;
    pane.wait_for("half a draft", LONG)?;
    gate.open();
    pane.wait_for("The mail is read.", LONG)?;
    let asked = model.main_requests();
    assert!(asked[3].text().contains("MAIL-AFTER-THE-LAST-TOOL"), "{}", asked[3].text());
    assert_eq!(asked[3].session, asked[0].session);
    assert_eq!(asked.len(), 4, "it was woken more than once");
    assert!(pane.screen()?.contains("half a draft"), "the draft is gone: {}", pane.screen()?);
    Ok(())
}

/// Codex on the pipes of another program, which speaks JSON lines to it.
#[test]
fn codex_inside_an_app_is_watched_and_told_that_it_cannot_hand_over() -> Result<()> {
    use std::io::Write as _;
    let script = Script::new()
        .turn(shell("echo state | baton handoff - || echo IT-WAS-REFUSED").usage(30_000))
        .turn(text("I see.").usage(31_000));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(codex) = ready(&place, &model)? else { return Ok(()) };
    let mut app = codex.launch().arg("app-server").command();
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
    let thread = ask(2, "thread/start", serde_json::json!({ "cwd": place.project() }))?;
    let thread = thread["result"]["thread"]["id"].as_str().context("a thread")?.to_owned();
    let input = serde_json::json!([{ "type": "text", "text": "hand over" }]);
    ask(3, "turn/start", serde_json::json!({ "threadId": thread, "input": input }))?;
    let asked = model.wait_for(2, LONG)?;
    let heard = asked[1].text();
    assert!(heard.contains("sm handoff is not supported for codex-app sessions"), "{heard}");
    assert!(heard.contains("IT-WAS-REFUSED"), "{heard}");
    let known = idle(&place)?;
    assert_eq!(known["agent"]["provider"], "codex-app", "{known}");
    assert!(known["reading"]["tokens"].as_u64().is_some_and(|t| t > 30_000), "{known}");
    assert_eq!(known["actuator"], "you", "{known}");
    drop(app);
    Ok(())
}
