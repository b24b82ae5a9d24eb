//! The small screen of `baton approve`, driven by keys.

use std::time::{Duration, Instant};

use baton_testkit::pty::{Pty, code};
use serde_json::{Value, json};

use super::{PATIENCE, Waiting, ask, bash, client_ends, home, listed, started};

/// Presses a key until the waiting request has its answer, because a key that comes too soon is ignored.
fn press(pty: &mut Pty, key: &str, mut hook: Waiting) -> anyhow::Result<Value> {
    let until = Instant::now() + PATIENCE;
    while hook.child.try_wait()?.is_none() {
        anyhow::ensure!(Instant::now() < until, "the key does nothing: {}", pty.screen());
        pty.send(key)?;
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(hook.decision())
}

#[test]
fn a_key_that_was_meant_for_the_request_before_answers_nothing() -> anyhow::Result<()> {
    let home = home();
    let client = started(&home);
    let first = bash(&client, "make one");
    listed(&home, 1);
    let second = bash(&client, "rm -rf two");
    listed(&home, 2);
    let mut pty = Pty::start(&home.baton(["approve"]))?;
    pty.wait_for("make one")?;
    press(&mut pty, "a", first)?;
    press(&mut pty, "a", second)?;
    assert_eq!(code(pty.wait_for_end()?), 0);
    let log = home.run("approvals log --json").json();
    let at = |n: usize| log[n]["answer"]["at"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    // The second request was drawn after the first was answered.
    let read_for = at(0).duration_since(at(1));
    assert!(read_for >= jiff::SignedDuration::from_millis(500), "allowed unread after {read_for}");
    Ok(())
}

#[test]
fn the_small_screen_answers_one_after_the_other_with_keys() -> anyhow::Result<()> {
    let home = home();
    let client = started(&home);
    let first = bash(&client, "make one");
    listed(&home, 1);
    let second = bash(&client, "make two");
    listed(&home, 2);
    let questions = json!([{ "question": "Which?", "options": [{ "label": "Red" }, { "label": "Blue" }] }]);
    let third =
        ask(&client, json!({ "tool_name": "AskUserQuestion", "tool_input": { "questions": questions } }));
    listed(&home, 3);
    let mut pty = Pty::start(&home.baton(["approve"]))?;
    pty.wait_for("make one")?;
    pty.wait_for("2 more after this one")?;
    assert_eq!(press(&mut pty, "a", first)?, json!({ "behavior": "allow" }));
    pty.wait_for("make two")?;
    pty.send("d")?;
    pty.wait_for("word for word")?;
    pty.send("not two\r")?;
    assert_eq!(second.decision(), json!({ "behavior": "deny", "message": "not two" }));
    pty.wait_for("Which?")?;
    assert_eq!(press(&mut pty, "2", third)?["updatedInput"]["answers"]["Which?"], "Blue");
    assert_eq!(code(pty.wait_for_end()?), 0);
    pty.drained()?;
    assert!(pty.screen().contains("Nothing more waits."), "{}", pty.screen());
    let doors = home.run("approvals log --json").json();
    assert!(doors.as_array().unwrap().iter().all(|row| row["answer"]["door"] == "screen"));
    Ok(())
}

#[test]
fn a_request_that_does_not_fit_the_small_screen_is_not_allowed_with_one_key() -> anyhow::Result<()> {
    let home = home();
    let client = started(&home);
    let hook = bash(&client, &format!("echo {} && rm -rf /", "x".repeat(20_000)));
    listed(&home, 1);
    let mut pty = Pty::start(&home.baton(["approve"]))?;
    pty.wait_for("1 more lines")?;
    let until = Instant::now() + PATIENCE;
    while !pty.screen().contains("it does not fit here") {
        assert!(Instant::now() < until, "{}", pty.screen());
        pty.send("a")?;
        std::thread::sleep(Duration::from_millis(20));
    }
    listed(&home, 1);
    pty.send("q")?;
    assert_eq!(code(pty.wait_for_end()?), 0);
    client_ends(&client, hook);
    Ok(())
}
