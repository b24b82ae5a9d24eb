//! Mail inside Claude Code: urgent messages end a turn, and after Esc the client's own refusal is heeded.

use std::time::Duration;

use anyhow::{Context as _, Result};
use baton_testkit::clients::claude::Claude;
use baton_testkit::model::{Gate, Script, ScriptedModel, shell, text};
use baton_testkit::tmux::Tmux;
use rustix::process::Signal;

use super::LONG;
use super::companion::{agent, baton, companion, log, next_companion, place, records, signal, wait_until};

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
