//! `-p` over several contexts: one output in the promised format.

use super::*;

const THREE: &str = "context\nturn\n  tokens 20%\n  bash echo one | baton handoff -\n  say First over.\n\
                     context\nturn\n  tokens 20%\n  bash echo two | baton handoff -\n  say Second over.\n\
                     context\nturn\n  tokens 10%\n  say All done.\n";

fn headless(format: &str) -> (Home, baton_testkit::CommandOutput) {
    let home = home(THREE);
    let args = ["-p", "--output-format", format, "Do it."];
    let ran = baton_testkit::home::run(command(&home, "a", args).stdin(Stdio::null()));
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let progress: Vec<_> = ran.err.lines().collect();
    assert_eq!(progress.len(), 2, "{}", ran.err);
    assert!(
        progress.iter().all(|l| l.starts_with("baton: a continues in a fresh context from HO-")),
        "{}",
        ran.err
    );
    (home, ran)
}

#[test]
fn headless_text_is_the_last_answer_alone() {
    let (_home, ran) = headless("text");
    assert_eq!(ran.out, "All done.\n");
}

#[test]
fn headless_json_is_one_result() {
    let (_home, ran) = headless("json");
    assert_eq!(ran.out.lines().count(), 1, "{}", ran.out);
    let result: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&result["type"], &result["result"]), (&"result".into(), &"All done.".into()));
}

#[test]
fn headless_stream_json_is_everything_and_one_result_at_the_end() {
    let (home, ran) = headless("stream-json");
    let records: Vec<Value> = ran.out.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let of = |kind: &str| records.iter().filter(|r| r["type"] == kind).count();
    assert_eq!((of("system"), of("result")), (3, 1), "{}", ran.out);
    assert_eq!(records.last().unwrap()["result"], "All done.");
    assert!(of("assistant") >= 5, "{}", ran.out);
    assert_eq!(processes(&home), Vec::<i32>::new());
}

#[test]
fn a_headless_run_that_reaches_max_restarts_fails_and_names_the_handoff_that_waits() {
    let home = home(FOR_EVER);
    home.write(".config/baton/config.toml", "[run]\nmax_restarts = 2\n");
    let ran = baton_testkit::home::run(command(&home, "a", ["-p", "Do it."]).stdin(Stdio::null()));
    let err = ran.err.clone();
    assert_eq!(ran.code, Some(1), "{err}");
    assert!(err.contains("baton: no further rotation: 2 rotations in a row"), "{err}");
    let active = home.run("handoffs --json").json();
    let active = active.as_array().unwrap().iter().find(|h| h["status"] == "active").unwrap().clone();
    assert!(err.contains(&format!("handoff {} waits", active["id"].as_str().unwrap())), "{err}");
}
