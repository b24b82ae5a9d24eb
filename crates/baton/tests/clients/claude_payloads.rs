//! Compares what the pinned Claude Code sends with what our wire types know; and measures what our hooks cost it.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;
use baton_core::wire::claude::EVENTS;
use baton_core::wire::claude::known::{unknown_fields, unknown_statusline_fields};
use baton_testkit::clients::shapes::Shapes;
use baton_testkit::model::{Kind, Script, shell, text};
use baton_testkit::wait::LONG;
use serde_json::json;

use super::payloads::{Recorder, assert_known};
use super::scene;

#[test]
fn every_payload_that_the_pinned_client_sends_is_known() -> Result<()> {
    let script = Script::new()
        .turn(shell("echo fine").usage(20_000))
        .turn(shell("exit 3").usage(30_000))
        .turn(text("First turn over.").usage(40_000))
        .turn(text("Second turn over.").usage(50_000))
        .turn(text("After the clear.").usage(20_000))
        .on_compaction(text("<summary>\nShort.\n</summary>"));
    let Some(scene) = scene::claude(script)? else { return Ok(()) };
    let recorder = Recorder::new(&scene.place)?;
    let status_line = json!({ "type": "command", "command": recorder.command("statusLine") });
    let settings = json!({ "hooks": recorder.hooks(&EVENTS), "statusLine": status_line });
    scene.place.write_home(".claude/settings.json", settings.to_string())?;
    let scene = scene.allow(&["Bash"]);
    let pane = scene.start()?;
    scene.ask(&pane, "one", "First turn over.")?;
    scene.ask(&pane, "two", "Second turn over.")?;
    pane.submit("/compact")?;
    scene.model.wait_until("the compaction", LONG, |seen| seen.iter().any(|r| r.kind == Kind::Compaction))?;
    scene.hear(&pane, "Compacted")?;
    pane.submit("/clear")?;
    scene.ask(&pane, "three", "After the clear.")?;
    scene.exit(&pane)?;

    let mut seen = BTreeSet::new();
    let mut unknown = Vec::new();
    let mut shapes = Shapes::default();
    for payload in recorder.payloads()? {
        shapes.add(&payload.event, &payload.value);
        unknown.extend(if payload.event == "statusLine" {
            unknown_statusline_fields(&payload.body)
        } else {
            unknown_fields(&payload.body)
        });
        seen.insert(payload.event);
    }
    shapes.keep()?;
    assert_known(unknown);
    let expected = [
        "SessionStart",
        "UserPromptSubmit",
        "PostToolUse",
        "PostToolUseFailure",
        "Stop",
        "PreCompact",
        "PostCompact",
        "SessionEnd",
        "statusLine",
    ];
    for event in expected {
        assert!(seen.contains(event), "{event} was not seen; seen were {seen:?}");
    }
    Ok(())
}

/// The figures are printed, not asserted: machine and client vary more than our hooks cost.
#[test]
fn what_our_hooks_add_to_a_turn_is_printed() -> Result<()> {
    let tools = 12;
    let turn = |installed: bool| -> Result<Option<Duration>> {
        let mut script = Script::new();
        for _ in 0..tools {
            script = script.turn(shell("true").usage(20_000));
        }
        let script = script.turn(text("Done.").usage(21_000));
        let Some(scene) = scene::claude(script)? else { return Ok(None) };
        if installed {
            scene.baton(&["install", "--yes"])?;
        }
        let finished = scene.allow(&["Bash"]).client.print("go", LONG)?;
        assert_eq!(finished.stdout.trim(), "Done.", "{finished:?}");
        Ok(Some(finished.took))
    };
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let (Some(plain), Some(ours)) = (turn(false)?, turn(true)?) else { return Ok(()) };
        without.push(plain);
        with.push(ours);
    }
    with.sort();
    without.sort();
    let (with, without) = (with[1], without[1]);
    let each = (with.as_secs_f64() - without.as_secs_f64()) * 1000.0 / f64::from(tools);
    println!(
        "a headless run of {tools} tool calls: {without:.2?} without, {with:.2?} with our hooks, {each:.1} ms per call"
    );
    Ok(())
}
