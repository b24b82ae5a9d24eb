//! Mail inside Claude Code: to an idle agent, a busy one, beside a draft; urgent messages end a turn; Esc is respected.

use std::time::Duration;

use anyhow::Result;
use baton_testkit::load;
use baton_testkit::model::{Gate, Script, error, shell, text};
use baton_testkit::wait::LONG;
use rustix::process::Signal;

use super::scene::{self, signal};

/// The model is in the middle of an endless answer, and the message does not wait for it.
#[test]
fn urgent_mail_ends_the_turn_and_begins_one_with_the_message() -> Result<()> {
    let gate = Gate::new();
    let script = Script::new()
        .turn(text("Never seen.").held_by(&gate))
        .turn(text("Stopped the deployment.").usage(21_000))
        .turn(text("Still here.").usage(22_000));
    let Some(scene) = scene::claude_with_mod(script)? else { return Ok(()) };
    let pane = scene.start()?;
    scene.companion()?;
    pane.submit("Think long.")?;
    scene.wait_for_requests(1)?;
    scene.baton(&["send", &scene.agent()?, "--urgent", "URGENT-WORD"])?;
    scene.hear(&pane, "Stopped the deployment.")?;
    let asked = scene.asked();
    assert_eq!(asked.len(), 2, "{}", scene.log());
    assert!(asked[1].last_user_text().contains("URGENT-WORD"), "{}", asked[1].text());
    let agent = scene.agent()?;
    scene.wait_for("the receipt", || {
        Ok(scene.baton(&["inbox", "--json", &agent])?.contains("delivered").then_some(()))
    })?;
    // The person did not press Esc, so the next message is not refused.
    scene.wait_until("the end of the turn", || scene.logged("stop") == 1)?;
    scene.baton(&["send", &scene.agent()?, "one more"])?;
    scene.hear(&pane, "Still here.")?;
    assert_eq!(scene.log().matches("turn-aborted").count(), 1, "{}", scene.log());
    Ok(())
}

/// The agent is in the middle of a long command; the next request carries the message.
#[test]
fn urgent_mail_does_not_wait_for_a_command_that_runs() -> Result<()> {
    let script = Script::new()
        .turn(shell("touch started; exec sleep 600").usage(20_000))
        .turn(text("Stopped the deployment.").usage(21_000));
    let Some(scene) = scene::claude_with_mod(script)? else { return Ok(()) };
    let scene = scene.allow(&["Bash"]);
    let pane = scene.start()?;
    scene.companion()?;
    pane.submit("Deploy.")?;
    scene.wait_until("the command", || scene.place.project().join("started").exists())?;
    scene.baton(&["send", &scene.agent()?, "--urgent", "URGENT-WORD"])?;
    scene.hear(&pane, "Stopped the deployment.")?;
    let asked = scene.asked();
    assert_eq!(asked.len(), 2, "{}", scene.log());
    assert!(asked[1].last_user_text().contains("URGENT-WORD"), "{}", asked[1].text());
    Ok(())
}

/// A companion that does not know about the Esc submits, and the client itself refuses: nothing is lost, nobody is
/// woken.
#[test]
fn mail_that_the_client_refuses_after_esc_stays_queued() -> Result<()> {
    let gate = Gate::new();
    let script =
        Script::new().turn(text("Never seen.").held_by(&gate)).turn(text("Back again.").usage(20_000));
    let Some(scene) = scene::claude_with_mod(script)? else { return Ok(()) };
    let pane = scene.start()?;
    let first = scene.companion()?;
    pane.submit("Think long.")?;
    scene.wait_for_requests(1)?;
    pane.keys(&["Escape"])?;
    scene.wait_until("the brake", || scene.records("companions")[0]["braked"] == true)?;
    signal(first, Signal::KILL)?;
    scene.next_companion(first)?;
    assert_eq!(scene.records("companions")[0]["braked"], false, "it knows of no Esc");
    scene.baton(&["send", &scene.agent()?, "MAIL-AFTER-ESC"])?;
    scene.wait_until("the client's refusal", || scene.records("companions")[0]["braked"] == true)?;
    assert!(scene.log().contains("mail-waits"), "{}", scene.log());
    assert!(scene.baton(&["inbox", &scene.agent()?])?.contains("queued"));
    assert_eq!(scene.asked().len(), 1, "somebody woke a stopped agent");
    pane.keys(&["C-u"])?;
    pane.submit("Go on.")?;
    scene.model.wait_until("the mail", LONG, |r| r.iter().any(|r| r.text().contains("MAIL-AFTER-ESC")))?;
    scene.hear(&pane, "Back again.")?;
    Ok(())
}

