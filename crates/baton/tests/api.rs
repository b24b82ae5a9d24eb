//! The API as scripts meet it: shapes, ids, the latches, mail, events, and that its description is true.

use std::collections::BTreeSet;
use std::process::Stdio;

use baton_testkit::Home;
use baton_testkit::daemon::{Served, Wire};
use baton_testkit::hooks::Client;
use serde_json::{Value, json};

use crate::BATON;

fn started(home: &Home) -> Client<'_> {
    let client = Client::new(home);
    client.starts("startup").silent();
    client
}

fn usage(session: &str, percentage: u64) -> Value {
    json!({ "session_id": session, "used_percentage": percentage, "total_input_tokens": percentage * 2000,
        "total_output_tokens": 300, "context_window_size": 200_000 })
}

/// The texts that wait for an agent.
fn queued(served: &Served<'_>, agent: &str) -> Vec<(String, String)> {
    let list = served.get(&format!("/sessions/{agent}/messages?state=queued"));
    let text = |m: &Value, key: &str| m[key].as_str().unwrap().to_owned();
    list["messages"].as_array().unwrap().iter().map(|m| (text(m, "urgency"), text(m, "text"))).collect()
}

#[test]
fn names_and_conversation_ids_all_mean_the_agent() {
    let home = Home::new(BATON);
    let mut client = started(&home);
    let first = client.session.clone();
    client.clears();
    let served = Served::new(&home);
    for id in ["app-1", &first, &client.session] {
        let agent = served.get(&format!("/sessions/{id}"));
        assert_eq!((&agent["id"], &agent["session"]), (&json!("app-1"), &json!(client.session)), "{id}");
    }
    assert_eq!(served.ask("GET", "/sessions/nobody", None).status, 404);
    let all = served.get("/sessions");
    assert_eq!(all["sessions"].as_array().unwrap().len(), 1);
    assert_eq!(all["sessions"][0], served.get("/sessions/app-1"));
}

/// Whatever a hook writes is seen by the very next request: files are the truth.
#[test]
fn what_hooks_write_is_shown_at_once() {
    let home = Home::new(BATON);
    let served = Served::new(&home);
    assert_eq!(served.get("/sessions")["sessions"], json!([]));
    let client = started(&home);
    assert_eq!(served.get("/sessions/app-1")["state"], "idle");
    for n in 1..=20_u64 {
        client.answers(n * 1000);
        client.hook("PostToolUse").ok();
        let agent = served.get("/sessions/app-1");
        assert_eq!((&agent["tokens"], &agent["tokens_used"]), (&json!(n * 1000), &json!(n * 1000)));
        assert_eq!(agent["state"], "working");
        home.run("send app-1 hello").ok();
        assert_eq!(served.get("/sessions/app-1")["mail"], 1, "the hook before this one took the last");
    }
    client.answers(134_000);
    client.hook("UserPromptSubmit").ok();
    assert_eq!(served.get("/sessions/app-1")["level"], "CRITICAL");
    client.hook("SessionEnd").ok();
    assert_eq!(served.get("/sessions/app-1")["state"], "ended");
}

#[test]
fn an_agent_whose_process_is_killed_is_shown_as_dead() {
    let home = Home::new(BATON);
    let client = started(&home);
    let served = Served::new(&home);
    assert_eq!(served.get("/sessions/app-1")["state"], "idle");
    drop(client);
    crate::serve::wait_until("its end is seen", || served.get("/sessions/app-1")["state"] == "dead");
}

// Seed 002, test plan 2: the one-shot flags.

