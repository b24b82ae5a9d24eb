//! A home in which a handful of agents have worked for some hours.

use std::cell::RefCell;
use std::io::Write as _;
use std::process::{Child, Stdio};

use baton_testkit::Home;
use baton_testkit::hooks::Client;
use baton_testkit::wait::wait_until;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

pub struct Stage<'a> {
    home: &'a Home,
    clients: Vec<(&'static str, Client<'a>)>,
    hooks: RefCell<Vec<Child>>,
}

impl<'a> Stage<'a> {
    pub fn new(home: &'a Home) -> Self {
        home.write(".config/baton/config.toml", "[approvals]\nwait_for = \"all\"\n");
        home.write("work/app/.git/HEAD", "ref: refs/heads/main\n");
        history(home, "lead");
        history(home, "app");
        let mut stage = Self { home, clients: Vec::new(), hooks: RefCell::default() };
        stage.lead();
        for (name, tokens, prompt) in [
            ("tests", 36_000, "Run the property tests until one fails, then shrink the case."),
            ("docs", 61_000, "Describe the new settings in docs/settings.md."),
            ("fixer", 12_000, "Fix the flaky test in tests/session.rs."),
            ("porter", 118_000, "Port the scanner to the new parser."),
            ("reviewer", 84_000, "Review PR 212, mind the public API."),
        ] {
            stage.start(name, prompt, tokens);
        }
        for child in ["tests", "docs", "fixer"] {
            home.run(&format!("reparent {child} lead"));
        }
        stage
            .client("docs")
            .hook_with("Stop", said("docs/settings.md has a section for each of the four settings."))
            .ok();
        stage
            .client("fixer")
            .hook_with("Stop", said("PR 212 is green: the test waited for a file that another one removes."))
            .ok();
        let limit = json!({ "error": "rate_limit", "last_assistant_message": "limit reached|4102444800" });
        stage.client("porter").hook_with("StopFailure", limit).ok();
        // One that nobody has renamed, for tests that look for it.
        let client = Client::new(home);
        client.starts("startup").ok();
        client.says("Port the parser to the new scanner.");
        client.answers(52_000);
        client.hook("PostToolUse").ok();
        client.hook_with("Stop", said("The parser is ported; 212 tests pass.")).ok();
        stage.clients.push(("app", client));
        home.run_with_input("send user -", "The nightly build is green again.");
        stage
    }

