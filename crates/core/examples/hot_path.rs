//! What the hot path's pure half costs: `cargo run --release -p baton-core --example hot_path [MB]`.
//!
//! Times are medians of 2,000 rounds, with everything in memory; the argument is the large transcript's size.

use std::hint::black_box;
use std::io::Cursor;
use std::time::Instant;

use baton_core::event::HookEvent;
use baton_core::latch::{Latches, Voice};
use baton_core::level::Thresholds;
use baton_core::reading::{DEFAULT_WINDOW, Reading};
use baton_core::transcript::tail::{REACH, last_usage};
use baton_core::wire::claude::parse_hook;
use baton_core::wire::claude::statusline::parse_statusline;
use baton_core::wire::front::front;

fn median_ns(mut f: impl FnMut()) -> u128 {
    let mut times: Vec<_> = (0..2_000)
        .map(|_| {
            let start = Instant::now();
            f();
            start.elapsed().as_nanos()
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}

fn payload(size: usize) -> Vec<u8> {
    let head = r#"{"session_id":"11111111-2222-4333-8444-555555555555","transcript_path":"/home/dev/.claude/projects/-home-dev-proj/11111111-2222-4333-8444-555555555555.jsonl","cwd":"/home/dev/proj","prompt_id":"aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee","permission_mode":"default","effort":{"level":"medium"},"hook_event_name":"PostToolUse","tool_name":"Bash","tool_input":{"command":"cargo test","description":"Run the tests"},"tool_response":{"stdout":""#;
    let tail = r#"","stderr":"","interrupted":false,"isImage":false},"tool_use_id":"toolu_0123456789","duration_ms":64}"#;
    let mut bytes = head.as_bytes().to_vec();
    while bytes.len() + tail.len() < size {
        bytes.extend_from_slice(b"test wire::reads_a_line ... ok\\n");
    }
    bytes.extend_from_slice(tail.as_bytes());
    bytes
}

fn transcript(size: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(size + 64 * 1024);
    let text = "some output of a tool that went on for a while\\n".repeat(170);
    while bytes.len() < size {
        let n = bytes.len() / 1000 % 160_000;
        bytes.extend_from_slice(format!(r#"{{"parentUuid":"p","isSidechain":false,"type":"user","message":{{"role":"user","content":[{{"type":"tool_result","content":"{text}"}}]}},"timestamp":"2026-11-16T01:28:52.090Z"}}
{{"parentUuid":"p","isSidechain":false,"message":{{"id":"msg","type":"message","role":"assistant","model":"claude-opus-5-5","content":[{{"type":"text","text":"Done."}}],"usage":{{"input_tokens":{n},"cache_creation_input_tokens":0,"cache_read_input_tokens":58950,"output_tokens":50}}}},"type":"assistant","timestamp":"2026-11-16T01:28:52.090Z"}}
{{"type":"system","subtype":"turn_duration","durationMs":12,"timestamp":"2026-11-16T01:28:52.090Z"}}
"#).as_bytes());
    }
    bytes
}

const STATUS: &[u8] = br#"{"session_id":"11111111-2222-4333-8444-555555555555","transcript_path":"/home/dev/t.jsonl","cwd":"/home/dev/proj","model":{"id":"claude-opus-5-5","display_name":"Opus 5.5"},"workspace":{"current_dir":"/home/dev/proj","project_dir":"/home/dev/proj","added_dirs":[]},"version":"2.1.325","cost":{"total_cost_usd":0.0094,"total_duration_ms":2448},"context_window":{"total_input_tokens":40100,"total_output_tokens":50,"context_window_size":1000000,"current_usage":{"input_tokens":100,"output_tokens":50,"cache_creation_input_tokens":0,"cache_read_input_tokens":40000},"used_percentage":4,"remaining_percentage":96},"exceeds_200k_tokens":false}"#;

fn main() {
    let megabytes = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(256usize);
    let now = jiff::Timestamp::UNIX_EPOCH;

    for size in [1 << 10, 5 << 10, 2 << 20] {
        let bytes = payload(size);
        let parse = median_ns(|| {
            black_box(parse_hook(black_box(&bytes)).is_ok());
        });
        let event = median_ns(|| {
            let payload = parse_hook(black_box(&bytes));
            black_box(payload.is_ok_and(|p| HookEvent::try_from(p).is_ok()));
        });
        let end = median_ns(|| {
            black_box(front(black_box(&bytes)));
        });
        println!(
            "hook payload of {size:>7} B: parse {parse} ns, with event {event} ns, finding its end {end} ns"
        );
    }
    let line = median_ns(|| {
        let line = parse_statusline(black_box(STATUS));
        black_box(line.ok().and_then(|l| Reading::from_statusline(&l, DEFAULT_WINDOW, now)));
    });
    println!("status line payload to reading: {line} ns");

    for size in [1usize << 20, megabytes << 20] {
        let bytes = transcript(size);
        let mut found = None;
        let scan = median_ns(|| found = last_usage(&mut Cursor::new(black_box(&bytes)), REACH).ok());
        let reading = found.and_then(|t| Reading::from_tail(&t, None, DEFAULT_WINDOW, now));
        let decide = median_ns(|| {
            if let Some(reading) = black_box(reading) {
                let level = Thresholds::default().limits(reading.window, 967_000).level(&reading);
                black_box(Latches::default().at_level(level, Voice::default()));
            }
        });
        println!("tail of {:>4} MB: scan {scan} ns, level and latch {decide} ns", size >> 20);
    }
}