#[test]
fn the_warning_comes_once_at_50_and_the_request_once_at_65() {
    let home = Home::new(BATON);
    let _client = started(&home);
    let served = Served::new(&home);
    let told = |percentage| served.post("/hooks/context-usage", &usage("app-1", percentage));
    assert_eq!(told(30), json!({ "status": "ok", "used_percentage": 30 }));
    assert!(queued(&served, "app-1").is_empty());
    for percentage in [50, 50, 51, 55, 50] {
        told(percentage);
        assert_eq!(served.get("/sessions/app-1")["level"], "WARN");
    }
    let waiting = queued(&served, "app-1");
    assert_eq!(waiting.len(), 1, "{waiting:?}");
    assert!(waiting[0].1.starts_with("[baton] Context is 50% full"), "{waiting:?}");
    assert_eq!(waiting[0].0, "sequential");
    for percentage in [65, 70, 65, 66] {
        told(percentage);
    }
    let waiting = queued(&served, "app-1");
    assert_eq!(waiting.len(), 2, "{waiting:?}");
    assert!(waiting[1].1.contains("baton handoff"), "{waiting:?}");
    assert_eq!(waiting[1].0, "important");
    assert_eq!(served.get("/sessions/app-1")["used_percentage"], 66);
}

/// The files of older scripts are written beside the answers: the last of many counts, and a daemon that stops has
/// written it.
#[test]
fn what_scripts_read_in_files_is_what_was_told_last() {
    let home = Home::new(BATON);
    let client = started(&home);
    let served = Served::new(&home);
    let told = |percentage| served.post("/hooks/context-usage", &usage("app-1", percentage));
    let percentage = || std::fs::read_to_string(client.percentage_file()).unwrap_or_default();
    let status = || std::fs::read_to_string(home.path().join(".claude/.context-status")).unwrap_or_default();
    // One digit, two and one again: replaced and written over in turn.
    for round in 0..20 {
        for n in [9, 10, 11, 67, 66, 8, 7] {
            told(n);
        }
        told(if round % 2 == 0 { 12 } else { 6 });
        let last = if round % 2 == 0 { "12" } else { "6" };
        crate::serve::wait_until("the last percentage is there", || percentage() == last);
    }
    crate::serve::wait_until("the last status is there", || status().starts_with("OK:"));
    told(68);
    home.run("serve --stop").ok();
    assert_eq!(percentage(), "68");
    assert!(status().starts_with("CRITICAL:"), "{}", status());
    let _ = std::fs::remove_file(client.percentage_file());
}

/// A script's reading is written a moment after its answer; a hook that spoke in between saw more than the script.
#[test]
fn a_reading_that_is_told_late_takes_nothing_back_from_a_hook() {
    let home = Home::new(BATON);
    let client = started(&home);
    let served = Served::new(&home);
    let gauge = home.state().join(format!("sessions/{}.gauge", client.session));
    for percentage in 20..40 {
        served.post("/hooks/context-usage", &usage("app-1", percentage));
        let hooks = json!({ "reading": null, "level": "OK", "model": format!("opus-{percentage}"), "window": null,
            "status": "", "percentage": null });
        let new = gauge.with_extension("new");
        std::fs::write(&new, format!("{hooks}\n")).unwrap();
        std::fs::rename(new, &gauge).unwrap();
        // Whichever of the two came first: what the hook wrote is the last word, in the file and in the API.
        let seen = || served.get("/sessions/app-1");
        crate::serve::wait_until("the hook's word is seen", || {
            seen()["model"] == format!("opus-{percentage}") && seen()["tokens"].is_null()
        });
        assert_eq!(baton_testkit::home::record(&gauge)["model"], format!("opus-{percentage}"));
    }
    home.run("serve --stop").ok();
    assert_eq!(baton_testkit::home::record(&gauge)["model"], "opus-39");
}

/// A mailbox belongs to whoever makes it, who puts it on disk; the daemon only waits for its queue.
#[test]
fn a_mailbox_that_is_half_made_is_left_alone_and_its_mail_is_seen() {
    let home = Home::new(BATON);
    let _client = started(&home);
    let served = Served::new(&home);
    assert_eq!(served.get("/sessions/app-1")["mail"], 0);
    let mailbox = home.state().join("mail/app-1");
    std::fs::create_dir_all(&mailbox).unwrap();
    assert_eq!(served.get("/sessions/app-1")["mail"], 0);
    assert!(!mailbox.join("new").exists(), "the daemon has made it");
    for n in 1..=3 {
        home.run("send app-1 hello").ok();
        assert_eq!(served.get("/sessions/app-1")["mail"], n);
    }
}

