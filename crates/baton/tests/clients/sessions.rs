//! Past conversations of the real clients: listed, searched and resumed.

use anyhow::{Context as _, Result};
use baton_testkit::model::{Script, shell, text};
use baton_testkit::wait::LONG;
use serde_json::Value;

use super::scene::{self, Client, Scene};
use crate::BATON;

fn rows<C: Client>(scene: &Scene<C>, args: &[&str]) -> Result<Vec<Value>> {
    serde_json::from_value(scene.json(args)?).context("a listing is a list")
}

/// A conversation with a tool call, which continues when it is resumed.
fn about_zebras() -> Script {
    Script::new()
        .turn(shell("echo THE-OUTPUT-OF-THE-TOOL").usage(20_000))
        .turn(text("Ready for the zebra.").usage(21_000))
        .turn(text("Still here.").usage(22_000))
}

/// Plays the first part of that conversation and leaves. Returns its row in the listing.
fn count_zebras<C: Client>(scene: &Scene<C>) -> Result<Value> {
    let pane = scene.start()?;
    scene.ask(&pane, "Count the zebras of the farm.", "Ready for the zebra.")?;
    scene.wait_for_input(&pane)?;
    scene.exit(&pane)?;
    let mut listed = rows(scene, &["sessions", "list", "--json"])?;
    assert_eq!(listed.len(), 1, "{listed:#?}");
    let row = listed.remove(0);
    assert_eq!(row["title"], "Count the zebras of the farm.");
    assert_eq!(
        (row["provider"].as_str(), row["resumable"].as_bool()),
        (Some(C::NAME), Some(true)),
        "{row:#}"
    );
    Ok(row)
}

/// Resumes the last conversation, which knows what was said before.
fn resume<C: Client>(scene: &Scene<C>) -> Result<()> {
    let launch = scene.client.launch().under(BATON, &["sessions", "resume", "--last", "--"]);
    let pane = scene.start_as(&launch)?;
    scene.hear(&pane, "Ready for the zebra.")?;
    scene.ask(&pane, "Are you there?", "Still here.")?;
    scene.wait_for_input(&pane)?;
    scene.exit(&pane)?;
    let asked = scene.asked();
    let last = asked.last().context("the model was asked")?;
    assert_eq!(last.session, asked[0].session, "the same conversation continues");
    assert!(last.text().contains("Count the zebras of the farm."), "{}", last.text());
    Ok(())
}

#[test]
fn claude_a_session_that_is_listed_is_resumed_and_knows_what_was_said() -> Result<()> {
    let Some(scene) = scene::claude(about_zebras())? else { return Ok(()) };
    scene.baton(&["install", "--yes"])?;
    let scene = scene.allow(&["Bash"]);
    let row = count_zebras(&scene)?;
    assert_eq!((row["state"].as_str(), row["reason"].as_str()), (Some("ended"), Some("prompt_input_exit")));
    assert!(row["tokens"].as_u64() >= Some(21_000), "{row:#}");
    let found = rows(&scene, &["sessions", "search", "THE-OUTPUT-OF-THE-TOOL", "--json"])?;
    let roles: Vec<_> = found.iter().map(|h| (h["role"].as_str(), h["tool"].as_str())).collect();
    assert_eq!(roles, [(Some("tool"), Some("Bash")); 2], "the call and its result, each once: {found:#?}");

    resume(&scene)?;
    assert_eq!(rows(&scene, &["sessions", "list", "--json"])?.len(), 1);
    Ok(())
}

