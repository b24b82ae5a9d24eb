//! In place, inside Claude Code: compaction answered, contexts rotated and mail delivered by the mod.
//!
//! What the model was asked proves it: no summary was ever requested, and the next request carries the handoff and
//! what was pending.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use baton_testkit::clients::Place;
use baton_testkit::clients::claude::Claude;
use baton_testkit::model::{Script, ScriptedModel, shell, text, too_long};
use baton_testkit::tmux::Tmux;
use serde_json::Value;

use super::LONG;
use crate::BATON;

const LOADED: &str = "=== HANDOFF LOADED (ID: HO-";

/// A home with the plugin folder that an install writes.
fn place() -> Result<Place> {
    let place = super::place()?;
    let program = baton::install::ours::Program::At(BATON.to_owned());
    for file in baton::install::plugin::files(&program, "0.0.0", false) {
        place.write_home(format!(".claude/skills/baton/{}", file.path), file.text)?;
    }
    Ok(place)
}

fn state(place: &Place) -> PathBuf {
    place.home().join(".local/state/baton")
}

/// All records of one kind, newest last.
fn records(place: &Place, kind: &str) -> Vec<Value> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(state(place).join(kind)).into_iter().flatten().flatten().map(|e| e.path()).collect();
    paths.retain(|p| p.extension().is_some_and(|e| e == "json"));
    paths.sort();
    paths.iter().filter_map(|p| serde_json::from_slice(&std::fs::read(p).ok()?).ok()).collect()
}

/// The log, as one text for the message of a failed assertion.
fn log(place: &Place) -> String {
    let files = std::fs::read_dir(state(place).join("log")).into_iter().flatten().flatten();
    files.filter_map(|e| std::fs::read_to_string(e.path()).ok()).collect()
}

