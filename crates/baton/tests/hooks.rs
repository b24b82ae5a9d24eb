//! What each event does, and what it leaves alone.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use baton_testkit::Home;
use baton_testkit::hooks::{Client, send};
use baton_testkit::race::all_at_once;
use serde_json::{Value, json};

use crate::BATON;

/// Every file below the home with its contents.
pub fn tree(home: &Home) -> BTreeMap<String, Vec<u8>> {
    fn walk(dir: &Path, root: &Path, into: &mut BTreeMap<String, Vec<u8>>) {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                walk(&path, root, into);
            } else {
                let name = path.strip_prefix(root).unwrap().display().to_string();
                into.insert(name, std::fs::read(&path).unwrap_or_default());
            }
        }
    }
    let mut files = BTreeMap::new();
    walk(home.path(), home.path(), &mut files);
    files
}

/// Which files are new, changed or gone.
pub fn changes(before: &BTreeMap<String, Vec<u8>>, after: &BTreeMap<String, Vec<u8>>) -> Vec<String> {
    let mut changes = Vec::new();
    for (name, bytes) in after {
        match before.get(name) {
            None => changes.push(format!("+ {name}")),
            Some(old) if old != bytes => changes.push(format!("~ {name}")),
            Some(_) => {}
        }
    }
    changes.extend(before.keys().filter(|name| !after.contains_key(*name)).map(|name| format!("- {name}")));
    changes
}

/// The recorded payloads of a provider, by name.
pub fn fixtures(provider: &str) -> Vec<(String, Value)> {
    let fixtures = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../core/tests/fixtures");
    let dir = fixtures.join(provider).join("hooks");
    let mut files: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|f| f.unwrap().path())
        .map(|p| {
            let json = serde_json::from_str(&std::fs::read_to_string(&p).unwrap()).unwrap();
            (p.file_stem().unwrap().to_str().unwrap().to_owned(), json)
        })
        .collect();
    files.sort_by(|a, b| a.0.cmp(&b.0));
    files
}

/// Ids and dates differ from run to run.
fn normal(home: &Home, client: &Client<'_>, text: &str) -> String {
    let mut text = home.tidy(text).replace(&client.session, "SESSION");
    text = text.replace(&format!("processes/{}.", client.pid()), "processes/PID.");
    while let Some(at) = text.find("HO-2") {
        text.replace_range(at..at + "HO-20261116-040000-a1b2c3d4".len(), "HANDOFF");
    }
    if let Some(at) = text.find("memory/global-") {
        text.replace_range(at..at + "memory/global-0123456789ab".len(), "memory/global-FOLDER");
    }
    if let Some((folder, _)) = text.contains("mail/user/").then(|| text.rsplit_once('/')).flatten() {
        text = format!("{folder}/NOTICE");
    }
    let today = jiff::Timestamp::now().strftime("%Y-%m-%d").to_string();
    text.replace(&today, "TODAY")
}

/// Replays each recorded payload of each event in a session at 67 %: which files change, and what the hook answers.
#[test]
fn the_effects_of_every_recorded_event() {
    let mut seen = String::new();
    for (name, mut payload) in fixtures("claude") {
        let home = Home::in_memory(BATON);
        let client = Client::new(&home);
        let event = payload["hook_event_name"].as_str().unwrap().to_owned();
        if event != "SessionStart" {
            client.starts("startup").silent();
        }
        client.answers(134_000);
        for (key, value) in
            [("session_id", json!(client.session)), ("transcript_path", json!(client.transcript()))]
        {
            payload[key] = value;
        }
        payload["cwd"] = json!(home.project());
        let before = tree(&home);
        let heard = send(client.command(&event), payload.to_string().as_bytes());
        let answer = heard.answer();
        let _ = writeln!(seen, "{name}");
        for change in changes(&before, &tree(&home)) {
            let _ = writeln!(seen, "  {}", normal(&home, &client, &change));
        }
        if let Some(answer) = answer {
            let text = normal(&home, &client, &answer.to_string());
            let _ = writeln!(seen, "  = {}", text.chars().take(180).collect::<String>());
        }
    }
    insta::assert_snapshot!(seen);
}

