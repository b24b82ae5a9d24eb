//! Claude Code's payloads, one file per event and variant: each is read completely, names its session, and becomes the
//! right event.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use baton_core::event::{Event, HookEvent};
use baton_core::reading::{DEFAULT_WINDOW, Reading};
use baton_core::wire::claude::known::{unknown_fields, unknown_statusline_fields};
use baton_core::wire::claude::statusline::parse_statusline;
use baton_core::wire::claude::{EVENTS, parse_hook};
use baton_core::wire::front::{Front, front};

fn fixtures(folder: &str) -> Vec<(String, String)> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/claude").join(folder);
    let mut files: Vec<_> = fs::read_dir(root)
        .unwrap()
        .map(|f| f.unwrap().path())
        .map(|p| (p.file_stem().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(&p).unwrap()))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

#[test]
fn every_recorded_payload_holds_only_what_we_know() {
    for (name, json) in fixtures("hooks") {
        assert_eq!(unknown_fields(&json), [""; 0], "{name}");
        let event = name.split('.').next().unwrap();
        assert!(EVENTS.contains(&event), "{name}");
        assert_eq!(front(json.as_bytes()), Front::Complete(json.trim_end().len()), "{name}");
    }
    for (name, json) in fixtures("statusline") {
        assert_eq!(unknown_statusline_fields(&json), [""; 0], "{name}");
    }
}

/// Checks what is specific to each payload; the common fields are checked separately.
#[test]
fn every_recorded_payload_becomes_the_event_it_is() {
    let mut seen = String::new();
    for (name, json) in fixtures("hooks") {
        let event = HookEvent::try_from(parse_hook(json.as_bytes()).unwrap()).unwrap();
        assert_eq!(event.session.as_str(), "11111111-2222-4333-8444-555555555555", "{name}");
        assert!(event.transcript.as_deref().unwrap().ends_with("555555555555.jsonl"), "{name}");
        assert!(event.cwd.as_deref().unwrap().starts_with("/home/dev/proj"), "{name}");
        assert_eq!(event.subagent.is_some(), json.contains("\"agent_id\""), "{name}");
        let subagent = if event.subagent.is_some() { " (subagent)" } else { "" };
        let _ = writeln!(seen, "{name}{subagent}: {:?}", event.event);
    }
    insta::assert_snapshot!(seen);
}

#[test]
fn every_recorded_status_line_gives_its_reading() {
    let now = "2026-11-16T04:00:00Z".parse().unwrap();
    let mut seen = String::new();
    for (name, json) in fixtures("statusline") {
        let line = parse_statusline(json.as_bytes()).unwrap();
        match Reading::from_statusline(&line, DEFAULT_WINDOW, now) {
            None => seen.push_str(&(name + ": unknown\n")),
            Some(r) => {
                let shown = line.context_window.unwrap().used_percentage.unwrap();
                assert_eq!(u64::from(r.percentage()), shown, "{name}: the client shows another percentage");
                let _ = writeln!(seen, "{name}: {} + {} of {} = {shown} %", r.tokens, r.output, r.window);
            }
        }
    }
    insta::assert_snapshot!(seen, @r"
    null-usage: unknown
    null-usage-200kmodel: unknown
    null-usage-named: unknown
    over200k: 899950 + 50 of 1000000 = 90 %
    over200k-200kmodel: 204950 + 50 of 200000 = 100 %
    with-usage: 40100 + 50 of 1000000 = 4 %
    with-usage-200kmodel: 149950 + 50 of 200000 = 75 %
    with-usage-named: 20600 + 50 of 1000000 = 2 %
    ");
}

#[test]
fn an_event_and_fields_of_a_later_client_are_harmless() {
    let json = br#"{"hook_event_name":"PreDream","session_id":"s1","cwd":7,"source":{"a":[1]},"prompt":3,
        "stop_hook_active":"yes","background_tasks":"many","new":{"deep":[{"er":null}]}}"#;
    let event = HookEvent::try_from(parse_hook(json).unwrap()).unwrap();
    assert_eq!((event.session.as_str(), event.cwd, event.subagent), ("s1", None, None));
    assert_eq!(event.event, Event::Other("PreDream".into()));
    let stop = br#"{"hook_event_name":"Stop","session_id":"s1","background_tasks":{"a":1},"last_assistant_message":["x"]}"#;
    let stop = HookEvent::try_from(parse_hook(stop).unwrap()).unwrap();
    assert_eq!(stop.event, Event::Stop { hook_active: false, last_message: None, tasks: vec![], crons: 0 });
}

#[test]
fn a_payload_without_a_session_or_with_a_dangerous_one_is_refused() {
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

/// Payloads cut, spliced and with changed bytes: each is read or refused, and nothing panics. `BATON_LONG=1` runs a
/// million of them.
#[test]
fn no_payload_makes_the_reader_panic() {
    let rounds = if std::env::var_os("BATON_LONG").is_some() { 1_000_000 } else { 20_000 };
    let files: Vec<_> =
        fixtures("hooks").into_iter().chain(fixtures("statusline")).map(|(_, json)| json).collect();
    let mut state = 1u64;
    let mut dice = |sides: usize| {
        // xorshift64: a fixed sequence, so that a failure can be reproduced.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % sides as u64).unwrap()
    };
    let (mut read, mut events) = (0, 0);
    for _ in 0..rounds {
        let mut bytes = files[dice(files.len())].clone().into_bytes();
        for _ in 0..=dice(3) {
            let at = dice(bytes.len());
            match dice(5) {
                0 => bytes.truncate(at + 1),
                1 => bytes[at] = u8::try_from(dice(256)).unwrap(),
                2 => bytes[at] = b"{}[]\"\\:,0n"[dice(10)],
                3 => {
                    let other = files[dice(files.len())].as_bytes();
                    bytes.splice(at..at, other[dice(other.len())..].iter().copied());
                }
                _ => {
                    bytes.remove(at);
                    if bytes.is_empty() {
                        bytes.push(b'{');
                    }
                }
            }
        }
        let _ = front(&bytes);
        if let Ok(payload) = parse_hook(&bytes) {
            read += 1;
            events += u32::from(HookEvent::try_from(payload).is_ok());
        }
        if let Ok(line) = parse_statusline(&bytes) {
            let _ = Reading::from_statusline(&line, DEFAULT_WINDOW, jiff::Timestamp::UNIX_EPOCH);
        }
    }
    assert!(read > rounds / 10 && events > rounds / 20 && read < rounds, "{read} read, {events} events");
}
