//! The lives of mod and companion in Claude Code: background sessions, resume, reload, crashes, older clients, and who
//! takes over when they fail.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use baton_testkit::clients::Finished;
use baton_testkit::clients::claude::Claude;
use baton_testkit::model::{Kind, Script, shell, text, tool};
use baton_testkit::tmux::Ended;
use baton_testkit::wait::{LONG, poll};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::scene::{self, FULL, LOADED, QUIET, Scene, assert_went_on, begun, hands_over, is_gone, signal};
use crate::BATON;

const MODULE: &str = ".claude/skills/baton/hooks/register.js";

/// Replaces one piece of the mod, which must contain it.
fn change_module(scene: &Scene<Claude>, from: &str, to: &str) -> Result<()> {
    let dir = scene.place.home().join(".claude/skills/baton");
    let module = baton::testing::install::plugin::module(BATON, &dir);
    ensure!(module.contains(from), "the mod has no {from}");
    // Rename it into place as an install does: the client reads the file at the first sign of a change, even a half
    // one.
    let new = scene.place.write_home(format!("{MODULE}.new"), module.replace(from, to))?;
    std::fs::rename(new, scene.place.home().join(MODULE))?;
    Ok(())
}

/// Changes the mod until the client has loaded it and started a companion after `old`. The client checks it from time
/// to time, and does not notice changes made before its first check.
fn take_next_module(scene: &Scene<Claude>, old: u32) -> Result<()> {
    const LOOKS: Duration = Duration::from_secs(5);
    for version in 1..=12 {
        change_module(scene, "// baton's mod:", &format!("// baton's mod, version {version}:"))?;
        let is_next = |companion: &Value| companion["process"]["pid"] != old;
        if poll(LOOKS, || scene.records("companions").iter().any(is_next).then_some(())).is_some() {
            return Ok(());
        }
    }
    bail!("the client never took the next mod: {}", scene.log())
}

const CLEARS: &str = "return $.command.run({ command: 'clear' })";

/// Waits until no process uses this home any more.
fn wait_until_deserted(scene: &Scene<Claude>) -> Result<()> {
    let home = format!("HOME={}", scene.place.home().display());
    let lives = |pid: &str| {
        let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.split(|b| *b == 0).any(|v| v == home.as_bytes())
    };
    scene.wait_until("the end of everything that was started", || {
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let names = processes.filter_map(|e| e.file_name().into_string().ok());
        !names.into_iter().any(|pid| pid.parse::<u32>().is_ok() && lives(&pid))
    })
}

/// Runs one of the client's own commands.
fn claude(scene: &Scene<Claude>, args: &[&str]) -> Result<Finished> {
    scene.place.launch(scene.place.bin().join("claude")).args(args).run(LONG)
}

/// Starts a background session, passes its id to `act`, and stops the session whatever the outcome.
fn in_background(scene: &Scene<Claude>, act: impl FnOnce(&str) -> Result<()>) -> Result<()> {
    scene.configure(QUIET)?;
    let started = scene.client.launch().args(&["--bg", "--name", "night", "Begin."]).run(LONG)?;
    ensure!(started.code == Some(0), "{started:?}");
    let listed: Value = serde_json::from_str(&claude(scene, &["agents", "--json"])?.stdout)?;
    let word = |key: &str| listed[0][key].as_str().with_context(|| listed.to_string());
    let outcome = act(word("sessionId")?);
    let stopped = claude(scene, &["stop", word("id")?])?;
    outcome?;
    ensure!(stopped.code == Some(0), "{stopped:?}");
    // The client's daemon ends by itself, some seconds after its last session.
    wait_until_deserted(scene)
}

/// The client does not load a mod that breaks one of its rules, and tells nobody.
#[test]
fn the_client_finds_nothing_wrong_with_the_mod() -> Result<()> {
    let Some(scene) = scene::claude_with_mod(Script::new())? else { return Ok(()) };
    let folder = scene.place.home().join(".claude/skills/baton");
    let said = claude(&scene, &["plugin", "validate", &folder.display().to_string()])?;
    assert!(said.code == Some(0) && said.stdout.contains("session.compact"), "{said:?}");
    Ok(())
}

