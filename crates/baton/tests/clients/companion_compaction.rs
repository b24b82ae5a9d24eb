//! Compaction inside Claude Code, answered by the mod with a handoff.
//!
//! The requests to the model prove it: no summary was ever requested, and the next request carries the handoff and
//! what was pending.

use anyhow::{Context as _, Result};
use baton_testkit::model::{Script, shell, text, too_long};
use baton_testkit::wait::LONG;
use rustix::process::Signal;

use super::scene::{self, FULL, LOADED, QUIET, begun, signal};

#[test]
fn an_automatic_compaction_is_answered_and_the_pending_prompt_is_kept() -> Result<()> {
    let script =
        begun(FULL).turn(text("Second answer.").usage(30_000)).turn(text("Third answer.").usage(31_000));
    let Some(scene) = scene::claude_with_mod(script)? else { return Ok(()) };
    scene.configure(QUIET)?;
    let pane = scene.start()?;
    scene.begin(&pane)?;
    scene.ask(&pane, "PENDING-PROMPT: go on", "Second answer.")?;

    assert_eq!(scene.model.compactions(), 0, "a summary was asked for\n{}", scene.log());
    let asked = scene.asked();
    let next = asked[3].text();
    assert!(next.contains(LOADED), "{next}\n{}", scene.log());
    assert!(next.contains("Never change the grammar."), "the user's own words are missing: {next}");
    assert!(
        asked[3].last_user_text().contains("PENDING-PROMPT: go on"),
        "the pending prompt was lost: {next}"
    );
    let roles: Vec<String> = asked[3].messages().into_iter().map(|m| m.role).collect();
    assert!(!roles.contains(&"assistant".to_owned()), "the old conversation is still there: {roles:?}");
    assert_eq!(next.matches(LOADED).count(), 1, "SessionStart(compact) loaded it a second time");

    let rotations = scene.records("rotations");
    assert_eq!(rotations.len(), 1);
    assert_eq!((&rotations[0]["actuator"], &rotations[0]["step"]), (&"mod".into(), &"done".into()));
    scene.assert_consumed();
    let sessions = scene.records("sessions");
    assert_eq!(sessions.len(), 1, "{sessions:?}");
    assert_eq!(sessions[0]["latches"]["cycle"], 1, "a new cycle has begun");
    assert!(scene.state().join("compaction.json").exists(), "where it came was not remembered");

    scene.ask(&pane, "And on.", "Third answer.")?;
    assert_eq!(scene.model.compactions(), 0);
    Ok(())
}

#[test]
fn a_compaction_by_hand_is_answered_with_what_the_user_asked_to_keep() -> Result<()> {
    let script = begun(50_000).otherwise(text("Went on."));
    let Some(scene) = scene::claude_with_mod(script)? else { return Ok(()) };
    let pane = scene.start()?;
    scene.begin(&pane)?;
    pane.submit("/compact keep the KEEP-THIS-WORD list")?;
    scene.wait_until("the rotation", || !scene.records("rotations").is_empty())?;
    scene.hear(&pane, "Compacted")?;
    scene.ask(&pane, "Go on.", "Went on.")?;
    assert_eq!(scene.model.compactions(), 0);
    let next = scene.asked()[3].text();
    let place = |part: &str| next.find(part).unwrap_or_else(|| panic!("{part} in {next}"));
    assert!(place("KEEP-THIS-WORD") < place(LOADED), "the user's words come first: {next}");
    Ok(())
}

