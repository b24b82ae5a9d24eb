//! The page in a real browser: what a person sees and does there. `browser.mjs` holds what happens on the page.

mod served;
mod stage;

use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use baton_testkit::Home;
use baton_testkit::daemon::Served;
use baton_testkit::hooks::Client;
use baton_testkit::page::Browser;
use baton_testkit::wait::wait_until;
use serde_json::{Value, json};

use crate::BATON;
use crate::world::World;

fn nothing(what: &str, _: &Value) -> Value {
    panic!("{what} was not expected");
}

fn started(home: &Home) -> Client<'_> {
    let client = Client::new(home);
    client.starts("startup").ok();
    client
}

fn address(served: &Served<'_>) -> String {
    served.http.clone().expect("it was started with a port")
}

#[test]
fn a_code_opens_the_page_once_and_the_tabs_of_one_browser_stay_together() {
    let Some(browser) = Browser::find() else { return };
    let home = Home::new(BATON);
    let _client = started(&home);
    let served = Served::on_http(&home);
    browser.run(&home, &address(&served), "login", json!({}), nothing);
}

#[test]
fn a_gauge_moves_by_itself_and_who_needs_somebody_comes_first() {
    let Some(browser) = Browser::find() else { return };
    let home = Home::new(BATON);
    let client = started(&home);
    client.answers(20_000);
    client.hook("PostToolUse").ok();
    let served = Served::on_http(&home);
    browser.run(&home, &address(&served), "gauge", json!({}), |what, _| {
        match what {
            "fuller" => {
                client.answers(90_000);
                client.hook("PostToolUse").ok();
            }
            "limit" => {
                let failure =
                    json!({ "error": "rate_limit", "last_assistant_message": "limit reached|4102444800" });
                client.hook_with("StopFailure", failure).ok();
            }
            other => panic!("{other}"),
        }
        json!(true)
    });
}

/// One cycle with everything that can happen to a context.
fn cycle(client: &mut Client<'_>) {
    client.says("Port the parser. Never change the public API.");
    client
        .hook_with("UserPromptSubmit", json!({ "prompt": "Port the parser. Never change the public API." }))
        .ok();
    for tokens in [20_000, 60_000, 104_000, 134_000] {
        client.answers(tokens);
        client.hook("PostToolUse").ok();
    }
    client.hook("Stop").ok();
}

#[test]
fn the_saw_tooth_has_the_marks_of_the_log_and_opens_its_documents() {
    let Some(browser) = Browser::find() else { return };
    let home = Home::new(BATON);
    let mut client = started(&home);
    cycle(&mut client);
    home.run("rotate app");
    client.clears();
    client.answers(8_000);
    client.hook("PostToolUse").ok();
    client.hook("PreCompact").ok();
    client.hook("StopFailure").ok();
    let served = Served::on_http(&home);
    browser.run(&home, &address(&served), "chart", json!({}), |what, _| match what {
        // The log, read without the page and without the daemon.
        "marks" => marks_of_the_log(&home),
        other => panic!("{other}"),
    });
}

/// The marks that the lines of the log mean, in words of this test.
fn marks_of_the_log(home: &Home) -> Value {
    let mut marks = Vec::new();
    for line in home.run("log --json -n 1000 --agent app").ok().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let detail = &line["detail"];
        let handoff = detail["handoff"].as_str();
        let kind = match line["event"].as_str().unwrap() {
            "rotation-requested" => "sealed",
            "session-start" if handoff.is_some() => "rotated",
            "pre-compact" => "compacted",
            "stop-failure" => "limit",
            _ if detail["said"] == "advisory" => "warned",
            _ if detail["said"] == "request" || detail["asked"] == true => "asked",
            _ => continue,
        };
        marks.push(json!([kind, line["at"], handoff.unwrap_or_default()]));
    }
    let kinds: Vec<&str> = marks.iter().map(|mark| mark[0].as_str().unwrap()).collect();
    for kind in ["warned", "asked", "sealed", "rotated", "compacted", "limit"] {
        assert!(kinds.contains(&kind), "the log has no {kind}: {kinds:?}");
    }
    json!(marks)
}

