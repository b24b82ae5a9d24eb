//! Codex, as it came from the registry.

use std::time::Duration;

use anyhow::Result;
use baton_testkit::clients::Place;
use baton_testkit::clients::codex::Codex;
use baton_testkit::model::{Script, ScriptedModel, shell, text};
use baton_testkit::tmux::{Ended, Tmux};

const LONG: Duration = Duration::from_secs(60);

#[test]
fn a_prompt_without_a_terminal_runs_a_tool_and_is_answered_by_the_script() -> Result<()> {
    let script = Script::new().turn(shell("echo made-$((40 + 2)) | tee out.txt")).turn(text("Done."));
    let model = ScriptedModel::start(script)?;
    let place = Place::new()?;
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
    let place = Place::new()?;
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
