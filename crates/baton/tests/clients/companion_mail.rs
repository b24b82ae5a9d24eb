//! Mail inside Claude Code: to an idle agent, a busy one, beside a draft; urgent messages end a turn; Esc is heeded.

use std::time::Duration;

use anyhow::{Context as _, Result};
use baton_testkit::clients::claude::Claude;
use baton_testkit::model::{Gate, Script, ScriptedModel, shell, text};
use baton_testkit::tmux::Tmux;
use rustix::process::Signal;

use super::LONG;
use super::companion::{
    agent, baton, companion, log, next_companion, place, records, signal, state, wait_until,
};

/// The model is in the middle of an answer that never ends; the message does not wait for it.
#[test]
fn urgent_mail_ends_the_turn_and_begins_one_with_the_message() -> Result<()> {
    let gate = Gate::new();
    let script = Script::new()
        .turn(text("Never seen.").held_by(&gate))
        .turn(text("Stopped the deployment.").usage(21_000))
        .turn(text("Still here.").usage(22_000));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    let tmux = Tmux::new()?;
    let pane = claude.start(&tmux, "urgent")?;
    companion(&place)?;
    pane.submit("Think long.")?;
    model.wait_for(1, LONG)?;
    baton(&place, &["send", &agent(&place)?, "--urgent", "URGENT-WORD"])?;
    pane.wait_for("Stopped the deployment.", LONG).with_context(|| log(&place))?;
    let asked = model.main_requests();
    assert_eq!(asked.len(), 2, "{}", log(&place));
    assert!(asked[1].last_user_text().contains("URGENT-WORD"), "{}", asked[1].text());
    wait_until("the receipt", || {
        baton(&place, &["inbox", "--json", &agent(&place).unwrap_or_default()])
            .is_ok_and(|said| said.contains("delivered"))
    })?;
    // The person did not say stop: what comes next is not refused.
    wait_until("the end of the turn", || log(&place).matches("\"event\":\"stop\"").count() == 1)?;
    baton(&place, &["send", &agent(&place)?, "one more"])?;
    pane.wait_for("Still here.", LONG).with_context(|| log(&place))?;
    assert_eq!(log(&place).matches("turn-aborted").count(), 1, "{}", log(&place));
    Ok(())
}

/// The agent is in the middle of a long command; the next request carries the message.
#[test]
fn urgent_mail_does_not_wait_for_a_command_that_runs() -> Result<()> {
    let script = Script::new()
        .turn(shell("touch started; exec sleep 600").usage(20_000))
        .turn(text("Stopped the deployment.").usage(21_000));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    let claude = claude.allow(&["Bash"]);
    let tmux = Tmux::new()?;
    let pane = claude.start(&tmux, "command")?;
    companion(&place)?;
    pane.submit("Deploy.")?;
    wait_until("the command", || place.project().join("started").exists())?;
    baton(&place, &["send", &agent(&place)?, "--urgent", "URGENT-WORD"])?;
    pane.wait_for("Stopped the deployment.", LONG).with_context(|| log(&place))?;
    let asked = model.main_requests();
    assert_eq!(asked.len(), 2, "{}", log(&place));
    assert!(asked[1].last_user_text().contains("URGENT-WORD"), "{}", asked[1].text());
    Ok(())
}

/// A companion that does not know of the Esc asks, and the client itself says no: nothing is lost, nobody is woken.
#[test]
fn what_the_client_drops_after_esc_stays_queued() -> Result<()> {
    let gate = Gate::new();
    let script =
        Script::new().turn(text("Never seen.").held_by(&gate)).turn(text("Back again.").usage(20_000));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    let tmux = Tmux::new()?;
    let pane = claude.start(&tmux, "drop")?;
    let first = companion(&place)?;
    pane.submit("Think long.")?;
    model.wait_for(1, LONG)?;
    pane.keys(&["Escape"])?;
    wait_until("the brake", || records(&place, "companions")[0]["braked"] == true)?;
    signal(first, Signal::KILL)?;
    next_companion(&place, first)?;
    assert_eq!(records(&place, "companions")[0]["braked"], false, "it knows of no Esc");
    baton(&place, &["send", &agent(&place)?, "MAIL-AFTER-ESC"])?;
    wait_until("the client's refusal", || records(&place, "companions")[0]["braked"] == true)
        .with_context(|| log(&place))?;
    assert!(log(&place).contains("mail-waits"), "{}", log(&place));
    assert!(baton(&place, &["inbox", &agent(&place)?])?.contains("queued"));
    assert_eq!(model.main_requests().len(), 1, "somebody woke a stopped agent");
    pane.keys(&["C-u"])?;
    pane.submit("Go on.")?;
    model.wait_until("the mail", LONG, |r| r.iter().any(|r| r.text().contains("MAIL-AFTER-ESC")))?;
    pane.wait_for("Back again.", Duration::from_secs(30))?;
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

/// Mail for a busy agent is not lost and does not interrupt; hooks hand it over at the next tool call, the mod
/// after a turn without one.
#[test]
fn mail_to_a_busy_agent_arrives_after_the_turn() -> Result<()> {
    let script = Script::new()
        .turn(text("Long answer over.").usage(20_000).delay(Duration::from_secs(3)))
        .turn(text("Read it.").usage(21_000));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    let tmux = Tmux::new()?;
    let pane = claude.start(&tmux, "busy")?;
    companion(&place)?;
    pane.submit("Think.")?;
    model.wait_for(1, LONG)?;
    baton(&place, &["send", &agent(&place)?, "MAIL-TO-THE-BUSY"])?;
    pane.wait_for("Read it.", LONG).with_context(|| log(&place))?;
    let asked = model.main_requests();
    assert!(asked[0].text().contains("Think.") && !asked[0].text().contains("MAIL-TO-THE-BUSY"));
    assert!(asked[1].last_user_text().contains("MAIL-TO-THE-BUSY"));
    Ok(())
}
