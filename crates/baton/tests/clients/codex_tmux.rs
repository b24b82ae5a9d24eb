//! Codex in real tmux panes of ours: spawned without its daemon, written to, handed over.

use anyhow::{Context as _, Result};
use baton_testkit::clients::codex::Codex;
use baton_testkit::model::{Script, ScriptedModel, shell, text};

use super::codex::ready;
use super::tmux::Panes;
use super::{baton, place};

/// Nothing if the client is not installed.
fn panes(model: &ScriptedModel) -> Result<Option<Panes>> {
    let place = place()?;
    let Some(codex) = ready(&place, model)? else { return Ok(None) };
    Panes::around(place, codex.launch(), ("codex", "› ")).map(Some)
}

#[test]
fn mail_reaches_an_idle_codex_by_keys_a_busy_one_at_its_tool_and_leaves_a_draft_alone() -> Result<()> {
    let script = Script::new()
        .turn(text("First.").usage(20_000))
        .turn(text("Second.").usage(21_000))
        .turn(shell("while [ ! -e go ]; do sleep 0.1; done").usage(22_000))
        .turn(text("Third.").usage(23_000))
        .otherwise(text("More.").usage(24_000));
    let model = ScriptedModel::start(script)?;
    let Some(panes) = panes(&model)? else { return Ok(()) };
    panes.ready("alpha", &["--prompt", "Begin."])?;
    let pid = panes.agent("alpha")["process"]["pid"].to_string();
    let words = std::fs::read(format!("/proc/{pid}/cmdline"))?;
    assert!(words.split(|b| *b == 0).any(|word| word == b"--no-daemon"), "it runs on its daemon");
    panes.wait_for("the first answer", || panes.screen("alpha").ok()?.contains("First.").then_some(()))?;
    panes.wait_for_turn("alpha", "idle")?;

    let id = panes.send("alpha", &["--from", "boss", "line one\nEnter\nline three;"])?;
    panes.wait_for_state("alpha", &id, "delivered")?;
    let said = panes.wait_for("the request", || {
        model.main_requests().into_iter().map(|r| r.last_user_text()).find(|said| said.contains(&id))
    })?;
    assert!(
        said.contains(&format!("[baton message {id} from boss]\nline one\nEnter\nline three;")),
        "{said}"
    );
    panes.wait_for("the second answer", || panes.screen("alpha").ok()?.contains("Second.").then_some(()))?;
    panes.wait_for_turn("alpha", "idle")?;

    panes.keys("alpha", &["-l", "work"])?;
    panes.wait_for("the word", || panes.screen("alpha").ok()?.contains("› work").then_some(()))?;
    panes.keys("alpha", &["Enter"])?;
    panes.wait_for("the tool", || (model.main_requests().len() == 3).then_some(()))?;
    panes.wait_for_turn("alpha", "working")?;
    let busy = panes.send("alpha", &["while you work"])?;
    panes.place.write_project("go", "")?;
    panes.wait_for_state("alpha", &busy, "delivered")?;
    panes.wait_for("the next request", || (model.main_requests().len() == 4).then_some(()))?;
    assert!(model.main_requests()[3].text().contains(&busy), "at the next tool call");
    panes.wait_for("the third answer", || panes.screen("alpha").ok()?.contains("Third.").then_some(()))?;
    panes.wait_for_turn("alpha", "idle")?;

    panes.person_types("alpha", "half a thought")?;
    let id = panes.send("alpha", &["are you there?"])?;
    panes.wait_for("the reason", || {
        (panes.agent("alpha")["waits"] == "a draft is in the composer").then_some(())
    })?;
    assert_eq!(model.main_requests().len(), 4, "something was submitted");
    panes.keys("alpha", &["Enter"])?;
    panes.wait_for_state("alpha", &id, "delivered")?;
    panes.wait_for("the request", || model.main_requests().last()?.text().contains(&id).then_some(()))?;
    let asked = model.main_requests();
    assert!(asked[4].text().contains("half a thought"), "{}", asked[4].text());
    assert!(asked.iter().all(|r| !r.text().contains("half a thought[baton")), "they were glued together");
    Ok(())
}

#[test]
fn the_deferred_handoff_clears_codex_and_goes_on_from_the_file_in_a_new_thread() -> Result<()> {
    let script = Script::new()
        .turn(
            shell("printf '# Handoff\\n\\n## Next\\nRun the third test.\\n' > h.md; baton handoff h.md")
                .usage(20_000),
        )
        .turn(text("Handed over.").usage(21_000))
        .otherwise(text("I go on.").usage(15_000));
    let model = ScriptedModel::start(script)?;
    let Some(panes) = panes(&model)? else { return Ok(()) };
    panes.ready("alpha", &["--prompt", "Write the parser."])?;
    let old = panes.agent("alpha")["session"].clone();
    panes.wait_for("the fresh context", || panes.screen("alpha").ok()?.contains("I go on.").then_some(()))?;
    let asked = model.main_requests();
    let fresh = asked.last().context("no request")?;
    assert_eq!(asked.len(), 3);
    assert_ne!(fresh.session, asked[0].session, "it is the same thread");
    let file = panes.place.project().join("h.md");
    let wanted = format!("Read {} and continue from where you left off.", file.display());
    assert!(fresh.last_user_text().contains(&wanted), "{}", fresh.last_user_text());
    assert!(fresh.text().contains("=== HANDOFF LOADED") && fresh.text().contains("Run the third test."));
    panes.wait_for("the end of the rotation", || panes.agent("alpha")["rotation"].is_null().then_some(()))?;
    let agent = panes.agent("alpha");
    assert_ne!(agent["session"], old);
    assert_eq!(agent["sessions"].as_array().map(Vec::len), Some(2), "{agent}");
    let id = agent["session"].as_str().context("a session")?;
    let record = baton_testkit::home::record(&panes.state().join(format!("sessions/{id}.json")));
    assert_eq!(record["source"], "clear", "{record}");
    Ok(())
}

/// An agent in a pane gives its work to the other client, which is started beside it.
#[test]
fn a_claude_in_a_pane_that_hands_over_to_codex_has_it_started_in_a_pane_of_its_own() -> Result<()> {
    let script = Script::new()
        .turn(shell("printf 'OWN-WORDS-OF-CLAUDE' | baton handoff --to codex -").usage(20_000))
        .otherwise(text("It is given away.").usage(21_000));
    let first = ScriptedModel::start(script)?;
    let second = ScriptedModel::start(Script::new().otherwise(text("I have taken it up.").usage(20_000)))?;
    let Some(mut panes) = Panes::new(&first, &["Bash"])? else { return Ok(()) };
    let Some(codex) = Codex::new(&panes.place, &second)? else { return Ok(()) };
    baton(&panes.place, &["install", "--provider", "codex", "--trust", "--yes"])?;
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
