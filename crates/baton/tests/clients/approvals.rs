//! Permission requests of Claude Code, answered from elsewhere while its own dialog is open.

use std::collections::BTreeSet;
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use baton_testkit::clients::claude::Claude;
use baton_testkit::model::{Script, shell, text, tool};
use baton_testkit::tmux::Pane;
use baton_testkit::wait::poll;
use serde_json::{Value, json};

use super::scene::{self, Scene};

/// The client with the requests of all agents waiting, and no rule that allows anything.
fn scene(script: Script) -> Result<Option<Scene<Claude>>> {
    let Some(scene) = scene::claude(script)? else { return Ok(None) };
    scene.configure("[approvals]\nwait_for = \"all\"\n")?;
    scene.baton(&["install", "--yes", "--settings"])?;
    Ok(Some(scene))
}

/// The first waiting request that fits, once there is one.
fn waiting(scene: &Scene<Claude>, fits: impl Fn(&Value) -> bool) -> Result<Value> {
    scene.wait_for("a request", || {
        let finished =
            scene.place.launch(crate::BATON).args(&["approvals", "--json"]).run(baton_testkit::wait::LONG)?;
        let rows: Value = serde_json::from_str(&finished.stdout).unwrap_or(json!([]));
        Ok(rows.as_array().into_iter().flatten().find(|row| row["state"] == "waiting" && fits(row)).cloned())
    })
}

fn id(row: &Value) -> Result<&str> {
    row["short"].as_str().context("a request has an id")
}

/// The newest request that is no longer open, or nothing.
fn newest(scene: &Scene<Claude>) -> Result<Value> {
    let log = scene.place.launch(crate::BATON).args(&["approvals", "log", "--json"]);
    let rows: Value = serde_json::from_str(&log.run(baton_testkit::wait::LONG)?.stdout)?;
    Ok(rows[0].clone())
}

fn settled(scene: &Scene<Claude>, state: &str) -> Result<Value> {
    scene.wait_for(&format!("a request that is {state}"), || {
        Ok(Some(newest(scene)?).filter(|row| row["state"] == state))
    })
}

#[test]
fn it_is_allowed_denied_with_a_reason_and_edited_from_elsewhere() -> Result<()> {
    let script = Script::new()
        .turn(shell("touch allowed.txt").usage(30_000))
        .turn(shell("touch denied.txt").usage(30_000))
        .turn(shell("touch original.txt").usage(30_000))
        .turn(text("All three are done.").usage(30_000));
    let Some(scene) = scene(script)? else { return Ok(()) };
    let pane = scene.start()?;
    pane.submit("touch some files")?;
    let row = waiting(&scene, |row| row["input"]["command"] == "touch allowed.txt")?;
    // The dialog is open at the same time.
    scene.hear(&pane, "Do you want to proceed?")?;
    scene.baton(&["approve", id(&row)?])?;

    let row = waiting(&scene, |row| row["input"]["command"] == "touch denied.txt")?;
    assert_eq!(newest(&scene)?["state"], "allowed", "its tool has run");
    scene.baton(&["deny", id(&row)?, "Not this file: keep the folder clean."])?;

    let row = waiting(&scene, |row| row["input"]["command"] == "touch original.txt")?;
    let edit = scene.place.launch(crate::BATON).args(&["approve", id(&row)?, "--edit"]);
    let edited = edit.env("EDITOR", "sed -i s/original/edited/").run(baton_testkit::wait::LONG)?;
    assert_eq!(edited.code, Some(0), "{edited:?}");
    scene.hear(&pane, "All three are done.")?;

    let there = |name: &str| scene.place.project().join(name).exists();
    assert_eq!(
        ["allowed.txt", "denied.txt", "original.txt", "edited.txt"].map(there),
        [true, false, false, true]
    );
    let told = scene.asked()[2].text();
    assert!(told.contains("Not this file: keep the folder clean."), "{told}");
    scene.wait_for("the end of the turn", || Ok((scene.logged("stop") > 0).then_some(())))?;
    let log = scene.json(&["approvals", "log", "--json"])?;
    let states: Vec<&str> =
        log.as_array().into_iter().flatten().filter_map(|r| r["state"].as_str()).collect();
    assert_eq!(states, ["allowed", "denied", "allowed"]);
    scene.exit(&pane)
}

