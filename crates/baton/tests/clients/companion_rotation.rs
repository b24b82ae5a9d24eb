//! Contexts rotated inside Claude Code: `/clear` by the mod, the handoff loaded, the next prompt submitted.

use std::time::Duration;

use anyhow::{Context as _, Result};
use baton_testkit::clients::Place;
use baton_testkit::clients::claude::Claude;
use baton_testkit::model::{Script, ScriptedModel, shell, text};
use baton_testkit::tmux::Tmux;
use serde_json::Value;

use super::LONG;
use super::companion::{LOADED, agent, baton, companion, living, log, place, records, signal, wait_until};

/// Nobody wrapped this client, nobody types: the agent hands over, the mod clears, the work goes on.
#[test]
fn an_agent_in_a_plain_client_hands_over_and_goes_on_in_a_fresh_context() -> Result<()> {
    let script = Script::new()
        .turn(
            shell("printf 'The parser is half done; MARK-OF-THE-HANDOFF.' | baton handoff -").usage(670_000),
        )
        .turn(text("Handed over.").usage(670_500))
        .turn(text("I know where I was.").usage(30_000));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    let tmux = Tmux::new()?;
    let claude = claude.allow(&["Bash"]);
    let pane = claude.start(&tmux, "plain")?;
    companion(&place)?;
    pane.submit("Write the parser. Never change the grammar.")?;
    let asked = model.wait_for(3, LONG).with_context(|| log(&place))?;
    let first_of_the_new = asked[2].text();
    assert_ne!(asked[2].session, asked[0].session, "the conversation was not replaced");
    assert!(first_of_the_new.contains("MARK-OF-THE-HANDOFF"), "{first_of_the_new}");
    assert!(first_of_the_new.contains(LOADED));
    assert!(first_of_the_new.contains("Continue where the loaded handoff HO-"));
    pane.wait_for("I know where I was.", LONG)?;
    let rotations = records(&place, "rotations");
    assert_eq!(rotations.len(), 1, "{}", log(&place));
    assert_eq!((&rotations[0]["actuator"], &rotations[0]["step"]), (&"mod".into(), &"done".into()));
    assert!(baton(&place, &["handoffs", "--json"])?.contains("\"status\": \"consumed\""));
    assert_eq!(records(&place, "agents").len(), 1, "the agent is the same one");
    Ok(())
}

#[test]
fn a_person_rotates_an_idle_agent_from_another_terminal() -> Result<()> {
    let script = Script::new().turn(text("Ready.").usage(120_000)).turn(text("Fresh.").usage(20_000));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    let tmux = Tmux::new()?;
    let pane = claude.start(&tmux, "rotate")?;
    companion(&place)?;
    pane.submit("Write the parser.")?;
    pane.wait_for("Ready.", LONG)?;
    let said = baton(&place, &["rotate", &agent(&place)?])?;
    assert!(said.contains("gets a fresh context now"), "{said}");
    pane.wait_for("Fresh.", LONG).with_context(|| log(&place))?;
    assert!(model.main_requests()[1].text().contains(LOADED));
    Ok(())
}

#[test]
fn two_clients_of_one_project_have_a_companion_each_and_none_is_left_behind() -> Result<()> {
    let model = ScriptedModel::start(Script::new().otherwise(text("Ready.").usage(120_000)))?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    let tmux = Tmux::new()?;
    let (one, two) = (claude.start(&tmux, "one")?, claude.start(&tmux, "two")?);
    for pane in [&one, &two] {
        pane.submit("Wait.")?;
        pane.wait_for("Ready.", LONG)?;
    }
    wait_until("both", || records(&place, "companions").len() == 2 && living(&place) == 2)?;
    let pids: Vec<u64> =
        records(&place, "companions").iter().filter_map(|c| c["process"]["pid"].as_u64()).collect();
    let second = records(&place, "agents")[1].clone();
    let name = second["id"].as_str().context("no name")?;
    baton(&place, &["rotate", name])?;
    wait_until("the rotation", || records(&place, "rotations").iter().any(|r| r["step"] == "done"))
        .with_context(|| log(&place))?;
    let rotations = records(&place, "rotations");
    assert_eq!(rotations.len(), 1);
    assert_eq!(rotations[0]["agent"], *name, "the other one was left alone");
    // One leaves by itself, the other is killed.
    signal(u32::try_from(one.pid()?)?, rustix::process::Signal::KILL)?;
    two.submit("/exit")?;
    two.wait_for_end(LONG)?;
    wait_until("the end of both companions", || {
        pids.iter().all(|pid| !std::path::Path::new(&format!("/proc/{pid}")).exists())
    })?;
    Ok(())
}