#[test]
fn codex_a_session_is_listed_shown_and_searched_through_the_same_commands() -> Result<()> {
    let script = Script::new().turn(text("Hello from the rollout.").usage(20_000));
    let Some(scene) = scene::codex(script)? else { return Ok(()) };
    let finished = scene.client.exec("Greet the zebras.", LONG)?;
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let listed = rows(&scene, &["sessions", "list", "--json"])?;
    assert_eq!(listed.len(), 1, "{listed:#?}");
    let row = &listed[0];
    assert_eq!((row["title"].as_str(), row["provider"].as_str()), (Some("Greet the zebras."), Some("codex")));
    assert_eq!((row["ending"].as_str(), row["tokens"].is_u64()), (Some("answered"), true), "{row:#}");
    let found = rows(&scene, &["sessions", "search", "rollout", "--json"])?;
    assert_eq!((found.len(), found[0]["role"].as_str()), (1, Some("assistant")), "{found:#?}");
    let id = row["id"].as_str().context("a row has an id")?;
    let shown = scene.baton(&["sessions", "show", id, "--turns"])?;
    assert!(shown.contains("Greet the zebras.") && shown.contains("Hello from the rollout."), "{shown}");
    Ok(())
}

/// Everything that can be done with a past conversation, also after the client has lost it.
#[test]
fn codex_a_session_is_mirrored_listed_shown_searched_resumed_and_brought_back() -> Result<()> {
    let Some(scene) = scene::codex_with_hooks(about_zebras())? else { return Ok(()) };
    let row = count_zebras(&scene)?;
    let id = row["id"].as_str().context("a row has an id")?;
    let rollout = std::path::PathBuf::from(row["transcript"].as_str().context("a row has a transcript")?);
    let shown = scene.baton(&["sessions", "show", id, "--turns"])?;
    assert!(shown.contains("Count the zebras") && shown.contains("Ready for the zebra."), "{shown}");
    let found = rows(&scene, &["sessions", "search", "THE-OUTPUT-OF-THE-TOOL", "--json"])?;
    assert!(found.iter().all(|hit| hit["role"] == "tool") && !found.is_empty(), "{found:#?}");

    resume(&scene)?;

    // `verify` copies what no hook saw: the client writes on after its last hook.
    scene.baton(&["backup", "verify"])?;
    let before = std::fs::read(&rollout)?;
    std::fs::remove_file(&rollout)?;
    let kept = rows(&scene, &["sessions", "search", "zebra", "--json"])?;
    assert!(kept.iter().all(|hit| hit["session"] == id) && kept.len() >= 2, "found in the mirror: {kept:#?}");
    let said = scene.baton(&["backup", "restore", id])?;
    assert!(said.contains(&format!("codex resume {id}")), "{said}");
    assert_eq!(std::fs::read(&rollout)?, before, "every byte is back");
    scene.model.push(text("I remember.").usage(23_000));
    let resume = ["exec", "resume", "--skip-git-repo-check", id, "Go on."];
    let finished = scene.client.launch().args(&resume).run(LONG)?;
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let asked = scene.asked();
    let last = asked.last().context("the model was asked")?;
    assert!(
        last.text().contains("Count the zebras") && last.text().contains("Still here."),
        "{}",
        last.text()
    );

    // Exported to one file, and restored under another project.
    let (archive, other) = (scene.place.home().join("taken.tar.zst"), scene.place.home().join("other"));
    std::fs::create_dir_all(&other)?;
    let (archive, to) = (archive.display().to_string(), other.display().to_string());
    scene.baton(&["backup", "export", id, &archive])?;
    std::fs::remove_file(&rollout)?;
    let said = scene.baton(&["backup", "restore", &archive, "--to", &to])?;
    assert!(said.contains(&format!("codex resume {id}")), "{said}");
    scene.model.push(text("Here, too.").usage(24_000));
    let mut launch = scene.client.launch().args(&resume);
    launch.cwd = std::fs::canonicalize(&other)?;
    let finished = launch.run(LONG)?;
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let asked = scene.asked();
    let last = asked.last().context("the model was asked")?;
    assert!(
        last.text().contains("Count the zebras") && last.text().contains("I remember."),
        "{}",
        last.text()
    );
    assert!(last.text().contains(&launch.cwd.display().to_string()), "it works there: {}", last.text());
    Ok(())
}