    fn client(&self, name: &str) -> &Client<'a> {
        &self.clients.iter().find(|(known, _)| *known == name).expect("it was started").1
    }

    fn start(&mut self, name: &'static str, prompt: &str, tokens: u64) {
        let client = Client::new(self.home);
        client.starts("startup").ok();
        let old = client.agent();
        self.home.run(&format!("rename {old} {name}")).ok();
        client.says(prompt);
        client.hook_with("UserPromptSubmit", json!({ "prompt": prompt })).ok();
        for part in 1..=4 {
            client.answers(tokens * part / 4);
            client.hook("PostToolUse").ok();
        }
        self.clients.push((name, client));
    }

    /// Three contexts of one task, and a conversation worth reading.
    fn lead(&mut self) {
        let home = self.home;
        let mut client = Client::new(home);
        client.starts("startup").ok();
        home.run(&format!("rename {} lead", client.agent())).ok();
        for (n, what) in [
            "Release 2.0 of the parser. Never change the public API.",
            "Go on with the scanner.",
            "Now the docs.",
        ]
        .into_iter()
        .enumerate()
        {
            client.says(what);
            client.hook_with("UserPromptSubmit", json!({ "prompt": what })).ok();
            for tokens in [40_000, 90_000, 131_000] {
                client.answers(tokens);
                client.hook("PostToolUse").ok();
            }
            client.hook("Stop").ok();
            home.run("rotate lead");
            client.clears();
            assert!(n < 3);
        }
        let at = |minutes: i64| (Timestamp::now() - SignedDuration::from_mins(minutes)).to_string();
        let call = |id: &str, minutes: i64, name: &str, input: Value| {
            json!({ "type": "assistant", "uuid": id, "timestamp": at(minutes), "message": { "id": id, "role": "assistant",
                "content": [{ "type": "tool_use", "id": id, "name": name, "input": input }] } })
        };
        let result = |id: &str, minutes: i64, text: &str, failed: bool| {
            json!({ "type": "user", "uuid": format!("r{id}"), "timestamp": at(minutes), "message": { "role": "user",
                "content": [{ "type": "tool_result", "tool_use_id": id, "content": text, "is_error": failed }] } })
        };
        let reply = |id: &str, minutes: i64, text: &str| {
            json!({ "type": "assistant", "uuid": id, "timestamp": at(minutes), "message": { "id": id, "role": "assistant",
                "content": [{ "type": "text", "text": text }] } })
        };
        let prompt = "Make the scanner skip comments without copying, and show me the benchmark.";
        client.record(
            &json!({ "type": "user", "uuid": "p", "sessionId": client.session, "cwd": home.project(),
            "timestamp": at(14), "message": { "role": "user", "content": prompt } }),
        );
        for record in [
            reply(
                "a1",
                13,
                "I read the scanner first. Two things matter:\n\n1. `skip_comment` allocates a `String` per comment;\n2. the parser asks for the *same* span twice.\n\nI change the first now.",
            ),
            call("t1", 13, "Read", json!({ "file_path": "src/scanner.rs" })),
            result("t1", 13, "fn skip_comment(&mut self) -> String { … }", false),
            call(
                "t2",
                12,
                "Edit",
                json!({ "file_path": "src/scanner.rs",
                "old_string": "fn skip_comment(&mut self) -> String {\n    let text = self.rest().to_owned();\n    self.bump_line();\n    text\n}",
                "new_string": "fn skip_comment(&mut self) -> Span {\n    let start = self.at;\n    self.bump_line();\n    Span::new(start, self.at)\n}" }),
            ),
            result("t2", 12, "The file was updated.", false),
            call("t3", 11, "Bash", json!({ "command": "cargo test -p parser" })),
            result("t3", 10, "Exit code 101\ntest comments::nested ... FAILED", true),
            call("t4", 9, "Bash", json!({ "command": "cargo test -p parser comments::nested" })),
            result("t4", 9, "test comments::nested ... ok", false),
            call("t5", 8, "Task", json!({ "description": "measure on the corpus", "prompt": "Measure." })),
            result("t5", 6, "412 MB/s before, 655 MB/s after.", false),
            reply(
                "a2",
                5,
                "It skips comments without a copy now.\n\n| | before | after |\n|---|---|---|\n| corpus | 412 MB/s | **655 MB/s** |\n| comments only | 380 MB/s | 1.9 GB/s |\n\nThe public API is as it was; see https://example.org/parser/pull/212.",
            ),
            call("t6", 1, "Bash", json!({ "command": "cargo bench --bench scanner" })),
        ] {
            client.record(&record);
        }
        client.hook_with("UserPromptSubmit", json!({ "prompt": prompt })).ok();
        client.answers(58_000);
        client.hook("PostToolUse").ok();
        spread(home);
        // All of this took a second: the chart is of the hours before.
        only_hours_ago(home, "lead");
        self.clients.push(("lead", client));
    }

    /// Two agents ask, and somebody waits for the answers.
    pub fn asks(&self) {
        for (agent, fields) in [
            (
                "reviewer",
                json!({ "tool_name": "Bash", "tool_input": { "command": "cargo publish --dry-run",
                "description": "See whether the package is complete" } }),
            ),
            (
                "app",
                json!({ "tool_name": "AskUserQuestion", "tool_input": { "questions": [{ "question": "Which parser becomes the default?",
                "header": "Parser", "multiSelect": false, "options": [
                    { "label": "The new one", "description": "faster, one known difference" },
                    { "label": "The old one", "description": "nothing changes" }] }] } }),
            ),
        ] {
            let client = self.client(agent);
            let payload = client.payload("PermissionRequest", fields);
            let mut command = client.command("PermissionRequest");
            let mut hook =
                command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("a hook starts");
            hook.stdin.take().expect("a pipe").write_all(payload.to_string().as_bytes()).expect("it reads");
            self.hooks.borrow_mut().push(hook);
        }
        wait_until("both requests", || {
            let listed: Value =
                serde_json::from_str(&self.home.run("approvals --json").out).unwrap_or_default();
            listed.as_array().is_some_and(|rows| rows.len() == 2)
        });
    }
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        for hook in self.hooks.get_mut() {
            let _ = hook.kill();
            let _ = hook.wait();
        }
    }
}

fn said(text: &str) -> Value {
    json!({ "last_assistant_message": text })
}