fn wait_until(what: &str, holds: impl Fn() -> bool) -> Result<()> {
    let began = Instant::now();
    while !holds() {
        ensure!(began.elapsed() < LONG, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Waits for the companion of the one client at this place, and returns its pid.
fn companion(place: &Place) -> Result<u32> {
    let met = || records(place, "companions").len() == 1 && records(place, "agents").len() == 1;
    wait_until("the mod's hello", met)?;
    let pid = records(place, "companions")[0]["process"]["pid"].as_u64().context("no pid")?;
    Ok(u32::try_from(pid)?)
}

fn agent(place: &Place) -> Result<String> {
    Ok(records(place, "agents")[0]["id"].as_str().context("an agent without a name")?.to_owned())
}

fn baton(place: &Place, args: &[&str]) -> Result<String> {
    let finished = place.launch(BATON).args(args).run(LONG)?;
    ensure!(finished.code == Some(0), "baton {args:?}: {finished:?}");
    Ok(finished.stdout)
}

#[test]
fn an_automatic_compaction_is_answered_and_the_pending_prompt_is_kept() -> Result<()> {
    let script = Script::new()
        .turn(text("First answer.").usage(970_000))
        .turn(text("Second answer.").usage(30_000))
        .turn(text("Third answer.").usage(31_000));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    let tmux = Tmux::new()?;
    let pane = claude.start(&tmux, "auto")?;
    pane.submit("Write the parser. Never change the grammar.")?;
    pane.wait_for("First answer.", LONG)?;
    pane.submit("PENDING-PROMPT: go on")?;
    pane.wait_for("Second answer.", LONG)?;

    assert_eq!(model.compactions(), 0, "a summary was asked for\n{}", log(&place));
    let asked = model.main_requests();
    let next = asked[1].text();
    assert!(next.contains(LOADED), "{next}\n{}", log(&place));
    assert!(next.contains("Never change the grammar."), "the user's own words are missing: {next}");
    assert!(asked[1].last_user_text().contains("PENDING-PROMPT: go on"), "the pending prompt was lost: {next}");
    assert!(!next.contains("First answer.\n"), "the old conversation is still there");
    assert_eq!(next.matches(LOADED).count(), 1, "SessionStart(compact) loaded it a second time");

    let rotations = records(&place, "rotations");
    assert_eq!(rotations.len(), 1);
    assert_eq!((&rotations[0]["actuator"], &rotations[0]["step"]), (&"mod".into(), &"done".into()));
    assert!(baton(&place, &["handoffs", "--json"])?.contains("\"status\": \"consumed\""));
    let session = &records(&place, "sessions")[0];
    assert_eq!(session["latches"]["cycle"], 1, "a new cycle has begun");
    assert!(state(&place).join("compaction.json").exists(), "where it came was not remembered");

    pane.submit("And on.")?;
    pane.wait_for("Third answer.", LONG)?;
    assert_eq!(model.compactions(), 0);
    Ok(())
}

#[test]
fn a_compaction_by_hand_is_answered_with_what_the_user_asked_to_keep() -> Result<()> {
    let script = Script::new().turn(text("First answer.").usage(50_000)).otherwise(text("Went on."));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    let tmux = Tmux::new()?;
    let pane = claude.start(&tmux, "manual")?;
    pane.submit("Write the parser.")?;
    pane.wait_for("First answer.", LONG)?;
    pane.submit("/compact keep the KEEP-THIS-WORD list")?;
    wait_until("the rotation", || !records(&place, "rotations").is_empty())?;
    pane.wait_for("Compacted", LONG)?;
    pane.submit("Go on.")?;
    pane.wait_for("Went on.", LONG)?;
    assert_eq!(model.compactions(), 0);
    let next = model.main_requests()[1].text();
    assert!(next.contains(LOADED) && next.contains("KEEP-THIS-WORD"), "{next}");
    Ok(())
}

#[test]
fn in_the_middle_of_a_turn_parallel_results_stay_with_their_calls() -> Result<()> {
    let script = Script::new()
        .turn(shell("echo OLD-RESULT").usage(40_000))
        .turn(shell("echo RESULT-A").shell("echo RESULT-B").usage(970_000))
        .turn(text("Turn over.").usage(30_000));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    let tmux = Tmux::new()?;
    let claude = claude.allow(&["Bash"]);
    let pane = claude.start(&tmux, "midturn")?;
    pane.submit("Run both.")?;
    pane.wait_for("Turn over.", LONG)?;
    assert_eq!(model.compactions(), 0, "{}", log(&place));
    let asked = model.main_requests();
    let next = &asked[2];
    assert!(next.text().contains(LOADED), "{}\n{}", next.text(), log(&place));
    assert!(next.text().contains("RESULT-A") && next.text().contains("RESULT-B"));
    let blocks = |kind: &str, key: &str| -> Vec<String> {
        let messages = next.body["messages"].as_array().into_iter().flatten();
        let blocks = messages.flat_map(|m| m["content"].as_array().into_iter().flatten());
        let mut ids: Vec<String> =
            blocks.filter(|b| b["type"] == kind).filter_map(|b| Some(b[key].as_str()?.to_owned())).collect();
        ids.sort();
        ids
    };
    assert_eq!(blocks("tool_use", "id"), blocks("tool_result", "tool_use_id"));
    assert_eq!(blocks("tool_use", "id").len(), 2, "only what is pending comes back");
    Ok(())
}

#[test]
fn a_request_that_was_too_long_is_made_again_with_the_handoff() -> Result<()> {
    let script = Script::new()
        .turn(text("First answer.").usage(50_000))
        .turn(too_long())
        .turn(text("Second answer.").usage(30_000));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    let tmux = Tmux::new()?;
    let pane = claude.start(&tmux, "reactive")?;
    pane.submit("Write the parser.")?;
    pane.wait_for("First answer.", LONG)?;
    pane.submit("PENDING-PROMPT: go on")?;
    pane.wait_for("Second answer.", LONG)?;
    assert_eq!(model.compactions(), 0, "{}", log(&place));
    let asked = model.main_requests();
    let last = asked.last().context("no request")?;
    assert!(last.text().contains(LOADED) && last.last_user_text().contains("PENDING-PROMPT"), "{}", last.text());
    Ok(())
}

#[test]
fn a_headless_run_is_compacted_by_its_handoff_too() -> Result<()> {
    let script = Script::new()
        .turn(shell("echo HEADLESS-RESULT").usage(970_000))
        .turn(text("All done.").usage(30_000));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    let finished = claude.allow(&["Bash"]).print("Do the task.", LONG)?;
    assert_eq!(finished.stdout.trim(), "All done.", "{finished:?}");
    assert_eq!(model.compactions(), 0, "{}", log(&place));
    let asked = model.main_requests();
    assert!(asked[1].text().contains(LOADED) && asked[1].text().contains("HEADLESS-RESULT"), "{}", asked[1].text());
    Ok(())
}

/// Nobody wrapped this client, nobody types: the agent hands over, the mod clears, the work goes on.
#[test]
fn an_agent_in_a_plain_client_hands_over_and_goes_on_in_a_fresh_context() -> Result<()> {
    let script = Script::new()
        .turn(shell("printf 'The parser is half done; MARK-OF-THE-HANDOFF.' | baton handoff -").usage(670_000))
        .turn(text("Handed over.").usage(670_500))
        .turn(text("I know where I was.").usage(30_000));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    let tmux = Tmux::new()?;
    let claude = claude.allow(&["Bash"]);
    let pane = claude.start(&tmux, "plain")?;
    companion(&place)?;
    pane.submit("Write the parser. Never change the grammar.")?;
    let asked = model.wait_for(3, LONG).with_context(|| log(&place))?;
    let first_of_the_new = asked[2].text();
    assert_ne!(asked[2].session, asked[0].session, "the conversation was not replaced");
    assert!(first_of_the_new.contains("MARK-OF-THE-HANDOFF"), "{first_of_the_new}");
    assert!(first_of_the_new.contains(LOADED));
    assert!(first_of_the_new.contains("Continue where the loaded handoff HO-"));
    pane.wait_for("I know where I was.", LONG)?;
    let rotations = records(&place, "rotations");
    assert_eq!(rotations.len(), 1, "{}", log(&place));
    assert_eq!((&rotations[0]["actuator"], &rotations[0]["step"]), (&"mod".into(), &"done".into()));
    assert!(baton(&place, &["handoffs", "--json"])?.contains("\"status\": \"consumed\""));
    assert_eq!(records(&place, "agents").len(), 1, "the agent is the same one");
    Ok(())
}

#[test]
fn mail_wakes_an_idle_agent_and_leaves_a_draft_alone() -> Result<()> {
    let script = Script::new().turn(text("Ready.").usage(20_000)).turn(text("Read it.").usage(21_000));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    let tmux = Tmux::new()?;
    let pane = claude.start(&tmux, "mail")?;
    companion(&place)?;
    pane.submit("Wait for mail.")?;
    pane.wait_for("Ready.", LONG)?;
    pane.type_text("half a thought")?;
    pane.wait_for("half a thought", LONG)?;
    baton(&place, &["send", &agent(&place)?, "MAIL-TO-THE-IDLE"])?;
    pane.wait_for("Read it.", LONG).with_context(|| log(&place))?;
    let asked = model.main_requests();
    assert!(asked[1].last_user_text().contains("MAIL-TO-THE-IDLE"), "{}", asked[1].text());
    assert!(pane.screen()?.contains("half a thought"), "the draft is gone:\n{}", pane.screen()?);
    let mail = state(&place).join("mail").join(agent(&place)?);
    wait_until("the delivery", || std::fs::read_dir(mail.join("cur")).is_ok_and(|d| d.count() == 1))?;
    let names = std::fs::read_dir(mail.join("cur"))?.flatten().map(|e| e.file_name());
    assert!(names.into_iter().all(|n| !n.to_string_lossy().contains(".by-")), "not marked as delivered");
    Ok(())
}

#[test]
fn after_esc_mail_stays_queued_until_the_person_has_typed_again() -> Result<()> {
    let script = Script::new()
        .turn(text("Never seen.").delay(Duration::from_secs(20)))
        .turn(text("Back again.").usage(20_000))
        .turn(text("Read it.").usage(21_000));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    let tmux = Tmux::new()?;
    let pane = claude.start(&tmux, "esc")?;
    companion(&place)?;
    pane.submit("Think long.")?;
    model.wait_for(1, LONG)?;
    pane.keys(&["Escape"])?;
    wait_until("the brake", || records(&place, "companions")[0]["braked"] == true)?;
    baton(&place, &["send", &agent(&place)?, "MAIL-AFTER-ESC"])?;
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(model.main_requests().len(), 1, "somebody woke a stopped agent");
    assert!(baton(&place, &["inbox", &agent(&place)?])?.contains("queued"));
    pane.keys(&["C-u"])?;
    pane.submit("Go on.")?;
    // The hook of this very prompt hands the mail over; nothing has to be submitted any more.
    model.wait_until("the mail", LONG, |r| r.iter().any(|r| r.text().contains("MAIL-AFTER-ESC")))?;
    Ok(())
}

#[test]
fn a_person_rotates_an_idle_agent_from_another_terminal() -> Result<()> {
    let script = Script::new().turn(text("Ready.").usage(120_000)).turn(text("Fresh.").usage(20_000));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    let tmux = Tmux::new()?;
    let pane = claude.start(&tmux, "rotate")?;
    companion(&place)?;
    pane.submit("Write the parser.")?;
    pane.wait_for("Ready.", LONG)?;
    let said = baton(&place, &["rotate", &agent(&place)?])?;
    assert!(said.contains("gets a fresh context now"), "{said}");
    pane.wait_for("Fresh.", LONG).with_context(|| log(&place))?;
    assert!(model.main_requests()[1].text().contains(LOADED));
    Ok(())
}