/// Nobody is watching it: mail starts its turns, and its compaction is answered.
#[test]
fn a_background_session_gets_its_mail_and_is_compacted_by_its_handoff() -> Result<()> {
    let script = begun(FULL).turn(text("Second answer.").usage(30_000));
    let Some(scene) = scene::claude_with_mod(script)? else { return Ok(()) };
    in_background(&scene, |_| {
        scene.companion()?;
        let turn_over = |n: usize| scene.wait_until("the end of a turn", || scene.logged("stop") == n);
        for (n, mail) in ["More.", "Write the parser.", "PENDING-MAIL"].into_iter().enumerate() {
            turn_over(n + 1)?;
            scene.baton(&["send", &scene.agent()?, mail])?;
        }
        turn_over(4)?;
        assert_eq!(scene.model.compactions(), 0, "{}", scene.log());
        let asked = scene.asked();
        let last = asked.last().context("no request")?;
        let seen: Vec<String> = asked.iter().map(|r| r.last_user_text()).collect();
        assert!(last.text().contains(LOADED), "{seen:#?}\n{}", scene.log());
        assert!(last.last_user_text().contains("PENDING-MAIL"), "{seen:#?}\n{}", scene.log());
        Ok(())
    })
}

/// `baton adopt` lists what `claude agents --json` reports under its agent's name, and adopts it by the id that the
/// client shows: mail starts its turns, and a rotation gives it a fresh context, without any pane.
#[test]
fn a_background_session_is_listed_adopted_gets_mail_and_is_rotated() -> Result<()> {
    let script = Script::new()
        .turn(text("Ready.").usage(120_000))
        .turn(text("Read it.").usage(130_000))
        .turn(text("Fresh.").usage(20_000));
    let Some(scene) = scene::claude_with_mod(script)? else { return Ok(()) };
    in_background(&scene, |session| {
        scene.companion()?;
        scene.wait_until("its first turn", || scene.logged("stop") == 1)?;
        let name = scene.agent()?;
        let rows = scene.json(&["adopt", "--json"])?;
        assert_eq!((&rows[0]["agent"], &rows[0]["kind"]), (&json!(name), &json!("background")), "{rows}");
        let agents = scene.json(&["agents", "--json"])?;
        assert_eq!(
            (&agents[0]["agent"]["id"], &agents[0]["state"]),
            (&json!(name), &json!("idle")),
            "{agents}"
        );
        let said = scene.baton(&["adopt", session])?;
        assert!(said.contains("needs no pane"), "{said}");
        scene.baton(&["send", &name, "MAIL-BY-NIGHT"])?;
        let asked = scene.wait_for_requests(2)?;
        assert!(asked[1].last_user_text().contains("MAIL-BY-NIGHT"));
        scene.wait_until("the end of that turn", || scene.logged("stop") == 2)?;
        scene.baton(&["rotate", &name])?;
        let asked = scene.wait_for_requests(3)?;
        assert!(asked[2].text().contains(LOADED), "{}", scene.log());
        Ok(())
    })
}

/// A subagent has its own conversation: the client summarizes it as it would without us, and nothing is sealed for it.
#[test]
fn a_subagents_own_compaction_is_left_alone() -> Result<()> {
    let task = json!({ "description": "look", "prompt": "Look around.", "subagent_type": "general-purpose" });
    let script = Script::new()
        .turn(tool("Agent", task).usage(40_000))
        .turn(text("Main turn over.").usage(41_000))
        .subagent_turn(shell("echo ONE").usage(20_000))
        .subagent_turn(shell("echo TWO").usage(30_000))
        .subagent_turn(shell("echo THREE").usage(FULL))
        .on_subagent(text("Report of the subagent.").usage(30_000));
    let Some(scene) = scene::claude_with_mod(script)? else { return Ok(()) };
    let scene = scene.allow(&["Bash", "Agent", "Task"]);
    let pane = scene.start()?;
    scene.companion()?;
    scene.ask(&pane, "Ask somebody.", "Main turn over.")?;
    // The subagent works in parallel with the main conversation, which need not wait for it.
    scene.model.wait_until("the subagent's summary and its report", LONG, |seen| {
        let summary = seen.iter().position(|r| r.kind == Kind::Compaction);
        summary.is_some_and(|at| seen[at..].iter().any(|r| r.kind == Kind::Subagent))
    })?;
    let asked = scene.model.requests();
    assert_eq!(scene.records("rotations").len(), 0, "{}", scene.log());
    assert!(!asked.iter().any(|r| r.text().contains(LOADED)), "a handoff was given to the subagent");
    Ok(())
}

