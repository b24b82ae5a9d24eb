//! Compares what the pinned Codex sends with what our wire types know.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};
use baton_core::wire::codex::EVENTS;
use baton_core::wire::codex::known::unknown_fields;
use baton_testkit::clients::codex::takes_input;
use baton_testkit::clients::shapes::Shapes;
use baton_testkit::model::{Kind, Script, shell, text};
use baton_testkit::wait::LONG;
use serde_json::json;

use super::payloads::{Payload, Recorder, assert_known};
use super::scene;

#[test]
fn every_payload_that_the_pinned_client_sends_is_known() -> Result<()> {
    let script = Script::new()
        .turn(shell("echo fine").usage(20_000))
        .turn(shell("exit 3").usage(30_000))
        .turn(text("First turn over.").usage(40_000))
        .turn(shell("while true; do sleep 0.1; done").usage(41_000))
        .turn(text("After the interruption.").usage(42_000))
        .turn(text("After the clear.").usage(20_000))
        .on_compaction(text("Short."));
    let Some(scene) = scene::codex(script)? else { return Ok(()) };
    let recorder = Recorder::new(&scene.place)?;
    let hooks = json!({ "hooks": recorder.hooks(&EVENTS) });
    scene.place.write_home(".codex/hooks.json", hooks.to_string())?;
    // The consent of this home's user, for one run.
    let launch = scene.client.launch().args(&["--no-daemon", "--dangerously-bypass-hook-trust"]);
    let pane = scene.start_as(&launch)?;
    scene.ask(&pane, "one", "First turn over.")?;
    pane.submit("two")?;
    scene.wait_for_requests(4)?;
    scene.hear(&pane, "esc to interrupt")?;
    pane.keys(&["Escape"])?;
    scene.wait_for("the interruption", || recorder.has("Interrupt"))?;
    pane.wait_until("the end of the turn", LONG, |s| !s.contains("esc to interrupt"))?;
    scene.ask(&pane, "three", "After the interruption.")?;
    pane.submit("/compact")?;
    scene.model.wait_until("the compaction", LONG, |seen| seen.iter().any(|r| r.kind == Kind::Compaction))?;
    scene.wait_for("its end", || recorder.has("PostCompact"))?;
    pane.wait_until("the input line", LONG, |s| takes_input(s) && !s.contains("esc to interrupt"))?;
    pane.submit("/clear")?;
    pane.wait_until("an empty screen", LONG, |s| !s.contains("After the interruption.") && takes_input(s))?;
    scene.ask(&pane, "four", "After the clear.")?;
    scene.exit(&pane)?;

    let (mut events, mut sources) = (BTreeSet::new(), BTreeSet::new());
    let mut unknown = Vec::new();
    let mut shapes = Shapes::default();
    for Payload { event, body, value } in recorder.payloads()? {
        assert_eq!(value["hook_event_name"], event.as_str(), "{body}");
        if event == "SessionStart" {
            sources.insert(value["source"].as_str().context("a source")?.to_owned());
        }
        shapes.add(&event, &value);
        unknown.extend(unknown_fields(&body));
        events.insert(event);
    }
    shapes.keep()?;
    assert_known(unknown);
    for event in [
        "SessionStart",
        "UserPromptSubmit",
        "PreToolUse",
        "PostToolUse",
        "PreModelRequest",
        "Stop",
        "Interrupt",
        "PreCompact",
        "PostCompact",
        "SessionEnd",
    ] {
        assert!(events.contains(event), "{event} was not seen; seen were {events:?}");
    }
    assert!(sources.contains("startup") && sources.contains("clear"), "{sources:?}");
    Ok(())
}