#[test]
fn a_conversation_of_a_hundred_megabytes_is_scrolled() {
    let Some(browser) = Browser::find() else { return };
    let home = Home::in_memory(BATON);
    let client = started(&home);
    let path = client.transcript();
    client.says("begin");
    let mut file = std::io::BufWriter::new(std::fs::File::options().append(true).open(&path).unwrap());
    let output = "lorem ipsum dolor sit amet ".repeat(1_500);
    for n in 0..2_600 {
        let records = [
            json!({ "type": "user", "uuid": format!("u{n}"), "timestamp": "2026-11-17T04:00:00Z",
                "message": { "role": "user", "content": format!("prompt {n}: go on with *this* and `that`") } }),
            json!({ "type": "assistant", "uuid": format!("a{n}"), "timestamp": "2026-11-17T04:00:01Z",
                "message": { "id": format!("m{n}"), "role": "assistant", "content": [
                    { "type": "text", "text": format!("Answer {n}.\n\n- one\n- two\n\n```rust\nfn main() {{}}\n```") },
                    { "type": "tool_use", "id": format!("t{n}"), "name": "Bash", "input": { "command": "cargo test" } }] } }),
            json!({ "type": "user", "uuid": format!("r{n}"), "timestamp": "2026-11-17T04:00:09Z",
                "message": { "role": "user", "content": [
                    { "type": "tool_result", "tool_use_id": format!("t{n}"), "content": &output }] } }),
        ];
        for record in records {
            writeln!(file, "{record}").unwrap();
        }
    }
    file.flush().unwrap();
    client.says("the very last words");
    assert!(std::fs::metadata(&path).unwrap().len() > 100_000_000);
    let served = Served::on_http(&home);
    browser.run(&home, &address(&served), "long", json!({}), |what, _| {
        match what {
            "speak" => {
                client.says("said just now");
                client.record(
                    &json!({ "type": "assistant", "uuid": "edit", "timestamp": "2026-11-17T05:00:00Z",
                    "message": { "id": "edit", "role": "assistant", "content": [
                        { "type": "tool_use", "id": "edit", "name": "Edit", "input": { "file_path": "/p/a.rs",
                            "old_string": "one\ntwo", "new_string": "one\nthree" } }] } }),
                );
                client.hook("PostToolUse").ok();
            }
            "end" => {
                client.record(&json!({ "type": "user", "uuid": "ended", "timestamp": "2026-11-17T05:00:02Z",
                    "message": { "role": "user", "content": [
                        { "type": "tool_result", "tool_use_id": "edit", "content": "ok" }] } }));
                client.answers(30_000);
                client.hook("PostToolUse").ok();
            }
            other => panic!("{other}"),
        }
        json!(true)
    });
}

#[test]
fn a_search_finds_marks_opens_and_says_how_to_resume() {
    let Some(browser) = Browser::find() else { return };
    let home = Home::new(BATON);
    let client = started(&home);
    for n in 0..50 {
        client.says(&format!("prompt {n}"));
    }
    client.says("Where does the quick brown fox jump?\nOver the lazy dog, they say.");
    client.record(&json!({ "type": "user", "uuid": "c", "sessionId": client.session, "cwd": home.project(),
        "timestamp": "2026-11-17T05:00:00Z", "message": { "role": "user", "content": "more" } }));
    client.answers(9_000);
    let helper = client.transcript().with_extension("").join("subagents/agent-7.jsonl");
    std::fs::create_dir_all(helper.parent().unwrap()).unwrap();
    let said = |kind: &str, text: &str| {
        json!({ "type": kind, "uuid": text, "isSidechain": false, "timestamp": "2026-11-17T05:00:00Z",
            "message": { "id": text, "role": kind, "content": [{ "type": "text", "text": text }] } })
    };
    let lines = format!("{}\n{}\n", said("user", "Measure the corpus."), said("assistant", "655 MB/s"));
    std::fs::write(helper, lines).unwrap();
    let served = Served::on_http(&home);
    browser.run(&home, &address(&served), "search", json!({}), nothing);
}

/// An agent of the scripted client in a pane, and a daemon that attends to it.
fn worker(script: &str) -> Option<(World, Browser)> {
    let browser = Browser::find()?;
    let world = World::unattended(script)?;
    Some((world, browser))
}