/// Anti-regression of the seed: a reading below the threshold opens no latch.
#[test]
fn a_lower_reading_re_arms_nothing_and_a_compaction_does_even_at_55() {
    let home = Home::new(BATON);
    let client = started(&home);
    let served = Served::new(&home);
    let told = |percentage| served.post("/hooks/context-usage", &usage("app-1", percentage));
    told(52);
    told(67);
    told(10);
    told(53);
    told(68);
    assert_eq!(queued(&served, "app-1").len(), 2);
    client.answers(136_000);
    let compaction = json!({ "session_id": "app-1", "event": "compaction", "trigger": "auto" });
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
    assert_eq!(queued(&served, "app-1").len(), 3, "one more warning in the new cycle");
    // The next compaction without a word in between that the transcript could show.
    served.post("/hooks/context-usage", &compaction);
    told(56);
    assert_eq!(queued(&served, "app-1").len(), 4);
}

#[test]
fn hook_and_script_share_the_latch() {
    let home = Home::new(BATON);
    let client = started(&home);
    let served = Served::new(&home);
    client.answers(104_000);
    assert!(client.hook("PostToolUse").context().unwrap().contains("52% full"));
    served.post("/hooks/context-usage", &usage("app-1", 53));
    assert!(queued(&served, "app-1").is_empty(), "said already, by the hook");
    served.post("/hooks/context-usage", &usage("app-1", 66));
    client.answers(134_000);
    let heard = client.hook("PostToolUse").context().unwrap();
    assert_eq!(
        heard.matches("[baton] Context is").count(),
        1,
        "once, as the mail that the script caused: {heard}"
    );
}

#[test]
fn fifty_reports_at_once_say_it_once() {
    let home = Home::new(BATON);
    let _client = started(&home);
    let served = Served::new(&home);
    std::thread::scope(|scope| {
        for _ in 0..50 {
            scope.spawn(|| served.post("/hooks/context-usage", &usage("app-1", 70)));
        }
    });
    assert_eq!(queued(&served, "app-1").len(), 1);
}

