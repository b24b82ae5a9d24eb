//! What the pinned Claude Code sends, against what our wire types know; and what our hooks cost it.

use std::time::Duration;

use anyhow::Result;
use baton_core::wire::claude::EVENTS;
use baton_core::wire::claude::known::{unknown_fields, unknown_statusline_fields};
use baton_testkit::clients::Place;
use baton_testkit::clients::claude::Claude;
use baton_testkit::clients::shapes::Shapes;
use baton_testkit::model::{Script, ScriptedModel, shell, text};
use baton_testkit::tmux::Tmux;
use serde_json::json;

use super::{LONG, baton, place};

/// Settings whose hooks write every payload into a folder of the home.
fn record_everything(place: &Place) -> Result<std::path::PathBuf> {
    let dir = place.home().join("payloads");
    std::fs::create_dir_all(&dir)?;
    let to = |kind: &str| format!("cat > {}/{kind}.$$.json", dir.display());
    let hooks: serde_json::Map<_, _> = EVENTS
        .iter()
        .map(|event| {
            let hook = json!({ "type": "command", "command": to(event) });
            ((*event).to_owned(), json!([{ "hooks": [hook] }]))
        })
        .collect();
    let settings =
        json!({ "hooks": hooks, "statusLine": { "type": "command", "command": to("statusLine") } });
    place.write_home(".claude/settings.json", settings.to_string())?;
    Ok(dir)
}

#[test]
fn every_payload_that_the_pinned_client_sends_is_known() -> Result<()> {
    let script = Script::new()
        .turn(shell("echo fine").usage(20_000))
        .turn(shell("exit 3").usage(30_000))
        .turn(text("First turn over.").usage(40_000))
        .turn(text("Second turn over.").usage(50_000))
        .turn(text("After the clear.").usage(20_000))
        .on_compaction(text("<summary>\nShort.\n</summary>"));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    let dir = record_everything(&place)?;
    let tmux = Tmux::new()?;
    let pane = claude.allow(&["Bash"]).start(&tmux, "claude")?;
    pane.submit("one")?;
    pane.wait_for("First turn over.", LONG)?;
    pane.submit("two")?;
    pane.wait_for("Second turn over.", LONG)?;
    pane.submit("/compact")?;
    model.wait_until("the compaction", LONG, |seen| {
        seen.iter().any(|r| r.kind == baton_testkit::model::Kind::Compaction)
    })?;
    pane.wait_for("Compacted", LONG)?;
    pane.submit("/clear")?;
    pane.submit("three")?;
    pane.wait_for("After the clear.", LONG)?;
    pane.submit("/exit")?;
    pane.wait_for_end(LONG)?;

    let mut seen = std::collections::BTreeSet::new();
    let mut unknown = Vec::new();
    let mut shapes = Shapes::default();
    for entry in std::fs::read_dir(&dir)?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let event = name.split('.').next().unwrap_or_default().to_owned();
        let body = std::fs::read_to_string(entry.path())?;
        // A status line that is overtaken by the next one is ended in the middle of its input.
        let Ok(payload) = serde_json::from_str(&body) else { continue };
        shapes.add(&event, &payload);
        unknown.extend(if event == "statusLine" {
            unknown_statusline_fields(&body)
        } else {
            unknown_fields(&body)
        });
        seen.insert(event);
    }
    shapes.keep()?;
    unknown.sort();
    unknown.dedup();
    assert!(unknown.is_empty(), "the client sends what our wire types do not know: {unknown:#?}");
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

/// Printed, not judged: the machine and the client are noisier than our hooks.
#[test]
fn what_our_hooks_add_to_a_turn_is_printed() -> Result<()> {
    let tools = 12;
    let turn = |installed: bool| -> Result<Option<Duration>> {
        let mut script = Script::new();
        for _ in 0..tools {
            script = script.turn(shell("true").usage(20_000));
        }
        let model = ScriptedModel::start(script.turn(text("Done.").usage(21_000)))?;
        let place = place()?;
        let Some(claude) = Claude::new(&place, &model)? else { return Ok(None) };
        if installed {
            baton(&place, &["install", "--yes"])?;
        }
        let finished = claude.allow(&["Bash"]).print("go", LONG)?;
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