/// The same conversation in another process: one companion, and mail arrives.
#[test]
fn resumed_and_continued_sessions_have_one_companion_and_leave_none() -> Result<()> {
    let script = Script::new().otherwise(text("Ready.").usage(20_000));
    let Some(scene) = scene::claude_with_mod(script)? else { return Ok(()) };
    let pane = scene.start()?;
    let mut before = scene.companion()?;
    scene.ask(&pane, "Begin.", "Ready.")?;
    let session = scene.asked()[0].session.clone().context("no session")?;
    scene.exit(&pane)?;
    for (n, args) in [vec!["--continue"], vec!["--resume", &session]].into_iter().enumerate() {
        scene.wait_until_gone(before)?;
        let again = scene.client.launch().args(&args);
        let pane = scene.start_as(&again)?;
        before = scene.next_companion(before)?;
        // Mail that arrives before its first hook comes with that hook and starts no turn.
        let begun = || scene.logged("session-start") == n + 2;
        scene.wait_until("its first hook", begun)?;
        assert_eq!(scene.records("companions").len(), 1);
        assert_eq!(scene.records("agents").len(), 1, "the agent is the same one");
        let asked = scene.asked().len();
        scene.baton(&["send", &scene.agent()?, &format!("MAIL-{n}")])?;
        let all = scene.wait_for_requests(asked + 1)?;
        assert!(all[asked].last_user_text().contains(&format!("MAIL-{n}")), "{}", all[asked].text());
        assert_eq!(all[asked].session.as_deref(), Some(session.as_str()));
        scene.wait_until("its turn", || scene.logged("stop") == n + 2)?;
        scene.exit(&pane)?;
    }
    scene.wait_until_gone(before)?;
    Ok(())
}

/// A new version of baton is installed while clients run: the client loads the new mod by itself.
#[test]
fn after_a_hot_reload_one_companion_continues() -> Result<()> {
    let script = Script::new().turn(text("Ready.").usage(120_000)).turn(text("Fresh.").usage(20_000));
    let Some(scene) = scene::claude_with_mod(script)? else { return Ok(()) };
    let pane = scene.start()?;
    let old = scene.companion()?;
    scene.ask(&pane, "Begin.", "Ready.")?;
    take_next_module(&scene, old)?;
    scene.wait_until("the end of the old one", || is_gone(old))?;
    assert_eq!(scene.records("companions").len(), 1);
    scene.baton(&["rotate", &scene.agent()?])?;
    scene.hear(&pane, "Fresh.")?;
    assert!(scene.asked()[1].text().contains(LOADED));
    assert_eq!(scene.records("rotations").len(), 1);
    Ok(())
}

/// The client unloads a mod that hangs its worker; the hooks still work.
#[test]
fn when_the_mod_crashes_the_hooks_carry_the_facts_over_a_compaction() -> Result<()> {
    let script = begun(FULL).turn(text("Second answer.").usage(30_000));
    let Some(scene) = scene::claude_with_mod(script)? else { return Ok(()) };
    scene.configure(QUIET)?;
    change_module(&scene, "let answer = await compact($, e)", "for (;;) {}\n    let answer")?;
    let pane = scene.start()?;
    let pid = scene.companion()?;
    scene.begin(&pane)?;
    scene.ask(&pane, "PENDING-PROMPT: go on", "Second answer.")?;
    assert_eq!(scene.model.compactions(), 1, "the client made its own summary");
    let next = scene.asked()[3].text();
    assert!(next.contains(LOADED) && next.contains("Never change the grammar."), "{next}");
    scene.wait_until("the end of the companion", || is_gone(pid))?;
    assert!(scene.baton(&["rotate", &scene.agent()?])?.contains("type /clear"));
    Ok(())
}

/// kill -9 in the middle of a rotation in place: the mod starts another companion, which finishes what was left open.
#[test]
fn a_companion_killed_in_the_middle_of_a_rotation_costs_nothing() -> Result<()> {
    let Some(scene) = scene::claude_with_mod(hands_over(670_000))? else { return Ok(()) };
    // The companion dies after it has given the order and before the order is carried out.
    let script = "kill -9 $(grep -ho '\"pid\": *[0-9]*' \"$HOME\"/.local/state/baton/companions/*.json | head -n 1 \
                  | tr -dc 0-9); touch \"$HOME/killed\"";
    let kill = scene.place.write_home("kill", format!("#!/bin/sh\n{script}\n"))?;
    let kills = format!("{{ await $.process.run(['/bin/sh', '{}']); {CLEARS} }}", kill.display());
    change_module(&scene, CLEARS, &kills)?;
    let scene = scene.allow(&["Bash"]);
    let pane = scene.start()?;
    let first = scene.companion()?;
    scene.ask(&pane, "Write the parser.", "I know where I was.")?;
    assert!(scene.place.home().join("killed").exists() && is_gone(first), "nobody was killed");
    let asked = scene.asked();
    assert_eq!(asked.len(), 3, "{}", scene.log());
    assert_went_on(&asked);
    let rotations = scene.records("rotations");
    // The next companion may come before the client has obeyed: then the first try is recorded as failed, the second
    // one clears once more, and the unused handoff is carried over.
    let (last, before) = rotations.split_last().context("no rotation on record")?;
    assert_eq!(last["step"], "done", "{}", scene.log());
    assert!(before.iter().all(|r| r["step"] == "failed" && r["note"].is_string()), "{before:#?}");
    let handoffs = scene.baton(&["handoffs", "--json"])?;
    assert_eq!(handoffs.matches("\"status\": \"consumed\"").count(), 1, "{handoffs}");
    Ok(())
}

