//! Claude Code.

use std::time::Duration;

use anyhow::Result;
use baton_testkit::clients::claude::{Claude, takes_input};
use baton_testkit::model::{Script, ScriptedModel, shell, text};
use baton_testkit::tmux::{Ended, Tmux};

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
