//! Codex, as published in the registry.

use std::time::Duration;

use anyhow::Result;
use baton_testkit::clients::ClientHome;
use baton_testkit::clients::codex::Codex;
use baton_testkit::model::{Script, ScriptedModel, shell, text, too_long};
use baton_testkit::tmux::{Ended, Tmux};

const LONG: Duration = Duration::from_mins(1);

#[test]
fn a_prompt_without_a_terminal_runs_a_tool_and_is_answered_by_the_script() -> Result<()> {
    let script = Script::new().turn(shell("echo made-$((40 + 2)) | tee out.txt")).turn(text("Done."));
    let model = ScriptedModel::start(script)?;
    let place = ClientHome::new()?;
    let Some(codex) = Codex::new(&place, &model)? else { return Ok(()) };
    let finished = codex.exec("Make it.", LONG)?;
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert_eq!(finished.stdout.trim(), "Done.", "{finished:?}");
    let asked = model.main_requests();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[0].last_user_text(), "Make it.");
    assert!(asked[1].last_user_text().contains("made-42"));
    assert_eq!(std::fs::read_to_string(place.project().join("out.txt"))?, "made-42\n");
    Ok(())
}

#[test]
fn a_prompt_typed_in_a_terminal_is_answered_on_the_screen() -> Result<()> {
    let model = ScriptedModel::start(Script::new().turn(text("It is half past four.")))?;
    let place = ClientHome::new()?;
    let Some(codex) = Codex::new(&place, &model)? else { return Ok(()) };
    let tmux = Tmux::new()?;
    let pane = codex.start(&tmux, "codex")?;
    pane.submit("What time is it?")?;
    pane.wait_for("It is half past four.", LONG)?;
    assert_eq!(model.main_requests().len(), 1, "the title of the session used up a turn");
    pane.submit("/quit")?;
    assert_eq!(pane.wait_for_end(LONG)?, Ended::Code(0));
    Ok(())
}

#[test]
fn the_fill_level_that_the_script_reports_makes_the_client_compact() -> Result<()> {
    let script = Script::new()
        .turn(shell("echo first").usage(30_000))
        .turn(shell("echo second").usage(82_000))
        .turn(text("Done.").usage(20_000))
        .on_compaction(text("What the summary kept."));
    let model = ScriptedModel::start(script)?;
    let place = ClientHome::new()?;
    let Some(codex) = Codex::new(&place, &model)? else { return Ok(()) };
    let finished = codex.exec("Work.", LONG)?;
    assert_eq!(finished.stdout.trim(), "Done.", "{finished:?}");
    assert_eq!(model.compactions(), 1);
    let asked = model.main_requests();
    assert_eq!(asked.len(), 3, "the summary used up a turn");
    assert!(asked[2].text().contains("What the summary kept."));
    Ok(())
}

#[test]
fn a_full_window_is_reported_as_such() -> Result<()> {
    let model = ScriptedModel::start(Script::new().otherwise(too_long()))?;
    let place = ClientHome::new()?;
    let Some(codex) = Codex::new(&place, &model)? else { return Ok(()) };
    let finished = codex.exec("Too much.", LONG)?;
    assert_eq!(finished.code, Some(1), "{finished:?}");
    assert!(finished.stderr.contains("context window"), "{finished:?}");
    Ok(())
}
