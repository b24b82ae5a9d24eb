//! Codex.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use baton_testkit::clients::codex::{Codex, takes_input};
use baton_testkit::clients::{Launch, Place};
use baton_testkit::model::{Gate, Script, ScriptedModel, shell, text};
use baton_testkit::tmux::{Ended, Tmux};
use serde_json::Value;

use super::{LONG, baton, place};
use crate::BATON;

const START: Duration = Duration::from_secs(30);

/// Codex with baton's hooks, trusted by an explicit word.
pub(super) fn ready(place: &Place, model: &ScriptedModel) -> Result<Option<Codex>> {
    let Some(codex) = Codex::new(place, model)? else { return Ok(None) };
    baton(place, &["install", "--provider", "codex", "--trust", "--yes"])?;
    // Its tools run in a login shell, which finds `baton` where the user's profile says.
    place.write_home(".bash_profile", "export PATH=\"$HOME/.local/bin:$PATH\"\n")?;
    Ok(Some(codex))
}

fn under_run(launch: Launch) -> Launch {
    launch.under(BATON, &["run", "codex"])
}

/// What baton knows of the only agent here.
pub(super) fn status(place: &Place) -> Result<Value> {
    let all: Value = serde_json::from_str(&baton(place, &["status", "--all", "--json"])?)?;
    Ok(all[0].clone())
}

/// Waits for something that comes without a word.
pub(super) fn until<T>(what: &str, look: impl Fn() -> Result<Option<T>>) -> Result<T> {
    let end = Instant::now() + LONG;
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        anyhow::ensure!(Instant::now() < end, "{what} did not come");
        std::thread::sleep(Duration::from_millis(50));
    }
}

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
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(codex) = ready(&place, &model)? else { return Ok(()) };
    let tmux = Tmux::new()?;
    let pane = codex.start(&tmux, "codex")?;
    let mut seen = Vec::new();
    for (tokens, answer) in levels {
        pane.submit("go on")?;
        pane.wait_for(answer, LONG)?;
        let told = until("the reading", || {
            let status = status(&place)?;
            let here = status["reading"]["tokens"].as_u64().is_some_and(|t| t.abs_diff(tokens) < 500);
            Ok((here && status["state"] == "idle").then(|| status["percentage"].as_u64().unwrap_or(101)))
        })?;
        let screen = pane.wait_until("the client's own figure", LONG, |s| shown(s) == Some(told))?;
        seen.push((told, shown(&screen)));
    }
    let told: Vec<u64> = seen.iter().map(|(told, _)| *told).collect();
    assert!(told.is_sorted() && told[0] < 15 && told[3] > 75, "{told:?}");
    pane.submit("/quit")?;
    assert_eq!(pane.wait_for_end(LONG)?, Ended::Code(0));
    Ok(())
}

#[test]
fn a_thread_begins_with_the_handoff_that_waits_however_long_it_is() -> Result<()> {
    let model = ScriptedModel::start(Script::new().otherwise(text("Read it.").usage(20_000)))?;
    let place = place()?;
    let Some(codex) = ready(&place, &model)? else { return Ok(()) };
    let mut long = String::from("# Now\nBEGINNING-OF-IT: fix the parser. Größe: 漢字漢字.\n\n");
    for n in 0..900 {
        let _ = write!(long, "## Note {n}\nSomething that was found out on the way, number {n}: 漢字.\n\n");
    }
    let file = place.write_project("long.md", &long)?;
    baton(&place, &["handoffs", "seal", &file.display().to_string()])?;
    let tmux = Tmux::new()?;
    let pane = codex.start(&tmux, "codex")?;
    pane.submit("go on")?;
    pane.wait_for("Read it.", LONG)?;
    let seen = model.main_requests()[0].text();
    assert!(seen.contains("BEGINNING-OF-IT"), "{seen}");
    assert!(seen.contains("=== END HANDOFF ==="), "the client has cut it: {seen}");
    assert!(seen.contains("/archive/HO-"), "the way to the whole is missing");
    assert!(baton(&place, &["handoffs", "--json"])?.contains("\"status\": \"consumed\""));
    Ok(())
}

