//! Codex with hooks.

use anyhow::{Context as _, Result};
use baton_testkit::clients::codex::Codex;
use baton_testkit::model::{Gate, Script, shell, text};
use baton_testkit::tmux::Pane;
use baton_testkit::tools;
use baton_testkit::wait::LONG;

use super::scene::{
    self, LOADED, Scene, assert_over_three_contexts, assert_packed, assert_went_on, hands_over, long_handoff,
    over_three_contexts,
};

/// The percentage that the client itself shows.
fn shown(screen: &str) -> Option<u64> {
    let line = screen.lines().rev().find(|line| line.contains("% used"))?;
    let before = &line[..line.find("% used")?];
    before.rsplit(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[test]
fn at_four_levels_the_reading_is_what_the_client_shows() -> Result<()> {
    let levels = [(20_000, "At one."), (35_500, "At two."), (60_500, "At three."), (78_500, "At four.")];
    let script =
        levels.iter().fold(Script::new(), |s, (tokens, answer)| s.turn(text(*answer).usage(*tokens)));
    let Some(scene) = scene::codex_with_hooks(script)? else { return Ok(()) };
    let pane = scene.start()?;
    let mut seen = Vec::new();
    for (tokens, answer) in levels {
        scene.ask(&pane, "go on", answer)?;
        let told = scene.wait_for("the reading", || {
            let status = scene.status()?;
            let here = status["reading"]["tokens"].as_u64().is_some_and(|t| t.abs_diff(tokens) < 500);
            Ok((here && status["state"] == "idle").then(|| status["percentage"].as_u64().unwrap_or(101)))
        })?;
        let screen = pane.wait_until("the client's own figure", LONG, |s| shown(s) == Some(told))?;
        seen.push((told, shown(&screen)));
    }
    let told: Vec<u64> = seen.iter().map(|(told, _)| *told).collect();
    assert!(told.is_sorted() && told[0] < 15 && told[3] > 75, "{told:?}");
    scene.exit(&pane)
}

#[test]
fn a_thread_begins_with_the_handoff_that_waits_however_long_it_is() -> Result<()> {
    let script = Script::new().otherwise(text("Read it.").usage(20_000));
    let Some(scene) = scene::codex_with_hooks(script)? else { return Ok(()) };
    scene.seal(&long_handoff())?;
    let pane = scene.start()?;
    scene.ask(&pane, "go on", "Read it.")?;
    assert_packed(&scene.asked()[0]);
    scene.assert_consumed();
    Ok(())
}

#[test]
fn an_agent_that_hands_over_under_run_continues_in_a_new_process_with_its_handoff() -> Result<()> {
    let Some(scene) = scene::codex_with_hooks(hands_over(67_000))? else { return Ok(()) };
    let pane = scene.start_under_run()?;
    pane.submit("Write the parser. Never change the grammar.")?;
    let asked = scene.wait_for_requests(3)?;
    assert_went_on(&asked);
    assert!(asked[2].text().contains("Never change the grammar."), "the user's own words are missing");
    scene.hear(&pane, "I know where I was.")?;
    assert_eq!(scene.status()?["actuator"], "restart");
    scene.wait_for_input(&pane)?;
    scene.exit(&pane)
}

/// Codex never reports that it is idle: the terminal shows that nobody is typing, and the supervisor continues on its
/// own.
#[test]
fn a_critical_end_of_turn_under_run_is_followed_by_a_fresh_context_unless_somebody_types() -> Result<()> {
    for typed in [false, true] {
        let script = Script::new()
            .turn(text("I go on.").usage(70_000))
            .turn(text("I still go on.").usage(70_500))
            .otherwise(text("I know where I was.").usage(20_000));
        let Some(scene) = scene::codex_with_hooks(script)? else { return Ok(()) };
        let pane = scene.start_under_run()?;
        pane.submit("Write the parser. Never change the grammar.")?;
        scene.wait_until("the sealed handoff", || {
            scene.records("agents").iter().any(|a| a["rotation"]["wait_for_idle"] == true)
        })?;
        // As if the prompt had been typed long ago: the terminal's access time has steps of eight seconds.
        let terminal = pane.format("#{pane_tty}")?;
        let aged =
            std::process::Command::new("touch").args(["-a", "-d", "2 minutes ago", &terminal]).status()?;
        assert!(aged.success(), "{terminal}");
        if typed {
            pane.type_text("a draft")?;
            scene.wait_until("the reason", || {
                scene
                    .records("agents")
                    .iter()
                    .any(|a| a["waits"].as_str().is_some_and(|w| w.contains("typed")))
            })?;
            assert!(pane.screen()?.contains("a draft"), "the draft is there");
            assert!(!scene.asked().iter().any(|r| r.text().contains(LOADED)));
        } else {
            scene.hear(&pane, "I know where I was.")?;
            let asked = scene.asked();
            let fresh = asked.iter().find(|r| r.text().contains(LOADED)).unwrap();
            assert!(fresh.text().contains("Never change the grammar."), "{}", fresh.text());
        }
    }
    Ok(())
}

#[test]
fn in_a_worktree_of_its_own_the_agent_continues_where_it_was() -> Result<()> {
    if !tools::has(&["git"]) {
        return Ok(());
    }
    let script = Script::new()
        .turn(shell("echo ONLY-IN-THE-WORKTREE > made.txt && echo half | baton handoff -").usage(67_000))
        .turn(text("Handed over.").usage(67_500))
        .turn(shell("cat made.txt; git rev-parse --git-common-dir").usage(20_000))
        .turn(text("It is still there.").usage(21_000));
    let Some(scene) = scene::codex_with_hooks(script)? else { return Ok(()) };
    scene.place.git_init()?;
    let finished = scene.run_headless(&["exec", "--worktree", "Write made.txt."])?;
    assert_eq!(finished.stdout.trim(), "It is still there.", "{finished:?}");
    assert!(!scene.place.project().join("made.txt").exists(), "it did not work in a worktree");
    let asked = scene.asked();
    assert_ne!(asked[2].session, asked[0].session);
    assert!(asked[2].text().contains("=== HANDOFF LOADED"), "{}", asked[2].text());
    let last = asked[3].text();
    let own = scene.place.project().join(".git").display().to_string();
    assert!(last.contains("ONLY-IN-THE-WORKTREE") && last.contains(&own), "{last}");
    Ok(())
}

#[test]
fn a_headless_task_continues_over_three_contexts_and_prints_one_result() -> Result<()> {
    let Some(scene) = scene::codex_with_hooks(over_three_contexts(70_000))? else { return Ok(()) };
    let finished = scene.run_headless(&["exec", "--skip-git-repo-check", "Do the long task."])?;
    assert_over_three_contexts(&finished, &scene.asked());
    Ok(())
}

/// The model ignores everything, and the client compacts within the turn.
fn compacted(seal: bool) -> Result<Option<Scene<Codex>>> {
    let script = Script::new()
        .turn(shell("echo 'fn main() {}' > parser.rs && echo made").usage(30_000))
        .turn(shell("echo second").usage(82_000))
        .turn(text("Done.").usage(20_000))
        .on_compaction(text("A summary that forgot everything."));
    let Some(scene) = scene::codex_with_hooks(script)? else { return Ok(None) };
    scene.configure(&format!("[handoff]\nseal = {seal}\n"))?;
    let finished = scene.client.exec("Write parser.rs. Never use regular expressions.", LONG)?;
    assert_eq!(finished.stdout.trim(), "Done.", "{finished:?}");
    assert_eq!(scene.model.compactions(), 1);
    Ok(Some(scene))
}

#[test]
fn when_compaction_comes_the_next_request_carries_the_ledger_and_without_sealing_it_does_not() -> Result<()> {
    let Some(scene) = compacted(true)? else { return Ok(()) };
    let after = scene.asked()[2].text();
    assert!(after.contains(LOADED), "{after}");
    assert!(after.contains("parser.rs"), "{after}");
    assert!(scene.baton(&["handoffs", "--json"])?.contains("\"type\": \"precompact\""));
    let Some(scene) = compacted(false)? else { return Ok(()) };
    let after = scene.asked()[2].text();
    assert!(
        after.contains("A summary that forgot everything.") && !after.contains("HANDOFF LOADED"),
        "{after}"
    );
    Ok(())
}

#[test]
fn a_compaction_held_back_under_run_is_a_fresh_context_at_once() -> Result<()> {
    let script = Script::new()
        .turn(shell("echo MADE-BEFORE > made.txt").usage(30_000))
        .turn(shell("echo second").usage(82_000))
        .turn(text("In the fresh context.").usage(20_000));
    let Some(scene) = scene::codex_with_hooks(script)? else { return Ok(()) };
    scene.configure("[handoff]\nblock_compaction = true\n")?;
    let pane = scene.start_under_run()?;
    scene.ask(&pane, "Write made.txt. Never use regular expressions.", "In the fresh context.")?;
    assert_eq!(scene.model.compactions(), 0);
    let asked = scene.asked();
    assert_ne!(asked[2].session, asked[0].session);
    let first = asked[2].text();
    assert!(first.contains("made.txt") && first.contains("Never use regular expressions."), "{first}");
    Ok(())
}

#[test]
fn hooks_that_nobody_trusted_are_noticed_and_the_user_is_told() -> Result<()> {
    let script = Script::new().otherwise(text("Hello.").usage(20_000));
    let Some(scene) = scene::codex(script)? else { return Ok(()) };
    let said = scene.baton(&["install", "--provider", "codex", "--yes"])?;
    assert!(said.contains("before you have reviewed them"), "{said}");
    // Without a terminal the client silently skips them; baton says so.
    let finished = scene.run_headless(&["exec", "--skip-git-repo-check", "Hello?"])?;
    assert_eq!(finished.stdout.trim(), "Hello.", "{finished:?}");
    assert!(finished.stderr.contains("does not run 12 of baton's 12 hooks"), "{finished:?}");
    assert!(!scene.state().join("sessions").exists(), "a hook ran without consent");
    // In a terminal the client asks by itself; baton then finds what the user accepted.
    let pane = scene.open(&scene.client.launch().arg("--no-daemon"))?;
    scene.hear(&pane, "Hooks need review")?;
    // It is drawn before it accepts keys.
    scene.wait_for("the choice", || {
        pane.keys(&["2"])?;
        Ok(pane.screen()?.contains("› 2. Trust all").then_some(()))
    })?;
    pane.keys(&["Enter"])?;
    scene.wait_for("trust", || {
        let doctor = scene.place.launch(crate::BATON).args(&["doctor", "--json"]).run(LONG)?;
        Ok(doctor.stdout.contains("All 12 hooks of Codex are registered and trusted").then_some(()))
    })?;
    Ok(())
}

/// Mail wakes an idle agent while a person types, and the draft stays. Returns the agent's name.
pub(super) fn wake_beside_draft(scene: &Scene<Codex>, pane: &Pane<'_>) -> Result<String> {
    let idle = scene.wait_for_state("idle")?;
    let agent = idle["agent"]["id"].as_str().context("an agent has a name")?.to_owned();
    pane.type_text("half a draft")?;
    scene.hear(pane, "half a draft")?;
    let said = scene.baton(&["send", &agent, "MAIL-FOR-THE-IDLE"])?;
    assert!(said.contains("has been woken"), "{said}");
    scene.hear(pane, "The mail is read.")?;
    assert!(pane.screen()?.contains("half a draft"), "the draft is gone: {}", pane.screen()?);
    assert!(scene.asked()[1].text().contains("MAIL-FOR-THE-IDLE"));
    pane.keys(&["C-u"])?;
    pane.wait_until("an empty input line", LONG, |s| !s.contains("half a draft"))?;
    Ok(agent)
}

#[test]
fn mail_reaches_an_idle_client_beside_its_draft_and_a_busy_one_at_its_next_tool_call() -> Result<()> {
    let gate = Gate::new();
    let script = Script::new()
        .turn(text("Hello.").usage(20_000))
        .turn(text("The mail is read.").usage(20_500))
        .turn(shell("echo working").usage(21_000).held_by(&gate))
        .turn(text("Both are read.").usage(21_500));
    let Some(scene) = scene::codex_with_hooks(script)? else { return Ok(()) };
    let pane = scene.start()?;
    scene.ask(&pane, "hello", "Hello.")?;
    let agent = wake_beside_draft(&scene, &pane)?;
    scene.wait_for_state("idle")?;
    pane.submit("work")?;
    scene.wait_for_state("working")?;
    let said = scene.baton(&["send", &agent, "--important", "MAIL-FOR-THE-BUSY"])?;
    assert!(said.contains("next tool call"), "{said}");
    gate.open();
    scene.hear(&pane, "Both are read.")?;
    assert!(scene.asked()[3].text().contains("MAIL-FOR-THE-BUSY"));
    Ok(())
}
