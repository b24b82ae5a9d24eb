//! Codex's hooks: what each event does, and how they differ from Claude Code's.

use std::fmt::Write as _;

use baton_testkit::Home;
use baton_testkit::codex::CodexClient;
use serde_json::{Value, json};

use super::hooks::{changes, fixtures, tree};
use crate::BATON;

fn normal(home: &Home, client: &CodexClient<'_>, text: &str) -> String {
    let mut text = home.tidy(text).replace(&client.thread, "THREAD");
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
    text.replace(&jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(), "TODAY")
}

/// Replays each recorded payload of each event in a thread at 67 %: which files change, and what the hook answers.
#[test]
fn the_effects_of_every_recorded_event() {
    let mut seen = String::new();
    for (name, mut payload) in fixtures("codex") {
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
    // What the client displays at these counts.
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
fn thresholds_use_the_clients_own_percentage_and_each_nudge_is_sent_once() {
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
fn an_unknown_provider_is_harmless() {
    let home = Home::in_memory(BATON);
    let mut command = home.baton(["hook", "--provider", "quill", "Stop"]);
    let ran = baton_testkit::home::run(&mut command);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (Some(0), "", ""));
}

#[test]
fn esc_ends_the_turn_without_a_stop_and_what_was_handed_over_is_sealed_at_once() {
    let home = Home::new(BATON);
    let mut client = CodexClient::new(&home);
    client.starts("startup").silent();
    client.prompt("work").silent();
    assert_eq!(client.kept()["turn"], "working");
    let words = home.write("h.md", "# H\nThe words of the agent.\n");
    let mut command = home.baton(["handoff", words.to_str().unwrap()]);
    command.env("CODEX_THREAD_ID", &client.thread);
    command.env("CLAUDE_SESSION_MANAGER_ID", client.kept()["agent"].as_str().unwrap());
    baton_testkit::home::run(&mut command).ok();
    assert!(client.kept()["request"].is_object());
    client.hook("Interrupt", json!({})).silent();
    assert_eq!(client.kept()["turn"], "idle");
    assert!(client.kept()["request"].is_null());
    let id = home.run("handoffs --json").json()[0]["id"].as_str().unwrap().to_owned();
    assert!(home.run(&format!("handoffs show {id}")).ok().contains("The words of the agent."));
    client.prompt("go on");
    assert_eq!(client.kept()["turn"], "working");
}

#[test]
fn a_session_end_is_undone_when_the_thread_continues() {
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
    // The token count of the compaction request itself is not the size of the context.
    client.tool().silent();
    assert!(client.gauge()["reading"].is_null(), "{}", client.gauge());
    client.counts(6_345);
    client.tool().silent();
    assert_eq!(client.gauge()["percentage"], 0);
    // The point at which it compacted is remembered.
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
    // Nobody can give a fresh context, so a veto would block the thread for good.
    client.hook("PreCompact", json!({ "trigger": "auto" })).silent();
    let agent = client.kept()["agent"].as_str().unwrap().to_owned();
    let record = home.state().join(format!("agents/{agent}.json"));
    let mut kept: Value = serde_json::from_str(&std::fs::read_to_string(&record).unwrap()).unwrap();
    // Give it a supervisor; any live process will do.
    kept["supervisor"] = kept["process"].clone();
    std::fs::write(&record, kept.to_string()).unwrap();
    client.says("assistant", "half done");
    client.hook("PreCompact", json!({ "trigger": "manual" })).silent();
    client.says("assistant", "more");
    let answer = client.hook("PreCompact", json!({ "trigger": "auto" })).answer().unwrap();
    assert_eq!(answer["continue"], false, "{answer}");
    let kept: Value = serde_json::from_str(&std::fs::read_to_string(&record).unwrap()).unwrap();
    assert_eq!(kept["rotation"]["at_once"], true, "{kept}");
    // Before a turn the new prompt is not in the transcript yet, so a veto would lose it.
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
    // A client with its own process stays one agent through `/clear`.
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
    assert_eq!(line, "#[fg=red]app 89%#[default]\n");
    let elsewhere = home.run("statusline --tmux /").ok();
    assert!(!elsewhere.contains("app") || elsewhere == line, "{elsewhere}");
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
    // Its work can still go to an agent that is able to continue.
    let mut command = home.baton(["handoff", "--to", "codex"]);
    command.env("CODEX_THREAD_ID", &app.thread);
    assert_eq!(baton_testkit::home::run(&mut command).code, Some(0));
}

#[test]
fn a_headless_run_not_started_by_baton_takes_no_handoff() {
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
    // Critical is at 95 % of the way to compaction, not at 65 % of the window.
    assert!(client.tool().context().unwrap().contains("run `baton handoff"));
    let mut other =
        CodexClient::with_args(&home, &["-c", "model_auto_compact_token_limit=70000", "--no-daemon"]);
    other.starts("startup").silent();
    assert_eq!(other.kept()["compaction"]["limit"], 70_000);
}

/// Codex whose agents can begin a fresh window themselves, with work in its rollout.
fn with_window(home: &Home) -> CodexClient<'_> {
    home.write(".codex/config.toml", "[features]\ntoken_budget = true\n");
    let mut client = CodexClient::new(home);
    client.starts("startup").silent();
    client.says("user", "TAUGOAL: port the tests. Never edit Cargo.lock.");
    client.prompt("TAUGOAL: port the tests. Never edit Cargo.lock.").ok();
    client.counts(60_000);
    client
}

fn wants_window(client: &mut CodexClient<'_>) -> Option<String> {
    let heard = client
        .hook("PreToolUse", json!({ "tool_name": "new_context", "tool_input": {}, "tool_use_id": "call_1" }));
    let answer = heard.answer()?["hookSpecificOutput"].clone();
    assert_eq!(answer["permissionDecision"], "deny", "{answer}");
    Some(answer["permissionDecisionReason"].as_str().unwrap().to_owned())
}

fn hands_over(home: &Home, client: &CodexClient<'_>, text: &str) -> String {
    let mut command = home.baton(["handoff", "-"]);
    command.env("CODEX_THREAD_ID", &client.thread);
    let heard = baton_testkit::hooks::send(command, text.as_bytes());
    assert_eq!(heard.code, Some(0), "{heard:?}");
    heard.out
}

/// The client's own order of events after the tool was let through.
fn begins_window(client: &mut CodexClient<'_>) -> String {
    client
        .hook("PostToolUse", json!({ "tool_name": "new_context", "tool_input": {}, "tool_response": "" }))
        .ok();
    client.hook("PreCompact", json!({ "trigger": "auto" })).silent();
    client.hook("PostCompact", json!({ "trigger": "auto" })).silent();
    client.starts("compact").context().unwrap_or_default()
}

#[test]
fn a_fresh_window_waits_for_a_handoff_and_then_begins_with_it() {
    let home = Home::in_memory(BATON);
    let mut client = with_window(&home);
    let refused = wants_window(&mut client).expect("there is no handoff yet");
    assert!(refused.contains("baton handoff") && refused.contains("`new_context` tool"), "{refused}");
    let said = hands_over(&home, &client, "## Next\nRun the third test; MARK-OF-THE-HANDOFF.");
    assert!(said.contains("Call the `new_context` tool now"), "{said}");
    assert_eq!(wants_window(&mut client), None, "it has handed over");
    let given = begins_window(&mut client);
    assert!(given.contains("MARK-OF-THE-HANDOFF") && given.contains("TAUGOAL"), "{given}");
    client.stops(false).ok();
    let agent = home.run("status --json").json()[0].clone();
    assert_eq!(
        (&agent["actuator"], &agent["agent"]["rotation"]),
        (&json!("window"), &Value::Null),
        "{agent}"
    );
    assert_eq!(agent["agent"]["sessions"].as_array().unwrap().len(), 1, "{agent}");
    let rotations = baton_testkit::home::records(&home.state().join("rotations"));
    let done = |r: &Value| r["actuator"] == "window" && r["step"] == "done";
    assert!(rotations.len() == 1 && rotations.iter().all(done), "{rotations:?}");
    let handoffs = home.run("handoffs --json").json();
    assert_eq!(handoffs[0]["status"], "consumed", "{handoffs}");
    // It is a rotation, and tells nothing about where the client compacts.
    assert!(!home.state().join("compaction.json").exists());
    assert_eq!(home.run("inbox --json").json(), json!([]), "and is no notice");
    assert!(wants_window(&mut client).is_some(), "the next window needs a handoff of its own");
}

#[test]
fn an_agent_that_hands_over_and_stops_is_asked_once_to_begin_its_window() {
    let home = Home::in_memory(BATON);
    let mut client = with_window(&home);
    hands_over(&home, &client, "Half of it is done.");
    let asked = client.stops(false).answer().expect("the turn goes on");
    assert_eq!(asked["decision"], "block", "{asked}");
    assert!(asked["reason"].as_str().unwrap().contains("Call the `new_context` tool now"), "{asked}");
    assert!(home.run("status --json").json()[0]["pending"].to_string().contains("pending since"));
    let ended = client.stops(true);
    assert!(ended.message().is_some_and(|m| m.contains("is sealed; type /clear")), "{ended:?}");
    // An agent that begins the window later still gets it.
    assert_eq!(wants_window(&mut client), None);
    let given = begins_window(&mut client);
    assert!(given.contains("Half of it is done."), "{given}");
    let handoffs = home.run("handoffs --json").json();
    assert_eq!(handoffs.as_array().unwrap().len(), 1, "no second one was sealed: {handoffs}");
    assert!(home.run("status --json").json()[0]["agent"]["rotation"].is_null());
}

#[test]
fn without_the_feature_nothing_changes() {
    let home = Home::in_memory(BATON);
    let mut client = with_window(&home);
    home.write(".codex/config.toml", "");
    client.starts("resume").ok();
    let said = hands_over(&home, &client, "Half of it is done.");
    assert!(!said.contains("new_context"), "{said}");
    assert!(client.stops(false).message().is_some_and(|m| m.contains("is sealed")));
    let other = client.hook("PreToolUse", json!({ "tool_name": "Bash", "tool_input": {} }));
    other.silent();
}

/// Five files of 5,000 tokens each come with the first prompt after a `/clear` by hand: the client cuts where we tell it.
#[test]
fn the_files_in_play_come_whole_with_the_first_prompt() {
    let home = Home::in_memory(BATON);
    let mut client = CodexClient::new(&home);
    client.starts("startup").silent();
    client.says("user", "Write the five modules.");
    client.prompt("Write the five modules.").ok();
    for n in 0..5 {
        let line = format!("fn module_{n}() {{}} // {}\n", "x".repeat(60));
        let text = line.repeat(19_000 / line.len());
        home.write(&format!("work/app/src/module_{n}.rs"), &text);
        let patch = format!(
            "*** Begin Patch\n*** Update File: src/module_{n}.rs\n@@\n-x\n+fn module_{n}() {{}}\n*** End Patch"
        );
        let call = json!({ "type": "custom_tool_call", "status": "completed", "call_id": format!("c{n}"),
            "name": "apply_patch", "input": patch });
        client.record("response_item", &call);
        let done =
            json!({ "type": "custom_tool_call_output", "call_id": format!("c{n}"), "output": "Done!" });
        client.record("response_item", &done);
    }
    client.counts(60_000);
    client.stops(false).ok();
    home.run("rotate app").ok();
    client.thread = baton_testkit::hooks::session_id();
    client.starts("clear").ok();
    let given = client.prompt("Go on.").context().unwrap_or_default();
    for n in 0..5 {
        let whole = given.matches(&format!("fn module_{n}() {{}} // xxx")).count();
        assert!(
            whole > 200,
            "src/module_{n}.rs came with {whole} lines: {}",
            &given[..given.len().min(3_000)]
        );
    }
    assert!(given.chars().count() <= 110_000, "{}", given.chars().count());
}