#[test]
fn an_agent_that_hands_over_under_run_continues_in_a_new_process_with_its_handoff() -> Result<()> {
    let script = Script::new()
        .turn(
            shell(
                "baton handoff - <<'END'\n# Where I am\nThe parser is half done; MARK-OF-THE-HANDOFF.\nEND\n",
            )
            .usage(67_000),
        )
        .turn(text("Handed over.").usage(67_500))
        .turn(text("I know where I was.").usage(20_000));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(codex) = ready(&place, &model)? else { return Ok(()) };
    let tmux = Tmux::new()?;
    let pane = tmux.run("run", &under_run(codex.launch()))?;
    pane.wait_until("the input line", START, takes_input)?;
    pane.submit("Write the parser. Never change the grammar.")?;
    let asked = model.wait_for(3, LONG)?;
    let first_of_the_new = asked[2].text();
    assert_ne!(asked[2].session, asked[0].session, "the conversation was not replaced");
    assert!(first_of_the_new.contains("MARK-OF-THE-HANDOFF"), "{first_of_the_new}");
    assert!(first_of_the_new.contains("Never change the grammar."), "the user's own words are missing");
    assert!(first_of_the_new.contains("=== HANDOFF LOADED (ID: HO-"));
    assert!(first_of_the_new.contains("Continue where the loaded handoff HO-"));
    pane.wait_for("I know where I was.", LONG)?;
    assert_eq!(status(&place)?["actuator"], "restart");
    pane.wait_until("the input line", START, takes_input)?;
    pane.submit("/quit")?;
    assert_eq!(pane.wait_for_end(LONG)?, Ended::Code(0));
    Ok(())
}

#[test]
fn in_a_worktree_of_its_own_the_agent_goes_on_where_it_was() -> Result<()> {
    let script = Script::new()
        .turn(shell("echo ONLY-IN-THE-WORKTREE > made.txt && echo half | baton handoff -").usage(67_000))
        .turn(text("Handed over.").usage(67_500))
        .turn(shell("cat made.txt; git rev-parse --git-common-dir").usage(20_000))
        .turn(text("It is still there.").usage(21_000));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    place.git_init()?;
    let Some(codex) = ready(&place, &model)? else { return Ok(()) };
    let launch = codex.launch().args(&["exec", "--worktree", "Write made.txt."]);
    let finished = under_run(launch).run(LONG)?;
    assert_eq!(finished.stdout.trim(), "It is still there.", "{finished:?}");
    assert!(!place.project().join("made.txt").exists(), "it did not work in a worktree");
    let asked = model.main_requests();
    assert_ne!(asked[2].session, asked[0].session);
    assert!(asked[2].text().contains("=== HANDOFF LOADED"), "{}", asked[2].text());
    let last = asked[3].text();
    let own = place.project().join(".git").display().to_string();
    assert!(last.contains("ONLY-IN-THE-WORKTREE") && last.contains(&own), "{last}");
    Ok(())
}

#[test]
fn a_headless_task_goes_on_over_three_contexts_and_prints_one_result() -> Result<()> {
    let hand_over = |mark: &str| shell(format!("printf 'state {mark}' | baton handoff -")).usage(70_000);
    let script = Script::new()
        .turn(hand_over("ONE"))
        .turn(text("first context over").usage(70_100))
        .turn(hand_over("TWO"))
        .turn(text("second context over").usage(70_100))
        .turn(text("All done.").usage(20_000));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(codex) = ready(&place, &model)? else { return Ok(()) };
    let launch = codex.launch().args(&["exec", "--skip-git-repo-check", "Do the long task."]);
    let finished = under_run(launch).run(LONG)?;
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert_eq!(finished.stdout.trim(), "All done.", "{finished:?}");
    let asked = model.main_requests();
    assert_eq!(asked.len(), 5);
    assert!(asked[2].text().contains("state ONE"), "{}", asked[2].text());
    assert!(asked[4].text().contains("state TWO"), "{}", asked[4].text());
    let mut sessions: Vec<_> = asked.iter().map(|r| r.session.clone()).collect();
    sessions.dedup();
    assert_eq!(sessions.len(), 3, "{sessions:?}");
    Ok(())
}

/// The model ignores everything and the client compacts within the turn.
fn compacted(seal: bool) -> Result<Option<(ScriptedModel, Place)>> {
    let script = Script::new()
        .turn(shell("echo 'fn main() {}' > parser.rs && echo made").usage(30_000))
        .turn(shell("echo second").usage(82_000))
        .turn(text("Done.").usage(20_000))
        .on_compaction(text("A summary that forgot everything."));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    place.write_home(".config/baton/config.toml", format!("[handoff]\nseal = {seal}\n"))?;
    let Some(codex) = ready(&place, &model)? else { return Ok(None) };
    let finished = codex.exec("Write parser.rs. Never use regular expressions.", LONG)?;
    assert_eq!(finished.stdout.trim(), "Done.", "{finished:?}");
    assert_eq!(model.compactions(), 1);
    Ok(Some((model, place)))
}

