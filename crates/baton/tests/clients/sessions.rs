//! Past conversations of the real clients: listed, searched and resumed.

use anyhow::{Context as _, Result};
use baton_testkit::clients::claude::{Claude, takes_input};
use baton_testkit::clients::codex::{Codex, takes_input as codex_takes_input};
use baton_testkit::model::{Script, ScriptedModel, shell, text};
use baton_testkit::tmux::{Ended, Tmux};
use serde_json::Value;

use super::{LONG, baton, place};
use crate::BATON;

fn rows(place: &baton_testkit::clients::Place, args: &[&str]) -> Result<Vec<Value>> {
    serde_json::from_str(&baton(place, args)?).context("a list is JSON")
}

#[test]
fn claude_a_session_that_is_listed_is_resumed_and_knows_what_was_said() -> Result<()> {
    let script = Script::new()
        .turn(shell("echo THE-OUTPUT-OF-THE-TOOL").usage(30_000))
        .turn(text("Ready for the zebra.").usage(31_000))
        .turn(text("Still here.").usage(32_000));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    baton(&place, &["install", "--yes"])?;
    let tmux = Tmux::new()?;
    let claude = claude.allow(&["Bash"]);
    let pane = claude.start(&tmux, "first")?;
    pane.submit("Count the zebras of the farm.")?;
    pane.wait_for("Ready for the zebra.", LONG)?;
    pane.submit("/exit")?;
    assert_eq!(pane.wait_for_end(LONG)?, Ended::Code(0));

    let listed = rows(&place, &["sessions", "list", "--json"])?;
    assert_eq!(listed.len(), 1, "{listed:#?}");
    let row = &listed[0];
    assert_eq!(row["title"], "Count the zebras of the farm.");
    assert_eq!(
        (row["provider"].as_str(), row["resumable"].as_bool()),
        (Some("claude"), Some(true)),
        "{row:#}"
    );
    assert_eq!((row["state"].as_str(), row["reason"].as_str()), (Some("ended"), Some("prompt_input_exit")));
    assert!(row["tokens"].as_u64() >= Some(31_000), "{row:#}");
    let found = rows(&place, &["sessions", "search", "THE-OUTPUT-OF-THE-TOOL", "--json"])?;
    let roles: Vec<_> = found.iter().map(|h| (h["role"].as_str(), h["tool"].as_str())).collect();
    assert_eq!(roles, [(Some("tool"), Some("Bash")); 2], "the call and its result, each once: {found:#?}");

    let launch = claude.launch().under(BATON, &["sessions", "resume", "--last", "--"]);
    let pane = tmux.run("second", &launch)?;
    pane.wait_until("the input line", LONG, takes_input)?;
    pane.wait_for("Ready for the zebra.", LONG)?;
    pane.submit("Are you there?")?;
    pane.wait_for("Still here.", LONG)?;
    let asked = model.main_requests();
    let last = asked.last().context("the model was asked")?;
    assert_eq!(last.session, asked[0].session, "the same conversation goes on");
    assert!(last.text().contains("Count the zebras of the farm."), "{}", last.text());
    pane.submit("/exit")?;
    assert_eq!(pane.wait_for_end(LONG)?, Ended::Code(0));
    assert_eq!(rows(&place, &["sessions", "list", "--json"])?.len(), 1);
    Ok(())
}

#[test]
fn codex_a_session_is_listed_shown_and_searched_through_the_same_commands() -> Result<()> {
    let script = Script::new().turn(text("Hello from the rollout.").usage(20_000));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(codex) = Codex::new(&place, &model)? else { return Ok(()) };
    let finished = codex.exec("Greet the zebras.", LONG)?;
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let listed = rows(&place, &["sessions", "list", "--json"])?;
    assert_eq!(listed.len(), 1, "{listed:#?}");
    let row = &listed[0];
    assert_eq!((row["title"].as_str(), row["provider"].as_str()), (Some("Greet the zebras."), Some("codex")));
    assert_eq!((row["ending"].as_str(), row["tokens"].is_u64()), (Some("answered"), true), "{row:#}");
    let found = rows(&place, &["sessions", "search", "rollout", "--json"])?;
    assert_eq!((found.len(), found[0]["role"].as_str()), (1, Some("assistant")), "{found:#?}");
    let id = row["id"].as_str().context("a row has an id")?;
    let shown = baton(&place, &["sessions", "show", id, "--turns"])?;
    assert!(shown.contains("Greet the zebras.") && shown.contains("Hello from the rollout."), "{shown}");
    Ok(())
}

