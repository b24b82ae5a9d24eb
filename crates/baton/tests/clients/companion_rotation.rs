//! Contexts rotated inside Claude Code: `/clear` by the mod, the handoff loaded, the next prompt submitted.

use std::time::Duration;

use anyhow::{Context as _, Result};
use baton_testkit::clients::ClientHome;
use baton_testkit::load;
use baton_testkit::model::{Script, shell, text};
use rustix::process::Signal;
use serde_json::Value;

use super::scene::{self, LOADED, assert_went_on, hands_over, is_gone, signal};

/// Nothing supervises this client and nobody types: the agent hands over, the mod clears, the work continues.
#[test]
fn an_agent_in_a_plain_client_hands_over_and_continues_in_a_fresh_context() -> Result<()> {
    let Some(scene) = scene::claude_with_mod(hands_over(670_000))? else { return Ok(()) };
    let scene = scene.allow(&["Bash"]);
    let pane = scene.start()?;
    scene.companion()?;
    pane.submit("Write the parser. Never change the grammar.")?;
    assert_went_on(&scene.wait_for_requests(3)?);
    scene.hear(&pane, "I know where I was.")?;
    let rotations = scene.records("rotations");
    assert_eq!(rotations.len(), 1, "{}", scene.log());
    assert_eq!((&rotations[0]["actuator"], &rotations[0]["step"]), (&"mod".into(), &"done".into()));
    scene.assert_consumed();
    assert_eq!(scene.records("agents").len(), 1, "the agent is the same one");
    Ok(())
}

#[test]
fn a_person_rotates_an_idle_agent_from_another_terminal() -> Result<()> {
    let script = Script::new().turn(text("Ready.").usage(120_000)).turn(text("Fresh.").usage(20_000));
    let Some(scene) = scene::claude_with_mod(script)? else { return Ok(()) };
    let pane = scene.start()?;
    scene.companion()?;
    scene.ask(&pane, "Write the parser.", "Ready.")?;
    let said = scene.baton(&["rotate", &scene.agent()?])?;
    assert!(said.contains("gets a fresh context now"), "{said}");
    scene.hear(&pane, "Fresh.")?;
    assert!(scene.asked()[1].text().contains(LOADED));
    Ok(())
}

#[test]
fn two_clients_of_one_project_have_a_companion_each_and_none_is_left_behind() -> Result<()> {
    let script = Script::new().otherwise(text("Ready.").usage(120_000));
    let Some(scene) = scene::claude_with_mod(script)? else { return Ok(()) };
    let (one, two) = (scene.start()?, scene.start()?);
    for pane in [&one, &two] {
        scene.ask(pane, "Wait.", "Ready.")?;
    }
    scene.wait_until("both", || scene.records("companions").len() == 2 && scene.living() == 2)?;
    let companions = scene.records("companions");
    let pid = |companion: &Value| companion["process"]["pid"].as_u64().and_then(|n| u32::try_from(n).ok());
    let pids: Vec<u32> = companions.iter().filter_map(pid).collect();
    let second = scene.records("agents")[1].clone();
    let name = second["id"].as_str().context("no name")?;
    scene.baton(&["rotate", name])?;
    scene.wait_until("the rotation", || scene.records("rotations").iter().any(|r| r["step"] == "done"))?;
    let rotations = scene.records("rotations");
    assert_eq!(rotations.len(), 1);
    assert_eq!(rotations[0]["agent"], *name, "the other one was left alone");
    // One exits by itself, the other is killed.
    signal(u32::try_from(one.pid()?)?, Signal::KILL)?;
    scene.exit(&two)?;
    scene.wait_until("the end of both companions", || pids.iter().all(|pid| is_gone(*pid)))
}

