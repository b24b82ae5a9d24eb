//! Claude Code, as published in the registry.

use std::time::Duration;

use anyhow::Result;
use baton_testkit::clients::ClientHome;
use baton_testkit::clients::claude::Claude;
use baton_testkit::model::{Gate, Kind, Script, ScriptedModel, error, shell, text, too_long};
use baton_testkit::tmux::{Ended, Tmux};

const LONG: Duration = Duration::from_mins(1);

#[test]
fn a_prompt_without_a_terminal_is_answered_by_the_script() -> Result<()> {
    let model = ScriptedModel::start(Script::new().turn(text("Good morning.").usage(40_000)))?;
    let place = ClientHome::new()?;
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
    let place = ClientHome::new()?;
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
    let place = ClientHome::new()?;
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

#[test]
fn the_fill_level_that_the_script_reports_makes_the_client_compact() -> Result<()> {
    let script = Script::new()
        .turn(text("First answer.").usage(20_000))
        .turn(text("Second answer.").usage(40_000))
        .turn(text("Third answer.").usage(970_000))
        .turn(text("Fourth answer.").usage(20_000))
        .on_compaction(text("<summary>\nWhat the summary kept.\n</summary>"));
    let model = ScriptedModel::start(script)?;
    let place = ClientHome::new()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    let tmux = Tmux::new()?;
    let pane = claude.start(&tmux, "claude")?;
    for (prompt, answer) in [
        ("one", "First answer."),
        ("two", "Second answer."),
        ("three", "Third answer."),
        ("four", "Fourth answer."),
    ] {
        assert_eq!(model.compactions(), 0, "compacted before {prompt}");
        pane.submit(prompt)?;
        pane.wait_for(answer, LONG)?;
    }
    assert_eq!(model.compactions(), 1);
    let asked = model.main_requests();
    assert_eq!(asked.len(), 4, "the summary used up a turn");
    assert!(asked[3].text().contains("What the summary kept."));
    assert!(!asked[3].text().contains("First answer."));
    Ok(())
}

#[test]
fn a_refused_request_is_tried_again_and_a_full_window_is_reported() -> Result<()> {
    let overloaded = error(529).header("retry-after", "0");
    let script = Script::new().turn(overloaded).turn(text("Second try.")).otherwise(too_long());
    let model = ScriptedModel::start(script)?;
    let place = ClientHome::new()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    let finished = claude.print("Try.", LONG)?;
    assert_eq!(finished.stdout.trim(), "Second try.", "{finished:?}");
    assert_eq!(model.main_requests().len(), 2);
    let finished = claude.print("Too much.", LONG)?;
    assert!(finished.stdout.contains("Prompt is too long"), "{finished:?}");
    assert_eq!(finished.code, Some(1));
    Ok(())
}

#[test]
fn a_held_turn_keeps_the_client_busy_until_the_gate_opens() -> Result<()> {
    let gate = Gate::new();
    let model = ScriptedModel::start(Script::new().turn(text("At last.").held_by(&gate)))?;
    let place = ClientHome::new()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    let tmux = Tmux::new()?;
    let pane = claude.start(&tmux, "claude")?;
    pane.submit("Take your time.")?;
    model.wait_for(1, LONG)?;
    pane.submit("Queued meanwhile.")?;
    pane.wait_for("Press up to edit queued messages", LONG)?;
    assert_eq!(model.main_requests().len(), 1);
    gate.open();
    let asked = model.wait_for(2, LONG)?;
    assert!(asked[1].last_user_text().contains("Queued meanwhile."));
    Ok(())
}

#[test]
fn a_session_gets_its_title_beside_the_script() -> Result<()> {
    let model = ScriptedModel::start(Script::new().turn(text("The only turn.")))?;
    let place = ClientHome::new()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    // Titles are non-essential traffic, so allow that; the rest of it goes to a port where nobody listens.
    let mut launch = claude.launch().env("HTTPS_PROXY", "http://127.0.0.1:9").env("NO_PROXY", "127.0.0.1");
    launch.env.remove("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC");
    let tmux = Tmux::new()?;
    let pane = tmux.run("claude", &launch)?;
    pane.wait_until("the input line", LONG, baton_testkit::clients::claude::takes_input)?;
    pane.submit("Fix the parser of the settings file")?;
    pane.wait_for("The only turn.", LONG)?;
    model.wait_until("a request for a title", LONG, |requests| {
        requests.iter().any(|request| request.kind == Kind::Title)
    })?;
    assert_eq!(model.main_requests().len(), 1);
    Ok(())
}
