//! A hook never does harm: under every adversity every event exits with 0 and answers with valid JSON or nothing, in
//! time.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use baton_testkit::hooks::{Client, EVENTS, HookOutput, send};
use baton_testkit::{CommandOutput, Home, tools, trace};
use serde_json::json;

use crate::BATON;

/// The targets. The tests allow ten times as much, because the machine is doing other work too.
fn target(event: &str) -> Duration {
    match event {
        "PostToolUse" | "PostToolUseFailure" | "UserPromptSubmit" => Duration::from_millis(50),
        // All others may seal or load a handoff, and wait a second for their payload.
        _ => Duration::from_secs(1),
    }
}

/// A session at 67 % with waiting mail and a handoff to load, so that every event has something to do.
fn prepared(home: &Home) -> Client<'_> {
    let client = Client::new(home);
    client.starts("startup").silent();
    home.run_with_input("handoffs seal - --type manual", "# Waiting\n").ok();
    client.answers(134_000);
    home.run("send app hello").ok();
    client
}

#[track_caller]
fn harmless(event: &str, adversity: &str, heard: &HookOutput) {
    let _ = heard.answer();
    let ceiling = target(event) * 10;
    assert!(heard.took < ceiling, "{event} with {adversity} took {:?}", heard.took);
    // Print the time for comparison with the target itself.
    eprintln!("{:>7.1} ms  {event} with {adversity}", heard.took.as_secs_f64() * 1e3);
}

