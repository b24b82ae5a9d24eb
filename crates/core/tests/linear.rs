//! Promise: work is linear in its input, however hostile. Every reader of foreign bytes gets repetitive text, and its
//! time is compared with that for ordinary text of the same size, or for less of the same text.
//!
//! We measure the processor time of this thread, so that other work on the machine matters little. A pattern that seems
//! slow is measured again before it fails. `BATON_LONG=1` reads 10 MB of each pattern instead of 400 KB.

#![allow(clippy::unwrap_used, reason = "the entrances are functions of a test")]

use std::hint::black_box;
use std::io::Cursor;
use std::sync::LazyLock;
use std::time::Duration;

use baton_core::checkpoint::Checkpoint;
use baton_core::fence::Key;
use baton_core::handoff::document::Header;
use baton_core::handoff::pack::{pack, pack_document};
use baton_core::handoff::render::render;
use baton_core::ledger::Ledger;
use baton_core::message::shown_in;
use baton_core::plain::{plain, plain_line};
use baton_core::redact::{redact, rules};
use baton_core::search::Query;
use baton_core::transcript::passages::passages;
use baton_core::transcript::summary::Summary;
use baton_core::transcript::tail::{REACH, last_usage};
use baton_core::transcript::{Dialect, rollout};
use baton_core::wire::front::front;
use baton_core::wire::{claude, codex};
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

/// Texts that make a careless reader look at the same bytes again and again.
const PATTERNS: &[&str] = &[
    // Beginnings that never end.
    "-----BEGIN",
    "-----BEGIN ",
    "-----BEGIN PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\n",
    "-----BEGIN RSA PRIVATE KEY-----\nComment: ",
    "-----BEGIN PRIVATE KEY-----\nMIIE\\n",
    "-----END PRIVATE KEY-----",
    "QUJD\n-----END PRIVATE KEY-----\n",
    "Private-Lines: 9\n",
    "LS0tLS1CRUdJTi",
    "LS0tLS1CRUdJTi ",
    "b3BlbnNzaC1rZXktdjEA/",
    "cG9zdGdyZXM6Ly+",
    "cG9zdGdyZXM6Ly9hOmJAYw",
    "Oi8v",
    "Oi8vOi8vOi8vOi8vOi8vOi8vOi8v ",
    "cGFzc3dvcmQ6IGFiY2RlZiBhYmNkZWYg",
    "cGFzc3dvcmQ6IGFiY2RlZiBhYmNkZWYg ",
    "UFdEPSJ4UFdEPSJ4UFdEPSJ4UFdEPSJ4",
    "eyJ-",
    "eyJ.",
    "eyJhbGciOi.eyJ",
    "ZXlK_",
    "hvs.-",
    "sk-ant-api03-",
    "xoxb-",
    "glpat-",
    "ghp_ ",
    "]ghp_",
    "SK ",
    "pat ",
    // Names without values, and values without end.
    "password=",
    "password='",
    "password=\"",
    "password=\"\\\"",
    "password='a''",
    "password='a'\\''",
    "password&quot;:&quot;",
    "password%22%3A%22",
    "password\\u003d",
    "password:\n",
    "\npassword    a1!",
    "setPassword(\"",
    "<password ",
    "'token', '",
    "password[1",
    "password=Some(",
    "PASSWORD=%s\\n' '",
    "https://a1B2c3D4e5F6g7H8i9J0@",
    "echo a1!b | sudo -S ",
    "chpasswd ",
    "chpasswd <<< a:b",
    "htpasswd -b a b c1 ",
    "requirepass ",
    "auth=('a', '",
    "password = \\\"",
    "PASSWORD=",
    "PASSWORD=\"a",
    "PWD=",
    "PWD=\"",
    "token: ",
    "secret\t",
    "api_key=a1",
    "API_KEY=a1b2c3d4",
    "<password>",
    "--password ",
    "key: &str = ",
    "pass-",
    "pass.word",
    "a1B2c3D4.",
    "password=hunter2x9!\n",
    "token=a1B2c3D4e5F6g7H8\n",
    "DB_PASSWORD=$",
    // Addresses, headers and command lines.
    "://",
    "://a:",
    "://a:b",
    "://a:b@",
    "://%",
    "https://u:p@h ",
    "@tcp(",
    "a:b1c@tcp(",
    "Authorization: ",
    "Authorization: Bearer ",
    "bearer a1B2c3D4e5F6g7H8 ",
    "Cookie: ",
    "Cookie: a=b; ",
    "cookie=b=1; ",
    "cookie=\"",
    "sig=",
    "?signature=",
    "curl ",
    "curl -u ",
    "curl -u a:b1c ",
    "curl \\\n",
    "mysql -p",
    "docker login ",
    "machine a login b ",
    ":5432:a:b:",
    "discord ",
    "discord M",
    "kind: Secret\n",
    "kind: Secret\ndata:\n  a: YTFiMmMzZDQ=\n",
    "$6$",
    "$6$a$",
    "$argon2id$",
    "AKIA",
    "AKIAABCDEFGHIJKLMNOP,",
    "heroku",
    "heroku ",
    "x-auth-key: ",
    // Markers of redaction, and text that only looks like them.
    "[REDACTED:token]",
    "[REDACTED:token] = \"a1B2c3D4e5F6g7H8\" ",
    "[REDACTED:",
    "]",
    // Text, shells, Markdown, YAML, JSON.
    " ",
    "\n",
    "a",
    "a\n",
    "é",
    "e.g. ",
    "a. ",
    "1. ",
    "never ",
    "don't ",
    "\"",
    "'",
    "\\",
    "`",
    "``` ",
    "```\n",
    "# ",
    "# a\n",
    "- a\n",
    "<<",
    "<<-",
    "<< a",
    "cat <<a ",
    "a;",
    "a=b ",
    "sudo ",
    "rm a ",
    "> a ",
    "a > b\n",
    "(",
    "{",
    "[",
    "[\"a, ",
    "['",
    "goal: [",
    "goal: a\n",
    "a:\n",
    "next:\n- ",
    "<!-- A: b -->\n",
    "[baton message m",
    "#1 ",
    "a.rs ",
    "1a2b3c4 ",
    "src/a/b.rs:12 ",
    "https://github.com/a/b/pull/1 ",
    "[main 1a2b3c4] a\n",
    "Exit code 1\n",
    "<system-reminder>",
    "<command-name>",
    "the user said: ",
    // Escapes and disguises.
    "\u{1b}",
    "\u{1b}[",
    "\u{1b}[1;",
    "\u{1b}]0;",
    "\u{1b}P",
    "\u{9b}",
    "\u{200d}",
    "👩\u{200d}",
    "\u{202e}",
    "\r",
    "\u{85}",
];

