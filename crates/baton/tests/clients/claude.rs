//! Claude Code.

use std::time::Duration;

use anyhow::{Context as _, Result};
use baton_testkit::clients::claude::{Claude, takes_input};
use baton_testkit::model::{Script, ScriptedModel, shell, text};
use baton_testkit::pty::{Left, Pty, code};
use baton_testkit::tmux::{Ended, Tmux};
use rustix::process::{Pid, Signal, kill_process};

use super::{LONG, place, under_run};

const START: Duration = Duration::from_secs(30);

/// Scenario 2: nobody types anything between the agent's own handoff and the fresh context that begins with it.
#[test]
fn an_agent_that_hands_over_under_run_continues_in_a_new_process_with_its_handoff() -> Result<()> {
    let script = Script::new()
        .turn(
            shell(
                "baton handoff - <<'END'\n# Where I am\nThe parser is half done; MARK-OF-THE-HANDOFF.\nEND\n",
            )
            .usage(670_000),
        )
        .turn(text("Handed over.").usage(670_500))
        .turn(text("I know where I was.").usage(30_000));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    let tmux = Tmux::new()?;
    let pane = tmux.run("run", &under_run(claude.allow(&["Bash"]).launch()))?;
    pane.wait_until("the input line", START, takes_input)?;
    pane.submit("Write the parser. Never change the grammar.")?;

    let asked = model.wait_for(3, LONG)?;
    let first_of_the_new = asked[2].text();
    assert_ne!(asked[2].session, asked[0].session, "the conversation was not replaced");
    assert!(first_of_the_new.contains("MARK-OF-THE-HANDOFF"), "{first_of_the_new}");
    assert!(first_of_the_new.contains("Never change the grammar."), "the user's own words are missing");
    assert!(first_of_the_new.contains("=== HANDOFF LOADED (ID: HO-"));
    assert!(first_of_the_new.contains("Continue where the loaded handoff HO-"));
    pane.wait_for("I know where I was.", LONG)?;

    pane.submit("/exit")?;
    assert_eq!(pane.wait_for_end(LONG)?, Ended::Code(0));
    let history = place.launch(crate::BATON).args(&["handoffs", "--json"]).run(LONG)?;
    assert!(history.stdout.contains("\"status\": \"consumed\""), "{}", history.stdout);
    Ok(())
}

/// Scenario 8: a headless task goes on over three contexts and prints one result.
#[test]
fn a_headless_task_goes_on_over_three_contexts_and_prints_one_result() -> Result<()> {
    let hand_over = |mark: &str| shell(format!("printf 'state {mark}' | baton handoff -")).usage(700_000);
    let script = Script::new()
        .turn(hand_over("ONE"))
        .turn(text("first context over").usage(700_100))
        .turn(hand_over("TWO"))
        .turn(text("second context over").usage(700_100))
        .turn(text("All done.").usage(30_000));
    let model = ScriptedModel::start(script)?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(()) };
    let launch = claude.allow(&["Bash"]).launch().args(&["-p", "--", "Do the long task."]);
    let finished = under_run(launch).run(LONG)?;
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert_eq!(finished.stdout.trim(), "All done.", "{finished:?}");
    let asked = model.main_requests();
    assert_eq!(asked.len(), 5);
    assert!(asked[2].text().contains("state ONE"), "{}", asked[2].text());
    assert!(asked[4].text().contains("state TWO"), "{}", asked[4].text());
    let mut sessions: Vec<_> = asked.iter().map(|r| r.session.clone()).collect();
    sessions.dedup();
    assert_eq!(sessions.len(), 3, "{sessions:?}");
    Ok(())
}

/// How the client ended, and how it left the terminal.
fn ended_by(under: bool, signal: Option<Signal>) -> Result<Option<(i32, Left)>> {
    let model = ScriptedModel::start(Script::new())?;
    let place = place()?;
    let Some(claude) = Claude::new(&place, &model)? else { return Ok(None) };
    let launch = claude.launch();
    let launch = if under { under_run(launch) } else { launch };
    let mut pty = Pty::start(&launch.command())?;
    pty.wait_until("the input line", takes_input)?;
    // Drawn to its end: it answers keys.
    pty.send("abc")?;
    pty.wait_for("abc")?;
    let leader = i32::try_from(pty.pid())?;
    let client = if under { only_child(leader)? } else { leader };
    if let Some(signal) = signal {
        kill_process(Pid::from_raw(client).context("a client has a process")?, signal)?;
    } else {
        pty.send("\x03")?;
        pty.wait_until("an empty input line", |s| !s.contains("abc"))?;
        pty.send("/exit")?;
        pty.wait_for("/exit")?;
        pty.send("\r")?;
    }
    let status = pty.wait_for_end()?;
    let mut left = pty.left()?;
    left.text = told_alike(&left.text, &place.project().display().to_string());
    if signal == Some(Signal::KILL) {
        // What we say of a crash moves the cursor; below the input line the client is still drawing hints.
        let (above, _) = left.text.split_once("abc").context("what was typed stays on the screen")?;
        left.text = above.to_owned();
        left.modes = left.modes.split(" at ").next().unwrap_or_default().to_owned();
    }
    Ok(Some((code(status), left)))
}

/// The screen without our own lines, and without the names that differ from run to run.
fn told_alike(screen: &str, project: &str) -> String {
    let is_id = |word: &str| word.len() == 36 && word.matches('-').count() == 4;
    let place = project.trim_end_matches("/project");
    let lines = screen.lines().take_while(|line| !line.contains("baton:"));
    let lines = lines.map(|line| {
        let line = line.replace(place, "~");
        let words = line.split(' ').map(|word| if is_id(word) { "ID" } else { word });
        words.collect::<Vec<_>>().join(" ").trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n").trim().to_owned()
}

fn only_child(of: i32) -> Result<i32> {
    let children = std::fs::read_to_string(format!("/proc/{of}/task/{of}/children"))?;
    Ok(children.split_whitespace().next().context("baton run has one child")?.parse()?)
}

/// Scenario 9: exit code, line settings and every mode of the screen are what the client alone leaves.
#[test]
fn the_terminal_after_each_kind_of_end_is_what_the_client_alone_leaves() -> Result<()> {
    let ends = [(None, 0), (Some(Signal::TERM), 143), (Some(Signal::HUP), 129), (Some(Signal::KILL), 137)];
    for (signal, expected) in ends {
        let Some(alone) = ended_by(false, signal)? else { return Ok(()) };
        let under = ended_by(true, signal)?.context("it was there a moment ago")?;
        assert_eq!(alone.0, expected, "the client alone, {signal:?}");
        assert_eq!(under, alone, "{signal:?}");
    }
    Ok(())
}