#[test]
fn unknown_events_and_fields_are_harmless() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup").silent();
    let before = tree(&home);
    client.hook_with("TeaBreak", json!({ "hook_event_name": "TeaBreak" })).silent();
    assert_eq!(changes(&before, &tree(&home)), [""; 0]);
    client.answers(104_000);
    let novel =
        json!({ "novel": { "deep": [1, 2] }, "tool_input": 7, "agent_type": null, "cwd_history": [] });
    assert!(client.hook_with("PostToolUse", novel).context().unwrap().contains("52%"));
}

#[test]
fn a_subagents_events_change_nothing_of_the_session_it_works_for() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup").silent();
    client.answers(134_000);
    home.run("send app --important for the main agent").ok();
    let before = tree(&home);
    for event in
        ["PostToolUse", "PostToolUseFailure", "UserPromptSubmit", "Stop", "SubagentStart", "SubagentStop"]
    {
        let payload = json!({ "agent_id": "a1833b489579581dc", "agent_type": "general-purpose" });
        client.hook_with(event, payload).silent();
    }
    assert_eq!(changes(&before, &tree(&home)), [""; 0]);
    let heard = client.hook("PostToolUse").context().unwrap();
    assert!(heard.contains("67%") && heard.contains("for the main agent"), "{heard}");
}

#[test]
fn exactly_one_of_fifty_concurrent_tool_calls_carries_the_request() {
    let home = Home::in_memory(BATON);
    let client = Client::new(&home);
    client.starts("startup").silent();
    client.answers(134_000);
    assert_eq!(texts_of_fifty(&home, &client), 1);
    assert_eq!(texts_of_fifty(&home, &client), 0, "and it stays said");
}

/// Hooks installed while the session is running: the first events find no record of it.
#[test]
fn exactly_one_of_fifty_concurrent_tool_calls_in_an_unknown_session_carries_the_request() {
    let home = Home::in_memory(BATON);
    let client = Client::new(&home);
    client.answers(134_000);
    assert_eq!(texts_of_fifty(&home, &client), 1);
    assert_eq!(client.agent(), "app", "and one agent was made of it");
    let agents = std::fs::read_dir(home.state().join("agents")).unwrap();
    let records = agents.flatten().filter(|e| e.path().extension().is_some_and(|x| x == "json")).count();
    assert_eq!(records, 1);
}

fn texts_of_fifty(home: &Home, client: &Client<'_>) -> usize {
    let payload = home.write("payload.json", client.usual("PostToolUse").to_string());
    let gate = home.path().join("gate");
    let commands = (0..50)
        .map(|_| {
            let mut command = home.command("/bin/sh");
            let script = format!(
                "while ! [ -e {0} ]; do :; done; exec {1} hook PostToolUse <{2}",
                gate.display(),
                BATON,
                payload.display()
            );
            command.arg("-c").arg(script);
            client.dress(&mut command);
            command
        })
        .collect();
    let ran = all_at_once(commands, || std::fs::write(&gate, "").unwrap());
    std::fs::remove_file(&gate).unwrap();
    assert!(ran.iter().all(|r| r.code == Some(0)), "{ran:#?}");
    ran.iter().filter(|r| r.out.contains("baton handoff")).count()
}

#[test]
fn a_reading_that_falls_below_the_threshold_does_not_rearm_the_latches() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup").silent();
    for (tokens, speaks) in [
        (104_000, true),
        (60_000, false),
        (106_000, false),
        (134_000, true),
        (90_000, false),
        (140_000, false),
    ] {
        client.answers(tokens);
        assert_eq!(client.hook("PostToolUse").context().is_some(), speaks, "at {tokens}");
    }
}

#[test]
fn a_jump_over_the_warning_sends_the_request_alone() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup").silent();
    client.answers(134_000);
    let heard = client.hook("UserPromptSubmit").context().unwrap();
    assert!(heard.contains("67%") && heard.contains("baton handoff"), "{heard}");
    assert_eq!(heard.matches("[baton]").count(), 1);
    client.hook("PostToolUse").silent();
}

#[test]
fn nudges_can_be_switched_off() {
    let home = Home::new(BATON);
    home.write(".config/baton/config.toml", "[context]\nadvise = false\nrequest = false\n");
    let client = Client::new(&home);
    client.starts("startup").silent();
    for tokens in [104_000, 134_000] {
        client.answers(tokens);
        client.hook("PostToolUse").silent();
    }
    client.hook("Stop").silent();
}