fn is_long() -> bool {
    std::env::var_os("BATON_LONG").is_some_and(|v| v == "1")
}

fn repeated(piece: &str, len: usize) -> String {
    piece.repeat(len / piece.len() + 1)
}

/// Text as in real sessions, never the same line twice, with a secret now and then.
fn ordinary(len: usize) -> String {
    const WORDS: &[&str] = &[
        "the",
        "parser",
        "keeps",
        "a",
        "span",
        "of",
        "every",
        "token",
        "so",
        "that",
        "errors",
        "point",
        "at",
        "it",
        "and",
        "tests",
        "pass",
        "again",
        "after",
        "commit",
        "branch",
        "public",
        "interface",
        "returns",
        "Option",
        "Result",
        "password",
        "login",
        "session",
        "context",
        "should",
        "never",
        "touch",
        "this",
        "key",
        "value",
        "map",
        "config",
        "default",
        "path",
        "file",
        "line",
        "src/lib.rs",
        "crates/core/src/parser.rs:120",
        "https://example.org/docs/a?b=c",
        "max_tokens=4096",
        "fn",
        "let",
        "mut",
        "self",
        "impl",
        "struct",
        "import",
        "from",
        "const",
        "await",
        "async",
        "=>",
        "->",
        "{",
        "}",
        "(",
        ")",
        "();",
        "==",
        "\"name\":",
        "`code`",
        "**bold**",
        "- [ ]",
        "1.",
        "e.g.",
        "(see",
        "below)",
        "git",
        "status",
        "cargo",
        "npm",
        "install",
        "--release",
        "-p",
        "ok.",
        "failed;",
        "42",
        "0.31s",
        "README.md",
        "api_key",
        "process.env.API_KEY",
        "é",
        "→",
        "resolved",
        "because",
        "credential",
        "curl",
    ];
    const LETTERS: [char; 36] = {
        let (mut letters, mut i) = (['0'; 36], 0);
        while i < 36 {
            letters[i] = b"abcdefghijklmnopqrstuvwxyz0123456789"[i] as char;
            i += 1;
        }
        letters
    };
    let mut state = 7_u64;
    let mut random = move |n: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as usize % n
    };
    let mut text = String::with_capacity(len + 200);
    let mut secrets = 0;
    while text.len() < len {
        for _ in 0..3 + random(15) {
            match random(12) {
                // A name that occurs nowhere else, and a hash.
                0 => text.extend((0..3 + random(9)).map(|_| LETTERS[random(26)])),
                1 => text.extend((0..8).map(|_| LETTERS[26 + random(10)])),
                _ => text.push_str(WORDS[random(WORDS.len())]),
            }
            text.push([' ', ' ', ' ', '_', '.', ','][random(6)]);
        }
        text.push('\n');
        if text.len() / 4_000 > secrets {
            secrets += 1;
            text.push_str("export DB_PASSWORD=hunter2x9!\n");
        }
    }
    text
}

