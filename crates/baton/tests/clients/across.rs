//! A task that begins in one client and ends in the other, and back.

use anyhow::{Context as _, Result};
use baton_testkit::clients::claude::Claude;
use baton_testkit::clients::codex::Codex;
use baton_testkit::model::{Script, ScriptedModel, shell, text};
use baton_testkit::wait::LONG;

use super::scene::{self, Scene};
use crate::BATON;

/// Hands the last session of the project to the other provider. Returns the agent's name and the prompt in the start
/// command, so that the test can insert its own arguments.
fn over_to(scene: &Scene<Claude>, provider: &str) -> Result<(String, String)> {
    let moved = scene.json(&["handoff", "--to", provider, "--json"])?;
    let agent = moved["agent"].as_str().context("an agent")?.to_owned();
    let command = moved["command"].as_str().context("a command")?;
    let prompt = baton::testing::words(command).pop().context("a prompt")?;
    Ok((agent, prompt))
}

#[test]
fn a_task_begun_in_claude_code_is_finished_in_codex_and_comes_back() -> Result<()> {
    let script = Script::new()
        .turn(shell("echo 'fn parse() {}' > parser.rs && echo FACT-ONE-$((40 + 2))").usage(40_000))
        .turn(text("Half of it is done.").usage(41_000))
        .turn(text("All is well.").usage(30_000));
    let Some(scene) = scene::claude(script)? else { return Ok(()) };
    let second = ScriptedModel::start(
        Script::new()
            .turn(shell("echo '// tested' >> parser.rs && echo FACT-TWO-$((40 + 3))").usage(20_000))
            .turn(text("Finished in Codex.").usage(21_000)),
    )?;
    let Some(codex) = Codex::new(&scene.place, &second)? else { return Ok(()) };
    scene.place.write_project("CLAUDE.md", "Project rule: PLAIN-RUST.\n")?;
    scene.baton(&["install", "--yes", "--settings"])?;
    scene.baton(&["install", "--provider", "codex", "--trust", "--yes"])?;

    let scene = scene.allow(&["Bash"]);
    let task = "Write parser.rs. Never use regular expressions. See @notes.md.";
    let begun = scene.client.print(task, LONG)?;
    assert!(begun.stdout.contains("Half of it is done."), "{begun:?}");

    let (agent, prompt) = over_to(&scene, "codex")?;
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

    let (agent, prompt) = over_to(&scene, "claude")?;
    let launch = scene.client.launch().args(&["-p", "--", &prompt]);
    let back = launch.under(BATON, &["run", "--name", &agent, "claude"]).run(LONG)?;
    assert!(back.stdout.contains("All is well."), "{back:?}");
    let request = scene.asked()[2].text();
    for fact in
        ["parser.rs", "Taken over from:** Codex; you are Claude Code.", "Never use regular expressions."]
    {
        assert!(request.contains(fact), "{fact} is missing in {request}");
    }
    Ok(())
}
