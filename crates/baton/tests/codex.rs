//! Codex's hooks: what each event does, and what is different from Claude Code's.

use std::fmt::Write as _;
use std::path::PathBuf;

use baton_testkit::Home;
use baton_testkit::codex::CodexClient;
use serde_json::{Value, json};

use super::hooks::{changes, tree};
use crate::BATON;

fn fixtures() -> Vec<(String, Value)> {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../core/tests/fixtures/codex/hooks");
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

fn normal(home: &Home, client: &CodexClient<'_>, text: &str) -> String {
    let mut text = home.tidy(text).replace(&client.thread, "THREAD");
    text = text.replace(&format!("processes/{}.", client.pid()), "processes/PID.");
    while let Some(at) = text.find("HO-2") {
        text.replace_range(at..at + "HO-20261116-040000-a1b2c3d4".len(), "HANDOFF");
    }
    text.replace(&jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(), "TODAY")
}

/// For each recorded payload of each event: which files it changes and what it answers, in a thread at 67 %.
#[test]
fn the_effects_of_every_recorded_event() {
    let mut seen = String::new();
    for (name, mut payload) in fixtures() {
        let home = Home::in_memory(BATON);
        let mut client = CodexClient::new(&home);
        let event = payload["hook_event_name"].as_str().unwrap().to_owned();
        if event != "SessionStart" {
            client.starts("startup").silent();
        }
        client.counts(67_610);
        payload["session_id"] = json!(client.thread);
        payload["transcript_path"] = json!(client.rollout());
        payload["cwd"] = json!(home.project());
        let before = tree(&home);
        let heard = client.send(&event, payload.to_string().as_bytes());
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
fn the_reading_is_the_clients_own_percentage_and_never_the_cumulative_total() {
    let home = Home::in_memory(BATON);
    let mut client = CodexClient::new(&home);
    client.starts("startup").silent();
    // The client's display at these counts.
    for (last, shown) in [(12_300, 0), (30_500, 22), (60_500, 58), (85_500, 89)] {
        client.counts(last);
        client.tool().ok();
        let gauge = client.gauge();
        assert_eq!((&gauge["reading"]["tokens"], &gauge["percentage"]), (&json!(last), &json!(shown)));
    }
    let status = home.run("status --json").json();
    assert!(status.to_string().contains("\"percentage\":89"), "{status}");
}

#[test]
fn thresholds_are_of_the_clients_own_percentage_and_each_thing_is_said_once() {
    let home = Home::in_memory(BATON);
    let mut client = CodexClient::new(&home);
    client.starts("startup").silent();
    // 50 % begins at 12,000 + half of 83,000 = 53,500; 65 % at 65,950.
    let said: Vec<Option<String>> = [53_400, 53_600, 60_000, 65_900, 66_000, 70_000]
        .into_iter()
        .map(|last| {
            client.counts(last);
            client.tool().context()
        })
        .collect();
    let is = |at: usize, what: &str| said[at].as_deref().is_some_and(|s| s.contains(what));
    assert!(is(1, "Context is 50% full (53k of 95k tokens"), "{said:?}");
    assert!(is(4, "run `baton handoff"), "{said:?}");
    assert_eq!(said.iter().flatten().count(), 2, "{said:?}");
}

#[test]
fn a_subagents_events_and_unknown_ones_change_nothing() {
    let home = Home::in_memory(BATON);
    let mut client = CodexClient::new(&home);
    client.starts("startup").silent();
    client.counts(67_610);
    let before = tree(&home);
    for event in
        ["UserPromptSubmit", "PostToolUse", "Stop", "SubagentStart", "SubagentStop", "PreModelRequest"]
    {
        let own = json!({ "agent_id": "01a1e1d9-c949-7660-92cc-4f7b274765e0", "agent_type": "default" });
        client.hook(event, own).silent();
    }
    client.hook("TeaBreak", json!({ "novel": { "deep": [1, 2] } })).silent();
    client.hook("PreToolUse", json!({ "tool_name": "Bash" })).silent();
    assert_eq!(changes(&before, &tree(&home)), [""; 0]);
    let heard = client.hook("PostToolUse", json!({ "novel": [1], "agent_type": null, "tool_input": 7 }));
    assert!(heard.context().unwrap().contains("67%"));
}

#[test]
fn a_provider_that_is_not_known_is_harmless() {
    let home = Home::in_memory(BATON);
    let mut command = home.baton(["hook", "--provider", "quill", "Stop"]);
    let ran = baton_testkit::home::run(&mut command);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (Some(0), "", ""));
}

#[test]
fn esc_ends_the_turn_without_a_stop_and_what_was_handed_over_waits_for_the_next_one() {
    let home = Home::in_memory(BATON);
    let mut client = CodexClient::new(&home);
    client.starts("startup").silent();
    client.prompt("work").silent();
    assert_eq!(client.kept()["turn"], "working");
    client.hook("Interrupt", json!({})).silent();
    assert_eq!(client.kept()["turn"], "idle");
    client.prompt("go on").silent();
    assert_eq!(client.kept()["turn"], "working");
}

#[test]
fn a_late_end_of_a_thread_that_was_taken_up_again_is_taken_back() {
    let home = Home::in_memory(BATON);
    let mut client = CodexClient::new(&home);
    client.starts("startup").silent();
    client.prompt("work").silent();
    client.hook("SessionEnd", json!({ "reason": "other" })).silent();
    assert!(client.kept()["ended"].is_object());
    let agent = client.kept()["agent"].as_str().unwrap().to_owned();
    let agents = home.run("agents --json").json();
    assert!(agents.to_string().contains(&agent), "the client lives on, and so does its agent: {agents}");
    client.tool().silent();
    assert!(client.kept()["ended"].is_null());
}

#[test]
fn before_a_compaction_the_ledger_is_sealed_and_after_it_the_thread_gets_it_back() {
    let home = Home::in_memory(BATON);
    let mut client = CodexClient::new(&home);
    client.starts("startup").silent();
    client.says("user", "Write the parser. Never use regular expressions.");
    client.prompt("Write the parser. Never use regular expressions.").silent();
    client.counts(81_500);
    client.hook("PreCompact", json!({ "trigger": "auto" })).silent();
    client.counts(82_300);
    client.record("compacted", &json!({ "message": "What the summary kept.", "replacement_history": [] }));
    client.hook("PostCompact", json!({ "trigger": "auto" })).silent();
    let back = client.starts("compact");
    let context = back.context().unwrap();
    assert!(context.contains("Never use regular expressions."), "{context}");
    // The count of the compaction's own request is not what the context holds.
    client.tool().silent();
    assert!(client.gauge()["reading"].is_null(), "{}", client.gauge());
    client.counts(6_345);
    client.tool().silent();
    assert_eq!(client.gauge()["percentage"], 0);
    // Where it came is remembered.
    let seen = std::fs::read_to_string(home.state().join("compaction.json")).unwrap();
    assert!(seen.contains("81500"), "{seen}");
}

#[test]
fn a_veto_is_given_only_where_a_fresh_context_follows_at_once() {
    let home = Home::in_memory(BATON);
    home.write(".config/baton/config.toml", "[handoff]\nblock_compaction = true\n");
    let mut client = CodexClient::new(&home);
    client.starts("startup").silent();
    client.prompt("work").silent();
    client.counts(81_500);
    // Nobody can give one: a veto would lock the thread for good.
    client.hook("PreCompact", json!({ "trigger": "auto" })).silent();
    let agent = client.kept()["agent"].as_str().unwrap().to_owned();
    let record = home.state().join(format!("agents/{agent}.json"));
    let mut kept: Value = serde_json::from_str(&std::fs::read_to_string(&record).unwrap()).unwrap();
    // Somebody who supervises it: any process that lives will do.
    kept["supervisor"] = kept["process"].clone();
    std::fs::write(&record, kept.to_string()).unwrap();
    client.says("assistant", "half done");
    client.hook("PreCompact", json!({ "trigger": "manual" })).silent();
    client.says("assistant", "more");
    let answer = client.hook("PreCompact", json!({ "trigger": "auto" })).answer().unwrap();
    assert_eq!(answer["continue"], false, "{answer}");
    let kept: Value = serde_json::from_str(&std::fs::read_to_string(&record).unwrap()).unwrap();
    assert_eq!(kept["rotation"]["at_once"], true, "{kept}");
    // Before a turn the new prompt is in no transcript yet: it would be lost.
    client.hook("Interrupt", json!({})).silent();
    client.says("assistant", "and more");
    client.hook("PreCompact", json!({ "trigger": "auto" })).silent();
}

#[test]
fn threads_on_the_shared_daemon_are_agents_of_their_own() {
    let home = Home::in_memory(BATON);
    let mut daemon = CodexClient::with_args(&home, &["app-server", "--listen", "unix://"]);
    daemon.starts("startup").silent();
    let first = daemon.kept();
    daemon.thread = baton_testkit::hooks::session_id();
    daemon.starts("startup").silent();
    let second = daemon.kept();
    assert_ne!(first["agent"], second["agent"]);
    assert!(second["process"].is_null(), "the daemon is nobody's client: {second}");
    let shown = home.run("status --json").json();
    assert_eq!(shown.as_array().unwrap().len(), 2, "threads of a daemon live: {shown}");
    daemon.hook("SessionEnd", json!({ "reason": "other" })).silent();
    assert_eq!(home.run("status --json").json().as_array().unwrap().len(), 1, "until they were left");
    // A client of its own is one agent through `/clear`.
    let mut client = CodexClient::new(&home);
    client.starts("startup").silent();
    let first = client.kept();
    client.thread = baton_testkit::hooks::session_id();
    client.starts("clear").silent();
    assert_eq!(first["agent"], client.kept()["agent"]);
    assert_eq!(client.kept()["provider"], "codex");
}

#[test]
fn the_status_is_watched_and_shown_by_tmux() {
    use std::io::BufRead as _;
    let home = Home::in_memory(BATON);
    let mut client = CodexClient::new(&home);
    client.starts("startup").silent();
    client.counts(60_500);
    client.tool().ok();
    let mut watch = home.baton(["status", "--watch"]);
    let mut watch = watch.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufReader::new(watch.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("58% (61k of 95k)") || line.contains("58% (60k of 95k)")));
    client.counts(85_500);
    client.tool().ok();
    assert!(lines.any(|line| line.contains("89%")), "it ended");
    watch.kill().unwrap();
    watch.wait().unwrap();
    let line = home.run("statusline --tmux").ok();
    assert_eq!(line, "#[fg=red]app-1 89%#[default]\n");
    let elsewhere = home.run("statusline --tmux /").ok();
    assert!(!elsewhere.contains("app-1") || elsewhere == line, "{elsewhere}");
}

#[test]
fn an_agent_inside_an_app_is_watched_but_cannot_hand_over() {
    let home = Home::in_memory(BATON);
    let mut app = CodexClient::with_args(&home, &["app-server"]);
    app.starts("startup").silent();
    assert_eq!(app.kept()["provider"], "codex-app");
    app.counts(67_610);
    assert!(app.tool().context().unwrap().contains("67%"));
    let mut command = home.baton(["handoff", "-"]);
    command.env("CODEX_THREAD_ID", &app.thread);
    let heard = baton_testkit::hooks::send(command, b"# State\n");
    assert_eq!(heard.code, Some(1));
    assert!(heard.err.contains("sm handoff is not supported for codex-app sessions"), "{heard:?}");
    // Its work can still be given to an agent that can go on.
    let mut command = home.baton(["handoff", "--to", "codex"]);
    command.env("CODEX_THREAD_ID", &app.thread);
    assert_eq!(baton_testkit::home::run(&mut command).code, Some(0));
}

#[test]
fn a_headless_run_that_nobody_of_ours_started_takes_no_handoff_away() {
    let home = Home::in_memory(BATON);
    home.run_with_input("handoffs seal -", "# State\nFOR-A-PERSON\n").ok();
    let mut exec = CodexClient::with_args(&home, &["exec", "--json", "do it"]);
    exec.starts("startup").silent();
    assert_eq!(exec.kept()["headless"], true);
    let mut client = CodexClient::new(&home);
    assert!(client.starts("startup").context().unwrap().contains("FOR-A-PERSON"));
}

#[test]
fn the_compaction_point_is_the_clients_own_setting() {
    let home = Home::in_memory(BATON);
    home.write(".codex/config.toml", "model = \"m\"\nmodel_auto_compact_token_limit = 60_000\n[features]\n");
    let mut client = CodexClient::new(&home);
    client.starts("startup").silent();
    assert_eq!(client.kept()["compaction"]["limit"], 60_000);
    client.counts(57_000);
    // Critical lies at 95 % of the way to compaction, not at 65 % of the window.
    assert!(client.tool().context().unwrap().contains("run `baton handoff"));
    let mut other =
        CodexClient::with_args(&home, &["-c", "model_auto_compact_token_limit=70000", "--no-daemon"]);
    other.starts("startup").silent();
    assert_eq!(other.kept()["compaction"]["limit"], 70_000);
}
