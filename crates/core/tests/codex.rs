//! Codex's payloads and rollouts: each payload becomes the right event, each rollout tells how full the context is.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

use std::fmt::Write as _;
use std::fs;
use std::io::Cursor;
use std::path::PathBuf;

use baton_core::event::{Event, HookEvent};
use baton_core::reading::{DEFAULT_WINDOW, Reading};
use baton_core::transcript::rollout::last_usage;
use baton_core::transcript::tail::{Compacted, REACH, Tail, TailUsage};
use baton_core::wire::codex::known::unknown_fields;
use baton_core::wire::codex::{BASE_TOKENS, EVENTS, parse_hook, veto};
use serde_json::{Value, json};

fn fixture(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/codex").join(path)
}

fn payloads() -> Vec<(String, String)> {
    let mut files: Vec<_> = fs::read_dir(fixture("hooks"))
        .unwrap()
        .map(|f| f.unwrap().path())
        .map(|p| (p.file_stem().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(&p).unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn every_recorded_payload_holds_only_what_we_know_and_becomes_the_event_it_is() {
    let mut seen = String::new();
    for (name, json) in payloads() {
        assert_eq!(unknown_fields(&json), [""; 0], "{name}");
        assert!(EVENTS.contains(&name.split('.').next().unwrap()), "{name}");
        let event = HookEvent::try_from(parse_hook(json.as_bytes()).unwrap()).unwrap();
        assert!(event.session.as_str().starts_with("01a1e1"), "{name}");
        assert!(event.transcript.as_deref().unwrap().contains("/rollout-2026-11-16T"), "{name}");
        assert_eq!(event.cwd.as_deref(), Some("/home/dev/proj"), "{name}");
        let subagent = if event.subagent.is_some() { " (subagent)" } else { "" };
        let _ = writeln!(seen, "{name}{subagent}: {:?}", event.event);
    }
    insta::assert_snapshot!(seen);
}

#[test]
fn a_subagent_speaks_under_the_root_threads_id_and_is_known_by_its_own() {
    let of = |name: &str| fs::read_to_string(fixture("hooks").join(name)).unwrap();
    for name in ["UserPromptSubmit.subagent.json", "SubagentStart.json", "PreModelRequest.subagent.json"] {
        let json = of(name);
        let event = HookEvent::try_from(parse_hook(json.as_bytes()).unwrap()).unwrap();
        assert!(event.subagent.is_some(), "{name}");
        assert!(!event.transcript.unwrap().contains(event.session.as_str()), "{name} names its own rollout");
    }
}

#[test]
fn an_event_and_fields_of_a_later_client_are_harmless() {
    let json = br#"{"hook_event_name":"PreDream","session_id":"s1","cwd":7,"source":{"a":[1]},"prompt":3,
        "stop_hook_active":"yes","new":{"deep":[{"er":null}]},"agent_id":null}"#;
    let event = HookEvent::try_from(parse_hook(json).unwrap()).unwrap();
    assert_eq!((event.session.as_str(), event.cwd, event.subagent), ("s1", None, None));
    assert_eq!(event.event, Event::Other("PreDream".into()));
    for json in [
        r#"{"hook_event_name":"Stop"}"#,
        r#"{"hook_event_name":"Stop","session_id":"../../x"}"#,
        r#"{"session_id":"s"}"#,
    ] {
        assert!(HookEvent::try_from(parse_hook(json.as_bytes()).unwrap()).is_err(), "{json}");
    }
    for garbage in ["", "x", "[]", "{", "null", "{\"session_id\":"] {
        assert!(parse_hook(garbage.as_bytes()).is_err(), "{garbage:?}");
    }
}

#[test]
fn a_veto_is_what_the_clients_schema_allows() {
    let answer: Value = serde_json::from_str(&veto("a \"fresh\" context follows")).unwrap();
    assert_eq!(answer["continue"], false);
    let allowed = ["continue", "stopReason", "suppressOutput", "systemMessage"];
    assert!(answer.as_object().unwrap().keys().all(|key| allowed.contains(&key.as_str())), "{answer}");
}

/// The slow way: parse every line from the beginning as untyped JSON.
fn full_parse(bytes: &[u8]) -> Tail {
    let mut last = Tail::Nothing;
    for line in bytes.split(|&b| b == b'\n') {
        let Ok(r) = serde_json::from_slice::<Value>(line) else { continue };
        let at = r["timestamp"].as_str().and_then(|t| t.parse().ok());
        let info = &r["payload"]["info"];
        let tokens = info["last_token_usage"]["total_tokens"].as_u64().unwrap_or(0);
        if r["type"] == "event_msg" && r["payload"]["type"] == "token_count" && tokens > 0 {
            let window = info["model_context_window"].as_u64().filter(|&w| w > 0);
            last = Tail::Usage(TailUsage { tokens, output: 0, window, model: None, at });
        } else if r["type"] == "compacted" {
            last = Tail::Compacted(Compacted { auto: false, pre_tokens: None, post_tokens: None, at });
        }
    }
    last
}

/// Cuts the recorded session after each line and compares with the readings that the client displayed.
#[test]
fn a_recorded_session_gives_a_reading_after_each_count_and_never_the_cumulative_total() {
    let bytes = fs::read(fixture("rollouts/autocompact.jsonl")).unwrap();
    let now = "2026-11-16T04:00:00Z".parse().unwrap();
    let mut seen = String::new();
    let mut end = 0;
    for line in bytes.split_inclusive(|&b| b == b'\n') {
        end += line.len();
        let tail = last_usage(&mut Cursor::new(&bytes[..end]), REACH).unwrap();
        assert_eq!(tail, full_parse(&bytes[..end]), "after byte {end}");
        let reading =
            Reading::from_tail(&tail, None, DEFAULT_WINDOW, now).map(|r| Reading { base: BASE_TOKENS, ..r });
        let told = match reading {
            Some(r) => format!("{} of {} = {} %\n", r.tokens, r.window, r.percentage()),
            None => format!("{}\n", if matches!(tail, Tail::Compacted(_)) { "compacted" } else { "nothing" }),
        };
        if !seen.ends_with(&told) {
            seen.push_str(&told);
        }
    }
    insta::assert_snapshot!(seen);
}

/// A small generator of our own (SplitMix64): a seed reproduces a failure.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }

    fn text(&mut self) -> String {
        const WORDS: [&str; 8] = [
            "plain words ",
            "\"token_count\"",
            "{\"type\":\"event_msg\",\"payload\":{\"type\":\"token_count\"}}\n",
            "\"compacted\"",
            "\\",
            "\n\n",
            "ünïcödé 🦀 ",
            "}]}",
        ];
        let repeat = if self.roll(40) == 0 { 6_000 + self.roll(9_000) } else { self.roll(8) };
        (0..repeat).map(|_| WORDS[usize::try_from(self.roll(8)).unwrap()]).collect()
    }
}

fn record(dice: &mut Dice) -> Value {
    let text = dice.text();
    let at = format!("2026-11-{:02}T{:02}:00:00.{:03}Z", 1 + dice.roll(28), dice.roll(24), dice.roll(1000));
    let line =
        |kind: &str, payload: Value| json!({"timestamp": at, "ordinal": 7, "type": kind, "payload": payload});
    let count = |last: Value, window: Value| {
        line(
            "event_msg",
            json!({"type": "token_count", "info": {"total_token_usage": {"total_tokens": 9_999_999},
                "last_token_usage": last, "model_context_window": window}, "rate_limits": {"note": text}}),
        )
    };
    let tokens = dice.roll(90_000);
    match dice.roll(12) {
        0..=2 => count(json!({"input_tokens": tokens, "total_tokens": tokens + 1}), json!(95_000)),
        3 => count(json!({"total_tokens": tokens}), json!(null)),
        4 => line("event_msg", json!({"type": "token_count", "info": null, "rate_limits": {}})),
        5 => count(json!({"total_tokens": 0}), json!(95_000)),
        6 => line("compacted", json!({"message": text, "replacement_history": [{"type": "token_count"}]})),
        7 => line("event_msg", json!({"type": "task_complete", "last_agent_message": text})),
        8 => line(
            "response_item",
            json!({"type": "message", "info": {"last_token_usage": {"total_tokens": 5}},
            "content": [{"text": text}], "name": "token_count"}),
        ),
        9 => json!(["event_msg", at, {"type": "token_count"}, "compacted"]),
        10 => line("world_state", json!("token_count")),
        _ => line("turn_context", json!({"cwd": "/x", "type": "compacted"})),
    }
}

#[test]
fn the_scan_from_the_end_equals_a_full_parse_on_generated_rollouts() {
    let files = if std::env::var_os("BATON_LONG").is_some() { 100_000 } else { 2_000 };
    let (mut usages, mut compactions, mut nothings, mut long) = (0, 0, 0, 0);
    for seed in 0..files {
        let mut dice = Dice(seed);
        let mut bytes = Vec::new();
        for _ in 0..dice.roll(14) {
            let mut line = serde_json::to_vec(&record(&mut dice)).unwrap();
            // A line torn in the middle of the file: the client was killed and continued later.
            if dice.roll(14) == 0 {
                line.truncate(usize::try_from(dice.roll(line.len() as u64)).unwrap());
            }
            bytes.extend_from_slice(&line);
            bytes.push(b'\n');
        }
        if dice.roll(3) == 0 && !bytes.is_empty() {
            let cut = usize::try_from(dice.roll(1 + bytes.len().min(600) as u64)).unwrap();
            bytes.truncate(bytes.len() - cut);
        }
        let expected = full_parse(&bytes);
        assert_eq!(last_usage(&mut Cursor::new(&bytes), REACH).unwrap(), expected, "seed {seed}");
        match expected {
            Tail::Usage(_) => usages += 1,
            Tail::Compacted(_) => compactions += 1,
            _ => nothings += 1,
        }
        long += u64::from(bytes.len() > 200_000);
    }
    assert!(usages > files / 4 && compactions > files / 20 && nothings > files / 50 && long > files / 100);
}
