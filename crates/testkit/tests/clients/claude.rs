//! Claude Code, as it came from the registry.

use std::time::Duration;

use anyhow::Result;
use baton_testkit::clients::Place;
use baton_testkit::clients::claude::Claude;
use baton_testkit::model::{Script, ScriptedModel, shell, text};
use baton_testkit::tmux::{Ended, Tmux};

const LONG: Duration = Duration::from_secs(60);

#[test]
fn a_prompt_without_a_terminal_is_answered_by_the_script() -> Result<()> {
    let model = ScriptedModel::start(Script::new().turn(text("Good morning.").usage(40_000)))?;
    let place = Place::new()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    let finished = claude.print("Say good morning.", LONG)?;
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert_eq!(finished.stdout.trim(), "Good morning.");
    let asked = model.main_requests();
    assert_eq!(asked.len(), 1);
    assert!(asked[0].text().contains("Say good morning."));
    assert!(asked[0].session.is_some());
    Ok(())
}

#[test]
fn a_tool_call_runs_and_its_result_is_in_the_next_request() -> Result<()> {
    let script = Script::new().turn(shell("echo made-$((40 + 2)) | tee out.txt")).turn(text("Done."));
    let model = ScriptedModel::start(script)?;
    let place = Place::new()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    let finished = claude.allow(&["Bash"]).print("Make it.", LONG)?;
    assert_eq!(finished.stdout.trim(), "Done.", "{finished:?}");
    let asked = model.main_requests();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[1].last_user_text(), "made-42");
    assert_eq!(asked[0].session, asked[1].session);
    assert_eq!(std::fs::read_to_string(place.project().join("out.txt"))?, "made-42\n");
    Ok(())
}

#[test]
fn a_prompt_typed_in_a_terminal_is_answered_on_the_screen() -> Result<()> {
    let model = ScriptedModel::start(Script::new().turn(text("It is half past four.")))?;
    let place = Place::new()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    let tmux = Tmux::new()?;
    let pane = claude.start(&tmux, "claude")?;
    pane.submit("What time is it?")?;
    pane.wait_for("It is half past four.", LONG)?;
    assert_eq!(model.main_requests().len(), 1);
    assert!(model.main_requests()[0].text().contains("What time is it?"));
    pane.submit("/exit")?;
    assert_eq!(pane.wait_for_end(LONG)?, Ended::Code(0));
    Ok(())
}