/// The mod accepts the order to clear and does nothing: `baton run` waits for a while and then restarts the client.
#[test]
fn under_run_a_mod_that_is_late_is_followed_by_a_restart() -> Result<()> {
    let Some(scene) = scene::claude_with_mod(hands_over(670_000))? else { return Ok(()) };
    scene.configure("[run]\nin_place_wait = \"1s\"\n")?;
    change_module(&scene, CLEARS, "return new Promise(() => {})")?;
    let scene = scene.allow(&["Bash"]);
    let pane = scene.start_under_run()?;
    let first = scene.companion()?;
    let before = scene.records("agents")[0]["process"].clone();
    scene.ask(&pane, "Write the parser.", "I know where I was.")?;
    assert_ne!(scene.records("agents")[0]["process"], before, "the client was not restarted");
    assert_went_on(&scene.asked());
    scene.wait_until("one companion, the new client's", || {
        is_gone(first) && scene.records("companions").len() == 1
    })?;
    // If the restart came before the order to clear, the mod has recorded nothing.
    let rotations = scene.records("rotations");
    let (ours, theirs): (Vec<_>, Vec<_>) = rotations.iter().partition(|r| r["actuator"] == "restart");
    assert!(ours.len() == 1 && ours[0]["step"] == "done", "{rotations:#?}");
    assert!(theirs.iter().all(|r| r["step"] == "failed" && r["note"].is_string()), "{rotations:#?}");
    Ok(())
}

#[test]
fn when_the_client_is_killed_no_companion_is_left() -> Result<()> {
    let script = Script::new().otherwise(text("Ready.").usage(20_000));
    let Some(scene) = scene::claude_with_mod(script)? else { return Ok(()) };
    let pane = scene.start()?;
    let pid = scene.companion()?;
    scene.ask(&pane, "Begin.", "Ready.")?;
    signal(u32::try_from(pane.pid()?)?, Signal::KILL)?;
    scene.wait_until_gone(pid)?;
    assert_eq!(pane.wait_for_end(LONG)?, Ended::Signal(9));
    wait_until_deserted(&scene)
}

/// A client from before mods sends no hello, and the same plugin folder works with its hooks alone.
#[test]
fn an_older_client_without_mods_falls_back_to_hooks() -> Result<()> {
    let script = Script::new()
        .turn(shell("printf 'PLAIN-STATE' | baton handoff -").usage(670_000))
        .turn(text("Handed over.").usage(671_000))
        .turn(text("I know.").usage(30_000));
    let Some(scene) = scene::claude_before_mods(script)? else { return Ok(()) };
    let scene = scene.allow(&["Bash"]);
    let pane = scene.start()?;
    scene.ask(&pane, "work", "type /clear to continue")?;
    assert_eq!(scene.records("companions").len(), 0, "this client has mods after all");
    let status = scene.baton(&["status"])?;
    assert!(status.contains(" you"), "{status}");
    scene.ask(&pane, "/clear", "continuing from handoff")?;
    scene.ask(&pane, "what do you know?", "I know.")?;
    assert!(scene.asked()[2].text().contains("PLAIN-STATE"));
    Ok(())
}

/// Uninstalled while a client runs: the conversation continues, whenever the client notices, and nothing is left
/// behind.
#[test]
fn an_uninstall_beside_a_running_client_leaves_the_conversation_alone_and_nothing_behind() -> Result<()> {
    let script = Script::new().otherwise(text("Ready.").usage(20_000));
    let Some(scene) = scene::claude(script)? else { return Ok(()) };
    scene.baton(&["install", "--yes"])?;
    let pane = scene.start()?;
    let pid = scene.companion()?;
    scene.ask(&pane, "Begin.", "Ready.")?;
    scene.baton(&["uninstall", "--yes"])?;
    pane.submit("Go on without it.")?;
    let asked = scene.wait_for_requests(2)?;
    assert!(asked[1].last_user_text().contains("Go on without it."), "{}", asked[1].text());
    assert!(asked[1].text().contains("Begin."), "the conversation was lost");
    scene.wait_for_input(&pane)?;
    scene.exit(&pane)?;
    scene.wait_until_gone(pid)?;
    wait_until_deserted(&scene)
}
