//! Codex in real tmux panes: spawned without its daemon, written to, handed over.

use anyhow::{Context as _, Result, ensure};
use baton_testkit::clients::codex::Codex;
use baton_testkit::model::{Script, ScriptedModel, shell, text, tool};
use baton_testkit::wait::LONG;
use serde_json::{Value, json};

use super::scene;
use super::tmux::{self, Panes, hands_over_a_file};

/// Returns nothing if the client is not installed.
fn codex(script: Script) -> Result<Option<Panes<Codex>>> {
    let Some(scene) = scene::codex_with_hooks(script)? else { return Ok(None) };
    Panes::around(scene, "› ").map(Some)
}

#[test]
fn mail_reaches_an_idle_codex_by_keys_a_busy_one_at_its_tool_and_leaves_a_draft_alone() -> Result<()> {
    let script = Script::new()
        .turn(text("First.").usage(20_000))
        .turn(text("Second.").usage(21_000))
        .turn(shell("while [ ! -e go ]; do sleep 0.1; done").usage(22_000))
        .turn(text("Third.").usage(23_000))
        .otherwise(text("More.").usage(24_000));
    let Some(panes) = codex(script)? else { return Ok(()) };
    panes.ready("alpha", &["--prompt", "Begin."])?;
    let pid = panes.agent("alpha")["process"]["pid"].to_string();
    let words = std::fs::read(format!("/proc/{pid}/cmdline"))?;
    assert!(words.split(|b| *b == 0).any(|word| word == b"--no-daemon"), "it runs on its daemon");
    panes.hear("alpha", "First.")?;
    panes.wait_for_turn("alpha", "idle")?;

    panes.deliver_by_keys("alpha")?;
    panes.hear("alpha", "Second.")?;
    panes.wait_for_turn("alpha", "idle")?;

    panes.keys("alpha", &["-l", "work"])?;
    panes.hear("alpha", "› work")?;
    panes.keys("alpha", &["Enter"])?;
    panes.wait_for_requests(3)?;
    panes.wait_for_turn("alpha", "working")?;
    let busy = panes.send("alpha", &["--important", "while you work"])?;
    panes.scene.place.write_project("go", "")?;
    panes.wait_for_state("alpha", &busy, "delivered")?;
    panes.wait_for_requests(4)?;
    assert!(panes.scene.asked()[3].text().contains(&busy), "at the next tool call");
    panes.hear("alpha", "Third.")?;
    panes.wait_for_turn("alpha", "idle")?;

    let id = panes.send_beside_draft("alpha")?;
    assert_eq!(panes.scene.asked().len(), 4, "something was submitted");
    panes.keys("alpha", &["Enter"])?;
    panes.wait_for_state("alpha", &id, "delivered")?;
    panes.wait_for_request(&id)?;
    let asked = panes.scene.asked();
    assert!(asked[4].text().contains("half a thought"), "{}", asked[4].text());
    assert!(asked.iter().all(|r| !r.text().contains("half a thought[baton")), "they were glued together");
    Ok(())
}

#[test]
fn the_deferred_handoff_clears_codex_which_continues_from_the_file_in_a_new_thread() -> Result<()> {
    let Some(panes) = codex(hands_over_a_file())? else { return Ok(()) };
    panes.ready("alpha", &["--prompt", "Write the parser."])?;
    let fresh = panes.continue_from_file("alpha")?;
    let asked = panes.scene.asked();
    assert_eq!(asked.len(), 3);
    assert_ne!(fresh.session, asked[0].session, "it is the same thread");
    let agent = panes.agent("alpha");
    let record = panes.scene.session_record(agent["session"].as_str().context("a session")?);
    assert_eq!(record["source"], "clear", "{record}");
    Ok(())
}