#[test]
fn in_the_middle_of_a_turn_parallel_results_stay_with_their_calls() -> Result<()> {
    let script = Script::new()
        .turn(shell("echo OLD-RESULT").usage(40_000))
        .turn(shell("echo RESULT-A").shell("echo RESULT-B").usage(FULL))
        .turn(text("Turn over.").usage(30_000));
    let Some(scene) = scene::claude_with_mod(script)? else { return Ok(()) };
    let scene = scene.allow(&["Bash"]);
    let pane = scene.start()?;
    scene.ask(&pane, "Run both.", "Turn over.")?;
    assert_eq!(scene.model.compactions(), 0, "{}", scene.log());
    let asked = scene.asked();
    let next = &asked[2];
    assert!(next.text().contains(LOADED), "{}\n{}", next.text(), scene.log());
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
    let script = begun(50_000).turn(too_long()).turn(text("Second answer.").usage(30_000));
    let Some(scene) = scene::claude_with_mod(script)? else { return Ok(()) };
    let pane = scene.start()?;
    scene.begin(&pane)?;
    scene.ask(&pane, "PENDING-PROMPT: go on", "Second answer.")?;
    assert_eq!(scene.model.compactions(), 0, "{}", scene.log());
    let asked = scene.asked();
    let last = asked.last().context("no request")?;
    assert!(
        last.text().contains(LOADED) && last.last_user_text().contains("PENDING-PROMPT"),
        "{}",
        last.text()
    );
    Ok(())
}

#[test]
fn a_headless_run_is_compacted_by_its_handoff_too() -> Result<()> {
    let script =
        Script::new().turn(shell("echo HEADLESS-RESULT").usage(FULL)).turn(text("All done.").usage(30_000));
    let Some(scene) = scene::claude_with_mod(script)? else { return Ok(()) };
    let scene = scene.allow(&["Bash"]);
    let finished = scene.client.print("Do the task.", LONG)?;
    assert_eq!(finished.stdout.trim(), "All done.", "{finished:?}");
    assert_eq!(scene.model.compactions(), 0, "{}", scene.log());
    let asked = scene.asked();
    assert!(
        asked[1].text().contains(LOADED) && asked[1].text().contains("HEADLESS-RESULT"),
        "{}",
        asked[1].text()
    );
    Ok(())
}

/// A killed companion costs only the rotation in place: compactions are still answered, the user is told, and commands
/// report it.
#[test]
fn a_killed_companion_is_noticed_and_compactions_are_still_answered() -> Result<()> {
    let script = begun(FULL).turn(text("Second answer.").usage(30_000));
    let Some(scene) = scene::claude_with_mod(script)? else { return Ok(()) };
    scene.configure(QUIET)?;
    let pane = scene.start()?;
    let mut pid = scene.companion()?;
    let status = scene.baton(&["status"])?;
    assert!(status.contains(" mod") && !status.contains("mod gone"), "{status}");
    // The mod starts it again, three times.
    for _ in 0..3 {
        signal(pid, Signal::KILL)?;
        pid = scene.next_companion(pid)?;
    }
    signal(pid, Signal::KILL)?;
    scene.begin(&pane)?;
    let status = scene.baton(&["status"])?;
    assert!(status.contains("mod gone") && status.contains("its companion has ended"), "{status}");
    assert!(scene.baton(&["rotate", &scene.agent()?])?.contains("type /clear"));
    scene.ask(&pane, "PENDING-PROMPT: go on", "Second answer.")?;
    assert_eq!(scene.model.compactions(), 0, "{}", scene.log());
    Ok(())
}

/// Nothing in the client waits for a companion that hangs.
#[test]
fn a_companion_that_hangs_holds_nobody_and_is_reported() -> Result<()> {
    let script = begun(50_000).otherwise(text("Went on."));
    let Some(scene) = scene::claude_with_mod(script)? else { return Ok(()) };
    let pane = scene.start()?;
    let pid = scene.companion()?;
    signal(pid, Signal::STOP)?;
    scene.begin(&pane)?;
    scene.wait_until("the report", || scene.records("companions")[0]["silent"].is_string())?;
    assert!(scene.baton(&["status"])?.contains("mod hangs"));
    scene.hear(&pane, "companion does not answer")?;
    scene.ask(&pane, "/compact", "Compacted")?;
    assert_eq!(scene.model.compactions(), 0);
    signal(pid, Signal::CONT)?;
    scene.ask(&pane, "Go on.", "Went on.")?;
    scene.wait_until("its return", || scene.records("companions")[0]["silent"].is_null())?;
    Ok(())
}

