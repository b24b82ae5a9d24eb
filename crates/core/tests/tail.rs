//! Compares the backward scan with a full parse from the beginning, on transcripts made to mislead it.
//!
//! `BATON_LONG=1` runs 100,000 files instead of 2,000.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

use std::io::{self, Cursor, Read, Seek, SeekFrom};

use baton_core::transcript::tail::{self, Compacted, REACH, Tail, TailUsage, last_usage, last_usage_in};
use serde_json::{Value, json};

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
        const WORDS: [&str; 10] = [
            "plain words ",
            "\"usage\":{\"input_tokens\":1}",
            "{\"type\":\"assistant\",\"message\":{\"model\":\"m\",\"usage\":{\"input_tokens\":7}}}\n",
            "compact_boundary",
            "\"compact_boundary\"",
            "\\",
            "\n\n",
            "ünïcödé 🦀 ",
            "}]}",
            "\u{2028}",
        ];
        // Mostly short; occasionally longer than a block, so that a line spans several blocks.
        let repeat = if self.roll(40) == 0 { 6_000 + self.roll(9_000) } else { self.roll(8) };
        (0..repeat).map(|_| WORDS[usize::try_from(self.roll(10)).unwrap()]).collect()
    }
}

fn stamp(dice: &mut Dice) -> String {
    format!("2026-11-{:02}T{:02}:00:00.{:03}Z", 1 + dice.roll(28), dice.roll(24), dice.roll(1000))
}

fn record(dice: &mut Dice) -> Value {
    let text = dice.text();
    let (input, creation, read) = (dice.roll(2_000), dice.roll(500), dice.roll(160_000));
    let usage = json!({"input_tokens": input, "cache_creation_input_tokens": creation,
        "cache_read_input_tokens": read, "output_tokens": dice.roll(900),
        "cache_creation": {"ephemeral_5m_input_tokens": 0}, "iterations": []});
    let at = stamp(dice);
    let assistant = |model: &str, usage: Value| {
        json!({"parentUuid": "p", "isSidechain": false, "message": {"id": "msg", "type": "message", "role": "assistant",
            "model": model, "content": [{"type": "text", "text": text}], "usage": usage}, "type": "assistant",
            "uuid": "u", "timestamp": at})
    };
    match dice.roll(16) {
        0..=3 => assistant("claude-opus-5-5", usage),
        4 => {
            let mut r = assistant("claude-opus-5-5", usage);
            r["isSidechain"] = true.into();
            r
        }
        5 => assistant("<synthetic>", if dice.roll(2) == 0 { usage } else { json!({"input_tokens": 0}) }),
        6 => {
            let mut r = assistant("claude-opus-5-5", usage);
            r["isApiErrorMessage"] = true.into();
            r
        }
        7 => assistant("claude-opus-5-5", json!({"input_tokens": 0, "output_tokens": 3})),
        8 => assistant("claude-opus-5-5", if dice.roll(2) == 0 { Value::Null } else { json!("soon") }),
        9 => {
            let mut metadata =
                json!({"trigger": if dice.roll(2) == 0 { "auto" } else { "manual" }, "preTokens": read});
            if dice.roll(2) == 0 {
                metadata["postTokens"] = dice.roll(9_000).into();
            }
            let mut r = json!({"parentUuid": null, "isSidechain": dice.roll(5) == 0, "type": "system",
                "subtype": "compact_boundary", "content": "Conversation compacted", "timestamp": at});
            if dice.roll(6) > 0 {
                r["compactMetadata"] = metadata;
            }
            r
        }
        10 => {
            json!({"type": "attachment", "isSidechain": false, "attachment": {"prompt": text, "usage": {"totalTokens": 20}}})
        }
        11 => json!({"type": "system", "subtype": "turn_duration", "content": text, "timestamp": at}),
        12 => json!(["system", "compact_boundary", false, false, at, {"usage": usage}]),
        13 => {
            json!({"type": "user", "toolUseResult": {"usage": usage, "type": "assistant"}, "message": {"content": text}})
        }
        _ => {
            json!({"type": "user", "isSidechain": false, "message": {"role": "user", "content": text}, "timestamp": at})
        }
    }
}

