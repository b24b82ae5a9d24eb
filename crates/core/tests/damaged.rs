//! Damaged payloads and transcripts: everything is parsed and judged without a panic, and the scan from the end agrees
//! with a scan of the whole file.
//!
//! `BATON_LONG=1` runs a million of each instead of 10,000.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

use std::fs;
use std::io::Cursor;
use std::path::PathBuf;

use baton_core::event::HookEvent;
use baton_core::level::context_status;
use baton_core::reading::Reading;
use baton_core::transcript::tail::{REACH, Tail, last_usage, last_usage_in};
use baton_core::wire::claude::parse_hook;
use baton_core::wire::claude::statusline::parse_statusline;
use baton_core::wire::front::{Front, front};

/// A small generator of our own (SplitMix64): a seed reproduces a failure.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % sides as u64).unwrap()
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.roll(of.len())]
    }
}

/// Odd values to insert in place of a value or anywhere else.
const ODD: [&str; 24] = [
    "null",
    "true",
    "-1",
    "0",
    "1e999",
    "18446744073709551616",
    "1.5",
    "\"\"",
    "\"../../x\"",
    "\"\\ud83d\"",
    "[]",
    "{}",
    "[[[[",
    "}}",
    "\"",
    "\\",
    ",",
    ":",
    "\u{0}",
    "\u{7f}",
    "\u{2028}",
    "\"usage\":{\"input_tokens\":7}",
    "\"compact_boundary\"",
    "🦀",
];

/// Damages the bytes a few times: changes, removes, doubles, moves or replaces pieces, or tears off the end.
fn damage(bytes: &mut Vec<u8>, dice: &mut Dice) {
    for _ in 0..dice.roll(5) {
        if bytes.is_empty() {
            return;
        }
        let (a, b) = (dice.roll(bytes.len()), dice.roll(bytes.len()));
        let (from, to) = (a.min(b), a.max(b).min(a.min(b) + 40));
        match dice.roll(8) {
            0 => bytes[a] = u8::try_from(dice.roll(256)).unwrap(),
            1 => bytes[a] ^= 1 << dice.roll(8),
            2 => drop(bytes.drain(from..to)),
            3 => {
                let piece = bytes[from..to].to_vec();
                let at = dice.roll(bytes.len());
                bytes.splice(at..at, piece);
            }
            4 => bytes.truncate(a),
            5 => {
                let odd = dice.pick(&ODD).bytes();
                bytes.splice(a..a, odd);
            }
            // Replace at the beginning of a value, so that the rest is still JSON more often than not.
            _ => {
                let Some(colon) = bytes[a..].iter().position(|b| *b == b':') else { continue };
                let start = a + colon + 1;
                let end =
                    bytes[start..].iter().position(|b| matches!(b, b',' | b'}')).map_or(start, |n| start + n);
                let odd = dice.pick(&ODD).bytes();
                bytes.splice(start..end, odd);
            }
        }
    }
}

fn recorded(folder: &str) -> Vec<Vec<u8>> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/claude").join(folder);
    let mut paths: Vec<_> = fs::read_dir(root).unwrap().map(|f| f.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty());
    paths.iter().map(|p| fs::read(p).unwrap()).collect()
}

fn cases() -> u64 {
    if std::env::var_os("BATON_LONG").is_some_and(|v| v == "1") { 1_000_000 } else { 10_000 }
}

#[test]
fn damaged_payloads_never_make_it_panic() {
    let mut all = recorded("hooks");
    all.extend(recorded("statusline"));
    let (mut events, mut readings, mut refused) = (0_u64, 0_u64, 0_u64);
    let now = "2026-11-16T04:00:00Z".parse().unwrap();
    for seed in 0..cases() {
        let mut dice = Dice(seed);
        let mut bytes = dice.pick(&all).clone();
        damage(&mut bytes, &mut dice);
        let payload = match front(&bytes) {
            Front::Complete(end) => &bytes[..end],
            Front::Incomplete | Front::Garbage => &bytes[..],
        };
        match parse_hook(payload).map(HookEvent::try_from) {
            Ok(Ok(_)) => events += 1,
            _ => refused += 1,
        }
        if let Some(reading) =
            parse_statusline(payload).ok().and_then(|l| Reading::from_statusline(&l, 200_000, now))
        {
            assert!(reading.percentage() <= 100, "seed {seed}");
            assert!(reading.total() >= reading.tokens, "seed {seed}");
            readings += 1;
        }
    }
    println!("{} payloads: {events} events, {readings} readings, {refused} refused", cases());
    // Make sure that both outcomes really occur.
    assert!(events > cases() / 5 && readings > cases() / 100 && refused > cases() / 20);
}

#[test]
fn damaged_transcripts_never_make_it_panic() {
    let usage = r#"{"input_tokens":12,"cache_creation_input_tokens":300,"cache_read_input_tokens":61000,"output_tokens":55}"#;
    let records: Vec<Vec<u8>> = [
        r#"{"type":"user","message":{"role":"user","content":"Paint it \"green\"."},"timestamp":"2026-11-16T01:00:00.000Z"}"#.to_owned(),
        format!(r#"{{"isSidechain":false,"message":{{"id":"m","model":"claude-opus-5-5","content":[{{"type":"text","text":"Done."}}],"usage":{usage}}},"type":"assistant","timestamp":"2026-11-16T01:00:01.000Z"}}"#),
        format!(r#"{{"isSidechain":true,"message":{{"model":"claude-opus-5-5","usage":{usage}}},"type":"assistant"}}"#),
        format!(r#"{{"isApiErrorMessage":true,"message":{{"model":"<synthetic>","usage":{usage}}},"type":"assistant"}}"#),
        r#"{"type":"system","subtype":"compact_boundary","compactMetadata":{"trigger":"auto","preTokens":167000,"postTokens":3000},"timestamp":"2026-11-16T01:00:02.000Z"}"#.to_owned(),
        r#"{"type":"summary","summary":"\ud83e\udd80 \"usage\" and \"compact_boundary\""}"#.to_owned(),
    ]
    .map(String::into_bytes)
    .to_vec();
    let (mut usages, mut others) = (0_u64, 0_u64);
    for seed in 0..cases() {
        let mut dice = Dice(!seed);
        let mut bytes = Vec::new();
        for _ in 0..dice.roll(6) {
            bytes.extend_from_slice(dice.pick::<Vec<u8>>(&records));
            bytes.push(b'\n');
        }
        damage(&mut bytes, &mut dice);
        let found = last_usage(&mut Cursor::new(&bytes), REACH).unwrap();
        assert_eq!(found, last_usage_in(&bytes), "seed {seed}");
        let now = "2026-11-16T04:00:00Z".parse().unwrap();
        if let Some(reading) = Reading::from_tail(&found, None, 200_000, now) {
            assert!(reading.percentage() <= 100, "seed {seed}");
        }
        assert!(context_status(baton_core::level::Level::Ok, bytes.len() as u64).starts_with("OK:0.0"));
        match found {
            Tail::Usage(_) => usages += 1,
            _ => others += 1,
        }
    }
    println!("{} transcripts: {usages} with a usage, {others} without", cases());
    assert!(usages > cases() / 10 && others > cases() / 10);
}