/// Codex shows no dialog while its hook waits; in our panes nobody needs it, and a person who attaches gets it back.
#[test]
fn a_spawned_codex_is_allowed_and_denied_from_elsewhere() -> Result<()> {
    let escalated = |command: &str| {
        let permissions = "require_escalated";
        tool(
            "exec_command",
            json!({ "cmd": command, "sandbox_permissions": permissions, "justification": "May I?" }),
        )
    };
    let script = Script::new()
        .turn(escalated("touch allowed.txt").usage(20_000))
        .turn(escalated("touch denied.txt").usage(21_000))
        .turn(text("Both are answered.").usage(22_000))
        .otherwise(text("More.").usage(23_000));
    let Some(panes) = codex(script)? else { return Ok(()) };
    let waiting = |command: &str| {
        panes.scene.wait_for("a request", || {
            let listed = panes.scene.place.launch(crate::BATON).args(&["approvals", "--json"]);
            let rows: Value = serde_json::from_str(&listed.run(LONG)?.stdout).unwrap_or_default();
            let fits = |row: &&Value| row["input"]["command"].as_str().is_some_and(|c| c.contains(command));
            Ok(rows.as_array().and_then(|rows| rows.iter().find(fits)?["short"].as_str().map(str::to_owned)))
        })
    };
    panes.ready("alpha", &["--prompt", "Begin.", "--", "-a", "on-request", "-s", "read-only"])?;
    let first = waiting("touch allowed.txt")?;
    let refused = panes.scene.place.launch(crate::BATON).args(&["approve", &first, "--session"]).run(LONG)?;
    assert!(refused.stderr.contains("takes a yes or a no"), "{refused:?}");
    panes.scene.baton(&["approve", &first])?;
    let second = waiting("touch denied.txt")?;
    panes.scene.baton(&["deny", &second, "Not this one, please."])?;
    panes.hear("alpha", "Both are answered.")?;
    let there = |name: &str| panes.scene.place.project().join(name).exists();
    assert_eq!(["allowed.txt", "denied.txt"].map(there), [true, false]);
    let told = panes.scene.asked()[2].text();
    assert!(told.contains("Not this one, please."), "{told}");
    panes.wait_for_turn("alpha", "idle")?;
    let log = panes.scene.json(&["approvals", "log", "--json"])?;
    let states: Vec<&str> =
        log.as_array().into_iter().flatten().filter_map(|r| r["state"].as_str()).collect();
    assert_eq!(states, ["denied", "allowed"]);
    Ok(())
}

/// An agent in a pane gives its work to the other client, which is started beside it.
#[test]
fn a_claude_in_a_pane_that_hands_over_to_codex_has_it_started_in_a_pane_of_its_own() -> Result<()> {
    let script = Script::new()
        .turn(shell("printf 'OWN-WORDS-OF-CLAUDE' | baton handoff --to codex -").usage(20_000))
        .otherwise(text("It is given away.").usage(21_000));
    let second = ScriptedModel::start(Script::new().otherwise(text("I have taken it up.").usage(20_000)))?;
    let Some(mut panes) = tmux::claude(script, &["Bash"])? else { return Ok(()) };
    let Some(codex) = Codex::new(&panes.scene.place, &second)? else { return Ok(()) };
    panes.scene.baton(&["install", "--provider", "codex", "--trust", "--yes"])?;
    for (name, value) in codex.launch().env {
        panes.launch.env.entry(name).or_insert(value);
    }
    panes.ready("alpha", &["--prompt", "Write the parser. Never use regular expressions."])?;
    let request = panes.wait_for("the other client", || second.main_requests().first().map(|r| r.text()))?;
    for fact in
        ["OWN-WORDS-OF-CLAUDE", "Never use regular expressions.", "you are Codex.", "=== HANDOFF LOADED"]
    {
        assert!(request.contains(fact), "{fact} is missing in {request}");
    }
    let agents: serde_json::Value = serde_json::from_str(&panes.baton(&["agents", "--json"])?)?;
    let taken = agents.as_array().into_iter().flatten().find(|a| a["agent"]["provider"] == "codex");
    let taken = taken.context("no such agent")?;
    assert!(taken["agent"]["pane"]["id"].is_string(), "{taken}");
    Ok(())
}