#[test]
fn a_request_is_read_allowed_denied_and_answered_and_the_agent_continues() {
    let script = "turn\n  tokens 5%\n  ask rm -rf build\n  ask make\n  say Done.\n";
    let Some((world, browser)) = worker(script) else { return };
    world.home.write(".config/baton/config.toml", "[approvals]\nwait_for = \"all\"\n");
    let served = Served::start(&world.home, world.command(&["serve", "--http", "0"]));
    world.spawn("worker", &["--prompt", "begin"]).ok();
    let client = Client::new(&world.home);
    let mut waiting = None;
    browser.run(&world.home, &address(&served), "approve", json!({}), |what, value| {
        let answered = |field: &str| {
            let notes = world.seen("worker").into_iter().filter(|note| note["kind"] == "answered");
            notes.filter_map(|note| note[field].as_str().map(str::to_owned)).collect::<Vec<_>>()
        };
        // "Nothing on record yet" is a separate answer.
        let log = || {
            let told = world.baton(&["approvals", "log", "--json"]).out;
            serde_json::from_str::<Value>(&told)
                .ok()
                .and_then(|rows| rows.as_array().cloned())
                .unwrap_or_default()
        };
        match what {
            "ran" => wait_until("it ran", || {
                log().iter().any(|row| {
                    row["input"]["command"] == *value
                        && row["state"] == "allowed"
                        && row["answer"]["door"] == "page"
                })
            }),
            "refused" => wait_until("it was refused", || {
                answered("reason").contains(&value.as_str().unwrap().to_owned())
            }),
            "question" => {
                world.wait_for_turn("worker", "idle");
                client.starts("startup").ok();
                let questions = json!([{ "question": "Which colour?", "header": "Colour", "multiSelect": false,
                    "options": [{ "label": "Red", "description": "warm" }, { "label": "Blue", "description": "cool" }] }]);
                let payload = client.payload(
                    "PermissionRequest",
                    json!({ "tool_name": "AskUserQuestion", "tool_input": { "questions": questions } }),
                );
                let mut command = client.command("PermissionRequest");
                let mut hook = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
                hook.stdin.take().unwrap().write_all(payload.to_string().as_bytes()).unwrap();
                waiting = Some(hook);
            }
            "answered" => {
                let said = waiting.take().unwrap().wait_with_output().unwrap().stdout;
                assert!(String::from_utf8_lossy(&said).contains(value.as_str().unwrap()), "{said:?}");
            }
            "retired" => wait_until("it is retired", || world.agent("worker")["retired"].is_string()),
            other => panic!("{other}"),
        }
        json!(true)
    });
}

#[test]
fn a_message_is_sent_with_its_receipt_and_the_inbox_answers() {
    let Some((world, browser)) = worker("turn\n  tokens 5%\n  say Half way.\n") else { return };
    world.home.write(".config/baton/config.toml", "[run]\nprovider = \"demo\"\n");
    let served = Served::start(&world.home, world.command(&["serve", "--http", "0"]));
    world.ready("worker");
    let folder = json!({ "folder": world.home.project() });
    browser.run(&world.home, &address(&served), "send", folder, |what, value| {
        match what {
            "spawned" => {
                // The daemon starts it in its own environment, which knows of one agent's notes alone.
                wait_until("it lives", || world.session("second")["id"].is_string());
                let launch = world.agent("second")["launch"].to_string();
                assert!(launch.contains(value.as_str().unwrap()), "{launch}");
            }
            "sent" | "answered" => {
                world.wait_for_prompt("worker", value.as_str().unwrap());
            }
            "asks" => {
                let body = json!({ "text": "Shall I release it?", "from": "worker" });
                // As the agent itself: the caller is its process.
                let mail = world.home.state().join("mail/user/new");
                std::fs::create_dir_all(&mail).unwrap();
                std::fs::create_dir_all(mail.with_file_name("cur")).unwrap();
                let now = jiff::Timestamp::now();
                let id = format!("m{:020}-9-0001", now.as_nanosecond());
                let message = json!({ "v": 1, "id": id, "from": "worker", "to": "user", "at": now, "ask": true,
                    "text": body["text"] });
                std::fs::write(mail.join(&id), message.to_string()).unwrap();
            }
            other => panic!("{other}"),
        }
        json!(true)
    });
}

#[test]
fn after_a_kill_of_the_daemon_nothing_typed_is_lost_and_nothing_that_happened_is_missed() {
    let Some(browser) = Browser::find() else { return };
    let home = Home::new(BATON);
    let mut client = started(&home);
    client.says("Go on.");
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let mut served = Some(Served::with(&home, &["--http", &free]));
    let at = format!("127.0.0.1:{free}");
    browser.run(&home, &at, "restart", json!({}), |what, _| {
        match what {
            "happen" => {
                client.hook("StopFailure").ok();
            }
            "kill" => served.take().unwrap().kill(),
            "start" => served = Some(Served::with(&home, &["--http", &free])),
            other => panic!("{other}"),
        }
        json!(true)
    });
    client.clears();
}