#[test]
fn a_tool_allowed_for_the_session_is_not_asked_about_again() -> Result<()> {
    let script = Script::new()
        .turn(shell("touch one.txt").usage(30_000))
        .turn(shell("touch one.txt").usage(30_000))
        .turn(text("Twice.").usage(30_000));
    let Some(scene) = scene(script)? else { return Ok(()) };
    let pane = scene.start()?;
    pane.submit("touch it twice")?;
    let row = waiting(&scene, |_| true)?;
    scene.baton(&["approve", id(&row)?, "--session"])?;
    scene.hear(&pane, "Twice.")?;
    assert_eq!(scene.logged("approval-asked"), 1);
    scene.exit(&pane)
}

#[test]
fn a_question_is_answered_by_an_option_and_by_a_text() -> Result<()> {
    let question = |text: &str| {
        json!({ "questions": [{ "question": text, "header": "Colour", "multiSelect": false,
            "options": [{ "label": "Red", "description": "warm" }, { "label": "Blue", "description": "cool" }] }] })
    };
    let script = Script::new()
        .turn(tool("AskUserQuestion", question("Which colour?")).usage(30_000))
        .turn(tool("AskUserQuestion", question("And the frame?")).usage(30_000))
        .turn(text("I know both.").usage(30_000));
    let Some(scene) = scene(script)? else { return Ok(()) };
    let pane = scene.start()?;
    pane.submit("ask me")?;
    let row = waiting(&scene, |row| row["questions"][0]["question"] == "Which colour?")?;
    scene.baton(&["answer", id(&row)?, "2"])?;
    let row = waiting(&scene, |row| row["questions"][0]["question"] == "And the frame?")?;
    scene.baton(&["answer", id(&row)?, "a darker red"])?;
    scene.hear(&pane, "I know both.")?;
    let asked = scene.asked();
    assert!(asked[1].text().contains("Blue"), "{}", asked[1].text());
    assert!(asked[2].text().contains("a darker red"), "{}", asked[2].text());
    settled(&scene, "allowed")?;
    scene.exit(&pane)
}

#[test]
fn the_first_to_press_enter_at_the_terminal_has_answered() -> Result<()> {
    let script =
        Script::new().turn(shell("touch here.txt").usage(30_000)).turn(text("It is here.").usage(30_000));
    let Some(scene) = scene(script)? else { return Ok(()) };
    let pane = scene.start()?;
    pane.submit("touch a file")?;
    let row = waiting(&scene, |_| true)?;
    scene.hear(&pane, "Do you want to proceed?")?;
    // A key pressed while the dialog is being drawn is lost, as it is for a person.
    scene.wait_until("the end of the dialog", || {
        let is_open = pane.screen().is_ok_and(|screen| screen.contains("Do you want to proceed?"));
        !is_open || pane.keys(&["Enter"]).is_err()
    })?;
    scene.hear(&pane, "It is here.")?;
    let record = settled(&scene, "closed")?;
    assert_eq!(record["answer"]["because"], "answered-at-terminal");
    assert!(scene.baton(&["deny", id(&row)?, "too late"]).is_err());
    scene.exit(&pane)
}

#[test]
fn a_headless_clients_request_waits_too_and_the_answer_is_obeyed() -> Result<()> {
    let script =
        Script::new().turn(shell("touch headless.txt").usage(30_000)).turn(text("Touched.").usage(30_000));
    let Some(scene) = scene(script)? else { return Ok(()) };
    std::thread::scope(|scope| -> Result<()> {
        let launch = scene.client.launch().args(&["-p", "touch a file"]);
        let run = scope.spawn(move || launch.run(baton_testkit::wait::LONG));
        let row = waiting(&scene, |_| true)?;
        scene.baton(&["approve", id(&row)?])?;
        let finished = run.join().expect("the client was started")?;
        assert!(finished.stdout.contains("Touched."), "{finished:?}");
        Ok(())
    })?;
    assert!(scene.place.project().join("headless.txt").exists());
    Ok(())
}

#[test]
fn a_client_that_is_killed_leaves_nothing_waiting() -> Result<()> {
    let script = Script::new().otherwise(shell("touch never.txt").usage(30_000));
    let Some(scene) = scene(script)? else { return Ok(()) };
    let pane = scene.start()?;
    pane.submit("touch a file")?;
    waiting(&scene, |_| true)?;
    scene.end_terminals();
    let record = settled(&scene, "closed")?;
    // A client that loses its terminal tells its hooks to end, and lives on for a while.
    let because = record["answer"]["because"].as_str().unwrap_or_default();
    assert!(["client-gone", "session-ended", "hook-gone", "dismissed"].contains(&because), "{record}");
    assert!(!scene.place.project().join("never.txt").exists());
    Ok(())
}