/// The program that the mod should start is gone: the client compacts as it would without us.
#[test]
fn without_an_answer_the_client_compacts_by_itself() -> Result<()> {
    let script = begun(FULL).turn(text("Second answer.").usage(30_000));
    let Some(scene) = scene::claude_with_mod(script)? else { return Ok(()) };
    scene.configure(QUIET)?;
    let dir = scene.place.home().join(".claude/skills/baton");
    let module = baton::testing::install::plugin::module("/nowhere/baton", &dir);
    scene.place.write_home(".claude/skills/baton/hooks/register.js", module)?;
    let pane = scene.start()?;
    scene.begin(&pane)?;
    scene.ask(&pane, "PENDING-PROMPT: go on", "Second answer.")?;
    assert_eq!(scene.model.compactions(), 1);
    let next = scene.asked()[3].text();
    assert!(next.contains(LOADED), "PreCompact sealed and SessionStart(compact) loaded: {next}");
    Ok(())
}

#[test]
fn compaction_is_left_to_the_client_where_the_configuration_says_so() -> Result<()> {
    let script = begun(FULL).turn(text("Second answer.").usage(30_000));
    let Some(scene) = scene::claude_with_mod(script)? else { return Ok(()) };
    scene.configure(&format!("compaction = \"ask\"\n{QUIET}"))?;
    let pane = scene.start()?;
    scene.begin(&pane)?;
    scene.ask(&pane, "Go on.", "Second answer.")?;
    assert_eq!(scene.model.compactions(), 1, "nobody asked for this one");
    pane.submit("/compact")?;
    scene.wait_until("the rotation", || scene.records("rotations").len() == 1)?;
    scene.hear(&pane, "Compacted")?;
    assert_eq!(scene.model.compactions(), 1, "a person asked for this one");
    Ok(())
}

/// More than the tail may hold: shortened, with calls and results paired, and whole on disk.
#[test]
fn a_long_pending_result_is_shortened_and_its_whole_can_be_read() -> Result<()> {
    // The client itself stores results of more than 30,000 characters elsewhere.
    let long = "for i in $(seq 1 1000); do echo \"line $i of a long result\"; done";
    let turn = (0..5).fold(shell(long), |turn, _| turn.shell(long));
    let script = Script::new().turn(turn.usage(FULL)).turn(text("Turn over.").usage(30_000));
    let Some(scene) = scene::claude_with_mod(script)? else { return Ok(()) };
    let scene = scene.allow(&["Bash"]);
    let pane = scene.start()?;
    scene.ask(&pane, "Run them.", "Turn over.")?;
    assert_eq!(scene.model.compactions(), 0, "{}", scene.log());
    let next = scene.asked()[1].text();
    let at = next.find("the whole is in ").with_context(|| next.clone())? + "the whole is in ".len();
    let path = next[at..].split_whitespace().next().context("no path")?;
    let whole = std::fs::read_to_string(path)?;
    assert!(whole.contains("line 500 of a long result") && whole.contains("line 1000 of a long result"));
    Ok(())
}

/// The agent wrote nothing and the user wants its words: its own model is asked once, and no summary is made.
#[test]
fn the_sessions_own_model_writes_the_narrative_if_the_user_wants_that() -> Result<()> {
    let script = begun(FULL)
        .when(
            |r| r.last_user_text().contains("about to be replaced by a handoff"),
            text("FORKED-WORDS of the model."),
        )
        .turn(text("Second answer.").usage(30_000));
    let Some(scene) = scene::claude_with_mod(script)? else { return Ok(()) };
    scene.configure(&format!("narrative = \"fork\"\n{QUIET}"))?;
    let pane = scene.start()?;
    scene.begin(&pane)?;
    scene.ask(&pane, "PENDING-PROMPT: go on", "Second answer.")?;
    assert_eq!(scene.model.compactions(), 0, "{}", scene.log());
    let asked = scene.asked();
    let last = asked.last().context("no request")?;
    assert!(last.text().contains(LOADED) && last.text().contains("FORKED-WORDS"), "{}", last.text());
    assert!(last.last_user_text().contains("PENDING-PROMPT"), "of {} requests: {}", asked.len(), last.text());
    assert!(
        scene.log().contains("\"fork\":{\"chars\":26,\"usage\":{\""),
        "its cost is not on record: {}",
        scene.log()
    );
    Ok(())
}