fn processor_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(now).expect("it began at zero")
}

/// The fastest of `tries` runs.
fn time_of(tries: usize, mut run: impl FnMut()) -> Duration {
    let once = |run: &mut dyn FnMut()| {
        let start = processor_time();
        run();
        processor_time().saturating_sub(start)
    };
    (0..tries).map(|_| once(&mut run)).min().unwrap_or_default()
}

fn ratio(a: Duration, b: Duration) -> f64 {
    a.as_secs_f64() / b.as_secs_f64().max(1e-9)
}

/// How much longer redaction may take than for ordinary text: the promise is 2, the rest allows for a busy machine.
const MOST: f64 = 2.5;

/// That ratio, measured in turns with the ordinary text, so that other work on the machine slows down both.
fn confirmed(text: &str, usual: &str) -> f64 {
    let mut least = [Duration::MAX; 2];
    // The shorter the text, the more one interruption matters.
    let rounds = if text.len() < 1_000_000 { 40 } else { 5 };
    for _ in 0..rounds {
        for (least, text) in least.iter_mut().zip([text, usual]) {
            *least = (*least).min(time_of(1, || drop(black_box(redact(text)))));
        }
    }
    ratio(least[0], least[1])
}

#[test]
fn no_pattern_makes_redaction_slow() {
    let len = if is_long() { 10_000_000 } else { 400_000 };
    let usual = ordinary(len);
    let hits = redact(&usual).hits.len();
    assert!((len / 20_000..len / 2_000).contains(&hits), "{hits} hits in ordinary text");
    let tries = if is_long() { 2 } else { 3 };
    let baseline = time_of(tries + 2, || drop(black_box(redact(&usual))));
    let mut slow = Vec::new();
    let mut worst = (0.0, "");
    for pattern in PATTERNS {
        let text = repeated(pattern, len);
        let mut found = ratio(time_of(tries, || drop(black_box(redact(&text)))), baseline);
        for _ in 0..3 {
            if found > MOST {
                found = found.min(confirmed(&text, &usual));
            }
        }
        println!("{found:6.2} {pattern:?}");
        if found > worst.0 {
            worst = (found, pattern);
        }
        if found > MOST {
            slow.push(format!("{pattern:?}: {found:.1} times as long as ordinary text"));
        }
    }
    println!("ordinary text {baseline:?} for {len} bytes; worst {worst:?}");
    assert!(slow.is_empty(), "{}", slow.join("\n"));
}

/// Every keyword of every rule, in the surroundings that trigger its rule.
#[test]
fn no_keyword_makes_redaction_slow() {
    let len = if is_long() { 1_000_000 } else { 60_000 };
    let usual = ordinary(len);
    let baseline = time_of(5, || drop(black_box(redact(&usual))));
    let mut slow = Vec::new();
    let mut words: Vec<&str> = rules().flat_map(|rule| rule.2.iter().copied()).collect();
    words.sort_unstable();
    words.dedup();
    for word in words {
        for (before, after) in
            [("", ""), (" ", ""), ("-", ""), ("", "="), ("\"", "\": \""), ("", "a1B2c3"), ("\n", " a1")]
        {
            let text = repeated(&[before, word, after].concat(), len);
            let mut found = ratio(time_of(1, || drop(black_box(redact(&text)))), baseline);
            for _ in 0..3 {
                if found > MOST {
                    found = found.min(confirmed(&text, &usual));
                }
            }
            if found > MOST {
                slow.push(format!("{before:?} {word:?} {after:?}: {found:.1} times as long"));
            }
        }
    }
    assert!(slow.is_empty(), "{}", slow.join("\n"));
}