#[test]
fn a_threshold_in_tokens_counts_where_it_is_lower() {
    let home = Home::new(BATON);
    home.write(".config/baton/config.toml", "[context]\ncritical_tokens = \"30k\"\nwarning_tokens = 20000\n");
    let client = Client::new(&home);
    client.starts("startup").silent();
    client.answers(31_000);
    assert!(client.hook("PostToolUse").context().unwrap().contains("baton handoff"));
}

/// A clock set back: readings from the "future" do not suppress current ones.
#[test]
fn a_clock_that_was_set_back_does_not_freeze_the_level() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup").silent();
    client.status_line(Some(20_000));
    let gauge = home.state().join(format!("sessions/{}.gauge", client.session));
    let mut kept: Value =
        serde_json::from_str(std::fs::read_to_string(&gauge).unwrap().lines().next_back().unwrap()).unwrap();
    let later = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(3);
    kept["reading"]["at"] = json!(later);
    std::fs::write(&gauge, kept.to_string()).unwrap();
    client.answers(134_000);
    assert!(client.hook("PostToolUse").context().unwrap().contains("67%"));
}

#[test]
fn observed_compactions_move_the_thresholds_that_lie_beyond_them() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup").silent();
    client.answers(92_000);
    client.hook("PreCompact").silent();
    let next = Client::new(&home);
    next.starts("startup").silent();
    next.answers(91_000);
    let heard = next.hook("PostToolUse").context().unwrap();
    assert!(heard.contains("compaction at about 92k"), "{heard}");
    assert!(heard.contains("baton handoff"), "critical lies before the point that was seen: {heard}");
    let status = home.run(&format!("status {} --json", next.agent())).json();
    assert_eq!(status[0]["compaction"]["tokens"], 92_200, "{status}");
    assert_eq!(status[0]["compaction"]["observed"], true);
}

#[test]
fn a_manual_compaction_does_not_move_the_compaction_point() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup").silent();
    client.answers(50_000);
    client
        .hook_with("PreCompact", json!({ "trigger": "manual", "custom_instructions": "keep the plan" }))
        .silent();
    assert!(!home.state().join("compaction.json").exists());
    let id = home.run("handoffs list --json").json()[0]["id"].as_str().unwrap().to_owned();
    let sealed = home.run(&format!("handoffs show {id}")).ok();
    assert!(sealed.contains("keep the plan"), "{sealed}");
}

#[test]
fn stop_failure_at_a_usage_limit_is_noted_and_the_turn_is_over() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup").silent();
    client.hook("UserPromptSubmit").silent();
    assert_eq!(client.kept()["turn"], "working");
    client.hook("StopFailure").silent();
    assert_eq!(client.kept()["turn"], "limit");
    client.hook("UserPromptSubmit").silent();
    client.hook("PermissionRequest").silent();
    assert_eq!(client.kept()["turn"], "blocked");
    client.hook("PostToolUse").silent();
    assert_eq!(client.kept()["turn"], "working");
    client.hook("Notification").silent();
    assert_eq!(client.kept()["turn"], "idle", "after Esc this is the only word");
}