/// Under `baton run` the companion has the first try: same process, no restart.
#[test]
fn under_run_the_rotation_happens_in_place() -> Result<()> {
    let script = Script::new()
        .turn(shell("printf 'MARK-OF-THE-HANDOFF' | baton handoff -").usage(670_000))
        .turn(text("Handed over.").usage(670_500))
        .turn(text("I know where I was.").usage(30_000));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    let tmux = Tmux::new()?;
    let pane = tmux.run("run", &super::under_run(claude.allow(&["Bash"]).launch()))?;
    pane.wait_until("the input line", LONG, baton_testkit::clients::claude::takes_input)?;
    companion(&place)?;
    let before = records(&place, "agents")[0]["process"].clone();
    pane.submit("Write the parser.")?;
    pane.wait_for("I know where I was.", LONG).with_context(|| log(&place))?;
    assert_eq!(records(&place, "agents")[0]["process"], before, "the client was restarted");
    let rotations = records(&place, "rotations");
    assert_eq!((rotations.len(), &rotations[0]["actuator"]), (1, &"mod".into()));
    Ok(())
}

/// Figures, printed; the ceilings are ten times the targets. `--nocapture` shows them.
#[test]
fn a_companion_is_quick_and_small() -> Result<()> {
    let script = Script::new()
        .turn(text("First answer.").usage(50_000))
        .turn(shell("printf 'Half done.' | baton handoff -").usage(670_000))
        .turn(text("Handed over.").usage(670_500))
        .turn(text("I know where I was.").usage(30_000));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    let tmux = Tmux::new()?;
    let claude = claude.allow(&["Bash"]);
    let pane = claude.start(&tmux, "figures")?;
    let pid = companion(&place)?;
    pane.submit("Write the parser.")?;
    pane.wait_for("First answer.", LONG)?;
    pane.submit("/compact")?;
    pane.wait_for("Compacted", LONG)?;
    pane.submit("Hand over.")?;
    pane.wait_for("I know where I was.", LONG).with_context(|| log(&place))?;

    let lines: Vec<Value> = log(&place).lines().filter_map(|l| serde_json::from_str(l).ok()).collect();
    let at = |event: &str, n: usize| -> Option<jiff::Timestamp> {
        lines.iter().filter(|l| l["event"] == event).nth(n)?["at"].as_str()?.parse().ok()
    };
    // The first Stop ended the first prompt's turn, the second the one that handed over.
    let stop = at("stop", 1).context("no stop")?;
    let submitted = at("UserPromptSubmit", 2).context("no prompt in the fresh context")?;
    let rotation = submitted.duration_since(stop);
    let smaps = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let anonymous: u64 = smaps
        .lines()
        .find_map(|l| l.strip_prefix("Anonymous:"))
        .and_then(|l| l.trim().trim_end_matches(" kB").parse().ok())
        .context("no figure for anonymous memory")?;
    let switches = || -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        status.lines().find_map(|l| l.strip_prefix("voluntary_ctxt_switches:"))?.trim().parse().ok()
    };
    // What the last turn left to tell has been told by then.
    std::thread::sleep(Duration::from_secs(3));
    let before = switches();
    std::thread::sleep(Duration::from_secs(5));
    let idle = switches().zip(before).map(|(a, b)| a - b);
    let boundary = transcript_boundary(&place);
    let steps: Vec<String> = lines
        .iter()
        .filter_map(|l| Some((l["event"].as_str()?, l["at"].as_str()?.parse::<jiff::Timestamp>().ok()?)))
        .filter(|(_, at)| (stop..=submitted).contains(at))
        .map(|(event, at)| format!("{event} +{} ms", at.duration_since(stop).as_millis()))
        .collect();
    eprintln!("companion: from Stop on: {}", steps.join(", "));
    eprintln!(
        "companion: Stop to submitted prompt {rotation:#}, anonymous memory {anonymous} KiB, \
         wake-ups in 5 idle seconds {idle:?}, compaction as the client measured it {boundary:?} ms"
    );
    assert!(rotation.as_secs() < 10);
    assert!(anonymous < 4 << 10, "{anonymous} KiB");
    assert_eq!(idle, Some(0), "it wakes up while idle");
    Ok(())
}

/// `durationMs` of the first compaction in any transcript.
fn transcript_boundary(place: &Place) -> Option<u64> {
    let projects = std::fs::read_dir(place.home().join(".claude/projects")).ok()?.flatten();
    let files = projects.flat_map(|p| std::fs::read_dir(p.path()).into_iter().flatten().flatten());
    let texts = files.filter_map(|f| std::fs::read_to_string(f.path()).ok());
    texts.flat_map(|t| t.lines().map(str::to_owned).collect::<Vec<_>>()).find_map(|line| {
        let row: Value = serde_json::from_str(&line).ok()?;
        row["compactMetadata"]["durationMs"].as_u64()
    })
}
