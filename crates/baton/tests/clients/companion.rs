//! In place, inside Claude Code: compaction answered, contexts rotated and mail delivered by the mod.
//!
//! What the model was asked proves it: no summary was ever requested, and the next request carries the handoff and
//! what was pending.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use baton_testkit::clients::Place;
use baton_testkit::clients::claude::Claude;
use baton_testkit::model::{Script, ScriptedModel, shell, text, too_long};
use baton_testkit::tmux::Tmux;
use serde_json::Value;

use super::LONG;
use crate::BATON;

pub(super) const LOADED: &str = "=== HANDOFF LOADED (ID: HO-";

/// A home with the plugin folder that an install writes.
pub(super) fn place() -> Result<Place> {
    let place = super::place()?;
    let program = baton::install::ours::Program::At(BATON.to_owned());
    for file in baton::install::plugin::files(&program, "0.0.0", false) {
        place.write_home(format!(".claude/skills/baton/{}", file.path), file.text)?;
    }
    Ok(place)
}

/// A full agent is not asked for anything: whether the client has written the last figures down when its turn ends
/// depends on the moment, and a turn that goes on would compact before the prompt that a test is about.
pub(super) const QUIET: &str = "[context]\nenabled = false\n";

pub(super) fn quiet(place: &Place) -> Result<()> {
    place.write_home(".config/baton/config.toml", QUIET).map(drop)
}

pub(super) fn state(place: &Place) -> PathBuf {
    place.home().join(".local/state/baton")
}

/// All records of one kind, newest last.
pub(super) fn records(place: &Place, kind: &str) -> Vec<Value> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(state(place).join(kind))
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.path())
        .collect();
    paths.retain(|p| p.extension().is_some_and(|e| e == "json"));
    paths.sort();
    paths.iter().filter_map(|p| serde_json::from_slice(&std::fs::read(p).ok()?).ok()).collect()
}

/// The log, as one text for the message of a failed assertion.
pub(super) fn log(place: &Place) -> String {
    let files = std::fs::read_dir(state(place).join("log")).into_iter().flatten().flatten();
    files.filter_map(|e| std::fs::read_to_string(e.path()).ok()).collect()
}