/// Runs each event in its own prepared home after `spoil` has damaged it; the value that `spoil` returns is kept alive.
fn each_event<T>(adversity: &str, spoil: impl Fn(&Home, &Client<'_>) -> T) {
    for event in EVENTS {
        let home = Home::in_memory(BATON);
        let client = prepared(&home);
        let held = spoil(&home, &client);
        let heard = client.hook(event);
        drop(held);
        harmless(event, adversity, &heard);
    }
}

/// The same for bad standard input.
fn each_input(adversity: &str, input: impl Fn(&Client<'_>, &str) -> Vec<u8>) {
    for event in EVENTS {
        let home = Home::in_memory(BATON);
        let client = prepared(&home);
        let heard = send(client.command(event), &input(&client, event));
        harmless(event, adversity, &heard);
    }
}

#[test]
fn nothing_in_the_way() {
    each_event("nothing in the way", |_, _| ());
}

#[test]
fn every_lock_is_held_by_somebody_else() {
    each_event("locks held", |home, client| {
        let state = home.state();
        let locks: Vec<PathBuf> = vec![
            state.join(format!("sessions/{}.lock", client.session)),
            state.join("agents/app.lock"),
            state.join("compaction.lock"),
            home.store().join("global.lock.d/pid"),
        ];
        let held: Vec<File> = locks
            .iter()
            .map(|path| {
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                let file = File::options().create(true).append(true).open(path).unwrap();
                file.lock().unwrap();
                file
            })
            .collect();
        held
    });
}

#[test]
fn a_listener_that_hangs() {
    each_event("a listener that hangs", |home, _| {
        let run = home.state().join("run");
        std::fs::create_dir_all(&run).unwrap();
        let path = run.join("app.sock");
        let deaf = UnixDatagram::bind(&path).unwrap();
        let sender = UnixDatagram::unbound().unwrap();
        sender.set_nonblocking(true).unwrap();
        while sender.send_to(b"!", &path).is_ok() {}
        deaf
    });
}

#[test]
fn files_where_folders_belong() {
    for place in ["state", "handoff", "sessions", "agents", "mail", "log"] {
        each_event(&format!("a file instead of {place}"), |home, _| {
            let path = match place {
                "state" => home.state(),
                "handoff" => home.store(),
                other => home.state().join(other),
            };
            let _ = std::fs::remove_dir_all(&path);
            std::fs::write(&path, "in the way").unwrap();
        });
    }
}

#[test]
fn damaged_records() {
    each_event("damaged records", |home, client| {
        let state = home.state();
        for name in [
            format!("sessions/{}.json", client.session),
            format!("sessions/{}.gauge", client.session),
            "agents/app.json".to_owned(),
            format!("processes/{}.json", client.pid()),
            "compaction.json".to_owned(),
        ] {
            std::fs::write(state.join(name), b"{\"id\": \"\xff\xfe torn").unwrap();
        }
        std::fs::write(home.store().join("global.manifest.json"), "{ not json").unwrap();
    });
}

#[test]
fn transcripts_that_are_missing_a_folder_a_pipe_or_garbage() {
    each_event("no transcript", |_, client| std::fs::remove_file(client.transcript()).unwrap());
    each_event("a folder as transcript", |_, client| {
        std::fs::remove_file(client.transcript()).unwrap();
        std::fs::create_dir(client.transcript()).unwrap();
    });
    each_event("a pipe as transcript", |_, client| {
        std::fs::remove_file(client.transcript()).unwrap();
        assert!(Command::new("mkfifo").arg(client.transcript()).status().unwrap().success());
    });
    each_event("garbage as transcript", |_, client| {
        std::fs::write(client.transcript(), vec![0xff; 3 << 20]).unwrap();
    });
}

#[test]
fn input_that_is_garbage_empty_torn_or_huge() {
    each_input("garbage", |_, _| b"\xff\x00 not json at all".to_vec());
    each_input("nothing", |_, _| Vec::new());
    each_input("half a payload", |client, event| {
        let whole = client.usual(event).to_string();
        whole[..whole.len() / 2].into()
    });
    each_input("no session", |_, event| json!({ "hook_event_name": event }).to_string().into());
    each_input("a session id that is a path", |client, event| {
        let mut payload = client.usual(event);
        payload["session_id"] = json!("../../../../etc/passwd");
        payload.to_string().into()
    });
    each_input("2 MB", |client, event| {
        let mut payload = client.usual(event);
        payload["tool_response"] = json!({ "stdout": "x\n\"".repeat(700_000) });
        payload.to_string().into()
    });
}

#[test]
fn a_payload_of_two_megabytes_is_understood() {
    let home = Home::in_memory(BATON);
    let client = prepared(&home);
    let heard =
        client.hook_with("PostToolUse", json!({ "tool_response": { "stdout": "y".repeat(2 << 20) } }));
    assert!(heard.context().unwrap().contains("67%"));
}

#[test]
fn input_that_is_never_closed() {
    for event in EVENTS {
        for whole in [true, false] {
            let home = Home::in_memory(BATON);
            let client = prepared(&home);
            let mut command = client.command(event);
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let began = Instant::now();
            let mut child = command.spawn().unwrap();
            let mut stdin = child.stdin.take().unwrap();
            if whole {
                stdin.write_all(client.usual(event).to_string().as_bytes()).unwrap();
            }
            let ran = CommandOutput::of(&child.wait_with_output().unwrap());
            drop(stdin);
            let heard = HookOutput { code: ran.code, out: ran.out, err: ran.err, took: began.elapsed() };
            harmless(event, if whole { "open input" } else { "silent input" }, &heard);
        }
    }
}

/// Without `HOME`, baton uses the home on record for this user; nothing may be written there.
fn elsewhere(home: &Home, command: &mut std::process::Command) {
    command
        .env("BATON_STATE_DIR", home.state())
        .env("BATON_CONFIG", home.path().join(".config/baton/config.toml"))
        .env("CLAUDE_CONFIG_DIR", home.path().join(".claude"));
}

/// A client that was started by a service manager: its hooks still find their files.
#[test]
fn without_home_the_recorded_home_is_used() {
    let home = Home::in_memory(BATON);
    let client = prepared(&home);
    let mut command = client.command("PostToolUse");
    elsewhere(&home, &mut command);
    command.env_remove("HOME");
    let heard = send(command, client.usual("PostToolUse").to_string().as_bytes());
    assert!(heard.context().is_some_and(|c| c.contains("67%")), "{heard:?}");
}

/// One line at the start says that nothing is kept; after that the hooks are silent.
#[test]
fn an_unwritable_home_is_reported_once_at_the_start() {
    let home = Home::in_memory(BATON);
    let client = Client::new(&home);
    client.answers(134_000);
    let hear = |event: &str| {
        let mut command = client.command(event);
        command.env("BATON_STATE_DIR", "/proc/read-only/baton");
        send(command, client.usual(event).to_string().as_bytes())
    };
    let said = hear("SessionStart").message().unwrap();
    assert!(said.starts_with("baton: this session is neither watched nor handed over: "), "{said}");
    assert!(said.contains("/proc/read-only") && said.lines().count() == 1, "{said}");
    for event in ["UserPromptSubmit", "PostToolUse", "Stop"] {
        hear(event).silent();
    }
}

/// The same with a home on a file system that is mounted read-only.
#[test]
fn a_read_only_home_is_reported_once_at_the_start() {
    if !tools::has(&["unshare"]) {
        return;
    }
    let home = Home::in_memory(BATON);
    let client = Client::new(&home);
    client.answers(134_000);
    let hear = |event: &str| {
        let hook = client.command(event);
        let mut command = std::process::Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c"]);
        command.arg("mount --bind \"$HOME\" \"$HOME\" && mount -o remount,bind,ro \"$HOME\" && exec \"$@\"");
        command.arg("sh").arg(hook.get_program()).args(hook.get_args());
        command.env_clear().envs(hook.get_envs().filter_map(|(key, value)| Some((key, value?))));
        send(command, client.usual(event).to_string().as_bytes())
    };
    let start = hear("SessionStart");
    if start.err.contains("unshare") || start.err.contains("mount:") {
        tools::skip("mounts are not possible here");
        return;
    }
    let said = start.message().unwrap_or_else(|| panic!("{start:?}"));
    assert!(said.starts_with("baton: this session is neither watched nor handed over: "), "{said}");
    for event in ["UserPromptSubmit", "PostToolUse", "Stop"] {
        hear(event).silent();
    }
}

#[test]
fn no_home_a_relative_home_and_a_broken_configuration() {
    for event in EVENTS {
        let home = Home::in_memory(BATON);
        let client = prepared(&home);
        for value in [None, Some(""), Some("relative/home")] {
            let mut command = client.command(event);
            elsewhere(&home, &mut command);
            match value {
                None => command.env_remove("HOME"),
                Some(value) => command.env("HOME", value),
            };
            let heard = send(command, client.usual(event).to_string().as_bytes());
            harmless(event, "no home", &heard);
        }
        home.write(".config/baton/config.toml", "[context\nwarning = ");
        harmless(event, "a broken configuration", &client.hook(event));
    }
    let home = Home::in_memory(BATON);
    let client = prepared(&home);
    home.write(".config/baton/config.toml", "[context]\ncritical_percentage = 900\n");
    assert!(client.hook("PostToolUse").context().unwrap().contains("67%"), "the defaults go on");
}

/// Creating folders, renames and syncs fail; then writes fail too, including those to the client.
#[test]
fn a_full_disk() {
    const NAMES: &str = "?mkdir,mkdirat,?rename,renameat,renameat2,fsync,ftruncate";
    if !trace::available() {
        return;
    }
    for (calls, adversity) in
        [(NAMES.to_owned(), "a full disk"), (format!("{NAMES},write,writev"), "a disk that takes no byte")]
    {
        for event in EVENTS {
            let home = Home::in_memory(BATON);
            let client = prepared(&home);
            let payload = home.write("payload.json", client.usual(event).to_string());
            let mut command = home.command("strace");
            command
                .args(["-qq", "-f", "-o", "/dev/null", "-e", &format!("trace={calls}")])
                .args(["-e", &format!("inject={calls}:error=ENOSPC")])
                .arg(BATON)
                .args(["hook", event])
                .stdin(File::open(&payload).unwrap());
            client.dress(&mut command);
            let began = Instant::now();
            let ran = CommandOutput::of(&command.output().unwrap());
            let heard = HookOutput { code: ran.code, out: ran.out, err: ran.err, took: began.elapsed() };
            harmless(event, adversity, &heard);
            let list = home.run("handoffs list --json").json();
            assert_eq!(list.as_array().map(Vec::len), Some(1), "the store is as it was: {list}");
            let mail = home.run("inbox app --json").json();
            assert_eq!(mail.as_array().map(Vec::len), Some(1), "no message is lost: {mail}");
        }
    }
}

mod generated {
    use baton_testkit::Home;
    use baton_testkit::hooks::{Client, EVENTS, send};
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use crate::BATON;

    fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "\\PC{0,40}".prop_map(Value::from),
            Just(json!("../../etc/passwd")),
            Just(json!("/")),
            Just(json!("clear")),
            Just(json!("auto")),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-z_]{1,12}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    const FIELDS: [&str; 22] = [
        "hook_event_name",
        "session_id",
        "transcript_path",
        "cwd",
        "prompt_id",
        "permission_mode",
        "agent_id",
        "source",
        "model",
        "prompt",
        "tool_name",
        "tool_input",
        "tool_response",
        "stop_hook_active",
        "last_assistant_message",
        "background_tasks",
        "session_crons",
        "error",
        "trigger",
        "custom_instructions",
        "reason",
        "notification_type",
    ];

    /// Lines of a transcript: whole, odd or torn.
    fn transcript_line() -> impl Strategy<Value = String> {
        let usage = json_value().prop_map(|v| {
            json!({ "type": "assistant", "timestamp": v, "message": { "model": "claude-opus-4-6",
                "usage": { "input_tokens": 134_000, "cache_read_input_tokens": v } } })
            .to_string()
        });
        let boundary = json_value().prop_map(|v| {
            json!({ "type": "system", "subtype": "compact_boundary", "compactMetadata": v }).to_string()
        });
        let odd = json_value().prop_map(|v| json!({ "type": "user", "message": v }).to_string());
        prop_oneof![usage, boundary, odd, "\\PC{0,60}"]
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: u32::try_from(baton_testkit::times(120)).unwrap_or(120),
            // Each case starts a process. The message of a failure is enough, so do not shrink it for minutes.
            max_shrink_iters: 40,
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        /// Arbitrary input, from a client or not, and arbitrary transcripts.
        #[test]
        fn payloads_and_transcripts_never_hurt(
            event in prop::sample::select(&EVENTS[..]),
            changed in prop::collection::vec((prop::sample::select(&FIELDS[..]), json_value()), 0..4),
            lines in prop::collection::vec(transcript_line(), 0..8),
            torn in any::<bool>(),
            known in any::<bool>(),
        ) {
            let home = Home::in_memory(BATON);
            let client = Client::new(&home);
            if known {
                client.starts("startup").silent();
            }
            let mut text = lines.join("\n");
            if !torn {
                text.push('\n');
            }
            std::fs::create_dir_all(client.transcript().parent().unwrap()).unwrap();
            std::fs::write(client.transcript(), text).unwrap();
            let mut payload = client.usual(event);
            for (field, value) in changed {
                payload[field] = value;
            }
            let heard = send(client.command(event), payload.to_string().as_bytes());
            let _ = heard.answer();
            let log = std::fs::read_dir(home.state().join("log")).into_iter().flatten().flatten();
            for file in log {
                let text = std::fs::read_to_string(file.path()).unwrap();
                prop_assert!(!text.contains("\"panic\""), "{}", text);
            }
        }
    }
}