fn transcript(dice: &mut Dice) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..dice.roll(14) {
        match dice.roll(14) {
            0 => bytes.extend_from_slice(b"\n"),
            // A line torn in the middle of the file: the client was killed and continued later.
            1 => {
                let line = serde_json::to_vec(&record(dice)).unwrap();
                let cut = usize::try_from(dice.roll(line.len() as u64)).unwrap();
                bytes.extend_from_slice(&line[..cut]);
                bytes.push(b'\n');
            }
            2 => bytes.extend_from_slice(b"\xff\xfe \"usage\" \0\n"),
            _ => {
                serde_json::to_writer(&mut bytes, &record(dice)).unwrap();
                bytes.push(b'\n');
            }
        }
    }
    // The last line is often still being written.
    if dice.roll(3) == 0 && !bytes.is_empty() {
        let cut = usize::try_from(dice.roll(1 + bytes.len().min(600) as u64)).unwrap();
        bytes.truncate(bytes.len() - cut);
    }
    bytes
}

/// The slow way: parse every line from the beginning as untyped JSON.
fn full_parse(bytes: &[u8]) -> Tail {
    let mut last = Tail::Nothing;
    for line in bytes.split(|&b| b == b'\n') {
        let Ok(r) = serde_json::from_slice::<Value>(line) else { continue };
        if r["isSidechain"] == true {
            continue;
        }
        let at = r["timestamp"].as_str().and_then(|t| t.parse().ok());
        if r["type"] == "assistant"
            && r["isApiErrorMessage"] != true
            && r["message"]["model"] != "<synthetic>"
        {
            let n = |key: &str| r["message"]["usage"][key].as_u64().unwrap_or(0);
            let tokens = n("input_tokens") + n("cache_creation_input_tokens") + n("cache_read_input_tokens");
            if tokens > 0 {
                let model = r["message"]["model"].as_str().map(str::to_owned);
                last = Tail::Usage(TailUsage { tokens, output: n("output_tokens"), window: None, model, at });
            }
        } else if r["type"] == "system" && r["subtype"] == "compact_boundary" {
            let n = |key: &str| r["compactMetadata"][key].as_u64();
            let auto = r["compactMetadata"]["trigger"] == "auto";
            last = Tail::Compacted(Compacted {
                auto,
                pre_tokens: n("preTokens"),
                post_tokens: n("postTokens"),
                at,
            });
        }
    }
    last
}

#[test]
fn the_scan_from_the_end_equals_a_full_parse_on_generated_transcripts() {
    let files = if std::env::var_os("BATON_LONG").is_some() { 100_000 } else { 2_000 };
    let (mut usages, mut compactions, mut nothings, mut long) = (0, 0, 0, 0);
    for seed in 0..files {
        let bytes = transcript(&mut Dice(seed));
        let expected = full_parse(&bytes);
        assert_eq!(last_usage(&mut Cursor::new(&bytes), REACH).unwrap(), expected, "seed {seed}");
        assert_eq!(last_usage_in(&bytes), expected, "seed {seed}, in memory");
        match expected {
            Tail::Usage(_) => usages += 1,
            Tail::Compacted(_) => compactions += 1,
            _ => nothings += 1,
        }
        long += u64::from(bytes.len() > 200_000);
    }
    // Make sure that the generator produces every case.
    assert!(usages > files / 4 && compactions > files / 20 && nothings > files / 50 && long > files / 100);
}

fn answer(tokens: u64) -> String {
    format!(
        "{}\n",
        json!({"type": "assistant", "isSidechain": false, "timestamp": "2026-11-16T01:00:00Z",
        "message": {"model": "claude-opus-5-5", "usage": {"input_tokens": tokens, "output_tokens": 5}}})
    )
}

fn tokens(tail: &Tail) -> Option<u64> {
    match tail {
        Tail::Usage(u) => Some(u.tokens),
        _ => None,
    }
}