/// Presses a key until the dialog is gone, because a key pressed while it is being drawn is lost. Presses again only if
/// the first had no effect, because in the prompt box the key would mean something else.
fn press_at_dialog(scene: &Scene<Claude>, pane: &Pane<'_>, key: &str) -> Result<()> {
    scene.hear(pane, "Do you want to proceed?")?;
    let is_gone = || pane.screen().is_ok_and(|screen| !screen.contains("Do you want to proceed?"));
    scene.wait_for("the end of the dialog", || {
        pane.keys(&[key])?;
        Ok(poll(Duration::from_secs(2), || is_gone().then_some(())))
    })
}

#[test]
fn a_refusal_at_the_terminal_is_an_answer_too() -> Result<()> {
    let script =
        Script::new().turn(shell("touch never.txt").usage(30_000)).otherwise(text("Fine.").usage(30_000));
    let Some(scene) = scene(script)? else { return Ok(()) };
    let pane = scene.start()?;
    pane.submit("touch a file")?;
    let row = waiting(&scene, |_| true)?;
    press_at_dialog(&scene, &pane, "Escape")?;
    let record = settled(&scene, "closed")?;
    assert_eq!(record["answer"]["because"], "dismissed", "the client ends the hook: {record}");
    let late =
        scene.place.launch(crate::BATON).args(&["approve", id(&row)?]).run(baton_testkit::wait::LONG)?;
    assert!(late.stderr.contains("refused or closed at the terminal"), "{late:?}");
    scene.wait_for_state("idle")?;
    assert!(!scene.place.project().join("never.txt").exists());
    scene.exit(&pane)
}

#[test]
fn a_denial_that_comes_too_late_says_so() -> Result<()> {
    let script = Script::new()
        .turn(shell("sleep 3; touch here.txt").usage(30_000))
        .turn(text("It is here.").usage(30_000));
    let Some(scene) = scene(script)? else { return Ok(()) };
    let pane = scene.start()?;
    pane.submit("touch a file")?;
    let row = waiting(&scene, |_| true)?;
    // Allowed at the terminal; nothing tells the hook before the tool has run.
    press_at_dialog(&scene, &pane, "Enter")?;
    scene.baton(&["deny", id(&row)?, "Too late."])?;
    scene.hear(&pane, "It is here.")?;
    settled(&scene, "too-late")?;
    assert!(scene.place.project().join("here.txt").exists());
    scene.exit(&pane)
}

#[test]
fn a_plan_is_shown_and_accepted_from_elsewhere() -> Result<()> {
    // The client sends the plan to its hooks once it is in the file whose path the model got.
    let is_written = AtomicBool::new(false);
    let script = Script::new()
        .react(move |request| {
            let text = format!("{} {}", request.system_text(), request.text());
            let path = text.split("create your plan at ").nth(1)?.split(".md").next()?.to_owned() + ".md";
            let input = json!({ "file_path": path, "content": "# MARK-OF-THE-PLAN\n1. Write it\n" });
            (!is_written.swap(true, Ordering::Relaxed)).then(|| tool("Write", input).usage(30_000))
        })
        .turn(tool("ExitPlanMode", json!({})).usage(30_000))
        .turn(text("The plan was taken.").usage(30_000));
    let Some(scene) = scene(script)? else { return Ok(()) };
    let pane = scene.start_as(&scene.client.launch().args(&["--permission-mode", "plan"]))?;
    pane.submit("make a plan")?;
    let row = waiting(&scene, |row| row["tool"] == "ExitPlanMode")?;
    assert!(row["input"]["plan"].as_str().is_some_and(|plan| plan.contains("MARK-OF-THE-PLAN")), "{row}");
    scene.hear(&pane, "Would you like to proceed?")?;
    scene.baton(&["approve", id(&row)?])?;
    scene.hear(&pane, "The plan was taken.")?;
    settled(&scene, "allowed")?;
    scene.exit(&pane)
}