/// One function that reads foreign bytes: how to make its input from a text, and how to read it.
struct Entrance {
    name: &'static str,
    input: fn(&str) -> String,
    read: fn(&str),
}

fn line(value: &serde_json::Value) -> String {
    format!("{value}\n")
}

fn claude_call(name: &str, input: &serde_json::Value, output: &str, failed: bool) -> String {
    line(&json!({ "type": "assistant", "message": { "content": [
        { "type": "tool_use", "id": "t", "name": name, "input": input }] } }))
        + &line(&json!({ "type": "user", "message": { "content": [
            { "type": "tool_result", "tool_use_id": "t", "is_error": failed, "content": output }] } }))
}

fn codex_line(payload: &serde_json::Value) -> String {
    line(&json!({ "timestamp": "2026-01-09T14:00:00Z", "type": "response_item", "payload": payload }))
}

fn read_ledger(text: &str) {
    let ledger = Ledger::of(text.as_bytes()).unwrap();
    black_box(pack(&ledger, None, 9_500, "/path"));
    black_box(render(&ledger, None));
}

/// A ledger full of facts, to check an agent's claims against.
static SESSION: LazyLock<Ledger> = LazyLock::new(|| {
    let mut session = String::new();
    for n in 0..400 {
        let said = format!("Point {n}: never drop row {n} of src/part_{n}.rs.");
        session += &line(&json!({ "type": "user", "message": { "content": said } }));
        let path = format!("/app/src/part_{n}.rs");
        session += &claude_call("Edit", &json!({ "file_path": path }), "ok", false);
        let run = format!("cargo test part_{n} && git commit");
        session += &claude_call(
            "Bash",
            &json!({ "command": run }),
            &format!("[main 1a2b3{n:03}] a\n12 passed"),
            false,
        );
    }
    Ledger::of(session.as_bytes()).unwrap()
});