#[test]
fn when_compaction_comes_the_next_request_carries_the_ledger_and_without_sealing_it_does_not() -> Result<()> {
    let Some((model, place)) = compacted(true)? else { return Ok(()) };
    let after = model.main_requests()[2].text();
    assert!(after.contains("=== HANDOFF LOADED (ID: HO-"), "{after}");
    assert!(after.contains("parser.rs"), "{after}");
    assert!(baton(&place, &["handoffs", "--json"])?.contains("\"type\": \"precompact\""));
    let Some((model, _place)) = compacted(false)? else { return Ok(()) };
    let after = model.main_requests()[2].text();
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
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    place.write_home(".config/baton/config.toml", "[handoff]\nblock_compaction = true\n")?;
    let Some(codex) = ready(&place, &model)? else { return Ok(()) };
    let tmux = Tmux::new()?;
    let pane = tmux.run("run", &under_run(codex.launch()))?;
    pane.wait_until("the input line", START, takes_input)?;
    pane.submit("Write made.txt. Never use regular expressions.")?;
    pane.wait_for("In the fresh context.", LONG)?;
    assert_eq!(model.compactions(), 0);
    let asked = model.main_requests();
    assert_ne!(asked[2].session, asked[0].session);
    let first = asked[2].text();
    assert!(first.contains("made.txt") && first.contains("Never use regular expressions."), "{first}");
    Ok(())
}

#[test]
fn hooks_that_nobody_trusted_are_noticed_and_the_user_is_told() -> Result<()> {
    let model = ScriptedModel::start(Script::new().otherwise(text("Hello.").usage(20_000)))?;
    let place = place()?;
    let Some(codex) = Codex::new(&place, &model)? else { return Ok(()) };
    let said = baton(&place, &["install", "--provider", "codex", "--yes"])?;
    assert!(said.contains("before you have reviewed them"), "{said}");
    // Without a terminal the client skips them and says nothing; baton says it.
    let launch = codex.launch().args(&["exec", "--skip-git-repo-check", "Hello?"]);
    let finished = under_run(launch).run(LONG)?;
    assert_eq!(finished.stdout.trim(), "Hello.", "{finished:?}");
    assert!(finished.stderr.contains("does not run 11 of baton's 11 hooks"), "{finished:?}");
    assert!(!place.home().join(".local/state/baton/sessions").exists(), "a hook ran without consent");
    // In a terminal the client asks by itself; what the user accepts there is what baton then finds.
    let tmux = Tmux::new()?;
    let pane = tmux.run("codex", &codex.launch().arg("--no-daemon"))?;
    pane.wait_for("Hooks need review", START)?;
    // Drawn before it takes keys.
    until("the choice", || {
        pane.keys(&["2"])?;
        Ok(pane.screen()?.contains("› 2. Trust all").then_some(()))
    })?;
    pane.keys(&["Enter"])?;
    until("trust", || {
        let doctor = place.launch(BATON).args(&["doctor", "--json"]).run(LONG)?;
        Ok(doctor.stdout.contains("All 11 hooks of Codex are registered and trusted").then_some(()))
    })?;
    Ok(())
}

#[test]
fn mail_reaches_an_idle_client_beside_its_draft_and_a_busy_one_at_its_next_tool_call() -> Result<()> {
    let gate = Gate::new();
    let script = Script::new()
        .turn(text("Hello.").usage(20_000))
        .turn(text("The mail is read.").usage(20_500))
        .turn(shell("echo working").usage(21_000).held_by(&gate))
        .turn(text("Both are read.").usage(21_500));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(codex) = ready(&place, &model)? else { return Ok(()) };
    let tmux = Tmux::new()?;
    let pane = codex.start(&tmux, "codex")?;
    pane.submit("hello")?;
    pane.wait_for("Hello.", LONG)?;
    let idle = until("an idle agent", || Ok(Some(status(&place)?).filter(|s| s["state"] == "idle")))?;
    let agent = idle["agent"]["id"].as_str().context("an agent has a name")?.to_owned();
    pane.type_text("half a draft")?;
    pane.wait_for("half a draft", LONG)?;
    let said = baton(&place, &["send", &agent, "MAIL-FOR-THE-IDLE"])?;
    assert!(said.contains("has been woken"), "{said}");
    pane.wait_for("The mail is read.", LONG)?;
    assert!(pane.screen()?.contains("half a draft"), "the draft is gone: {}", pane.screen()?);
    assert!(model.main_requests()[1].text().contains("MAIL-FOR-THE-IDLE"));

    pane.keys(&["C-u"])?;
    pane.wait_until("an empty input line", LONG, |s| !s.contains("half a draft"))?;
    until("an idle agent", || Ok(Some(status(&place)?).filter(|s| s["state"] == "idle")))?;
    pane.submit("work")?;
    until("a busy agent", || Ok(Some(status(&place)?).filter(|s| s["state"] == "working")))?;
    let said = baton(&place, &["send", &agent, "MAIL-FOR-THE-BUSY"])?;
    assert!(said.contains("at its next step"), "{said}");
    gate.open();
    pane.wait_for("Both are read.", LONG)?;
    assert!(model.main_requests()[3].text().contains("MAIL-FOR-THE-BUSY"));
    Ok(())
}