pub(super) fn wait_until(what: &str, holds: impl Fn() -> bool) -> Result<()> {
    let began = Instant::now();
    while !holds() {
        ensure!(began.elapsed() < LONG, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Agents that run: each gets its name first, then what runs as it.
pub(super) fn living(place: &Place) -> usize {
    records(place, "agents").iter().filter(|agent| agent["process"].is_object()).count()
}

/// Waits for the companion of the one client at this place, and returns its pid.
pub(super) fn companion(place: &Place) -> Result<u32> {
    let met = || records(place, "companions").len() == 1 && living(place) == 1;
    wait_until("the mod's hello", met)?;
    let pid = records(place, "companions")[0]["process"]["pid"].as_u64().context("no pid")?;
    Ok(u32::try_from(pid)?)
}

/// Waits for the companion that comes after `pid`.
pub(super) fn next_companion(place: &Place, pid: u32) -> Result<u32> {
    let of = || records(place, "companions").first().and_then(|c| c["process"]["pid"].as_u64());
    wait_until("the next companion", || of().is_some_and(|next| next != u64::from(pid)))?;
    Ok(u32::try_from(of().context("it has gone again")?)?)
}

pub(super) fn is_gone(pid: u32) -> bool {
    !std::path::Path::new(&format!("/proc/{pid}")).exists()
}

pub(super) fn agent(place: &Place) -> Result<String> {
    Ok(records(place, "agents")[0]["id"].as_str().context("an agent without a name")?.to_owned())
}

/// The client makes no summary of a conversation of one exchange: these two come first, so that it would.
pub(super) fn after_two_turns() -> Script {
    Script::new().turn(text("Answer one.").usage(20_000)).turn(text("Answer two.").usage(30_000))
}

pub(super) fn two_turns(pane: &baton_testkit::tmux::Pane<'_>) -> Result<()> {
    for (prompt, answer) in [("Begin.", "Answer one."), ("More.", "Answer two.")] {
        pane.submit(prompt)?;
        pane.wait_for(answer, LONG)?;
    }
    Ok(())
}

pub(super) fn baton(place: &Place, args: &[&str]) -> Result<String> {
    let finished = place.launch(BATON).args(args).run(LONG)?;
    ensure!(finished.code == Some(0), "baton {args:?}: {finished:?}");
    Ok(finished.stdout)
}

#[test]
fn an_automatic_compaction_is_answered_and_the_pending_prompt_is_kept() -> Result<()> {
    let script = after_two_turns()
        .turn(text("First answer.").usage(970_000))
        .turn(text("Second answer.").usage(30_000))
        .turn(text("Third answer.").usage(31_000));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    quiet(&place)?;
    let tmux = Tmux::new()?;
    let pane = claude.start(&tmux, "auto")?;
    two_turns(&pane)?;
    pane.submit("Write the parser. Never change the grammar.")?;
    pane.wait_for("First answer.", LONG)?;
    pane.submit("PENDING-PROMPT: go on")?;
    pane.wait_for("Second answer.", LONG)?;

    assert_eq!(model.compactions(), 0, "a summary was asked for\n{}", log(&place));
    let asked = model.main_requests();
    let next = asked[3].text();
    assert!(next.contains(LOADED), "{next}\n{}", log(&place));
    assert!(next.contains("Never change the grammar."), "the user's own words are missing: {next}");
    assert!(
        asked[3].last_user_text().contains("PENDING-PROMPT: go on"),
        "the pending prompt was lost: {next}"
    );
    let roles: Vec<String> = asked[3].messages().into_iter().map(|m| m.role).collect();
    assert!(!roles.contains(&"assistant".to_owned()), "the old conversation is still there: {roles:?}");
    assert_eq!(next.matches(LOADED).count(), 1, "SessionStart(compact) loaded it a second time");

    let rotations = records(&place, "rotations");
    assert_eq!(rotations.len(), 1);
    assert_eq!((&rotations[0]["actuator"], &rotations[0]["step"]), (&"mod".into(), &"done".into()));
    assert!(baton(&place, &["handoffs", "--json"])?.contains("\"status\": \"consumed\""));
    let files = std::fs::read_dir(state(&place).join("sessions"))?.flatten().map(|e| e.path());
    let sessions: Vec<PathBuf> = files.filter(|p| p.extension().is_some_and(|e| e == "json")).collect();
    assert_eq!(sessions.len(), 1, "{sessions:?}");
    let session = baton_testkit::home::record(&sessions[0]);
    assert_eq!(session["latches"]["cycle"], 1, "a new cycle has begun");
    assert!(state(&place).join("compaction.json").exists(), "where it came was not remembered");

    pane.submit("And on.")?;
    pane.wait_for("Third answer.", LONG)?;
    assert_eq!(model.compactions(), 0);
    Ok(())
}

#[test]
fn a_compaction_by_hand_is_answered_with_what_the_user_asked_to_keep() -> Result<()> {
    let script = after_two_turns().turn(text("First answer.").usage(50_000)).otherwise(text("Went on."));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    let tmux = Tmux::new()?;
    let pane = claude.start(&tmux, "manual")?;
    two_turns(&pane)?;
    pane.submit("Write the parser.")?;
    pane.wait_for("First answer.", LONG)?;
    pane.submit("/compact keep the KEEP-THIS-WORD list")?;
    wait_until("the rotation", || !records(&place, "rotations").is_empty())?;
    pane.wait_for("Compacted", LONG)?;
    pane.submit("Go on.")?;
    pane.wait_for("Went on.", LONG)?;
    assert_eq!(model.compactions(), 0);
    let next = model.main_requests()[3].text();
    assert!(next.contains(LOADED) && next.contains("KEEP-THIS-WORD"), "{next}");
    Ok(())
}

#[test]
fn in_the_middle_of_a_turn_parallel_results_stay_with_their_calls() -> Result<()> {
    let script = Script::new()
        .turn(shell("echo OLD-RESULT").usage(40_000))
        .turn(shell("echo RESULT-A").shell("echo RESULT-B").usage(970_000))
        .turn(text("Turn over.").usage(30_000));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    let tmux = Tmux::new()?;
    let claude = claude.allow(&["Bash"]);
    let pane = claude.start(&tmux, "midturn")?;
    pane.submit("Run both.")?;
    pane.wait_for("Turn over.", LONG)?;
    assert_eq!(model.compactions(), 0, "{}", log(&place));
    let asked = model.main_requests();
    let next = &asked[2];
    assert!(next.text().contains(LOADED), "{}\n{}", next.text(), log(&place));
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
    let script = after_two_turns()
        .turn(text("First answer.").usage(50_000))
        .turn(too_long())
        .turn(text("Second answer.").usage(30_000));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    let tmux = Tmux::new()?;
    let pane = claude.start(&tmux, "reactive")?;
    two_turns(&pane)?;
    pane.submit("Write the parser.")?;
    pane.wait_for("First answer.", LONG)?;
    pane.submit("PENDING-PROMPT: go on")?;
    pane.wait_for("Second answer.", LONG)?;
    assert_eq!(model.compactions(), 0, "{}", log(&place));
    let asked = model.main_requests();
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
    let script = Script::new()
        .turn(shell("echo HEADLESS-RESULT").usage(970_000))
        .turn(text("All done.").usage(30_000));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    let finished = claude.allow(&["Bash"]).print("Do the task.", LONG)?;
    assert_eq!(finished.stdout.trim(), "All done.", "{finished:?}");
    assert_eq!(model.compactions(), 0, "{}", log(&place));
    let asked = model.main_requests();
    assert!(
        asked[1].text().contains(LOADED) && asked[1].text().contains("HEADLESS-RESULT"),
        "{}",
        asked[1].text()
    );
    Ok(())
}

/// A companion that was killed costs nothing but the rotation in place: compactions are still answered, the user is
/// told, and whoever asks learns it.
#[test]
fn a_killed_companion_is_noticed_and_compactions_are_answered_all_the_same() -> Result<()> {
    let script = after_two_turns()
        .turn(text("First answer.").usage(970_000))
        .turn(text("Second answer.").usage(30_000));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    quiet(&place)?;
    let tmux = Tmux::new()?;
    let pane = claude.start(&tmux, "killed")?;
    let pid = companion(&place)?;
    let status = baton(&place, &["status"])?;
    assert!(status.contains(" mod") && !status.contains("mod gone"), "{status}");
    // The mod starts it again, three times.
    let mut pid = pid;
    for _ in 0..3 {
        signal(pid, rustix::process::Signal::KILL)?;
        pid = next_companion(&place, pid)?;
    }
    signal(pid, rustix::process::Signal::KILL)?;
    two_turns(&pane)?;
    pane.submit("Write the parser.")?;
    pane.wait_for("First answer.", LONG)?;
    let status = baton(&place, &["status"])?;
    assert!(status.contains("mod gone") && status.contains("its companion has ended"), "{status}");
    assert!(baton(&place, &["rotate", &agent(&place)?])?.contains("type /clear"));
    pane.submit("PENDING-PROMPT: go on")?;
    pane.wait_for("Second answer.", LONG)?;
    assert_eq!(model.compactions(), 0, "{}", log(&place));
    Ok(())
}

/// Nothing in the client waits for a companion that hangs.
#[test]
fn a_companion_that_hangs_holds_nobody_and_is_reported() -> Result<()> {
    let script = after_two_turns().turn(text("First answer.").usage(50_000)).otherwise(text("Went on."));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    let tmux = Tmux::new()?;
    let pane = claude.start(&tmux, "hung")?;
    let pid = companion(&place)?;
    signal(pid, rustix::process::Signal::STOP)?;
    two_turns(&pane)?;
    pane.submit("Write the parser.")?;
    pane.wait_for("First answer.", LONG)?;
    wait_until("the report", || records(&place, "companions")[0]["silent"].is_string())?;
    assert!(baton(&place, &["status"])?.contains("mod hangs"));
    pane.wait_for("companion does not answer", LONG)?;
    pane.submit("/compact")?;
    pane.wait_for("Compacted", LONG)?;
    assert_eq!(model.compactions(), 0);
    signal(pid, rustix::process::Signal::CONT)?;
    pane.submit("Go on.")?;
    pane.wait_for("Went on.", LONG)?;
    wait_until("its return", || records(&place, "companions")[0]["silent"].is_null())?;
    Ok(())
}

/// The program that the mod should start is gone: the client compacts as it would without us.
#[test]
fn without_an_answer_the_client_compacts_by_itself() -> Result<()> {
    let script = after_two_turns()
        .turn(text("First answer.").usage(970_000))
        .turn(text("Second answer.").usage(30_000));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    quiet(&place)?;
    let module = baton::companion::module("/nowhere/baton");
    place.write_home(".claude/skills/baton/hooks/register.js", module)?;
    let tmux = Tmux::new()?;
    let pane = claude.start(&tmux, "without")?;
    two_turns(&pane)?;
    pane.submit("Write the parser.")?;
    pane.wait_for("First answer.", LONG)?;
    pane.submit("PENDING-PROMPT: go on")?;
    pane.wait_for("Second answer.", LONG)?;
    assert_eq!(model.compactions(), 1);
    let next = model.main_requests()[3].text();
    assert!(next.contains(LOADED), "PreCompact sealed and SessionStart(compact) loaded: {next}");
    Ok(())
}

#[test]
fn compaction_is_left_to_the_client_where_the_configuration_says_so() -> Result<()> {
    let script = after_two_turns()
        .turn(text("First answer.").usage(970_000))
        .turn(text("Second answer.").usage(30_000));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    place.write_home(".config/baton/config.toml", format!("compaction = \"ask\"\n{QUIET}"))?;
    let tmux = Tmux::new()?;
    let pane = claude.start(&tmux, "ask")?;
    two_turns(&pane)?;
    pane.submit("Write the parser.")?;
    pane.wait_for("First answer.", LONG)?;
    pane.submit("Go on.")?;
    pane.wait_for("Second answer.", LONG)?;
    assert_eq!(model.compactions(), 1, "nobody asked for this one");
    pane.submit("/compact")?;
    wait_until("the rotation", || records(&place, "rotations").len() == 1)?;
    pane.wait_for("Compacted", LONG)?;
    assert_eq!(model.compactions(), 1, "a person asked for this one");
    Ok(())
}

/// More than the tail may hold: shortened, paired, and whole on disk.
#[test]
fn a_long_pending_result_is_shortened_and_its_whole_can_be_read() -> Result<()> {
    // The client itself puts results of more than 30,000 characters aside.
    let long = "for i in $(seq 1 1000); do echo \"line $i of a long result\"; done";
    let turn = (0..5).fold(shell(long), |turn, _| turn.shell(long));
    let script = Script::new().turn(turn.usage(970_000)).turn(text("Turn over.").usage(30_000));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    let claude = claude.allow(&["Bash"]);
    let tmux = Tmux::new()?;
    let pane = claude.start(&tmux, "long")?;
    pane.submit("Run them.")?;
    pane.wait_for("Turn over.", LONG)?;
    assert_eq!(model.compactions(), 0, "{}", log(&place));
    let next = model.main_requests()[1].text();
    let at = next.find("the whole is in ").with_context(|| next.clone())? + "the whole is in ".len();
    let path = next[at..].split_whitespace().next().context("no path")?;
    let whole = std::fs::read_to_string(path)?;
    assert!(whole.contains("line 500 of a long result") && whole.contains("line 1000 of a long result"));
    Ok(())
}

/// The agent wrote nothing, the user wants its words: its own model is asked once, and no summary is made.
#[test]
fn the_sessions_own_model_writes_the_narrative_where_the_user_wants_that() -> Result<()> {
    let script = after_two_turns()
        .when(
            |r| r.last_user_text().contains("about to be replaced by a handoff"),
            text("FORKED-WORDS of the model."),
        )
        .turn(text("First answer.").usage(970_000))
        .turn(text("Second answer.").usage(30_000));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    place.write_home(".config/baton/config.toml", format!("narrative = \"fork\"\n{QUIET}"))?;
    let tmux = Tmux::new()?;
    let pane = claude.start(&tmux, "fork")?;
    two_turns(&pane)?;
    pane.submit("Write the parser.")?;
    pane.wait_for("First answer.", LONG)?;
    pane.submit("PENDING-PROMPT: go on")?;
    pane.wait_for("Second answer.", LONG).with_context(|| log(&place))?;
    assert_eq!(model.compactions(), 0, "{}", log(&place));
    let asked = model.main_requests();
    let last = asked.last().context("no request")?;
    assert!(last.text().contains(LOADED) && last.text().contains("FORKED-WORDS"), "{}", last.text());
    assert!(last.last_user_text().contains("PENDING-PROMPT"), "of {} requests: {}", asked.len(), last.text());
    assert!(
        log(&place).contains("\"fork\":{\"chars\":26,\"usage\":{\""),
        "its cost is not on record: {}",
        log(&place)
    );
    Ok(())
}

pub(super) fn signal(pid: u32, signal: rustix::process::Signal) -> Result<()> {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid)?).context("no process")?;
    Ok(rustix::process::kill_process(pid, signal)?)
}