#[test]
fn parallel_requests_of_one_turn_and_of_a_subagent_are_answered_one_by_one() -> Result<()> {
    let script = Script::new()
        .turn(shell("touch one.txt").shell("touch two.txt").usage(30_000))
        .turn(tool("Agent", json!({ "description": "Touch", "prompt": "Touch a file.", "subagent_type": "general-purpose" })).usage(30_000))
        .subagent_turn(shell("touch sub.txt").usage(10_000))
        .on_subagent(text("Touched by the subagent.").usage(10_000))
        .turn(text("All is done.").usage(30_000));
    let Some(scene) = scene(script)? else { return Ok(()) };
    let pane = scene.start()?;
    pane.submit("touch files")?;
    let command = |wanted: &'static str| move |row: &Value| row["input"]["command"] == wanted;
    let row = waiting(&scene, command("touch one.txt"))?;
    scene.baton(&["approve", id(&row)?])?;
    let row = waiting(&scene, command("touch two.txt"))?;
    scene.baton(&["deny", id(&row)?, "One is enough."])?;
    let row = waiting(&scene, |row| row["tool"] == "Bash" && row["subagent"].is_string())?;
    assert_eq!(row["input"]["command"], "touch sub.txt");
    scene.baton(&["approve", id(&row)?])?;
    let there = |name: &str| scene.place.project().join(name).exists();
    // The subagent works beside the turn, which may end before its command has run.
    scene.wait_until("what the subagent makes", || there("sub.txt"))?;
    scene.hear(&pane, "All is done.")?;
    assert_eq!(["one.txt", "two.txt"].map(there), [true, false]);
    scene.exit(&pane)
}

#[test]
fn five_agents_at_once_are_answered_from_one_place() -> Result<()> {
    let begun = Mutex::new(BTreeSet::new());
    let script = Script::new().react(move |request| {
        let said = request.text();
        let number = said.split("agent number ").nth(1)?.chars().next()?;
        let is_first = begun.lock().is_ok_and(|mut begun| begun.insert(number));
        Some(if is_first {
            shell(format!("echo done-{number} > done-{number}.txt")).usage(30_000)
        } else {
            text(format!("Agent {number} is done.")).usage(30_000)
        })
    });
    let Some(scene) = scene(script)? else { return Ok(()) };
    let panes = (1..=5).map(|_| scene.start()).collect::<Result<Vec<_>>>()?;
    for (n, pane) in panes.iter().enumerate() {
        pane.submit(&format!("you are agent number {}", n + 1))?;
    }
    for n in 1..=5 {
        let command = format!("echo done-{n} > done-{n}.txt");
        let row = waiting(&scene, |row| row["input"]["command"] == command.as_str())?;
        if n == 3 {
            scene.baton(&["deny", id(&row)?, "Not you."])?;
        } else {
            scene.baton(&["approve", "--all", "--agent", row["agent"].as_str().context("whose?")?])?;
        }
    }
    for (n, pane) in panes.iter().enumerate() {
        scene.hear(pane, &format!("Agent {} is done.", n + 1))?;
    }
    let there = |n: usize| scene.place.project().join(format!("done-{n}.txt")).exists();
    assert_eq!([1, 2, 3, 4, 5].map(there), [true, true, false, true, true]);
    Ok(())
}

#[test]
fn a_daemon_that_is_killed_and_an_uninstall_leave_the_client_its_dialog() -> Result<()> {
    let script = Script::new()
        .turn(shell("touch first.txt").usage(30_000))
        .turn(shell("touch second.txt").usage(30_000))
        .turn(text("Both are there.").usage(30_000));
    let Some(scene) = scene(script)? else { return Ok(()) };
    let serve = || -> Result<Child> {
        let mut command = scene.place.launch(crate::BATON).arg("serve").command();
        Ok(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?)
    };
    let mut served = serve()?;
    let pane = scene.start()?;
    pane.submit("touch two files")?;
    waiting(&scene, |_| true)?;
    served.kill()?;
    served.wait()?;
    let mut served = serve()?;
    let row = waiting(&scene, |_| true)?;
    scene.baton(&["approve", id(&row)?])?;
    waiting(&scene, |row| row["input"]["command"] == "touch second.txt")?;
    scene.baton(&["uninstall", "--yes"])?;
    assert_eq!(settled(&scene, "closed")?["answer"]["because"], "withdrawn");
    // The client's own dialog is left.
    press_at_dialog(&scene, &pane, "Enter")?;
    scene.hear(&pane, "Both are there.")?;
    served.kill()?;
    served.wait()?;
    let there = |name: &str| scene.place.project().join(name).exists();
    assert_eq!(["first.txt", "second.txt"].map(there), [true, true]);
    scene.exit(&pane)
}