/// Whether a hook's text was seen is read from the rollout: it shows that of a turn, and not that of a prompt whose turn
/// Esc ended before it reached the model.
#[test]
fn mail_that_came_with_a_prompt_reaches_codex_once_and_again_if_esc_took_the_prompt_back() -> Result<()> {
    let works = |file: &str| shell(format!("while [ ! -e {file} ]; do sleep 0.1; done")).usage(20_000);
    let script = Script::new()
        .turn(works("one"))
        .turn(text("First.").usage(21_000))
        .turn(works("two"))
        .otherwise(text("Answer.").usage(22_000));
    let Some(mut panes) = codex(script)? else { return Ok(()) };
    panes.leave_unattended()?;
    // A slow hook of somebody else's behind ours: the turn begins when all hooks have ended.
    let path = panes.scene.place.home().join(".codex/hooks.json");
    let mut hooks: Value = serde_json::from_slice(&std::fs::read(&path)?)?;
    let slow =
        json!({ "type": "command", "command": "while [ ! -e go ]; do sleep 0.1; done", "timeout": 60 });
    let of_prompts = hooks["hooks"]["UserPromptSubmit"].as_array_mut().context("no hooks")?;
    of_prompts.push(json!({ "hooks": [slow] }));
    std::fs::write(&path, hooks.to_string())?;
    let (place, go) = (&panes.scene.place, panes.scene.place.project().join("go"));
    place.write_project("go", "")?;
    panes.ready("alpha", &["--prompt", "Begin.", "--", "--dangerously-bypass-hook-trust"])?;
    panes.wait_for_requests(1)?;
    panes.wait_for_turn("alpha", "working")?;
    // Nobody wakes an agent at work, and ordinary mail waits for the end of its turn.
    let shown = panes.send("alpha", &["FIRST-MAIL"])?;
    place.write_project("one", "")?;
    panes.hear("alpha", "First.")?;
    panes.wait_for_turn("alpha", "idle")?;
    panes.person_types("alpha", "SECOND-PROMPT")?;
    panes.keys("alpha", &["Enter"])?;
    panes.wait_for_state("alpha", &shown, "delivered")?;
    panes.wait_for_requests(3)?;
    let dropped = panes.send("alpha", &["SECOND-MAIL"])?;
    panes.wait_until_written("alpha")?;
    place.write_project("two", "")?;
    panes.wait_for_requests(4)?;
    panes.wait_for_turn("alpha", "idle")?;
    let session = panes.agent("alpha")["session"].as_str().context("a session")?.to_owned();
    ensure!(panes.scene.session_record(&session)["given"].is_null(), "its hooks found what it was given");
    std::fs::remove_file(&go)?;
    panes.person_types("alpha", "THIRD-PROMPT")?;
    panes.keys("alpha", &["Enter"])?;
    panes.wait_for_state("alpha", &dropped, "delivered")?;
    panes.keys("alpha", &["Escape"])?;
    panes.wait_for_turn("alpha", "idle")?;
    panes.wait_until_written("alpha")?;
    place.write_project("go", "")?;
    panes.person_types("alpha", "FOURTH-PROMPT")?;
    panes.keys("alpha", &["Enter"])?;
    panes.wait_for_requests(5)?;
    let asked = panes.scene.asked()[4].text();
    for (id, words) in [(&shown, "FIRST-MAIL"), (&dropped, "SECOND-MAIL")] {
        ensure!(asked.matches(words).count() == 1, "{words}: {asked}");
        panes.wait_for_state("alpha", id, "delivered")?;
    }
    let receipts = std::fs::read_to_string(panes.scene.state().join("mail/alpha/receipts.jsonl"))?;
    let queued_again: Vec<&str> = receipts.lines().filter(|line| line.contains("taken back")).collect();
    ensure!(queued_again.len() == 1 && queued_again[0].contains(&dropped), "{receipts}");
    Ok(())
}