/// Under `baton run` the companion goes first: same process, no restart.
#[test]
fn under_run_the_rotation_happens_in_place() -> Result<()> {
    let Some(scene) = scene::claude_with_mod(hands_over(670_000))? else { return Ok(()) };
    let scene = scene.allow(&["Bash"]);
    let pane = scene.start_under_run()?;
    scene.companion()?;
    let before = scene.records("agents")[0]["process"].clone();
    scene.ask(&pane, "Write the parser.", "I know where I was.")?;
    assert_eq!(scene.records("agents")[0]["process"], before, "the client was restarted");
    let rotations = scene.records("rotations");
    assert_eq!((rotations.len(), &rotations[0]["actuator"]), (1, &"mod".into()));
    Ok(())
}

/// Prints the figures (`--nocapture` shows them) and asserts ten times the targets.
#[test]
fn a_companion_is_quick_and_small() -> Result<()> {
    let script = Script::new()
        .turn(text("First answer.").usage(50_000))
        .turn(shell("printf 'Half done.' | baton handoff -").usage(670_000))
        .turn(text("Handed over.").usage(670_500))
        .turn(text("I know where I was.").usage(30_000));
    let Some(scene) = scene::claude_with_mod(script)? else { return Ok(()) };
    let scene = scene.allow(&["Bash"]);
    let pane = scene.start()?;
    let pid = scene.companion()?;
    scene.ask(&pane, "Write the parser.", "First answer.")?;
    scene.ask(&pane, "/compact", "Compacted")?;
    scene.ask(&pane, "Hand over.", "I know where I was.")?;

    let lines: Vec<Value> = scene.log().lines().filter_map(|l| serde_json::from_str(l).ok()).collect();
    let at = |event: &str, n: usize| -> Option<jiff::Timestamp> {
        lines.iter().filter(|l| l["event"] == event).nth(n)?["at"].as_str()?.parse().ok()
    };
    // The first Stop ended the turn of the first prompt, the second the turn that handed over.
    let stop = at("stop", 1).context("no stop")?;
    let submitted = at("UserPromptSubmit", 2).context("no prompt in the fresh context")?;
    let rotation = submitted.duration_since(stop);
    let smaps = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let anonymous: u64 = smaps
        .lines()
        .find_map(|l| l.strip_prefix("Anonymous:"))
        .and_then(|l| l.trim().trim_end_matches(" kB").parse().ok())
        .context("no figure for anonymous memory")?;
    // Let it finish the work of the last turn; after that nothing wakes it.
    load::wait_until_idle(pid, 0, Duration::from_secs(5));
    let boundary = transcript_boundary(&scene.place);
    let steps: Vec<String> = lines
        .iter()
        .filter_map(|l| Some((l["event"].as_str()?, l["at"].as_str()?.parse::<jiff::Timestamp>().ok()?)))
        .filter(|(_, at)| (stop..=submitted).contains(at))
        .map(|(event, at)| format!("{event} +{} ms", at.duration_since(stop).as_millis()))
        .collect();
    eprintln!("companion: from Stop on: {}", steps.join(", "));
    eprintln!(
        "companion: Stop to submitted prompt {rotation:#}, anonymous memory {anonymous} KiB, \
         compaction as the client measured it {boundary:?} ms"
    );
    assert!(rotation.as_secs() < 10);
    assert!(anonymous < 4 << 10, "{anonymous} KiB");
    Ok(())
}

/// `durationMs` of the first compaction in any transcript.
fn transcript_boundary(place: &ClientHome) -> Option<u64> {
    let projects = std::fs::read_dir(place.home().join(".claude/projects")).ok()?.flatten();
    let files = projects.flat_map(|p| std::fs::read_dir(p.path()).into_iter().flatten().flatten());
    let texts = files.filter_map(|f| std::fs::read_to_string(f.path()).ok());
    texts.flat_map(|t| t.lines().map(str::to_owned).collect::<Vec<_>>()).find_map(|line| {
        let row: Value = serde_json::from_str(&line).ok()?;
        row["compactMetadata"]["durationMs"].as_u64()
    })
}