/// Everything that is done with a conversation afterwards, and the same when the client has lost it.
#[test]
fn codex_a_session_is_mirrored_listed_shown_searched_resumed_and_brought_back() -> Result<()> {
    let script = Script::new()
        .turn(shell("echo THE-OUTPUT-OF-THE-TOOL").usage(20_000))
        .turn(text("Ready for the zebra.").usage(21_000))
        .turn(text("Still here.").usage(22_000));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(codex) = super::codex::ready(&place, &model)? else { return Ok(()) };
    let tmux = Tmux::new()?;
    let pane = codex.start(&tmux, "first")?;
    pane.submit("Count the zebras of the farm.")?;
    pane.wait_for("Ready for the zebra.", LONG)?;
    pane.wait_until("the input line", LONG, codex_takes_input)?;
    pane.submit("/quit")?;
    assert_eq!(pane.wait_for_end(LONG)?, Ended::Code(0));

    let listed = rows(&place, &["sessions", "list", "--json"])?;
    assert_eq!(listed.len(), 1, "{listed:#?}");
    let row = &listed[0];
    assert_eq!(row["title"], "Count the zebras of the farm.");
    assert_eq!(
        (row["provider"].as_str(), row["resumable"].as_bool()),
        (Some("codex"), Some(true)),
        "{row:#}"
    );
    let id = row["id"].as_str().context("a row has an id")?;
    let rollout = std::path::PathBuf::from(row["transcript"].as_str().context("a row has a transcript")?);
    let shown = baton(&place, &["sessions", "show", id, "--turns"])?;
    assert!(shown.contains("Count the zebras") && shown.contains("Ready for the zebra."), "{shown}");
    let found = rows(&place, &["sessions", "search", "THE-OUTPUT-OF-THE-TOOL", "--json"])?;
    assert!(found.iter().all(|hit| hit["role"] == "tool") && !found.is_empty(), "{found:#?}");

    let launch = codex.launch().under(BATON, &["sessions", "resume", "--last", "--"]);
    let pane = tmux.run("second", &launch)?;
    pane.wait_until("the input line", LONG, codex_takes_input)?;
    pane.submit("Are you there?")?;
    pane.wait_for("Still here.", LONG)?;
    pane.wait_until("the input line", LONG, codex_takes_input)?;
    pane.submit("/quit")?;
    assert_eq!(pane.wait_for_end(LONG)?, Ended::Code(0));
    let asked = model.main_requests();
    let last = asked.last().context("the model was asked")?;
    assert_eq!(last.session, asked[0].session, "the same conversation goes on");
    assert!(last.text().contains("Count the zebras of the farm."), "{}", last.text());

    // Verify takes what no hook saw: the client writes on after its last one.
    baton(&place, &["backup", "verify"])?;
    let before = std::fs::read(&rollout)?;
    std::fs::remove_file(&rollout)?;
    let kept = rows(&place, &["sessions", "search", "zebra", "--json"])?;
    assert!(kept.iter().all(|hit| hit["session"] == id) && kept.len() >= 2, "found in the mirror: {kept:#?}");
    let said = baton(&place, &["backup", "restore", id])?;
    assert!(said.contains(&format!("codex resume {id}")), "{said}");
    assert_eq!(std::fs::read(&rollout)?, before, "every byte is back");
    model.push(text("I remember.").usage(23_000));
    let resume = ["exec", "resume", "--skip-git-repo-check", id, "Go on."];
    let finished = codex.launch().args(&resume).run(LONG)?;
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let asked = model.main_requests();
    let last = asked.last().context("the model was asked")?;
    assert!(
        last.text().contains("Count the zebras") && last.text().contains("Still here."),
        "{}",
        last.text()
    );

    // In one file, under another project.
    let (archive, other) = (place.home().join("taken.tar.zst"), place.home().join("other"));
    std::fs::create_dir_all(&other)?;
    let (archive, to) = (archive.display().to_string(), other.display().to_string());
    baton(&place, &["backup", "export", id, &archive])?;
    std::fs::remove_file(&rollout)?;
    let said = baton(&place, &["backup", "restore", &archive, "--to", &to])?;
    assert!(said.contains(&format!("codex resume {id}")), "{said}");
    model.push(text("Here, too.").usage(24_000));
    let mut launch = codex.launch().args(&resume);
    launch.cwd = std::fs::canonicalize(&other)?;
    let finished = launch.run(LONG)?;
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let asked = model.main_requests();
    let last = asked.last().context("the model was asked")?;
    assert!(
        last.text().contains("Count the zebras") && last.text().contains("I remember."),
        "{}",
        last.text()
    );
    assert!(last.text().contains(&launch.cwd.display().to_string()), "it works there: {}", last.text());
    Ok(())
}