/// Seed 002, edge cases: null before the first answer, sessions of nobody.
#[test]
fn null_percentages_and_unknown_sessions_are_no_errors() {
    let home = Home::new(BATON);
    let _client = started(&home);
    let served = Served::new(&home);
    let null = json!({ "session_id": "app-1", "used_percentage": null, "total_input_tokens": null });
    assert_eq!(
        served.post("/hooks/context-usage", &null),
        json!({ "status": "ok", "used_percentage": null })
    );
    assert_eq!(served.get("/sessions/app-1")["tokens"], Value::Null);
    for body in [usage("nobody", 90), json!({}), json!({ "session_id": null }), usage("../../etc/passwd", 90)]
    {
        assert_eq!(served.post("/hooks/context-usage", &body), json!({ "status": "unknown_session" }));
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
    assert_eq!(served.get("/sessions/app-1")["level"], "OK");
}

// Seed 004: the endpoint.

#[test]
fn a_handoff_is_scheduled_by_the_agent_itself_and_carried_out_when_its_turn_ends() {
    let home = Home::new(BATON);
    let client = started(&home);
    let served = Served::new(&home);
    client.answers(50_000);
    client.hook("UserPromptSubmit").ok();
    let first = home.write("first.md", "# First\nNot this one.");
    let last = home.write("last.md", "# Last\nThe next step is the parser.");
    for path in [&first, &last] {
        let body = json!({ "requester_session_id": "app-1", "file_path": path });
        assert_eq!(served.post("/sessions/app-1/handoff", &body), json!({ "status": "scheduled" }));
    }
    assert_eq!(served.get("/sessions/app-1")["pending_handoff_path"], json!(last));
    assert_eq!(served.get("/sessions/app-1")["last_handoff_path"], Value::Null);
    client.hook("Stop").ok();
    let agent = served.get("/sessions/app-1");
    let document = std::fs::read_to_string(agent["last_handoff_path"].as_str().unwrap()).unwrap();
    assert!(
        document.contains("The next step is the parser.") && !document.contains("Not this one"),
        "last wins"
    );
    assert_eq!(agent["pending_handoff_path"], Value::Null);
}

#[test]
fn a_handoff_for_another_session_without_a_file_or_of_nobody_is_refused_with_the_seeds_words() {
    let home = Home::new(BATON);
    let client = started(&home);
    let other = Client::new(&home);
    other.starts("startup").silent();
    let served = Served::new(&home);
    let file = home.write("handoff.md", "# Words");
    let ask = |id: &str, requester: &str, path: &std::path::Path| {
        let body = json!({ "requester_session_id": requester, "file_path": path });
        let answered = served.ask("POST", &format!("/sessions/{id}/handoff"), Some(&body));
        (answered.status, answered.json()["error"].as_str().unwrap_or_default().to_owned())
    };
    let words = "sm handoff is self-directed only — requester must equal target session";
    assert_eq!(ask("app-1", "app-2", &file), (403, words.into()));
    assert_eq!(ask("nobody", "nobody", &file), (404, "Session nobody not found".into()));
    let missing = home.path().join("nonexistent.md");
    assert_eq!(ask("app-1", "app-1", &missing), (422, format!("File not found: {}", missing.display())));
    assert_eq!(ask("app-1", "app-1", std::path::Path::new("/dev/zero")).0, 422);
    assert_eq!(ask("app-1", &client.session, &file).0, 200, "its conversation is the agent itself");
    // A codex-app session has no terminal to clear.
    let path = home.state().join("agents/app-2.json");
    let record = std::fs::read_to_string(&path).unwrap().replace("\"claude\"", "\"codex-app\"");
    std::fs::write(&path, record).unwrap();
    let words = "sm handoff is not supported for codex-app sessions";
    assert_eq!(ask("app-2", "app-2", &file), (409, words.into()));
}

#[test]
fn messages_are_accepted_listed_and_sent_once_per_key() {
    let home = Home::new(BATON);
    let client = started(&home);
    let served = Served::new(&home);
    let letter = json!({ "text": "hello", "from": "app-7", "urgency": "important", "key": "k-1" });
    let sent = served.post("/sessions/app-1/messages", &letter);
    assert_eq!(sent["state"], "queued");
    let again = served.post("/sessions/app-1/messages", &letter);
    assert_eq!((&again["id"], &again["state"]), (&sent["id"], &json!("known")));
    let heard = client.hook("PostToolUse").context().unwrap();
    assert_eq!(heard.matches("hello").count(), 1, "{heard}");
    assert!(heard.contains(" from app-7]"), "{heard}");
    let third = served.post("/sessions/app-1/messages", &letter);
    assert_eq!(third["state"], "known", "a delivered one is not sent again");
    client.hook("PostToolUse").silent();
    let list = served.get("/sessions/app-1/messages");
    assert_eq!(list["messages"][0]["state"], "delivered");
    let status = |body: &Value| served.ask("POST", "/sessions/app-1/messages", Some(body)).status;
    assert_eq!(status(&json!({ "text": " " })), 422);
    assert_eq!(status(&json!({ "text": "x", "from": "../x" })), 422);
    assert_eq!(status(&json!({ "text": "x", "key": "../x" })), 422);
    assert_eq!(status(&json!({ "text": "x", "urgency": "whenever" })), 422);
    assert_eq!(served.ask("POST", "/sessions/nobody/messages", Some(&json!({ "text": "x" }))).status, 404);
}

/// The next whole event of a stream.
fn event(wire: &mut Wire) -> (String, String, Value) {
    let (mut id, mut name) = (String::new(), String::new());
    loop {
        let line = wire.line().unwrap();
        assert!(!line.starts_with(": still here"), "no event came for half a minute");
        if let Some(rest) = line.strip_prefix("id: ") {
            rest.trim_end().clone_into(&mut id);
        } else if let Some(rest) = line.strip_prefix("event: ") {
            rest.trim_end().clone_into(&mut name);
        } else if let Some(rest) = line.strip_prefix("data: ") {
            return (id, name, serde_json::from_str(rest).unwrap());
        }
    }
}

fn listen(served: &Served<'_>, path: &str, last: Option<&str>) -> Wire {
    let mut wire = served.unix();
    let last = last.map_or_else(String::new, |id| format!("Last-Event-ID: {id}\r\n"));
    wire.say(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{last}\r\n").as_bytes()).unwrap();
    let head = wire.hear_head().unwrap();
    assert_eq!((head.status, head.header("content-type").map(str::trim)), (200, Some("text/event-stream")));
    wire
}

#[test]
fn events_come_as_they_happen_and_a_reader_goes_on_where_it_was() {
    let home = Home::new(BATON);
    let client = started(&home);
    let served = Served::new(&home);
    let mut wire = listen(&served, "/events?agent=app-1", None);
    client.hook("UserPromptSubmit").ok();
    let (id, name, data) = event(&mut wire);
    assert_eq!((name.as_str(), &data["agent"]), ("UserPromptSubmit", &json!("app-1")));
    drop(wire);
    client.hook("PostToolUse").ok();
    served.kill();
    client.hook("Stop").ok();
    let served = Served::new(&home);
    let mut wire = listen(&served, "/events?agent=app-1", Some(&id));
    assert_eq!(event(&mut wire).1, "PostToolUse");
    assert_eq!(event(&mut wire).1, "stop");
}

/// The scripts of the second seed, unchanged but for the token header and the port.
#[test]
fn the_scripts_of_the_second_seed_work_against_it() {
    let there = |tool: &str| {
        std::process::Command::new(tool).arg("--version").output().is_ok_and(|o| o.status.success())
    };
    if !["bash", "jq", "curl"].into_iter().all(there) {
        eprintln!("SKIPPED: bash, jq and curl are needed (scripts/test installs them)");
        return;
    }
    let home = Home::new(BATON);
    let client = started(&home);
    let served = Served::on_http(&home);
    let at = served.http.clone().unwrap();
    let ours = |script: &str| {
        script
            .replace("http://localhost:8420", &format!("http://{}", at.replace("127.0.0.1", "localhost")))
            .replace(
                "curl -s ",
                &format!(
                    "curl -s -H \"Authorization: Bearer $(cat {})\" ",
                    home.state().join("run/token").display()
                ),
            )
    };
    let run = |script: &str, agent: Option<&str>, input: &Value| {
        let path = home.write("hook.sh", ours(script));
        let mut command = home.command("bash");
        command.arg(path).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(agent) = agent {
            command.env("CLAUDE_SESSION_MANAGER_ID", agent);
        }
        baton_testkit::hooks::send(command, input.to_string().as_bytes())
    };
    let line = |percentage: u64| {
        json!({ "session_id": client.session, "context_window": { "total_input_tokens": percentage * 2000,
            "total_output_tokens": 4521, "context_window_size": 200_000, "used_percentage": percentage } })
    };
    // 1: the status line's script.
    let heard = run(MONITOR, Some("app-1"), &line(52));
    assert_eq!((heard.code, heard.out.as_str()), (Some(0), "52% ctx\n"), "{heard:?}");
    crate::serve::wait_until("the reading arrives", || {
        served.get("/sessions/app-1")["tokens_used"] == 104_000
    });
    crate::serve::wait_until("the warning is queued", || queued(&served, "app-1").len() == 1);
    let mut unknown = line(0);
    unknown["context_window"]["used_percentage"] = Value::Null;
    assert_eq!(run(MONITOR, Some("app-1"), &unknown).code, Some(0));
    assert_eq!(run(MONITOR, None, &line(99)).out, "99% ctx\n", "a session that nobody manages");
    assert_eq!(served.get("/sessions/app-1")["used_percentage"], 52);
    // 4: recovery without a handoff says nothing.
    let compact = json!({ "source": "compact" });
    assert_eq!(run(RECOVERY, Some("app-1"), &compact).out, "");
    // 3: PreCompact.
    client.answers(104_000);
    assert_eq!(run(PRECOMPACT, Some("app-1"), &json!({ "trigger": "auto" })).code, Some(0));
    assert_eq!(client.kept()["latches"]["warned"], false, "the latches are open again");
    // 4: recovery with one gives it back.
    let words = home.write("handoff.md", "# Words\nThe parser is next.");
    let body = json!({ "requester_session_id": "app-1", "file_path": words });
    served.post("/sessions/app-1/handoff", &body);
    client.hook("Stop").ok();
    let recovered = run(RECOVERY, Some("app-1"), &compact);
    let answer: Value = serde_json::from_str(&recovered.out).unwrap_or_else(|e| panic!("{e}: {recovered:?}"));
    let text = answer["hookSpecificOutput"]["additionalContext"].as_str().unwrap();
    assert!(text.contains("The parser is next."), "{text}");
    // Edge case: the server is down, the script does not mind.
    served.kill();
    assert_eq!(run(MONITOR, Some("app-1"), &line(53)).out, "53% ctx\n");
    assert_eq!(run(RECOVERY, Some("app-1"), &compact).code, Some(0));
}

const MONITOR: &str = include_str!("scripts/context_monitor.sh");
const PRECOMPACT: &str = include_str!("scripts/precompact_notify.sh");
const RECOVERY: &str = include_str!("scripts/post_compact_recovery.sh");

/// What does not fit the schema, with the way to it.
fn misfits(schemas: &Value, schema: &Value, value: &Value, at: &str) -> Vec<String> {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.rsplit('/').next().unwrap();
        return misfits(schemas, &schemas[name], value, at);
    }
    let mut wrong = Vec::new();
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_u64() || n.is_i64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let allowed: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(many) => many.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if !(allowed.is_empty() || allowed.contains(&kind) || kind == "integer" && allowed.contains(&"number")) {
        wrong.push(format!("{at} is {kind}, not {allowed:?}"));
    }
    if schema["enum"].as_array().is_some_and(|values| !values.contains(value)) {
        wrong.push(format!("{at} is {value}, not one of {}", schema["enum"]));
    }
    if let Value::Object(fields) = value {
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !fields.contains_key(name) {
                wrong.push(format!("{at}.{name} is missing"));
            }
        }
        for (name, value) in fields {
            match &schema["properties"][name] {
                Value::Null if schema["additionalProperties"] == false => {
                    wrong.push(format!("{at}.{name} is not described"));
                }
                Value::Null => {}
                inner => wrong.extend(misfits(schemas, inner, value, &format!("{at}.{name}"))),
            }
        }
    }
    for (n, item) in value.as_array().into_iter().flatten().enumerate() {
        wrong.extend(misfits(schemas, &schema["items"], item, &format!("{at}[{n}]")));
    }
    wrong
}