#[test]
fn a_hostile_conversation_does_nothing() {
    let Some(browser) = Browser::find() else { return };
    let home = Home::new(BATON);
    home.write(".config/baton/config.toml", "[approvals]\nwait_for = \"all\"\n");
    let client = started(&home);
    let bad = [
        "<script>globalThis.done = 1</script> <img src=x onerror=globalThis.done=1> alert",
        "[click](javascript:globalThis.done=1) [data](data:text/html,<script>1</script>) [web](https://evil.example/x?<y>) [page](https://evil.example/page)",
        "\u{1b}[2J\u{1b}]0;title\u{7}\u{1b}[31mred \u{202e}gnp.exe\u{202c} \u{200b}zero\u{0} \u{9b}31m",
        "```html\n</pre><script>globalThis.done = 1</script>\n```\n| a | b |\n|---|---|\n| <b>x</b> | `</td>` |\n",
        "# <svg onload=globalThis.done=1>\n> <iframe src=\"javascript:globalThis.done=1\"></iframe>\n- <style>*{display:none}</style>",
        "__proto__ constructor ${globalThis.done=1} {{7*7}} &lt;script&gt;",
    ];
    for text in bad {
        client.says(text);
        client.record(&json!({ "type": "assistant", "uuid": text, "timestamp": "2026-11-17T05:00:00Z",
            "message": { "id": text, "role": "assistant", "content": [
                { "type": "text", "text": text },
                { "type": "tool_use", "id": text, "name": "Bash", "input": { "command": text } }] } }));
        client.record(
            &json!({ "type": "user", "uuid": format!("{text}r"), "timestamp": "2026-11-17T05:00:00Z",
            "message": { "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": text, "content": text }] } }),
        );
    }
    let long = "<script>globalThis.done = 1</script>".repeat(150_000);
    assert!(long.len() > 5_000_000);
    client.says(&long);
    client.hook_with("UserPromptSubmit", json!({ "prompt": bad[0] })).ok();
    client.record(&json!({ "type": "user", "uuid": "c", "sessionId": client.session, "cwd": home.project(),
        "timestamp": "2026-11-17T05:00:00Z", "message": { "role": "user", "content": "the very last words" } }));
    client.hook_with("Stop", json!({ "last_assistant_message": bad[4] })).ok();
    let served = Served::on_http(&home);
    let payload = client.payload(
        "PermissionRequest",
        json!({ "tool_name": "<img src=x onerror=globalThis.done=1>",
            "tool_input": { "command": bad[2], "description": bad[0], "x": { "<script>": bad[1] } } }),
    );
    let mut command = client.command("PermissionRequest");
    let mut hook = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    hook.stdin.take().unwrap().write_all(payload.to_string().as_bytes()).unwrap();
    wait_until("the request", || served.get("/approvals")["approvals"].as_array().unwrap().len() == 1);
    served.post("/sessions/app/messages", &json!({ "text": bad.join("\n") }));
    browser.run(&home, &address(&served), "hostile", json!({}), nothing);
    hook.kill().unwrap();
    hook.wait().unwrap();
}

#[test]
fn it_fits_a_phone_and_a_large_screen() {
    let Some(browser) = Browser::find() else { return };
    let home = Home::new(BATON);
    let staged = stage::Stage::new(&home);
    let served = Served::on_http(&home);
    staged.asks();
    browser.run(&home, &address(&served), "phone", json!({}), nothing);
}

#[test]
fn everything_stands_where_one_looks_for_it_and_the_focus_is_where_one_types() {
    let Some(browser) = Browser::find() else { return };
    let home = Home::new(BATON);
    let staged = stage::Stage::new(&home);
    let served = Served::on_http(&home);
    staged.asks();
    browser.run(&home, &address(&served), "looks", json!({}), nothing);
}

#[test]
fn keyboards_and_screen_readers_find_their_way() {
    let Some(browser) = Browser::find() else { return };
    let home = Home::new(BATON);
    let staged = stage::Stage::new(&home);
    let served = Served::on_http(&home);
    staged.asks();
    browser.run(&home, &address(&served), "access", json!({}), nothing);
}

/// `BATON_PICTURES=/tmp/pictures cargo nextest run -p baton --test it -E 'test(=page::pictures)'`
#[test]
fn pictures() {
    let Some(folder) = std::env::var_os("BATON_PICTURES") else { return };
    let Some(browser) = Browser::find() else { return };
    let home = Home::new(BATON);
    let staged = stage::Stage::new(&home);
    let served = Served::on_http(&home);
    staged.asks();
    std::fs::create_dir_all(&folder).unwrap();
    let args = json!({ "pictures": Path::new(&folder) });
    browser.run(&home, &address(&served), "pictures", args, nothing);
}
