//! A task that begins in one client and ends in the other, and back.

use anyhow::{Context as _, Result};
use baton_testkit::clients::Place;
use baton_testkit::clients::claude::Claude;
use baton_testkit::clients::codex::Codex;
use baton_testkit::model::{Script, ScriptedModel, shell, text};
use serde_json::Value;

use super::{LONG, baton, place};
use crate::BATON;

/// Hands the last session of the project to the other provider, and starts it with the command that was told, its
/// own arguments in between.
fn over_to(place: &Place, provider: &str) -> Result<(String, String)> {
    let moved: Value = serde_json::from_str(&baton(place, &["handoff", "--to", provider, "--json"])?)?;
    let agent = moved["agent"].as_str().context("an agent")?.to_owned();
    let command = moved["command"].as_str().context("a command")?;
    let prompt = baton::hot::delegate::words(command).pop().context("a prompt")?;
    Ok((agent, prompt))
}

#[test]
fn a_task_begun_in_claude_code_is_finished_in_codex_and_comes_back() -> Result<()> {
    let place = place()?;
    place.write_project("CLAUDE.md", "Project rule: PLAIN-RUST.\n")?;
    let first = ScriptedModel::start(
        Script::new()
            .turn(shell("echo 'fn parse() {}' > parser.rs && echo FACT-ONE-$((40 + 2))").usage(40_000))
            .turn(text("Half of it is done.").usage(41_000))
            .turn(text("All is well.").usage(30_000)),
    )?;
    let Some(claude) = Claude::new(&place, &first)? else { return Ok(()) };
    let second = ScriptedModel::start(
        Script::new()
            .turn(shell("echo '// tested' >> parser.rs && echo FACT-TWO-$((40 + 3))").usage(20_000))
            .turn(text("Finished in Codex.").usage(21_000)),
    )?;
    let Some(codex) = Codex::new(&place, &second)? else { return Ok(()) };
    baton(&place, &["install", "--yes", "--settings"])?;
    baton(&place, &["install", "--provider", "codex", "--trust", "--yes"])?;

    let claude = claude.allow(&["Bash"]);
    let begun = claude
        .launch()
        .args(&["-p", "--", "Write parser.rs. Never use regular expressions. See @notes.md."])
        .run(LONG)?;
    assert!(begun.stdout.contains("Half of it is done."), "{begun:?}");

    let (agent, prompt) = over_to(&place, "codex")?;
    let launch = codex.launch().args(&["exec", "--skip-git-repo-check", &prompt]);
    let done = launch.under(BATON, &["run", "--name", &agent, "codex"]).run(LONG)?;
    assert!(done.stdout.contains("Finished in Codex."), "{done:?}");
    let request = second.main_requests()[0].text();
    for fact in [
        "Never use regular expressions.",
        "parser.rs",
        "Taken over from:** Claude Code; you are Codex.",
        "The project's instructions are in CLAUDE.md",
        "=== HANDOFF LOADED (ID: HO-",
    ] {
        assert!(request.contains(fact), "{fact} is missing in {request}");
    }

    let (agent, prompt) = over_to(&place, "claude")?;
    let launch = claude.launch().args(&["-p", "--", &prompt]);
    let back = launch.under(BATON, &["run", "--name", &agent, "claude"]).run(LONG)?;
    assert!(back.stdout.contains("All is well."), "{back:?}");
    let request = first.main_requests()[2].text();
    for fact in
        ["parser.rs", "Taken over from:** Codex; you are Claude Code.", "Never use regular expressions."]
    {
        assert!(request.contains(fact), "{fact} is missing in {request}");
    }
    Ok(())
}