#[test]
fn the_description_is_true_for_every_route_and_every_answer() {
    let home = Home::new(BATON);
    let client = started(&home);
    client.answers(104_000);
    client.hook("PostToolUse").ok();
    let served = Served::on_http(&home);
    let described = served.get("/openapi.json");
    let schemas = &described["components"]["schemas"];
    let mut open: BTreeSet<String> = BTreeSet::new();
    for (path, methods) in described["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            for status in operation["responses"].as_object().unwrap().keys() {
                open.insert(format!("{} {path} {status}", method.to_uppercase()));
            }
        }
    }
    let file = home.write("handoff.md", "# Words");
    let handoff = |id: &str, path: &std::path::Path| json!({ "requester_session_id": id, "file_path": path });
    let mut check = |method: &str, route: &str, path: &str, body: Option<Value>, on_port: bool| {
        let answered = if on_port {
            let at = served.http.clone().unwrap();
            served.tcp().ask(method, path, &[("Host", &at)], body.as_ref()).unwrap()
        } else {
            served.ask(method, path, body.as_ref())
        };
        let operation = &described["paths"][route][method.to_lowercase()];
        let status = answered.status.to_string();
        let named = if operation["responses"].get(&status).is_some() { status } else { "4XX".to_owned() };
        let schema = &operation["responses"][&named]["content"]["application/json"]["schema"];
        assert!(schema.is_object(), "{method} {path} gave {}, which is not described", answered.status);
        let wrong = misfits(schemas, schema, &answered.json(), "answer");
        assert!(wrong.is_empty(), "{method} {path}: {wrong:?} in {}", answered.json());
        open.remove(&format!("{method} {route} {named}"));
        answered
    };
    for route in [
        "/health",
        "/openapi.json",
        "/sessions",
        "/events",
        "/stop",
        "/codes",
        "/hooks/context-usage",
        "/login",
    ] {
        let method = if described["paths"][route]["get"].is_object() { "GET" } else { "POST" };
        // Without a word of who asks.
        let body = (method == "POST").then(|| json!([]));
        check(method, route, route, body, true);
    }
    for route in ["/sessions/{id}", "/sessions/{id}/messages"] {
        check("GET", route, &route.replace("{id}", "app-1"), None, true);
    }
    for route in ["/sessions/{id}/messages", "/sessions/{id}/handoff"] {
        check("POST", route, &route.replace("{id}", "app-1"), Some(json!({})), true);
    }
    for route in ["/health", "/openapi.json", "/sessions"] {
        check("GET", route, route, None, false);
    }
    let (session, messages, hand) = ("/sessions/{id}", "/sessions/{id}/messages", "/sessions/{id}/handoff");
    check("GET", session, "/sessions/app-1", None, false);
    check("GET", session, "/sessions/nobody", None, false);
    check("POST", messages, "/sessions/app-1/messages", Some(json!({ "text": "hello" })), false);
    check("POST", messages, "/sessions/nobody/messages", Some(json!({ "text": "hello" })), false);
    check("POST", messages, "/sessions/app-1/messages", Some(json!({ "text": "" })), false);
    check(
        "POST",
        messages,
        "/sessions/app-1/messages",
        Some(json!({ "text": "x".repeat((1 << 20) + 1) })),
        false,
    );
    check("GET", messages, "/sessions/app-1/messages", None, false);
    check("GET", messages, "/sessions/nobody/messages", None, false);
    check("POST", hand, "/sessions/app-1/handoff", Some(handoff("app-1", &file)), false);
    check("POST", hand, "/sessions/app-1/handoff", Some(handoff("app-2", &file)), false);
    check("POST", hand, "/sessions/nobody/handoff", Some(handoff("nobody", &file)), false);
    check("POST", hand, "/sessions/app-1/handoff", Some(handoff("app-1", &home.path().join("none"))), false);
    let hook = "/hooks/context-usage";
    check("POST", hook, hook, Some(usage("app-1", 52)), false);
    check("POST", hook, hook, Some(usage("nobody", 52)), false);
    check("POST", hook, hook, Some(json!({ "session_id": "app-1", "event": "compaction" })), false);
    check("POST", hook, hook, Some(json!([])), false);
    let code = check("POST", "/codes", "/codes", Some(json!({})), false).json()["code"].clone();
    check("POST", "/login", "/login", Some(json!({ "code": code })), true);
    check("POST", "/login", "/login", Some(json!({ "code": code })), true);
    check("POST", "/login", "/login", Some(json!({ "code": "pages only" })), false);
    let path = home.state().join("agents/app-1.json");
    let record = std::fs::read_to_string(&path).unwrap().replace("\"claude\"", "\"codex-app\"");
    std::fs::write(&path, record).unwrap();
    check("POST", hand, "/sessions/app-1/handoff", Some(handoff("app-1", &file)), false);
    check("POST", "/stop", "/stop", Some(json!({})), false);
    // Streams have a test of their own; a full house needs 33 readers.
    let rest: Vec<String> = open.into_iter().filter(|what| !what.starts_with("GET /events")).collect();
    assert!(rest.is_empty(), "described, and never seen: {rest:?}");
}