#[test]
fn usage_before_the_last_compaction_is_not_the_current_fill() {
    let boundary = |metadata: Value| {
        format!("{}\n", json!({"type": "system", "subtype": "compact_boundary", "compactMetadata": metadata}))
    };
    let old = format!("{}{}", answer(160_000), boundary(json!({"preTokens": 167_000})));
    let expected = Compacted { auto: false, pre_tokens: Some(167_000), post_tokens: None, at: None };
    assert_eq!(last_usage_in(old.as_bytes()), Tail::Compacted(expected));
    let new = format!("{}{}", answer(160_000), boundary(json!({"preTokens": 167_000, "postTokens": 2_875})));
    assert!(matches!(last_usage_in(new.as_bytes()), Tail::Compacted(c) if c.post_tokens == Some(2_875)));
    let after = format!("{new}{}", answer(9_000));
    assert_eq!(tokens(&last_usage_in(after.as_bytes())), Some(9_000));
}

#[test]
fn an_empty_file_and_a_file_without_answers_say_nothing() {
    for text in ["", "\n", "{\"type\":\"user\"}\n", "torn"] {
        assert_eq!(last_usage(&mut Cursor::new(text), REACH).unwrap(), Tail::Nothing, "{text:?}");
    }
}

#[test]
fn an_answer_with_half_a_character_in_its_text_still_counts() {
    let line = answer(42).replacen('{', r#"{"cut":"\ud83d","#, 1);
    assert!(serde_json::from_str::<Value>(&line).is_err(), "strict parsing was meant to fail here");
    assert_eq!(tokens(&last_usage_in(line.as_bytes())), Some(42));
}

/// Counts the bytes read, to show that the work does not grow with the file.
struct Counted<R>(R, u64);

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.0.read(buf)?;
        self.1 += n as u64;
        Ok(n)
    }
}

impl<R: Seek> Seek for Counted<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.seek(to)
    }
}

#[test]
fn a_large_file_costs_what_a_small_one_does() {
    let mut bytes = Vec::new();
    while bytes.len() < 20_000_000 {
        bytes.extend_from_slice(answer(bytes.len() as u64).as_bytes());
        serde_json::to_writer(&mut bytes, &json!({"type": "user", "content": "x".repeat(9_000)})).unwrap();
        bytes.push(b'\n');
    }
    bytes.extend_from_slice(answer(123).as_bytes());
    let mut counted = Counted(Cursor::new(&bytes), 0);
    assert_eq!(tokens(&last_usage(&mut counted, REACH).unwrap()), Some(123));
    assert_eq!(counted.1, 16 * 1024);
}

#[test]
fn a_line_of_megabytes_is_crossed_with_each_byte_read_once() {
    let mut text = answer(777);
    text.push_str(&json!({"type": "user", "content": "y".repeat(5_000_000)}).to_string());
    text.push('\n');
    let mut counted = Counted(Cursor::new(&text), 0);
    assert_eq!(tokens(&last_usage(&mut counted, REACH).unwrap()), Some(777));
    assert_eq!(counted.1, text.len() as u64);
}

#[test]
fn beyond_its_reach_the_scan_says_that_it_does_not_know() {
    let mut text = answer(777);
    text.push_str(&json!({"type": "user", "content": "y".repeat(300_000)}).to_string());
    text.push('\n');
    assert_eq!(last_usage(&mut Cursor::new(&text), 200_000).unwrap(), Tail::OutOfReach);
    let mut counted = Counted(Cursor::new(&text), 0);
    assert_eq!(tail::last_usage(&mut counted, 200_000).unwrap(), Tail::OutOfReach);
    assert_eq!(counted.1, 200_000);
}

/// Runs on real transcripts if `BATON_CORPUS` names a folder of `.jsonl` files.
#[test]
fn the_scan_equals_a_full_parse_on_real_transcripts() {
    let Some(folder) = std::env::var_os("BATON_CORPUS") else { return };
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "jsonl") {
            let bytes = std::fs::read(&path).unwrap();
            assert_eq!(last_usage_in(&bytes), full_parse(&bytes), "{}", path.display());
        }
    }
}