#[test]
fn the_log_has_every_event_with_its_timestamp_and_can_be_queried() {
    let home = Home::new(BATON);
    let one = Client::new(&home);
    let two = Client::new(&home);
    for client in [&one, &two] {
        client.starts("startup").silent();
        client.hook("UserPromptSubmit").silent();
        client.hook("Stop").silent();
    }
    let events = |args: &str| -> Vec<String> {
        let lines = home.run(&format!("log --json {args}")).out;
        let lines = lines.lines().map(|l| serde_json::from_str::<Value>(l).unwrap());
        lines.map(|l| l["event"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(events("").len(), 6);
    assert_eq!(events(&format!("--session {}", one.session)), ["session-start", "UserPromptSubmit", "stop"]);
    assert_eq!(events("--agent app-oak -n 1"), ["stop"]);
    assert_eq!(events("--faults"), [""; 0]);
    send(one.command("Stop"), b"no payload").silent();
    assert_eq!(events("--faults"), ["fault"]);
}

#[test]
fn a_threshold_beyond_the_compaction_point_is_lowered_and_the_log_says_so_once() {
    let home = Home::in_memory(BATON);
    home.write(".config/baton/config.toml", "[context]\ncritical_percentage = 95\n");
    let client = Client::new(&home);
    client.starts("startup").silent();
    // The client compacts a window of 200,000 at about 167,000; 95 % of the window would never be reached.
    client.answers(120_000);
    client.hook("PostToolUse").ok();
    client.answers(160_000);
    assert!(client.hook("PostToolUse").context().unwrap().contains("baton handoff"));
    let log = home.run("log -n 100 --json").ok();
    assert_eq!(log.matches("threshold-lowered").count(), 1, "{log}");
    assert!(log.contains("The critical threshold is set to 190k tokens"), "{log}");
}

/// On a busy machine a client may start the hook and write the payload only later; the handoff must not be lost.
#[test]
fn a_stop_whose_payload_comes_late_still_carries_out_the_handoff() {
    use std::io::Write as _;
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup");
    client.hook("UserPromptSubmit");
    let mut handoff = home.baton(["handoff", "-"]);
    client.dress(&mut handoff);
    send(handoff, b"Half done.").ok();
    let mut stop = client.command("Stop");
    let mut child = stop.stdin(std::process::Stdio::piped()).spawn().unwrap();
    // The delay itself is under test.
    std::thread::sleep(std::time::Duration::from_millis(250));
    let payload = client.usual("Stop").to_string();
    child.stdin.take().unwrap().write_all(payload.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(
        home.run("handoffs --json").json().as_array().map(Vec::len),
        Some(1),
        "the Stop was not heard"
    );
}

/// `--autocompact` moves the compaction point of one session, not of all sessions with the same model.
#[test]
fn a_compaction_point_is_learned_for_the_settings_it_was_seen_under() {
    let home = Home::new(BATON);
    let small = Client::started_with(&home, &["--autocompact", "100k"]);
    small.starts("startup").silent();
    let point = |client: &Client<'_>| {
        home.run(&format!("status {} --json", client.agent())).json()[0]["compaction"].clone()
    };
    small.answers(40_000);
    small.hook("PostToolUse").ok();
    assert_eq!(point(&small)["tokens"], 67_000, "by the option");
    small.answers(64_000);
    small.hook("PreCompact").silent();
    let other = Client::new(&home);
    other.starts("startup").ok();
    other.answers(60_000);
    other.hook("PostToolUse").ok();
    assert_eq!(point(&other)["tokens"], 167_000, "another session's option is not its own");
    let alike = Client::started_with(&home, &["--autocompact=100k"]);
    alike.starts("startup").ok();
    alike.answers(20_000);
    alike.hook("PostToolUse").ok();
    assert_eq!(point(&alike)["tokens"], 64_200, "seen under the same option");
}

/// A setting that we do not understand, or a compaction that was only posted, affects the estimate for that session
/// only.
#[test]
fn a_compaction_under_unknown_settings_counts_for_its_session_alone() {
    let home = Home::new(BATON);
    let odd = Client::new(&home).env("CLAUDE_CODE_COMPACT_EARLIER", "much");
    odd.starts("startup").silent();
    odd.answers(92_000);
    odd.hook("PreCompact").silent();
    odd.answers(30_000);
    odd.hook("PostToolUse").ok();
    let point = |client: &Client<'_>| {
        home.run(&format!("status {} --json", client.agent())).json()[0]["compaction"].clone()
    };
    assert_eq!((&point(&odd)["tokens"], &point(&odd)["observed"]), (&92_200.into(), &true.into()));
    let other = Client::new(&home);
    other.starts("startup").ok();
    other.answers(60_000);
    other.hook("PostToolUse").ok();
    assert_eq!(point(&other)["tokens"], 167_000, "{}", point(&other));

    let served = baton_testkit::daemon::Served::new(&home);
    let posted = json!({ "session_id": other.agent(), "event": "compaction", "trigger": "auto" });
    served.post("/hooks/context-usage", &posted);
    assert_eq!(point(&other)["tokens"], 60_200, "{}", point(&other));
    let third = Client::new(&home);
    third.starts("startup").ok();
    third.answers(50_000);
    third.hook("PostToolUse").ok();
    assert_eq!(point(&third)["tokens"], 167_000, "{}", point(&third));
}