#[test]
fn mail_wakes_an_idle_agent_and_leaves_a_draft_alone() -> Result<()> {
    let script = Script::new().turn(text("Ready.").usage(20_000)).turn(text("Read it.").usage(21_000));
    let Some(scene) = scene::claude_with_mod(script)? else { return Ok(()) };
    let pane = scene.start()?;
    scene.companion()?;
    scene.ask(&pane, "Wait for mail.", "Ready.")?;
    pane.type_text("half a thought")?;
    scene.hear(&pane, "half a thought")?;
    scene.baton(&["send", &scene.agent()?, "MAIL-TO-THE-IDLE"])?;
    scene.hear(&pane, "Read it.")?;
    let asked = scene.asked();
    assert!(asked[1].last_user_text().contains("MAIL-TO-THE-IDLE"), "{}", asked[1].text());
    assert!(pane.screen()?.contains("half a thought"), "the draft is gone:\n{}", pane.screen()?);
    let mail = scene.state().join("mail").join(scene.agent()?);
    scene.wait_until("the delivery", || std::fs::read_dir(mail.join("cur")).is_ok_and(|d| d.count() == 1))?;
    let names = std::fs::read_dir(mail.join("cur"))?.flatten().map(|e| e.file_name());
    assert!(names.into_iter().all(|n| !n.to_string_lossy().contains(".by-")), "not marked as delivered");
    Ok(())
}

#[test]
fn after_esc_mail_stays_queued_until_the_person_has_typed_again() -> Result<()> {
    let gate = Gate::new();
    let script = Script::new()
        .turn(text("Never seen.").held_by(&gate))
        .turn(text("Back again.").usage(20_000))
        .turn(text("Read it.").usage(21_000));
    let Some(scene) = scene::claude_with_mod(script)? else { return Ok(()) };
    let pane = scene.start()?;
    let companion = scene.companion()?;
    pane.submit("Think long.")?;
    scene.wait_for_requests(1)?;
    pane.keys(&["Escape"])?;
    scene.wait_until("the brake", || scene.records("companions")[0]["braked"] == true)?;
    let before = load::sleeps(companion);
    scene.baton(&["send", &scene.agent()?, "MAIL-AFTER-ESC"])?;
    scene.wait_until("the companion to look", || load::woken(&before, &load::sleeps(companion)) > 0)?;
    load::wait_until_idle(companion, 0, Duration::from_millis(300));
    assert!(scene.baton(&["inbox", &scene.agent()?])?.contains("queued"));
    assert_eq!(scene.asked().len(), 1, "somebody woke a stopped agent");
    pane.keys(&["C-u"])?;
    pane.submit("Go on.")?;
    // The hook of this very prompt delivers the mail, so nothing is left to submit.
    scene.model.wait_until("the mail", LONG, |r| r.iter().any(|r| r.text().contains("MAIL-AFTER-ESC")))?;
    Ok(())
}

/// Mail for a busy agent is not lost and does not interrupt; hooks deliver it at the next tool call, or the mod after a
/// turn without one.
#[test]
fn mail_to_a_busy_agent_arrives_after_the_turn() -> Result<()> {
    let gate = Gate::new();
    let script = Script::new()
        .turn(text("Long answer over.").usage(20_000).held_by(&gate))
        .turn(text("Read it.").usage(21_000));
    let Some(scene) = scene::claude_with_mod(script)? else { return Ok(()) };
    let pane = scene.start()?;
    scene.companion()?;
    pane.submit("Think.")?;
    scene.wait_for_requests(1)?;
    scene.baton(&["send", &scene.agent()?, "MAIL-TO-THE-BUSY"])?;
    gate.open();
    scene.hear(&pane, "Read it.")?;
    let asked = scene.asked();
    assert!(asked[0].text().contains("Think.") && !asked[0].text().contains("MAIL-TO-THE-BUSY"));
    assert!(asked[1].last_user_text().contains("MAIL-TO-THE-BUSY"));
    Ok(())
}

/// The API refuses for a while: the agent continues by itself in the same conversation, and a draft stays.
#[test]
fn after_a_usage_limit_the_agent_continues_in_place_and_a_draft_survives() -> Result<()> {
    let limit = error(429)
        .header("x-should-retry", "false")
        .message("You have reached your usage limit, which resets in 15 seconds");
    let script = Script::new()
        .turn(text("Ready.").usage(20_000))
        .turn(limit)
        .turn(text("Back at work.").usage(21_000));
    let Some(scene) = scene::claude_with_mod(script)? else { return Ok(()) };
    let pane = scene.start()?;
    let companion = scene.companion()?;
    scene.ask(&pane, "Begin.", "Ready.")?;
    pane.submit("Go on.")?;
    scene.wait_until("the limit", || scene.records("sessions").iter().any(|s| s["turn"] == "limit"))?;
    let parked = scene.records("sessions")[0]["parked"].clone();
    assert_eq!(parked["guess"], false, "{parked}\n{}", scene.log());
    pane.type_text("half a thought")?;
    scene.hear(&pane, "half a thought")?;
    scene.hear(&pane, "Back at work.")?;
    assert!(pane.screen()?.contains("half a thought"), "the draft is gone:\n{}", pane.screen()?);
    let asked = scene.asked();
    assert!(asked.last().unwrap().last_user_text().contains("The usage limit has ended. Continue."));
    assert_eq!(scene.companion()?, companion, "nothing was started again");
    Ok(())
}
