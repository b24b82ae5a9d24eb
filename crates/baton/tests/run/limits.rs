//! An agent at its usage limit is parked until the limit ends.

use super::*;

fn at_a_limit(seconds: i64) -> String {
    let reset = jiff::Timestamp::now().as_second() + seconds;
    format!(
        "context\nturn\n  tokens 5%\n  say Hello.\n  fail rate_limit Usage limit reached|{reset}\ncontext\nturn\n  say Back at work.\n"
    )
}

#[test]
fn a_usage_limit_parks_the_agent_until_it_ends() {
    let home = home(&at_a_limit(3));
    let run = start(&home, "a", ["Go."]);
    let parked = wait_for("parking", || Some(run.agent()["parked"].clone()).filter(|p| !p.is_null()));
    assert_eq!(parked["guess"], false);
    let session = run.session();
    let payload = serde_json::json!({ "session_id": session, "cwd": home.project() });
    let line = home.run_with_input("statusline", &payload.to_string()).ok();
    assert!(line.contains("limit until "), "{line}");
    run.said("Back at work.");
    assert_eq!(run.session(), session, "the same conversation continues");
    let prompts = run.of_kind("prompt");
    assert_eq!(prompts[1]["text"], "The usage limit has ended. Continue.");
    let until: jiff::Timestamp = parked["until"].as_str().unwrap().parse().unwrap();
    assert!(jiff::Timestamp::now() >= until);
    assert_eq!(run.exits().code, 0);
}

#[test]
fn with_parking_switched_off_nothing_comes_back_by_itself() {
    let home = home(&at_a_limit(1));
    home.write("work/app/.baton.toml", "[run]\npark = false\n");
    home.trust();
    let run = start(&home, "a", ["Go."]);
    wait_for("the limit", || log(&home, "stop-failure").pop());
    let left = run.exits();
    assert_eq!(left.code, 0);
    assert_eq!(log(&home, "parked").len(), 0);
}