#[rustfmt::skip]
const ENTRANCES: &[Entrance] = &[
    Entrance { name: "plain text", input: str::to_owned, read: |text| { black_box(plain(text)); } },
    Entrance { name: "one line", input: str::to_owned, read: |text| { black_box(plain_line(text, 80)); } },
    Entrance { name: "front of a payload", input: |text| format!("{{{text}"), read: |text| { black_box(front(text.as_bytes())); } },
    Entrance {
        name: "payload of Claude Code",
        input: |text| json!({ "hook_event_name": "Stop", "session_id": "s", "last_assistant_message": text, "prompt": text, "tool_input": { "command": text }, "background_tasks": [text] }).to_string(),
        read: |text| {
            front(text.as_bytes());
            let payload = claude::parse_hook(text.as_bytes()).unwrap();
            black_box((payload.tasks(), payload.crons()));
        },
    },
    Entrance {
        name: "payload of Codex",
        input: |text| json!({ "hook_event_name": "Stop", "session_id": "s", "last_assistant_message": text, "prompt": text }).to_string(),
        read: |text| { black_box(codex::parse_hook(text.as_bytes()).unwrap()); },
    },
    Entrance {
        name: "raw payload",
        input: |text| format!("{{\"a\":{text}"),
        read: |text| { let _ = black_box(claude::parse_hook(text.as_bytes())); let _ = black_box(codex::app::read(text)); },
    },
    Entrance { name: "prompt", input: |text| line(&json!({ "type": "user", "message": { "content": text } })), read: read_ledger },
    Entrance {
        name: "answer",
        input: |text| line(&json!({ "type": "assistant", "message": { "content": [{ "type": "text", "text": text }] } })),
        read: read_ledger,
    },
    Entrance { name: "command", input: |text| claude_call("Bash", &json!({ "command": text }), "Exit code 1", true), read: read_ledger },
    Entrance { name: "command that worked", input: |text| claude_call("Bash", &json!({ "command": text }), "ok", false), read: read_ledger },
    Entrance { name: "output", input: |text| claude_call("Bash", &json!({ "command": "git status && go test" }), text, false), read: read_ledger },
    Entrance { name: "output of a failure", input: |text| claude_call("Bash", &json!({ "command": "go test" }), text, true), read: read_ledger },
    Entrance { name: "refusal", input: |text| claude_call("Bash", &json!({ "command": "a" }), &format!("The user doesn't want to proceed. the user said: {text}"), true), read: read_ledger },
    Entrance { name: "file", input: |text| claude_call("Write", &json!({ "file_path": text, "content": "" }), "ok", false), read: read_ledger },
    Entrance { name: "raw transcript", input: str::to_owned, read: read_ledger },
    Entrance {
        name: "message of Codex",
        input: |text| codex_line(&json!({ "type": "message", "role": "user", "content": [{ "type": "input_text", "text": text }] })),
        read: read_ledger,
    },
    Entrance {
        name: "call of Codex",
        input: |text| codex_line(&json!({ "type": "function_call", "name": "shell", "call_id": "c", "arguments": json!({ "command": ["bash", "-lc", text] }).to_string() }))
            + &codex_line(&json!({ "type": "function_call_output", "call_id": "c", "output": text })),
        read: read_ledger,
    },
    Entrance {
        name: "search and summary",
        input: |text| line(&json!({ "type": "user", "sessionId": "s", "message": { "content": text } })),
        read: |text| {
            let mut summary = Summary::default();
            summary.head(text.as_bytes());
            summary.tail(text.as_bytes());
            black_box(passages(Dialect::Claude, text.as_bytes()));
            black_box(Query::words("parser spans").unwrap().find(text));
        },
    },
    Entrance {
        name: "tail of a transcript",
        input: str::to_owned,
        read: |text| {
            black_box(last_usage(&mut Cursor::new(text.as_bytes()), REACH).unwrap());
            black_box(rollout::last_usage(&mut Cursor::new(text.as_bytes()), REACH).unwrap());
        },
    },
    Entrance { name: "checkpoint", input: str::to_owned, read: |text| { black_box(Checkpoint::parse(text)); } },
    Entrance { name: "value of a checkpoint", input: |text| format!("goal: {text}"), read: |text| { black_box(Checkpoint::parse(text)); } },
    Entrance {
        name: "document",
        input: str::to_owned,
        read: |text| { let _ = black_box(Header::parse(text)); black_box(pack_document(text, BUDGET, "/path")); },
    },
    Entrance { name: "an agent's own words", input: str::to_owned, read: |text| { black_box(pack(&SESSION, Some(text), BUDGET, "/path")); } },
    Entrance { name: "mail", input: str::to_owned, read: |text| { black_box(shown_in(text, &Key::new([7; 32]))); } },
];

/// So small that an eighth of the input does not fit, also where each character takes four bytes: a text that fits is not
/// packed.
const BUDGET: usize = 3_000;

/// Eight times the input may take eight times as long, plus half of that again for caches and the allocator.
const GROWTH: usize = 8;
const MOST_GROWTH: f64 = 12.0;

#[test]
fn no_pattern_makes_a_reader_slow() {
    // Readers skip lines of more than 8 MB, so stay below that. See BUDGET for the smaller length.
    let len = if is_long() { 7_500_000 } else { 120_000 };
    let mut slow = Vec::new();
    for entrance in ENTRANCES {
        let (mut worst, mut slowest) = ((0.0, ""), (0.0, ""));
        for pattern in PATTERNS {
            let [few, many] = [len / GROWTH, len].map(|len| (entrance.input)(&repeated(pattern, len)));
            let measure = |tries| {
                let few = time_of(tries + 1, || (entrance.read)(&few)).max(Duration::from_micros(20));
                ratio(time_of(tries, || (entrance.read)(&many)), few)
            };
            let mut found = measure(1);
            for _ in 0..3 {
                if found > MOST_GROWTH {
                    found = found.min(measure(3));
                }
            }
            if found > worst.0 {
                worst = (found, pattern);
            }
            let per_byte = time_of(1, || (entrance.read)(&many)).as_secs_f64() * 1e9 / many.len() as f64;
            if per_byte > slowest.0 {
                slowest = (per_byte, pattern);
            }
            if found > MOST_GROWTH {
                slow.push(format!(
                    "{}: {pattern:?} takes {found:.1} times as long for {GROWTH} times as much",
                    entrance.name
                ));
            }
        }
        println!("{:24} worst growth {worst:.1?}, slowest {slowest:.0?} ns per byte", entrance.name);
    }
    assert!(slow.is_empty(), "{}", slow.join("\n"));
}