/// The log of some hours, as hooks would have written it.
fn history(home: &Home, agent: &str) {
    let now = Timestamp::now();
    let line = |minutes: i64, event: &str, detail: Value| {
        let at = now - SignedDuration::from_mins(minutes);
        let day = at.strftime("%Y-%m-%d").to_string();
        let path = home.state().join(format!("log/{day}.jsonl"));
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        let mut file = std::fs::File::options().create(true).append(true).open(path).expect("a log");
        let text = json!({ "at": at, "event": event, "agent": agent, "channel": "app", "detail": detail });
        writeln!(file, "{text}").expect("a line");
    };
    let mut minutes = 640;
    for (n, top) in [136_000, 131_000, 162_000, 139_000, 134_000].into_iter().enumerate() {
        let handoff = format!("HO-20261117-{n:06}-0248d5f4");
        line(
            minutes,
            "session-start",
            json!({ "source": if n == 0 { "startup" } else { "clear" }, "handoff": (n > 0).then_some(&handoff) }),
        );
        let steps = 24;
        for step in 1..=steps {
            minutes -= 4;
            let tokens = 9_000 + (top - 9_000) * step / steps;
            let told = match step {
                16 => json!({ "tokens": tokens, "said": "advisory" }),
                22 => json!({ "tokens": tokens, "said": "request" }),
                _ => json!({ "tokens": tokens }),
            };
            line(minutes, "PostToolUse", told);
        }
        minutes -= 2;
        match n {
            2 => {
                line(
                    minutes,
                    "pre-compact",
                    json!({ "trigger": "auto", "tokens": 167_000, "handoff": null }),
                );
                line(minutes - 1, "post-compact", json!({}));
            }
            3 => {
                line(minutes, "stop-failure", json!({ "error": "rate_limit", "message": "limit" }));
                minutes -= 20;
                line(minutes, "rotation-requested", json!({ "handoff": handoff, "by": "the agent" }));
            }
            _ => line(minutes, "rotation-requested", json!({ "handoff": handoff, "by": "the agent" })),
        }
        minutes -= 2;
    }
}

/// Forgets what the log says of the last minutes about an agent, but for the last reading.
fn only_hours_ago(home: &Home, agent: &str) {
    let now = Timestamp::now();
    let path = home.state().join(format!("log/{}.jsonl", now.strftime("%Y-%m-%d")));
    let text = std::fs::read_to_string(&path).expect("a log");
    let is_kept = |line: &&str| {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let at: Timestamp = line["at"].as_str().expect("a time").parse().expect("a time");
        line["agent"] != agent || now.duration_since(at) > SignedDuration::from_mins(5)
    };
    let mut kept: Vec<String> = text.lines().filter(is_kept).map(str::to_owned).collect();
    let at = |minutes| now - SignedDuration::from_mins(minutes);
    for (minutes, event, detail) in [
        (90, "session-start", json!({ "source": "clear", "handoff": "HO-20261117-000004-0248d5f4" })),
        (60, "PostToolUse", json!({ "tokens": 21_000 })),
        (30, "PostToolUse", json!({ "tokens": 44_000 })),
        (0, "PostToolUse", json!({ "tokens": 58_000 })),
    ] {
        let line =
            json!({ "at": at(minutes), "event": event, "agent": agent, "channel": "app", "detail": detail });
        kept.push(line.to_string());
    }
    std::fs::write(&path, kept.join("\n") + "\n").expect("a log");
}

/// Moves the contexts of the lead apart: they were made within a second.
fn spread(home: &Home) {
    let agent = baton_testkit::home::record(&home.state().join("agents/lead.json"));
    let sessions: Vec<&str> =
        agent["sessions"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    let hour =
        |hours: usize| Timestamp::now() - SignedDuration::from_hours(i64::try_from(hours).unwrap_or(0));
    let span = 30;
    let begun = |n: usize| hour(span * (sessions.len() - n) - 20);
    for (n, id) in sessions.iter().enumerate() {
        let path = home.state().join(format!("sessions/{id}.json"));
        let mut record = baton_testkit::home::record(&path);
        record["started"] = json!(begun(n));
        if !record["ended"].is_null() {
            record["ended"]["at"] = json!(begun(n + 1));
        }
        std::fs::write(&path, format!("{record}\n")).expect("a record");
    }
    for entry in std::fs::read_dir(home.store().join("archive")).expect("an archive").flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|x| x != "json") {
            continue;
        }
        let mut carried: Value =
            serde_json::from_slice(&std::fs::read(&path).expect("a file")).expect("JSON");
        let at = |session: &Value| sessions.iter().position(|id| session == id).map(|n| json!(begun(n + 1)));
        if let Some(at) = at(&carried["from"]["session"]) {
            carried["from"]["at"] = at;
        }
        for hop in carried["ledger"]["hops"].as_array_mut().into_iter().flatten() {
            if let Some(at) = at(&hop["session"]) {
                hop["at"] = at;
            }
        }
        std::fs::write(&path, carried.to_string()).expect("a file");
    }
}
