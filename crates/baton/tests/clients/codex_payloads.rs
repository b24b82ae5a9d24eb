//! What the pinned Codex sends, against what our wire types know.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};
use baton_core::wire::codex::EVENTS;
use baton_core::wire::codex::known::unknown_fields;
use baton_testkit::clients::Place;
use baton_testkit::clients::codex::{Codex, takes_input};
use baton_testkit::clients::shapes::Shapes;
use baton_testkit::model::{Kind, Script, ScriptedModel, shell, text};
use baton_testkit::tmux::{Ended, Tmux};
use serde_json::json;

use super::codex::until;
use super::{LONG, place};

/// Hooks that write every payload into a folder of the home.
fn record_everything(place: &Place) -> Result<std::path::PathBuf> {
    let dir = place.home().join("payloads");
    std::fs::create_dir_all(&dir)?;
    let hooks: serde_json::Map<_, _> = EVENTS
        .iter()
        .map(|event| {
            let command = format!("cat > {}/{event}.$$.json", dir.display());
            ((*event).to_owned(), json!([{ "hooks": [{ "type": "command", "command": command }] }]))
        })
        .collect();
    place.write_home(".codex/hooks.json", json!({ "hooks": hooks }).to_string())?;
    Ok(dir)
}

fn seen(dir: &std::path::Path, event: &str) -> Result<Option<()>> {
    let names = std::fs::read_dir(dir)?.flatten().map(|e| e.file_name());
    Ok(names.into_iter().any(|n| n.to_string_lossy().starts_with(&format!("{event}."))).then_some(()))
}

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
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(codex) = Codex::new(&place, &model)? else { return Ok(()) };
    let dir = record_everything(&place)?;
    let tmux = Tmux::new()?;
    // The consent of the user of this home, for one run.
    let launch = codex.launch().args(&["--no-daemon", "--dangerously-bypass-hook-trust"]);
    let pane = tmux.run("codex", &launch)?;
    pane.wait_until("the input line", LONG, takes_input)?;
    pane.submit("one")?;
    pane.wait_for("First turn over.", LONG)?;
    pane.submit("two")?;
    model.wait_for(4, LONG)?;
    pane.wait_for("esc to interrupt", LONG)?;
    pane.keys(&["Escape"])?;
    until("the interruption", || seen(&dir, "Interrupt"))?;
    pane.wait_until("the end of the turn", LONG, |s| !s.contains("esc to interrupt"))?;
    pane.submit("three")?;
    pane.wait_for("After the interruption.", LONG)?;
    pane.submit("/compact")?;
    model.wait_until("the compaction", LONG, |seen| seen.iter().any(|r| r.kind == Kind::Compaction))?;
    until("its end", || seen(&dir, "PostCompact"))?;
    pane.wait_until("the input line", LONG, |s| takes_input(s) && !s.contains("esc to interrupt"))?;
    pane.submit("/clear")?;
    pane.wait_until("an empty screen", LONG, |s| !s.contains("After the interruption.") && takes_input(s))?;
    pane.submit("four")?;
    pane.wait_for("After the clear.", LONG)?;
    pane.submit("/quit")?;
    assert_eq!(pane.wait_for_end(LONG)?, Ended::Code(0));

    let (mut events, mut sources) = (BTreeSet::new(), BTreeSet::new());
    let mut unknown = Vec::new();
    let mut shapes = Shapes::default();
    for entry in std::fs::read_dir(&dir)?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let event = name.split('.').next().unwrap_or_default().to_owned();
        let body = std::fs::read_to_string(entry.path())?;
        // A hook that was ended in the middle of its input has kept a part of it.
        let Ok(payload) = serde_json::from_str::<serde_json::Value>(&body) else { continue };
        assert_eq!(payload["hook_event_name"], event.as_str(), "{body}");
        if event == "SessionStart" {
            sources.insert(payload["source"].as_str().context("a source")?.to_owned());
        }
        shapes.add(&event, &payload);
        unknown.extend(unknown_fields(&body));
        events.insert(event);
    }
    shapes.keep()?;
    unknown.sort();
    unknown.dedup();
    assert!(unknown.is_empty(), "the client sends what our wire types do not know: {unknown:#?}");
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
