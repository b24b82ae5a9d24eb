//! Readings that scripts report, and the latches they share with hooks (seed 002).

use baton_testkit::Home;
use baton_testkit::daemon::Served;
use baton_testkit::wait::wait_until;
use serde_json::{Value, json};

use super::{queued, started, usage};
use crate::BATON;

#[test]
fn the_warning_comes_once_at_50_and_the_request_once_at_65() {
    let home = Home::new(BATON);
    let _client = started(&home);
    let served = Served::new(&home);
    let told = |percentage| served.post("/hooks/context-usage", &usage("app", percentage));
    assert_eq!(told(30), json!({ "status": "ok", "used_percentage": 30 }));
    assert!(queued(&served, "app").is_empty());
    for percentage in [50, 50, 51, 55, 50] {
        told(percentage);
        assert_eq!(served.get("/sessions/app")["level"], "WARN");
    }
    let waiting = queued(&served, "app");
    assert_eq!(waiting.len(), 1, "{waiting:?}");
    assert!(waiting[0].1.starts_with("[baton] Context is 50% full"), "{waiting:?}");
    assert_eq!(waiting[0].0, "important");
    for percentage in [65, 70, 65, 66] {
        told(percentage);
    }
    let waiting = queued(&served, "app");
    assert_eq!(waiting.len(), 2, "{waiting:?}");
    assert!(waiting[1].1.contains("baton handoff"), "{waiting:?}");
    assert_eq!(waiting[1].0, "important");
    assert_eq!(served.get("/sessions/app")["used_percentage"], 66);
}

/// The files that older scripts read are written after the answers: the last of several readings wins, and a daemon
/// that stops has written it.
#[test]
fn files_for_scripts_hold_the_last_reading() {
    let home = Home::new(BATON);
    let client = started(&home);
    let served = Served::new(&home);
    let told = |percentage| served.post("/hooks/context-usage", &usage("app", percentage));
    let percentage = || std::fs::read_to_string(client.percentage_file()).unwrap_or_default();
    let status = || std::fs::read_to_string(home.path().join(".claude/.context-status")).unwrap_or_default();
    // One digit, two digits and one again, so that the file is both replaced and overwritten.
    for round in 0..20 {
        for n in [9, 10, 11, 67, 66, 8, 7] {
            told(n);
        }
        told(if round % 2 == 0 { 12 } else { 6 });
        let last = if round % 2 == 0 { "12" } else { "6" };
        wait_until("the last percentage is there", || percentage() == last);
    }
    wait_until("the last status is there", || status().starts_with("OK:"));
    told(68);
    home.run("serve --stop").ok();
    assert_eq!(percentage(), "68");
    assert!(status().starts_with("CRITICAL:"), "{}", status());
    let _ = std::fs::remove_file(client.percentage_file());
}

/// A script's reading is written a moment after its answer; a hook that ran in between knows more than the script.
#[test]
fn a_late_reading_does_not_override_a_hook() {
    let home = Home::new(BATON);
    let client = started(&home);
    let served = Served::new(&home);
    let gauge = home.state().join(format!("sessions/{}.gauge", client.session));
    for percentage in 20..40 {
        served.post("/hooks/context-usage", &usage("app", percentage));
        let hooks = json!({ "reading": null, "level": "OK", "model": format!("opus-{percentage}"), "window": null,
            "status": "", "percentage": null });
        let new = gauge.with_extension("new");
        std::fs::write(&new, format!("{hooks}\n")).unwrap();
        std::fs::rename(new, &gauge).unwrap();
        // Whichever of the two came first, the hook's reading wins, in the file and in the API.
        let seen = || served.get("/sessions/app");
        wait_until("the hook's word is seen", || {
            seen()["model"] == format!("opus-{percentage}") && seen()["tokens"].is_null()
        });
        assert_eq!(baton_testkit::home::record(&gauge)["model"], format!("opus-{percentage}"));
    }
    home.run("serve --stop").ok();
    assert_eq!(baton_testkit::home::record(&gauge)["model"], "opus-39");
}

/// Regression test from the seed: a reading below the threshold re-arms no latch.
#[test]
fn a_lower_reading_re_arms_nothing_and_a_compaction_does_even_at_55() {
    let home = Home::new(BATON);
    let client = started(&home);
    let served = Served::new(&home);
    let told = |percentage| served.post("/hooks/context-usage", &usage("app", percentage));
    told(52);
    told(67);
    told(10);
    told(53);
    told(68);
    assert_eq!(queued(&served, "app").len(), 2);
    client.answers(136_000);
    let compaction = json!({ "session_id": "app", "event": "compaction", "trigger": "auto" });
    for _ in 0..3 {
        let answer = served.post("/hooks/context-usage", &compaction);
        assert_eq!(answer, json!({ "status": "compaction_logged" }));
    }
    assert_eq!(
        home.run("handoffs --json").json().as_array().unwrap().len(),
        1,
        "one compaction, one handoff"
    );
    told(55);
    told(55);
    assert_eq!(queued(&served, "app").len(), 3, "one more warning in the new cycle");
    // The next compaction follows without any record in between that the transcript could show.
    served.post("/hooks/context-usage", &compaction);
    told(56);
    assert_eq!(queued(&served, "app").len(), 4);
}

#[test]
fn hook_and_script_share_the_latch() {
    let home = Home::new(BATON);
    let client = started(&home);
    let served = Served::new(&home);
    client.answers(104_000);
    assert!(client.hook("PostToolUse").context().unwrap().contains("52% full"));
    served.post("/hooks/context-usage", &usage("app", 53));
    assert!(queued(&served, "app").is_empty(), "said already, by the hook");
    served.post("/hooks/context-usage", &usage("app", 66));
    client.answers(134_000);
    let heard = client.hook("PostToolUse").context().unwrap();
    assert_eq!(
        heard.matches("[baton] Context is").count(),
        1,
        "once, as the mail that the script caused: {heard}"
    );
}

#[test]
fn fifty_reports_at_once_warn_once() {
    let home = Home::new(BATON);
    let _client = started(&home);
    let served = Served::new(&home);
    std::thread::scope(|scope| {
        for _ in 0..50 {
            scope.spawn(|| served.post("/hooks/context-usage", &usage("app", 70)));
        }
    });
    assert_eq!(queued(&served, "app").len(), 1);
}

/// Seed 002, edge cases: null before the first answer, sessions that belong to nobody.
#[test]
fn null_percentages_and_unknown_sessions_are_not_errors() {
    let home = Home::new(BATON);
    let _client = started(&home);
    let served = Served::new(&home);
    let null = json!({ "session_id": "app", "used_percentage": null, "total_input_tokens": null });
    assert_eq!(
        served.post("/hooks/context-usage", &null),
        json!({ "status": "ok", "used_percentage": null })
    );
    assert_eq!(served.get("/sessions/app")["tokens"], Value::Null);
    for body in [usage("nobody", 90), json!({}), json!({ "session_id": null }), usage("", 90)] {
        assert_eq!(served.post("/hooks/context-usage", &body), json!({ "status": "unknown_session" }));
    }
    for malformed in ["../../etc/passwd", "a b", "a/b", "\u{0}", &"x".repeat(300)] {
        let answered = served.ask("POST", "/hooks/context-usage", Some(&usage(malformed, 90)));
        assert_eq!(answered.status, 422, "{malformed:?}: {answered:?}");
    }
    for body in ["", "[]", "{\"session_id\":7}", "nonsense"] {
        let mut wire = served.unix();
        let text = format!(
            "POST /hooks/context-usage HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        wire.say(text.as_bytes()).unwrap();
        let status = wire.hear().unwrap().status;
        assert!(status == 422 || (body.is_empty() && status == 200), "{body}: {status}");
    }
}

#[test]
fn a_conversation_that_the_agent_has_left_changes_nothing() {
    let home = Home::new(BATON);
    let mut client = started(&home);
    let left = client.session.clone();
    client.clears();
    let served = Served::new(&home);
    assert_eq!(
        served.post("/hooks/context-usage", &usage(&left, 90)),
        json!({ "status": "unknown_session" })
    );
    assert_eq!(served.get("/sessions/app")["level"], "OK");
}
